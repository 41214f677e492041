"""Scheduling problems: a workflow and a platform as the arrays that algorithms and kernels use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.shared_resources import Resources, resources_of
from zenturio.schedule.model.workflow import (
    Adjacency,
    Floats,
    Indices,
    Workflow,
    WorkflowTask,
    merge_transfers,
)

MAX_SECONDS = 1e300
"""Upper limit of a sum of times, in seconds, so that no sum overflows to infinity."""


@dataclass(frozen=True)
class Instance:
    workflow: Workflow
    platform: Platform | None = None
    """None: any platform will do."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A workflow on a platform, as arrays.

    Task t takes ``work[t] * pace[row[t], p]`` seconds on processor p; infinite if it cannot run
    there. Each core of a machine is a processor, which runs one task at a time. With
    ``resources``, each machine is a single processor, which runs as many tasks at a time as have
    room there. Transferring data from a to b
    takes ``latency[site[a], site[b]] + bytes * slowness[site[a], site[b]]`` seconds, or none if
    ``node[a] == node[b]``.
    """

    workflow: Workflow
    platform: Platform
    work: Floats
    row: Indices
    pace: Floats
    group: Indices
    """The first task of each task's group.

    A group runs on one processor: its tasks share an abstract machine.

    A task is barred from each processor on which another task of its group cannot run."""
    node: Indices
    """The machine of each processor."""
    site: Indices
    latency: Floats
    slowness: Floats
    resources: Resources | None = None
    """What tasks share on machines; None if each core runs its own tasks."""

    @classmethod
    def of(cls, workflow: Workflow, platform: Platform) -> Problem:
        """Return the problem of running *workflow* on *platform*.

        Raise InputError if a task fits no machine, has the wrong number of times, or sums would
        overflow.
        """
        flow = merge_transfers(workflow)
        resources = resources_of(flow, platform)
        cores = [1 if resources else machine.cores for machine in platform.machines]
        node = np.repeat(np.arange(len(platform), dtype=np.int32), cores)
        kinds: dict[tuple[object, ...], int] = {(): 0}
        row = np.zeros(len(flow), np.int32)
        work = flow.work.copy()
        paces = [np.array([1 / machine.speed for machine in platform.machines])]
        for i, task in flow.more.items():
            if task.times:
                work[i] = 1.0
            kind = (task.tag, task.memory, task.cores, task.accelerators, task.times)
            if kind not in kinds:
                kinds[kind] = len(paces)
                paces.append(_pace(task, platform))
            row[i] = kinds[kind]
        site, latency, bandwidth = _links(platform)
        group = _groups(flow)
        # Tasks with equal requirements share a row of *pace*, so that the table stays small.
        row, pace = _restricted_to_groups(flow, group, row, np.array(paces))
        problem = cls(
            flow, platform, work, row, pace[:, node], group, node, site[node],
            latency, 1 / bandwidth, resources,
        )  # fmt: skip
        _check_sums(problem)
        return problem

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
        """Whether any two tasks must run on the same processor."""
        return len(np.unique(self.group)) < self.tasks

    @property
    def staged(self) -> bool:
        """Whether a task holds its resources while its inputs arrive."""
        return self.resources is not None and not self.resources.overlap

    def time(self, task: int, processor: int) -> float:
        """Return the seconds of *task* on *processor*."""
        return float(self.work[task] * self.pace[self.row[task], processor])

    def transfer(self, data: float, a: int, b: int) -> float:
        """Return the seconds that *data* bytes take from processor *a* to processor *b*."""
        if self.node[a] == self.node[b]:
            return 0.0
        source_site, target_site = self.site[a], self.site[b]
        return float(
            self.latency[source_site, target_site] + data * self.slowness[source_site, target_site]
        )


def _links(platform: Platform) -> tuple[Indices, Floats, Floats]:
    """Return the site of each machine, and latency and bandwidth between sites.

    Machines of a site whose own networks differ count as several sites.
    """
    kinds = dict.fromkeys((machine.site, machine.network) for machine in platform.machines)
    number = {kind: i for i, kind in enumerate(kinds)}
    site = np.array([number[m.site, m.network] for m in platform.machines], np.int32)
    of_kind = [platform.sites.index(name) for name, _ in kinds]
    network = np.array([network for _, network in kinds])
    pairs = np.ix_(of_kind, of_kind)
    bandwidth = np.minimum(platform.bandwidth, platform.capacity)[pairs]
    bandwidth = np.minimum(bandwidth, np.minimum.outer(network, network))
    return site, platform.latency[pairs], bandwidth


def _check_sums(problem: Problem) -> None:
    """Raise InputError if the sum of all times may exceed MAX_SECONDS."""
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
    """Return the seconds per unit of work of *task* on each machine; infinite if it cannot run."""
    if task.times and len(task.times) != len(platform):
        raise InputError(
            f"task {task.name!r} has times for {len(task.times)} machines; "
            f"{platform.name} has {len(platform)}"
        )
    fits = [
        task.cores <= machine.cores
        and task.memory <= machine.memory
        and task.accelerators <= machine.accelerators
        and (not task.tag or task.tag in machine.tags)
        for machine in platform.machines
    ]
    times = task.times or [1 / machine.speed for machine in platform.machines]
    pace = np.where(fits, times, np.inf)
    if not np.isfinite(pace).any():
        raise InputError(
            f"no machine of {platform.name} can run task {task.name!r}", hint=_needs(task)
        )
    return pace


def _needs(task: WorkflowTask) -> str:
    needs = [f"{task.cores} cores"] if task.cores > 1 else []
    needs += [f"{task.memory:g} bytes of memory"] if task.memory else []
    needs += [f"{task.accelerators} accelerators"] if task.accelerators else []
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
    """Return *row* and *pace*, with infinite pace where another task of the group cannot run."""
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
    """A workflow of moldable tasks on a cluster of identical nodes.

    Task t takes ``seconds[row[t], n]`` on n nodes; infinite if it cannot run on n. Any n nodes will
    do. Data along an edge take its ``delay`` wherever the tasks run, because a task on many nodes
    receives data from all over the cluster.
    """

    workflow: Workflow
    platform: Platform
    row: Indices
    seconds: Floats
    delay: Floats

    @classmethod
    def of(cls, workflow: Workflow, platform: Platform) -> MoldableProblem:
        """Return the problem of *workflow* on *platform*, whose machines must be identical.

        Raise InputError if they are not, or if no cluster like this can run a task. A task without
        a scaling curve is rigid: it takes its time on as many nodes as its cores need.
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
        """The tasks in breadth-first order: level by level, those of a level in input order."""
        return self.workflow.order

    def time(self, task: int, count: int) -> float:
        """Return the seconds of *task* on *count* nodes; infinite if it cannot run on them."""
        if not 0 <= count < self.seconds.shape[1]:
            return float("inf")
        return float(self.seconds[self.row[task], count])

    def times(self, counts: NDArray[np.integer[Any]]) -> Floats:
        """Return the seconds of each task on its number of nodes, for each row of *counts*."""
        seconds: Floats = self.seconds[self.row, counts]
        return seconds

    @cached_property
    def possible(self) -> tuple[Indices, ...]:
        """For each row of ``seconds``, the numbers of nodes on which its tasks can run."""
        return tuple(np.flatnonzero(np.isfinite(row)).astype(np.int32) for row in self.seconds)

    @cached_property
    def lean(self) -> tuple[Indices, ...]:
        """The numbers of nodes on which the task is faster than on any smaller number."""
        lean = []
        for row, counts in zip(self.seconds, self.possible, strict=True):
            best = np.minimum.accumulate(row[counts])
            lean.append(counts[np.append(True, best[1:] < best[:-1])])
        return tuple(lean)

    @cached_property
    def fewest(self) -> Indices:
        """The smallest possible number of nodes of each task."""
        first = np.array([counts[0] for counts in self.possible], np.int32)
        return first[self.row]

    @cached_property
    def fastest(self) -> Indices:
        """The number of nodes on which each task is fastest; the smallest one on ties."""
        best = np.array([counts[-1] for counts in self.lean], np.int32)
        return best[self.row]

    @cached_property
    def alone(self) -> float:
        """Seconds of all tasks on one node, one after the other: t_max and c_min of Equation 3.

        A task that needs several nodes counts with its node seconds on the fewest.
        """
        return float((self.times(self.fewest) * self.fewest).sum())


def _node_type(platform: Platform) -> PlatformMachine:
    """Return the machine that all machines of *platform* equal; InputError if they differ."""
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
    """Return the seconds of *task* on 0, 1, ... nodes."""
    if task.curve:
        return task.curve.table(min(nodes, task.curve.nodes[-1])) / node.speed
    count = -(-task.cores // node.cores)
    table = np.full(count + 1, np.inf)
    table[count] = task.times[0] if task.times else task.work / node.speed
    return table


def _check_fits(task: WorkflowTask, node: PlatformMachine, table: Floats, nodes: int) -> None:
    """Raise InputError if no such cluster can run *task*."""
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
    """Return whether any of *tasks* has a scaling curve."""
    return any(task.curve is not None for task in tasks)
