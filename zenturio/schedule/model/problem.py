"""A workflow and a platform as the numbers that algorithms and kernels work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.workflow import (
    Adjacency,
    Floats,
    Indices,
    Workflow,
    WorkflowTask,
    merge_transfers,
)

MAX_SECONDS = 1e300
"""Seconds beyond which sums of times would no longer be numbers."""


@dataclass(frozen=True)
class Instance:
    workflow: Workflow
    platform: Platform | None = None
    """None: any platform will do."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Task t takes ``work[t] * pace[row[t], p]`` seconds on processor p: infinite, where it cannot.

    A processor runs one task at a time. A machine is as many as it has cores; but where a task
    needs several cores, every machine is one. Data from a to b take
    ``latency[site[a], site[b]] + bytes * slowness[site[a], site[b]]`` seconds; none, if
    ``node[a] == node[b]``.
    """

    workflow: Workflow
    platform: Platform
    work: Floats
    row: Indices
    pace: Floats
    group: Indices
    """Tasks of one group run on one processor: those that share an abstract machine.

    None of them can run where another of them cannot."""
    node: Indices
    """The machine that each processor is of."""
    site: Indices
    latency: Floats
    slowness: Floats

    @classmethod
    def of(cls, workflow: Workflow, platform: Platform) -> Problem:
        flow = merge_transfers(workflow)
        whole = any(task.cores > 1 for task in flow.more.values())
        cores = [1 if whole else machine.cores for machine in platform.machines]
        node = np.repeat(np.arange(len(platform), dtype=np.int32), cores)
        kinds: dict[tuple[object, ...], int] = {(): 0}
        row = np.zeros(len(flow), np.int32)
        work = flow.work.copy()
        paces = [np.array([1 / machine.speed for machine in platform.machines])]
        for i, task in flow.more.items():
            if task.times:
                work[i] = 1.0
            kind = (task.tag, task.memory, task.cores, task.times)
            if kind not in kinds:
                kinds[kind] = len(paces)
                paces.append(_pace(task, platform))
            row[i] = kinds[kind]
        sites = {site: i for i, site in enumerate(platform.sites)}
        site = np.array([sites[machine.site] for machine in platform.machines], np.int32)
        group = _groups(flow)
        row, pace = _restricted_to_groups(flow, group, row, np.array(paces))
        found = cls(
            flow, platform, work, row, pace[:, node], group, node, site[node],
            platform.latency, 1 / platform.bandwidth,
        )  # fmt: skip
        _check_sums(found)
        return found

    def __repr__(self) -> str:
        return f"<Problem: {self.workflow} on {self.platform}>"

    @property
    def tasks(self) -> int:
        return len(self.work)

    @property
    def processors(self) -> int:
        return len(self.node)

    @property
    def before(self) -> Adjacency:
        return self.workflow.before

    @property
    def after(self) -> Adjacency:
        return self.workflow.after

    @property
    def order(self) -> Indices:
        return self.workflow.order

    @cached_property
    def grouped(self) -> bool:
        """Whether any task must run where another does."""
        return len(np.unique(self.group)) < self.tasks

    def time(self, task: int, processor: int) -> float:
        return float(self.work[task] * self.pace[self.row[task], processor])

    def transfer(self, data: float, a: int, b: int) -> float:
        if self.node[a] == self.node[b]:
            return 0.0
        here, there = self.site[a], self.site[b]
        return float(self.latency[here, there] + data * self.slowness[here, there])


def _check_sums(problem: Problem) -> None:
    """Refuse times that no number can hold when they are added up."""
    slowest = np.where(np.isfinite(problem.pace), problem.pace, 0.0).max(axis=1)
    with np.errstate(over="ignore"):
        work = problem.work @ slowest[problem.row]
        data = problem.workflow.data.sum() * problem.slowness.max()
        total = work + data + problem.latency.max() * len(problem.workflow.data)
    if not total < MAX_SECONDS:
        part = "work" if not work < MAX_SECONDS else "transfers"
        raise InputError(
            f"the {part} of {problem.workflow.name} on {problem.platform.name} may take more than "
            f"{MAX_SECONDS:g} s"
        )


def _pace(task: WorkflowTask, platform: Platform) -> Floats:
    """Seconds for a unit of *task*'s work on each machine."""
    if task.times and len(task.times) != len(platform):
        raise InputError(
            f"task {task.name!r} has times for {len(task.times)} machines; "
            f"{platform.name} has {len(platform)}"
        )
    fits = [
        task.cores <= machine.cores
        and task.memory <= machine.memory
        and (not task.tag or task.tag in machine.tags)
        for machine in platform.machines
    ]
    times = task.times or [1 / machine.speed for machine in platform.machines]
    found = np.where(fits, times, np.inf)
    if not np.isfinite(found).any():
        raise InputError(
            f"no machine of {platform.name} can run task {task.name!r}", hint=_needs(task)
        )
    return found


def _needs(task: WorkflowTask) -> str:
    needs = [f"{task.cores} cores"] if task.cores > 1 else []
    needs += [f"{task.memory:g} bytes of memory"] if task.memory else []
    needs += [f"the tag {task.tag!r}"] if task.tag else []
    return "it needs " + (" and ".join(needs) or "a machine on which its time is finite")


def _groups(flow: Workflow) -> Indices:
    shared: dict[str, int] = {}
    group = np.arange(len(flow), dtype=np.int32)
    for i, task in flow.more.items():
        if task.machine:
            group[i] = shared.setdefault(task.machine, i)
    return group


def _restricted_to_groups(
    flow: Workflow, group: Indices, row: Indices, pace: Floats
) -> tuple[Indices, Floats]:
    """*row* and *pace*, infinite for all tasks of a group where one of them cannot run."""
    members: dict[int, list[int]] = {}
    for i, task in flow.more.items():
        if task.machine:
            members.setdefault(int(group[i]), []).append(i)
    kinds: dict[tuple[int, bytes], int] = {}
    paces = list(pace)
    for tasks in members.values():
        fits = np.isfinite(pace[row[tasks]]).all(axis=0)
        if not fits.any():
            names = ", ".join(flow.names[i] for i in tasks)
            raise InputError(f"no machine can run all of {names}, which share one")
        for i in tasks:
            if (np.isfinite(pace[row[i]]) != fits).any():
                kind = (int(row[i]), fits.tobytes())
                if kind not in kinds:
                    kinds[kind] = len(paces)
                    paces.append(np.where(fits, pace[row[i]], np.inf))
                row[i] = kinds[kind]
    return row, np.array(paces)


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
