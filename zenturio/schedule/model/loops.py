"""Loops of a workflow: the tasks that they repeat, and the edges that close them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow

ITERATIONS_SYNTAX = "a number of iterations, as 3, or the probability that one is the last, as 0.25"
_SEED_SALT = 2005
"""Separates the random numbers of loops from those of machines."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Tasks that are repeated; *first* is the loop's head."""

    tasks: tuple[int, ...]
    first: int
    closing: tuple[int, ...]
    """Edges back to the first task; an iteration does not wait for them."""
    exits: tuple[int, ...]
    """Tasks outside the loop that wait for tasks inside: they start after the last iteration."""


@dataclass(frozen=True, slots=True)
class LoopIterations:
    """How often loops run, which is unknown beforehand because loops run until they converge.

    Either *count* iterations, or each iteration is the last one with probability *converging*. The
    random numbers depend on the seed, the loop and the iteration only, so that all algorithms
    simulated with one seed see the same iterations.
    """

    count: int = 0
    converging: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 0 or not 0 < self.converging <= 1:
            raise InputError(f"loops with {self.count or self.converging}", hint=ITERATIONS_SYNTAX)

    @classmethod
    def read(cls, text: str, seed: int = 0) -> LoopIterations:
        """Parse ``3`` (iterations) or ``0.25`` (a probability); empty means the default.

        Raise InputError for anything else.
        """
        if not text:
            return cls(seed=seed)
        try:
            number = float(text)
        except ValueError:
            raise InputError(f"iterations {text!r}", hint=ITERATIONS_SYNTAX) from None
        if number >= 1 and number.is_integer():
            return cls(int(number), seed=seed)
        if not 0 < number < 1:
            raise InputError(f"iterations {text!r}", hint=ITERATIONS_SYNTAX)
        return cls(converging=number, seed=seed)

    def more(self, loop: int, iteration: int, total: int) -> bool:
        """Return whether another iteration follows number *iteration* of a loop.

        *total* counts all iterations of the loop so far, also those of earlier rounds of an outer
        loop.
        """
        if self.count:
            return iteration < self.count
        # A generator of its own for each iteration: no draw depends on who asked before.
        rng = np.random.default_rng([self.seed, loop, total, _SEED_SALT])
        return bool(rng.random() >= self.converging)


def find_loops(flow: Workflow) -> tuple[Loop, ...]:
    """Return the loops of *flow*, inner loops before the loops around them.

    A loop's head is its first task that depends on a task outside, or else its first task. Edges
    from inside to the head close the loop; what is still cyclic without them is an inner loop.
    """
    closing_edges: set[int] = set()
    found_loops: list[Loop] = []
    candidates: list[Sequence[int]] = [range(len(flow))] if flow.looped else []
    while candidates:
        for tasks in _cyclic_components(flow, candidates.pop(), closing_edges):
            loop = _loop_of(flow, tasks, closing_edges)
            found_loops.append(loop)
            closing_edges.update(loop.closing)
            candidates.append(tasks)
    return tuple(sorted(found_loops, key=lambda loop: (len(loop.tasks), loop.first)))


def forward_edges(flow: Workflow, loops: Iterable[Loop]) -> NDArray[np.bool_]:
    """Return a mask of the edges of *flow* that do not close one of *loops*."""
    mask = np.ones(len(flow.data), bool)
    for loop in loops:
        mask[list(loop.closing)] = False
    return mask


def single_iteration(flow: Workflow, loops: Iterable[Loop]) -> Workflow:
    """Return one iteration of *flow*: without the edges that close its loops."""
    mask = forward_edges(flow, loops)
    if mask.all():
        return flow
    sources, targets, data = flow.sources[mask], flow.targets[mask], flow.data[mask]
    return replace(flow, sources=sources, targets=targets, data=data)


MAX_UNROLLED = 10**6
"""Tasks of a workflow whose loops are written out."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """A task of an iteration that is written out, and where it comes from."""

    task: str
    """The task of the workflow with loops."""
    number: int = 0
    """Which iteration of the innermost loop around the task it is; 0: it is in no loop."""
    repeats: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each loop in whose first iteration it is not, the inner ones first: the same task one
    iteration before, and the tasks that closed that iteration."""


def unrolled(flow: Workflow, repeats: LoopIterations) -> Workflow:
    """Return *flow* with the iterations of its loops written out, for planners that know no loops.

    The task ``a`` is ``a`` in the first iteration and ``a~2`` in the second, or ``a~~2`` of a loop
    around another one. An iteration begins
    when all tasks of the one before have ended, and what follows the loop waits for all of its
    last. An inner loop runs equally often in each iteration of the loop around it. Raise
    InputError if it gets too large.
    """
    return unrolled_iterations(flow, repeats)[0]


def unrolled_iterations(
    flow: Workflow, repeats: LoopIterations
) -> tuple[Workflow, dict[str, Iteration], list[tuple[str, ...]]]:
    """Return *flow* as ``unrolled`` does, where each task comes from, and the tasks that close the
    last iteration of each loop.
    """
    origin = {name: Iteration(name) for name in flow.names}
    last: list[tuple[str, ...]] = []
    for number in range(len(flow)):
        loops = find_loops(flow)
        if not loops:
            break
        count = 1
        while repeats.more(number, count, count):
            count += 1
            if len(flow) + count * len(loops[0].tasks) > MAX_UNROLLED:
                raise InputError(f"the loops of {flow.name} make more than {MAX_UNROLLED:,} tasks")
        flow, origin, last = _with_iterations(flow, loops[0], count, origin, last)
    return flow, origin, last


def _with_iterations(
    flow: Workflow,
    loop: Loop,
    count: int,
    origin: dict[str, Iteration],
    last: list[tuple[str, ...]],
) -> tuple[Workflow, dict[str, Iteration], list[tuple[str, ...]]]:
    """Return *flow* with *count* iterations of *loop*, which has no loop inside.

    *origin* and *last* are as ``unrolled_iterations`` returns them, and returned for the new tasks.
    """
    inside, closing = {flow.names[task] for task in loop.tasks}, set(loop.closing)
    ends = tuple(sorted({flow.names[flow.sources[edge]] for edge in loop.closing}))

    # Names of inner loops have tildes already: one more keeps b~2 and b~~2 apart.
    mark = "~" * (1 + max(len(run) for task in inside for run in re.findall("~*", task)))

    def name(task: str, turn: int) -> str:
        return f"{task}{mark}{turn}" if turn > 1 and task in inside else task

    tasks = [
        replace(task, when=tuple((name(a, count), codes) for a, codes in task.when))
        for task in flow.tasks
        if task.name not in inside
    ]
    tasks += [
        replace(
            flow.task(number),
            name=name(flow.names[number], turn),
            when=tuple((name(a, turn), codes) for a, codes in flow.task(number).when),
        )
        for turn in range(1, count + 1)
        for number in loop.tasks
    ]
    first, edges = flow.names[loop.first], list[tuple[str, str, float]]()
    for number, (a, b, data) in enumerate(flow.edges):
        if number in closing:
            edges += [(name(a, turn), name(b, turn + 1), data) for turn in range(1, count)]
        elif b in inside:
            edges += [(name(a, turn), name(b, turn), data) for turn in range(1, count + 1)]
        else:
            edges.append((name(a, count), b, data))
    for a in sorted(inside):
        edges += [(name(a, turn), name(first, turn + 1), 0.0) for turn in range(1, count)]
        edges += [(name(a, count), flow.names[b], 0.0) for b in loop.exits]

    def named(names: tuple[str, ...], turn: int) -> tuple[str, ...]:
        return tuple(name(a, turn) for a in names)

    made = {a: where for a, where in origin.items() if a not in inside}
    for turn in range(1, count + 1):
        for a in inside:
            where = origin[a]
            before = tuple((name(b, turn), named(closed, turn)) for b, closed in where.repeats)
            if turn > 1:
                before += ((name(a, turn - 1), named(ends, turn - 1)),)
            # A task of an inner loop keeps the number of its own iteration.
            number = where.number or turn
            made[name(a, turn)] = replace(where, number=number, repeats=before)
    turns = {tuple(named(closed, turn)) for closed in last for turn in range(1, count + 1)}
    return (
        Workflow.of(flow.name, tasks, edges, **flow.notes),
        made,
        [*sorted(turns), named(ends, count)],
    )


def single_iteration_problem(problem: Problem, loops: Iterable[Loop]) -> Problem:
    """Return *problem* with one iteration of its workflow."""
    return replace(problem, workflow=single_iteration(problem.workflow, loops))


def _cyclic_components(
    flow: Workflow, tasks: Sequence[int], cut: set[int]
) -> list[tuple[int, ...]]:
    """Return the strongly connected components among *tasks*, ignoring the edges in *cut*."""
    import networkx as nx  # noqa: PLC0415 - heavy, and few workflows have loops

    inside = set(tasks)
    graph = nx.DiGraph()
    graph.add_edges_from(
        (task, successor)
        for task in tasks
        for successor, edge in successors(flow, task)
        if successor in inside and edge not in cut
    )
    components = (tuple(sorted(component)) for component in nx.strongly_connected_components(graph))
    return sorted(component for component in components if len(component) > 1)


def _loop_of(flow: Workflow, tasks: tuple[int, ...], cut: set[int]) -> Loop:
    edges = [
        (task, *edge) for task in tasks for edge in successors(flow, task) if edge[1] not in cut
    ]
    inside = set(tasks)
    entered = (task for task in tasks if not inside.issuperset(flow.before.of(task).tolist()))
    first = next(entered, tasks[0])
    closing = tuple(edge for _, other, edge in edges if other == first)
    return Loop(tasks, first, closing, tuple(sorted({b for _, b, _ in edges} - inside)))


def successors(flow: Workflow, task: int) -> Iterator[tuple[int, int]]:
    """Return the successors of *task*, each with the number of the edge to it."""
    begin, end = flow.after.start[task], flow.after.start[task + 1]
    return zip(
        flow.after.task[begin:end].tolist(), flow.after.edge[begin:end].tolist(), strict=True
    )
