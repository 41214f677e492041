"""Jobs that run on more or fewer processors than requested: moldable and malleable.

A moldable job has its number of processors chosen when it starts, a malleable one at any time. How
long they run follows Amdahl's law: a part of a job is serial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster.replay import JobLog, Replay, cluster_size
from zenturio.settings.schema import setting


@dataclass(frozen=True)
class FlexibleSettings:
    shrink: float = setting(
        0.5, "least processors of a job, as a fraction of those it asked for", low=0, high=1
    )
    grow: float = setting(
        2.0, "most processors of a job, as a multiple of those it asked for", low=1, high=1e6
    )
    serial: float = setting(0.05, "serial part of a job, on one processor", low=0, high=1)


class FlexibleCluster:
    """The cluster at the time ``now``: what a policy of flexible jobs sees."""

    def __init__(self, log: JobLog, size: int, settings: FlexibleSettings) -> None:
        self.now = 0.0
        self.size = size
        self.queue: list[int] = []
        """The jobs that wait, in order of submission."""
        self.running: dict[int, int] = {}
        """The processors of each job that runs, in the order of their starts."""
        asked = log.processors
        self.least: list[int] = (
            np.maximum(np.floor(asked * settings.shrink), 1).astype(int).tolist()
        )
        self.most: list[int] = (
            np.minimum(np.floor(asked * settings.grow), size).astype(int).tolist()
        )
        self._asked: list[int] = asked.tolist()
        self._serial = settings.serial

    @property
    def free(self) -> int:
        """Processors that run no job."""
        return self.size - sum(self.running.values())

    def pace(self, job: int, processors: int) -> float:
        """Return how much faster *job* is on so many processors than on those requested."""
        # Amdahl's law with one serial share for all jobs, relative to the processors asked for.
        parallel = 1 - self._serial
        asked = self._serial + parallel / self._asked[job]
        return asked / (self._serial + parallel / processors)


class FlexiblePolicy(Protocol):
    """Decides which jobs run, and on how many processors."""

    settings: FlexibleSettings

    def allot(self, cluster: FlexibleCluster) -> dict[int, int]:
        """Return the processors of each job that runs from now on.

        All jobs of ``cluster.running`` are in it; those of ``cluster.queue`` in it start. Called
        after all submissions and ends of a moment.
        """
        ...


def replay_flexible(log: JobLog, policy: FlexiblePolicy, name: str, size: int = 0) -> Replay:
    """Return the replay of *log* under *policy* on *size* processors, by default those of the log.

    Raise InputError if no size is known, a job asks for more, or the policy gives away what is not
    there. Cost: events x running jobs.
    """
    size = cluster_size(log, size)
    cluster = FlexibleCluster(log, size, policy.settings)
    submit: list[float] = log.submit.tolist()
    work_left: list[float] = log.run.tolist()
    count, arrived = len(log), 0
    start, ended = np.zeros(count), np.zeros(count)
    pace: dict[int, float] = {}
    used = 0.0
    while arrived < count or cluster.running:
        ends = {job: cluster.now + work_left[job] / pace[job] for job in cluster.running}
        now = min(ends.values(), default=np.inf)
        now = min(now, submit[arrived]) if arrived < count else now
        for job, processors in list(cluster.running.items()):
            used += processors * (now - cluster.now)
            # Seconds of work are those on the processors asked for; the pace says how fast they go.
            work_left[job] = max(work_left[job] - pace[job] * (now - cluster.now), 0.0)
            if ends[job] <= now:
                ended[job] = now
                del cluster.running[job], pace[job]
        cluster.now = now
        while arrived < count and submit[arrived] <= now:
            cluster.queue.append(arrived)
            arrived += 1
        running = policy.allot(cluster)
        _check(cluster, running, name)
        started = running.keys() - cluster.running.keys()
        start[list(started)] = now
        cluster.queue = [job for job in cluster.queue if job not in started]
        cluster.running = running
        pace = {job: cluster.pace(job, processors) for job, processors in running.items()}
        if not running and arrived == count and cluster.queue:
            raise InputError(f"{name} never started {len(cluster.queue):,} jobs")
    return Replay(log, name, size, start, ended, used)


def _check(cluster: FlexibleCluster, running: dict[int, int], name: str) -> None:
    fits = all(cluster.least[job] <= n <= cluster.most[job] for job, n in running.items())
    if sum(running.values()) > cluster.size or not fits:
        raise InputError(f"{name} gives jobs processors that do not fit, at {cluster.now:g} s")
    if not cluster.running.keys() <= running.keys() <= cluster.running.keys() | {*cluster.queue}:
        raise InputError(f"{name} takes all processors of a job away, at {cluster.now:g} s")


class _Flexible:
    """Kind and settings of both policies."""

    kind: ClassVar[Kind] = "cluster"
    Settings: ClassVar[type[Any]] = FlexibleSettings

    def __init__(self, settings: FlexibleSettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self.settings = settings or FlexibleSettings()


class MoldableJobs(_Flexible):
    """Start each job on its share of what is free, and never change it (moldable jobs).

    Jobs start in the order of submission; those that wait share the free processors evenly, within
    the bounds of each job. Good for programs that take their number of processors when they start.
    Not good for jobs that need exactly what they ask for: use easy. Cost: events x running jobs. W.
    Cirne, F. Berman: Using moldability to improve the performance of supercomputer jobs. JPDC
    62(10), 2002, in a simpler form.
    """

    def allot(self, cluster: FlexibleCluster) -> dict[int, int]:
        running, free = dict(cluster.running), cluster.free
        waiting = len(cluster.queue)
        for job in cluster.queue:
            if cluster.least[job] > free:
                break
            share = max(free // waiting, cluster.least[job])
            running[job] = min(share, cluster.most[job])
            free -= running[job]
            waiting -= 1
        return running


class MalleableJobs(_Flexible):
    """Share all processors evenly among the jobs, whenever one comes or goes (malleable jobs).

    Running jobs shrink so that those that wait can start, in the order of submission, and grow when
    others end (equipartition). Good for programs that can change their number of processors at any
    time, for changes cost nothing here. For other programs use moldable-jobs. Cost: events x
    running jobs. C. McCann, R. Vaswani, J. Zahorjan: A dynamic processor allocation policy for
    multiprogrammed shared-memory multiprocessors. ACM TOCS 11(2), 1993.
    """

    def allot(self, cluster: FlexibleCluster) -> dict[int, int]:
        running = {job: cluster.least[job] for job in cluster.running}
        free = cluster.size - sum(running.values())
        for job in cluster.queue:
            if cluster.least[job] > free:
                break
            running[job] = cluster.least[job]
            free -= running[job]
        return _even_shares(cluster, list(running))


def _even_shares(cluster: FlexibleCluster, jobs: list[int]) -> dict[int, int]:
    """Return equal numbers of processors for *jobs*, as far as each may have them."""

    def shares(level: int) -> dict[int, int]:
        return {job: min(max(level, cluster.least[job]), cluster.most[job]) for job in jobs}

    low, high = 0, cluster.size
    while low < high:  # the highest level for which there are processors
        middle = (low + high + 1) // 2
        if sum(shares(middle).values()) <= cluster.size:
            low = middle
        else:
            high = middle - 1
    allotted, higher = shares(low), shares(low + 1)
    free = cluster.size - sum(allotted.values())
    for job in [job for job in jobs if higher[job] > allotted[job]][:free]:
        allotted[job] += 1
    return allotted
