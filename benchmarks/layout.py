"""Where values are kept: a wide table for each study, against the other ways that there are.

    python benchmarks/layout.py [--size N] [--batch N] [--json] [--sqlite FOLDER]
        [--postgresql URL] [--parts layouts api journal]

Three tables. *layouts*: the same experiments (5 parameters, 3 metrics) written in bulk in four
layouts, each under a view that names its columns, on the same connection and journal; then what a
user asks of the view, in seconds. *api*: what the public calls of the repository cost, with
everything that they keep.
*journal*: Python's own SQLite and the newer one, with and without a reader beside the writer.

Without --postgresql a server is started in a temporary folder, if PostgreSQL is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from zenturio.experiment import Experiment, Log, Outcome, Recipe
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.record.sqlite import sqlite_module as newest_sqlite

PARAMETERS = {"n": "int", "threads": "int", "tolerance": "real", "flag": "str", "block": "int"}
METRICS = ("time", "gflops", "iterations")
NAMES = (*PARAMETERS, *METRICS)
GENERIC = 32
READER = "--read"
Given = list[tuple[int, tuple[Any, ...]]]
"""Experiments by their number: the values of parameters and metrics."""


def values(index: int) -> tuple[Any, ...]:
    """What experiment *index* was and measured."""
    return (
        index, 1 << index % 8, index / 3, f"-O{index % 4}", index % 1000,
        index * 0.5 + 0.1, 1e9 / (index + 1), index % 97,
    )  # fmt: skip


class Place:
    """A database, with what differs between the two."""

    def __init__(self, name: str, connection: Any, size: Callable[[], int]) -> None:
        self.name = name
        self.connection = connection
        self.size = size
        self.number = "BIGINT" if name == "postgresql" else "INTEGER"
        self.real = "DOUBLE PRECISION" if name == "postgresql" else "REAL"

    def sql(self, text: str) -> list[Any]:
        cursor = self.connection.cursor()
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []

    def insert(self, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        cursor = self.connection.cursor()
        if self.name == "sqlite":
            marks = ", ".join("?" * len(rows[0]))
            cursor.executemany(f"INSERT INTO {columns} VALUES ({marks})", rows)
            return
        with cursor.copy(f"COPY {columns} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


class Wide:
    """A table for each study, a column for each parameter and metric."""

    name = "wide table"
    columns = "t"

    def create(self, place: Place) -> None:
        kinds = {"int": place.number, "real": place.real, "str": "TEXT"}
        columns = [f"{name} {kinds[kind]}" for name, kind in PARAMETERS.items()]
        columns += [f"{name} {place.real}" for name in METRICS]
        place.sql(f"CREATE TABLE t (id {place.number} PRIMARY KEY, {', '.join(columns)})")
        place.sql("CREATE VIEW v AS SELECT * FROM t")

    def rows(self, given: Given) -> list[tuple[Any, ...]]:
        return [(number, *row) for number, row in given]


class Generic:
    """One table for all studies with 32 columns of any kind; a view names those of a study."""

    name = "32 generic columns"
    columns = f"t (id, study, {', '.join(f'c{i}' for i in range(len(NAMES)))})"

    def create(self, place: Place) -> None:
        kind = "TEXT" if place.name == "postgresql" else ""
        columns = ", ".join(f"c{i} {kind}" for i in range(GENERIC))
        place.sql(f"CREATE TABLE t (id {place.number} PRIMARY KEY, study INTEGER, {columns})")
        number = {"str": "", "int": f"::{place.number}", "real": f"::{place.real}"}
        kinds = [*PARAMETERS.values(), *["real"] * len(METRICS)]
        shown = [
            f"c{i}{number[kind] if place.name == 'postgresql' else ''} AS {name}"
            for i, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))
        ]
        place.sql(f"CREATE VIEW v AS SELECT {', '.join(shown)} FROM t WHERE study = 1")

    def rows(self, given: Given) -> list[tuple[Any, ...]]:
        return [(number, 1, *row) for number, row in given]


class Json:
    """A JSON object for each experiment."""

    name = "JSON"
    columns = "t"

    def create(self, place: Place) -> None:
        postgres = place.name == "postgresql"
        kind = "JSONB" if postgres else "TEXT"
        place.sql(f"CREATE TABLE t (id {place.number} PRIMARY KEY, document {kind})")
        kinds = {"int": place.number, "real": place.real, "str": "TEXT"}
        shown = [
            f"(document ->> '{name}')::{kinds[PARAMETERS.get(name, 'real')]} AS {name}"
            if postgres
            else f"json_extract(document, '$.{name}') AS {name}"
            for name in NAMES
        ]
        place.sql(f"CREATE VIEW v AS SELECT {', '.join(shown)} FROM t")

    def rows(self, given: Given) -> list[tuple[Any, ...]]:
        named = ((number, dict(zip(NAMES, row, strict=True))) for number, row in given)
        return [(number, json.dumps(each)) for number, each in named]


class Eav:
    """A row for each value: experiment, field, number, text."""

    name = "a row for each value"
    columns = "t"

    def create(self, place: Place) -> None:
        place.sql(
            f"CREATE TABLE t (id {place.number}, field INTEGER, number {place.real}, word TEXT,"
            " PRIMARY KEY (id, field))" + (" WITHOUT ROWID" if place.name == "sqlite" else "")
        )
        shown = [
            f"max(CASE field WHEN {i} THEN {'word' if name == 'flag' else 'number'} END) AS {name}"
            for i, name in enumerate(NAMES)
        ]
        place.sql(f"CREATE VIEW v AS SELECT {', '.join(shown)} FROM t GROUP BY id")

    def rows(self, given: Given) -> list[tuple[Any, ...]]:
        return [
            (number, i, None, value) if isinstance(value, str) else (number, i, value, None)
            for number, row in given
            for i, value in enumerate(row)
        ]


LAYOUTS = (Wide, Generic, Json, Eav)
QUESTIONS = {
    "mean by a parameter": "SELECT threads, avg(time) FROM v GROUP BY threads",
    "best where": "SELECT max(gflops) FROM v WHERE n > 1000 AND flag = '-O2'",
}


def layouts(place: Callable[[str], Any], size: int, batch: int) -> list[dict[str, Any]]:
    """Writing, size and questions of every layout, each in a database of its own.

    They take turns, batch by batch, so that a busy machine is as busy for all; the median counts.
    """
    with contextlib.ExitStack() as stack:
        rivals = [
            (layout, stack.enter_context(place(f"layout_{number}")))
            for number, layout in enumerate(kind() for kind in LAYOUTS)
        ]
        for layout, database in rivals:
            layout.create(database)
        empty = [database.size() for _, database in rivals]
        spent: list[list[float]] = [[] for _ in rivals]
        for first in range(0, size, batch):
            given = [(number, values(number)) for number in range(first, first + batch)]
            for (layout, database), seconds in zip(rivals, spent, strict=True):
                seconds.append(_spent(lambda: _write(layout, database, given)))  # noqa: B023
        return [
            {
                "place": database.name,
                "layout": layout.name,
                "rows_per_second": batch / statistics.median(seconds),
                "megabytes": (database.size() - before) / 1e6,
                **{
                    name: min(_spent(lambda: database.sql(sql)) for _ in range(3))  # noqa: B023
                    for name, sql in QUESTIONS.items()
                },
            }
            for (layout, database), seconds, before in zip(rivals, spent, empty, strict=True)
        ]


def _write(layout: Any, database: Place, given: Given) -> None:
    rows = layout.rows(given)
    database.sql("BEGIN")
    database.insert(layout.columns, rows)
    database.sql("COMMIT")


def experiment(index: int) -> Experiment:
    digest = random.Random(index).randbytes(16).hex()
    point = dict(zip(PARAMETERS, values(index), strict=False))
    return Experiment(digest, index, 1, point, (), (), {}, None, Recipe())


def outcome(of: Experiment, said: Log) -> Outcome:
    measured = dict(zip(METRICS, values(of.index)[len(PARAMETERS) :], strict=True))
    return Outcome(of.digest, "ok", "", measured, 1, "host", 1e9, 1e9 + 1, 0, said)


def api(url: str, size: int, batch: int) -> list[dict[str, Any]]:
    """What the calls of a repository cost an experiment, with all that they keep: medians.

    *cpu* is this process alone, so it holds on a busy machine too, and says nothing of a server.
    """
    repository = open_repository(url)
    fields = tuple(Field(name, kind) for name, kind in PARAMETERS.items())
    repository.open("s", StudyDefinition(fields, tuple(map(Field, METRICS))))
    lease = repository.acquire_lease("s", DriverProcess.current()).number
    meters = {name: Meter() for name in ("enter", "cached", "claim", "record", "counts")}
    for start in range(0, size, batch):
        given = [experiment(i) for i in range(start, min(start + batch, size))]
        pairs = [(each, outcome(each, Log())) for each in given]
        with meters["enter"].of(len(given)):
            repository.add_results("s", lease, pairs)
    said = Log(os.urandom(1000), b"", 1000)
    for start in range(size, size + max(size // 50, 50), 50):
        given = [experiment(i) for i in range(start, start + 50)]
        outcomes = [outcome(each, said) for each in given]
        with meters["cached"].of(50):
            repository.cached("s", given)
        with meters["claim"].of(50):
            repository.claim("s", lease, given)
        with meters["record"].of(50):
            repository.record("s", lease, outcomes)
    for _ in range(9):
        with meters["counts"].of(1):
            repository.count_states("s")
    repository.close()
    labels = {
        f"enter, batches of {batch}": ("enter",),
        **{f"{step}, batches of 50": (step,) for step in ("cached", "claim", "record")},
        "cached + claim + record, batches of 50": ("cached", "claim", "record"),
        f"counts of {size:,}": ("counts",),
    }
    return [
        {
            "place": "postgresql" if "://" in url else "sqlite",
            "what": label,
            "cpu": sum(meters[step].cpu for step in steps),
            "us": sum(meters[step].wall for step in steps),
        }
        for label, steps in labels.items()
    ]


class Meter:
    """Microseconds an experiment, of many calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._count = 0
        self._walls: list[float] = []
        self._cpus: list[float] = []

    @contextlib.contextmanager
    def of(self, count: int) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        passed = time.perf_counter() - wall
        self.seconds += passed
        self._count += count
        self._walls.append(passed / count * 1e6)
        self._cpus.append((time.process_time() - cpu) / count * 1e6)

    @property
    def wall(self) -> float:
        return statistics.median(self._walls)

    @property
    def mean(self) -> float:
        return self.seconds / self._count * 1e6

    @property
    def longest(self) -> float:
        return max(self._walls)

    @property
    def cpu(self) -> float:
        return statistics.median(self._cpus)


def _spent(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def journal(folder: Path, size: int) -> list[dict[str, Any]]:
    """Commits of 1, 50 and 5000 experiments under each journal, alone and beside a reader.

    Means, for what a reader does to a writer is that some commits wait long.
    """
    kinds = ((sqlite3, "TRUNCATE"), (newest_sqlite(), "TRUNCATE"), (newest_sqlite(), "WAL"))
    return [
        _journal(folder, module, mode, batch, min(batch * 200, size), reading)
        for reading in (False, True)
        for batch in (1, 50, 5000)
        for module, mode in dict.fromkeys(kinds)
    ]


def _journal(
    folder: Path, module: Any, mode: str, batch: int, size: int, reading: bool
) -> dict[str, Any]:
    path = Path(tempfile.mkdtemp(dir=folder)) / "a.db"
    connection = module.connect(path, isolation_level=None, timeout=60)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE e (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, state TEXT)")
    connection.execute("CREATE TABLE v (id INTEGER PRIMARY KEY, a, b, c, d, e, x, y, z)")
    reader = None
    if reading:
        command = [sys.executable, __file__, READER, module.__name__, str(path)]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        reader.stdout.readline()
    generator = random.Random(1)
    meter = Meter()
    for start in range(0, size, batch):
        numbers = range(start, start + batch)
        digests = [(number, generator.randbytes(16), "ok") for number in numbers]
        rows = [(number, *values(number)) for number in numbers]
        with meter.of(batch):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO e VALUES (?, ?, ?)", digests)
            connection.executemany(f"INSERT INTO v VALUES ({', '.join('?' * 9)})", rows)
            connection.execute("COMMIT")
    reads = 0
    if reader is not None:
        reader.kill()
        reads = len(reader.communicate()[0].splitlines())
    connection.close()
    shutil.rmtree(path.parent)
    return {
        "sqlite": module.sqlite_version, "journal": mode, "batch": batch, "reader": reading,
        "reads per second": reads / meter.seconds, "longest ms": meter.longest * batch / 1e3,
        "us": meter.mean,
    }  # fmt: skip


def read_forever(module: str, path: str) -> None:
    """The reader beside the writer: a page of the portal that is loaded again and again."""
    import importlib

    print("reading", flush=True)
    while True:
        connection = importlib.import_module(module).connect(path, timeout=60)
        asked = "SELECT avg(x) FROM v JOIN e ON e.id = v.id WHERE state = 'ok'"
        connection.execute(asked).fetchall()
        connection.close()
        print("read", flush=True)


@contextlib.contextmanager
def in_sqlite(folder: Path) -> Iterator[Place]:
    path = Path(tempfile.mkdtemp(dir=folder)) / "a.db"
    connection = newest_sqlite().connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")

    def size() -> int:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.stat().st_size

    yield Place("sqlite", connection, size)
    connection.close()
    shutil.rmtree(path.parent)


@contextlib.contextmanager
def in_postgresql(url: str, schema: str) -> Iterator[Place]:
    import psycopg

    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path = {schema}")

        def size() -> int:
            asked = f"SELECT pg_total_relation_size('{schema}.t')"
            return connection.execute(asked).fetchone()[0]

        yield Place("postgresql", connection, size)
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@contextlib.contextmanager
def server(url: str | None) -> Iterator[str | None]:
    """The URL of a server: the one given, else one of our own, else none."""
    if url or shutil.which("initdb") is None:
        yield url
        return
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from postgres import Server

    own = Server()
    try:
        yield f"postgresql://zen@/postgres?host={own.folder}"
    finally:
        own.remove()


def table(rows: list[dict[str, Any]], key: str, best: Callable[[dict[str, Any]], Any]) -> str:
    """Markdown; the last column is how many times the first row of its group a row costs."""
    names = [name for name in rows[0] if name not in {"place", key}]
    lines = ["| " + " | ".join(["place", *names, "times"]) + " |", "|---" * (len(names) + 2) + "|"]
    first: dict[Any, float] = {}
    for row in rows:
        base = first.setdefault(best(row), row[key])
        cells = [_shown(row[name]) for name in names]
        times = row[key] / base if key != "rows_per_second" else base / row[key]
        lines.append(
            "| " + " | ".join([row.get("place", ""), *cells, f"{_shown(row[key])} ({times:.1f}x)"])
            + " |"
        )  # fmt: skip
    return "\n".join(lines).replace("| times |", f"| {key} (times the first) |")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return str(value)


def main() -> None:
    if sys.argv[1:2] == [READER]:
        read_forever(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="how many experiments")
    parser.add_argument("--batch", type=int, default=5000, help="how many in a transaction")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--sqlite", type=Path, default=Path.cwd(), help="folder for the files")
    parser.add_argument("--postgresql", help="URL of a server")
    parser.add_argument("--parts", nargs="*", default=["layouts", "api", "journal"])
    options = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {part: [] for part in options.parts}
    with (
        server(options.postgresql) as url,
        tempfile.TemporaryDirectory(dir=options.sqlite) as folder,
    ):
        if "layouts" in results:
            results["layouts"] += layouts(
                lambda _: in_sqlite(Path(folder)), options.size, options.batch
            )
            if url:
                results["layouts"] += layouts(
                    lambda schema: in_postgresql(url, schema), options.size, options.batch
                )
        if "api" in results:
            results["api"] += api(f"{folder}/api.db", options.size, options.batch)
            if url:
                results["api"] += api(url, options.size, options.batch)
        if "journal" in results:
            results["journal"] += journal(Path(folder), options.size)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    groups: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
        "layouts": ("rows_per_second", lambda row: row["place"]),
        "api": ("us", lambda row: row["what"].split(",")[0].split(" of ")[0]),
        "journal": ("us", lambda row: (row["batch"], row["reader"])),
    }
    for part, rows in results.items():
        print(f"\n{part}, {options.size:,} experiments\n\n{table(rows, *groups[part])}")


if __name__ == "__main__":
    main()
