"""Looking after a repository."""

import contextlib
import dataclasses
import subprocess
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from record import oracle
from record.leaving import left
from record.old import make_old, stamp
from record.reference import ReferenceRepository
from record.worker import DEFINITION, STUDY, drive
from zenturio import trust
from zenturio.errors import ConflictError, InputError, NotFoundError, RecordError
from zenturio.experiment.experiment import Artifact
from zenturio.record import DriverProcess, maintenance, sqlite
from zenturio.record.open import dialect_at, open_repository
from zenturio.record.schema import metadata
from zenturio.record.sql_names import REVISIONS
from zenturio.testing.experiments import experiment, outcome


def test_a_sound_repository_has_no_diagnostics(url):
    drive(url, 10, 5)
    assert maintenance.check_repository(url) == ()


def test_a_repository_that_is_not_there_is_not_created(tmp_path):
    for look in (maintenance.check_repository, maintenance.upgrade_repository):
        with pytest.raises(NotFoundError, match="there is no database at"):
            look(tmp_path / "a.db")
    assert list(tmp_path.iterdir()) == []


def test_an_upgrade_keeps_a_copy_of_the_file(tmp_path):
    url = str(tmp_path / "a.db")
    make_old(url)
    done = maintenance.upgrade_repository(url)
    assert (done.before, done.after, done.copy) == ("0001", "0008", str(tmp_path / "a.db.0001"))
    with pytest.raises(RecordError, match="has the schema 0001"):
        open_repository(done.copy)
    oracle.holds(url, 3)
    again = maintenance.upgrade_repository(url)
    assert (again.before, again.after, again.copy) == ("0008", "0008", None)


def test_a_database_without_tables_becomes_a_repository_of_today(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as connection:
        connection.execute("VACUUM")  # it has a page from then on
    done = maintenance.upgrade_repository(path)
    assert done == maintenance.Upgrade(REVISIONS[-1], REVISIONS[-1], None)
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]
    assert maintenance.check_repository(path) == ()
    assert maintenance.describe(path)["revision"] == REVISIONS[-1]


@pytest.mark.parametrize("create", [ReferenceRepository, partial(open_repository, "memory:")])
def test_what_is_in_memory_has_no_files_to_remove(create):
    with contextlib.closing(create()) as repository:
        repository.open(STUDY, DEFINITION)
        assert maintenance.preview_pruning(repository, STUDY).study == STUDY
        assert maintenance.prune_study(repository, STUDY).study == STUDY
        assert list(repository.studies()) == []
        garbage = maintenance.collect_garbage(repository, really=True)
        assert garbage == maintenance.Garbage((), (), 0)


def test_a_project_that_begins_with_a_copy_of_a_server_is_the_users_own(
    postgres_url, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    drive(postgres_url, 1, 1)
    copy, removed = dataclasses.astuple(maintenance.rotate(postgres_url, 1))
    assert copy.parent == tmp_path / ".zenturio" / "backups"
    assert copy.suffix == ".dump"
    assert removed == ()
    trust.require(tmp_path / ".zenturio", {})


def test_a_newer_repository_is_not_upgraded(url):
    open_repository(url).close()
    stamp(url, "9999")
    with pytest.raises(RecordError, match="has the schema 9999"):
        maintenance.upgrade_repository(url)


def test_a_copy_is_whole_while_a_driver_is_at_work(tmp_path):
    url = str(tmp_path / "a.db")
    driver = oracle.start(url, 150, 2)
    accepted_digests = []
    while len(accepted_digests) < 20:
        line = driver.stdout.readline()
        accepted_digests += [line.split()[1]] if line.startswith("accepted") else []
    copy = maintenance.backup(url, tmp_path / "copy.db")
    driver.communicate()
    repository = open_repository(copy)
    assert repository.find_outcomes(accepted_digests).keys() == set(accepted_digests)
    repository.close()
    with pytest.raises(InputError, match="already exists"):
        maintenance.backup(url, copy)
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
    oracle.holds(url, 150)


def test_a_copy_says_how_far_it_is_and_is_of_the_moment_of_its_beginning(tmp_path, monkeypatch):
    url = str(tmp_path / "a.db")
    drive(url, 20, 5)
    monkeypatch.setattr(sqlite, "_COPIED_PAGES", 10)
    repository = open_repository(url)
    steps = []

    def write_meanwhile(done, total):
        steps.append((done, total))
        repository.open(f"later{len(steps)}", DEFINITION)

    copy = maintenance.backup(url, tmp_path / "copy.db", write_meanwhile)
    repository.close()
    (total,) = {total for _, total in steps}
    assert [done for done, _ in steps] == [*range(10, total, 10), total]
    assert len(steps) > 3
    with contextlib.closing(open_repository(copy)) as kept:
        assert [study.name for study in kept.studies()] == [STUDY]
    assert maintenance.check_repository(copy) == ()


def test_the_newest_copies_are_kept_and_nothing_else_is_removed(tmp_path):
    url = tmp_path / "a.db"
    drive(str(url), 5, 5)
    mine = tmp_path / "backups" / "zenturio-mine.db"
    copies = [maintenance.rotate(url, None).copy for _ in range(3)]
    mine.touch()
    kept = maintenance.rotate(url, 2)
    assert kept.removed == tuple(copies[:2])
    assert sorted(mine.parent.iterdir()) == sorted([copies[2], kept.copy, mine])
    oracle.holds(str(kept.copy), 5)
    last = maintenance.rotate(url, 1)
    assert last.removed == (copies[2], kept.copy)
    assert sorted(mine.parent.iterdir()) == sorted([last.copy, mine])
    with pytest.raises(InputError, match="cannot keep 0 copies"):
        maintenance.rotate(url, 0)


def test_a_copy_that_somebody_else_removes_first_is_removed(tmp_path, monkeypatch):
    url, unlink = tmp_path / "a.db", Path.unlink
    drive(str(url), 1, 1)
    first = maintenance.rotate(url, None).copy

    def unlink_behind_another(path, *, missing_ok=False):
        unlink(path, missing_ok=True)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_behind_another)
    assert maintenance.rotate(url, 1).removed == (first,)


def test_the_copy_of_an_interrupted_upgrade_does_not_stop_the_next_one(tmp_path):
    url = str(tmp_path / "a.db")
    make_old(url)
    (tmp_path / "a.db.0001").write_text("of before")
    assert maintenance.upgrade_repository(url).copy == str(tmp_path / "a.db.0001-2")
    assert (tmp_path / "a.db.0001").read_text() == "of before"


def test_a_copy_of_a_server_is_made_by_its_own_program(postgres_url, tmp_path):
    drive(postgres_url, 5, 5)
    copy = maintenance.backup(postgres_url.replace("zen@", "zen:s3cr3t@"), tmp_path / "copy")
    assert copy.read_bytes().startswith(b"PGDMP")
    assert b"s3cr3t" not in copy.read_bytes()


@pytest.mark.parametrize("form", ["keeper:p%40ss@/postgres?", "keeper@/postgres?password=p%40ss&"])
def test_a_copy_is_made_with_the_password_of_the_url(postgres, postgres_url, form, tmp_path):
    drive(postgres_url, 3, 3)
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'p@ss'")
        try:
            url = postgres_url.replace("zen@/postgres?", form)
            copy = maintenance.backup(url, tmp_path / "copy")
        finally:
            admin.execute("DROP ROLE keeper")
    assert copy.read_bytes().startswith(b"PGDMP")


@pytest.fixture
def two_databases(postgres):
    """URLs of two empty databases, whose schema is public."""
    names = ("before", "after")
    with postgres.connect() as admin:
        for name in names:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    yield [f"postgresql://zen@/{name}?host={postgres.folder}" for name in names]
    with postgres.connect() as admin:
        for name in names:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_copy_of_a_server_is_restored_with_all_rows_and_views(two_databases, tmp_path):
    import psycopg

    before, after = two_databases
    drive(before, 30, 7)
    copy = maintenance.backup(before, tmp_path / "copy")
    command = ["pg_restore", "--clean", "--if-exists", "--no-owner", "--exit-on-error"]
    subprocess.run([*command, "-d", after, copy], check=True)
    assert maintenance.check_repository(after) == ()
    rows = []
    for url in two_databases:
        with psycopg.connect(url) as connection:
            views = connection.execute(
                "SELECT viewname FROM pg_views WHERE schemaname = 'studies' ORDER BY 1"
            ).fetchall()
            names = sorted(metadata.tables) + [f'studies."{view}"' for (view,) in views]
            rows.append({
                name: sorted(connection.execute(f"SELECT t::text FROM {name} t").fetchall())
                for name in names
            })  # fmt: skip
    assert rows[0] == rows[1]
    assert any(name.startswith("studies.") for name in rows[0])
    oracle.holds(after, 30)


def _damaged(tmp_path, pages, count=3000):
    """A repository of which every *pages*-th page is overwritten."""
    path = tmp_path / "a.db"
    repository = open_repository(path)
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    given = [experiment(i) for i in range(count)]
    repository.add_results(STUDY, lease.number, [(e, outcome(e, time=e.index / 7)) for e in given])
    repository.release_lease(lease)
    repository.close()
    content = bytearray(path.read_bytes())
    for page in range(pages, len(content) // 4096, pages):
        content[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    return path, bytes(content)


def test_what_can_be_read_of_a_damaged_file_is_saved(tmp_path):
    path, content = _damaged(tmp_path, 60)
    assert maintenance.check_repository(path)
    saved = maintenance.salvage(path, tmp_path / "new.db")
    assert path.read_bytes() == content
    assert saved.pages > 0
    assert maintenance.check_repository(saved.target) == ()
    repository = open_repository(saved.target)
    records = list(repository.records(STUDY))
    assert 1000 < len(records) < 3000
    for record in records:
        assert record.digest == experiment(record.index).digest
        assert record.outcome is None or record.outcome.metrics == {"time": record.index / 7}
    repository.close()


def test_a_sound_file_is_saved_whole(tmp_path):
    drive(str(tmp_path / "a.db"), 30, 7)
    saved = maintenance.salvage(tmp_path / "a.db", tmp_path / "new.db")
    assert (saved.rows["results"], saved.pages, saved.unreadable, saved.waiting) == (
        30,
        0,
        0,
        0,
    )
    oracle.holds(str(tmp_path / "new.db"), 30)


def test_a_page_of_rubbish_that_claims_a_giant_row_number_costs_nothing(tmp_path):
    drive(str(tmp_path / "a.db"), 30, 7)
    with contextlib.closing(sqlite.sqlite_module().connect(tmp_path / "a.db")) as connection:
        connection.execute("UPDATE events SET id = 9e18 WHERE id = (SELECT max(id) FROM events)")
        connection.commit()
    saved = maintenance.salvage(tmp_path / "a.db", tmp_path / "new.db")
    assert (saved.rows["results"], saved.unreadable) == (30, 0)


def test_all_rows_are_saved(tmp_path):
    drive(str(tmp_path / "a.db"), 35, 7)
    saved = maintenance.salvage(tmp_path / "a.db", tmp_path / "new.db")
    assert saved.rows["results"] == 35
    oracle.holds(str(tmp_path / "new.db"), 35)


def test_a_file_of_which_nothing_can_be_read_is_named(tmp_path):
    (tmp_path / "a.db").write_bytes(b"\xa5" * 40960)
    with pytest.raises(RecordError, match="nothing can be read from"):
        maintenance.salvage(tmp_path / "a.db", tmp_path / "new.db")


def test_pruning_leaves_files_that_are_not_in_the_project(url, tmp_path):
    repository = open_repository(url)
    files = {name: tmp_path / name for name in ("own", "shared", "gone")}
    files["own"].touch()
    files["shared"].touch()
    for study, names in (("s", files), ("t", ["shared"])):
        repository.open(study, DEFINITION)
        lease = repository.acquire_lease(study, DriverProcess.current())
        given = experiment(1, salt=study)
        kept = tuple(Artifact(n, 0, sha256(n.encode()).hexdigest(), files[n]) for n in names)
        done = replace(outcome(given), artifacts=kept)
        repository.add_results(study, lease.number, [(given, done)])
        if study == "s":
            with pytest.raises(ConflictError):
                maintenance.prune_study(repository, "s")
        repository.release_lease(lease)
    burden = maintenance.preview_pruning(repository, "s")
    assert burden.artifacts == ()
    assert sorted(Path(path).name for path in burden.foreign) == ["gone", "own"]
    assert maintenance.prune_study(repository, "s") == burden
    assert [name for name, path in files.items() if path.exists()] == ["own", "shared"]
    repository.close()
    assert maintenance.check_repository(url) == ()


def test_pruning_takes_the_files_along_that_nobody_else_needs(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / ".zenturio"
    home.mkdir()
    repository = open_repository(url)
    for study, index in (("s", 1), ("t", 2)):
        given = experiment(index)
        repository.open(study, DEFINITION)
        lease = repository.acquire_lease(study, DriverProcess.current())
        done = left(home, given, files={"own": study.encode(), "same": b"same"})
        repository.add_results(study, lease.number, [(given, done)])
        repository.release_lease(lease)
    burden = maintenance.preview_pruning(repository, "s")
    assert [Path(path).read_bytes() for path in burden.artifacts] == [b"s"]
    assert maintenance.prune_study(repository, "s") == burden
    kept = repository.artifacts(experiment(2).digest)
    assert {a.path: a.kept.read_bytes() for a in kept} == {"own": b"t", "same": b"same"}
    repository.close()
    assert maintenance.check_repository(url, contents=True) == ()


def test_the_library_that_copies_is_the_one_that_writes(tmp_path):
    """A process that opened a file through two libraries would lose its locks."""
    assert dialect_at(tmp_path / "a.db")._driver is sqlite.sqlite_module()


def test_a_repository_is_described_and_stays_as_it_is(tmp_path):
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    open_repository(new).close()
    version = sqlite.sqlite_module().sqlite_version
    facts = {"place": str(new), "revision": "0008", "version": version}
    assert maintenance.describe(new) == facts
    make_old(str(old))
    before = old.read_bytes()
    assert maintenance.describe(old) == {"place": str(old), "revision": "0001"}
    assert old.read_bytes() == before


def test_contents_are_needed_where_another_database_cannot_be_asked(tmp_path, monkeypatch):
    asked = ["a" * 64, "b" * 64]
    broken = tmp_path / "broken.db"
    with contextlib.closing(open_repository(tmp_path / "a.db")) as repository:
        places = [str(tmp_path / "gone.db")]
        monkeypatch.setattr(repository.store, "databases", lambda: places)
        assert maintenance.needed_contents(repository, asked) == frozenset()
        broken.write_bytes(b"rubbish" * 1000)
        places.append(str(broken))
        assert maintenance.needed_contents(repository, asked) == frozenset(asked)


def test_copies_of_what_is_no_file_lie_in_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".zenturio" / "backups"
    folder.mkdir(parents=True)
    (folder / "of-the-server.dump").touch()
    (folder / "a-folder").mkdir()
    assert maintenance.backup_files("memory:") == (folder / "of-the-server.dump",)
