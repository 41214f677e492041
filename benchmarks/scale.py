"""What ten million experiments on ten thousand workers would take: from costs that are measured.

    python benchmarks/scale.py [--experiments N] [--workers N] [--seconds S ...] [--rows N] [--json]

First the costs of each part on this machine, in about a minute: what the driver does for each
experiment (makes it, claims it, records it, in SQLite and PostgreSQL, in an empty database and
behind others), what goes through files and threads, what a queue of so many jobs takes to read,
what a kept folder and a row take. Then the study is played as a network of queues: a driver, the
place's scheduler, workers, and the driver again, with as many in flight as a driver allows. Rates
that need a cluster are those of README.md in this folder. What is asked of a table grows with its
rows; it is measured at *rows*, and given for all experiments.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from layout import METRICS, Meter, experiment, outcome, server
from numba import njit
from results import AXES, fill

from zenturio.annotate import scan
from zenturio.execute.dask.batches import Batches
from zenturio.execute.parcel import pack, pack_outcome, unpack_outcome
from zenturio.execute.slurm.queue import Queue
from zenturio.execute.slurm.session import Session
from zenturio.experiment import Experiment, Generator, Log, Outcome
from zenturio.query import results
from zenturio.record import Definition, Driver, Field, Repository
from zenturio.record.open import open_repository
from zenturio.study.run import Run
from zenturio.study.source import Walk

# From README.md, where the commands are that measured them.
DASK_TASKS = 328.0
"""Tasks a second that bare Dask hands out."""
DASK_WORK = 0.0006
"""Seconds of a worker that an experiment in a batch takes beside its program."""
SLURM_JOBS = 33.9
"""Tasks of job arrays a second that Slurm starts."""
SLURM_WORK = 0.24
"""Seconds of processor time that the Python of such a job takes."""
SSH_EXPERIMENTS = 51.0
"""Whole experiments a second through one host, both ends on two cores."""
PORTAL = {
    "a sorted table, first view": 0.070,
    "how many rows a sorted table has": 1.1,
    "a chart with two group-bys": 1.3,
    "what each parameter took": 0.29,
}
"""Seconds at a million rows."""

STUDY = """\
#ZEN$ ASSIGN n = { 1:10000 }
#ZEN$ ASSIGN threads = { 1:100 }
#ZEN$ ASSIGN block = { 1:10 }
#ZEN$ RUN "true"
#ZEN$ METRIC time
"""
FILLER = "# A line of an input file, as there are many.\n"
GROUP = "in groups of 256"
BEHIND = "in groups of 256, behind the others"
SLOTS = 128
"""So that a driver hears of a whole group at a time, as it does where thousands run."""


class Instant:
    """A place where everything has ended at once: what is left is the driver."""

    slots = SLOTS

    def submit(self, each: Experiment) -> Future[Outcome]:
        done: Future[Outcome] = Future()
        done.set_running_or_notify_cancel()
        done.set_result(answer(each))
        return done

    def close(self) -> None:
        """Holds nothing."""


def answer(each: Experiment) -> Outcome:
    """What a program came to that printed a little."""
    said = Log(b"time=0.25 gflops=3.2\n" * 10, b"", 210)
    metrics = dict.fromkeys(METRICS, 0.25)
    return Outcome(each.digest, "ok", "", metrics, 1, "host", 1e9, 1e9 + 1, 0, said)


def made(folder: Path) -> Iterator[Experiment]:
    """The experiments of a space of ten million points, each with a file of 2 KB."""
    path = folder / "input.txt"
    path.write_text(STUDY + FILLER * 40, encoding="utf-8")
    application = scan([str(path)])
    generator = Generator(application)
    points = enumerate(application.space)
    return (each for i, p in points for each in generator.experiments(p, i))


def opened(url: str, study: str = "s") -> tuple[Repository, Any]:
    """A repository with a study, and a lease on it."""
    repository = open_repository(url)
    fields = tuple(Field(name, "int") for name in ("n", "threads", "block"))
    repository.open(study, Definition(fields, tuple(map(Field, METRICS))))
    return repository, repository.lease(study, Driver.here())


def making(folder: Path, count: int) -> dict[str, float]:
    """Seconds of one that is made (space, fill, digest), and packed; bytes that it holds."""
    source = made(folder)
    next(source)
    begun = time.perf_counter()
    whole = list(islice(source, count))
    each_made = (time.perf_counter() - begun) / count
    begun = time.perf_counter()
    parcels = [pack(each) for each in whole]
    replies = [pack_outcome(answer(each)) for each in whole]
    middle = time.perf_counter()
    for reply in replies:
        unpack_outcome(reply, folder)
    both = time.perf_counter() - middle + (middle - begun) / 2
    tracemalloc.start()
    held = [(each, Future[Outcome]()) for each in islice(source, 2000)]
    size = tracemalloc.get_traced_memory()[0] / len(held)
    tracemalloc.stop()
    return {"make": each_made, "pack": both / count, "held": size, "parcel": len(parcels[0])}


def driving(folder: Path, url: str, count: int) -> float:
    """Seconds of the driver for an experiment, from its point to the commit of its outcome."""
    rounds = []
    for number in range(3):
        repository, lease = opened(url, f"driven{number}")
        source = made(folder)
        # Each round has points of its own, for an experiment that is known costs less.
        part = islice(source, count * number, count * (number + 1))
        first = [next(part)]  # which passes over those of earlier rounds, before the clock
        run = Run(f"driven{number}", lease, repository, Instant(), Walk(chain(first, part), count))
        begun = time.perf_counter()
        summary = run.drive()
        rounds.append((time.perf_counter() - begun) / count)
        repository.close()
        if summary.ok != count:
            raise SystemExit("not every experiment was recorded")
    return median(rounds)


def recording(url: str, rows: int, count: int) -> dict[str, float]:
    """Seconds of the database for an experiment, in groups, empty and behind *rows* others."""
    repository, lease = opened(url)
    found = {}
    first = 0

    def group(size: int) -> float:
        nonlocal first
        meter = Meter()
        for start in range(first, first + count, size):
            given = [experiment(i) for i in range(start, start + size)]
            outcomes = [outcome(each, Log(b"x" * 210, b"", 210)) for each in given]
            with meter.of(size):
                repository.add("s", given)
                repository.claim("s", lease.number, [each.digest for each in given])
                repository.record("s", lease.number, outcomes)
        first += -(-count // size) * size
        return meter.wall / 1e6

    found[GROUP] = group(256)
    found["in groups of 2048"] = group(2048)
    for start in range(first, first + rows, 5000):
        given = [experiment(i) for i in range(start, start + 5000)]
        repository.enter("s", lease.number, [(each, outcome(each, Log())) for each in given])
    first += -(-rows // 5000) * 5000
    found[BEHIND] = group(256)
    repository.close()
    return found


def sized(folder: Path, rows: int, log: int) -> float:
    """Bytes in SQLite for each experiment, with so much output."""
    path = folder / f"sized{log}.db"
    repository, lease = opened(str(path))
    for start in range(0, rows, 5000):
        given = [experiment(i) for i in range(start, start + 5000)]
        said = Log(b"x" * log, b"", log)
        repository.enter("s", lease.number, [(each, outcome(each, said)) for each in given])
    repository.close()
    return path.stat().st_size / rows


def asking(folder: Path, rows: int) -> dict[str, float]:
    """Seconds of the mean by two parameters, at two sizes, and of the counters."""
    found = {}
    for size in (rows // 4, rows):
        repository = fill(folder / f"asked{size}.db", size)
        found[f"mean at {size:,} rows"] = timed(
            lambda: results(repository, "big", by=AXES, metrics=["wtime"])  # noqa: B023
        )
        found["counters"] = timed(lambda: repository.counts("big"))  # noqa: B023
        repository.close()
    return found


def filing(folder: Path, count: int) -> dict[str, float]:
    """Seconds and bytes of a folder with a file that is kept, and of a parcel and its outcome."""
    home = folder / "kept"
    home.mkdir()
    names = [os.urandom(16).hex() for _ in range(count)]
    begun = time.perf_counter()
    for name in names:
        os.mkdir(home / name)  # noqa: PTH102
        (home / name / "input.txt").write_bytes(FILLER.encode() * 40)
    each = (time.perf_counter() - begun) / count
    begun = time.perf_counter()
    listed = sum(1 for _ in os.scandir(home))
    listing = (time.perf_counter() - begun) / listed
    block = sum(p.stat().st_blocks * 512 for p in (home / names[0], home / names[0] / "input.txt"))
    begun = time.perf_counter()
    shutil.rmtree(home)
    gone = (time.perf_counter() - begun) / count
    session = Session.begin(folder / "place")
    source = made(folder)
    some = list(islice(source, 1000))
    begun = time.perf_counter()
    for one in some:
        session.put(one.digest, pack(one))
        session.outcome(one.digest).write_bytes(pack_outcome(answer(one)))
        unpack_outcome(session.outcome(one.digest).read_bytes(), folder)
        session.drop(one.digest)
    letter = (time.perf_counter() - begun) / len(some)
    session.remove()
    return {"keep": each, "list": listing, "remove": gone, "bytes": block, "letter": letter}


def looking(folder: Path, jobs: int) -> float:
    """Seconds of the driver to read a queue of so many jobs, as squeue prints it."""
    lines = (f"zen-x|12|{n}|RUNNING|node{n % 64}|None\n" for n in range(jobs))
    (folder / "queue").write_text("".join(lines))
    squeue = folder / "squeue"
    squeue.write_text(f'#!/bin/sh\nexec cat "{folder}/queue"\n')
    squeue.chmod(0o700)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        queue = Queue()
        return timed(lambda: queue.look({"zen-x"}))
    finally:
        os.environ["PATH"] = before


def threads(count: int = 400) -> float:
    """Resident bytes of a thread that waits, as one does for each attempt at a host."""
    over = threading.Event()
    before = resident()
    waiting = [threading.Thread(target=over.wait) for _ in range(count)]
    for each in waiting:
        each.start()
    grown = resident() - before
    over.set()
    for each in waiting:
        each.join()
    return grown / count


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def timed(work: Callable[[], object]) -> float:
    """The median of three."""
    spent = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begun)
    return median(spent)


@dataclass(frozen=True)
class Line:
    """The stations that an experiment passes, in seconds for each; *window* are in flight."""

    place: str
    database: str
    give: float
    """Of the driver, before an experiment is handed over."""
    take: float
    """Of the driver, when it is back."""
    dispatch: float
    """Of the place's scheduler."""
    work: float
    """Of a worker."""
    window: int


@njit(cache=False)
def play(count, workers, give, take, dispatch, work, window):  # type: ignore[no-untyped-def]
    """Seconds until all are recorded, and the most that were in flight; first come, first served.

    All last equally long, so that they end in the order in which they began.
    """
    free = np.zeros(workers)
    ended = np.zeros(window)
    driver = scheduler = 0.0
    given = taken = most = 0
    while taken < count:
        if taken < given and ended[taken % window] <= driver:
            driver += take
            taken += 1
        elif given < count and given - taken < window:
            driver += give
            scheduler = max(scheduler, driver) + dispatch
            begun = max(scheduler, free[given % workers])
            ended[given % window] = free[given % workers] = begun + work
            given += 1
            most = max(most, given - taken)
        else:
            driver = ended[taken % window]
    return driver, most


def lines(costs: dict[str, Any], workers: int, seconds: float) -> list[Line]:
    """What each place with each database does with experiments of *seconds*."""
    make, pack_, files = costs["make"], costs["pack"], costs["files"]["letter"]
    batches = Batches(None)
    batches.took(seconds)
    together = batches.size
    ahead = 3 * together if batches.ahead else 2
    found = []
    for database, whole in costs["driver"].items():
        groups = costs["database"][database]
        whole += groups[BEHIND] - groups[GROUP]  # noqa: PLW2901 - which grows with the rows
        give = (whole + make) / 2  # making and claiming; the rest is recording
        take = whole - give
        more, window = pack_ / 2, ahead * workers
        pace = 1 / (DASK_TASKS * together)
        found.append(
            Line("dask", database, give + more, take + more, pace, seconds + DASK_WORK, window)
        )
    # Where schedulers give way long before databases do, one of these is enough.
    more, window = files / 2, 2 * workers
    work = seconds + SLURM_WORK
    found += [
        Line("slurm", database, give + more, take + more, 1 / SLURM_JOBS, work, window),
        Line("hosts", database, give, take, 1 / SSH_EXPERIMENTS, seconds, window),
    ]
    return found


def foretold(line: Line, experiments: int, workers: int) -> dict[str, Any]:
    """How long it takes, how busy each part is, and where each gives way."""
    driver, scheduler = line.give + line.take, line.dispatch
    window = min(line.window, experiments)
    total, most = play(experiments, workers, line.give, line.take, scheduler, line.work, window)
    busy = {
        "driver": driver * experiments / total,
        "scheduler": scheduler * experiments / total,
        "workers": line.work * experiments / workers / total,
    }
    return {
        "place": line.place, "database": line.database, "rate": experiments / total,
        "hours": total / 3600, "in flight": int(most), "busy": busy, "driver": 1 / driver,
        "scheduler": 1 / scheduler, "enough": workers * max(driver, scheduler),
        "bottleneck": max(busy, key=lambda name: busy[name]),
    }  # fmt: skip


def measured(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All costs, in seconds and bytes."""
    costs: dict[str, Any] = making(folder, asked.runs)
    costs["driver"], costs["database"] = {}, {}
    with server(None) as url:
        for name, of in (("SQLite", "{}/{}.db"), ("PostgreSQL", url)):
            if of:
                at = [of.format(folder, part) for part in ("driver", "rows")]
                costs["driver"][name] = driving(folder, at[0], asked.runs)
                costs["database"][name] = recording(at[1], asked.rows, asked.runs)
    costs["row"] = {log: sized(folder, asked.rows // 4, log) for log in (0, 1000)}
    costs["asked"] = asking(folder, asked.rows)
    costs["files"] = filing(folder, asked.runs)
    costs["squeue"] = looking(folder, asked.workers)
    costs["thread"] = threads()
    return costs


def unit_costs(costs: dict[str, Any], workers: int) -> Iterator[tuple[str, str]]:
    """What was measured, in words."""
    files, row = costs["files"], costs["row"]
    yield "driver: one made (space, fill of a file of 2 KB, digest)", us(costs["make"])
    for name, whole in costs["driver"].items():
        yield f"driver, {name}: from its point to the commit of its outcome", us(whole)
        for how, each in costs["database"][name].items():
            yield f"{name}: added, claimed, recorded {how}", us(each)
    yield "driver: one packed, its outcome unpacked", us(costs["pack"])
    yield "driver: the same through files, as for Slurm", us(files["letter"])
    yield "driver: memory of one in flight", f"{costs['held'] / 1e3:.1f} KB"
    yield "a thread that waits", f"{costs['thread'] / 1e3:.0f} KB"
    yield f"a queue of {workers:,} jobs read", f"{costs['squeue'] * 1e3:.0f} ms"
    yield "a folder with one file: made and kept", us(files["keep"])
    yield "the same: listed", f"{files['list'] * 1e6:.1f} us"
    yield "the same: removed", us(files["remove"])
    yield "the same: on the disk", f"{files['bytes'] / 1e3:.0f} KB, 2 inodes"
    yield "a row in SQLite; with 1 KB of output", f"{row[0]:.0f} B; {row[1000]:,.0f} B"
    for name, seconds in costs["asked"].items():
        yield name, f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"


def sums(costs: dict[str, Any], count: int, workers: int, rows: int) -> Iterator[tuple[str, str]]:
    """What that comes to."""
    files, row, times = costs["files"], costs["row"], count / 1e6
    mean = costs["asked"][f"mean at {rows:,} rows"] / rows * count
    yield "all made, and nothing else", f"{costs['make'] * count / 60:.1f} min"
    for name, found in costs["database"].items():
        each = found[BEHIND]
        rate = f"{1 / each:,.0f}/s; {each * count / 60:.0f} min"
        yield f"all added, claimed and recorded in {name}, and nothing else", rate
    yield "in flight, two for each worker", f"{costs['held'] * 2 * workers / 1e6:,.0f} MB"
    yield "threads of hosts, one for each worker", f"{costs['thread'] * workers / 1e6:,.0f} MB"
    yield "folders, all kept", f"{count * 2:,} inodes, {files['bytes'] * count / 1e9:,.0f} GB"
    yield "folders, all removed", f"{files['remove'] * count / 60:,.0f} min"
    yield (
        "SQLite; with 1 KB of output",
        " GB; ".join(f"{row[n] * times / 1e3:.1f}" for n in row) + " GB",
    )
    yield "the mean by two parameters", f"{mean:.1f} s"
    for name, seconds in PORTAL.items():
        yield name, f"{seconds * times:.1f} s"
    yield "a sorted table, held by the portal", f"{8 * times:.0f} MB"


def us(seconds: float) -> str:
    """Microseconds."""
    return f"{seconds * 1e6:.0f} us"


def table(title: str, rows: Iterator[tuple[str, str]]) -> str:
    """Markdown of two columns."""
    return "\n".join([f"| {title} | |", "|---|---:|", *(f"| {a} | {b} |" for a, b in rows), ""])


def played(plans: dict[float, list[dict[str, Any]]], held: float) -> str:
    """Markdown: what each place makes of the study."""
    head = (
        "| each lasts | place | database | driver | scheduler | together | takes | in flight "
        "| driver, scheduler, workers busy | all busy from |"
    )
    lines = [
        head,
        "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for seconds, found in plans.items():
        for each in found:
            busy = ", ".join(f"{share:.0%}" for share in each["busy"].values())
            lines.append(
                f"| {seconds:g} s | {each['place']} | {each['database']} "
                f"| {each['driver']:,.0f}/s | {each['scheduler']:,.0f}/s | {each['rate']:,.0f}/s "
                f"| {each['hours']:,.1f} h "
                f"| {each['in flight']:,} ({each['in flight'] * held / 1e6:,.0f} MB) | {busy} "
                f"| {each['enough']:,.1f} s |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measures, plays and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=10**7)
    parser.add_argument("--workers", type=int, default=10**4)
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.01, 1.0, 60.0, 600.0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows that lie there already")
    parser.add_argument("--runs", type=int, default=4096, help="experiments of each measurement")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".scale-") as name:
        costs = measured(asked, Path(name))
    plans = {
        seconds: [
            foretold(line, asked.experiments, asked.workers)
            for line in lines(costs, asked.workers, seconds)
        ]
        for seconds in asked.seconds
    }
    if asked.json:
        print(json.dumps({"costs": costs, "plans": plans}, indent=2))
        return
    print(table("measured", unit_costs(costs, asked.workers)))
    title = f"{asked.experiments:,} experiments, {asked.workers:,} workers"
    print(table(title, sums(costs, asked.experiments, asked.workers, asked.rows)))
    print(played(plans, costs["held"]))


if __name__ == "__main__":
    main()
