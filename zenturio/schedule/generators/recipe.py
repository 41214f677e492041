"""Workflows scaled up from a small one, as the recipes of WfCommons do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.formats.files import read_instance
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Floats, Indices, Workflow, merge_transfers
from zenturio.search.settings import setting

MAX_RECIPE_TASKS = 10_000_000


@dataclass(frozen=True)
class TraceRecipe:
    """A trace, or any workflow in a file, scaled to any number of tasks.

    Tasks are of one kind if they have the same program and the same position in the graph. A kind
    with one task keeps one; the others are copied together, and each copy is joined like the
    original. The work of a task is drawn from the times of its program. Cores and memory are
    dropped.
    """

    trace: str = setting("", "the file of the workflow that is scaled")
    tasks: int = setting(1000, "tasks", low=1, high=MAX_RECIPE_TASKS)
    noise: float = setting(0.05, "by which part work and data vary", low=0, high=0.9)

    def count(self) -> int:
        return self.tasks

    def instance(self, seed: int) -> Instance:
        if not self.trace:
            raise InputError("recipe needs a workflow to scale", hint="write trace=FILE")
        source = read_instance(self.trace)
        return Instance(scale(source.workflow, self.tasks, seed, self.noise), source.platform)


def scale(flow: Workflow, tasks: int, seed: int = 0, noise: float = 0.05) -> Workflow:
    """Return *flow* scaled to *tasks* tasks of the same shape, without cores and memory.

    Raise InputError if there are fewer tasks than kinds of tasks, or too many.
    """
    flow = merge_transfers(flow)
    kinds = _task_kinds(flow)
    if not kinds.count <= tasks <= MAX_RECIPE_TASKS:
        raise InputError(
            f"{flow.name} cannot be scaled to {tasks:,} tasks",
            hint=f"it has {kinds.count} kinds of tasks: from {kinds.count} to {MAX_RECIPE_TASKS:,}",
        )
    rng = np.random.default_rng(seed)
    copies = _copies(rng, kinds, len(flow), tasks)
    original, copy = np.nonzero(copies.T)[::-1]
    number = np.full(copies.shape, -1, np.int64)
    number[original, copy] = np.arange(tasks)
    sources, targets, edge = _copied_edges(flow, kinds, copies, number)
    program = flow.program if flow.program is not None else np.zeros(len(flow), np.int32)
    data = flow.data[edge] * rng.uniform(1 - noise, 1 + noise, len(edge))
    return Workflow(
        f"{flow.name}-{tasks}",
        tuple(_copy_names(flow, original, copy)),
        _drawn_work(rng, flow, program, original) * rng.uniform(1 - noise, 1 + noise, tasks),
        sources.astype(np.int32),
        targets.astype(np.int32),
        np.round(data),
        {},
        program[original],
        tuple(flow.programs) or ("",),
    )


@dataclass(frozen=True)
class _Kinds:
    of: Indices
    """The kind of each task."""
    count: int
    first: Indices
    """A task of each kind, which represents it."""
    many: NDArray[np.bool_]
    """Whether the kind is copied."""


def _task_kinds(flow: Workflow) -> _Kinds:
    """Return the kinds of tasks: same program, and same kinds of ancestors and descendants.

    If no two tasks match, the workflow is copied as a whole.
    """
    above, below = _signatures(flow, up=True), _signatures(flow, up=False)
    number: dict[tuple[int, int], int] = {}
    of = [number.setdefault(pair, len(number)) for pair in zip(above, below, strict=True)]
    kinds = np.array(of, np.int32)
    first = np.unique(kinds, return_index=True)[1].astype(np.int32)
    many = np.bincount(kinds, minlength=len(number)) > 1
    if not many.any():
        many[:] = True
    return _Kinds(kinds, len(number), first, many)


def _signatures(flow: Workflow, *, up: bool) -> list[int]:
    """Return a number for each task, equal where program and neighbours' numbers are equal."""
    links = flow.before if up else flow.after
    number: dict[tuple[int, frozenset[int]], int] = {}
    signatures = [0] * len(flow)
    programs = [0] * len(flow) if flow.program is None else flow.program.tolist()
    for task in flow.order.tolist() if up else flow.order[::-1].tolist():
        neighbours = frozenset(signatures[neighbour] for neighbour in links.of(task).tolist())
        signatures[task] = number.setdefault((programs[task], neighbours), len(number))
    return signatures


def _copies(rng: np.random.Generator, kinds: _Kinds, count: int, tasks: int) -> NDArray[np.bool_]:
    """Return which tasks each copy has: the first all kinds, the last perhaps only some tasks."""
    copied = np.flatnonzero(kinds.many[kinds.of])
    optional = np.setdiff1d(copied, kinds.first)
    missing = tasks - kinds.count
    full_copies, remaining = (
        (0, missing) if missing <= len(optional) else divmod(missing - len(optional), len(copied))
    )
    mask = np.zeros((count, 2 + full_copies), bool)
    mask[kinds.first, 0] = True
    if missing <= len(optional):
        mask[rng.choice(optional, remaining, replace=False), 0] = True
        return mask
    mask[optional, 0] = True
    mask[copied, 1 : 1 + full_copies] = True
    mask[rng.choice(copied, remaining, replace=False), 1 + full_copies] = True
    return mask


def _copied_edges(
    flow: Workflow,
    kinds: _Kinds,
    copies: NDArray[np.bool_],
    task_numbers: NDArray[np.int64],
) -> tuple[Indices, Indices, Indices]:
    """Copy each edge; an end that is missing in a copy is replaced by one of the first copy."""
    numbers = np.where(copies, task_numbers, -1)
    stand_in = np.where(copies[:, 0], task_numbers[:, 0], task_numbers[kinds.first[kinds.of], 0])
    numbers = np.where(numbers < 0, stand_in[:, None], numbers)
    sources, targets = numbers[flow.sources], numbers[flow.targets]
    present = copies[flow.sources] | copies[flow.targets]
    edge = np.broadcast_to(np.arange(len(flow.data))[:, None], present.shape)[present]
    # An edge is packed into one integer, so that duplicates are found by sorting.
    pairs = sources[present] * np.int64(MAX_RECIPE_TASKS + 1) + targets[present]
    pairs, first = np.unique(pairs, return_index=True)
    return (
        (pairs // (MAX_RECIPE_TASKS + 1)).astype(np.int32),
        (pairs % (MAX_RECIPE_TASKS + 1)).astype(np.int32),
        edge[first].astype(np.int32),
    )


def _drawn_work(
    rng: np.random.Generator, flow: Workflow, program: Indices, original: NDArray[Any]
) -> Floats:
    """Draw the work of each task from the quantiles of its program's times."""
    work = np.empty(len(original))
    programs = program[original]
    for number in np.unique(program).tolist():
        times = np.sort(flow.work[program == number])
        members = programs == number
        quantiles = rng.uniform(0, 1, int(members.sum()))
        work[members] = np.quantile(times, quantiles) if len(times) > 1 else times[0]
    return work


def _copy_names(flow: Workflow, original: NDArray[Any], copy: NDArray[Any]) -> list[str]:
    names = flow.names
    mark = "~"
    while any(mark in name for name in names):
        mark += "~"
    pairs = zip(original.tolist(), copy.tolist(), strict=True)
    return [f"{names[i]}{mark}{c}" if c else names[i] for i, c in pairs]
