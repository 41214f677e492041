"""Repeated static planning of a running workflow, with performance contracts and migration.

Sections 5.1 and 5.2 of R. Prodan, T. Fahringer: Dynamic scheduling of scientific workflow
applications on the grid: a case study (SAC 2005).
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
from zenturio.schedule.model.shared_resources import Occupancy
from zenturio.schedule.simulate.machine_state import MachineState
from zenturio.schedule.simulate.simulator import task_sequence
from zenturio.schedule.simulate.trace import TraceEvent
from zenturio.settings.schema import setting


def contract_violation(work: float, done: float, estimate: float, elapsed: float) -> float:
    """Return PC(N, t) = W_N / (W_N(t) T_N) (t - start(N)) - 1: how late a task is.

    *done* of its *work* is done after *elapsed* seconds; *estimate* seconds were planned in all. 0
    means on time, 1 that it will take twice as long. At the start nothing is late; later, a task
    without progress is infinitely late.
    """
    if elapsed <= 0:
        return 0.0
    expected = estimate * (done / work if work else 1.0)
    return elapsed / expected - 1 if expected else inf


def seconds_to_breach(
    factor: float, done: float, pace: float, estimate: float, elapsed: float
) -> float:
    """Return in how many seconds a contract will exceed *factor*; infinite if never.

    *done* and *pace* are the share of work done, and the share done per second.
    """
    allowed = (1 + factor) * estimate
    closing_rate = 1 - allowed * pace
    margin = allowed * done - elapsed
    if margin < 0:
        return 0.0
    return margin / closing_rate if closing_rate > 0 else inf


Predecessors = Mapping[int, Sequence[tuple[int, float]]]
"""The predecessors of each task, with the bytes from each."""


@dataclass(frozen=True)
class Forecast:
    """The expected times of a plan of the remaining tasks."""

    now: float
    rest: Remainder
    places: Mapping[int, int]
    """The processor of each remaining task."""
    order: Sequence[int]
    """The order in which processors run them."""
    end: Mapping[int, float]
    """The expected end of each remaining or running task."""

    @property
    def last(self) -> float:
        """The expected end of this iteration."""
        ends = (end for task, end in self.end.items() if task not in self.rest.later)
        return max(ends, default=self.now)

    @property
    def whole(self) -> float:
        """The expected end of all remaining tasks, including those of the next iteration."""
        return max(self.end.values(), default=self.now)


def forecast(
    grid: MachineState, remainder: Remainder, places: Mapping[int, int], ranks: Mapping[int, float]
) -> Forecast:
    """Return the forecast of running *remainder* on *places*, lowest rank first."""
    inside = _edges_inside(grid, remainder)
    order = planning_order(remainder, inside, ranks)
    room = _ProcessorEnds(grid, grid.now)
    end: dict[int, float] = {}
    for processor, runs in enumerate(grid.running):
        for run in runs:
            if run.task not in remainder.migrating:
                share = grid.share[grid.node[processor]] or FAILED_SHARE
                end[run.task] = grid.now + grid.remaining(run.task) / share
                room.place(run.task, processor, grid.now, end[run.task])
    predecessors = _edges_from_running(grid, inside, end)
    placement = {**{task: grid.where[task] for task in end}, **places}
    for task in order:
        _place_task(
            grid, task, predecessors[task], placement, room, end, grid.arrival(task, places[task])
        )
    return Forecast(grid.now, remainder, places, order, end)


def seconds_alone(grid: MachineState, outlook: Forecast) -> float:
    """Return how long the remaining tasks take by themselves on idle machines."""
    predecessors = _edges_inside(grid, outlook.rest)
    room = _ProcessorEnds(grid, 0.0)
    end: dict[int, float] = {}
    for task in outlook.order:
        _place_task(grid, task, predecessors[task], outlook.places, room, end, 0.0)
    return max(end.values(), default=0.0)


def planning_order(
    remainder: Remainder, predecessors: Predecessors, ranks: Mapping[int, float]
) -> list[int]:
    """Return the tasks of *remainder* in topological order, lowest rank first.

    Tasks of the next iteration come last among those that are ready.
    """
    missing = {task: len(predecessors[task]) for task in remainder.tasks}
    after: dict[int, list[int]] = {task: [] for task in remainder.tasks}
    for task in remainder.tasks:
        for neighbour, _ in predecessors[task]:
            after[neighbour].append(task)
    ready = [(task in remainder.later, ranks[task], task) for task, n in missing.items() if not n]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)[2]
        order.append(task)
        for neighbour in after[task]:
            missing[neighbour] -= 1
            if not missing[neighbour]:
                heappush(ready, (neighbour in remainder.later, ranks[neighbour], neighbour))
    return order


def _edges_inside(grid: MachineState, remainder: Remainder) -> dict[int, list[tuple[int, float]]]:
    """Return the predecessors of each task of *remainder* that are in *remainder*."""
    flow = grid.problem.workflow
    predecessors: dict[int, list[tuple[int, float]]] = {task: [] for task in remainder.tasks}
    for edge in sorted(remainder.edges):
        predecessors[int(flow.targets[edge])].append(
            (int(flow.sources[edge]), float(flow.data[edge]))
        )
    return predecessors


def _edges_from_running(
    grid: MachineState, inside: Predecessors, running: Mapping[int, float]
) -> Predecessors:
    """Add to *inside* the predecessors that are still *running*."""
    flow = grid.problem.workflow
    predecessors = {task: list(edges) for task, edges in inside.items()}
    for task in running:
        for successor, edge in successors(flow, task):
            if successor in predecessors:
                predecessors[successor].append((task, float(flow.data[edge])))
    return predecessors


class _ProcessorEnds:
    """When processors have room for the next of the tasks that are placed on them in order."""

    def __init__(self, grid: MachineState, begin: float) -> None:
        self._begin = begin
        self._free: dict[int, float] = {}
        resources = grid.problem.resources
        self._occupancy = None if resources is None else Occupancy(resources)

    def at(self, task: int, processor: int, ready: float, length: float) -> float:
        """Return when *task* may start for *length* seconds, from *ready* on."""
        # Tasks of a shared machine start in their order; of a processor, one after the other.
        begin = max(ready, self._begin, self._free.get(processor, 0.0))
        if self._occupancy is None:
            return begin
        return self._occupancy.earliest(task, processor, begin, length)

    def place(self, task: int, processor: int, begin: float, end: float) -> None:
        if self._occupancy is None:
            self._free[processor] = end
        else:
            self._free[processor] = begin
            self._occupancy.place(task, processor, begin, end)


def _place_task(
    grid: MachineState,
    task: int,
    predecessors: Sequence[tuple[int, float]],
    places: Mapping[int, int],
    room: _ProcessorEnds,
    end: dict[int, float],
    begin: float,
) -> None:
    """Set the end of *task*, which starts when its processor is free and its data have arrived.

    A task of zero length needs no processor time, as in a plan.
    """
    place, length = places[task], loaded_seconds(grid, task, places[task])
    for predecessor, data in predecessors:
        begin = max(begin, end[predecessor] + grid.transfer(data, places[predecessor], place))
    end[task] = begin
    if length > 0:
        begin = room.at(task, place, begin, length)
        end[task] = begin + length
        room.place(task, place, begin, end[task])


WAKE_MARGIN = 1e-6
"""Share of the estimate by which a task is checked late, so that its contract is surely broken."""
NOTE_COLUMNS = ("time", "iteration", "tasks", "remaining", "end", "late", "migrated")
"""Columns noted at each scheduling event.

Time; iteration of the loops; number of tasks planned; their seconds alone (Figure 7a); end if
this iteration is the last (Figure 7b); number of late tasks; names of the tasks that migrate."""


@dataclass(frozen=True)
class HybridSettings:
    static: str = setting("heft", "the static algorithm that plans, such as ga-2005:population=50")
    contract: float = setting(
        0.5, "migrate tasks that are late by this share of their estimate", low=0
    )
    interval: float = setting(0.0, "seconds between two plans; 0: plan at each event", low=0)
    progress: bool = setting(True, "tasks report their progress; otherwise contracts are timeouts")
    adopt: Literal["better", "always"] = setting(
        "better",
        "better: adopt only plans with an earlier expected end; always: all, as in the paper",
    )


class Hybrid:
    """Replan the rest of a workflow at each event, and migrate tasks that break their contracts.

    Good for machines whose load changes, and for workflows with loops. If nothing changes, it
    returns the plan of the static algorithm at a higher cost. A task that migrates starts from the
    beginning. Cost: one or two static plans for each event, or for each interval. R. Prodan, T.
    Fahringer: Dynamic scheduling of scientific workflow applications on the grid: a case study. SAC
    2005, section 5.
    """

    kind: ClassVar[Kind] = "dynamic"
    Settings = HybridSettings

    def __init__(self, settings: HybridSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or HybridSettings()
        name = self.settings.static
        kind = describe(name).kind
        if kind != "static":
            raise InputError(
                f"static={name} is {kind}, not static", hint="zen algorithms shows which are static"
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

    # Scheduling events

    def _schedule(self) -> None:
        behind = {run.task: self._behind(run.task) for runs in self._grid.running for run in runs}
        late = {task for task, part in behind.items() if part > self._settings.contract}
        better = self._settings.adopt == "better"
        choice = self._best(late) if better else self._planned(self._rest(late))
        self._note(choice, len(late))
        self._submit(choice)

    def _best(self, late: set[int]) -> Forecast:
        """Return the best of the current plan and new ones, with and without migrations.

        A task that would finish later elsewhere stays, however late it is. On ties, the plan that
        moves fewer tasks wins.
        """
        remaining = self._rest(())
        if not self._places:
            return self._planned(remaining)
        current = forecast(
            self._grid, remaining, {t: self._places[t] for t in remaining.tasks}, self._ranks
        )
        moved = self._planned(self._rest(late))
        gaining = {task for task in late if moved.end[task] < current.end[task]}
        gaining_plan = moved if gaining == late else self._planned(self._rest(gaining))
        return min((current, gaining_plan, moved), key=lambda option: (option.last, option.whole))

    def _rest(self, late: Collection[int]) -> Remainder:
        """Return the remaining graph if the tasks in *late* migrate."""
        behind = dict.fromkeys(late, self._settings.contract + 1)
        return remaining_graph(
            self._flow, self._states(), behind, self._settings.contract, self._turns
        )

    def _states(self) -> list[RemainderState]:
        """Return the states of the tasks in the terms of the paper."""
        names: Mapping[str, RemainderState] = {"running": "running", "done": "completed"}
        states = [names.get(state, "queued") for state in self._grid.state]
        for task in self._lost:
            states[task] = "failed"
        for task in self._stranded(states):
            states[task] = "failed"
        return states

    def _stranded(self, states: Sequence[RemainderState]) -> list[int]:
        """Return completed tasks on failed machines whose group has queued tasks.

        The group must run where they ran, which is possible only if they are rerun elsewhere.
        """
        grid = self._grid
        if not grid.problem.grouped or all(grid.share):
            return []
        queued_groups = {self._group[t] for t, state in enumerate(states) if state == "queued"}
        return [
            task
            for task, state in enumerate(states)
            if state == "completed"
            and self._group[task] in queued_groups
            and not grid.up(grid.where[task])
        ]

    def _planned(self, remainder: Remainder) -> Forecast:
        """Return the forecast of a static plan for *remainder*."""
        if not remainder.tasks:
            return forecast(self._grid, remainder, {}, {})
        snapshot_ = snapshot(self._grid, remainder)
        plan = self._static.plan(snapshot_.problem)
        order = [snapshot_.tasks[i] for i in task_sequence(plan) if i < snapshot_.planned]
        places = dict(
            zip(snapshot_.tasks, plan.processor.tolist()[: snapshot_.planned], strict=False)
        )
        return forecast(self._grid, remainder, places, {task: i for i, task in enumerate(order)})

    def _submit(self, choice: Forecast) -> None:
        """Carry out a forecast: cancel, send and reorder tasks."""
        grid, remainder = self._grid, choice.rest
        # Cancel first: a task can only be sent if it is waiting.
        for task in sorted(remainder.migrating):
            if grid.state[task] == "running":
                grid.cancel(task)
            elif grid.state[task] == "done":
                grid.again(task)
        self._places.update(choice.places)
        self._ranks.update((task, rank) for rank, task in enumerate(choice.order))
        touched = set()
        for task in choice.order:
            place = choice.places[task]
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
        """Request a wake-up at the next scheduling, or when the next contract will break."""
        grid = self._grid
        if self._settings.interval:
            waiting = any(grid.queue[p] and grid.up(p) for p in range(len(grid.queue)))
            if waiting or any(grid.running):
                grid.wake(self._next)
            return
        waits = [self._breach(run.task) for runs in grid.running for run in runs]
        # Without an interval, contracts need a wake-up, because no event marks their breach.
        soonest = min(filter(isfinite, waits), default=None)
        if soonest is not None:
            grid.wake(grid.now + soonest)

    def _breach(self, task: int) -> float:
        """Return in how many seconds a contract will break; infinite if broken already or never."""
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

    def _note(self, choice: Forecast, late: int) -> None:
        names = [self._flow.names[task] for task in sorted(choice.rest.migrating)]
        count, alone = len(choice.rest.tasks), seconds_alone(self._grid, choice)
        facts = (self._grid.now, self._iteration, count, alone, choice.last, late, names)
        for column, fact in zip(self._notes.values(), facts, strict=True):
            column.append(fact)
