"""SQLite keeps the contract, and what is particular to a file."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import types
from dataclasses import replace
from pathlib import Path

import pytest

from record import oracle
from record.worker import DEFINITION, STUDY, drive
from unprivileged import unprivileged
from zenturio.errors import RecordError
from zenturio.experiment.experiment import ProgramIdentity
from zenturio.record import (
    DriverProcess,
    Field,
    StudyDefinition,
    leases,
    maintenance,
    outcome_recording,
    reused_results,
    schema_version,
    sqlite,
    studies,
    study_views,
)
from zenturio.record.database import Database
from zenturio.record.open import open_repository
from zenturio.record.repository import Repository
from zenturio.system.file_systems import lock_holders, network_file_system
from zenturio.testing.experiments import experiment, outcome
from zenturio.testing.repository import RepositoryContract


class TestSQLite(RepositoryContract):
    """Rows come in the order that users see."""

    @pytest.fixture
    def reversed_rows(self) -> None:
        """Leave the order as it is."""

    @pytest.fixture
    def repository(self, tmp_path) -> Repository:
        repository = open_repository(tmp_path / "zenturio.db")
        yield repository
        repository.close()


class TestSQLiteWithPythonsOwnLibrary(RepositoryContract):
    """Where there is no newer one: a journal that the WAL-reset fault cannot touch."""

    @pytest.fixture
    def repository(self, tmp_path, monkeypatch) -> Repository:
        import sqlite3

        monkeypatch.setattr(sqlite, "sqlite_module", lambda: sqlite3)
        repository = open_repository(tmp_path / "zenturio.db")
        yield repository
        repository.close()


def _mode(path: Path) -> str:
    connection = sqlite.sqlite_module().connect(path)
    ((mode,),) = connection.execute("PRAGMA journal_mode")
    connection.close()
    return mode


@pytest.mark.parametrize(
    ("version", "mode"),
    [((3, 40, 1), "delete"), ((3, 51, 2), "delete"), ((3, 51, 3), "wal"), ((3, 60, 0), "wal")],
)
def test_wal_is_for_a_library_without_the_fault(tmp_path, monkeypatch, version, mode):
    newest = sqlite.sqlite_module()
    monkeypatch.setattr(sqlite, "sqlite_module", lambda: _Pretending(newest, version))
    open_repository(tmp_path / "a.db").close()
    # What is not WAL is not written into the file: a plain connection says its own default.
    assert _mode(tmp_path / "a.db") == mode


class _Pretending:
    """The module of a driver that says it is of another version."""

    def __init__(self, module, version):
        self._module = module
        self.sqlite_version_info = version
        self.sqlite_version = ".".join(map(str, version))

    def __getattr__(self, name):
        return getattr(self._module, name)


def test_a_file_in_wal_mode_that_is_in_use_is_not_opened_with_the_fault(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    safe = open_repository(path)
    safe.studies()
    newest = sqlite.sqlite_module()
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.1")
    monkeypatch.setattr(sqlite, "sqlite_module", lambda: _Pretending(newest, (3, 40, 1)))
    with pytest.raises(RecordError):
        open_repository(path)
    safe.close()
    open_repository(path).close()
    assert _mode(path) == "delete"


def test_there_is_no_wal_on_a_network_file_system(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "network_file_system", lambda path: "nfs4")
    repository = open_repository(tmp_path / "a.db")
    (warning,) = repository.warnings
    assert warning.severity == "warning"
    assert "lies on a network file system (nfs4): no WAL there" in str(warning)
    repository.close()
    assert _mode(tmp_path / "a.db") == "delete"


def test_the_last_and_deepest_mount_tells_the_file_system(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n"
        "/dev/sdb /home/me/scratch xfs rw 0 0\nhost:/a /with\\040blank fuse.sshfs rw 0 0\n"
        "/dev/sdc /over ext4 rw 0 0\nserver:/over /over cifs rw 0 0\n"
    )
    found = {
        place: network_file_system(Path(place), mounts)
        for place in ("/tmp/x", "/home/me/a.db", "/home/me/scratch/a.db", "/homestead/a",
                      "/with blank/a.db", "/over/a")
    }  # fmt: skip
    assert found == {
        "/tmp/x": None, "/home/me/a.db": "nfs4", "/home/me/scratch/a.db": None,
        "/homestead/a": None, "/with blank/a.db": "fuse.sshfs", "/over/a": "cifs",
    }  # fmt: skip
    assert network_file_system(Path("/x"), tmp_path / "none") is None


HOLDER = """
import sys
from zenturio.record import sqlite
c = sqlite.sqlite_module().connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
c.execute("COMMIT")
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock on a repository until it reads a line."""
    open_repository(tmp_path / "a.db").close()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "a.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.communicate()


def test_a_lock_that_is_not_given_up_is_told_with_its_holder(tmp_path, monkeypatch, holder):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.2")
    repository = open_repository(tmp_path / "a.db")
    with pytest.raises(RecordError, match=r"has been locked for 0\.2 seconds") as raised:
        repository.open(STUDY, DEFINITION)
    assert f"by process {holder.pid} ({sys.executable} -c" in str(raised.value)
    assert "ZENTURIO_DB_WAIT=SECONDS" in str(raised.value)
    assert raised.value.exit_code == 4
    repository.close()


def test_a_lock_that_is_given_up_is_waited_for(tmp_path, holder):
    driver = oracle.start(str(tmp_path / "a.db"), 2, 2)
    # It cannot end before the lock is gone: whatever it has done by now, it is waiting or will be.
    with pytest.raises(subprocess.TimeoutExpired):
        driver.wait(1.5)
    holder.communicate("\n")
    _, err = driver.communicate()
    assert driver.returncode == 0, err
    oracle.holds(str(tmp_path / "a.db"), 2)


def test_our_own_locks_have_no_holder(tmp_path):
    path = tmp_path / "a"
    path.touch()
    assert lock_holders([path, tmp_path / "none"]) == []
    assert lock_holders([path], tmp_path / "no locks") == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small tmpfs")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this root may not mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_keeps_what_was_acknowledged(small_disk):
    url = str(small_disk / "a.db")
    drive(url, 20, 10)
    repository = open_repository(url)
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    kept = []

    def fill():
        for start in range(100, 100_000, 200):
            pairs = [(e, outcome(e)) for e in map(experiment, range(start, start + 200))]
            kept.extend(repository.add_results(STUDY, lease.number, pairs))

    with pytest.raises(RecordError, match=r"disk is full|disk I/O error") as raised:
        fill()
    assert raised.value.exit_code == 4
    assert "make room on the disk" in str(raised.value)
    assert kept
    assert repository.find_outcomes(kept).keys() == set(kept)
    repository.close()
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    assert maintenance.check_repository(url) == ()
    repository = open_repository(url)
    assert repository.find_outcomes(kept).keys() == set(kept)
    assert repository.count_states(STUDY)["ok"] == 20 + len(kept)
    repository.close()


@pytest.mark.parametrize("damage", ["header", "schema", "rubbish"])
def test_a_damaged_file_is_named_and_left_alone(tmp_path, damage):
    path = tmp_path / "a.db"
    drive(str(path), 5, 5)
    content = bytearray(path.read_bytes())
    match damage:
        case "header":
            content[:16] = b"x" * 16
        case "schema":
            content[100:4096] = b"\xff" * 3996
        case "rubbish":
            content = b"not a database, but long enough to be taken for one" * 50
    path.write_bytes(content)
    with pytest.raises(RecordError, match="is damaged") as raised:
        open_repository(path)
    assert "zen db salvage" in str(raised.value)
    assert raised.value.exit_code == 4
    assert path.read_bytes() == content
    assert len(maintenance.check_repository(path)) == 1


def test_a_place_that_is_not_ours_to_write_is_named(tmp_path):
    (tmp_path / "a.db").mkdir()
    with pytest.raises(RecordError, match="cannot open"):
        open_repository(tmp_path / "a.db")
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="no folder for the database"):
        open_repository(tmp_path / "file" / "a.db")


def test_a_database_that_was_copied_with_its_journal_is_whole(tmp_path):
    """As a machine that lost its power leaves it: nothing was closed."""
    path = tmp_path / "a.db"
    driver = oracle.start(str(path), 40, 2)
    told = []
    while len(told) < 10:
        line = driver.stdout.readline()
        told += [line.split()[1]] if line.startswith("accepted") else []
    driver.kill()
    driver.communicate()
    copy = tmp_path / "copy"
    copy.mkdir()
    for part in tmp_path.glob("a.db*"):
        shutil.copy(part, copy)
    repository = open_repository(copy / "a.db")
    assert repository.find_outcomes(told).keys() == set(told)
    repository.close()
    oracle.holds(str(copy / "a.db"), 40)


def test_an_outcome_waits_for_the_disk_and_a_claim_does_not(tmp_path, monkeypatch):
    levels = {}
    for module, name in (
        (reused_results, "cached_digests"),
        (leases, "claim"),
        (outcome_recording, "record"),
    ):
        real = getattr(module, name)

        def spied(context, *rest, name=name, real=real, **more):
            ((levels[name],),) = context.transaction.sql("PRAGMA synchronous")
            return real(context, *rest, **more)

        monkeypatch.setattr(module, name, spied)
    drive(str(tmp_path / "a.db"), 2, 2)
    assert levels == {"cached_digests": 2, "claim": 1, "record": 2}


@pytest.fixture
def archived():
    """A repository in a folder where nobody may write but root."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="zen-archived-") as name:
        folder = Path(name)
        drive(str(folder / "a.db"), 5, 5)
        (folder / "a.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder / "a.db"
        folder.chmod(0o755)


def test_what_may_only_be_read_can_be_read_and_says_so_where_it_is_written(archived):
    before = archived.stat()
    with unprivileged():
        repository = open_repository(archived)
        assert len(list(repository.records(STUDY))) == 5
        with pytest.raises(RecordError, match=r"cannot open .* for writing"):
            repository.open("another", DEFINITION)
        repository.close()
        assert maintenance.check_repository(archived) == ()
    assert archived.stat().st_mtime_ns == before.st_mtime_ns
    assert [each.name for each in archived.parent.iterdir()] == ["a.db"]


def test_a_file_that_is_being_read_is_not_compacted_and_is_so_later(tmp_path):
    path = tmp_path / "a.db"
    drive(str(path), 5, 5)
    dialect = sqlite.SQLite(path, 0)
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM studies").fetchone()
        assert not dialect.compact()
        reader.execute("ROLLBACK")
        reader.execute("BEGIN IMMEDIATE")
        assert not dialect.compact()
        reader.execute("ROLLBACK")
        assert dialect.compact()
    path.write_bytes(b"not a database, but long enough to be taken for one" * 50)
    with pytest.raises(RecordError, match="is damaged"):
        dialect.compact()


def test_an_error_of_sqlite_that_nobody_knows_is_told_as_it_is(tmp_path):
    dialect = sqlite.SQLite(tmp_path / "a.db", 0)
    error = dialect.explain(sqlite.sqlite_module().Error("no such thing"))
    assert isinstance(error, RecordError)
    assert str(error) == f"{dialect.location}: no such thing"


def test_the_newer_of_two_libraries_is_used(monkeypatch):
    import sqlite3

    older, newer = (_Pretending(sqlite3, version) for version in ((3, 1, 0), (9, 0, 0)))
    for module, chosen in ((older, sqlite3), (newer, newer)):
        monkeypatch.setitem(sys.modules, "pysqlite3", types.ModuleType("pysqlite3"))
        monkeypatch.setitem(sys.modules, "pysqlite3.dbapi2", module)
        assert sqlite.sqlite_module() is chosen
    monkeypatch.setitem(sys.modules, "pysqlite3.dbapi2", None)
    assert sqlite.sqlite_module() is sqlite3


def test_a_file_on_a_disk_of_this_machine_is_nothing_to_warn_of(tmp_path):
    assert sqlite.SQLite(tmp_path / "a.db", 0).warnings() == ()


LITTLE_MEMORY = """
import sys
from zenturio.errors import RecordError
from zenturio.record.open import open_repository
from zenturio.record.sqlite import sqlite_module
repository = open_repository(sys.argv[1])
limited = sqlite_module().connect(":memory:")
limited.execute("PRAGMA hard_heap_limit = 8000000")  # for the whole process, and for ever
try:
    repository._database.read(lambda transaction: transaction.sql("SELECT zeroblob(50000000)"))
except RecordError as error:
    print(error)
print(repository.studies())
"""


def test_an_answer_that_does_not_fit_into_the_memory_is_an_error_with_a_hint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, tmp_path / "zenturio.db"],
        capture_output=True,
        text=True,
    )
    assert "the result does not fit into memory" in done.stdout, done.stderr
    assert "select fewer rows" in done.stdout
    assert done.stdout.endswith("()\n")  # and the next statement works


def test_a_file_that_stays_in_wal_mode_is_refused_with_the_reason(tmp_path):
    (tmp_path / "a.db").touch()
    dialect = sqlite.SQLite(tmp_path / "a.db", 0.1)
    stays = types.SimpleNamespace(
        execute=lambda _: types.SimpleNamespace(fetchone=lambda: ("wal",))
    )
    dialect._wal = True
    dialect._set_modes(stays)
    dialect._wal, dialect._network = False, "nfs4"
    with pytest.raises(RecordError, match=r"WAL mode.*: the file system is nfs4"):
        dialect._set_modes(stays)
    dialect._network = None
    dialect._driver = _Pretending(sqlite.sqlite_module(), (3, 40, 1))
    with pytest.raises(RecordError, match=r"SQLite 3\.40\.1 may damage .*fixed in 3\.51\.3"):
        dialect._set_modes(stays)


def test_the_memory_of_connections_is_limited_at_once(tmp_path):
    def size(repository):
        with contextlib.closing(repository.connections.raw_connection()) as connection:
            return connection.driver_connection.execute("PRAGMA cache_size").fetchone()[0]

    with contextlib.closing(open_repository(tmp_path / "a.db")) as repository:
        assert size(repository) == -sqlite.CACHE_KIB
        repository.limit_cache(100)
        assert size(repository) == -100


def test_a_file_with_nothing_in_it_is_missing(tmp_path):
    for content, missing in ((None, True), (b"", True), (b"x", False)):
        if content is not None:
            (tmp_path / "a.db").write_bytes(content)
        assert sqlite.SQLite(tmp_path / "a.db", 0).missing() == missing


@pytest.mark.parametrize("backwards", [True, False])
def test_what_comes_first_or_last_is_asked_for(tmp_path, monkeypatch, backwards):
    """Whichever end of a table SQLite begins at."""
    if not backwards:
        guards = tuple(guard for guard in sqlite._GUARDS if "reverse" not in guard)
        monkeypatch.setattr(sqlite, "_GUARDS", guards)
    path = tmp_path / "a.db"
    fields = tuple(Field(f"p{number}") for number in range(5))
    newer = StudyDefinition(fields, sources={"b.sh": b"b", "a.sh": b"a"})
    program = ProgramIdentity("ef" * 16, 2, lambda: '{"format": 2}')
    named = replace(experiment(0), program=program, key=b"k" * 16)
    with contextlib.closing(open_repository(path)) as repository:
        # Of several definitions the newest one is compared with the one that is opened.
        for definition in (DEFINITION, newer, newer):
            repository.open("s", definition)
        assert list(repository.definition("s").sources) == ["a.sh", "b.sh"]
        for number, person in enumerate(("ann", "bob"), 1):
            lease = repository.acquire_lease("s", DriverProcess.current())
            assert lease.number == number
            sql(path, f"UPDATE leases SET person = '{person}' WHERE id = {number}")
            repository.release_lease(lease)
        assert [r.person for r in repository.rounds("s")] == ["ann"]
        # Two drivers may have written the recipe of one program: the first one is used.
        lease = repository.acquire_lease("s", DriverProcess.current())
        repository.add_results("s", lease.number, [(named, outcome(named))])
        sql(
            path,
            "INSERT INTO recipes (version, format, document) SELECT 1, 2, document FROM recipes",
        )
    with contextlib.closing(open_repository(path)) as repository:
        _, layout = repository.version_and_layout("s")
        assert [f.number for f in layout.fields] == list(range(len(layout.fields)))
        assert len(layout.fields) == len({*DEFINITION.parameters, *DEFINITION.metrics, *fields})
        (lease,) = repository.leases("s")
        other = replace(experiment(1), program=program, key=b"l" * 16)
        repository.add_results("s", lease.number, [(other, outcome(other))])
        for name in ("a b", "a-b", "c"):
            repository.open(name, DEFINITION)
        sql(path, "UPDATE studies SET opened = 5 + (name = 'a b')")
        assert [view.study for view in repository.stored_views()] == ["a b", "c", "a-b", "s"]
    with contextlib.closing(Database(sqlite.SQLite(path, 5), 5)) as database:
        versions = database.read(studies.all_versions)
        assert [version.base for version in versions] == ["s", "a b", "a-b", "c"]
        # Of two studies that would have the same name without quotes the first one has it.
        plain = [
            database.read(lambda transaction, version=version: study_views._plain_names(
                transaction, version
            ))
            for version in versions
        ]  # fmt: skip
        assert [sorted(names.values()) for names in plain] == [
            [], ["study_a_b", "study_a_b_all"], [], []
        ]  # fmt: skip
    assert sql(path, "SELECT count(*) FROM definitions WHERE version = 1") == [(2,)]
    assert sql(path, "SELECT DISTINCT recipe FROM results") == [(1,)]


def sql(path, statement):
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.mark.parametrize(
    "damage", ["DELETE FROM projects", "UPDATE studies SET project = 7"], ids=["all", "some"]
)
def test_a_file_that_has_lost_projects_finds_its_studies(tmp_path, damage):
    path = tmp_path / "a.db"
    with contextlib.closing(open_repository(path)) as repository:
        repository.open("s", DEFINITION)
        version = repository.study("s")
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    with contextlib.closing(open_repository(path)) as repository:
        assert repository.study("s") == version
        repository.open("s", DEFINITION)
        assert [study.version for study in repository.studies()] == [1]


def test_a_brief_transaction_leaves_a_connection_that_commits_to_the_disk(tmp_path):
    path = tmp_path / "a.db"
    database = schema_version.connect(sqlite.SQLite(path, 5), 5)
    full, normal = 2, 1

    def synchronous(transaction):
        ((mode,),) = transaction.sql("PRAGMA synchronous")
        return mode

    def fail(transaction):
        raise RecordError("not now")

    assert database.write(synchronous) == full
    assert database.write_briefly(synchronous) == (normal if database.dialect.end_brief else full)
    assert database.write(synchronous) == full
    with pytest.raises(RecordError, match="not now"):
        database.write_briefly(fail)
    assert database.write(synchronous) == full
    database.close()
