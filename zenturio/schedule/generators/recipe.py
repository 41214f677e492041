"""A workflow as large as one likes, made of a small one: as the recipes of WfCommons do."""

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

    Tasks of one program that stand alike in the graph are of one kind. Kinds of one task stay
    single; the others are copied together, each copy joined as the original is. The work of a
    task is drawn from what the tasks of its program took. Needs of cores and memory stay behind.
    """

    trace: str = setting("", "the file of the workflow that is scaled")
    tasks: int = setting(1000, "tasks", low=1, high=MAX_RECIPE_TASKS)
    noise: float = setting(0.05, "by which part work and data vary", low=0, high=0.9)

    def count(self) -> int:
        return self.tasks

    def instance(self, seed: int) -> Instance:
        if not self.trace:
            raise InputError("recipe needs a workflow to scale", hint="write trace=FILE")
        found = read_instance(self.trace)
        return Instance(scale(found.workflow, self.tasks, seed, self.noise), found.platform)


def scale(flow: Workflow, tasks: int, seed: int = 0, noise: float = 0.05) -> Workflow:
    """*flow* with *tasks* tasks, of the same shape; needs of cores and memory stay behind."""
    flow = merge_transfers(flow)
    kinds = _task_kinds(flow)
    if not kinds.count <= tasks <= MAX_RECIPE_TASKS:
        raise InputError(
            f"{flow.name} cannot be scaled to {tasks:,} tasks",
            hint=f"it has {kinds.count} kinds of tasks: from {kinds.count} to {MAX_RECIPE_TASKS:,}",
        )
    chance = np.random.default_rng(seed)
    kept = _copies(chance, kinds, len(flow), tasks)
    original, copy = np.nonzero(kept.T)[::-1]
    number = np.full(kept.shape, -1, np.int64)
    number[original, copy] = np.arange(tasks)
    sources, targets, edge = _copied_edges(flow, kinds, kept, number)
    program = flow.program if flow.program is not None else np.zeros(len(flow), np.int32)
    data = flow.data[edge] * chance.uniform(1 - noise, 1 + noise, len(edge))
    return Workflow(
        f"{flow.name}-{tasks}",
        tuple(_copy_names(flow, original, copy)),
        _drawn_work(chance, flow, program, original) * chance.uniform(1 - noise, 1 + noise, tasks),
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
    """A task of each kind, for all of it."""
    many: NDArray[np.bool_]
    """Whether a kind is copied."""


def _task_kinds(flow: Workflow) -> _Kinds:
    """Tasks are of a kind if their programs are, and the kinds of all above and below them.

    Where no two are alike, all count as many: then the workflow is copied as a whole.
    """
    above, below = _signatures(flow, up=True), _signatures(flow, up=False)
    number: dict[tuple[int, int], int] = {}
    of = [number.setdefault(pair, len(number)) for pair in zip(above, below, strict=True)]
    found = np.array(of, np.int32)
    first = np.unique(found, return_index=True)[1].astype(np.int32)
    many = np.bincount(found, minlength=len(number)) > 1
    if not many.any():
        many[:] = True
    return _Kinds(found, len(number), first, many)


def _signatures(flow: Workflow, *, up: bool) -> list[int]:
    """A number for each task: the same, where programs and the set of neighbours' numbers are."""
    links = flow.before if up else flow.after
    number: dict[tuple[int, frozenset[int]], int] = {}
    found = [0] * len(flow)
    programs = [0] * len(flow) if flow.program is None else flow.program.tolist()
    for task in flow.order.tolist() if up else flow.order[::-1].tolist():
        around = frozenset(found[other] for other in links.of(task).tolist())
        found[task] = number.setdefault((programs[task], around), len(number))
    return found


def _copies(
    chance: np.random.Generator, kinds: _Kinds, count: int, tasks: int
) -> NDArray[np.bool_]:
    """Which tasks are in which copy: in the first one of each kind; the last is not whole."""
    several = np.flatnonzero(kinds.many[kinds.of])
    free = np.setdiff1d(several, kinds.first)
    left = tasks - kinds.count
    whole, rest = (0, left) if left <= len(free) else divmod(left - len(free), len(several))
    kept = np.zeros((count, 2 + whole), bool)
    kept[kinds.first, 0] = True
    if left <= len(free):
        kept[chance.choice(free, rest, replace=False), 0] = True
        return kept
    kept[free, 0] = True
    kept[several, 1 : 1 + whole] = True
    kept[chance.choice(several, rest, replace=False), 1 + whole] = True
    return kept


def _copied_edges(
    flow: Workflow,
    kinds: _Kinds,
    kept: NDArray[np.bool_],
    number: NDArray[np.int64],
) -> tuple[Indices, Indices, Indices]:
    """Every edge in each copy; where an end is not in it, the one of its kind in the first."""
    near = np.where(kept, number, -1)
    stand_in = np.where(kept[:, 0], number[:, 0], number[kinds.first[kinds.of], 0])
    near = np.where(near < 0, stand_in[:, None], near)
    sources, targets = near[flow.sources], near[flow.targets]
    present = kept[flow.sources] | kept[flow.targets]
    edge = np.broadcast_to(np.arange(len(flow.data))[:, None], present.shape)[present]
    pairs = sources[present] * np.int64(MAX_RECIPE_TASKS + 1) + targets[present]
    pairs, first = np.unique(pairs, return_index=True)
    return (
        (pairs // (MAX_RECIPE_TASKS + 1)).astype(np.int32),
        (pairs % (MAX_RECIPE_TASKS + 1)).astype(np.int32),
        edge[first].astype(np.int32),
    )


def _drawn_work(
    chance: np.random.Generator, flow: Workflow, program: Indices, original: NDArray[Any]
) -> Floats:
    """For each task one of the times that tasks of its program took, or one between two."""
    found = np.empty(len(original))
    of = program[original]
    for each in np.unique(program).tolist():
        times = np.sort(flow.work[program == each])
        mine = of == each
        at = chance.uniform(0, 1, int(mine.sum()))
        found[mine] = np.quantile(times, at) if len(times) > 1 else times[0]
    return found


def _copy_names(flow: Workflow, original: NDArray[Any], copy: NDArray[Any]) -> list[str]:
    names = flow.names
    mark = "~"
    while any(mark in name for name in names):
        mark += "~"
    pairs = zip(original.tolist(), copy.tolist(), strict=True)
    return [f"{names[i]}{mark}{c}" if c else names[i] for i, c in pairs]
