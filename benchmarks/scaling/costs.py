"""What each part of the driver, of its places and of its databases costs on this machine."""

from __future__ import annotations

import os
import shutil
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

from layout import METRICS, Meter, experiment, outcome, server
from results import AXES, fill

from zenturio.annotate.scan import scan
from zenturio.execute.batch.tickets import BatchSession
from zenturio.execute.experiment_codec import pack_experiment, pack_outcome, unpack_outcome
from zenturio.execute.slurm_commands import SlurmCommands
from zenturio.experiment import Experiment, ExperimentGenerator, Log, Outcome
from zenturio.query import results
from zenturio.record import DriverProcess, Field, Repository, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.study.driver.experiment_source import PointsInOrder
from zenturio.study.driver.study_driver import StudyDriver

STUDY = """\
#ZEN$ ASSIGN n = { 1:10000 }
#ZEN$ ASSIGN threads = { 1:100 }
#ZEN$ ASSIGN block = { 1:10 }
#ZEN$ RUN "true"
#ZEN$ METRIC time
"""
FILLER = "# A line of an input file, as there are many.\n"
GROUP = "in groups of 256"
BEHIND = "in groups of 256, in a filled database"
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
    generator = ExperimentGenerator(application)
    points = enumerate(application.space)
    return (each for i, p in points for each in generator.experiments(p, i))


def opened(url: str, study: str = "s") -> tuple[Repository, Any]:
    """A repository with a study, and a lease on it."""
    repository = open_repository(url)
    fields = tuple(Field(name, "int") for name in ("n", "threads", "block"))
    repository.open(study, StudyDefinition(fields, tuple(map(Field, METRICS))))
    return repository, repository.acquire_lease(study, DriverProcess.current())


def making(folder: Path, count: int) -> dict[str, float]:
    """Seconds of one that is made (space, fill, digest), and packed; bytes that it holds."""
    source = made(folder)
    next(source)
    begun = time.perf_counter()
    whole = list(islice(source, count))
    each_made = (time.perf_counter() - begun) / count
    begun = time.perf_counter()
    parcels = [pack_experiment(each) for each in whole]
    replies = [pack_outcome(answer(each)) for each in whole]
    middle = time.perf_counter()
    for one, reply in zip(whole, replies, strict=True):
        unpack_outcome(reply, one.digest, folder)
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
        run = StudyDriver(
            f"driven{number}",
            lease,
            repository,
            Instant(),
            PointsInOrder(chain(first, part), count),
        )
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
                repository.cached("s", given)
                repository.claim("s", lease.number, given)
                repository.record("s", lease.number, outcomes)
        first += -(-count // size) * size
        return meter.wall / 1e6

    found[GROUP] = group(256)
    found["in groups of 2048"] = group(2048)
    for start in range(first, first + rows, 5000):
        given = [experiment(i) for i in range(start, start + 5000)]
        repository.add_results("s", lease.number, [(each, outcome(each, Log())) for each in given])
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
        repository.add_results("s", lease.number, [(each, outcome(each, said)) for each in given])
    repository.close()
    return path.stat().st_size / rows


def asking(folder: Path, rows: int) -> dict[str, float]:
    """Seconds of the mean by two parameters, at two sizes, and of the counters."""
    found = {}
    for size in (rows // 4, rows):
        repository = fill(folder / f"asked{size}.db", size)
        found[f"mean of {size:,} rows"] = timed(
            lambda: results(repository, "big", by=AXES, metrics=["wtime"])  # noqa: B023
        )
        found["read the counters"] = timed(lambda: repository.count_states("big"))  # noqa: B023
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
    session = BatchSession.begin(folder / "place")
    source = made(folder)
    some = list(islice(source, 1000))
    begun = time.perf_counter()
    for one in some:
        session.put(one.digest, pack_experiment(one))
        session.outcome(one.digest).write_bytes(pack_outcome(answer(one)))
        unpack_outcome(session.outcome(one.digest).read_bytes(), one.digest, folder)
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
        queue = SlurmCommands()
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


def measured(folder: Path, runs: int, rows: int, jobs: int) -> dict[str, Any]:
    """All costs, in seconds and bytes: of so many *runs*, *rows* and queued *jobs*."""
    costs: dict[str, Any] = making(folder, runs)
    costs["driver"], costs["database"] = {}, {}
    with server(None) as url:
        for name, of in (("SQLite", "{}/{}.db"), ("PostgreSQL", url)):
            if of:
                at = [of.format(folder, part) for part in ("driver", "rows")]
                costs["driver"][name] = driving(folder, at[0], runs)
                costs["database"][name] = recording(at[1], rows, runs)
    costs["row"] = {log: sized(folder, rows // 4, log) for log in (0, 1000)}
    costs["asked"] = asking(folder, rows)
    costs["files"] = filing(folder, runs)
    costs["squeue"] = looking(folder, jobs)
    costs["thread"] = threads()
    return costs
