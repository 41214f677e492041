"""Online scheduling of streams: policies that decide which workflow's task runs next.

Within a workflow, tasks are ordered by HEFT's ranks; among workflows, each policy has its own
priority. A task goes to the idle processor where it finishes first. Decisions are made whenever a
task ends or a workflow arrives. On undisturbed machines, a compiled kernel
(`kernels.stream_simulation`) plays the same policies faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np

from zenturio.errors import InputError, unknown_name
from zenturio.priority_rules import POLICIES, WaitingWorkflow, priority
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import problem_arrays, topological_orders
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats, Indices
from zenturio.schedule.online.stream import StreamResult, WorkflowStream
from zenturio.schedule.simulate.machine_state import MachineState
from zenturio.schedule.simulate.network import SharedNetwork
from zenturio.schedule.simulate.simulator import (
    Perturbation,
    simulate,
    simulate_perturbed,
)
from zenturio.schedule.simulate.trace import TraceEvent
from zenturio.schedule.static.list_scheduling import (
    list_schedule,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.settings.schema import setting

Granularity = Literal["task", "dag"]


@dataclass(frozen=True, eq=False)
class PriorityInputs:
    """What the order of tasks and workflows depends on, apart from events."""

    arrival: Floats
    alone: Floats
    """Seconds that each workflow would take by itself."""
    owner: Indices
    """The workflow of each task."""
    first: Indices
    """The tasks of workflow w are those from ``first[w]`` up to ``first[w + 1]``."""
    sequence: Indices
    """The tasks by workflow, and within it by rank."""
    rank: Floats
    mean: Floats
    """Mean seconds of each task over the processors."""


class SharingPolicy:
    """A policy for disturbed machines: idle processors serve the most urgent workflows.

    With granularity "dag", each workflow sends one task before any sends another.
    """

    def __init__(self, ranked: PriorityInputs, policy: str, by: Granularity = "task") -> None:
        self._ranked = ranked
        self._policy = policy
        self._turns = by == "dag"
        self._owner: list[int] = ranked.owner.tolist()
        self._mean: list[float] = ranked.mean.tolist()
        self._rank: list[float] = ranked.rank.tolist()
        self._place = {task: position for position, task in enumerate(ranked.sequence.tolist())}
        self._remaining: list[float] = []
        self._home: dict[int, int] = {}
        """The processor of each group of which a task was sent."""
        self._due: dict[int, float] = {}
        """When the data of each task that was sent are there."""

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.kind == "began":
                self._begin()
            elif event.kind in {"ended", "skipped"}:
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
        """Send what can be sent: in rounds of one task per workflow, or all in one round."""
        foft = self._policy == "foft"
        remaining_times = {flow: self._ahead(grid, flow) if foft else 0.0 for flow in ready}
        served: set[int] = set()
        sent = 0
        while places := self._places(grid):
            candidates = [flow for flow, tasks in ready.items() if tasks and flow not in served]
            # A round is over: another begins only if the last one sent something.
            if not candidates:
                if not self._turns or not sent:
                    return
                sent = 0
                served.clear()
                continue
            flow = max(
                candidates,
                key=lambda f: (self._priority(grid, f, ready[f][0], remaining_times[f]), -f),
            )
            task = ready[flow].pop(0)
            place = self._suited(grid, task, places)
            if place is not None:
                self._send(grid, task, place)
                sent += 1
                if self._turns:
                    served.add(flow)

    def _priority(self, grid: MachineState, flow: int, task: int, remaining_time: float) -> float:
        arrival, alone = float(self._ranked.arrival[flow]), float(self._ranked.alone[flow])
        age, remaining = grid.now - arrival, self._remaining[flow]
        standing = WaitingWorkflow(self._rank[task], arrival, age, alone, remaining, remaining_time)
        return priority(self._policy, standing)

    def _places(self, grid: MachineState) -> list[int]:
        """Return the processors to which a task can be sent."""
        # Whether a machine that tasks share has room depends on the task: see `_suited`.
        shared = grid.problem.resources is not None
        is_available = grid.up if self._policy == "basic" or shared else grid.idle
        return [place for place in range(grid.problem.processors) if is_available(place)]

    def _suited(self, grid: MachineState, task: int, places: list[int]) -> int | None:
        """Return the one of *places* where *task* finishes first, or None."""
        home = self._home.get(int(grid.problem.group[task]))
        allowed = [place for place in places if home in {None, place}]
        if grid.problem.resources is not None and self._policy != "basic":
            allowed = [place for place in allowed if grid.has_room(task, place)]
        end, place = min(((self._finish(grid, task, p), p) for p in allowed), default=(inf, -1))
        return place if end < inf else None

    def _finish(self, grid: MachineState, task: int, place: int) -> float:
        """Return when *task*, sent now, would end on *place*."""
        is_shared = grid.problem.resources is not None
        free = grid.room_at(task, place) if is_shared else self._free(grid, place)
        begin = max(free, grid.arrival(task, place))
        return begin + grid.time(task, place) / grid.share[grid.node[place]]

    def _free(self, grid: MachineState, place: int) -> float:
        """Return when *place* would finish its tasks if its load stayed as it is."""
        if not grid.up(place):
            return inf
        share = grid.share[grid.node[place]]
        ends = (grid.now + grid.remaining(run.task) / share for run in grid.running[place])
        free = max(ends, default=grid.now)
        for task in grid.queue[place]:
            free = max(free, self._due[task]) + grid.time(task, place) / share
        return free

    def _send(self, grid: MachineState, task: int, place: int) -> None:
        self._home[int(grid.problem.group[task])] = place
        self._due[task] = grid.arrival(task, place)
        grid.send(task, place)

    def _ahead(self, grid: MachineState, flow: int) -> float:
        """Return how long *flow* would still take if only its tasks were sent."""
        free = [self._free(grid, place) for place in range(grid.problem.processors)]
        estimate = _FinishEstimate(grid, free, self._home)
        order = self._ranked.sequence[self._ranked.first[flow] : self._ranked.first[flow + 1]]
        return max((estimate.end(task) for task in order.tolist()), default=grid.now) - grid.now


class _FinishEstimate:
    """The machines as they would be if tasks were sent one after the other from now on."""

    def __init__(self, grid: MachineState, free: list[float], home: dict[int, int]) -> None:
        self._grid = grid
        self._busy = tuple(free)
        self._free = free
        self._home = dict(home)
        self._ends: dict[int, tuple[float, int]] = {}

    def end(self, task: int) -> float:
        """Return when *task* ends or ended; its predecessors must have been asked before."""
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
        """Yield when *task* would end on each processor, with the processor."""
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
        for edge_index in range(before.start[task], before.start[task + 1]):
            end, origin = self._ends[int(before.task[edge_index])]
            data = float(problem.workflow.data[before.edge[edge_index]])
            begin = max(begin, max(end, now) + problem.transfer(data, origin, place))
        return begin


@dataclass(frozen=True, eq=False)
class OnlineSimulation:
    """A stream on a platform; what all policies need is computed once."""

    stream: WorkflowStream
    platform: Platform

    def play(
        self,
        policy: str,
        by: Granularity = "task",
        disturbance: Perturbation | None = None,
        seed: int = 0,
    ) -> StreamResult:
        """Return the result of the stream under *policy*.

        The policy does not know workflows before they arrive. Machines have the loads of the
        platform, and are perturbed on top of them. Raise NotFoundError for an unknown policy.
        """
        if policy not in POLICIES:
            raise unknown_name("policy", policy, POLICIES)
        has_loads = any(machine.load for machine in self.platform.machines)
        # The kernel knows neither loads, branches, nor machines and links that tasks share.
        shared = self.problem.resources is not None or SharedNetwork.is_needed(self.platform)
        branches = self.problem.workflow.branches
        if disturbance is None and not has_loads and not shared and not branches:
            plan, wasted = self._steady(policy, by), 0.0
        else:
            sharing, arrivals = SharingPolicy(self.ranked, policy, by), self._arrivals
            trace = (
                simulate_perturbed(self.problem, sharing, disturbance, seed, arrivals)
                if disturbance
                else simulate(self.problem, sharing, arrivals=arrivals)
            )
            plan, wasted = trace.plan, trace.wasted
        plan = Plan(self.problem, policy, plan.processor, plan.start, plan.end, {"by": by})
        return StreamResult(self.stream, plan, self.ranked.alone, wasted)

    @cached_property
    def problem(self) -> Problem:
        """All workflows as one problem, which only online algorithms may see."""
        return Problem.of(self.stream.workflow, self.platform)

    @cached_property
    def ranked(self) -> PriorityInputs:
        problem = self.problem
        mean = mean_times(problem)
        rank, order = _ranks(problem)
        owner = self.stream.owner
        return PriorityInputs(
            self.stream.arrivals, self._alone(), owner, self.stream.first,
            order[np.argsort(owner[order], kind="stable")], rank, mean,
        )  # fmt: skip

    @property
    def _arrivals(self) -> Floats:
        return self.stream.arrivals[self.stream.owner]

    def _alone(self) -> Floats:
        """Return the makespan of each workflow if HEFT had all machines for it."""
        makespans: dict[int, float] = {}
        for submission in self.stream.submissions:
            flow = submission.workflow
            if id(flow) not in makespans:
                makespans[id(flow)] = _heft_makespan(Problem.of(flow, self.platform))
            if not makespans[id(flow)] > 0:
                raise InputError(
                    f"workflow {submission.name!r} takes no time", hint="give its tasks some work"
                )
        return np.array(
            [makespans[id(submission.workflow)] for submission in self.stream.submissions]
        )

    def _steady(self, policy: str, by: Granularity) -> Plan:
        from zenturio.schedule.kernels.stream_simulation import share_machines  # noqa: PLC0415 - loads Numba

        count = self.problem.tasks
        start, end = np.full(count, np.nan), np.full(count, np.nan)
        processors = np.full(count, -1, np.int64)
        arrays, tasks = self._bare
        share_machines(arrays, tasks, POLICIES.index(policy), by == "dag", start, end, processors)
        assert (processors >= 0).all(), "a task was never sent"
        return Plan(self.problem, policy, processors.astype(np.int32), start, end)

    @cached_property
    def _bare(self) -> tuple[Any, Any]:
        """The workflows as the kernel takes them."""
        from zenturio.schedule.kernels.stream_simulation import WorkflowTaskArrays  # noqa: PLC0415 - loads Numba

        problem, ranked = self.problem, self.ranked
        position = np.empty(problem.tasks, np.int64)
        position[ranked.sequence] = np.arange(problem.tasks)
        tasks = WorkflowTaskArrays(
            ranked.arrival,
            ranked.alone,
            ranked.first.astype(np.int64),
            ranked.sequence.astype(np.int64),
            position,
            ranked.owner.astype(np.int64),
            ranked.rank,
            ranked.mean,
            problem.group.astype(np.int64),
            np.diff(problem.before.start),
            problem.after.start,
            problem.after.task.astype(np.int64),
        )
        return problem_arrays(problem), tasks


def _ranks(problem: Problem) -> tuple[Floats, Indices]:
    """Return the upward ranks of HEFT, and the tasks in their order."""
    rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    return rank, topological_orders(problem, -rank)


def _heft_makespan(problem: Problem) -> float:
    """Return the makespan of HEFT."""
    return list_schedule(problem, "heft", _ranks(problem)[1]).makespan


@dataclass(frozen=True)
class OnlineSettings:
    by: Granularity = setting(
        "task", "order all ready tasks, or one task of each workflow at a time (dag)"
    )


class _OnlineAlgorithm:
    """Settings and execution, which all online algorithms share."""

    kind: ClassVar[Kind] = "online"
    Settings = OnlineSettings
    policy: ClassVar[str]

    def __init__(self, settings: OnlineSettings | None = None, _seed: int = 0) -> None:
        self._by: Granularity = (settings or OnlineSettings()).by

    def play(
        self, online: OnlineSimulation, disturbance: Perturbation | None = None, seed: int = 0
    ) -> StreamResult:
        """Return the result of the stream under this policy."""
        return online.play(self.policy, self._by, disturbance, seed)


class Basic(_OnlineAlgorithm):
    """Send each ready task at once to where it finishes first, even if it queues there (BASIC).

    The baseline: no priorities, servers run tasks in the order of arrival. Not good if workflows
    share machines: slowdowns grow with the queues. Cost: tasks x processors. R. Bolze, F. Desprez,
    B. Isnard: Evaluation of online multi-workflow heuristics based on list-scheduling algorithms.
    GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "basic"


class GHeft(_OnlineAlgorithm):
    """Run the task with the greatest upward rank of all workflows first (G-HEFT).

    It minimises the makespan of all workflows together. Not good while workflows keep
    arriving: young ones have high ranks and starve those that are nearly done; its slowdowns were
    the worst of all. Cost: tasks x (active workflows + processors). R. Bolze, F. Desprez, B.
    Isnard: Evaluation of online multi-workflow heuristics based on list-scheduling algorithms.
    GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "g-heft"


class Aging(_OnlineAlgorithm):
    """As g-heft, but ranks grow linearly with age (aging G-HEFT).

    A rank is multiplied by 1 + age / makespan alone. It starves workflows less than g-heft, but
    most still end late and together; aging-exp is better. Cost: tasks x (active workflows +
    processors). R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics
    based on list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "aging"


class AgingExp(_OnlineAlgorithm):
    """As g-heft, but ranks grow exponentially with age (aging e G-HEFT).

    A rank is multiplied by e ** (1 + age / makespan alone), so that age soon decides. With foft the
    fairest: slowdowns are close together. If only the mean slowdown counts, use srpt. Cost: tasks x
    (active workflows + processors). R. Bolze, F. Desprez, B. Isnard: Evaluation of online
    multi-workflow heuristics based on list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "aging-exp"


class Fcfs(_OnlineAlgorithm):
    """First come, first served: the earliest workflow may use all that it can (FCFS).

    Easy to explain to users. Not good for small workflows among large ones: they wait as long as
    the large ones, so their slowdown is greatest. Cost: tasks x (active workflows + processors). R.
    Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "fcfs"


class Srpt(_OnlineAlgorithm):
    """Run the workflow with the least remaining work first (SRPT).

    Good for the lowest mean slowdown, if many workflows are small. Not good where large ones must
    not starve: they wait while small ones keep arriving. Cost: tasks x (active workflows +
    processors). R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics
    based on list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "srpt"


class Foft(_OnlineAlgorithm):
    """Run the workflow with the greatest expected slowdown first: finish-time fairness (FOFT).

    The expected slowdown of a workflow assumes that only its remaining tasks run from now on; it is
    relative to the makespan of the workflow alone. foft and aging-exp are the fairest; the mean
    slowdown of foft is second to that of srpt. Not good for streams of huge workflows: the rest of
    each is planned again at each event. Cost: events x active tasks x processors. R. Bolze, F.
    Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on list-scheduling
    algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "foft"
