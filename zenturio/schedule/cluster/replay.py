"""Replay of a job log on a cluster: when a policy starts each job, and what users see of it.

Logs are in the Standard Workload Format, or tables.
"""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.formats.document import write_text
from zenturio.schedule.formats.swf import SWF_SIZE_HEADER, swf_rows
from zenturio.schedule.model.workflow import Floats
from zenturio.settings.document import read_text

_MAX_BYTES = 2**30
_TABLE_COLUMNS = ("submit", "run", "processors")


@dataclass(frozen=True, eq=False)
class JobLog:
    """Rigid jobs in order of submission; equal times in the order of the file."""

    name: str
    submit: Floats
    """Seconds."""
    run: Floats
    estimate: Floats
    """What the user said how long it runs; never less than it does, because no job is killed."""
    processors: NDArray[np.int64]
    user: NDArray[np.int64]
    size: int
    """Processors of the cluster; 0 if the log does not say."""
    skipped: int = 0
    """Jobs that never ran, or without a number of processors."""

    def __len__(self) -> int:
        return len(self.submit)


def is_job_log(words: Sequence[str]) -> bool:
    """Return whether *words* name a single log of jobs."""
    return len(words) == 1 and words[0].lower().endswith((".swf", ".swf.gz", ".jobs.csv"))


def read_job_log(path: str | Path) -> JobLog:
    """Return the jobs of an SWF log (may be gzipped) or of a table ``NAME.jobs.csv``.

    Raise InputError if a line is wrong, or no job ran.
    """
    path = Path(path)
    log = _table(path) if path.name.endswith(".jobs.csv") else _swf(path)
    if not len(log):
        raise InputError(f"{path} has no job that ran")
    return log


def _swf(path: Path) -> JobLog:
    text = _unpacked(path) if path.suffix == ".gz" else read_text(path)
    rows = swf_rows(str(path), text)
    # Requested processors stand in where the allocated ones are unknown, and the other way.
    processors = np.where(rows[:, 4] > 0, rows[:, 4], rows[:, 7])
    header = {kind: int(number) for kind, number in SWF_SIZE_HEADER.findall(text)}
    return _sorted_log(
        path.name,
        np.stack([rows[:, 1], rows[:, 3], rows[:, 8], processors, rows[:, 11]]),
        header.get("Procs") or header.get("Nodes") or 0,
    )


def _unpacked(path: Path) -> str:
    try:
        with gzip.open(path, "rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if len(content) > _MAX_BYTES:
        raise InputError(f"{path}: more than 1 GiB when unpacked")
    return content.decode("utf-8", "replace")


def _table(path: Path) -> JobLog:
    reader = csv.DictReader(StringIO(read_text(path)))
    missing = [name for name in _TABLE_COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]!r}",
            hint="submit,run,processors and, where known, estimate,user",
        )
    users: dict[str, int] = {}
    columns: list[tuple[float, ...]] = []
    for row in reader:
        user = users.setdefault(row.get("user") or "", len(users))
        try:
            numbers = [float(row[name]) for name in _TABLE_COLUMNS]
            estimate = float(row.get("estimate") or -1)
        except (TypeError, ValueError):
            raise InputError(f"{path}:{reader.line_num}: not a job of numbers") from None
        columns.append((numbers[0], numbers[1], estimate, numbers[2], user))
    return _sorted_log(path.name, np.array(columns, np.float64).reshape(-1, 5).T, 0)


def _sorted_log(name: str, columns: Floats, size: int) -> JobLog:
    """Return the log of the rows submit, run, estimate, processors and user."""
    ran = (
        (columns[1] > 0) & (columns[3] >= 1) & (columns[0] >= 0) & np.isfinite(columns).all(axis=0)
    )
    jobs = columns[:, ran]
    jobs = jobs[:, np.argsort(jobs[0], kind="stable")]
    return JobLog(
        name, jobs[0], jobs[1], np.maximum(jobs[1], jobs[2]),
        jobs[3].astype(np.int64), jobs[4].astype(np.int64), size, int((~ran).sum()),
    )  # fmt: skip


SHORT_SECONDS = 10.0
"""Jobs shorter than this count as long as this in bounded slowdowns, as the literature has it."""


class Cluster:
    """The cluster at the time ``now``: what a policy sees.

    Lists of numbers by job are faster here than arrays, because a policy reads them one by one.
    """

    def __init__(self, log: JobLog, size: int) -> None:
        self.now = 0.0
        self.size = size
        self.free = size
        """Processors that run no job."""
        self.queue: list[int] = []
        """The jobs that wait, in order of submission."""
        self.running: list[tuple[float, int]] = []
        """The jobs that run: when they end by their estimates, and their numbers; sorted."""
        self.submit: list[float] = log.submit.tolist()
        self.estimate: list[float] = log.estimate.tolist()
        self.processors: list[int] = log.processors.tolist()
        self.user: list[int] = log.user.tolist()


class QueuePolicy(Protocol):
    """Decides which jobs start. Everything else is done by the replay.

    A policy must not know how long jobs run, only their estimates.
    """

    def start(self, cluster: Cluster) -> Iterable[int]:
        """Return the jobs of ``cluster.queue`` to start now, which must fit together.

        Called after all submissions and ends of a moment.
        """
        ...

    def ended(self, cluster: Cluster, job: int, started: float) -> None:
        """Note that *job*, which ran since *started*, has just ended."""
        ...


@dataclass(frozen=True, eq=False)
class Replay:
    """The start of each job of *log* on *size* processors under a policy."""

    log: JobLog
    policy: str
    size: int
    start: Floats
    ended: Floats | None = None
    """When each job ended, if it ran on other processors than it asked for."""
    used: float | None = None
    """Processor seconds of all jobs in that case."""

    @cached_property
    def wait(self) -> Floats:
        waits: Floats = self.start - self.log.submit
        return waits

    @property
    def end(self) -> Floats:
        ends: Floats = self.start + self.log.run if self.ended is None else self.ended
        return ends

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What users and owners of the cluster see; times in seconds."""
        log, wait = self.log, self.wait
        span = float(self.end.max() - log.submit.min())
        response = wait + (log.run if self.ended is None else self.ended - self.start)
        used = float(log.run @ log.processors) if self.used is None else self.used
        bounded = np.maximum(response / np.maximum(log.run, SHORT_SECONDS), 1.0)
        return {
            "makespan": span,
            "utilisation": used / (self.size * span),
            "wait_mean": float(wait.mean()),
            "wait_median": float(np.median(wait)),
            "wait_p95": float(np.quantile(wait, 0.95)),
            "wait_max": float(wait.max()),
            "slowdown_mean": float((response / log.run).mean()),
            "bounded_slowdown_mean": float(bounded.mean()),
            "bounded_slowdown_p95": float(np.quantile(bounded, 0.95)),
        }

    def facts(self) -> dict[str, Any]:
        """Return the replay as JSON values."""
        return {
            "log": self.log.name,
            "policy": self.policy,
            "processors": self.size,
            "jobs": len(self.log),
            "skipped": self.log.skipped,
            "metrics": self.metrics,
        }


def write_jobs(result: Replay, path: Path) -> None:
    """Write a table of the jobs of *result*, in order of submission."""
    columns = {
        "submit": result.log.submit,
        "start": result.start,
        "end": result.end,
        "processors": result.log.processors,
        "user": result.log.user,
    }
    lines = [",".join(columns)]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += [",".join(f"{value:.17g}" for value in row) for row in rows]
    write_text(path, (f"{line}\n" for line in lines))


def cluster_size(log: JobLog, size: int = 0) -> int:
    """Return the processors to replay *log* on: *size*, or those of the log.

    Raise InputError if neither is known, or a job needs more.
    """
    size = size or log.size
    if size < 1:
        raise InputError(f"{log.name} has no header MaxProcs", hint="--on identical:128")
    widest = int(log.processors.argmax())
    if log.processors[widest] > size:
        raise InputError(
            f"a job needs {log.processors[widest]} processors; the cluster has {size}",
            hint=f"--on identical:{log.processors[widest]}",
        )
    return size


def replay(log: JobLog, policy: QueuePolicy, name: str, size: int = 0) -> Replay:
    """Return the replay of *log* under *policy* on *size* processors, by default those of the log.

    Raise InputError if no size is known, a job needs more, or the policy starts what does not fit.
    """
    size = cluster_size(log, size)
    cluster = Cluster(log, size)
    run: list[float] = log.run.tolist()
    submit, count, arrived = cluster.submit, len(log), 0
    start = [0.0] * count
    ends: list[tuple[float, int]] = []
    while arrived < count or ends:
        cluster.now = now = min(
            ends[0][0] if ends else np.inf, submit[arrived] if arrived < count else np.inf
        )
        while ends and ends[0][0] <= now:
            job = heappop(ends)[1]
            cluster.free += cluster.processors[job]
            expected = (start[job] + cluster.estimate[job], job)
            del cluster.running[bisect_left(cluster.running, expected)]
            policy.ended(cluster, job, start[job])
        while arrived < count and submit[arrived] <= now:
            cluster.queue.append(arrived)
            arrived += 1
        for job in list(policy.start(cluster)):
            if cluster.processors[job] > cluster.free:
                raise InputError(f"{name} started a job that does not fit, at {now:g} s")
            cluster.queue.remove(job)
            cluster.free -= cluster.processors[job]
            start[job] = now
            insort(cluster.running, (now + cluster.estimate[job], job))
            heappush(ends, (now + run[job], job))
        if not ends and arrived == count and cluster.queue:
            raise InputError(f"{name} never started {len(cluster.queue):,} jobs")
    return Replay(log, name, size, np.array(start))
