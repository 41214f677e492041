"""A cluster that plays a queue of moldable tasks: from numbers of nodes to plans, or to figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.problem import MoldableProblem
from zenturio.schedule.model.workflow import Floats

Discipline = Literal["fifo", "easy", "conservative"]
Counts = NDArray[np.integer[Any]]
"""Numbers of nodes, one for each task; or rows of them."""

_DISCIPLINES = ("fifo", "easy", "conservative")


@dataclass(frozen=True, eq=False)
class QueueOutcomes:
    """What came of many rows of numbers of nodes: a figure of each."""

    total: Floats
    """Seconds of all tasks."""
    makespan: Floats
    cost: Floats
    """Node seconds of all tasks."""


@dataclass(frozen=True, eq=False)
class ClusterQueue:
    """The nodes of *problem* behind a queue.

    Tasks are submitted in *order*, breadth first if there is none, and held until all that they
    wait for has ended. Of those not held, in the order of submission, start:

    * ``fifo``: the first ones, until one does not fit. Nothing is filled in behind it.
    * ``easy``: also others that fit and do not delay the first that does not.
    * ``conservative``: each at the earliest time that delays none which was freed before it.
    """

    problem: MoldableProblem
    discipline: Discipline = "fifo"
    order: NDArray[np.integer[Any]] | None = None

    def plan(
        self, counts: Counts, algorithm: str = "", notes: Mapping[str, Any] | None = None
    ) -> MoldablePlan:
        """What happens when each task gets its number of nodes."""
        from zenturio.schedule.kernels.cluster_queue import assign_nodes, play_queue, queue_buffers  # noqa: PLC0415 - Numba

        problem = self.problem
        counts = np.ascontiguousarray(counts, np.int64)
        seconds = self._seconds(counts)
        start, end = np.empty(problem.tasks), np.empty(problem.tasks)
        play_queue(
            self.kind,
            problem.nodes,
            self.graph,
            counts,
            seconds,
            queue_buffers(problem.tasks),
            start,
            end,
        )
        first = np.append(0, np.cumsum(counts))
        node = np.empty(first[-1], np.int32)
        sequence = np.lexsort((self.graph.rank, start))
        assign_nodes(sequence, problem.nodes, counts, first, start, end, node)
        return MoldablePlan(problem, algorithm, start, end, first, node, dict(notes or {}))

    def outcomes(self, counts: Counts) -> QueueOutcomes:
        """What comes of each row of *counts*, all of which must be possible."""
        from zenturio.schedule.kernels.cluster_queue import play_queues  # noqa: PLC0415 - Numba

        problem = self.problem
        counts = np.ascontiguousarray(counts, np.int64)
        assert counts.min(initial=0) >= 0, "a number of nodes is below 0"
        assert counts.max(initial=0) < problem.seconds.shape[1], "a task was given too many nodes"
        found = np.empty((len(counts), 3))
        play_queues(
            self.kind, problem.nodes, self.graph, problem.seconds, problem.row, counts, found
        )
        assert np.isfinite(found).all(), "a task was given nodes on which it cannot run"
        return QueueOutcomes(*np.ascontiguousarray(found.T))

    @property
    def kind(self) -> int:
        """The discipline as the kernels want it."""
        return _DISCIPLINES.index(self.discipline)

    @cached_property
    def graph(self) -> Any:
        """The workflow as the kernels want it."""
        from zenturio.schedule.kernels.cluster_queue import QueueGraph  # noqa: PLC0415 - needs Numba

        problem = self.problem
        order = np.ascontiguousarray(problem.order if self.order is None else self.order, np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        after = problem.workflow.after
        waits = np.diff(problem.workflow.before.start)
        child, delay = after.task.astype(np.int64), problem.delay[after.edge]
        return QueueGraph(waits, after.start, child, delay, order, rank)

    def _seconds(self, counts: Counts) -> Floats:
        """Seconds of each task; refused where one cannot run on its number of nodes."""
        problem = self.problem
        if counts.shape != (problem.tasks,):
            raise InputError(f"{counts.size} numbers of nodes for {problem.tasks} tasks")
        for task, count in enumerate(counts.tolist()):
            if not np.isfinite(problem.time(task, count)):
                able = problem.possible[problem.row[task]]
                raise InputError(
                    f"task {problem.workflow.names[task]!r} cannot run on {count} nodes",
                    hint=f"from {able[0]} to {able[-1]}" if len(able) > 1 else f"on {able[0]}",
                )
        return problem.times(counts)
