"""SQLite files that somebody hostile made out of a repository of ours.

Each case is a name and the statements that change a copy of a sound file; ``make`` does it.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

from zenturio.record import schema

PROGRAM = """\
#!/bin/sh
#ZEN$ PARAM n = {1:3}
#ZEN$ PARAM word = {a, b}
#ZEN$ RUN "sh p.sh {n} {word}"
#ZEN$ METRIC t FROM stdout REGEX "t=(\\d+)"
#ZEN$ METRIC all FROM stdout REGEX "t=(\\d+)" TAKE all
#ZEN$ OUTPUT "*.txt"
#ZEN$ OBJECTIVE MINIMIZE t
echo "left $1" > said.txt
echo t=$(($1 + 1))
[ "$1$2" = 3b ] && exit 3
exit 0
"""
DEEP = "replace(hex(zeroblob(50000)), '00', '[')"
"""A text of 50,000 brackets."""
LARGE = "replace(hex(zeroblob(25000000)), '00', 'xx')"
"""A text of 50 MB."""

TRIGGERS = {
    f"trigger: {event} on {table}": [
        f"CREATE TRIGGER evil AFTER {event} ON {table} BEGIN {action}; END"
    ]
    for table, event, action in (
        ("leases", "INSERT", "DELETE FROM results"),
        ("studies", "UPDATE", "DELETE FROM artifacts"),
        ("results", "DELETE", "INSERT INTO hosts SELECT * FROM hosts"),
        ("versions", "UPDATE", "SELECT load_extension('/tmp/evil.so')"),
        ("events", "INSERT", ("INSERT INTO events SELECT NULL, version, digest, at, kind, text"
                             " FROM events, events, events, events")),
    )
}  # fmt: skip
SCHEMAS = {
    "view for a table": [
        "ALTER TABLE results RENAME TO real_results",
        (
            "CREATE VIEW results AS WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x)"
            " SELECT real_results.* FROM real_results, x"
        ),
    ],
    "view of another version": [
        "ALTER TABLE alembic_version RENAME TO v",
        (
            "CREATE VIEW alembic_version AS WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1"
            " FROM x) SELECT v.* FROM v, x"
        ),
    ],
    "endless view": [
        "DROP VIEW IF EXISTS study_p",
        (
            "CREATE VIEW study_p AS WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x)"
            " SELECT count(*) AS n FROM x"
        ),
    ],
    "view of itself": ["CREATE VIEW a AS SELECT * FROM b", "CREATE VIEW b AS SELECT * FROM a"],
    "no fields": ["DROP TABLE fields"],
    "no column": [
        "DROP VIEW study_p",
        "DROP VIEW study_p_all",
        "ALTER TABLE results DROP COLUMN cause",
    ],
    "generated column": ["ALTER TABLE studies ADD COLUMN x AS (hex(zeroblob(100000000)))"],
    "index of an expression": ["CREATE INDEX evil ON leases (hex(zeroblob(pid)))"],
    "check": [
        "PRAGMA writable_schema = 1",
        (
            "UPDATE sqlite_master SET sql = replace(sql, 'pid INTEGER NOT NULL',"
            " 'pid INTEGER CHECK (length(hex(zeroblob(100000000))) > pid)') WHERE name = 'leases'"
        ),
    ],
    "tables that share their pages": [
        "PRAGMA writable_schema = 1",
        (
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master"
            " WHERE name = 'results') WHERE name = 'studies'"
        ),
    ],
    "page beyond the end": [
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET rootpage = 100000 WHERE name = 'attempts'",
    ],
    "a page of itself": [
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET rootpage = 1 WHERE name = 'results'",
    ],
    "broken SQL": [
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE results (' WHERE name = 'results'",
    ],
    "virtual table": [
        "DROP TABLE events",
        "CREATE VIRTUAL TABLE events USING fts5(id, version, digest, at, kind, text)",
    ],
    "old revision": ["UPDATE alembic_version SET version_num = '0003'"],
    "older revision": ["UPDATE alembic_version SET version_num = '0001'"],
    "upgrade cut off": ["UPDATE alembic_version SET version_num = '0003-moving'"],
    "revision of bytes": ["UPDATE alembic_version SET version_num = x'00ff1b'"],
}
VALUES = {
    "large cause": [f"UPDATE results SET cause = {LARGE}"],
    "large cell": [f"UPDATE results SET v0 = {LARGE}, v1 = {LARGE}"],
    "text for a number": ["UPDATE results SET v0 = 'x', v1 = 'x'"],
    "large name": [f"UPDATE studies SET name = {LARGE}"],
    "large zeros": ["UPDATE contents SET body = zeroblob(100000000)"],
    "large log": ["UPDATE logs SET stdout_head = zeroblob(100000000), stdout_size = 1 << 62"],
    "deep remarks": [f"UPDATE results SET remarks = {DEEP}"],
    "deep definition": [f"UPDATE definitions SET document = {DEEP}"],
    "deep members": [f"UPDATE versions SET members = {DEEP}"],
    "deep recipe": [f"UPDATE recipes SET document = {DEEP}"],
    "deep points": [f"UPDATE attempts SET point = {DEEP}, metrics = {DEEP}"],
    "other definition": ["UPDATE definitions SET document = '[1, 2]'"],
    "empty definition": ["UPDATE definitions SET document = '{}'"],
    "numbers of a definition": ["UPDATE definitions SET document = replace(document, '\"', '7')"],
    "other members": ["UPDATE versions SET members = '{\"0\": {\"how\": 7}, \"x\": []}'"],
    "other recipe": ["UPDATE recipes SET document = '{\"parts\": 7}'"],
    "place as SQL": ["UPDATE fields SET place = 'v0\"; DROP TABLE results; --'"],
    "place as a query": ["UPDATE fields SET place = 'v0,(SELECT/**/hex(zeroblob(9e8)))'"],
    "place without end": ["UPDATE fields SET place = 'v0,c99999999999999999999'"],
    "names of fields": ["UPDATE fields SET sql_name = 'a\"b' || number, name = x'ff00' || number"],
    "names of facts": ["UPDATE fields SET sql_name = 'status' || number, name = 'digest' || number"],
    "forms": ["UPDATE fields SET forms = 9999"],
    "escapes": ["UPDATE studies SET name = '../../x' || char(27) || ']52;c;eA==' || char(7)"],
    "escapes in results": ["UPDATE results SET cause = char(27) || '[31mevil' || char(0) || 'x'"],
    "unknown status": ["UPDATE results SET status = 'great'"],
    "bad base64": ["UPDATE results SET cause = 'base64:!!!!'", "UPDATE hosts SET name = 'base64:A'"],
    "infinite times": ["UPDATE results SET started = 9e999, ended = -9e999",
                       "UPDATE versions SET created = 9e999"],
    "huge times": ["UPDATE results SET started = 1e300, ended = 1e300",
                   "UPDATE studies SET opened = 1e300", "UPDATE leases SET since = -1e300"],
    "huge numbers": ["UPDATE results SET attempt = (1 << 62), round = -5, repeat = -(1 << 62)",
                     "UPDATE attempts SET number = (1 << 62)"],
    "huge counts": ["UPDATE counters SET count = (1 << 62)"],
    "positions": ["UPDATE results SET position = '99999999:1' || position"],
    "negative sizes": ["UPDATE logs SET stdout_size = -1", "UPDATE artifacts SET size = -1",
                       "UPDATE contents SET size = -1"],
    "copies in a circle": [
        ("INSERT OR REPLACE INTO copies SELECT id, (SELECT max(id) FROM results) + 1 - id, 'equated',"
        " 'me', 1, '' FROM results")],
    "copies of itself": [("INSERT OR REPLACE INTO copies SELECT id, id, 'same', 'me', 1, ''"
                         " FROM results")],
    "aliases in a circle": ["INSERT OR REPLACE INTO aliases SELECT digest, id, 'x' FROM results"],
    "version of another study": ["UPDATE versions SET study = 999"],
    "current version": ["UPDATE studies SET current = 999"],
    "no versions": ["DELETE FROM versions"],
    "same versions": ["UPDATE results SET version = version + 1"],
    "huge ids": ["UPDATE versions SET id = 9223372036854775807",
                 "UPDATE studies SET current = 9223372036854775807"],
    "drivers of this machine": ["UPDATE leases SET ended = NULL, until = 9e15, pid = 1"],
    "drivers of no machine": ["UPDATE leases SET ended = NULL, until = 9e15, pid = -1"],
    "artifact paths": ["UPDATE artifacts SET path = '../../../outside/' || number"],
    "absolute artifact paths": ["UPDATE artifacts SET path = 'OUTSIDE/victim'",
                                "UPDATE contents SET foreign_path = 'OUTSIDE/victim'"],
    "foreign stores": ["UPDATE contents SET foreign_path = 'store:777:OUTSIDE'"],
    "foreign parents": ["UPDATE contents SET foreign_path = '../../outside/victim'"],
    "digests as paths": ["UPDATE results SET digest = CAST('../../../outside' AS BLOB) || id",
                         "UPDATE artifacts SET content = CAST('../../outside/' AS BLOB) || attempt"],
    "digests of texts": ["UPDATE results SET digest = '../../../outside/' || id"],
    "sources elsewhere": ["UPDATE sources SET path = '../../outside/' || definition"],
    "absolute sources": ["UPDATE sources SET path = 'OUTSIDE/victim'"],
    "long paths": ["UPDATE artifacts SET path = replace(hex(zeroblob(5000)), '00', 'x') || number",
                   "UPDATE sources SET path = replace(hex(zeroblob(5000)), '00', 'x') || definition",
                   "UPDATE contents SET foreign_path = replace(hex(zeroblob(5000)), '00', 'x')"],
    "submissions": [
        ("INSERT INTO submissions VALUES (NULL, 'a', 'me', 1, 'p', '{\"paths\": [\"/etc/passwd\"]}',"
        " 1, 'waiting', NULL, NULL, '', '')"),
        f"INSERT INTO submissions VALUES (NULL, 'b', 'me', 1, 'p', {DEEP}, 1, 'x', 5, 'y', '', 'z')"],
    "strange database": ["DELETE FROM studies", "DELETE FROM fields", "DELETE FROM hosts"],
}  # fmt: skip


def mistyped() -> dict[str, list[str]]:
    """A case for each column: its values are of a type that it has not."""
    cases = {}
    for table in schema.tables_of("sqlite"):
        for column in table.columns:
            name = column.name
            values = ["x'00ff1b'", "'text'", "9e999", "(1 << 62)", "-1", "''", "'1' || char(0)"]
            is_row_number = name == "id" or table.name in ("conditions", "logs")
            if column.primary_key and is_row_number:
                values = values[3:5]  # SQLite itself takes nothing but integers for these
            elif column.primary_key:
                values = values[:3]
            for value in values:
                case = f"{table.name}.{name} = {value}"
                cases[case] = [f'UPDATE OR IGNORE {table.name} SET "{name}" = {value}']
    return cases


FILES = (
    "pipe", "wal is a link", "wal is a hard link", "journal is a link", "shm is a link",
    "store is a link", "objects is a link", "work is a link", "outputs is a link",
    "backups is a link", "cut off",
    "zeros", "text", "header alone", "random bytes", "wal of random bytes",
    "journal of random bytes",
)  # fmt: skip


def cases() -> dict[str, list[str]]:
    """The statements of each case; none of those that change files."""
    return {**TRIGGERS, **SCHEMAS, **VALUES, **mistyped(), **{f"file: {n}": [] for n in FILES}}


def make(sound: Path, folder: Path, case: str) -> None:
    """Copy the project *sound* to *folder*/project, hostile as *case* says.

    Beside it, *folder*/outside is what nothing may write to.
    """
    outside = folder / "outside"
    outside.mkdir(parents=True)
    (outside / "victim").write_text("keep me\n")
    (outside / "objects" / "ab").mkdir(parents=True)
    (outside / "objects" / "ab" / ("0" * 62)).write_text("keep me\n")
    shutil.copytree(sound, folder / "project", symlinks=True)
    home = folder / "project" / ".zenturio"
    database = home / "zenturio.db"
    if case.startswith("file: "):
        _change_file(home, database, outside, case.removeprefix("file: "))
        return
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN")
    for statement in cases()[case]:
        if statement.startswith("PRAGMA"):
            connection.execute("COMMIT")
            connection.execute(statement)
            connection.execute("BEGIN")
        else:
            connection.execute(statement.replace("OUTSIDE", str(outside)))
    connection.execute("COMMIT")
    connection.close()


def _change_file(home: Path, database: Path, outside: Path, change: str) -> None:
    noise = random.Random(1)
    beside = {
        name: database.with_name(f"{database.name}-{name}") for name in ("wal", "shm", "journal")
    }
    links = {
        "store is a link": (home / "store", outside),
        "objects is a link": (home / "store" / "objects", outside / "objects"),
        "work is a link": (home / "work", outside),
        "outputs is a link": (home / "outputs", outside),
        "backups is a link": (home / "backups", outside),
        **{f"{name} is a link": (path, outside / "victim") for name, path in beside.items()},
    }
    if change in links:
        path, target = links[change]
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(target)
    elif change == "pipe":
        database.unlink()
        os.mkfifo(database)
    elif change == "wal is a hard link":
        beside["wal"].hardlink_to(outside / "victim")
    elif change in ("cut off", "header alone"):
        os.truncate(database, 10_000 if change == "cut off" else 100)
    elif change == "random bytes":
        with database.open("r+b") as file:
            for at in noise.sample(range(100, database.stat().st_size), 300):
                file.seek(at)
                file.write(noise.randbytes(3))
    else:
        path, content = {
            "zeros": (database, bytes(100_000)),
            "text": (database, b"keep me\n" * 1000),
            "wal of random bytes": (beside["wal"], b"\x37\x7f\x06\x82" + noise.randbytes(90_000)),
            "journal of random bytes": (
                beside["journal"],
                b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + noise.randbytes(50_000),
            ),
        }[change]
        path.write_bytes(content)


def state_of(folder: Path) -> dict[str, bytes]:
    """Every file below *folder*, with its bytes."""
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
