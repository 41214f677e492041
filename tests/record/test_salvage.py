"""Whatever page of a database is destroyed, the rows on all other pages come back."""

import contextlib
import re
import shutil
from dataclasses import replace

import pytest

from record.worker import DEFINITION
from zenturio.experiment.experiment import Artifact, Log
from zenturio.record import DriverProcess, maintenance, sqlite
from zenturio.record.open import open_repository
from zenturio.record.salvage import RecognisedTables, TableShape, shapes
from zenturio.record.sqlite_pages import SQLitePages
from zenturio.testing.experiments import experiment, outcome

TABLES = shapes()
STUDIES = {"one": range(60), "two": range(50, 110)}
"""They share ten experiments."""


class Tracing(SQLitePages):
    """Remembers which pages were looked at."""

    def __init__(self, path):
        self.seen = set()
        super().__init__(path)

    def __getitem__(self, number):
        self.seen.add(number)
        return super().__getitem__(number)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A small database with a row in nearly every table, and rows that need several pages."""
    path = tmp_path_factory.mktemp("sound") / "a.db"
    repository = open_repository(path)
    path.with_name("out").write_bytes(b"x")
    for name, indices in STUDIES.items():
        repository.open(name, replace(DEFINITION, sources={"a.py": b"a" * 5000, "b.py": b"b"}))
        lease = repository.acquire_lease(name, DriverProcess.current())
        known = repository.cached(name, [experiment(i) for i in indices])
        results = []
        for i in indices:
            each = experiment(i)
            if each.digest not in known:
                kept = Artifact("out", 1, "0" * 64, path.with_name("out"))
                log = Log(b"x" * (6000 if i % 20 == 0 else i), b"", 9000)
                measured = {"time": i / 7, "big": 2**70 + i, f"text{i % 2}": "y" * i}
                results.append(
                    (each, replace(outcome(each, metrics=measured), stdout=log, artifacts=(kept,)))
                )
        repository.add_results(name, lease.number, results)
        repository.add_event(name, "kind", "text", experiment(indices[0]).digest)
        repository.release_lease(lease)
    repository.submit("token", "me", "one", {})
    repository.close()
    return path


def _rows(path):
    """Each row by the table, and the pages that it lies on."""
    pages = Tracing(path)
    file = RecognisedTables(pages, TABLES)
    found = {}
    for name, tops in file.trees.items():
        for top in tops:
            for leaf in pages.tree(top):
                count = len(pages.pointers(leaf)[1])
                rows = pages.rows(leaf)
                for _ in range(count):
                    pages.seen = {leaf}
                    row = next(rows)
                    found.setdefault((name, row.number, row.values), set()).update(pages.seen)
    return found


def test_the_pages_hold_what_sqlite_reads(sound):
    rows = _rows(sound)
    with contextlib.closing(sqlite.sqlite_module().connect(sound)) as connection:
        for shape in TABLES:
            names = ", ".join(shape.columns)
            read = connection.execute(f"SELECT rowid, {names} FROM {shape.table} ORDER BY rowid")
            mine = sorted((key[1:] for key in rows if key[0] == shape.table), key=lambda r: r[0])
            key = shape.columns.index(shape.key) if shape.key else None
            for (number, *values), (own, stored) in zip(read, mine, strict=True):
                stored = list(stored)
                if key is not None:
                    stored[key] = own
                assert (number, values) == (own, stored)


@pytest.mark.parametrize("rubbish", [b"\xa5", pytest.param(b"\0", marks=pytest.mark.slow)])
def test_the_rows_on_all_other_pages_are_read(sound, tmp_path, rubbish):
    rows, content = _rows(sound), sound.read_bytes()
    path, whole = tmp_path / "a.db", SQLitePages(sound)
    assert RecognisedTables(whole, TABLES).destroyed == 0
    for page in range(len(content) // 4096):
        path.write_bytes(content[: page * 4096] + rubbish * 4096 + content[(page + 1) * 4096 :])
        file = RecognisedTables(SQLitePages(path), TABLES)
        left = {
            (shape.table, row.number, row.values)
            for shape in TABLES
            for row in file.rows(shape.table)
        }
        wanted = {
            key for key, on in rows.items() if page + 1 not in on and key[0] != "sqlite_master"
        }
        assert wanted <= left, page + 1
        assert left <= rows.keys()
        holds_rows = page + 1 in whole.leaves or page + 1 in whole.children
        assert file.destroyed == (page == 0 or holds_rows)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_experiments_on_all_other_pages_are_known_again(sound, tmp_path, every):
    """In the gate: of the pages that hold rows of the same tables one."""
    rows, content = _rows(sound), sound.read_bytes()
    damaged = tmp_path / "a.db"
    with contextlib.closing(open_repository(sound)) as repository:
        before = {
            name: {
                r.digest: (r.outcome, repository.logs(r.digest)) for r in repository.records(name)
            }
            for name in STUDIES
        }
    names = {"studies", "versions", "fields", "definitions"}
    pages = range(len(content) // 4096)
    tables = {p: frozenset(key[0] for key, on in rows.items() if p + 1 in on) for p in pages}
    for page in pages if every else {tables[p]: p for p in pages}.values():
        damaged.write_bytes(content[: page * 4096] + b"\xa5" * 4096 + content[(page + 1) * 4096 :])
        target = tmp_path / f"new{page}.db"
        saved = maintenance.salvage(damaged, target)
        # The files themselves lie beside the original, and are not saved here.
        complaints = [d.message for d in maintenance.check_repository(target)]
        assert [m for m in complaints if not re.search("/store/objects/|more artifacts", m)] == []
        hurt = tables[page]
        lost = {key[1] for key, on in rows.items() if page + 1 in on and key[0] == "results"}
        with contextlib.closing(open_repository(target)) as repository:
            studies = repository.studies()
            assert len(studies) == 2, (page, hurt)
            if not hurt & names:
                assert [study.name for study in studies] == [*STUDIES]
            for study, old in zip(studies, before.values(), strict=True):
                new = {r.digest: r.outcome for r in repository.records(study.name)}
                assert len(old) - len(new) <= len(lost), (page, hurt)
                assert new.keys() <= old.keys()
                for digest, found in new.items():
                    if not hurt & {*names, "hosts", "machines"}:
                        assert found == old[digest][0]
                    else:
                        assert found.metrics["time"] == old[digest][0].metrics["time"]
                    if "logs" not in hurt:
                        assert repository.logs(digest) == old[digest][1]
        assert saved.waiting == 0
        target.unlink()
    shutil.rmtree(tmp_path)


def test_after_a_salvage_former_digests_are_looked_for_where_they_may_be(sound, tmp_path):
    empty = tmp_path / "empty.db"
    with contextlib.closing(open_repository(empty)) as repository:
        repository.open("one", DEFINITION)
    for path, is_there in ((empty, False), (sound, True)):
        target = tmp_path / f"new-{path.name}"
        maintenance.salvage(path, target)
        with contextlib.closing(open_repository(target)) as repository:
            assert repository.has_former_digests() == is_there


def test_rows_of_before_an_upgrade_are_saved_and_lack_what_it_added(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(
        sqlite.sqlite_module().connect(path, isolation_level=None)
    ) as connection:
        connection.execute(
            "CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT, machine, kernel, memory)"
        )
        connection.execute("INSERT INTO hosts VALUES (1, 'before', 0, '', 0)")
        connection.execute("ALTER TABLE hosts ADD COLUMN unmeasured")
        connection.execute("INSERT INTO hosts VALUES (2, 'behind', 0, '', 0, 'no perf')")
    content = path.read_bytes()
    (shape,) = (table for table in TABLES if table.table == "hosts")
    for head in (content[:4096], b"\xa5" * 4096):
        path.write_bytes(head + content[4096:])
        rows = map(shape.read, RecognisedTables(SQLitePages(path), TABLES).rows("hosts"))
        assert [(row[1], row[5]) for row in rows] == [("before", None), ("behind", "no perf")]


def test_the_log_of_a_file_counts_up_to_its_last_commit(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(
        sqlite.sqlite_module().connect(path, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = off")
        connection.execute(
            "CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT, machine, kernel, memory)"
        )
        for i in range(300):
            connection.execute("INSERT INTO hosts VALUES (?, ?, 0, '', 0)", (i, f"host{i}"))
        connection.execute("BEGIN")
        connection.execute("PRAGMA cache_size = 2")
        connection.execute("UPDATE hosts SET name = 'never committed, so never said'")
        rows = RecognisedTables(SQLitePages(path), TABLES).rows("hosts")
        assert [row.values[1] for row in rows] == [f"host{i}" for i in range(300)]


def test_rows_that_were_deleted_do_not_come_back(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(
        sqlite.sqlite_module().connect(path, isolation_level=None)
    ) as connection:
        connection.execute(
            "CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT, machine, kernel, memory)"
        )
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO hosts VALUES (?, ?, 0, '', 0)", [(i, f"host{i}" * 20) for i in range(3000)]
        )
        connection.execute("COMMIT")
        connection.execute("DELETE FROM hosts WHERE id > 10")
    content = path.read_bytes()
    for head in (content[:4096], b"\xa5" * 4096):
        path.write_bytes(head + content[4096:])
        numbers = [row.number for row in RecognisedTables(SQLitePages(path), TABLES).rows("hosts")]
        assert numbers == list(range(11))


def test_pages_of_indexes_are_not_taken_for_destroyed_ones(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as connection:
        connection.execute("CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID")
        rows = [(f"{n:060}", n) for n in range(500)]
        connection.executemany("INSERT INTO w VALUES (?, ?)", rows)
        connection.commit()
    pages = SQLitePages(path)
    kinds = {pages.pointers(number)[0] for number in range(2, pages.count + 1)}
    assert kinds == {2, 10}
    assert RecognisedTables(pages, TABLES).destroyed == 0


NUMBER, TEXT = frozenset([int]), frozenset([str])
NARROW = TableShape("narrow", ("a", "b"), (NUMBER, TEXT))
WIDE = TableShape("wide", ("a", "b"), (NUMBER | TEXT, TEXT))


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("table", ["narrow", "wide"])
def test_a_tree_that_fits_two_tables_is_what_the_schema_says_or_the_narrower_one(
    tmp_path, table, has_schema
):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as connection:
        for name in ("narrow", "wide"):
            connection.execute(f"CREATE TABLE {name} (a, b)")
        connection.execute(f"CREATE INDEX of_{table} ON {table} (a)")
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(n, "x") for n in range(9)])
        connection.commit()
    if not has_schema:
        content = path.read_bytes()
        path.write_bytes(b"\xa5" * 4096 + content[4096:])
    tables = RecognisedTables(SQLitePages(path), [WIDE, NARROW])
    expected = table if has_schema else "narrow"
    assert tables.trees.keys() - {"sqlite_schema", "sqlite_master"} == {expected}
    assert [row.values for row in tables.rows(expected)] == [(n, "x") for n in range(9)]
