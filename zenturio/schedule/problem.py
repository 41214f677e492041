"""A workflow and a platform as the numbers that algorithms and kernels work on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.platform import Platform
from zenturio.schedule.transfers import merge_transfers
from zenturio.schedule.workflow import Adjacency, Floats, Indices, Workflow, WorkflowTask

MAX_SECONDS = 1e300
"""Seconds beyond which sums of times would no longer be numbers."""


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
