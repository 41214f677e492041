"""What is left of a workflow on the machines as they are now, as a problem to be planned.

Tasks that run on hold their processors until they are expected to end, and what has ended is where
it is: both are in the problem as tasks that can only be there. A machine that is loaded takes as
much longer as its load says; one that has failed takes nothing, if another can.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from zenturio.schedule.grid import MachineState
from zenturio.schedule.problem import Problem
from zenturio.schedule.remainder import Remainder
from zenturio.schedule.workflow import Floats, Indices, Workflow

FAILED_SHARE = 1e-9
"""The share of its speed that a failed machine seems to give: it may come back some day."""


@dataclass(frozen=True)
class Snapshot:
    problem: Problem
    tasks: tuple[int, ...]
    """The task that each of the problem stands for: first those to be planned, then the others."""
    planned: int
    """How many are to be planned."""


def snapshot(grid: MachineState, rest: Remainder) -> Snapshot:
    """The tasks of *rest*, with what runs on or has ended and they wait for."""
    problem, flow = grid.problem, grid.problem.workflow
    inside = set(rest.tasks)
    runs = [r.task for r in grid.running if r and r.task not in rest.migrating]
    ends = zip(flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(), strict=True)
    edges = [
        (a, b, data)
        for edge, (a, b, data) in enumerate(ends)
        if edge in rest.edges or (b in inside and a not in inside)
    ]
    there = sorted({a for a, _, _ in edges}.union(runs) - inside)
    tasks = (*rest.tasks, *there)
    number = {task: i for i, task in enumerate(tasks)}
    work = problem.work[list(tasks)].copy()
    for task in there:
        work[number[task]] = grid.remaining(task) if grid.state[task] == "running" else 0.0
    row, pace = _pace_rows(grid, rest, tasks)
    names = [flow.names[task] for task in tasks]
    sources = np.array([number[a] for a, _, _ in edges], np.int32)
    targets = np.array([number[b] for _, b, _ in edges], np.int32)
    data = np.array([data for _, _, data in edges], np.float64)
    left = Workflow(flow.name, names, work, sources, targets, data)
    group = _group_numbers(problem.group[list(rest.tasks)].tolist(), len(there))
    found = Problem(
        left, problem.platform, work, row, pace, group,
        problem.node, problem.site, problem.latency, problem.slowness,
    )  # fmt: skip
    return Snapshot(found, tasks, len(rest.tasks))


def pinned_groups(grid: MachineState, rest: Remainder) -> dict[int, int]:
    """The processor of each group of tasks that cannot be moved.

    One of them runs there or has run there, and what it left there is needed.
    """
    group: list[int] = grid.problem.group.tolist()
    moved = {group[task] for task in rest.migrating}
    needed = {group[task] for task in rest.queued - rest.later} - moved
    return {
        group[task]: grid.where[task]
        for task, state in enumerate(grid.state)
        if state in {"running", "done"} and group[task] in needed
    }


def loaded_seconds(grid: MachineState, task: int, processor: int) -> float:
    """How long *task* would take on *processor*, if its load stayed as it is."""
    return grid.time(task, processor) / (grid.share[grid.node[processor]] or FAILED_SHARE)


def _pace_rows(
    grid: MachineState, rest: Remainder, tasks: tuple[int, ...]
) -> tuple[Indices, Floats]:
    """A row for each task, and the paces of each row."""
    problem = grid.problem
    shares = np.array(grid.share)[problem.node]
    slowed = problem.pace / np.maximum(shares, FAILED_SHARE)
    paces = [_without_failed(row, shares) for row in slowed]
    homes = pinned_groups(grid, rest)
    inside = set(rest.tasks)
    pinned: dict[tuple[int, int], int] = {}
    rows = np.empty(len(tasks), np.int32)
    for i, task in enumerate(tasks):
        base = int(problem.row[task]) if task in inside else -1
        home = homes.get(int(problem.group[task]), -1) if task in inside else grid.where[task]
        if home < 0:
            rows[i] = base
            continue
        if (base, home) not in pinned:
            pinned[base, home] = len(paces)
            row = np.full(problem.processors, inf)
            row[home] = slowed[base, home] if base >= 0 else 1 / max(shares[home], FAILED_SHARE)
            paces.append(row)
        rows[i] = pinned[base, home]
    return rows, np.array(paces)


def _without_failed(row: Floats, shares: Floats) -> Floats:
    """*row* without the machines that have failed, unless no other can run the task."""
    found = np.where(shares > 0, row, inf)
    return found if np.isfinite(found).any() else row


def _group_numbers(given: list[int], more: int) -> Indices:
    """The first task of each group, for each task; those that are not planned are alone."""
    first: dict[int, int] = {}
    found = [first.setdefault(group, i) for i, group in enumerate(given)]
    return np.array([*found, *range(len(found), len(found) + more)], np.int32)
