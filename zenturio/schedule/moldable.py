"""Tasks that run on as many nodes of a cluster as one gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.platform import Platform, PlatformMachine
from zenturio.schedule.transfers import merge_transfers
from zenturio.schedule.workflow import Floats, Indices, Workflow, WorkflowTask


@dataclass(frozen=True, eq=False)
class MoldableProblem:
    """Task t takes ``seconds[row[t], n]`` on n nodes of a cluster: infinite, where it cannot.

    Any n nodes will do, for all are alike. Data along an edge take its ``delay``, whoever runs
    where: a task on many nodes gets them from all over the cluster.
    """

    workflow: Workflow
    platform: Platform
    row: Indices
    seconds: Floats
    delay: Floats

    @classmethod
    def of(cls, workflow: Workflow, platform: Platform) -> MoldableProblem:
        """*workflow* on *platform*, whose machines are the nodes; refused unless all are alike.

        A task without a curve is rigid: it takes its time on as many nodes as have its cores.
        """
        flow, node = merge_transfers(workflow), _node_type(platform)
        kinds: dict[tuple[object, ...], int] = {}
        row = np.empty(len(flow), np.int32)
        tables: list[Floats] = []
        for i, task in enumerate(flow.tasks):
            kind = (task.curve,) if task.curve else (task.work, task.cores, task.times)
            if kind not in kinds:
                kinds[kind] = len(tables)
                tables.append(_table(task, node, len(platform)))
            _check_fits(task, node, tables[kinds[kind]], len(platform))
            row[i] = kinds[kind]
        seconds = np.full((len(tables), max(map(len, tables), default=1)), np.inf)
        for table, into in zip(tables, seconds, strict=True):
            into[: len(table)] = table
        bandwidth = platform.bandwidth[0, 0]
        delay = np.where(flow.data > 0, platform.latency[0, 0] + flow.data / bandwidth, 0.0)
        return cls(flow, platform, row, seconds, delay)

    @property
    def tasks(self) -> int:
        return len(self.row)

    @property
    def nodes(self) -> int:
        return len(self.platform)

    @property
    def order(self) -> Indices:
        """The tasks breadth first: level by level from the top, those of a level as given."""
        return self.workflow.order

    def time(self, task: int, count: int) -> float:
        """Seconds of *task* on *count* nodes."""
        if not 0 <= count < self.seconds.shape[1]:
            return float("inf")
        return float(self.seconds[self.row[task], count])

    def times(self, counts: NDArray[np.integer[Any]]) -> Floats:
        """Seconds of each task on its number of nodes, in as many rows as *counts* has."""
        found: Floats = self.seconds[self.row, counts]
        return found

    @cached_property
    def possible(self) -> tuple[Indices, ...]:
        """For each row of ``seconds`` the numbers of nodes on which such tasks can run."""
        return tuple(np.flatnonzero(np.isfinite(row)).astype(np.int32) for row in self.seconds)

    @cached_property
    def lean(self) -> tuple[Indices, ...]:
        """Those of them on which the task is faster than on any fewer nodes."""
        found = []
        for row, counts in zip(self.seconds, self.possible, strict=True):
            best = np.minimum.accumulate(row[counts])
            found.append(counts[np.append(True, best[1:] < best[:-1])])
        return tuple(found)

    @cached_property
    def fewest(self) -> Indices:
        """The smallest number of nodes of each task: one, wherever that is possible."""
        first = np.array([counts[0] for counts in self.possible], np.int32)
        return first[self.row]

    @cached_property
    def fastest(self) -> Indices:
        """The number of nodes on which each task is fastest; of equal ones the smallest."""
        best = np.array([counts[-1] for counts in self.lean], np.int32)
        return best[self.row]

    @cached_property
    def alone(self) -> float:
        """Seconds of all tasks on one node, one after the other: t_max and c_min of Equation 3.

        Of a task that needs several nodes, its node seconds on the fewest.
        """
        return float((self.times(self.fewest) * self.fewest).sum())


def _node_type(platform: Platform) -> PlatformMachine:
    """The machine that all of *platform* are like."""
    first = platform.machines[0]
    for other in platform.machines[1:]:
        differs = [name for name in _COMPARED if getattr(first, name) != getattr(other, name)]
        if differs:
            raise InputError(
                f"{platform.name}: machines {first.name!r} and {other.name!r} differ in "
                f"{' and '.join(differs)}; a cluster for moldable tasks has identical nodes",
                hint="identical:64, or a platform file with machines that are alike",
            )
    return first


_COMPARED = ("speed", "cores", "memory", "site", "tags")


def _table(task: WorkflowTask, node: PlatformMachine, nodes: int) -> Floats:
    """Seconds of *task* on 0, 1, ... nodes."""
    if task.curve:
        return task.curve.table(min(nodes, task.curve.nodes[-1])) / node.speed
    count = -(-task.cores // node.cores)
    table = np.full(count + 1, np.inf)
    table[count] = task.times[0] if task.times else task.work / node.speed
    return table


def _check_fits(task: WorkflowTask, node: PlatformMachine, table: Floats, nodes: int) -> None:
    """Refuse a *task* that no such cluster can run."""
    if task.machine:
        raise InputError(
            f"task {task.name!r} is bound to the abstract machine {task.machine!r}; "
            "a moldable task takes any nodes of a cluster",
            hint="a static algorithm such as heft",
        )
    if len(set(task.times)) > 1 or (task.times and len(task.times) != nodes):
        raise InputError(f"task {task.name!r} has times for {len(task.times)} different machines")
    if task.memory > node.memory or (task.tag and task.tag not in node.tags):
        needs = f"the tag {task.tag!r}" if task.memory <= node.memory else f"{task.memory:g} bytes"
        raise InputError(f"no node can run task {task.name!r}", hint=f"it needs {needs}")
    if not np.isfinite(table[: nodes + 1]).any():
        least = task.curve.nodes[0] if task.curve else len(table) - 1
        raise InputError(
            f"task {task.name!r} needs at least {least} nodes; the cluster has {nodes}"
        )


def has_moldable_tasks(tasks: Iterable[WorkflowTask]) -> bool:
    """Whether any of *tasks* can be given more nodes or fewer."""
    return any(task.curve is not None for task in tasks)
