"""Whatever page of a database is destroyed, the rows on all other pages come back."""

import contextlib
import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from record.test_study_deletion import NAMES, add_older_rows, cells, fill, rows_of
from record.worker import DEFINITION
from zenturio.experiment.experiment import Artifact, Log
from zenturio.record import DriverProcess, maintenance, salvage, sqlite, studies
from zenturio.record.database import Database
from zenturio.record.open import dialect_at, open_repository
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


def test_a_transaction_that_was_cut_off_is_undone_before_rows_are_read(sound, tmp_path):
    path, damaged = tmp_path / "a.db", tmp_path / "cut" / "a.db"
    damaged.parent.mkdir()
    shutil.copy(sound, path)
    with contextlib.closing(
        sqlite.sqlite_module().connect(path, isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA journal_mode = delete")
        connection.execute("PRAGMA cache_size = 2")
        connection.execute("BEGIN")
        connection.execute("UPDATE logs SET stdout_head = CAST('never committed' AS BLOB)")
        connection.execute("UPDATE results SET cause = 'never committed'")
        for name in ("a.db", "a.db-journal"):
            shutil.copy(tmp_path / name, damaged.parent)
    before = {p.name: p.read_bytes() for p in damaged.parent.iterdir()}
    assert b"never committed" in before["a.db"]
    maintenance.salvage(damaged, tmp_path / "new.db")
    assert {p.name: p.read_bytes() for p in damaged.parent.iterdir()} == before
    with contextlib.closing(sqlite.sqlite_module().connect(tmp_path / "new.db")) as connection:
        causes = connection.execute("SELECT DISTINCT cause FROM results").fetchall()
        query = "SELECT count(*) FROM logs WHERE stdout_head = CAST('never committed' AS BLOB)"
        assert connection.execute(query).fetchone() == (0,)
    assert causes == [(None,)]


def test_rows_are_counted_once_where_a_copy_begins_again(sound, tmp_path):
    saved = maintenance.salvage(sound, tmp_path / "new.db")
    reading = salvage._Reading(RecognisedTables(SQLitePages(sound), TABLES))
    with contextlib.closing(Database(dialect_at(tmp_path / "new.db"), 5)) as database:
        for _ in range(2):
            database.write(reading.copy)
    assert dict(reading.rows) == saved.rows


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


def test_of_the_schema_only_rows_that_look_like_its_own_are_believed(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite.sqlite_module().connect(path)) as connection, connection:
        connection.execute("CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("PRAGMA writable_schema = on")
        connection.executemany(
            "INSERT INTO sqlite_master VALUES (?, 'x', 'x', ?, NULL)",
            [("table", "none"), ("other", 2)],
        )
    monkeypatch.setattr(salvage, "SAMPLE", 1)
    tables = RecognisedTables(SQLitePages(path), TABLES)
    assert [row[:4] for row in tables.schema] == [("table", "hosts", "hosts", 2)]
    assert tables.destroyed == 0


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


WRITTEN_ANEW = ("counters", "claims", "edits", "upgrade")
"""Tables that a salvage does not copy."""


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A database of three studies with rows of all kinds."""
    url = str(tmp_path_factory.mktemp("three") / "a.db")
    with contextlib.closing(open_repository(url)) as repository:
        for name in NAMES:
            fill(repository, name)
    add_older_rows(url)
    with contextlib.closing(Database(dialect_at(url), 5)) as database:
        yield database


def mended(database, *statements):
    """The rows after *statements*, and what they are once a salvage has mended them.

    Also how many experiments are said to wait. Nothing of it stays.
    """
    result = []

    def attempt(transaction):
        for table in WRITTEN_ANEW:
            transaction.sql(f"DELETE FROM {table}")
        transaction.sql("UPDATE results SET key = x'00'")
        for statement in statements:
            transaction.sql(statement)
        before = rows_of(transaction)
        waiting = salvage._mend(transaction)
        result.extend((before, rows_of(transaction), waiting))
        ((last,),) = transaction.sql("SELECT seq FROM sqlite_sequence WHERE name = 'claims'")
        tried = [("results", "id"), ("attempts", "id"), ("copies", "source")]
        after = result[1]
        assert last == max(int(cell) for table, name in tried for cell in cells(after[table], name))
        raise Undone

    with contextlib.suppress(Undone):
        database.write(attempt)
    return result


class Undone(Exception):
    """Ends a transaction whose changes are not to stay."""


def plain(rows, *names):
    """These cells of rows, in order."""
    return sorted(tuple(dict(row)[name] for name in names) for row in rows)


def test_what_is_sound_is_only_counted(three):
    original = three.read(rows_of)
    before, after, waiting = mended(three)
    assert after["counters"] == original["counters"]
    stored = {table: rows for table, rows in after.items() if table not in ("counters", "studies")}
    assert stored == {table: before[table] for table in stored}
    assert cells(before["studies"], "view_revision") != {"None"}  # of views that are not copied
    assert cells(after["studies"], "view_revision") == {"None"}
    ended = cells(before["results"], "digest")
    assert waiting == len(cells(before["attempts"], "digest") - ended) == 12
    same = "SELECT min(digest) FROM attempts WHERE digest NOT IN (SELECT digest FROM results)"
    _, _, waiting = mended(
        three,
        f"UPDATE attempts SET digest = ({same}) WHERE digest IN"
        " (SELECT digest FROM attempts WHERE digest NOT IN (SELECT digest FROM results) LIMIT 3)",
    )
    assert waiting in (10, 9)


def test_rows_that_nobody_wrote_go(three):
    """Single bytes of a page may be wrong; of each law a row that only just keeps it stays."""
    before, after, _ = mended(
        three,
        "UPDATE studies SET name = '' WHERE id = 3",
        "UPDATE studies SET name = 'a' || char(0) WHERE id = 2",
        "INSERT INTO studies SELECT 0, project, 'x', 'x', NULL, 1, 1, 1, 1 FROM studies LIMIT 1",
        "INSERT INTO versions SELECT 9, 1, 0, 1, 1, '{}'",
        "UPDATE fields SET role = 'x' WHERE study = 1 AND number = 3",
        "UPDATE fields SET name = '' WHERE study = 1 AND number = 4",
        "UPDATE fields SET number = -1 WHERE study = 1 AND number = 5",
        "UPDATE fields SET forms = 64 WHERE study = 1 AND number = 6",
        "UPDATE fields SET forms = 63 WHERE study = 1 AND number = 7",
        "UPDATE fields SET forms = -1 WHERE study = 1 AND number = 8",
        "UPDATE fields SET forms = 0 WHERE study = 1 AND number = 9",
        "UPDATE fields SET place = 'x10' WHERE study = 1 AND number = 10",
        "UPDATE fields SET number = 1000001 WHERE study = 1 AND number = 200",
        "UPDATE fields SET number = 1000000 WHERE study = 1 AND number = 201",
        "UPDATE results SET status = 'x' WHERE id = 11",
        "UPDATE results SET digest = x'00' WHERE id = 12",
        "UPDATE results SET attempt = 0 WHERE id = 13",
        "UPDATE attempts SET id = 10 WHERE id = 14",
    )
    gone = {table: before[table] - after[table] for table in before}
    new = {table: after[table] - before[table] for table in before}
    assert plain(gone["fields"], "study", "number") == sorted(
        ("1", str(number)) for number in (-1, 3, 4, 6, 8, 10, 1000001)
    )
    # What has values and no field any more is a metric without a name.
    slots = {f"v{number}" for number in (3, 4, 5, 6, 8, 10)}
    assert plain(new["fields"], "role", "name", "place", "forms", "study") == sorted(
        ("metric", f"field_{slot}", slot, "63", "1") for slot in slots
    )
    numbers = sorted(map(int, cells(new["fields"], "number")))
    assert numbers == [*range(1_000_001, 1_000_007)]
    assert plain(after["studies"], "id", "name", "sql_name", "current") == [
        ("1", "first", "study_first", "1"),
        ("2", "salvaged-2", "study_salvaged-2", "2"),
        ("3", "salvaged-3", "study_salvaged-3", "3"),
    ]
    assert plain(gone["versions"], "id") == [("9",)]
    assert plain(gone["results"], "id") == [("11",), ("12",), ("13",)]
    assert plain(gone["attempts"], "id") == [("10",)]
    for table in ("chunks", "aliases", "copies"):
        assert cells(gone[table], "result") <= {"11", "12", "13", "14"}, table
        assert gone[table], table
    changed = {table for table in before if gone[table] or new[table]}
    assert changed == {
        "studies", "versions", "fields", "results", "attempts", "chunks", "aliases", "copies",
        "counters",
    }  # fmt: skip


LOST = "77"
"""The number of what was lost."""


def test_rows_of_what_was_lost_go_and_what_others_need_is_made(three):
    before, after, _ = mended(
        three,
        "UPDATE leases SET ended = NULL WHERE id = 4",
        *(
            f"UPDATE {table} SET version = {LOST} WHERE {row}"
            for table, row in (
                ("leases", "id = 5"), ("recipes", "id = 2"), ("events", "id = 2"),
                ("rounds", "version = 2 AND number = 2"),
            )
        ),
        f"UPDATE chunks SET result = {LOST} WHERE result = 11 AND chunk = 1",
        *(f"UPDATE {table} SET result = {LOST} WHERE result = 11" for table in ("aliases", "copies")),
        *(
            f"UPDATE {table} SET attempt = {LOST} WHERE attempt = 10"
            for table in ("logs", "artifacts", "conditions")
        ),
        "DELETE FROM contents WHERE foreign_path = '/kept/1' OR digest ="
        " (SELECT content FROM sources WHERE definition = 2 AND path = 'b.py')",
        f"UPDATE sources SET definition = {LOST} WHERE definition = 3 AND path = 'a.py'",
        "DELETE FROM hosts WHERE id IN (1, 2)",
        "DELETE FROM machines WHERE id = 2",
        "UPDATE results SET machine = 0 WHERE id = 11",
        "UPDATE results SET key = NULL WHERE id = 12",
    )  # fmt: skip
    gone = {table: before[table] - after[table] for table in before}
    new = {table: after[table] - before[table] for table in before}
    lost = {
        table: {row for row in rows if LOST in dict(row).values()} for table, rows in gone.items()
    }
    assert {table: len(rows) for table, rows in lost.items() if rows} == {
        "leases": 1, "recipes": 1, "events": 1, "rounds": 1, "chunks": 1, "aliases": 1, "copies": 1,
        "logs": 1, "artifacts": 2, "conditions": 1, "sources": 1,
    }  # fmt: skip
    others = {table: gone[table] - lost[table] for table in gone if gone[table] - lost[table]}
    assert others.keys() == {"leases", "sources", "studies"}
    assert plain(others["leases"], "id", "ended") == [("4", "None")]
    ((_, until, ended),) = plain(new["leases"], "id", "until", "ended")
    assert until == ended
    assert plain(others["sources"], "definition", "path") == [("2", "b.py")]
    made = {table: rows for table, rows in new.items() if rows}
    assert made.keys() == {
        "leases", "studies", "contents", "hosts", "machines", "counters", "upgrade"
    }  # fmt: skip
    content = b"\x11" * 32
    assert plain(made["contents"], "digest", "size", "body", "foreign_path") == [
        (content, "1", "None", "None")
    ]
    assert plain(made["hosts"], "id", "name", "machine", "kernel", "memory") == [
        ("1", "lost-1", "0", "", "0"), ("2", "lost-2", "0", "", "0"),
    ]  # fmt: skip
    names = ("id", "digest", "label", "cpu", "cores", "accelerators", "setup", "assumed")
    assert plain(made["machines"], *names) == [("2", b"lost2", "lost", "", "0", "[]", "", "1")]
    assert plain(made["upgrade"], "done", "at") == [("0", "0.0")]
    counted = Counter(plain(after["results"], "version", "machine", "round", "status"))
    assert counted == {row[:4]: int(row[4]) for row in plain(
        made["counters"], "version", "machine", "round", "status", "count"
    )}  # fmt: skip


def test_a_study_whose_project_was_lost_is_found_by_its_name(three):
    found = []

    def attempt(transaction):
        for table in WRITTEN_ANEW:
            transaction.sql(f"DELETE FROM {table}")
        transaction.sql(f"UPDATE studies SET project = {LOST} WHERE id = 2")
        salvage._mend(transaction)
        found.extend(studies.find_version(transaction, name) for name in NAMES)
        raise Undone

    with contextlib.suppress(Undone):
        three.write(attempt)
    assert [version and version.name for version in found] == list(NAMES)


def test_versions_are_named_again_by_what_leads_to_them(three):
    names = ("id", "study", "number")
    # The study whose current version it is; its number is not known.
    _, after, _ = mended(three, "DELETE FROM versions WHERE id = 2")
    assert plain(after["versions"], *names) == [("1", "1", "1"), ("2", "2", "1"), ("3", "3", "1")]
    assert plain(after["studies"], "name", "current") == [
        ("first", "1"), ("last", "3"), ("middle", "2")
    ]  # fmt: skip
    # A study that means a version which is not there means its newest one; one without any stays so.
    _, after, _ = mended(
        three,
        "UPDATE studies SET current = 77 WHERE id = 2",
        "UPDATE studies SET current = -3 WHERE id = 3",
        "UPDATE studies SET current = NULL WHERE id = 1",
    )
    assert plain(after["studies"], "id", "current") == [("1", "None"), ("2", "2"), ("3", "-3")]
    # The study that has the fields which its definition names, and fewest others.
    _, after, _ = mended(
        three,
        "DELETE FROM versions WHERE id = 2",
        "UPDATE studies SET current = NULL WHERE id = 2",
        "DELETE FROM fields WHERE study = 2",
        "DELETE FROM fields WHERE study = 3 AND number > 150",
    )
    assert plain(after["versions"], *names) == [("1", "1", "1"), ("2", "3", "2"), ("3", "3", "1")]
    # Behind the versions that the study had when it was archived.
    _, after, _ = mended(
        three,
        "DELETE FROM versions WHERE id = 2",
        "UPDATE studies SET current = -6 WHERE id = 1",
        "UPDATE studies SET current = -4 WHERE id = 2",
        "UPDATE studies SET current = -5 WHERE id = 3",
        "DELETE FROM fields WHERE study <> 2",
    )
    assert ("2", "2", "5") in plain(after["versions"], *names)
    # A study of its own, where no definition is left; it has what the results have.
    _, after, _ = mended(
        three,
        "DELETE FROM versions WHERE id = 2",
        "DELETE FROM definitions WHERE version = 2",
        "DELETE FROM studies WHERE id = 2",
        "DELETE FROM fields WHERE study = 2",
    )
    assert plain(after["versions"], *names) == [("1", "1", "1"), ("2", "4", "1"), ("3", "3", "1")]
    assert plain(after["studies"], "id", "name", "current") == [
        ("1", "first", "1"), ("3", "last", "3"), ("4", "salvaged-4", "2")
    ]  # fmt: skip
    fields = [f for f in after["fields"] if dict(f)["study"] == "4"]
    assert plain(fields, "place", "role", "name") == sorted(
        (f"v{n}", "metric", f"field_v{n}") for n in range(32)
    )
    (document,) = (
        json.loads(dict(row)["document"]) for row in after["definitions"]
        if dict(row)["version"] == "2"
    )  # fmt: skip
    assert [f["name"] for f in document["metrics"]] == [f"field_v{n}" for n in range(32)]
    assert document["parameters"] == document["goals"] == []
    # Versions that were lost with their studies come in the order of their numbers.
    _, after, _ = mended(three, "DELETE FROM versions", "DELETE FROM studies")
    assert plain(after["versions"], *names) == [("1", "1", "1"), ("2", "1", "2"), ("3", "1", "3")]
    assert ("1", "salvaged-1", "3") in plain(after["studies"], "id", "name", "current")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO studies SELECT 8, project, 'x', 'x', NULL, 1, 1, 1, 1 FROM studies LIMIT 1",
        "UPDATE fields SET study = 8 WHERE study = 1 AND number = 3",
        "INSERT INTO versions SELECT 9, 8, 1, 1, 1, '{}'",
    ],
)
def test_a_study_that_was_lost_gets_a_number_that_nothing_else_names(three, statement):
    _, after, _ = mended(
        three,
        "DELETE FROM versions WHERE id = 2",
        "DELETE FROM definitions WHERE version = 2",
        "DELETE FROM studies WHERE id = 2",
        "DELETE FROM fields WHERE study = 2",
        statement,
    )
    assert ("2", "9", "1") in plain(after["versions"], "id", "study", "number")
    assert ("9", "salvaged-9", "2") in plain(after["studies"], "id", "name", "current")


def test_a_study_that_lost_its_fields_has_those_that_its_definitions_name(three):
    """In the order of versions, and of their definitions."""
    before, after, _ = mended(
        three,
        "DELETE FROM fields WHERE study = 2",
        "UPDATE versions SET members = '{}' WHERE id = 2",
        "UPDATE results SET v31 = NULL WHERE version = 2",  # others have values there
        "INSERT INTO versions SELECT 9, 2, 2, 1, 1, '{}'",
        *(
            f"INSERT INTO definitions SELECT {number}, {version}, at, replace(document, '\"time\"',"
            f" '\"{name}\"') FROM definitions WHERE id = 2"
            for number, version, name in ((4, 2, "later"), (5, 9, "last"))
        ),
    )
    made = after["fields"] - before["fields"]
    assert plain(made, "number", "role", "name", "place", "type", "forms", "study") == sorted(
        [
            ("0", "parameter", "n", "v0", "int", "63", "2"),
            ("1", "metric", "time", "v1", "None", "63", "2"),
            ("2", "metric", "later", "v2", "None", "63", "2"),
            ("3", "metric", "last", "v3", "None", "63", "2"),
            *((str(n), "metric", f"field_v{n}", f"v{n}", "None", "63", "2") for n in range(4, 31)),
        ]
    )
    for version in ("2", "9"):
        (members,) = (
            json.loads(dict(row)["members"])
            for row in after["versions"]
            if dict(row)["id"] == version
        )
        assert members == {
            "0": ["", "int", "", "", 0, 63],
            **{str(number): ["", None, "", "", 0, 63] for number in range(1, 31)},
        }
    assert after["definitions"] == before["definitions"]


def test_the_views_of_a_salvaged_study_are_made_anew(sound, tmp_path):
    target = tmp_path / "new.db"
    maintenance.salvage(sound, target)
    with contextlib.closing(open_repository(target)) as repository:
        repository.open("one", DEFINITION)
    with contextlib.closing(sqlite.sqlite_module().connect(target)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM study_one")
    assert count == len(STUDIES["one"])
