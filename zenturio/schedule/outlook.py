"""When all would end, if the machines stayed as loaded as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from zenturio.schedule.grid import MachineState
from zenturio.schedule.loops import successors
from zenturio.schedule.remainder import Remainder
from zenturio.schedule.snapshot import FAILED_SHARE, loaded_seconds

Predecessors = Mapping[int, Sequence[tuple[int, float]]]
"""For each task what it waits for, and with how many bytes."""


@dataclass(frozen=True)
class Forecast:
    """What a schedule of the remainder promises."""

    now: float
    rest: Remainder
    places: Mapping[int, int]
    """The processor of each task that is left."""
    order: Sequence[int]
    """The order in which processors are to run them."""
    end: Mapping[int, float]
    """When each task ends that is left or runs."""

    @property
    def last(self) -> float:
        """When this iteration ends, and with it all, if there is no other."""
        soon = (end for task, end in self.end.items() if task not in self.rest.later)
        return max(soon, default=self.now)

    @property
    def whole(self) -> float:
        """When all that is left ends, also what is left for another iteration."""
        return max(self.end.values(), default=self.now)


def forecast(
    grid: MachineState, rest: Remainder, places: Mapping[int, int], ranks: Mapping[int, float]
) -> Forecast:
    """What comes of *places* for the tasks of *rest*, those of low rank first."""
    inside = _edges_inside(grid, rest)
    order = planning_order(rest, inside, ranks)
    free = dict.fromkeys(places.values(), grid.now)
    end: dict[int, float] = {}
    for processor, run in enumerate(grid.running):
        if run and run.task not in rest.migrating:
            share = grid.share[grid.node[processor]] or FAILED_SHARE
            free[processor] = end[run.task] = grid.now + grid.remaining(run.task) / share
    waits = _edges_from_running(grid, inside, end)
    where = {**{task: grid.where[task] for task in end}, **places}
    for task in order:
        _place_task(grid, task, waits[task], where, free, end, grid.arrival(task, places[task]))
    return Forecast(grid.now, rest, places, order, end)


def seconds_alone(grid: MachineState, found: Forecast) -> float:
    """How long what is left takes by itself, if it begins now on idle machines."""
    waits = _edges_inside(grid, found.rest)
    free = dict.fromkeys(found.places.values(), 0.0)
    end: dict[int, float] = {}
    for task in found.order:
        _place_task(grid, task, waits[task], found.places, free, end, 0.0)
    return max(end.values(), default=0.0)


def planning_order(rest: Remainder, waits: Predecessors, ranks: Mapping[int, float]) -> list[int]:
    """The tasks of *rest*, each after those that it *waits* for; the lowest rank first.

    What is left for the next iteration comes last of those that could come.
    """
    open_ = {task: len(waits[task]) for task in rest.tasks}
    after: dict[int, list[int]] = {task: [] for task in rest.tasks}
    for task in rest.tasks:
        for other, _ in waits[task]:
            after[other].append(task)
    ready = [(task in rest.later, ranks[task], task) for task, n in open_.items() if not n]
    heapify(ready)
    found = []
    while ready:
        task = heappop(ready)[2]
        found.append(task)
        for other in after[task]:
            open_[other] -= 1
            if not open_[other]:
                heappush(ready, (other in rest.later, ranks[other], other))
    return found


def _edges_inside(grid: MachineState, rest: Remainder) -> dict[int, list[tuple[int, float]]]:
    """What each task of *rest* waits for among them."""
    flow = grid.problem.workflow
    found: dict[int, list[tuple[int, float]]] = {task: [] for task in rest.tasks}
    for edge in sorted(rest.edges):
        found[int(flow.targets[edge])].append((int(flow.sources[edge]), float(flow.data[edge])))
    return found


def _edges_from_running(
    grid: MachineState, inside: Predecessors, running: Mapping[int, float]
) -> Predecessors:
    """What each waits for among them, and of what is *running* on."""
    flow = grid.problem.workflow
    found = {task: list(each) for task, each in inside.items()}
    for task in running:
        for other, edge in successors(flow, task):
            if other in found:
                found[other].append((task, float(flow.data[edge])))
    return found


def _place_task(
    grid: MachineState,
    task: int,
    waits: Sequence[tuple[int, float]],
    places: Mapping[int, int],
    free: dict[int, float],
    end: dict[int, float],
    begin: float,
) -> None:
    """Lets *task* run from *begin* on, when its place is free and the data that it *waits* for
    are there; one of no length waits for no place, as plans have it.
    """
    place, length = places[task], loaded_seconds(grid, task, places[task])
    for other, data in waits:
        begin = max(begin, end[other] + grid.transfer(data, places[other], place))
    end[task] = begin
    if length > 0:
        free[place] = end[task] = max(begin, free[place]) + length
