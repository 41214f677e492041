"""PostgreSQL beside SQLite on the same machine, the same studies in both.

    python benchmarks/databases.py [--parts P,P,P] [--runs N] [--drivers N] [--studies N] [--size N]
        [--rounds N] [--json]

Tiny experiments, several drivers on one study, the list and the status of many studies, opening
one more, and questions to many results: each of SQLite and of PostgreSQL in turn, best of --rounds,
with the processor seconds of the command and of the server's processes. Both lie in memory where
that has room (/dev/shm), and the server does not wait for the disk. The results and the many
studies are put into SQLite, and brought to PostgreSQL by `zen db copy`, and the results back;
beside it stands what the databases themselves need to put the same rows in. Sizes are those of the
file and of all tables and indexes, when nothing waits to be cleared away.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import growth

from zenturio.record.sqlite import sqlite_module

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import postgres

TINY = """\
#!/bin/sh
#ZEN$ PARAM n = {{ 1:{count} }}
#ZEN$ RUN "sh {name}.sh {{n}}"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
echo "square $(($1 * $1))"
"""
PARTS = ("experiments", "studies", "results")
QUESTIONS = {
    "results --limit 5": ("results", "big", "--limit", "5"),
    "median by two keys": ("results", "big", "--by", "n,threads", "--agg", "median"),
    "best": ("best", "big"),
    "fit": ("fit", "big", "--y", "wtime", "--x", "n"),
    "compare": ("compare", "big", "other", "--metric", "wtime", "--on", "n"),
    "plot": ("plot", "big", "--kind", "heatmap", "--x", "n", "--y", "threads", "--z", "wtime",
             "-o", "heatmap.svg"),
    "db check": ("db", "check"),
}  # fmt: skip


@dataclass
class Place:
    """A database, and the folder in which its commands run."""

    name: str
    url: str
    folder: Path
    server: postgres.Server | None = None
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds and processor seconds of each question, the best of all rounds."""

    def zen(self, *words: str, wait: bool = True) -> subprocess.Popen[str]:
        """Run a command on the database."""
        environment = {
            **os.environ, "ZENTURIO_DB": self.url, "ZENTURIO_TRUST": "1",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "zenturio", *words],
            cwd=self.folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if wait:
            finish(process)
        return process

    @property
    def schema(self) -> str:
        """Where the tables are on the server."""
        return self.url.rpartition("%3D")[2]

    def copy_from(self, other: Place) -> None:
        """Take everything from another database."""
        # The first file stays.
        target = self.url if self.server else f"{self.url}.copy"
        copy = partial(self.zen, "db", "copy", other.url, target)
        self.measure("`zen db copy` from the other", copy)
        if self.server is None:
            Path(target).unlink()

    def insert_bare(self) -> None:
        """Put all rows of results in once more, by the database's own means."""
        question = "the rows of results alone, by the database itself"
        if self.server is None:
            target = Path(f"{self.url}.bare")
            connection = sqlite_module().connect(self.url)
            connection.execute("ATTACH ? AS bare", (str(target),))
            for name, text in connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'results' AND sql <> ''"
                " ORDER BY type DESC"
            ).fetchall():
                connection.execute(text.replace(f" {name} ", f" bare.{name} ", 1))
            insert = "INSERT INTO bare.results SELECT * FROM main.results"
            self.measure(question, lambda: (connection.execute(insert), connection.commit()))
            connection.close()
            target.unlink()
            return
        file = self.server.folder / "results.copy"
        with self.server.connect() as connection:
            connection.execute(f"SET search_path = {self.schema}")
            connection.execute(f"COPY results TO '{file}'")
            connection.execute("CREATE TABLE bare (LIKE results INCLUDING ALL)")
            self.measure(question, lambda: connection.execute(f"COPY bare FROM '{file}'"))
            connection.execute("DROP TABLE bare")
        file.unlink()

    def measure(self, question: str, work: Callable[[], object]) -> None:
        """Do the work, and note what it cost if it never cost less."""
        before, began = self._spent(), time.monotonic()
        work()
        cost = (time.monotonic() - began, self._spent() - before)
        least = self.costs.get(question, cost)
        self.costs[question] = (min(least[0], cost[0]), min(least[1], cost[1]))
        print(f"{self.name}, {question}: {cost[0]:.2f} s ({cost[1]:.2f})", file=sys.stderr)

    def _spent(self) -> float:
        """Processor seconds of all commands so far, and of the server."""
        usages = [
            resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)
        ]
        seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return seconds if self.server is None else seconds + server_seconds(self.server)

    def size(self) -> int:
        """Bytes of the database."""
        if self.server is None:
            return Path(self.url).stat().st_size
        with self.server.connect() as connection:
            connection.execute(f"SET search_path = {self.schema}")
            for (table,) in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (self.schema,)
            ).fetchall():
                connection.execute(f"VACUUM ANALYZE {table}")
            rows = connection.execute(
                "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c"
                " WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
                (self.schema,),
            ).fetchone()
        return int(rows[0])


def server_seconds(server: postgres.Server) -> float:
    """Processor seconds of all processes of a server."""
    return process_seconds(int((server.data / "postmaster.pid").read_text().split()[0]))


def process_seconds(root: int) -> float:
    """Processor seconds of a process, of its children, and of those that it waited for."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(words[1])
        ticks[int(path.parent.name)] = sum(map(int, words[11:15]))
    total = sum(count for pid, count in ticks.items() if root in (pid, parents[pid]))
    return total / os.sysconf("SC_CLK_TCK")


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, process.args))}\n{out}")
    return out


def tiny_experiments(place: Place, runs: int, drivers: int, round_: int) -> None:
    """A study of so many experiments by one driver, and another one by several at a time."""
    for question, count in (("one driver", 1), (f"{drivers} drivers", drivers)):
        name = f"tiny{round_}x{count}"
        (place.folder / f"{name}.sh").write_text(TINY.format(name=name, count=runs))
        words = ("run", f"{name}.sh", "-j", "2" if count == 1 else "1", "--join")

        def run(words: tuple[str, ...] = words, count: int = count) -> None:
            for process in [place.zen(*words, wait=False) for _ in range(count)]:
                finish(process)

        place.measure(f"{runs:,} tiny experiments, {question}", run)
        status = json.loads(finish(place.zen("status", name, "--json", wait=False)))
        if status["ok"] != runs:
            raise SystemExit(f"{place.name}: {status['ok']} of {runs} experiments of {name}")


def open_study(place: Place, last: str) -> None:
    """Open the study that is called *last*, and one that is new, in this process."""
    from zenturio.record import StudyDefinition
    from zenturio.record.open import open_repository

    repository = open_repository(place.url)
    try:
        for question in ("open the last study, which makes its view once", "open the last study"):
            place.measure(question, lambda: repository.open(last, StudyDefinition()))
        name = f"new{time.monotonic_ns()}"
        place.measure("open a new study", lambda: repository.open(name, StudyDefinition()))
    finally:
        repository.close()


class Comparison:
    """What was asked of both databases, and what it cost."""

    def __init__(self, server: postgres.Server, top: Path) -> None:
        self.questions: dict[str, dict[str, tuple[float, float]]] = {}
        self.sizes: dict[str, dict[str, int]] = {}
        self._server, self._top = server, top

    def places(
        self, kind: str, fill: Callable[[Path], None] = lambda _file: None
    ) -> tuple[Place, Place]:
        """Return two databases that hold the same."""
        url = self._server.new_url()
        folders = [self._top / f"{kind}-{name}" for name in ("sqlite", "postgresql")]
        for folder in folders:
            (folder / ".zenturio").mkdir(parents=True)
        file = folders[0] / "zenturio.db"
        sqlite = Place("sqlite", str(file), folders[0])
        postgresql = Place("postgresql", url, folders[1], self._server)
        fill(file)
        if file.exists():
            postgresql.copy_from(sqlite)
        return sqlite, postgresql

    def take(self, pair: tuple[Place, Place], kind: str) -> None:
        """Take the costs of a pair, and the sizes of its databases."""
        for question in pair[0].costs:
            self.questions[question] = {place.name: place.costs[question] for place in pair}
        self.sizes[kind] = {place.name: place.size() for place in pair}


def compare_experiments(options: argparse.Namespace, comparison: Comparison) -> None:
    """Run tiny experiments, by one driver and by several on one study."""
    pair = comparison.places("tiny")
    for round_ in range(options.rounds):
        for place in pair:
            tiny_experiments(place, options.runs, options.drivers, round_)
    comparison.take(pair, f"{2 * options.rounds * options.runs:,} tiny experiments")


def compare_studies(options: argparse.Namespace, comparison: Comparison) -> None:
    """List many studies, and open one more."""
    count = options.studies
    pair = comparison.places("many", lambda file: growth.fill_studies(file, count))
    for _ in range(options.rounds):
        for place in pair:
            for verb in ("list", "status"):
                place.measure(f"{verb} of {count} studies", partial(place.zen, verb))
            open_study(place, f"s{count}")
    comparison.take(pair, f"{count} studies")


def compare_results(options: argparse.Namespace, comparison: Comparison) -> None:
    """Ask for many results."""
    pair = comparison.places("big", lambda file: growth.fill(file, options.size))
    for place in pair:
        for study in ("big", "other"):  # the columnar copy is made by the first question
            place.zen("results", study, "--by", "n", "--agg", "median")
    for _ in range(options.rounds):
        for question, words in QUESTIONS.items():
            for place in pair:
                place.measure(question, partial(place.zen, *words))
    for place in pair:
        place.insert_bare()
    pair[0].copy_from(pair[1])
    comparison.take(pair, f"2 x {options.size:,} results")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="which comparisons to make")
    parser.add_argument("--runs", type=int, default=2000, help="tiny experiments")
    parser.add_argument("--drivers", type=int, default=8, help="on one study at a time")
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--size", type=int, default=10**6, help="results of a study")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = dict(zip(PARTS, (compare_experiments, compare_studies, compare_results), strict=True))
    server = postgres.Server()
    try:
        with tempfile.TemporaryDirectory(prefix="zen-databases-", dir=server.folder.parent) as name:
            comparison = Comparison(server, Path(name))
            for part in options.parts.split(","):
                parts[part](options, comparison)
    finally:
        server.remove()
    if options.json:
        print(json.dumps({"questions": comparison.questions, "sizes": comparison.sizes}, indent=2))
        return
    print("| | SQLite, s (processor) | PostgreSQL, s (processor) | ratio (processor) |")
    print("|---|---:|---:|---:|")
    for question, costs in comparison.questions.items():
        (a, a_cpu), (b, b_cpu) = costs["sqlite"], costs["postgresql"]
        ratios = f"{b / max(a, 1e-6):.1f} ({b_cpu / max(a_cpu, 0.01):.1f})"
        print(f"| {question} | {a:.3f} ({a_cpu:.2f}) | {b:.3f} ({b_cpu:.2f}) | {ratios} |")
    for kind, size in comparison.sizes.items():
        a, b = size["sqlite"] / 1e6, size["postgresql"] / 1e6
        print(f"| {kind}, MB on disk | {a:.1f} | {b:.1f} | {b / a:.1f} |")
    print(f"\nLoad of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
