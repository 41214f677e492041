"""A repository of an earlier program becomes one of this program, whatever happens meanwhile."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from record.old import fixture, make_old, same, stamp, value
from zenturio import failpoints
from zenturio.errors import ConflictError, PlaceError, RecordError
from zenturio.record import maintenance, migration, upgrade
from zenturio.record.database import Database
from zenturio.record.entities import DriverProcess
from zenturio.record.open import dialect_at, open_repository
from zenturio.record.sqlite import SQLite

EXPECTED = fixture()["expected"]
POINTS = ("copied", "marked", "base", "batch", "filled", "fenced", "replaced")


def _sql(url, statement):
    database = Database(dialect_at(url), 5)
    try:
        return database.write(lambda transaction: transaction.sql(statement))
    finally:
        database.close()


def holds(url):
    """The repository says what it said before."""
    assert maintenance.check_repository(url) == ()
    with contextlib.closing(open_repository(url)) as repository:
        assert {study.name for study in repository.studies()} == EXPECTED.keys()
        for name, said in EXPECTED.items():
            _study_holds(repository, name, said)
    assert any(row[5] is None and row[6] for said in EXPECTED.values() for row in said["rows"])


def _study_holds(repository, name, said):
    definition = repository.definition(name)
    assert {k: v.hex() for k, v in definition.sources.items()} == said["sources"]
    assert [[f.name, f.how] for f in definition.metrics] == said["metrics"]
    events = [[e.kind, e.text, e.digest] for e in repository.events(name)]
    assert [e for e in events if e[0] != "name"] == said["events"]
    recorded = {row[0]: row for row in said["rows"] if row[5] is not None}
    found = {r.digest: r for r in repository.records(name) if r.outcome is not None}
    assert found.keys() == recorded.keys()
    for digest, index, repeat, state, values, outcome, attempts, logs in recorded.values():
        record = found[digest]
        assert (record.index, record.repeat, record.state) == (index, repeat, state)
        status, cause, attempt, host, started, ended, exit_, metrics = outcome
        own = record.outcome
        assert [own.status, own.cause, own.attempt, own.host] == [status, cause, attempt, host]
        assert [own.started, own.ended, own.exit] == [started, ended, exit_]
        assert own.metrics.keys() == metrics.keys()
        assert all(same(own.metrics[n], value(m)) for n, m in metrics.items()), (own, metrics)
        known = {n: v for n, v in values.items() if v is not None}
        there = {n: v for n, v in record.values.items() if v is not None}
        assert there.keys() == known.keys()
        assert all(same(there[n], value(v)) for n, v in known.items())
        tried = [[a.number, a.state, a.cause, a.host] for a in repository.attempts(digest)]
        assert sorted(tried) == sorted(attempts)
        log = repository.logs(digest)
        heard = [log.stdout.head.hex(), log.stdout.size, log.stderr.head.hex(),
                 log.stderr.tail.hex(), log.stderr.size]  # fmt: skip
        assert heard == logs
    unfinished = {row[0]: row[6] for row in said["rows"] if row[5] is None and row[6]}
    for digest, attempts in unfinished.items():
        tried = [[a.number, a.state, a.cause, a.host] for a in repository.attempts(digest)]
        assert sorted(tried) == sorted(attempts)


@pytest.mark.parametrize(
    "revision", ["0001", *(pytest.param(r, marks=pytest.mark.slow) for r in ("0002", "0003"))]
)
def test_all_that_was_recorded_is_there_after_the_upgrade(url, revision):
    make_old(url, revision, empty=False)
    with pytest.raises(RecordError, match=f"has the schema {revision}, and this program needs"):
        open_repository(url)
    done = maintenance.upgrade_repository(url)
    assert (done.before, done.after) == (revision, "0008")
    holds(url)
    rows = [row for said in EXPECTED.values() for row in said["rows"]]
    parameters = {name for row in rows for name in row[4]}
    fields = _sql(url, "SELECT DISTINCT role, name FROM fields")
    assert {name for role, name in fields if role == "parameter"} == parameters
    assert parameters.isdisjoint(name for role, name in fields if role == "metric")
    assert _sql(url, "SELECT name FROM studies ORDER BY id") == [("train",), ("other",), ("empty",)]
    old = [row for row in fixture()["tables"]["fields"]["rows"] if row[0] == 3]
    named = [tuple(row[2:4]) for row in sorted(old)]
    query = "SELECT role, name FROM fields WHERE study = 2 ORDER BY number"
    assert _sql(url, query) == sorted(named, key=lambda field: field[0], reverse=True)
    assert maintenance.upgrade_repository(url).copy is None
    with contextlib.closing(open_repository(url)) as repository:
        assert len(repository.submissions()) == (revision == "0003")
    # Whoever submitted them was not asked who they are.
    assert {bool(verified) for (verified,) in _sql(url, "SELECT verified FROM submissions")} <= {
        False
    }


def test_archived_studies_are_versions_of_one(url):
    make_old(url, "0003", empty=False)
    maintenance.upgrade_repository(url)
    with contextlib.closing(open_repository(url)) as repository:
        archived = repository.archive(repository.study("train"))
        assert archived.name == "train@2"
        assert {study.name for study in repository.studies()} >= {"train@1", "train@2", "other"}


def test_a_study_goes_on_after_the_upgrade(url):
    make_old(url, "0003", empty=False)
    maintenance.upgrade_repository(url)
    from zenturio.testing.experiments import experiment, outcome

    with contextlib.closing(open_repository(url)) as repository:
        lease = repository.acquire_lease("other", DriverProcess.current())
        new = experiment(7000)
        assert repository.add_results("other", lease.number, [(new, outcome(new, time=1.0))])
        stale = next(
            row for row in EXPECTED["other"]["rows"] if row[3] == "running" or row[5] is None
        )
        assert repository.attempts(new.digest)[0].state == "ok"
        assert stale is not None
        repository.release_lease(lease)
    assert maintenance.check_repository(url) == ()


def test_the_copy_is_the_repository_as_it_was(tmp_path):
    url = str(tmp_path / "a.db")
    make_old(url, "0003", empty=False)
    copy = maintenance.upgrade_repository(url).copy
    assert copy == str(tmp_path / "a.db.0003")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "a.db.0003"]
    shutil.copy(copy, url)
    with pytest.raises(RecordError, match="has the schema 0003, and this"):
        open_repository(url)
    assert maintenance.upgrade_repository(url).copy == str(tmp_path / "a.db.0003-2")
    holds(url)


def test_the_old_tables_stay_on_the_server(postgres_url):
    make_old(postgres_url, "0003", empty=False)
    _sql(postgres_url, "CREATE VIEW mine AS SELECT count(*) AS n FROM experiments")
    kept = maintenance.upgrade_repository(postgres_url).copy.removeprefix("schema ")
    assert _sql(postgres_url, f'SELECT version_num FROM "{kept}".alembic_version') == [("0003",)]
    count = len(fixture()["tables"]["experiments"]["rows"])
    assert _sql(postgres_url, f'SELECT count(*) FROM "{kept}".experiments') == [(count,)]
    assert _sql(postgres_url, "SELECT n FROM mine") == [(count,)]
    assert _sql(postgres_url, "SELECT 1 FROM pg_namespace WHERE nspname LIKE '%new'") == []


def test_there_are_the_failpoints_that_are_tried_here():
    names = {name for name in failpoints.names() if name.startswith("upgrade.")}
    assert names == {f"upgrade.{point}" for point in POINTS}


PASSINGS = (*(f"{point}:1" for point in POINTS), "batch:3", "batch:6")
QUICK = {
    "sqlite": {"copied:1", "batch:3", "batch:6", "marked:1", "replaced:1"},
    "postgresql": {"batch:3", "replaced:1"},
}
"""Half a second of processor each: the others are tried in make test-all alone."""


@pytest.mark.parametrize(
    ("url", "point"),
    [
        pytest.param(kind, each, marks=[] if each in quick else [pytest.mark.slow])
        for kind, quick in QUICK.items()
        for each in PASSINGS
    ],
    indirect=["url"],
)
def test_an_upgrade_that_is_killed_is_gone_on_with(url, point):
    if "://" in url:  # a server keeps no copy of a file
        point = point.replace("copied", "marked")
    make_old(url, "0003", empty=False)
    code = (
        "import sys; from zenturio.record import maintenance, migration; migration.STEP = 11;"
        "maintenance.upgrade_repository(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url],
        env=os.environ | {"ZENTURIO_FAILPOINT": f"upgrade.{point}"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    maintenance.upgrade_repository(url)
    holds(url)
    if "://" not in url:
        copies = [
            p for p in Path(url).parent.iterdir() if ".0003" in p.name and "part" not in p.name
        ]
        assert copies
        with pytest.raises(RecordError, match="has the schema 0003, and this program needs"):
            open_repository(str(copies[0]))


def test_files_in_the_project_come_into_the_store_and_others_stay(tmp_path):
    home = tmp_path / "moved" / ".zenturio"
    home.mkdir(parents=True)
    url = str(home / "zenturio.db")
    make_old(url, "0003", empty=False)
    ((number, key, attempt, driver),) = _sql(
        url, "SELECT id, digest, attempt, driver FROM experiments WHERE state = 'ok' LIMIT 1"
    )
    digest, foreign = key.hex(), tmp_path / "foreign"
    files = {name: home / "outputs" / digest / name for name in ("run.sh", "sub/f", "changed")}
    for path in (*files.values(), foreign):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.name.encode())
    files["run.sh"].chmod(0o755)
    places = {name: f"/before/.zenturio/outputs/{digest}/{name}" for name in files}
    for name, kept in {**places, "else": str(foreign), "gone": "/before/gone"}.items():
        content = Path(name).name.encode() if name != "else" else b"foreign"
        sha = hashlib.sha256(b"other" if name == "changed" else content).hexdigest()
        _sql(
            url,
            "INSERT INTO artifacts (experiment, attempt, driver, path, size, sha256, kept) VALUES"
            f" ({number}, {attempt}, {driver}, '{name}', {len(content)}, '{sha}', '{kept}')",
        )
    maintenance.upgrade_repository(url)
    with contextlib.closing(open_repository(url)) as repository:
        kept = {a.path: a for a in repository.artifacts(digest)}
        for name in ("run.sh", "sub/f"):
            assert kept[name].kept.is_relative_to(home / "store" / "objects")
            assert kept[name].kept.read_bytes() == files[name].read_bytes()
        assert (kept["run.sh"].mode, kept["sub/f"].mode) == (0o755, 0o644)
        assert kept["else"].kept == foreign
        assert kept["changed"].kept == files["changed"]
        study = next(s.name for s in repository.studies() if digest in
                     {r.digest for r in repository.records(s.name)})  # fmt: skip
        maintenance.prune_study(repository, study)
        assert foreign.exists()
    copy = home / "zenturio.db.0003"
    shutil.move(copy, url)
    assert files["sub/f"].read_bytes() == b"f"


def test_paths_of_the_project_are_seen_from_there_after_the_upgrade(tmp_path):
    project = tmp_path / "project"
    url = str(project / ".zenturio" / "zenturio.db")
    (project / ".zenturio").mkdir(parents=True)
    make_old(url, "0003", empty=False)
    # Only the last programs of that revision wrote them so.
    there = f"replace(document, 'zen-project:.', '{project}')"
    _sql(url, f"UPDATE definitions SET document = {there} WHERE id % 2 = 0")
    maintenance.upgrade_repository(url)
    shutil.move(project, tmp_path / "other")
    with contextlib.closing(open_repository(tmp_path / "other/.zenturio/zenturio.db")) as moved:
        for name in ("train@1", "train"):
            notes = moved.definition(name).notes
            assert notes["root"] == str(tmp_path / "other")
            assert notes["paths"] == [str(tmp_path / "other" / "a.py")]


def test_a_repository_whose_upgrade_was_cut_off_is_refused_by_every_program(url, monkeypatch):
    make_old(url, "0003", empty=False)

    def killed(_self):
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(migration.Migrator, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            maintenance.upgrade_repository(url)
    with pytest.raises(RecordError, match=r"schema 0003 \(an upgrade was interrupted\), and this"):
        open_repository(url)
    assert _sql(url, "SELECT version_num FROM alembic_version") == [("0003-moving",)]
    maintenance.upgrade_repository(url)
    holds(url)


def test_nothing_is_upgraded_beside_a_driver(url):
    make_old(url, "0003", empty=False)
    here = DriverProcess.current()
    _sql(
        url,
        f"UPDATE leases SET ended = NULL, until = 1e11, host = '{here.host}', pid = {here.pid},"
        f" born = '{here.born}' WHERE id = 1",
    )
    with pytest.raises(ConflictError, match=f"is being run by process {here.pid}"):
        maintenance.upgrade_repository(url)
    assert _sql(url, "SELECT version_num FROM alembic_version") == [("0003",)]


def test_what_was_written_meanwhile_is_not_lost(url, monkeypatch):
    make_old(url, "0003", empty=False)
    run = migration.Migrator.run

    def with_another_writer(self):
        run(self)
        _sql(url, "UPDATE experiments SET attempt = attempt + 1 WHERE id = 1")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(migration.Migrator, "run", with_another_writer)
        with pytest.raises(RecordError, match="was changed while it was upgraded"):
            maintenance.upgrade_repository(url)
    assert _sql(url, "SELECT version_num FROM alembic_version") == [("0003",)]
    _sql(url, "UPDATE experiments SET attempt = attempt - 1 WHERE id = 1")
    maintenance.upgrade_repository(url)
    holds(url)


def test_nobody_writes_to_a_server_while_the_two_schemas_are_compared(postgres_url, monkeypatch):
    make_old(postgres_url, "0003", empty=False)
    contents, refused = upgrade._contents, []

    def with_another_writer(transaction, *, older):
        if older:
            for table in ("experiments", "attempts", "events"):
                with psycopg.connect(postgres_url) as other:
                    other.execute("SET lock_timeout = '1ms'")
                    with pytest.raises(psycopg.errors.LockNotAvailable):
                        other.execute(f"DELETE FROM {table}")
                refused.append(table)
        return contents(transaction, older=older)

    monkeypatch.setattr(upgrade, "_contents", with_another_writer)
    maintenance.upgrade_repository(postgres_url)
    assert len(refused) == 3
    holds(postgres_url)


def test_an_old_program_that_has_the_file_open_cannot_write_to_nowhere(tmp_path):
    url = str(tmp_path / "a.db")
    make_old(url, "0003", empty=False)
    old = dialect_at(url).connect()
    with contextlib.closing(old):
        old.execute("SELECT count(*) FROM leases").fetchall()
        maintenance.upgrade_repository(url)
        with pytest.raises(old.Error, match="no such table"):
            old.execute("UPDATE leases SET until = 0")
    holds(url)


def test_a_newer_repository_is_refused_with_what_to_do(url):
    open_repository(url).close()
    stamp(url, "9999")
    for look in (open_repository, maintenance.upgrade_repository):
        with pytest.raises(RecordError, match="has the schema 9999") as raised:
            look(url)
        assert "restore the copy" in str(raised.value)


@pytest.mark.parametrize("missing", [0, 1])
def test_an_upgrade_needs_room_for_a_copy_and_a_new_file(tmp_path, monkeypatch, missing):
    path = tmp_path / "a.db"
    path.write_bytes(bytes(3_000_000))
    needed = 2 * 3_000_000 + 2**20
    usage = shutil.disk_usage(tmp_path)._replace(free=needed - missing)
    monkeypatch.setattr(shutil, "disk_usage", {tmp_path: usage}.__getitem__)
    with pytest.raises(PlaceError, match="needs 7 MB, and 7 MB") if missing else nullcontext():
        upgrade.room_for(path)


def test_the_folder_of_a_file_that_was_replaced_is_on_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    make_old(str(path))
    synced = []
    monkeypatch.setattr(upgrade, "sync_path", synced.append)
    maintenance.upgrade_repository(str(path))
    assert synced[-1] == tmp_path


def test_a_file_that_is_being_read_is_not_replaced(tmp_path):
    path = tmp_path / "a.db"
    open_repository(path).close()
    kind = SQLite(path, 0.05)
    with contextlib.closing(kind.connect()) as reader, contextlib.closing(kind.connect()) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM studies").fetchone()
        writer.execute("CREATE TABLE more (a)")
        with pytest.raises(ConflictError, match="is being read by another process"):
            upgrade._checkpoint(Database(kind, 0.05), kind)
        reader.execute("COMMIT")
        upgrade._checkpoint(Database(kind, 0.05), kind)


def test_what_ran_when_its_driver_died_is_a_stale_attempt_after_the_upgrade(url):
    make_old(url, "0003", empty=False)
    digest = next(row[0] for row in EXPECTED["train"]["rows"] if row[3] == "waiting" and row[6])
    changed = "UPDATE experiments SET state = 'running', attempt = 7, host = NULL WHERE digest = "
    _sql(url, changed + (f"X'{digest}'" if "://" not in url else f"decode('{digest}', 'hex')"))
    maintenance.upgrade_repository(url)
    with contextlib.closing(open_repository(url)) as repository:
        attempts = {a.number: a.state for a in repository.attempts(digest)}
        assert attempts == {1: "failed", 2: "stale", 7: "stale"}
        assert repository.count_states("train")["running"] == 0
    assert maintenance.check_repository(url) == ()


def test_a_result_ran_on_the_machine_of_the_driver_of_that_time(tmp_path):
    url = str(tmp_path / "a.db")
    make_old(url, "0003", empty=False)
    ((document,),) = _sql(url, "SELECT document FROM definitions WHERE study = 3")
    _sql(url, "UPDATE experiments SET started = 100 * id, ended = 100 * id + 1 WHERE study = 3")
    ids = sorted(number for (number,) in _sql(url, "SELECT id FROM experiments WHERE study = 3"))
    edited, times = json.loads(document), [100.0 * ids[at] for at in (2, 4, 6)]
    _sql(url, "DELETE FROM definitions WHERE study = 3")
    for cpu, at in zip("abc", times, strict=True):
        edited["provenance"]["host"] = {"cpu": cpu, "cores": 4}
        text = json.dumps(edited).replace("'", "''")
        _sql(url, f"INSERT INTO definitions (study, at, document) VALUES (3, {at}, '{text}')")
    maintenance.upgrade_repository(url)
    with contextlib.closing(open_repository(url)) as repository:
        ran = {r.outcome.started: r.outcome.machine.cpu for r in repository.records("other")
               if r.outcome is not None}  # fmt: skip
    # What is older than all definitions ran on the first machine.
    assert ran == {at: "abc"[(at >= times[1]) + (at >= times[2])] for at in ran}
    assert set(ran.values()) == {*"abc"}
    assert min(ran) < times[0] < max(ran)


def test_attempts_are_moved_in_batches_of_experiments(tmp_path, monkeypatch):
    url = str(tmp_path / "a.db")
    make_old(url, "0003", empty=False)
    monkeypatch.setattr(migration, "STEP", 2)
    maintenance.upgrade_repository(url)
    holds(url)


def test_attempts_at_the_first_experiment_are_moved_as_well(url):
    make_old(url, "0003", empty=False)
    ((number, digest),) = _sql(url, "SELECT id, digest FROM experiments ORDER BY id LIMIT 1")
    _sql(
        url,
        f"UPDATE attempts SET experiment = {number}, number = 90 WHERE experiment ="
        " (SELECT min(experiment) FROM attempts) AND number = 1",
    )
    maintenance.upgrade_repository(url)
    with contextlib.closing(open_repository(url)) as repository:
        numbers = [attempt.number for attempt in repository.attempts(bytes(digest).hex())]
        assert (number, numbers[-1]) == (1, 90)
