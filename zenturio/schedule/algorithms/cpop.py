"""The critical path on one processor."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.evaluate import topological_orders
from zenturio.schedule.listing import (
    NONE,
    downward_ranks,
    list_schedule,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats
from zenturio.search.settings import NoSettings

TIE_TOLERANCE = 1e-9
"""By which part of them the lengths of equal ways may differ, added up in another order."""


class Cpop:
    """The critical path on the processor that is best for it, the others around it (CPOP).

    For workflows with one long path whose data are large: they never leave a processor. Not where
    many paths are about as long, nor where the tasks of the path are best on machines of several
    kinds: then HEFT is better, as it mostly is.
    Cost: that of HEFT.
    H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13(3), 2002.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Section 4.3: of the ready tasks, that on the longest way from a beginning to an end."""
        times, delays = mean_times(problem), mean_delays(problem)
        upward = upward_ranks(problem, times, delays)
        through = upward + downward_ranks(problem, times, delays)
        path = critical_path(problem, upward, delays)
        home = np.full(problem.tasks, NONE)
        if path:
            home[problem.group[path]] = _processor_of(problem, path)
            able = np.isfinite(problem.pace[problem.row, home[problem.group]])
            home[problem.group[~able]] = NONE  # what cannot run there goes where it ends first
        names = [problem.workflow.names[task] for task in path]
        notes = {"critical path": names}
        return list_schedule(
            problem, "cpop", topological_orders(problem, -through), home, notes=notes
        )


def critical_path(problem: Problem, upward: Floats, delays: Floats) -> list[int]:
    """The tasks on the longest way; *upward* has the longest from each task to an end."""
    if not problem.tasks:
        return []
    first = np.flatnonzero(np.diff(problem.before.start) == 0)
    found, after = [_highest(first, upward[first])], problem.after
    while True:
        edges = slice(after.start[found[-1]], after.start[found[-1] + 1])
        if edges.start == edges.stop:
            return found
        behind = after.task[edges]
        found.append(_highest(behind, delays[after.edge[edges]] + upward[behind]))


def _highest(tasks: NDArray[Any], lengths: Floats) -> int:
    """Of *tasks*, that with the greatest of *lengths*; the lowest of those that are as good."""
    return int(tasks[lengths >= lengths.max() * (1 - TIE_TOLERANCE)].min())


def _processor_of(problem: Problem, path: list[int]) -> int:
    """The processor that runs most of *path*; of several, in the least time."""
    times = problem.pace[problem.row[path]]
    fits = np.isfinite(times)
    total = (np.where(fits, times, 0.0) * problem.work[path][:, None]).sum(axis=0)
    return int(np.lexsort((total, -fits.sum(axis=0)))[0])
