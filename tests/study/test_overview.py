"""Where studies stand, and what is known of one experiment: as people and JSON have it."""

from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest

from zenturio.errors import InputError, NotFoundError, RecordError
from zenturio.experiment.experiment import MachineKind, Missing, Series
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.entities import ResultCount
from zenturio.record.open import open_repository
from zenturio.study import overview
from zenturio.study.overview import (
    ExperimentDetails,
    StudyStatus,
    _command_of,
    _definition_that_ran,
    _file_differences,
    by_machine,
    by_round,
    compare_experiments,
    find_experiment,
    measure_json,
    measure_text,
    opened_repository,
    queued_paths,
    result_count,
    study_status,
    study_statuses,
)
from zenturio.testing.experiments import dead_driver, experiment, outcome


def status(planned, **counts):
    return StudyStatus("s", 0.0, {"ok": 0, "running": 0, **counts}, planned, ())


def test_where_a_study_stands_is_counted_from_its_states():
    standing = status(20, ok=5, running=3, failed=2, timeout=1)
    numbers = (standing.total, standing.ok, standing.running, standing.failed, standing.missing)
    assert numbers == (11, 5, 3, 3, 9)
    assert standing.left == 12
    over = status(4, ok=5)
    assert (over.missing, over.left) == (0, 0)
    warm = status(9, ok=4, running=1, failed=2, warmup=1)
    assert (warm.total, warm.failed, warm.warmup, warm.missing) == (8, 2, 1, 1)
    paths = replace(warm, notes={"paths": ["a", "b"]})
    assert (warm.program_paths, paths.program_paths) == ((), ("a", "b"))


def test_results_are_counted_by_kind_of_machine_and_by_round():
    epyc = MachineKind("EPYC", 16)
    counts = (
        ResultCount(epyc, 1, "ok", 3), ResultCount(None, 1, "ok", 2), ResultCount(epyc, 2, "failed", 4),
    )  # fmt: skip
    assert by_machine(counts) == {"EPYC, 16 cores": 7, "an unknown kind": 2}
    assert list(by_machine(counts)) == ["EPYC, 16 cores", "an unknown kind"]
    assert by_round(reversed(counts)) == {1: 5, 2: 4}
    standing = replace(status(1), results=counts)
    assert (standing.machines, standing.rounds) == (by_machine(counts), by_round(counts))


@pytest.mark.parametrize(
    ("measure", "text", "json"),
    [
        (None, "", None),
        (3, "3", 3),
        (True, "True", True),
        ("x", "x", "x"),
        (1234567.0, "1.23457e+06", 1234567.0),
        (Missing("no match"), "missing: no match", {"missing": "no match"}),
        (Series((1, 2.123456, None)), "[1, 2.123, None]", [1, 2.123456, None]),
        (Series(tuple(range(6))), "[0, 1, 2, 3, 4, 5]", [0, 1, 2, 3, 4, 5]),
        (Series(tuple(range(7))), "[0, 1, 2, 3, 4, 5, ... (7 in all)]", list(range(7))),
    ],
)
def test_a_metric_is_told_to_people_and_to_programs(measure, text, json):
    assert measure_text(measure) == text
    assert measure_json(measure) == json


def test_files_that_differ_are_told_line_by_line():
    before = {"a": "1\n2\n3\n4\n5\n", "same": "x\n", "gone": "g"}
    after = {"a": "1\n2\nthree\n4\n5\n", "same": "x\n", "new": "n\n"}
    assert _file_differences(before, after) == {
        "a": "@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n",
        "gone": "@@ -1 +0,0 @@\n-g\n",
        "new": "@@ -0,0 +1 @@\n+n\n",
    }


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repository = open_repository(tmp_path / "a.db")
    definition = StudyDefinition((Field("n", "int", "MB"),), (Field("m", "real", "s"), Field("k")))
    for name in ("one", "two"):
        repository.open(name, definition)
        lease = repository.acquire_lease(name, DriverProcess.current())
        indices = range(40) if name == "one" else range(40, 44)
        pairs = [(experiment(i), outcome(experiment(i), metrics={"m": i / 2})) for i in indices]
        repository.add_results(name, lease.number, pairs)
    yield repository
    repository.close()


def test_an_experiment_is_found_by_the_beginning_of_its_digest(repository):
    digest = experiment(7).digest
    for text in (digest, digest[:12], f" {digest[:12].upper()} "):
        details = find_experiment(repository, text)
        assert (details.study, details.record.digest) == ("one", digest)
    assert details.units == {"n": "MB", "m": "s"}
    assert details.metrics == {"m": 3.5}
    assert [attempt.number for attempt in details.attempts] == [1]
    assert (details.folder, details.equality, details.origin) == (None, None, "")
    assert details.definition.parameters[0].name == "n"
    assert find_experiment(repository, experiment(41).digest).study == "two"


def test_a_digest_that_names_none_or_several_experiments_is_refused(repository):
    for text in ("", " ", "xyz", "12 34"):
        with pytest.raises(InputError, match="is not the digest"):
            find_experiment(repository, text)
    with pytest.raises(NotFoundError, match=f"^no experiment begins with {'f' * 32}"):
        find_experiment(repository, "f" * 32)
    digest = experiment(7).digest
    assert find_experiment(repository, digest, "one").study == "one"
    with pytest.raises(NotFoundError, match=r"^no experiment in study two begins with"):
        find_experiment(repository, digest, "two")
    first = max(
        "0123456789abcdef", key=lambda d: sum(experiment(i).digest[0] == d for i in range(44))
    )
    with pytest.raises(InputError, match=f"^{first} begins several digests: ") as caught:
        find_experiment(repository, first)
    shown = caught.value.diagnostics[0].message.rpartition(": ")[2].split(", ")
    assert {len(digest) for digest in shown} == {5}
    assert all(digest.startswith(first) for digest in shown)


def test_two_experiments_differ_in_what_is_not_equal(repository):
    one, other = (find_experiment(repository, experiment(i).digest) for i in (1, 2))
    difference = compare_experiments(one, other)
    assert difference.digests == (experiment(1).digest, experiment(2).digest)
    assert difference.parameters == {"n": (1, 2)}
    assert difference.metrics == {"m": (0.5, 1.0)}
    assert compare_experiments(one, one).parameters == compare_experiments(one, one).metrics == {}
    unfinished = replace(other, record=replace(other.record, outcome=None))
    assert unfinished.metrics == {}
    assert compare_experiments(one, unfinished).metrics == {"m": (0.5, None)}
    assert isinstance(unfinished, ExperimentDetails)


def test_a_beginning_that_two_digests_have_is_refused_and_at_most_eight_are_shown(repository):
    lease = repository.acquire_lease("two", DriverProcess.current(), join=True)
    pairs = [(experiment(i), outcome(experiment(i))) for i in range(44, 244)]
    repository.add_results("two", lease.number, pairs)
    digests = sorted(experiment(i).digest for i in range(244))
    pairs = [(d, e) for d, e in pairwise(digests) if d[:2] == e[:2]]
    both = next(pair for pair in pairs if sum(d[:2] == pair[0][:2] for d in digests) == 2)
    prefix = both[0][:2]
    with pytest.raises(InputError, match=f"several digests: {both[0][:6]}, {both[1][:6]}\n"):
        find_experiment(repository, prefix)
    prefix = both[0][0]
    first = [digest[:5] for digest in digests if digest.startswith(prefix)][:8]
    with pytest.raises(InputError, match=f"several digests: {', '.join(first)}\n"):
        find_experiment(repository, prefix)
    with pytest.raises(NotFoundError, match="no study is named 'none'"):
        find_experiment(repository, digests[0], "none")


def test_an_experiment_that_belongs_to_no_study_is_a_fault_of_the_database(repository, monkeypatch):
    digest = experiment(3).digest
    monkeypatch.setattr(type(repository), "find_digests", lambda *_arguments: ((digest, ()),))
    with pytest.raises(RecordError, match=f"is damaged: {digest} belongs to no study"):
        find_experiment(repository, digest[:9])


def test_the_definition_of_an_experiment_is_that_of_the_time_when_it_ran(repository):
    first = repository.definition("one")
    for name in ("again", "at last"):
        repository.open("one", replace(first, notes={"text": name}))
    newest = repository.definition("one")
    assert newest.notes == {"text": "at last"}
    assert _definition_that_ran(repository, "one", newest, None) == newest
    assert _definition_that_ran(repository, "one", newest, 1.0) == first
    assert _definition_that_ran(repository, "", newest, 1.0) == StudyDefinition()


@pytest.fixture
def standings(tmp_path, monkeypatch):
    """Three studies: one complete with a dead driver, one that is driven, and one half done."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.db"
    with closing(open_repository(path)) as repository:
        for name, planned, count in (("done", 3, 3), ("driven", 9, 2), ("half", 4, 2)):
            notes = {"experiments": planned, "run": {"on": "moon"}, "paths": [f"{name}.py"]}
            repository.open(name, StudyDefinition(notes=notes))
            lease = repository.acquire_lease(name, DriverProcess.current())
            made = [experiment(i, salt=name) for i in range(count)]
            repository.add_results(name, lease.number, [(e, outcome(e)) for e in made])
            if name == "driven":
                repository.claim(name, lease.number, [experiment(i, salt=name) for i in (7, 8)])
                continue
            repository.release_lease(lease)
        repository.acquire_lease("done", dead_driver())
        repository.open("bare", StudyDefinition())
        yield repository, str(path)


class Place:
    """What has experiments that outlive their driver, as stages of their progress."""

    def stages(self):
        pending = {experiment(7, salt="driven").digest: "running"}
        pending |= {experiment(8, salt="driven").digest: "queued"}
        # Another study's, and one that ended: neither is counted.
        pending |= {experiment(7, salt="half").digest: "queued"}
        return pending | {experiment(0, salt="driven").digest: "running"}

    def drained(self):
        return {"m1": "full"}


def test_the_standing_of_each_study_is_its_own(standings, monkeypatch):
    _, path = standings
    asked = []

    def orphans_at(notes, folder):
        asked.append((notes.get("paths"), folder.name))
        return Place() if "paths" in notes else None

    monkeypatch.setattr(overview, "orphans_at", orphans_at)
    done, driven, half, bare = study_statuses(path)
    # Nobody asks a place about a study that is complete, or of which nothing was planned.
    assert asked == [(["driven.py"], ".zenturio"), (["half.py"], ".zenturio")]
    assert [s.study for s in (done, driven, half, bare)] == ["done", "driven", "half", "bare"]
    assert [(s.ok, s.running, s.planned, s.missing) for s in (done, driven, half, bare)] == [
        (3, 0, 3, 0), (2, 2, 9, 5), (2, 0, 4, 2), (0, 0, 0, 0),
    ]  # fmt: skip
    assert [len(s.drivers) for s in (done, driven, half)] == [0, 1, 0]
    assert [s.place for s in (done, bare)] == ["moon", ""]
    assert (driven.stages, driven.drained) == ({"running": 1, "queued": 1}, {"m1": "full"})
    assert (done.stages, done.drained) == ({}, {})
    assert [s.program_paths for s in (half, bare)] == [("half.py",), ()]
    for status in (done, driven, half, bare):
        assert study_status(path, status.study) == status
    with pytest.raises(NotFoundError):
        study_status(path, "none")


def test_a_study_that_waits_for_what_runs_is_not_over(standings, monkeypatch):
    repository, path = standings
    monkeypatch.setattr(overview, "orphans_at", lambda _notes, _folder: Place())
    definition = repository.definition("driven")
    for planned, stages in (
        (4, {"running": 1, "queued": 1}),
        (3, {"running": 1, "queued": 1}),
        (2, {}),
    ):
        notes = {**definition.notes, "experiments": planned}
        repository.open("driven", replace(definition, notes=notes))
        assert study_status(path, "driven").stages == stages


def test_results_are_counted_and_what_runs_is_none(standings):
    repository, _ = standings
    assert [result_count(repository, name) for name in ("done", "driven", "bare")] == [3, 2, 0]


def test_the_files_of_what_a_service_has_are_known(standings):
    repository, path = standings
    for name in ("a", "b", "c"):
        repository.submit(name, "eva", name, {"paths": [name, 7]})
    first, second, _ = repository.submissions(("waiting",))
    repository.update_submission(first.number, "running", "")
    repository.update_submission(second.number, "done", "")
    repository.submit("d", "eva", "d", {})
    assert queued_paths(path) == {("a", "7"), ("c", "7"), ()}


@pytest.mark.parametrize(
    ("note", "command"),
    [
        (None, ("", ())),
        ("compare", ("", ())),
        ({"verb": "run", "command": ["run"]}, ("", ())),
        ({"verb": "compare"}, ("compare", ())),
        ({"verb": "gate", "command": "gate"}, ("gate", ())),
        (
            {"verb": "gate", "command": ["gate", "a.py", "-j", "2"]},
            ("gate", ("gate", "a.py", "-j", "2")),
        ),
        ({"verb": "gate", "command": ["gate"]}, ("gate", ("gate",))),
        ({"verb": "gate", "command": ["compare", "a.py"]}, ("gate", ())),
        ({"verb": "gate", "command": ["gate", "\x1b[2J"]}, ("gate", ())),
        ({"verb": "gate", "command": ["gate", 7]}, ("gate", ())),
    ],
)
def test_only_a_command_of_ours_is_repeated(note, command):
    assert _command_of({} if note is None else {"paired": note}) == command


def test_a_repository_that_was_looked_at_is_closed(standings, monkeypatch):
    _, path = standings
    closed = []
    with opened_repository(path) as repository:
        kind = type(repository)
        close = kind.close
        monkeypatch.setattr(kind, "close", lambda self: (closed.append(self), close(self))[1])
        assert not closed
    assert closed == [repository]
