"""A workflow: tasks and what each needs of others, kept as columns so that a million are cheap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.model.platform import ScalingCurve

Kind = Literal["job", "transfer"]
Floats = NDArray[np.float64]
Indices = NDArray[np.int32]

_MAX_SCALAR = 8
"""Tasks of a level up to which they are handled one by one."""


@dataclass(frozen=True, slots=True)
class WorkflowTask:
    """One task, as a person writes it."""

    name: str
    work: float = 0.0
    """Seconds on a machine of speed 1; of a transfer: bytes."""
    kind: Kind = "job"
    machine: str = ""
    """The abstract machine it runs on: tasks that share one run on the same machine.

    Empty: one of its own. Of a transfer: where it comes from."""
    target: str = ""
    """Of a transfer: the abstract machine it goes to."""
    program: str = ""
    """What it runs: tasks of one program look alike in pictures and predictions."""
    tag: str = ""
    """What a machine must be tagged with to run it."""
    cores: int = 1
    memory: float = 0.0
    times: tuple[float, ...] = ()
    """Seconds on each machine of the platform, in its order, instead of ``work / speed``."""
    curve: ScalingCurve | None = None
    """Seconds by number of nodes, if it is moldable."""


@dataclass(frozen=True)
class Adjacency:
    """For each task the tasks on one side of it: those of task t are at ``start[t]:start[t+1]``."""

    start: NDArray[np.int64]
    task: Indices
    edge: Indices

    def of(self, task: int) -> Indices:
        return self.task[self.start[task] : self.start[task + 1]]


@dataclass(frozen=True, eq=False)
class Workflow:
    """Tasks in the order they were given, and edges from one that must end to one that waits."""

    name: str
    names: Sequence[str]
    work: Floats
    sources: Indices
    targets: Indices
    data: Floats
    """Bytes along each edge."""
    more: Mapping[int, WorkflowTask] = field(default_factory=dict)
    """Tasks of which more is known than their work and program."""
    program: Indices | None = None
    programs: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What else the file it comes from said: a measured makespan, an author."""

    def __post_init__(self) -> None:
        for column in (self.work, self.sources, self.targets, self.data):
            column.flags.writeable = False

    @classmethod
    def of(
        cls,
        name: str,
        tasks: Iterable[WorkflowTask],
        edges: Iterable[tuple[str, str] | tuple[str, str, float]] = (),
        **notes: Any,
    ) -> Workflow:
        """The workflow of *tasks*, joined by *edges*: from, to, and the bytes between them."""
        tasks = list(tasks)
        number = {task.name: i for i, task in enumerate(tasks)}
        if len(number) < len(tasks):
            raise InputError(f"workflow {name!r}: two tasks are named {_first_duplicate(tasks)!r}")
        given = list(edges)
        ends = [(_task_number(number, a), _task_number(number, b)) for a, b, *_ in given]
        programs = {each: i for i, each in enumerate(dict.fromkeys(t.program for t in tasks))}
        columns = (
            np.array([a for a, _ in ends], np.int32),
            np.array([b for _, b in ends], np.int32),
            np.array([edge[2] if len(edge) > 2 else 0.0 for edge in given], np.float64),
        )
        flow = cls(
            name,
            tuple(number),
            np.array([task.work for task in tasks], np.float64),
            *merge_parallel_edges(*columns),
            {i: task for i, task in enumerate(tasks) if task != _plain(task)},
            np.array([programs[task.program] for task in tasks], np.int32),
            tuple(programs),
            notes,
        )
        flow.check()
        return flow

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: {len(self)} tasks, {len(self.data)} edges>"

    def task(self, number: int) -> WorkflowTask:
        if number in self.more:
            return self.more[number]
        program = "" if self.program is None else self.programs[self.program[number]]
        return WorkflowTask(self.names[number], float(self.work[number]), program=program)

    @property
    def tasks(self) -> Iterator[WorkflowTask]:
        return (self.task(i) for i in range(len(self)))

    @property
    def edges(self) -> Iterator[tuple[str, str, float]]:
        for a, b, data in zip(self.sources, self.targets, self.data, strict=True):
            yield self.names[a], self.names[b], float(data)

    @property
    def measured(self) -> float | None:
        """The makespan that its notes have, if that is one."""
        found = self.notes.get("makespan")
        if not isinstance(found, int | float) or isinstance(found, bool):
            return None
        return float(found) if 0 < found < float("inf") else None

    @cached_property
    def before(self) -> Adjacency:
        """What each task waits for."""
        return _adjacency(self.targets, self.sources, len(self))

    @cached_property
    def after(self) -> Adjacency:
        """What waits for each task."""
        return _adjacency(self.sources, self.targets, len(self))

    @cached_property
    def order(self) -> Indices:
        """The tasks, each after all that it waits for; refused where there is a loop."""
        loop = self.loop
        if loop:
            raise InputError(
                f"workflow {self.name!r} has a loop: {' -> '.join(loop)}",
                hint="a static algorithm needs none; zen simulate --algorithm hybrid plays loops",
            )
        return self._sorted

    @property
    def looped(self) -> bool:
        return len(self._sorted) < len(self)

    @cached_property
    def _sorted(self) -> Indices:
        """What can be ordered, level by level; tasks of one level as they were given."""
        levels = self._levels
        return np.concatenate(levels).astype(np.int32) if levels else np.zeros(0, np.int32)

    @cached_property
    def _levels(self) -> list[NDArray[np.int64]]:
        waiting = np.bincount(self.targets, minlength=len(self))
        ready = np.flatnonzero(waiting == 0)
        levels = []
        while len(ready):
            levels.append(ready)
            free = _newly_ready if len(ready) > _MAX_SCALAR else _newly_ready_scalar
            ready = free(self.after, waiting, ready)
        return levels

    @cached_property
    def level(self) -> Indices:
        """How many edges the longest way from a first task to each has."""
        found = np.empty(len(self), np.int32)
        lengths = [len(each) for each in self._levels]
        found[self.order] = np.repeat(np.arange(len(lengths)), lengths)
        return found

    def check(self) -> None:
        """Refuse what no schedule could be made of."""
        wrong = np.flatnonzero(~(np.isfinite(self.work) & (self.work >= 0)))
        if len(wrong):
            task = wrong[0]
            raise InputError(f"task {self.names[task]!r} has work {self.work[task]}: 0 or more")
        wrong = np.flatnonzero(~(np.isfinite(self.data) & (self.data >= 0)))
        if len(wrong):
            a, b = self.names[self.sources[wrong[0]]], self.names[self.targets[wrong[0]]]
            raise InputError(f"edge {a} -> {b} has {self.data[wrong[0]]} bytes: 0 or more")
        own = np.flatnonzero(self.sources == self.targets)
        if len(own):
            raise InputError(f"task {self.names[self.sources[own[0]]]!r} waits for itself")

    @property
    def loop(self) -> list[str]:
        """The tasks of a loop, if there is one, from one of them around to it again."""
        if not self.looped:
            return []
        left = np.ones(len(self), bool)
        left[self._sorted] = False
        at = int(np.flatnonzero(left)[0])
        way: list[int] = []
        while at not in way:
            way.append(at)
            above = self.before.of(at)
            at = int(above[left[above]][0])
        return [self.names[i] for i in [*way[way.index(at) :], at][::-1]]


def merge_parallel_edges(
    sources: Indices, targets: Indices, data: Floats
) -> tuple[Indices, Indices, Floats]:
    """Edges of which no two join the same tasks: of such, the first, with the bytes of all."""
    ends = sources.astype(np.int64) << 32 | targets
    _, first, which = np.unique(ends, return_index=True, return_inverse=True)
    if len(first) == len(ends):
        return sources, targets, data
    total = np.zeros(len(first))
    np.add.at(total, which.reshape(-1), data)
    order = np.argsort(first)
    kept = first[order]
    return sources[kept], targets[kept], total[order]


def _plain(task: WorkflowTask) -> WorkflowTask:
    return WorkflowTask(task.name, task.work, program=task.program)


def _first_duplicate(tasks: Sequence[WorkflowTask]) -> str:
    seen: set[str] = set()
    return next(t.name for t in tasks if t.name in seen or seen.add(t.name))  # type: ignore[func-returns-value]


def _task_number(number: Mapping[str, int], name: str) -> int:
    try:
        return number[name]
    except KeyError:
        raise InputError(f"no task is named {name!r}", hint=did_you_mean(name, number)) from None


def _adjacency(key: Indices, other: Indices, count: int) -> Adjacency:
    by = np.argsort(key, kind="stable").astype(np.int32)
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=count), out=start[1:])
    return Adjacency(start, other[by], by)


def _newly_ready(
    after: Adjacency, waiting: NDArray[np.int64], ready: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The tasks that wait for no more, when all *ready* have ended; fewer are *waiting* then."""
    freed = after.task[_concatenated_ranges(after.start, ready)]
    np.subtract.at(waiting, freed, 1)
    return np.unique(freed[waiting[freed] == 0]).astype(np.int64)


def _newly_ready_scalar(
    after: Adjacency, waiting: NDArray[np.int64], ready: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The same, one by one: faster where there are few."""
    found = []
    for task in ready.tolist():
        for other in after.of(task).tolist():
            waiting[other] -= 1
            if not waiting[other]:
                found.append(other)
    return np.array(sorted(found), np.int64)


def _concatenated_ranges(start: NDArray[np.int64], rows: NDArray[Any]) -> NDArray[np.int64]:
    """The places ``start[r]:start[r+1]`` of all *rows*, one after the other."""
    lengths = start[rows + 1] - start[rows]
    ends = np.cumsum(lengths)
    steps = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    found: NDArray[np.int64] = steps + np.repeat(start[rows] - ends + lengths, lengths)
    return found


def merge_transfers(flow: Workflow) -> Workflow:
    """*flow* with each file transfer written as bytes on an edge between the jobs it joins.

    A job that several transfers join with the same other gets the sum of their bytes.
    """
    moved = {i for i, task in flow.more.items() if task.kind == "transfer"}
    if not moved:
        return flow
    data: dict[tuple[int, int], float] = {}
    for job in range(len(flow)):
        if job not in moved:
            for target, weight in _jobs_after(flow, job, moved):
                data[job, target] = data.get((job, target), 0.0) + weight
    return Workflow.of(
        flow.name,
        [
            replace(flow.task(i), machine=flow.task(i).machine)
            for i in range(len(flow))
            if i not in moved
        ],
        [(flow.names[a], flow.names[b], weight) for (a, b), weight in data.items()],
        **flow.notes,
    )


def _jobs_after(flow: Workflow, job: int, moved: set[int]) -> list[tuple[int, float]]:
    """The jobs that follow *job* at once or after transfers only, each with its bytes."""
    found = []
    ahead = _edges_from(flow, job, 0.0)
    seen = set()
    while ahead:
        task, weight = ahead.pop()
        if task not in moved:
            found.append((task, weight))
        elif task not in seen:
            seen.add(task)
            ahead += _edges_from(flow, task, weight + float(flow.work[task]))
    return found[::-1]


def _edges_from(flow: Workflow, task: int, weight: float) -> list[tuple[int, float]]:
    first, last = flow.after.start[task], flow.after.start[task + 1]
    edges = zip(flow.after.task[first:last], flow.after.edge[first:last], strict=True)
    return [(int(b), weight + float(flow.data[edge])) for b, edge in edges]
