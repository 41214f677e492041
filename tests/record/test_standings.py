"""Where many studies stand is asked in a number of statements that does not grow with them."""

import json
from contextlib import closing
from dataclasses import replace
from hashlib import sha256

import pytest
from typer.testing import CliRunner

from zenturio.cli.main import app
from zenturio.errors import NotFoundError
from zenturio.record import SPACES, DriverProcess, Field, StudyDefinition
from zenturio.record.database import Transaction
from zenturio.record.open import open_repository
from zenturio.study.overview import study_status, study_statuses
from zenturio.testing.experiments import experiment, outcome
from zenturio.testing.repository_machines import RISCV, ZEN5

DEFINITION = StudyDefinition(
    (Field("n", "int"),), (), sources={"a.sh": b"echo"},
    notes={"experiments": 3, "run": {"on": "local"}, SPACES: ["one"]},
)  # fmt: skip


def enter(repository, name, count=1, *, release=True):
    """A study with some results; its driver goes on, unless it is to *release* its lease."""
    repository.open(name, DEFINITION)
    lease = repository.acquire_lease(name, DriverProcess.current(), draws_seed=True)  # as a run
    experiments = [experiment(number) for number in range(count)]
    repository.add_results(name, lease.number, [(e, outcome(e)) for e in experiments])
    if release:
        repository.release_lease(lease)
    return lease


@pytest.fixture
def repository(url):
    """An empty repository in each kind of database."""
    opened = open_repository(url)
    yield opened
    opened.close()


@pytest.fixture
def statements(monkeypatch):
    """The statements so far."""
    texts = []
    plain = Transaction.sql

    def counted(self, text, parameters=()):
        texts.append(text)
        return plain(self, text, parameters)

    monkeypatch.setattr(Transaction, "sql", counted)
    return texts


def test_the_first_round_is_of_who_took_the_first_lease(repository):
    def drive(name, *people):
        for person in people:
            lease = enter(repository, name)
            statement = f"UPDATE leases SET person = '{person}' WHERE id = {lease.number}"
            repository._database.write(lambda transaction, text=statement: transaction.sql(text))

    drive("other", "zoe")
    repository.open("mine", DEFINITION)
    drive("mine", "ann", "bob")
    drive("another", "eve")
    standings = {each.info.name: each for each in repository.standings()}
    repository._database.write(lambda transaction: transaction.sql("DELETE FROM rounds"))
    for name, person in (("other", "zoe"), ("mine", "ann"), ("another", "eve")):
        assert [each.person for each in repository.rounds(name)] == [person]
        (standing,) = [each for each in repository.standings() if each.info.name == name]
        assert [each.person for each in standing.rounds] == [person]
        repository.order_seed(name)  # the round has a row from here on
        assert [each.person for each in repository.rounds(name)] == [person]
    assert standings.keys() == {"other", "mine", "another"}


def test_an_attempt_that_runs_and_one_of_a_host_that_was_lost_have_no_machine(repository, url):
    lease = repository.open("s", DEFINITION) and repository.acquire_lease(
        "s", DriverProcess.current()
    )
    of = experiment(1)
    repository.claim("s", lease.number, [of])
    repository.record("s", lease.number, [replace(outcome(of, "failed"), machine=ZEN5)])
    repository.reopen("s", [of.digest])
    repository.claim("s", lease.number, [of])
    attempts = repository.attempts(of.digest)
    assert [each.machine for each in attempts] == [ZEN5, None]
    assert attempts[1].host_details is None
    repository._database.write(lambda transaction: transaction.sql("DELETE FROM hosts"))
    with closing(open_repository(url)) as another:
        for each in another.attempts(of.digest):
            assert (each.machine, each.host_details) == (None, None)
    repository.release_lease(lease)


def test_standings_are_what_is_told_of_each_study(repository):
    enter(repository, "plain", 2)
    running = enter(repository, "running", 1, release=False)
    repository.claim("running", running.number, [experiment(7)])
    enter(repository, "again", 2)
    repository.begin_round("again", "once more")
    lease = enter(repository, "again", 1, release=False)
    repository.release_lease(lease)
    repository.open("empty", DEFINITION)
    found = {standing.info.name: standing for standing in repository.standings()}
    assert list(found) == [study.name for study in repository.studies()]
    for name, standing in found.items():
        assert standing.info == repository.study(name)
        assert standing.counts == repository.count_states(name)
        assert standing.results == repository.count_results(name)
        assert standing.leases == repository.leases(name)
        assert standing.rounds == repository.rounds(name)
        definition = repository.definition(name)
        assert standing.notes == definition.notes
        digests = {path: sha256(body).hexdigest() for path, body in definition.sources.items()}
        assert standing.sources == digests != {}
        events = repository.events(name)
        assert standing.last_event == (events[-1].at if events else standing.info.created)
    named = repository.standings(["again", "nowhere", "plain"])
    assert [standing.info.name for standing in named] == ["plain", "again"]


def test_lists_come_in_the_order_in_which_they_grew(repository):
    """Of three studies the one in the middle: its drivers, events, results, files and programs."""
    first, second, third = (
        replace(DEFINITION, sources={"b.sh": text, "a.sh": b"echo", "c.sh": b""})
        for text in (b"1", b"2", b"3")
    )
    for name in ("before", "study", "behind"):
        for definition in (first, second, first, first, third):
            repository.open(name, definition)
        leases = [
            repository.acquire_lease(name, DriverProcess.current(), join=True) for _ in range(3)
        ]
        for text in ("one", "two", "three"):
            repository.add_event(name, "note", text, experiment(0).digest)
        kinds = (ZEN5, RISCV, None)
        for status in ("ok", "failed"):
            for number, machine in enumerate(kinds):
                each = experiment(number, salt=f"{name}{status}")
                ended = replace(outcome(each, status), machine=machine)
                repository.add_results(name, leases[number].number, [(each, ended)])
    assert [lease.number for lease in repository.leases("study")] == [4, 5, 6]
    standing = repository.standings()[1]
    assert standing.leases == repository.leases("study")
    events = repository.events("study", experiment(0).digest)
    assert [event.text for event in events] == ["one", "two", "three"]
    counted = [(result.machine, result.status) for result in repository.count_results("study")]
    assert counted == [(k, s) for k in (None, ZEN5, RISCV) for s in ("failed", "ok")]
    assert standing.results == repository.count_results("study")
    assert list(repository.definition("study").sources) == ["a.sh", "b.sh", "c.sh"]
    # The same program twice is one definition; each counts from its own time on.
    change = "UPDATE definitions SET at = id * 100"
    repository._database.write(lambda transaction: transaction.sql(change))
    for at, text in ((1, b"1"), (500, b"1"), (650, b"2"), (700, b"1"), (800, b"3"), (9999, b"3")):
        assert repository.definition("study", at).sources["b.sh"] == text, at
    assert repository.definition("study").sources["b.sh"] == b"3"
    assert repository.definition("behind", 850).sources["b.sh"] == b"1"


def test_the_statements_do_not_grow_with_the_studies(tmp_path, statements):
    counts = []
    for count in (5, 60):
        repository = open_repository(tmp_path / f"{count}.db")
        for number in range(count):
            enter(repository, f"s{number}")
        repository.close()
        statements.clear()
        place = str(tmp_path / f"{count}.db")
        assert len(study_statuses(place)) == count
        counts.append(len(statements))
        statements.clear()
        runner = CliRunner().invoke(app, ["status", "--db", place, "--json"])
        assert [study["outside"] for study in json.loads(runner.stdout)] == [0] * count
        counts.append(len(statements))
    assert counts[0] == counts[2] < 25
    assert counts[1] == counts[3] < 25


def test_one_study_is_told_without_reading_the_others(tmp_path, statements):
    repository = open_repository(tmp_path / "zenturio.db")
    for number in range(5):
        enter(repository, f"s{number}", 2)
    repository.close()
    status = study_status(str(tmp_path / "zenturio.db"), "s3")
    assert (status.study, status.ok, status.planned, status.place) == ("s3", 2, 3, "local")
    assert not any(text.strip().endswith("ORDER BY v.id") for text in statements)


def test_a_file_shows_paths_in_its_project_where_it_lies_now(tmp_path, monkeypatch):
    home = tmp_path / "before"
    (home / ".zenturio").mkdir(parents=True)
    definition = replace(DEFINITION, notes={"paths": [str(home / "a.sh"), "/elsewhere/b.sh"]})
    with closing(open_repository(home / ".zenturio" / "zenturio.db")) as repository:
        repository.open("s", definition)
    moved = home.rename(tmp_path / "after")
    with closing(open_repository(moved / ".zenturio" / "zenturio.db")) as repository:
        (standing,) = repository.standings()
    assert standing.notes == {"paths": [str(moved / "a.sh"), "/elsewhere/b.sh"]}


def test_nothing_is_cached_of_no_experiments_and_a_study_there_must_be(repository):
    repository.open("s", DEFINITION)
    assert repository.cached("s", []) == frozenset()
    with pytest.raises(NotFoundError):
        repository.cached("nowhere", [])
