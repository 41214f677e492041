"""A repository copied into another database, and one restored from a backup, say the same."""

import shutil
from contextlib import chdir, closing, contextmanager
from dataclasses import replace

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loaded
from record.worker import result
from zenturio.errors import ConflictError, InputError, RecordError
from zenturio.experiment.experiment import Log
from zenturio.record import (
    DriverProcess,
    Field,
    StudyDefinition,
    database_copy,
    maintenance,
    sqlite,
)
from zenturio.record.database_copy import column_bytes
from zenturio.record.open import open_repository
from zenturio.testing.experiments import ODD_MEASURES, experiment, outcome

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3)
)
KINDS = ("sqlite", "postgresql")
DEFINITION = StudyDefinition(
    (Field("n", "int"), Field("mixed")), (Field("time"),), sources={"a.sh": b"#!/bin/sh\n"}
)


@pytest.fixture
def places(request, postgres, tmp_path):
    """Where a source and an empty target are, of the kinds that a test asks for."""
    urls = []
    with chdir(tmp_path):
        for i, kind in enumerate(request.param):
            urls.append(postgres.new_url() if kind == "postgresql" else str(tmp_path / f"{i}.db"))
        yield urls
    for url in urls:
        if "://" in url:
            postgres.drop(url)


def both_kinds(function):
    pairs = [
        pytest.param(
            (one, two),
            id=f"{one}-to-{two}",
            # What is of a server is read by one and written by the other of the mixed pairs.
            marks=[pytest.mark.slow] if one == two == "postgresql" else [],
        )
        for one in KINDS
        for two in KINDS
    ]
    return pytest.mark.parametrize("places", pairs, indirect=True)(function)


@contextmanager
def opened(url):
    repository = open_repository(url)
    try:
        yield repository
    finally:
        repository.close()


def fill(url):
    """Two studies, one with two versions; values of every kind, logs, attempts and a submission."""
    with opened(url) as repository:
        for name, points in (("one", [1, 2**70, -5]), ("two", [0.5, "text", True, 2**55])):
            repository.open(name, DEFINITION)
            lease = repository.acquire_lease(name, DriverProcess.current())
            experiments = [
                experiment(i, {"n": i, "mixed": value}, salt=name) for i, value in enumerate(points)
            ]
            claims = repository.claim(name, lease.number, experiments)
            for e, odd in zip(
                experiments, (*ODD_MEASURES.items(), *ODD_MEASURES.items()), strict=False
            ):
                measured = {"time": 0.1 * e.index, odd[0]: odd[1], **ODD_MEASURES}
                done = outcome(e, metrics=measured, attempt=claims[e.digest])
                done = replace(done, stdout=Log(b"begin", b"end", 100))
                repository.record(name, lease.number, [done])
            repository.release_lease(lease)
        repository.archive(repository.study("two"))
        repository.open("two", DEFINITION)
        lease = repository.acquire_lease("two", DriverProcess.current())
        failed = experiment(77, {"n": 77, "mixed": None}, salt="again")
        claims = repository.claim("two", lease.number, [failed])
        repository.record("two", lease.number, [outcome(failed, "failed", attempt=1)])
        repository.reopen("two", [failed.digest])
        repository.release_lease(lease)
        repository.submit("token", "alice", "one", {"paths": ["a.sh"]})


def contents(url):
    """All that a repository says of its studies."""
    with opened(url) as repository:
        return {
            study.name: (
                study,
                repository.definition(study.name),
                [
                    (r, repository.attempts(r.digest), repository.logs(r.digest))
                    for r in repository.records(study.name)
                ],
                repository.count_results(study.name),
            )
            for study in repository.studies()
        }, repository.submissions()


@both_kinds
def test_a_copy_says_the_same_and_can_be_gone_on_with(places):
    source, target = places
    fill(source)
    heard = {}
    done = maintenance.copy_repository(source, target, heard.__setitem__)
    assert done.rows["results"] == 7
    results = {"results": 7} if ("://" in source) == ("://" in target) else {"one": 3}
    assert heard.items() >= {**results, "studies": 2, "comparing results": 7}.items()
    assert repr(contents(target)) == repr(contents(source))
    assert maintenance.check_repository(target) == ()
    with opened(target) as repository:
        lease = repository.acquire_lease("one", DriverProcess.current())
        new = [experiment(i, {"n": i, "mixed": 2.5}, salt="new") for i in range(3)]
        claims = repository.claim("one", lease.number, new)
        outcomes = [result(e, claims[e.digest]) for e in new]
        assert len(repository.record("one", lease.number, outcomes)) == 3
        repository.release_lease(lease)
        repository.open("three", DEFINITION)
        assert repository.refresh_views("one")
    assert maintenance.check_repository(target) == ()


@both_kinds
def test_a_copy_that_was_interrupted_goes_on_where_it_was(places, monkeypatch):
    source, target = places
    fill(source)
    monkeypatch.setattr(database_copy, "STEP_ROWS", 2)
    steps = 0

    class Killed(BaseException):
        pass

    def kill(table, _rows):
        nonlocal steps
        steps += 1
        if steps % 3 == 0 and not table.startswith("comparing"):
            raise Killed

    for _ in range(30):
        try:
            done = maintenance.copy_repository(source, target, kill)
            break
        except Killed:
            continue
    assert repr(contents(target)) == repr(contents(source))
    again = maintenance.copy_repository(source, target, lambda _table, _rows: None)
    assert again == done


@pytest.mark.parametrize("places", [("sqlite", "sqlite")], indirect=True)
def test_what_cannot_be_copied_is_refused(places):
    source, target = places
    fill(source)
    with pytest.raises(InputError, match="into itself"):
        maintenance.copy_repository(source, source, lambda _table, _rows: None)
    with opened(source) as repository:
        lease = repository.acquire_lease("one", DriverProcess.current())
        with pytest.raises(ConflictError, match="being run"):
            maintenance.copy_repository(source, target, lambda _table, _rows: None)
        repository.release_lease(lease)
    maintenance.copy_repository(source, target, lambda _table, _rows: None)
    with opened(target) as repository:
        repository.delete("one")
    with pytest.raises(RecordError, match="differ in"):
        maintenance.copy_repository(source, target, lambda _table, _rows: None)
    other = source.replace("0.db", "2.db")
    fill(other)
    with pytest.raises(InputError, match="has studies already"):
        maintenance.copy_repository(source, other, lambda _table, _rows: None)


@pytest.mark.parametrize("places", [("sqlite", "postgresql")], indirect=True)
def test_artifacts_of_a_copy_are_found_in_the_store_of_the_project(places, tmp_path):
    (tmp_path / ".zenturio").mkdir()
    program = '#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ RUN "sh p.sh {n}"\n#ZEN$ OUTPUT "out.txt"\n'
    (tmp_path / "p.sh").write_text(program + 'echo "made $1" > out.txt\n')
    assert loaded.zen("run", "p.sh", cwd=tmp_path).returncode == 0
    done = loaded.zen("db", "copy", ".zenturio/zenturio.db", places[1], cwd=tmp_path)
    assert "2 results of 1 studies are in both databases" in done.stdout, done
    with opened(places[1]) as repository:
        for record in repository.records("p"):
            (artifact,) = repository.artifacts(record.digest)
            assert artifact.kept.read_text().startswith("made")
    assert maintenance.check_repository(places[1], contents=True) == ()


def test_files_that_rows_do_not_name_are_named_in_a_copy_outside_of_their_project(tmp_path):
    homes = {name: tmp_path / name / ".zenturio" for name in ("here", "there")}
    for home in homes.values():
        home.mkdir(parents=True)
    source, plain = homes["here"] / "a.db", homes["here"].parent / "plain.db"
    rows = [("own", None, None), ("script", None, None), ("unused", None, None),
            ("held", b"body", None), ("foreign", None, "/kept/x")]  # fmt: skip
    for path in (source, plain):
        open_repository(path).close()
        with closing(sqlite.sqlite_module().connect(path)) as connection, connection:
            connection.executemany(
                "INSERT INTO contents (digest, size, body, foreign_path) VALUES (?, 1, ?, ?)",
                [(name.encode(), body, place) for name, body, place in rows],
            )
            connection.executemany(
                "INSERT INTO artifacts (attempt, path, number, mode, size, content)"
                " VALUES (1, ?1, ?1, ?2, 1, ?3)",
                [(number, mode, name) for number, (name, mode) in
                 enumerate([(b"own", 0o644), (b"script", 0o755), (b"held", 0o600)])],
            )  # fmt: skip

    def places_in_copy(of, target):
        with chdir(homes["here"].parent):
            maintenance.copy_repository(of, target, lambda _table, _rows: None)
        with closing(sqlite.sqlite_module().connect(target)) as connection:
            stored = dict(connection.execute("SELECT digest, foreign_path FROM contents"))
        return [stored[name.encode()] for name, _, _ in rows]

    as_they_are = [None, None, None, None, "/kept/x"]
    root = homes["here"] / "store"
    assert places_in_copy(source, homes["there"] / "a.db") == [
        f"store:644:{root}", f"store:755:{root}", f"store:644:{root}", None, "/kept/x",
    ]  # fmt: skip
    assert places_in_copy(source, tmp_path / "of-the-same-project.db") == as_they_are
    assert places_in_copy(plain, homes["there"] / "b.db") == as_they_are  # it never named the store


def test_a_backup_of_a_file_is_restored_and_nothing_is_overwritten(tmp_path):
    path = tmp_path / "a.db"
    fill(path)
    before = repr(contents(path))
    backup = maintenance.backup(path, tmp_path / "copy")
    with pytest.raises(InputError, match="already exists"):
        maintenance.restore(backup, path)
    for name in ("a.db", "a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    done = loaded.zen("db", "restore", backup, "--db", path, cwd=tmp_path)
    assert done.stdout == f"restored {path}; no damage found\n", done
    assert repr(contents(path)) == before
    with pytest.raises(InputError, match="no file"):
        maintenance.restore(tmp_path / "none", tmp_path / "b.db")
    shutil.copy(__file__, tmp_path / "text")
    with pytest.raises(RecordError):
        maintenance.restore(tmp_path / "text", tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_backup_is_not_restored_beside_a_log_that_would_be_applied_to_it(tmp_path, ending):
    path, log = tmp_path / "a.db", tmp_path / f"a.db{ending}"
    fill(path)
    backup = maintenance.backup(path, tmp_path / "copy")
    for name in ("a.db", "a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    log.write_bytes(b"of a killed driver")
    with pytest.raises(InputError, match=f"a.db{ending} already exists"):
        maintenance.restore(backup, path)
    assert not path.exists()
    assert log.read_bytes() == b"of a killed driver"


def test_backups_and_restored_files_are_not_written_through_a_link(tmp_path):
    path, decoy = tmp_path / "a.db", tmp_path / "decoy"
    fill(path)
    (tmp_path / "copy.part").symlink_to(decoy)
    backup = maintenance.backup(path, tmp_path / "copy")
    (tmp_path / "b.db.part").symlink_to(decoy)
    maintenance.restore(backup, tmp_path / "b.db")
    assert not decoy.exists()
    assert not (tmp_path / "b.db").is_symlink()
    assert repr(contents(tmp_path / "b.db")) == repr(contents(path))


def test_a_backup_of_a_server_is_restored_into_an_empty_database(postgres, tmp_path):
    names = ("lost", "found_again")
    with postgres.connect() as admin:
        for name in names:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    urls = [f"postgresql://zen@/{name}?host={postgres.folder}" for name in names]
    try:
        fill(urls[0])
        backup = maintenance.backup(urls[0], tmp_path / "copy")
        with pytest.raises(InputError, match="has a database of zenturio already"):
            maintenance.restore(backup, urls[0])
        (tmp_path / "text").write_text("no archive")
        with pytest.raises(RecordError, match=r"pg_restore into .*found_again.* failed: .*archive"):
            maintenance.restore(tmp_path / "text", urls[1])
        maintenance.restore(backup, urls[1])
        assert repr(contents(urls[1])) == repr(contents(urls[0]))
        with psycopg.connect(urls[1]) as connection:
            assert connection.execute("SELECT count(*) FROM studies.study_one").fetchone() == (3,)
    finally:
        with postgres.connect() as admin:
            for name in names:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_salvage_into_a_server_or_an_existing_file_says_what_to_do(tmp_path):
    fill(tmp_path / "a.db")
    (tmp_path / "b.db").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"b\.db already exists"):
        maintenance.salvage(tmp_path / "a.db", tmp_path / "b.db")
    assert (tmp_path / "b.db").read_bytes() == b"mine"
    done = loaded.zen("db", "salvage", "a.db", "postgresql://host/lab", cwd=tmp_path)
    assert done.returncode == 2
    assert "zen db copy FILE URL" in done.stderr


CHANGES = [
    ("results", "UPDATE results SET cause = 'other' WHERE id = 1"),
    ("results", "UPDATE results SET v0 = 77 WHERE id = 1"),
    ("logs", "UPDATE logs SET stdout_head = CAST('other' AS BLOB) WHERE attempt = 2"),
    ("attempts", "UPDATE attempts SET position = 78"),
    ("sources", "UPDATE sources SET mode = 0"),
]


@pytest.mark.parametrize(("table", "change"), CHANGES)
@pytest.mark.parametrize("places", [("sqlite", "sqlite")], indirect=True)
def test_a_copy_with_another_value_differs(places, table, change):
    source, target = places
    fill(source)
    maintenance.copy_repository(source, target, lambda _table, _rows: None)
    connection = sqlite.sqlite_module().connect(target)
    assert connection.execute(change).rowcount
    connection.commit()
    connection.close()
    with pytest.raises(RecordError, match=rf"differ in {table}$|differ in {table}\n"):
        maintenance.copy_repository(source, target, lambda _table, _rows: None)


@settings(max_examples=settings.default.max_examples * 30 // 100)
@given(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4))
def test_columns_have_equal_bytes_if_their_values_are_the_same(one, two):
    same = repr(one) == repr(two)
    assert (column_bytes(one) == column_bytes(two)) is same
    assert column_bytes(tuple(one)) == column_bytes(one)


def test_bytes_among_other_values_count_in_whichever_form_a_database_gives_them():
    assert column_bytes([b"a", 1]) == column_bytes([b"a", 1])
    assert column_bytes([b"a", 1]) != column_bytes([b"b", 1])
    assert column_bytes([memoryview(b"a")]) == column_bytes([memoryview(b"a")])
    assert column_bytes([memoryview(b"a")]) != column_bytes([memoryview(b"b")])


@pytest.mark.parametrize("edge", [2**63 - 1, 2**63, -(2**63), -(2**63) - 1])
def test_integers_beyond_64_bits_count_like_others(edge):
    assert column_bytes([edge]) == column_bytes([edge])
    assert column_bytes([edge]) != column_bytes([edge + 1])
    assert column_bytes([edge]) != column_bytes([edge - 1])


@pytest.mark.parametrize("places", [("sqlite", "sqlite")], indirect=True)
def test_a_copy_says_in_which_tables_it_differs(places):
    source, target = places
    fill(source)
    maintenance.copy_repository(source, target, lambda _table, _rows: None)
    with opened(target) as repository:
        repository.add_event("one", "remark", "an event of its own")
    with pytest.raises(RecordError, match=r"differ in events$|differ in events\n"):
        maintenance.copy_repository(source, target, lambda _table, _rows: None)


def test_a_database_that_a_run_creates_during_a_restore_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    fill(path)
    backup = maintenance.backup(path, tmp_path / "copy")
    copy = sqlite.SQLite.copy

    def copy_beside_a_run(dialect, target, *step):
        copy(dialect, target, *step)
        (tmp_path / "b.db").write_bytes(b"of a run")

    monkeypatch.setattr(sqlite.SQLite, "copy", copy_beside_a_run)
    with pytest.raises(InputError, match=r"b\.db already exists"):
        maintenance.restore(backup, tmp_path / "b.db")
    assert (tmp_path / "b.db").read_bytes() == b"of a run"
    assert not (tmp_path / "b.db.part").exists()
