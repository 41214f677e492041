"""Queue policies of batch systems: in which order jobs start, and which may overtake others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster.replay import Cluster
from zenturio.settings.schema import NoSettings, setting


def backfilled(cluster: Cluster, order: Sequence[int]) -> list[int]:
    """Return the jobs to start when those of *order* may overtake the first that does not fit.

    They must not delay it: they end before it can start, by their estimates, or leave it enough
    processors.
    """
    started, free, position = [], cluster.free, 0
    while position < len(order) and cluster.processors[order[position]] <= free:
        started.append(order[position])
        free -= cluster.processors[order[position]]
        position += 1
    if position + 1 >= len(order) or not free:
        return started
    now, head = cluster.now, order[position]
    begin, extra = _reservation(cluster, started, free, cluster.processors[head])
    for job in order[position + 1 :]:
        needed = cluster.processors[job]
        if needed > free:
            continue
        is_short = now + cluster.estimate[job] <= begin
        if is_short or needed <= extra:
            started.append(job)
            free -= needed
            extra -= 0 if is_short else needed
            if not free:
                break
    return started


def _reservation(
    cluster: Cluster, started: Sequence[int], free: int, needed: int
) -> tuple[float, int]:
    """Return when *needed* processors will be free, and how many are left over then."""
    ends = [(end, cluster.processors[job]) for end, job in cluster.running]
    ends += [(cluster.now + cluster.estimate[job], cluster.processors[job]) for job in started]
    ends.sort()
    for position, (end, processors) in enumerate(ends):
        free += processors
        # All that end at this moment are free at it.
        is_last = position + 1 == len(ends) or ends[position + 1][0] > end
        if free >= needed and is_last:
            return end, free - needed
    return float("inf"), 0


class _Queue:
    """What all policies share."""

    kind: ClassVar[Kind] = "cluster"
    Settings: ClassVar[type[Any]] = NoSettings

    def __init__(self, settings: Any = None, seed: int = 0) -> None:
        pass

    def ended(self, cluster: Cluster, job: int, started: float) -> None:
        """Note nothing."""


class Fifo(_Queue):
    """Start jobs in the order of submission, and nothing before the first that waits (FIFO).

    Easy to understand, and the baseline. Not good for jobs of different widths: processors idle in
    front of each wide job. Cost: one step for each job. Folklore.
    """

    def start(self, cluster: Cluster) -> Iterable[int]:
        started, free = [], cluster.free
        for job in cluster.queue:
            if cluster.processors[job] > free:
                break
            started.append(job)
            free -= cluster.processors[job]
        return started


class Easy(_Queue):
    """As FIFO, but jobs that do not delay the first that waits may overtake it (EASY).

    The usual choice: high utilisation, and no starvation. Jobs behind the first may be delayed
    without a limit; use conservative if users are promised a start. Cost: jobs x waiting jobs. D.
    Lifka: The ANL/IBM SP scheduling system. JSSPP 1995, LNCS 949.
    """

    def start(self, cluster: Cluster) -> Iterable[int]:
        return backfilled(cluster, cluster.queue)


class Conservative(_Queue):
    """Start a job early only if it delays none that was submitted before it (conservative).

    Good for clusters that promise users a latest start of their jobs. At each event all waiting
    jobs are planned again by their estimates, in the order of submission. Mostly longer waits than
    easy. Cost: events x waiting jobs x running jobs. A. Mu'alem, D. Feitelson: Utilization,
    predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with
    backfilling. IEEE TPDS 12(6), 2001.
    """

    def start(self, cluster: Cluster) -> Iterable[int]:
        if not cluster.queue or not cluster.free:
            return []
        profile = _FreeProcessors(cluster)
        started = []
        for job in cluster.queue:
            begin = profile.reserve(cluster.processors[job], cluster.estimate[job])
            if begin <= cluster.now:
                started.append(job)
            # Nothing can start any more: later reservations are made anew at the next event.
            if profile.free_now == 0:
                break
        return started


class _FreeProcessors:
    """How many processors are free over time, by estimates: a step function."""

    def __init__(self, cluster: Cluster) -> None:
        self._times = [cluster.now]
        self._free = [cluster.free]
        # All that run end after now, because no job runs longer than its estimate.
        for end, job in cluster.running:
            freed = cluster.processors[job]
            if end == self._times[-1]:
                self._free[-1] += freed
            else:
                self._times.append(end)
                self._free.append(self._free[-1] + freed)

    @property
    def free_now(self) -> int:
        return self._free[0]

    def reserve(self, processors: int, seconds: float) -> float:
        """Take *processors* for *seconds* at the first time at which they are free."""
        first = self._first_fit(processors, seconds)
        begin = self._times[first]
        last = self._split(begin + seconds)
        for step in range(first, last):
            self._free[step] -= processors
        return begin

    def _first_fit(self, processors: int, seconds: float) -> int:
        first, step = 0, 0
        while step < len(self._times) and self._times[step] < self._times[first] + seconds:
            if self._free[step] < processors:
                first = step + 1
            step += 1
        return first

    def _split(self, time: float) -> int:
        """Return the step that begins at *time*, which is added if there is none."""
        step = bisect_right(self._times, time) - 1
        if self._times[step] == time:
            return step
        self._times.insert(step + 1, time)
        self._free.insert(step + 1, self._free[step])
        return step + 1


@dataclass(frozen=True)
class FairShareSettings:
    half_life: float = setting(
        604800.0, "seconds after which used processor time counts half", low=1
    )


class FairShare(_Queue):
    """Start the jobs of those users first who have used least; others may overtake as in EASY.

    The processor seconds of a user count less and less with time. Good for clusters that many users
    share. Not good where deadlines matter. Cost: jobs x waiting jobs, sorted. J. Kay, P. Lauder: A
    fair share scheduler. CACM 31(1), 1988.
    """

    Settings = FairShareSettings

    def __init__(self, settings: FairShareSettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self._half_life = (settings or FairShareSettings()).half_life
        self._used: dict[int, tuple[float, float]] = {}
        """Of each user, the decayed processor seconds, and when they were that many."""

    def start(self, cluster: Cluster) -> Iterable[int]:
        if not cluster.free:
            return []
        users = {cluster.user[job] for job in cluster.queue}
        usage = {user: self._usage(user, cluster.now) for user in users}
        for end, job in cluster.running:
            user = cluster.user[job]
            if user in usage:
                begun = end - cluster.estimate[job]
                usage[user] += cluster.processors[job] * (cluster.now - begun)
        return backfilled(cluster, sorted(cluster.queue, key=lambda job: usage[cluster.user[job]]))

    def ended(self, cluster: Cluster, job: int, started: float) -> None:
        seconds = cluster.processors[job] * (cluster.now - started)
        user = cluster.user[job]
        self._used[user] = self._usage(user, cluster.now) + seconds, cluster.now

    def _usage(self, user: int, now: float) -> float:
        used, since = self._used.get(user, (0.0, now))
        return float(used * 0.5 ** ((now - since) / self._half_life))


@dataclass(frozen=True)
class PrioritySettings:
    by: Literal["shortest", "longest", "narrowest", "widest", "smallest"] = setting(
        "shortest", "which jobs come first, by their estimates; smallest: processors x seconds"
    )


class Priority(_Queue):
    """Start jobs by their length or width; others may overtake as in EASY.

    Shortest first has the lowest mean wait. Not good where large jobs must not starve: they may
    wait for ever while others arrive. Cost: jobs x waiting jobs, sorted. Folklore.
    """

    Settings = PrioritySettings

    def __init__(self, settings: PrioritySettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self._by = (settings or PrioritySettings()).by

    def start(self, cluster: Cluster) -> Iterable[int]:
        if not cluster.free:
            return []
        return backfilled(cluster, sorted(cluster.queue, key=lambda job: self._rank(cluster, job)))

    def _rank(self, cluster: Cluster, job: int) -> float:
        seconds, width = cluster.estimate[job], cluster.processors[job]
        ranks = {
            "shortest": seconds, "longest": -seconds, "narrowest": float(width),
            "widest": -float(width), "smallest": seconds * width,
        }  # fmt: skip
        return ranks[self._by]
