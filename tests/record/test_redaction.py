"""A secret that was recorded goes, and nothing else does."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from sqlalchemy import JSON, LargeBinary, Text

from record.leaving import left
from zenturio import failpoints
from zenturio.errors import ConflictError, InputError
from zenturio.experiment.experiment import Log, Missing
from zenturio.record import DriverProcess, Field, StudyDefinition, maintenance, redaction
from zenturio.record.database import Database
from zenturio.record.open import FILE, dialect_at, open_repository
from zenturio.record.redaction import redact
from zenturio.record.schema import tables_of
from zenturio.record.secret_masking import MASK, Secret
from zenturio.testing.experiments import experiment, outcome

SECRET = 'hunter2\'s "key"/ä'
STUDY = "leaky"
COUNT = 3
POINTS = ("written", "recorded", "removed", "compacted")


def definition(secret=SECRET):
    return StudyDefinition(
        (Field("n", "int"), Field("token", "str")),
        (Field("time", how=f"stdout of login {secret}"),),
        provenance={"argv": ["prog", secret]},
        sources={"prog.sh": f"export TOKEN={secret}\n".encode(), "clean.sh": b"true\n"},
        notes={"runs": [f"login '{secret}'"]},
    )


def leak(url, home, secret=SECRET):
    """Experiments that have the secret in all that is recorded of them, and one that has not."""
    home.mkdir(parents=True, exist_ok=True)
    repository = open_repository(url)
    repository.open(STUDY, definition(secret))
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    of = [
        replace(e, values={"n": e.index, "token": f"{secret}{e.index}" if e.index else "none"})
        for e in map(experiment, range(COUNT))
    ]
    claims = repository.claim(STUDY, lease.number, of)
    given = []
    for e in of:
        said = secret if e.index else "nothing"
        files = {"log": f"it is {said}.".encode() * 99, "other": b"%d" % e.index}
        metrics = {
            "time": e.index / 7,
            "text": f"<{said}>",
            "nul": f"\0{said}",
            "why": Missing(f"no {said}"),
            **{f"m{i}": i / 3 for i in range(40)},
            **{f"t{i}": "text" for i in range(12)},
            "beyond": f"beyond {said}",
            f"of {said}": 1.5,
        }
        cut = said.encode()
        done = left(home, e, claims[e.digest], files)
        logs = {
            "stdout": Log(b"a" * 9 + cut[:8], cut[8:] + b"b" * 9, 9999),
            "stderr": Log(f"pass: {said}\n".encode() * 9, b"", 9 * len(f"pass: {said}\n".encode())),
        }
        given.append(replace(done, metrics=metrics, **logs))
    repository.record(STUDY, lease.number, given)
    repository.add_event(STUDY, "remark", f"somebody wrote {secret}")
    repository.release_lease(lease)
    repository.close()


def dumped(url):
    """All rows of all tables, as text."""
    database = Database(dialect_at(url), 5)
    try:
        names = [t.name for t in tables_of(database.dialect.name)]
        rows = {
            name: database.read(lambda t, name=name: t.sql(f"SELECT * FROM {name}"))
            for name in names
        }
        views = database.read(lambda t: t.sql(database.dialect.view_texts))
        return {
            **{
                name: [[bytes(c) if isinstance(c, memoryview) else c for c in row] for row in found]
                for name, found in rows.items()
            },
            "views": views,
        }
    finally:
        database.close()


def holders(folder, secret=SECRET):
    sought = Secret(secret)
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and sought.is_in(p.read_bytes())]


@pytest.fixture
def home(tmp_path):
    return tmp_path / "project" / ".zenturio"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, home, monkeypatch):
    home.mkdir(parents=True)
    monkeypatch.chdir(home.parent)
    if request.param == "sqlite":
        return str(home / FILE)
    return request.getfixturevalue("postgres_url")


def test_nothing_is_left_of_a_secret_and_the_record_says_so(place, home):
    leak(place, home)
    before = redact(place, Secret(SECRET), None)
    assert before.tables.keys() >= {
        "results", "logs", "contents", "definitions", "events", "fields", "versions", "chunks",
    }  # fmt: skip
    assert "hunter2" in str(dumped(place)["results"])
    with contextlib.closing(open_repository(place)) as repository:
        digests = [record.digest for record in repository.records(STUDY)]
    done = redact(place, Secret(SECRET), "ann")
    assert done.tables == before.tables
    assert "hunter2" not in str(dumped(place))
    assert holders(home) == []
    assert maintenance.check_repository(place, contents=True) == ()
    assert redact(place, Secret(SECRET), "ann").tables == {}
    with contextlib.closing(open_repository(place)) as repository:
        records = list(repository.records(STUDY))
        assert [record.digest for record in records] == digests
        assert records[0].values == {"n": 0, "token": "none"}
        assert records[1].values == {"n": 1, "token": f"{MASK}1"}
        metrics = records[1].outcome.metrics
        assert (metrics["text"], metrics["nul"], metrics["beyond"]) == (
            f"<{MASK}>", f"\0{MASK}", f"beyond {MASK}",
        )  # fmt: skip
        assert metrics["why"] == Missing(f"no {MASK}")
        assert (metrics["time"], metrics["m39"], metrics[f"of {MASK}"]) == (1 / 7, 13.0, 1.5)
        assert repository.definition(STUDY).sources == {
            "prog.sh": f"export TOKEN={MASK}\n".encode(), "clean.sh": b"true\n",
        }  # fmt: skip
        logs = repository.logs(digests[1])
        assert logs.stderr == Log(f"pass: {MASK}\n".encode() * 9, b"", 9 * 15)
        assert logs.stdout.head == b"a" * 9 + MASK.encode()
        assert logs.stdout.tail == MASK.encode() + b"b" * 9
        kept = {a.path: a.kept.read_bytes() for a in repository.artifacts(digests[1])}
        assert kept == {"log": f"it is {MASK}.".encode() * 99, "other": b"1"}
        (told, own) = repository.redactions(STUDY, digests[1])
        assert "places by ann" in told.text
        assert own.digest == digests[1]
        assert [e.digest for e in repository.redactions(STUDY, digests[0])] == [None]


def test_what_has_no_secret_stays_to_the_byte(place, home):
    leak(place, home, "nothing of that kind")
    before = dumped(place)
    assert redact(place, Secret(SECRET), "ann").tables == {}
    assert dumped(place) == before


def test_copies_that_may_have_it_are_named(place, home):
    leak(place, home)
    if "://" not in place:
        maintenance.rotate(place, None)
        upgraded = home / f"{FILE}.0003"
        upgraded.write_bytes(b"of before")
        assert redact(place, Secret(SECRET), None).copies == (
            *sorted((home / "backups").iterdir()), upgraded,
        )  # fmt: skip
        return
    with contextlib.closing(open_repository(place)) as repository, repository.engine.connect() as c:
        own = c.exec_driver_sql("SELECT current_schema()").scalar()
        for name in (f"{own}_0003", f"{own}_0003_2", f"{own}_studies2"):
            c.exec_driver_sql(f"CREATE SCHEMA {name}")
    found = redact(place, Secret(SECRET), None)
    assert (found.copies, found.schemas) == ((), (f"{own}_0003", f"{own}_0003_2"))


def test_a_running_study_is_not_redacted(place, home):
    leak(place, home)
    before = dumped(place)
    with contextlib.closing(open_repository(place)) as repository:
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        with pytest.raises(ConflictError):
            redact(place, Secret(SECRET), "ann")
        repository.release_lease(lease)
    assert dumped(place)["results"] == before["results"]
    assert redact(place, Secret(SECRET), "ann").tables


def test_redaction_has_the_failpoints_that_are_tried_here():
    names = {name for name in failpoints.names() if name.startswith("redact.")}
    assert names - {"redact.cleaned"} == {f"redact.{point}" for point in POINTS}


@pytest.mark.parametrize(
    "point",
    [
        "redact.recorded",
        "store.removed",
        *(pytest.param(f"redact.{p}", marks=pytest.mark.slow) for p in POINTS if p != "recorded"),
    ],
)
def test_a_redaction_that_is_killed_goes_on(home, point, tmp_path):
    home.mkdir(parents=True)
    place = str(home / FILE)
    leak(place, home)
    program = (
        "import sys; from zenturio.record.redaction import redact;"
        " from zenturio.record.secret_masking import Secret; redact(sys.argv[1], Secret(sys.argv[2]), 'a')"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, place, SECRET],
        env=os.environ | {"ZENTURIO_FAILPOINT": f"{point}:1"},
        cwd=tmp_path,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert maintenance.check_repository(place, contents=True) == ()
    redact(place, Secret(SECRET), "ann")
    assert holders(home) == []
    assert "hunter2" not in str(dumped(place))
    assert maintenance.check_repository(place, contents=True) == ()


def test_bytes_in_free_pages_go_too(home):
    home.mkdir(parents=True)
    leak(str(home / FILE), home)
    with contextlib.closing(open_repository(home / FILE)) as repository:
        maintenance.prune_study(repository, STUDY)
    assert holders(home) != []
    redact(home / FILE, Secret(SECRET), "ann")
    assert holders(home) == []


def test_a_file_that_another_database_needs_stays_until_that_is_redacted(home, monkeypatch):
    home.mkdir(parents=True)
    monkeypatch.chdir(home.parent)
    places = [home / FILE, home.parent / "other.db"]
    for place in places:
        leak(str(place), home)
    (kept,) = redact(places[0], Secret(SECRET), "ann").foreign
    assert holders(home) == [kept]
    assert maintenance.check_repository(str(places[1]), contents=True) == ()
    assert redact(places[1], Secret(SECRET), "ann").foreign == ()
    assert holders(home.parent) == []
    for place in places:
        assert maintenance.check_repository(str(place), contents=True) == ()


def test_a_file_that_is_being_read_is_told(home, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.1")
    home.mkdir(parents=True)
    leak(str(home / FILE), home)
    with contextlib.closing(dialect_at(home / FILE).connect()) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM results").fetchall()
        with pytest.raises(ConflictError, match="is being read"):
            redact(home / FILE, Secret(SECRET), "ann")
    assert "hunter2" not in str(dumped(str(home / FILE)))
    redact(home / FILE, Secret(SECRET), "ann")
    assert holders(home) == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_every_column_of_text_is_searched_or_is_our_own(dialect):
    """A new column of the schema is searched from the beginning."""
    tables = {table.name: table for table in tables_of(dialect)}
    for name, columns in {**redaction._OWN, **redaction._DOCUMENTS}.items():
        assert columns <= set(tables[name].columns.keys())
    for table in tables.values():
        for column in table.columns:
            kind = redaction._kind(column.type)
            assert (kind is not None) == (
                isinstance(column.type, Text | LargeBinary | JSON)
                or column.name in [f"v{i}" for i in range(32)]
            )


def test_a_secret_that_is_a_number_stays_where_it_is_a_number(place, home):
    leak(place, home, "734512")
    with contextlib.closing(open_repository(place)) as repository:
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        given = [experiment(i, salt="x") for i in range(3)]
        pairs = [(e, outcome(e, time=734512, big=10**30 + 734512)) for e in given]
        repository.add_results(STUDY, lease.number, pairs)
        repository.release_lease(lease)
    assert redact(place, Secret("734512"), "ann").numbers == 3
    with contextlib.closing(open_repository(place)) as repository:
        (outcome_of,) = repository.find_outcomes([given[0].digest]).values()
        assert outcome_of.metrics == {"time": 734512, "big": 10**30 + 734512}


@pytest.mark.parametrize("text", ["short", "********", "  ******  ", "with\0nul"])
def test_a_text_that_is_no_secret_is_refused(text):
    with pytest.raises(InputError):
        Secret(text)


def test_a_large_file_is_cut_into_pieces_that_make_the_whole(monkeypatch):
    monkeypatch.setattr("zenturio.record.secret_masking._PIECE", 7)
    data = b"x" * 20 + b"secret" + b"y" * 9 + b"secretsecret"
    pieces = list(Secret("secret").pieces(data))
    assert b"".join(pieces) == Secret("secret").data(data)
    assert max(map(len, pieces)) <= 8


def test_a_secret_is_known_in_all_its_spellings():
    secret = Secret("a'b\"c/d é\\")
    for spelled in (
        "a'b\"c/d é\\", "a'b\\\"c/d \\u00e9\\\\", "a'\"'\"'b\"c/d é\\", "a%27b%22c%2Fd%20%C3%A9%5C",
    ):  # fmt: skip
        assert secret.text(f"<{spelled}>") == f"<{MASK}>"
        assert secret.data(f"<{spelled}>".encode()) == f"<{MASK}>".encode()


def test_documents_stay_documents():
    secret = Secret("123456")
    assert secret.document('{"a": 123456, "b": ["123456", {"int": "9912345699"}]}') == (
        f'{{"a": 123456, "b": ["{MASK}", {{"int": "9912345699"}}]}}'
    )
    assert secret.document('{"x":-0.0,"y":1e22}') == '{"x":-0.0,"y":1e22}'
    assert Secret("series").document('{"series":[1]}') == '{"series":[1]}'


def test_a_secret_in_one_log_alone_is_an_event_of_its_experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = str(tmp_path / "a.db")
    said = f"pass {SECRET}".encode()
    with contextlib.closing(open_repository(url)) as repository:
        repository.open(STUDY, StudyDefinition((), ()))
        lease = repository.acquire_lease(STUDY, DriverProcess.current())
        pairs = [(experiment(i), outcome(experiment(i))) for i in range(3)]
        pairs[1] = (pairs[1][0], replace(pairs[1][1], stdout=Log(said, b"", len(said))))
        repository.add_results(STUDY, lease.number, pairs)
        repository.release_lease(lease)
    found = redact(url, Secret(SECRET), None)
    with contextlib.closing(open_repository(url)) as repository:
        assert repository.redactions(STUDY, experiment(1).digest) == ()
    assert redact(url, Secret(SECRET), "ann").tables == found.tables
    with contextlib.closing(open_repository(url)) as repository:
        events = {i: repository.redactions(STUDY, experiment(i).digest) for i in range(3)}
        assert [event.digest for event in events[1]] == [None, experiment(1).digest]
        assert [[event.digest for event in events[i]] for i in (0, 2)] == [[None], [None]]
        assert "1 place by ann" in events[1][0].text


def test_each_study_that_had_a_secret_says_in_how_many_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = str(tmp_path / "a.db")
    with contextlib.closing(open_repository(url)) as repository:
        secret = Field("time", unit=SECRET)
        for name, metrics in (("clean", ()), ("named", (secret,)), ("noted", ())):
            repository.open(name, StudyDefinition((), metrics))
        repository.open("filed", StudyDefinition((), (), sources={"a.sh": SECRET.encode()}))
        repository.open("pathed", StudyDefinition((), (), sources={SECRET: b"echo"}))
        for number in range(2):
            repository.add_event("noted", "note", f"{number} {SECRET}")
    redact(url, Secret(SECRET), "ann")
    with contextlib.closing(open_repository(url)) as repository:
        told = {
            study.name: [e.text for e in repository.events(study.name) if e.kind == "redacted"]
            for study in repository.studies()
        }
    # Of the metric: its row, the definition, and how the version measures it.
    assert told == {
        "clean": [], "named": ["3 places by ann"], "noted": ["2 places by ann"],
        "filed": ["1 place by ann"],
        "pathed": ["2 places by ann"],
    }  # fmt: skip


def test_a_file_has_large_holes_where_a_copy_would_take_far_more_than_it_does(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(redaction, "LARGEST_HOLES", 2**20)
    path = tmp_path / "a"
    path.write_bytes(b"x" * 3 * 2**20)
    assert not redaction.has_large_holes(path)
    for size, is_large in ((2**20, False), (2**20 + 1, True)):
        path.write_bytes(b"")
        os.truncate(path, size)
        assert redaction.has_large_holes(path) == is_large


def test_a_secret_in_many_rows_and_in_a_sparse_file_is_found_everywhere(home, monkeypatch):
    monkeypatch.setattr(redaction, "_BATCH", 2)
    monkeypatch.setattr(redaction, "LARGEST_HOLES", 2**20)
    url = str(home / FILE)
    leak(url, home)
    with contextlib.closing(open_repository(url)) as repository:
        for number in range(7):
            repository.add_event(STUDY, "remark", f"{number}: {SECRET}")
        (artifact, *_) = repository.artifacts(experiment(1).digest)
    artifact.kept.chmod(0o644)
    with artifact.kept.open("r+b") as file:
        file.write(b"\0" * 0)
        file.seek(2**23)
        file.write(SECRET.encode())
    seen = redact(url, Secret(SECRET), None)
    assert seen.tables["events"] == 8
    assert artifact.kept in seen.foreign
    done = redact(url, Secret(SECRET), "ann")
    assert (done.tables, done.foreign) == (seen.tables, seen.foreign)
    assert not any(SECRET in str(row) for row in dumped(url)["events"])


def test_holes_are_not_read_and_what_is_behind_them_is(tmp_path):
    path, secret = tmp_path / "a", Secret("hunter2222")
    path.write_bytes(b"")
    os.truncate(path, 2**30)
    assert not redaction.contains_secret(path, secret)
    with path.open("r+b") as file:
        file.seek(2**29 + 17)
        file.write(b"hunter2222")
    assert redaction.contains_secret(path, secret)
    assert not redaction.contains_secret(tmp_path / "none", secret)


def test_what_cannot_be_read_as_json_is_a_text_and_names_of_parameters_stay():
    secret = Secret("hunter2222")
    assert secret.document("{ hunter2222") == f"{{ {MASK}"
    assert secret.document('{"hunter2222":1}') == f'{{"{MASK}":1}}'
    assert secret.document('{"param:hunter2222":1}') == f'{{"param:{MASK}":1}}'
    assert Secret("param:").document('{"param:param:":"param:"}') == (
        f'{{"param:{MASK}":"{MASK}"}}'
    )
