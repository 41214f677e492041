"""The loops of a workflow: which tasks they repeat, and which edges close them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow

ITERATIONS_SYNTAX = "a number of iterations, as 3, or the probability that one is the last, as 0.25"
_SEED_SALT = 2005
"""Keeps the chance of loops apart from that of machines."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Tasks that are run again and again, *first* at their head."""

    tasks: tuple[int, ...]
    first: int
    closing: tuple[int, ...]
    """The edges that lead back to the first task; no iteration waits for them."""
    exits: tuple[int, ...]
    """Tasks outside that wait for some inside: until the last iteration has ended."""


@dataclass(frozen=True, slots=True)
class LoopIterations:
    """How often loops are run: what nobody knows before, as loops run until they converge.

    Either *count* iterations, or after each a last one with a probability of *converging*, drawn
    for each loop and iteration, whatever else happens: so all that plays with one seed is alike.
    """

    count: int = 0
    converging: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 0 or not 0 < self.converging <= 1:
            raise InputError(f"loops with {self.count or self.converging}", hint=ITERATIONS_SYNTAX)

    @classmethod
    def read(cls, text: str, seed: int = 0) -> LoopIterations:
        """What ``3`` or ``0.25`` says; nothing: what they do if nobody says."""
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
        """Whether another follows this *iteration* of a loop, the *total*-th that it has run."""
        if self.count:
            return iteration < self.count
        chance = np.random.default_rng([self.seed, loop, total, _SEED_SALT])
        return bool(chance.random() >= self.converging)


def find_loops(flow: Workflow) -> tuple[Loop, ...]:
    """The loops of *flow*, those inside before those around them.

    A loop begins where it is entered: with its first task that waits for one outside, or else
    with its first task. An edge from within back to there closes it. What is still a loop without
    these edges is one inside.
    """
    cut: set[int] = set()
    found: list[Loop] = []
    open_: list[Sequence[int]] = [range(len(flow))] if flow.looped else []
    while open_:
        for tasks in _cyclic_components(flow, open_.pop(), cut):
            loop = _loop_of(flow, tasks, cut)
            found.append(loop)
            cut.update(loop.closing)
            open_.append(tasks)
    return tuple(sorted(found, key=lambda loop: (len(loop.tasks), loop.first)))


def forward_edges(flow: Workflow, among: Iterable[Loop]) -> NDArray[np.bool_]:
    """For each edge whether it is waited for: not, if it closes one of the loops."""
    kept = np.ones(len(flow.data), bool)
    for loop in among:
        kept[list(loop.closing)] = False
    return kept


def single_iteration(flow: Workflow, among: Iterable[Loop]) -> Workflow:
    """One iteration of *flow*: without the edges that close its loops."""
    kept = forward_edges(flow, among)
    if kept.all():
        return flow
    sources, targets, data = flow.sources[kept], flow.targets[kept], flow.data[kept]
    return replace(flow, sources=sources, targets=targets, data=data)


def single_iteration_problem(problem: Problem, among: Iterable[Loop]) -> Problem:
    """*problem* with one iteration of its workflow."""
    return replace(problem, workflow=single_iteration(problem.workflow, among))


def _cyclic_components(
    flow: Workflow, among: Sequence[int], cut: set[int]
) -> list[tuple[int, ...]]:
    """The tasks of *among* that wait for each other and themselves, by edges that are not *cut*."""
    import networkx as nx  # noqa: PLC0415 - heavy, and few workflows have loops

    inside = set(among)
    graph = nx.DiGraph()
    graph.add_edges_from(
        (task, other)
        for task in among
        for other, edge in successors(flow, task)
        if other in inside and edge not in cut
    )
    found = (tuple(sorted(each)) for each in nx.strongly_connected_components(graph))
    return sorted(each for each in found if len(each) > 1)


def _loop_of(flow: Workflow, tasks: tuple[int, ...], cut: set[int]) -> Loop:
    ways = [
        (task, *each) for task in tasks for each in successors(flow, task) if each[1] not in cut
    ]
    inside = set(tasks)
    entered = (task for task in tasks if not inside.issuperset(flow.before.of(task).tolist()))
    first = next(entered, tasks[0])
    closing = tuple(edge for _, other, edge in ways if other == first)
    return Loop(tasks, first, closing, tuple(sorted({b for _, b, _ in ways} - inside)))


def successors(flow: Workflow, task: int) -> Iterator[tuple[int, int]]:
    """What waits for *task*, and by which edge."""
    first, last = flow.after.start[task], flow.after.start[task + 1]
    return zip(
        flow.after.task[first:last].tolist(), flow.after.edge[first:last].tolist(), strict=True
    )
