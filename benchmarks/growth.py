"""How the cost of questions grows with the results, and with the studies.

    python benchmarks/growth.py [--sizes N,N,N] [--studies N,N,N] [--counted] [--write FILE]

Each question is asked of studies of three sizes. Its work is counted: steps of SQLite's machine,
which follow the rows that are read, bytes that are read of the columnar copy, statements, bytes of
a page. The exponent of the work by the size is fitted on a double logarithmic scale, and compared
with what is promised: 0 is the same at any size, 1 grows with it. A promise that is broken ends
with status 1.

Without --counted, each command is also run as a process, start-up included, when the copy is there:
processor seconds of the user and the system. --write puts the table between the marks of a page of
the documentation, and the numbers into `growth.json`, by which a test holds the page.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlencode

from zenturio.query import compare_studies, fit, results, study_frame
from zenturio.query.catalog import SnapshotReader
from zenturio.query.frames import group_frame
from zenturio.record import SPACES, Field, StudyDefinition, columnar_copy, maintenance
from zenturio.record.database import Transaction
from zenturio.record.open import open_repository
from zenturio.record.sqlite import SQLite, sqlite_module
from zenturio.study.best_points import MEDIAN, best
from zenturio.study.overview import study_statuses

PARAMETERS = {"n": "int", "threads": "int", "block": "int", "solver": "str", "omega": "real"}
METRICS = {"wtime": "real", "gflops": "real", "maxrss": "int"}
STUDIES = ("big", "other")
COMPARED = 10**6
"""Results of the second study at the most."""
STEPS = 500
"""Of SQLite's machine between two calls of the counter."""
KEPT = Path(__file__).with_suffix(".json")
MARK = "growth"
# In SQLite, and in PostgreSQL: a number from 0 to 1, a digest, and the columns of the fields.
CHANCE = ("(random() / 1.8446744073709552e19 + 0.5)", "random()")
DIGEST = ("randomblob(16)", "decode(md5(i || ' ' || random()), 'hex')")
SLOTS = (
    [f"v{number}" for number in range(len(PARAMETERS) + len(METRICS))],
    ["i0", "i1", "i2", "t0", "r0", "r1", "r2", "i3"],
)
STUDY_COPIES = (
    "INSERT INTO studies SELECT i, 1, 's' || i, 'study_s' || i, i, 0, NULL, 1.0, 0 FROM c",
    "INSERT INTO versions SELECT i, i, 1, created, 0, members FROM c, versions WHERE id = 1",
    "INSERT INTO definitions SELECT i, i, at, document FROM c, definitions WHERE version = 1",
    "INSERT INTO counters SELECT i, 0, 1, 'ok', 7 FROM c",
)
HOST = "(id, name, machine, kernel, memory) VALUES (1, '', 0, '', 0)"

Counts = dict[str, int]


@dataclass(frozen=True)
class Question:
    """What is asked, as a command and in this process."""

    name: str
    ask: Callable[[Path], Any]
    command: tuple[str, ...] = ()
    promises: dict[str, float] = field(default_factory=dict)
    """The largest exponent, by what is counted."""
    by: str = "results"
    largest: int = 10**9
    """Larger studies are not asked: what is computed behind the question takes too long there."""


def result_table(**options: Any) -> Callable[[Path], Any]:
    def ask(path: Path) -> Any:
        with opened(path) as repository:
            return results(repository, "big", **options)

    return ask


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    repository = open_repository(path)
    try:
        yield repository
    finally:
        repository.close()


def heatmap(path: Path) -> Any:
    with opened(path) as repository:
        return group_frame(repository, "big", ["n", "threads"], "wtime")


def best_points(path: Path) -> Any:
    with opened(path) as repository:
        return best(repository, "big", 10, "MINIMIZE wtime", aggregate=MEDIAN)


def fitted(path: Path) -> Any:
    with opened(path) as repository:
        return fit(study_frame(repository, "big", columns=["wtime", "n"]), "wtime", ["n"])


def compared(path: Path) -> Any:
    with opened(path) as repository:
        return compare_studies(repository, *STUDIES, "wtime", on=["n"])


def open_again(path: Path) -> Any:
    with opened(path) as repository:
        return repository.open("s1", StudyDefinition())


def portal_page(page: str, address: str = "/", **query: str) -> Callable[[Path], int]:
    """Return what makes a page of the portal, and answers its bytes.

    ``{digest}`` in the address is the last experiment of the study.
    """

    def ask(path: Path) -> int:
        from starlette.applications import Starlette
        from starlette.requests import Request

        from zenturio.show.portal.pages import experiment, study
        from zenturio.show.portal.state import Portal, PortalSettings

        app = Starlette()
        app.state.portal = portal = Portal(PortalSettings(str(path), path.parent))
        digest = ""
        if "name" in query:
            portal.repository.columnar_copy(query["name"])  # else it is made beside the page
        if "{digest}" in address:
            last = portal.repository.find_digests("f", 1) or portal.repository.find_digests("e", 1)
            digest = last[-1][0]
        scope = {"type": "http", "method": "GET", "path": address.replace("{digest}", digest),
                 "path_params": {"digest": digest}, "query_string": urlencode(query).encode(),
                 "headers": [], "app": app}  # fmt: skip
        pages = {"home": study.home, "study": study.study, "found": study.row_count,
                 "failures": study.failures, "experiment": experiment.experiment}  # fmt: skip
        try:
            return len(pages[page](Request(scope)).body)
        finally:
            portal.close()

    return ask


BIG = {"name": "big"}
COPIED = {"steps": 0.1, "statements": 0.1, "copied": 1.2}
"""What reads the copy looks at the database as little as if there were few results; numbers of more
results take more bytes."""
PAGES = COPIED | {"steps": 0.2}  # the last row of each segment is looked up, a few times a page
QUESTIONS = (
    Question("results --limit 5", result_table(limit=5), ("results", "big", "--limit", "5"),
             {"steps": 0.1, "statements": 0.1}),
    Question("results by two keys", result_table(by=["n", "threads"]),
             ("results", "big", "--by", "n,threads"), COPIED),
    Question("median by two keys", result_table(by=["n", "threads"], aggregates=["median"]),
             ("results", "big", "--by", "n,threads", "--agg", "median"), COPIED),
    Question("results by a condition", result_table(by=["n"], where="threads > 4"),
             ("results", "big", "--by", "n", "--where", "threads > 4"), COPIED),
    Question("results sorted, 5 rows", result_table(sort=["-gflops"], limit=5),
             ("results", "big", "--sort=-gflops", "--limit", "5"), COPIED),
    Question("heatmap", heatmap,
             ("plot", "big", "--kind", "heatmap", "--x", "n", "--y", "threads", "--z", "wtime",
              "-o", "{tmp}/heatmap.svg"), COPIED),
    Question("best", best_points, ("best", "big", "--agg", "median"), COPIED),
    Question("fit", fitted, ("fit", "big", "--y", "wtime", "--x", "n"), COPIED),
    Question("compare", compared, ("compare", "big", "other", "--metric", "wtime", "--on", "n"),
             {"steps": 1.1, "statements": 0.6}, largest=10**6),
    Question("db check", maintenance.check_repository, ("db", "check"),
             {"steps": 1.1, "statements": 0.6}),
    Question("open one study", open_again, (), {"steps": 0.1, "statements": 0.0}, "studies"),
    Question("list", lambda path: study_statuses(str(path)), ("list",),
             {"steps": 1.2, "statements": 0.3}, "studies"),  # one of each kind for 2,000 studies
    Question("the portal's home", portal_page("home"), (), {"statements": 0.3, "answer": 0.1},
             "studies"),
    *(
        Question(f"the portal: {name}", portal_page(page, "/study", **BIG, **query), (), PAGES)
        for name, page, query in (
            ("a table with a filter", "study", {"where": "wtime < 10"}),
            ("a sorted table", "study", {"sort": "-gflops"}),
            ("the last page of a sorted table", "study", {"sort": "-gflops", "before": "end"}),
            ("how many rows a sorted table has", "found", {"sort": "-gflops"}),
        )
    ),
    Question("the portal: failures by cause", portal_page("failures", "/study/failures", **BIG), (),
             {"steps": 1.1, "statements": 0.2}),
    Question("the portal: an experiment", portal_page("experiment", "/experiment/{digest}"), (),
             {"steps": 0.1, "statements": 0.0}),
)  # fmt: skip


def fill(place: Path | str, size: int) -> None:
    """Put a study of *size* results there, and one to compare it with, with five repeats a point.

    Rows are put in as they would lie there: in a file, or at the URL of a PostgreSQL schema.
    """
    fields = [tuple(Field(n, kind) for n, kind in part.items()) for part in (PARAMETERS, METRICS)]
    goals = ({"direction": "minimize", "expression": "wtime"},)
    repository = open_repository(place)
    for name in STUDIES:
        repository.open(name, StudyDefinition(*fields, goals=goals))
    with transaction(place) as ask:
        ask(f"INSERT INTO hosts {HOST}")
        versions = ask("SELECT id FROM versions ORDER BY id").fetchall()
        for number, (version,) in enumerate(versions):
            first = number * size
            size = min(size, COMPARED) if number else size
            slots = ", ".join(SLOTS[is_server(place)])
            ask(
                f"""
                WITH RECURSIVE c(i) AS ({numbers(place, 0, size - 1)}),
                p AS (SELECT i, i / 5 AS j, i % 5 + 1 AS repeat,
                    {CHANCE[is_server(place)]} AS a, {CHANCE[is_server(place)]} AS b FROM c)
                INSERT INTO results (id, version, digest, position, repeat, round, machine, newest,
                    status, attempt, lease, host, started, ended, exit, {slots})
                SELECT i + 1 + {first}, {version}, {DIGEST[is_server(place)]}, j, repeat, 1, 0, 1,
                    CASE i % 50 WHEN 0 THEN 'failed' ELSE 'ok' END, 1, 1, 1, 1.0, 2.0, 0,
                    128 << CAST(j % 6 AS INTEGER), (j / 6) % 16 + 1,
                    8 << CAST((j / 96) % 5 AS INTEGER),
                    CASE (j / 480) % 4 WHEN 0 THEN 'cg' WHEN 1 THEN 'gmres' ELSE 'minres' END,
                    (j / 1920) * 0.001,
                    (128 << CAST(j % 6 AS INTEGER)) * (1 + 0.1 * a) / ((j / 6) % 16 + 1), b * 100,
                    1000000 + CAST(a * 1e9 AS INTEGER) FROM p
                """
            )
            for status, count in (("ok", size - -(-size // 50)), ("failed", -(-size // 50))):
                ask(f"INSERT INTO counters VALUES ({version}, 0, 1, '{status}', {count})")
    repository.close()


def fill_studies(place: Path | str, count: int, points: int = 0) -> None:
    """Put so many studies there, each with one kind of results, as copies of the first.

    With *points*, each has so many results.
    """
    repository = open_repository(place)
    repository.open("s1", StudyDefinition(notes={SPACES: ["one"]}))  # as a run notes it
    with transaction(place) as ask:
        for text in STUDY_COPIES:
            ask(f"WITH RECURSIVE c(i) AS ({numbers(place, 2, count)}) {text}")
        ask(f"UPDATE counters SET count = {points or 7}")
        for table in ("studies", "versions", "definitions") if is_server(place) else ():
            ask(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {count + 1})")
        if points:
            ask(f"INSERT INTO hosts {HOST}")
            ask(
                f"""
                WITH RECURSIVE c(i) AS ({numbers(place, 1, points)})
                INSERT INTO results (id, version, digest, position, repeat, round, machine, newest,
                    status, attempt, lease, host, started, ended, exit)
                SELECT (v.id - 1) * {points} + i, v.id, {DIGEST[is_server(place)]}, i, 1, 1, 0, 1,
                    'ok', 1, 1, 1, 1.0, 2.0, 0 FROM versions v, c
                """
            )
    repository.close()


def is_server(place: Path | str) -> bool:
    """Whether *place* is a URL of PostgreSQL, and no file."""
    return str(place).startswith("postgresql:")


def numbers(place: Path | str, first: int, last: int) -> str:
    """A query of all numbers from *first* to *last*, within a recursive one that is called c."""
    if is_server(place):
        return f"SELECT CAST(generate_series({first}, {last}) AS bigint)"
    return f"SELECT {first} UNION ALL SELECT i + 1 FROM c WHERE i < {last}"


@contextmanager
def transaction(place: Path | str) -> Iterator[Callable[[str], Any]]:
    """Yield what executes a statement; all of them are committed at the end."""
    if is_server(place):
        import psycopg

        with psycopg.connect(str(place)) as session:
            yield session.execute
        with psycopg.connect(str(place), autocommit=True) as session:  # as it does by itself later
            session.execute("VACUUM ANALYZE results")
        return
    connection = sqlite_module().connect(place)
    connection.execute("BEGIN")
    yield connection.execute
    connection.execute("COMMIT")
    connection.close()


@contextmanager
def counting() -> Iterator[Counts]:
    """Count what is done: steps of SQLite, statements, bytes of copies."""
    counts: Counts = {"steps": 0, "statements": 0, "copied": 0}
    connect, read_part = SQLite.connect, columnar_copy.read_part

    def stepped() -> int:
        counts["steps"] += STEPS
        return 0

    def counted_connection(self: SQLite) -> Any:
        connection = connect(self)
        connection.set_progress_handler(stepped, STEPS)
        return connection

    def counted(ask: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **options: Any) -> Any:
            counts["statements"] += 1
            return ask(*arguments, **options)

        return count

    def counted_part(path: Path, part: Any, target: Any, **options: Any) -> None:
        read_part(path, part, target, **options)
        counts["copied"] += target.nbytes

    replaced = (
        (SQLite, "connect", counted_connection),
        (Transaction, "sql", counted(Transaction.sql)),
        (Transaction, "among_sql", counted(Transaction.among_sql)),
        (Transaction, "interruptible", lambda _self: nullcontext()),
        (SnapshotReader, "fetch", counted(SnapshotReader.fetch)),
        (columnar_copy, "read_part", counted_part),
    )
    with ExitStack() as stack:
        for place, name, value in replaced:
            stack.enter_context(mock.patch.object(place, name, value))
        yield counts


def exponent(sizes: list[int], work: list[int]) -> float:
    """The slope of the work by the size, both as logarithms (least squares)."""
    x = [math.log(size) for size in sizes]
    y = [math.log(max(value, 1)) for value in work]
    middle = sum(x) / len(x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum(
        (a - middle) ** 2 for a in x
    )


def seconds_of(command: tuple[str, ...], path: Path, folder: Path) -> float:
    """The processor seconds of a whole command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [word.replace("{tmp}", str(folder)) for word in command]
    environment = os.environ | {"ZENTURIO_DB": str(path)}
    subprocess.run(
        [sys.executable, "-m", "zenturio", *words],
        cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(sizes: list[int], studies: list[int], *, timed: bool) -> list[dict[str, Any]]:
    """Each question at each size."""
    with tempfile.TemporaryDirectory(prefix="zen-growth-") as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        rows: list[dict[str, Any]] = [
            {"question": q.name, "by": q.by, "sizes": [], "counts": [], "seconds": []}
            for q in QUESTIONS
        ]
        for size, count in zip(sizes, studies, strict=True):
            paths = {"results": folder / f"{size}.db", "studies": folder / f"s{count}.db"}
            fill(paths["results"], size)
            fill_studies(paths["studies"], count)
            for question, row in zip(QUESTIONS, rows, strict=True):
                path = paths[question.by]
                if (size if question.by == "results" else count) > question.largest:
                    continue
                row["sizes"].append(size if question.by == "results" else count)
                question.ask(path)  # makes the copy
                with counting() as counts:
                    answer = question.ask(path)
                counts["answer"] = answer if isinstance(answer, int) else 0
                row["counts"].append(dict(counts))
                if timed and question.command:
                    row["seconds"].append(seconds_of(question.command, path, folder))
            for path in paths.values():
                path.unlink()
    for question, row in zip(QUESTIONS, rows, strict=True):
        row["exponents"] = {
            kind: round(exponent(row["sizes"], [c[kind] for c in row["counts"]]), 2)
            for kind in question.promises
        }
        row["broken"] = [k for k, most in question.promises.items() if row["exponents"][k] > most]
        row["promises"] = question.promises
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as they stand in the documentation."""
    timed = any(row["seconds"] for row in rows)
    heads = ["question", "sizes", *(["processor seconds"] if timed else []), "exponent (promise)"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        sizes = ", ".join(f"{size:,}" for size in row["sizes"])
        seconds = ", ".join(f"{value:.2f}" for value in row["seconds"])
        counted = ", ".join(
            f"{kind}: {row['exponents'][kind] + 0.0:.2f} ({most:g})"  # -0.00 is 0.00
            for kind, most in row["promises"].items()
        )
        cells = [row["question"], f"{sizes} {row['by']}", *([seconds] if timed else []), counted]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def marked(page: str, mark: str) -> tuple[str, str, str]:
    """Return what is before, between and behind the marks of a program in a page."""
    before, begin, rest = page.partition(f"<!-- {mark}: begin -->\n")
    text, end, after = rest.partition(f"<!-- {mark}: end -->")
    return before + begin, text, end + after


def write(path: Path, mark: str, text: str) -> None:
    """Put *text* between the marks of a page."""
    before, _, after = marked(path.read_text(encoding="utf-8"), mark)
    path.write_text(f"{before}{text}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100000,1000000,10000000")
    parser.add_argument("--studies", default="100,1000,3100")
    parser.add_argument("--counted", action="store_true", help="run no commands")
    parser.add_argument("--copy-from", type=int, help="results from which on there is a copy")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes, studies = (
        [int(part) for part in text.split(",")] for text in (options.sizes, options.studies)
    )
    if options.copy_from is not None:
        columnar_copy.COPY_ROWS = options.copy_from
        columnar_copy.SEGMENT_ROWS = max(min(sizes) // 3, 1)  # several, as large copies have
    rows = measure(sizes, studies, timed=not options.counted)
    print(json.dumps(rows, indent=1) if options.json else table(rows), end="")
    if options.write:
        KEPT.write_text(json.dumps(rows, indent=1) + "\n")
        write(options.write, MARK, table(rows))
    for row in rows:
        for kind in row["broken"]:
            print(f"{row['question']}: {kind} grow by {row['exponents'][kind]}", file=sys.stderr)
    return int(any(row["broken"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
