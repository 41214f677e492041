"""Workflows: tasks and edges, stored as columns so that a million tasks are cheap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.model.platform import RuntimeCurve

Kind = Literal["job", "transfer"]
Floats = NDArray[np.float64]
Indices = NDArray[np.int32]

_MAX_SCALAR = 8
"""Levels of up to this many tasks are processed one by one, which is faster there."""


@dataclass(frozen=True, slots=True)
class WorkflowTask:
    """A task as a user describes it."""

    name: str
    work: float = 0.0
    """Seconds on a machine of speed 1; for a transfer, bytes."""
    kind: Kind = "job"
    machine: str = ""
    """The abstract machine of a job: tasks that share one run on the same machine.

    Empty if the task may run anywhere. For a transfer, the abstract machine it comes from."""
    target: str = ""
    """For a transfer, the abstract machine that receives the data."""
    program: str = ""
    """What the task runs. Charts and predictions treat the tasks of one program alike."""
    tag: str = ""
    """A tag that a machine needs to run the task."""
    cores: int = 1
    memory: float = 0.0
    times: tuple[float, ...] = ()
    """Seconds on each machine of the platform, in its order; replaces ``work / speed``."""
    curve: RuntimeCurve | None = None
    """Seconds by number of nodes, if the task is moldable."""
    accelerators: int = 0
    point: tuple[tuple[str, str | float], ...] = ()
    """Parameters and values of what it computes, by which measured times and models are chosen."""
    when: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Predecessors, and the exit codes with which this task runs; with others it is skipped."""


@dataclass(frozen=True)
class Adjacency:
    """Neighbours in compressed form: those of task t are ``task[start[t]:start[t + 1]]``."""

    start: NDArray[np.int64]
    task: Indices
    edge: Indices

    def of(self, number: int) -> Indices:
        """Return the neighbours of task *number*."""
        return self.task[self.start[number] : self.start[number + 1]]


@dataclass(frozen=True, eq=False)
class Workflow:
    """Tasks in input order, and edges from a task to each task that depends on it.

    Instances are immutable; the arrays of work, edges and data are read-only.
    """

    name: str
    names: Sequence[str]
    work: Floats
    sources: Indices
    targets: Indices
    data: Floats
    """Bytes along each edge."""
    more: Mapping[int, WorkflowTask] = field(default_factory=dict)
    """Full descriptions of tasks that have more than a name, work and program."""
    program: Indices | None = None
    programs: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Further facts from the file, such as a measured makespan or an author."""

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
        """Return the workflow of *tasks* and *edges*: (from, to) or (from, to, bytes).

        Raise InputError if two tasks share a name, an edge names an unknown task, or a number is
        negative.
        """
        tasks = list(tasks)
        number = {task.name: i for i, task in enumerate(tasks)}
        if len(number) < len(tasks):
            raise InputError(f"workflow {name!r}: two tasks are named {_first_duplicate(tasks)!r}")
        edge_list = list(edges)
        # Names are resolved once, here: everything below works on numbers.
        ends = [(_task_number(number, a), _task_number(number, b)) for a, b, *_ in edge_list]
        programs = {program: i for i, program in enumerate(dict.fromkeys(t.program for t in tasks))}
        columns = (
            np.array([a for a, _ in ends], np.int32),
            np.array([b for _, b in ends], np.int32),
            np.array([edge[2] if len(edge) > 2 else 0.0 for edge in edge_list], np.float64),
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
        """Return the description of task *number*."""
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
        """The measured makespan from the notes, or None if they have no valid one."""
        makespan = self.notes.get("makespan")
        if not isinstance(makespan, int | float) or isinstance(makespan, bool):
            return None
        return float(makespan) if 0 < makespan < float("inf") else None

    @cached_property
    def before(self) -> Adjacency:
        """The predecessors of each task."""
        return _adjacency(self.targets, self.sources, len(self))

    @cached_property
    def after(self) -> Adjacency:
        """The successors of each task."""
        return _adjacency(self.sources, self.targets, len(self))

    @cached_property
    def order(self) -> Indices:
        """The tasks in topological order, level by level; InputError if there is a loop."""
        loop = self.loop
        if loop:
            raise InputError(
                f"workflow {self.name!r} has a loop: {' -> '.join(loop)}",
                hint="a static algorithm cannot plan loops; use zen simulate --algorithm hybrid",
            )
        return self._sorted

    @property
    def looped(self) -> bool:
        return len(self._sorted) < len(self)

    @cached_property
    def _sorted(self) -> Indices:
        """The tasks that can be ordered, level by level; tasks of a level in input order."""
        levels = self._levels
        return np.concatenate(levels).astype(np.int32) if levels else np.zeros(0, np.int32)

    @cached_property
    def _levels(self) -> list[NDArray[np.int64]]:
        waiting = np.bincount(self.targets, minlength=len(self))
        ready = np.flatnonzero(waiting == 0)
        levels = []
        while len(ready):
            levels.append(ready)
            # NumPy pays off only beyond a few tasks; chains have levels of one task.
            free = _newly_ready if len(ready) > _MAX_SCALAR else _newly_ready_scalar
            ready = free(self.after, waiting, ready)
        return levels

    @cached_property
    def level(self) -> Indices:
        """The number of edges on the longest path from an entry task to each task."""
        levels = np.empty(len(self), np.int32)
        lengths = [len(tasks) for tasks in self._levels]
        levels[self.order] = np.repeat(np.arange(len(lengths)), lengths)
        return levels

    def check(self) -> None:
        """Raise InputError for an invalid number, or a task that depends on itself."""
        invalid = np.flatnonzero(~(np.isfinite(self.work) & (self.work >= 0)))
        if len(invalid):
            task = invalid[0]
            raise InputError(f"task {self.names[task]!r} has work {self.work[task]}: 0 or more")
        invalid = np.flatnonzero(~(np.isfinite(self.data) & (self.data >= 0)))
        if len(invalid):
            a, b = self.names[self.sources[invalid[0]]], self.names[self.targets[invalid[0]]]
            raise InputError(f"edge {a} -> {b} has {self.data[invalid[0]]} bytes: 0 or more")
        self_loops = np.flatnonzero(self.sources == self.targets)
        if len(self_loops):
            raise InputError(f"task {self.names[self.sources[self_loops[0]]]!r} waits for itself")

    @cached_property
    def branches(self) -> Mapping[int, Mapping[int, frozenset[int]]]:
        """Of each task that depends on exit codes, those that each predecessor has to end with.

        Raise InputError if a task names one that it does not wait for.
        """
        branches = {}
        for i, task in self.more.items():
            if task.when:
                number = {self.names[a]: a for a in self.before.of(i).tolist()}
                for name, _ in task.when:
                    if name not in number:
                        raise InputError(
                            f"task {task.name!r} depends on the exit code of {name!r}, but does "
                            "not wait for it",
                            hint=f"add the edge {name} -> {task.name}",
                        )
                branches[i] = {number[name]: frozenset(codes) for name, codes in task.when}
        return branches

    @property
    def loop(self) -> list[str]:
        """The names of the tasks of one loop, from a task around to it again; empty if there is
        none.
        """
        if not self.looped:
            return []
        in_loop = np.ones(len(self), bool)
        in_loop[self._sorted] = False
        task = int(np.flatnonzero(in_loop)[0])
        path: list[int] = []
        while task not in path:
            path.append(task)
            predecessors = self.before.of(task)
            task = int(predecessors[in_loop[predecessors]][0])
        return [self.names[i] for i in [*path[path.index(task) :], task][::-1]]


def merge_parallel_edges(
    sources: Indices, targets: Indices, data: Floats
) -> tuple[Indices, Indices, Floats]:
    """Merge edges that join the same two tasks: keep the first one, with the sum of the bytes."""
    # Source and target packed into one integer, so that np.unique can find duplicates.
    keys = sources.astype(np.int64) << 32 | targets
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return sources, targets, data
    total = np.zeros(len(first))
    # reshape: NumPy 2.0 returns the inverse with the shape of the input.
    np.add.at(total, group.reshape(-1), data)
    order = np.argsort(first)
    positions = first[order]
    return sources[positions], targets[positions], total[order]


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
    order = np.argsort(key, kind="stable").astype(np.int32)
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=count), out=start[1:])
    return Adjacency(start, other[order], order)


def _newly_ready(
    after: Adjacency, waiting: NDArray[np.int64], ready: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the tasks that become ready when all of *ready* end, and decrement *waiting*."""
    freed = after.task[_concatenated_ranges(after.start, ready)]
    np.subtract.at(waiting, freed, 1)
    return np.unique(freed[waiting[freed] == 0]).astype(np.int64)


def _newly_ready_scalar(
    after: Adjacency, waiting: NDArray[np.int64], ready: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Do the same as `_newly_ready`, task by task."""
    newly_ready = []
    for task in ready.tolist():
        for successor in after.of(task).tolist():
            waiting[successor] -= 1
            if not waiting[successor]:
                newly_ready.append(successor)
    return np.array(sorted(newly_ready), np.int64)


def _concatenated_ranges(start: NDArray[np.int64], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices ``start[r]:start[r + 1]`` of all *rows*, concatenated."""
    lengths = start[rows + 1] - start[rows]
    ends = np.cumsum(lengths)
    steps = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    indices: NDArray[np.int64] = steps + np.repeat(start[rows] - ends + lengths, lengths)
    return indices


def merge_transfers(flow: Workflow) -> Workflow:
    """Replace each transfer task by bytes on an edge between the jobs that it joins.

    Several transfers between the same two jobs become one edge with the sum of their bytes.
    """
    transfers = {i for i, task in flow.more.items() if task.kind == "transfer"}
    if not transfers:
        return flow
    data: dict[tuple[int, int], float] = {}
    for job in range(len(flow)):
        if job not in transfers:
            for target, size in _jobs_after(flow, job, transfers):
                data[job, target] = data.get((job, target), 0.0) + size
    return Workflow.of(
        flow.name,
        [
            replace(flow.task(i), machine=flow.task(i).machine)
            for i in range(len(flow))
            if i not in transfers
        ],
        [(flow.names[a], flow.names[b], size) for (a, b), size in data.items()],
        **flow.notes,
    )


def _jobs_after(flow: Workflow, job: int, transfers: set[int]) -> list[tuple[int, float]]:
    """Return the jobs that follow *job* directly or through transfers only, with their bytes."""
    jobs = []
    pending = _edges_from(flow, job, 0.0)
    visited = set()
    while pending:
        task, size = pending.pop()
        if task not in transfers:
            jobs.append((task, size))
        elif task not in visited:
            visited.add(task)
            pending += _edges_from(flow, task, size + float(flow.work[task]))
    return jobs[::-1]


def _edges_from(flow: Workflow, task: int, size: float) -> list[tuple[int, float]]:
    first, last = flow.after.start[task], flow.after.start[task + 1]
    edges = zip(flow.after.task[first:last], flow.after.edge[first:last], strict=True)
    return [(int(b), size + float(flow.data[edge])) for b, edge in edges]
