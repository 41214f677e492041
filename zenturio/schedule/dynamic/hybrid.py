"""Performance contracts: whether a task that runs keeps what was foreseen for it.

Section 5.1 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" (SAC 2005).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf, isfinite
from typing import Any, ClassVar, Literal

from zenturio.errors import InputError
from zenturio.schedule.algorithm import Kind, describe, make
from zenturio.schedule.dynamic.remaining_graph import (
    FAILED_SHARE,
    Remainder,
    RemainderState,
    iteration_order,
    loaded_seconds,
    remaining_graph,
    snapshot,
)
from zenturio.schedule.model.loops import successors
from zenturio.schedule.simulate.machine_state import MachineState
from zenturio.schedule.simulate.simulator import task_sequence
from zenturio.schedule.simulate.trace import TraceEvent
from zenturio.search.settings import setting


def contract_violation(work: float, done: float, estimate: float, elapsed: float) -> float:
    """By which part a task is behind: PC(N, t) = W_N / (W_N(t) T_N) (t - start(N)) - 1.

    *done* of its *work* is done after *elapsed* seconds; *estimate* seconds were foreseen for the
    whole. 0: as foreseen; 1: it will take twice as long. At the start nothing is behind; later, a
    task that has done nothing is so without end.
    """
    if elapsed <= 0:
        return 0.0
    foreseen = estimate * (done / work if work else 1.0)
    return elapsed / foreseen - 1 if foreseen else inf


def seconds_to_breach(
    factor: float, done: float, pace: float, estimate: float, elapsed: float
) -> float:
    """In how many seconds a contract exceeds *factor*; infinite, if it will not.

    *done* and *pace* are the part of the work that is done, and what is added in a second.
    """
    allowed = (1 + factor) * estimate
    nearing = 1 - allowed * pace
    left = allowed * done - elapsed
    if left < 0:
        return 0.0
    return left / nearing if nearing > 0 else inf


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


WAKE_MARGIN = 1e-6
"""By which part of its estimate a task is looked at too late: its contract is broken for sure."""
NOTE_COLUMNS = ("time", "iteration", "tasks", "remaining", "end", "late", "migrated")
"""What is noted at each scheduling event.

When; in which iteration of the loops; how many tasks are to be planned; how long they take by
themselves (Figure 7a of the paper); when all will end, if this iteration is the last (Figure 7b);
how many tasks violate their contracts; and which migrate.
"""


@dataclass(frozen=True)
class HybridSettings:
    static: str = setting("heft", "what plans: a static algorithm, as ga-2005:population=50")
    contract: float = setting(0.5, "a task by this part behind its estimate is to migrate", low=0)
    interval: float = setting(0.0, "seconds between schedulings; 0: at all that happens", low=0)
    progress: bool = setting(True, "tasks tell how far they are; else contracts are timeouts")
    adopt: Literal["better", "always"] = setting(
        "better", "plans and migrations that promise an earlier end; or all, as in the paper"
    )


class Hybrid:
    """Plans what is left anew at each event, and moves tasks that break their contracts.

    For machines whose load changes, and for workflows with loops. Not where nothing changes: there
    it is the static algorithm, asked again and again. A task that migrates begins anew.
    Cost: a static plan or two for each event; with an interval, for each interval.
    R. Prodan, T. Fahringer: Dynamic scheduling of scientific workflow applications on the grid: a
    case study. SAC 2005, section 5.
    """

    kind: ClassVar[Kind] = "dynamic"
    Settings = HybridSettings

    def __init__(self, settings: HybridSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or HybridSettings()
        name = self.settings.static
        kind = describe(name).kind
        if kind != "static":
            raise InputError(
                f"static={name}: that is {kind}", hint="zen algorithms shows which are static"
            )
        self.static = make(name, {}, seed)
        self._course: _HybridRun | None = None

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        if self._course is None or any(event.kind == "began" for event in events):
            self._course = _HybridRun(self.settings, self.static, grid)
        self._course.react(events)


class _HybridRun:
    """One workflow while it runs."""

    def __init__(self, settings: HybridSettings, static: Any, grid: MachineState) -> None:
        self._settings = settings
        self._static = static
        self._grid = grid
        self._flow = grid.problem.workflow
        self._turns = iteration_order(self._flow)
        self._group: list[int] = grid.problem.group.tolist()
        self._places: dict[int, int] = {}
        self._ranks: dict[int, float] = {}
        self._estimate: dict[int, float] = {}
        self._lost: set[int] = set()
        self._next = 0.0
        self._iteration = 1
        self._notes: dict[str, list[Any]] = {name: [] for name in NOTE_COLUMNS}
        grid.notes["static"] = settings.static
        grid.notes["schedulings"] = self._notes

    def react(self, events: Sequence[TraceEvent]) -> None:
        kinds = {event.kind for event in events}
        self._iteration += sum(event.kind == "again" for event in events)
        self._lost |= {event.task for event in events if event.kind == "lost"}
        if self._grid.now >= self._next or kinds & {"began", "again", "arrived"}:
            self._schedule()
            self._next = self._grid.now + self._settings.interval
        self._wake()

    # A scheduling event.

    def _schedule(self) -> None:
        behind = {run.task: self._behind(run.task) for run in self._grid.running if run}
        late = {task for task, part in behind.items() if part > self._settings.contract}
        better = self._settings.adopt == "better"
        found = self._best(late) if better else self._planned(self._rest(late))
        self._note(found, len(late))
        self._submit(found)

    def _best(self, late: set[int]) -> Forecast:
        """The best of the plan at hand, and new ones with migrations and without.

        A task that would end later elsewhere stays, however late it is. Of plans that are equally
        good, the one that moves fewer tasks.
        """
        stay = self._rest(())
        if not self._places:
            return self._planned(stay)
        hand = forecast(self._grid, stay, {t: self._places[t] for t in stay.tasks}, self._ranks)
        moved = self._planned(self._rest(late))
        gaining = {task for task in late if moved.end[task] < hand.end[task]}
        some = moved if gaining == late else self._planned(self._rest(gaining))
        return min((hand, some, moved), key=lambda each: (each.last, each.whole))

    def _rest(self, late: Collection[int]) -> Remainder:
        """What is left, with those that are *late* to migrate."""
        behind = dict.fromkeys(late, self._settings.contract + 1)
        return remaining_graph(
            self._flow, self._states(), behind, self._settings.contract, self._turns
        )

    def _states(self) -> list[RemainderState]:
        """The states of the tasks, as the paper has them."""
        known: Mapping[str, RemainderState] = {"running": "running", "done": "completed"}
        states = [known.get(state, "queued") for state in self._grid.state]
        for task in self._lost:
            states[task] = "failed"
        for task in self._stranded(states):
            states[task] = "failed"
        return states

    def _stranded(self, states: Sequence[RemainderState]) -> list[int]:
        """What is completed on a machine that has failed, and bound to others that are not.

        Those must run where it ran, and can only do so if it is run again elsewhere.
        """
        grid = self._grid
        if not grid.problem.grouped or all(grid.share):
            return []
        open_ = {self._group[t] for t, state in enumerate(states) if state == "queued"}
        return [
            task
            for task, state in enumerate(states)
            if state == "completed" and self._group[task] in open_ and not grid.up(grid.where[task])
        ]

    def _planned(self, rest: Remainder) -> Forecast:
        """What comes of a plan of the static algorithm for *rest*."""
        if not rest.tasks:
            return forecast(self._grid, rest, {}, {})
        given = snapshot(self._grid, rest)
        plan = self._static.plan(given.problem)
        order = [given.tasks[i] for i in task_sequence(plan) if i < given.planned]
        places = dict(zip(given.tasks, plan.processor.tolist()[: given.planned], strict=False))
        return forecast(self._grid, rest, places, {task: i for i, task in enumerate(order)})

    def _submit(self, found: Forecast) -> None:
        """Does what was found best: cancels and sends tasks, and arranges those that wait."""
        grid, rest = self._grid, found.rest
        for task in sorted(rest.migrating):
            if grid.state[task] == "running":
                grid.cancel(task)
            elif grid.state[task] == "done":
                grid.again(task)
        self._places.update(found.places)
        self._ranks.update((task, rank) for rank, task in enumerate(found.order))
        touched = set()
        for task in found.order:
            place = found.places[task]
            if grid.state[task] == "sent" and grid.where[task] != place:
                grid.cancel(task)
            if grid.state[task] == "waiting":
                grid.place(task, place)
            self._estimate[task] = loaded_seconds(grid, task, place)
            touched.add(place)
        for place in sorted(touched):
            grid.arrange(place, sorted(grid.queue[place], key=self._ranks.__getitem__))
        self._lost.clear()

    # Contracts.

    def _behind(self, task: int) -> float:
        grid = self._grid
        done = grid.progress(task) if self._settings.progress else 1.0
        return contract_violation(1.0, done, self._estimate[task], grid.now - grid.run(task).start)

    def _wake(self) -> None:
        """Asks to be woken at the next scheduling, or when the next contract will be broken."""
        grid = self._grid
        if self._settings.interval:
            waiting = any(grid.queue[p] and grid.up(p) for p in range(len(grid.queue)))
            if waiting or any(grid.running):
                grid.wake(self._next)
            return
        waits = [self._breach(run.task) for run in grid.running if run]
        soonest = min(filter(isfinite, waits), default=None)
        if soonest is not None:
            grid.wake(grid.now + soonest)

    def _breach(self, task: int) -> float:
        """In how many seconds its contract will be broken; infinite, if it is or will not be."""
        grid, factor = self._grid, self._settings.contract
        estimate, run = self._estimate[task], grid.run(task)
        if self._behind(task) > factor:
            return float("inf")
        done, pace = 1.0, 0.0
        if self._settings.progress:
            place = grid.where[task]
            done = grid.progress(task)
            pace = grid.share[grid.node[place]] / (grid.time(task, place) or 1.0)
        wait = seconds_to_breach(factor, done, pace, estimate, grid.now - run.start)
        return wait + WAKE_MARGIN * estimate

    def _note(self, found: Forecast, late: int) -> None:
        names = [self._flow.names[task] for task in sorted(found.rest.migrating)]
        count, by_itself = len(found.rest.tasks), seconds_alone(self._grid, found)
        facts = (self._grid.now, self._iteration, count, by_itself, found.last, late, names)
        for column, fact in zip(self._notes.values(), facts, strict=True):
            column.append(fact)
