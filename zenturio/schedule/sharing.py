"""The policy that shares machines among workflows while these, and the machines, change.

It decides as `kernels.sharing` does, which is faster where nothing disturbs the machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from zenturio.schedule.grid import MachineState
from zenturio.schedule.kernels.priority import WaitingWorkflow, priority
from zenturio.schedule.trace import TraceEvent
from zenturio.schedule.workflow import Floats, Indices

Granularity = Literal["task", "dag"]


@dataclass(frozen=True, eq=False)
class RankedTasks:
    """What the order of tasks and workflows depends on, beside what happens."""

    arrival: Floats
    alone: Floats
    """Seconds that each workflow would take if there were no other."""
    owner: Indices
    """The workflow of each task."""
    first: Indices
    """The tasks of workflow w are those from ``first[w]`` to before ``first[w + 1]``."""
    sequence: Indices
    """The tasks by their workflow, and in it by their rank."""
    rank: Floats
    mean: Floats
    """Seconds that each task takes, on average over the processors."""


class SharingPolicy:
    """Sends tasks to idle processors, those of the workflow first whose turn it is.

    With *by* = "dag", each workflow sends one task before any of them sends another.
    """

    def __init__(self, ranked: RankedTasks, policy: str, by: Granularity = "task") -> None:
        self._ranked = ranked
        self._policy = policy
        self._turns = by == "dag"
        self._owner: list[int] = ranked.owner.tolist()
        self._mean: list[float] = ranked.mean.tolist()
        self._rank: list[float] = ranked.rank.tolist()
        self._place = {task: at for at, task in enumerate(ranked.sequence.tolist())}
        self._remaining: list[float] = []
        self._home: dict[int, int] = {}
        """The processor of each group of which a task was sent."""
        self._due: dict[int, float] = {}
        """When the data of each task that was sent are there."""

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.kind == "began":
                self._begin()
            elif event.kind == "ended":
                self._remaining[self._owner[event.task]] -= self._mean[event.task]
        ready: dict[int, list[int]] = {}
        for task in sorted(grid.ready(), key=self._place.__getitem__):
            ready.setdefault(self._owner[task], []).append(task)
        if self._places(grid):
            self._serve(grid, ready)

    def _begin(self) -> None:
        flows = zip(self._ranked.first[:-1], self._ranked.first[1:], strict=True)
        order = self._ranked.sequence.tolist()
        self._remaining = [sum(self._mean[task] for task in order[a:b]) for a, b in flows]
        self._home, self._due = {}, {}

    def _serve(self, grid: MachineState, ready: dict[int, list[int]]) -> None:
        """Sends what can be sent: in rounds of one task for each workflow, or in one round."""
        foft = self._policy == "foft"
        ahead = {flow: self._ahead(grid, flow) if foft else 0.0 for flow in ready}
        out: set[int] = set()
        sent = 0
        while places := self._places(grid):
            left = [flow for flow, tasks in ready.items() if tasks and flow not in out]
            if not left:
                if not self._turns or not sent:
                    return
                sent = 0
                out.clear()
                continue
            flow = max(left, key=lambda f: (self._priority(grid, f, ready[f][0], ahead[f]), -f))
            task = ready[flow].pop(0)
            place = self._suited(grid, task, places)
            if place is not None:
                self._send(grid, task, place)
                sent += 1
                if self._turns:
                    out.add(flow)

    def _priority(self, grid: MachineState, flow: int, task: int, ahead: float) -> float:
        arrival, alone = float(self._ranked.arrival[flow]), float(self._ranked.alone[flow])
        age, remaining = grid.now - arrival, self._remaining[flow]
        standing = WaitingWorkflow(self._rank[task], arrival, age, alone, remaining, ahead)
        return priority(self._policy, standing)

    def _places(self, grid: MachineState) -> list[int]:
        """The processors to which something can be sent."""
        may = grid.up if self._policy == "basic" else grid.idle
        return [place for place in range(grid.problem.processors) if may(place)]

    def _suited(self, grid: MachineState, task: int, places: list[int]) -> int | None:
        """Where among *places* the *task* ends first, if it can run on any."""
        home = self._home.get(int(grid.problem.group[task]))
        mine = [place for place in places if home in {None, place}]
        end, place = min(((self._finish(grid, task, p), p) for p in mine), default=(inf, -1))
        return place if end < inf else None

    def _finish(self, grid: MachineState, task: int, place: int) -> float:
        """When *task*, sent now, would end on *place*."""
        begin = max(self._free(grid, place), grid.arrival(task, place))
        return begin + grid.time(task, place) / grid.share[grid.node[place]]

    def _free(self, grid: MachineState, place: int) -> float:
        """When *place* would have run all that it was sent, if its load stayed as it is."""
        if not grid.up(place):
            return inf
        run, share = grid.running[place], grid.share[grid.node[place]]
        free = grid.now + (grid.remaining(run.task) / share if run else 0.0)
        for task in grid.queue[place]:
            free = max(free, self._due[task]) + grid.time(task, place) / share
        return free

    def _send(self, grid: MachineState, task: int, place: int) -> None:
        self._home[int(grid.problem.group[task])] = place
        self._due[task] = grid.arrival(task, place)
        grid.send(task, place)

    def _ahead(self, grid: MachineState, flow: int) -> float:
        """How long *flow* would still take, if all that it has left were sent, and no other."""
        free = [self._free(grid, place) for place in range(grid.problem.processors)]
        ahead = _FinishEstimate(grid, free, self._home)
        order = self._ranked.sequence[self._ranked.first[flow] : self._ranked.first[flow + 1]]
        return max((ahead.end(task) for task in order.tolist()), default=grid.now) - grid.now


class _FinishEstimate:
    """The machines as they would be if tasks were sent one after the other, from now on."""

    def __init__(self, grid: MachineState, free: list[float], home: dict[int, int]) -> None:
        self._grid = grid
        self._busy = tuple(free)
        self._free = free
        self._home = dict(home)
        self._ends: dict[int, tuple[float, int]] = {}

    def end(self, task: int) -> float:
        """When *task* ends, or has ended; those that it waits for have been asked before."""
        grid = self._grid
        state, place = grid.state[task], grid.where[task]
        if state == "done":
            self._ends[task] = grid.ended[task], place
        elif state in {"running", "sent"}:
            self._ends[task] = self._busy[place], place
        else:
            group = int(grid.problem.group[task])
            end, place = min(self._possible(task, self._home.get(group)))
            self._ends[task], self._home[group], self._free[place] = (end, place), place, end
        return self._ends[task][0]

    def _possible(self, task: int, home: int | None) -> Iterator[tuple[float, int]]:
        """When *task* would end on each processor."""
        grid = self._grid
        for place, free in enumerate(self._free):
            if home in {None, place} and free < inf:
                begin = max(free, self._arrival(task, place))
                yield begin + grid.time(task, place) / grid.share[grid.node[place]], place
            else:
                yield inf, place

    def _arrival(self, task: int, place: int) -> float:
        problem, now = self._grid.problem, self._grid.now
        before = problem.before
        begin = now
        for at in range(before.start[task], before.start[task + 1]):
            end, other = self._ends[int(before.task[at])]
            data = float(problem.workflow.data[before.edge[at]])
            begin = max(begin, max(end, now) + problem.transfer(data, other, place))
        return begin
