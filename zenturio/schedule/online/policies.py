"""The policy that shares machines among workflows while these, and the machines, change.

It decides as `kernels.sharing` does, which is faster where nothing disturbs the machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np

from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.kernels.priority import POLICIES, WaitingWorkflow, priority
from zenturio.schedule.model.evaluation import problem_arrays, topological_orders
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats, Indices
from zenturio.schedule.online.stream import StreamResult, WorkflowStream
from zenturio.schedule.simulate.machine_state import MachineState
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
from zenturio.search.settings import setting

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


@dataclass(frozen=True, eq=False)
class OnlineSimulation:
    """*stream* on *platform*: what all policies need is computed once."""

    stream: WorkflowStream
    platform: Platform

    def play(
        self,
        policy: str,
        by: Granularity = "task",
        disturbance: Perturbation | None = None,
        seed: int = 0,
    ) -> StreamResult:
        """What becomes of the workflows under *policy*, which knows none before it arrives.

        Machines have the loads that the platform tells, and are disturbed on top of them.
        """
        if policy not in POLICIES:
            hint = did_you_mean(policy, POLICIES)
            raise NotFoundError(f"no policy is named {policy!r}", hint=hint)
        changing = any(machine.load for machine in self.platform.machines)
        if disturbance is None and not changing:
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
        """All workflows as one, which no algorithm of another kind should see."""
        return Problem.of(self.stream.workflow, self.platform)

    @cached_property
    def ranked(self) -> RankedTasks:
        problem = self.problem
        mean = mean_times(problem)
        rank, order = _ranks(problem)
        owner = self.stream.owner
        return RankedTasks(
            self.stream.arrivals, self._alone(), owner, self.stream.first,
            order[np.argsort(owner[order], kind="stable")], rank, mean,
        )  # fmt: skip

    @property
    def _arrivals(self) -> Floats:
        return self.stream.arrivals[self.stream.owner]

    def _alone(self) -> Floats:
        """The makespan of each workflow, if HEFT had all machines for it."""
        known: dict[int, float] = {}
        for each in self.stream.submissions:
            flow = each.workflow
            if id(flow) not in known:
                known[id(flow)] = _heft_makespan(Problem.of(flow, self.platform))
            if not known[id(flow)] > 0:
                raise InputError(
                    f"workflow {each.name!r} takes no time", hint="give its tasks some work"
                )
        return np.array([known[id(each.workflow)] for each in self.stream.submissions])

    def _steady(self, policy: str, by: Granularity) -> Plan:
        from zenturio.schedule.kernels.machine_sharing import share_machines  # noqa: PLC0415 - loads Numba

        count = self.problem.tasks
        start, end = np.full(count, np.nan), np.full(count, np.nan)
        where = np.full(count, -1, np.int64)
        known, tasks = self._bare
        share_machines(known, tasks, POLICIES.index(policy), by == "dag", start, end, where)
        assert (where >= 0).all(), "a task was left lying"
        return Plan(self.problem, policy, where.astype(np.int32), start, end)

    @cached_property
    def _bare(self) -> tuple[Any, Any]:
        """The workflows as the kernel wants them."""
        from zenturio.schedule.kernels.machine_sharing import SharedTasks  # noqa: PLC0415 - loads Numba

        problem, ranked = self.problem, self.ranked
        place = np.empty(problem.tasks, np.int64)
        place[ranked.sequence] = np.arange(problem.tasks)
        tasks = SharedTasks(
            ranked.arrival,
            ranked.alone,
            ranked.first.astype(np.int64),
            ranked.sequence.astype(np.int64),
            place,
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
    """The ranks of HEFT, and the tasks in the order that they make."""
    rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    return rank, topological_orders(problem, -rank)


def _heft_makespan(problem: Problem) -> float:
    """The makespan of HEFT."""
    return list_schedule(problem, "heft", _ranks(problem)[1]).makespan


@dataclass(frozen=True)
class OnlineSettings:
    by: Granularity = setting(
        "task", "what is ordered: all ready tasks, or one of each workflow (dag)"
    )


class _OnlineAlgorithm:
    """What all have in common: settings, and being played."""

    kind: ClassVar[Kind] = "online"
    Settings = OnlineSettings
    policy: ClassVar[str]

    def __init__(self, settings: OnlineSettings | None = None, _seed: int = 0) -> None:
        self._by: Granularity = (settings or OnlineSettings()).by

    def play(
        self, online: OnlineSimulation, disturbance: Perturbation | None = None, seed: int = 0
    ) -> StreamResult:
        """What becomes of the workflows of *online*."""
        return online.play(self.policy, self._by, disturbance, seed)


class Basic(_OnlineAlgorithm):
    """Each task to where it ends first, as soon as it is ready; it may wait there (BASIC).

    To compare with: nobody decides whose turn it is, servers run what they are sent in its order.
    Not for use beside others: slowdowns are as long as the queues.
    Cost: tasks x processors.
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "basic"


class GHeft(_OnlineAlgorithm):
    """The task with the longest way to an end first, whoever it is of (G-HEFT).

    For the end of all, as if they were one workflow. Not while workflows keep coming: what is
    young has long ways, and starves what is nearly done; its slowdowns were the worst of all.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "g-heft"


class Aging(_OnlineAlgorithm):
    """As g-heft, but ranks grow with age, in a straight line (aging G-HEFT).

    A rank counts 1 + age / makespan alone. Milder than g-heft, but most workflows still end
    late, together: aging-exp is better.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "aging"


class AgingExp(_OnlineAlgorithm):
    """As g-heft, but ranks grow with age exponentially (aging e G-HEFT).

    A rank counts e ** (1 + age / makespan alone), so that soon age alone decides. With foft the
    fairest: slowdowns lie close together. Not where the mean slowdown is all that counts: srpt.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "aging-exp"


class Fcfs(_OnlineAlgorithm):
    """First come, first served: what arrived first may use all that it can.

    For a promise that anybody understands. Not for small workflows among large ones: they wait
    as long, and suffer most.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "fcfs"


class Srpt(_OnlineAlgorithm):
    """The workflow with the least work left first (SRPT).

    For the lowest mean slowdown, if many workflows are small. Not where large ones must not
    starve: they wait while small ones keep coming.
    Cost: tasks x (workflows that are there + processors).
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "srpt"


class Foft(_OnlineAlgorithm):
    """The workflow that will have been slowed down most first: fairness on finish time (FOFT).

    The slowdown is what it would be if all that the workflow has left were for it from now on,
    by its makespan alone. With aging-exp the fairest, and next to srpt in the mean. Not for
    streams of huge workflows: each time, all that is left of each is planned again.
    Cost: events x tasks that are there x processors.
    R. Bolze, F. Desprez, B. Isnard: Evaluation of online multi-workflow heuristics based on
    list-scheduling algorithms. GWENDIA L3.3 (ANR-06-MDCA-009).
    """

    policy = "foft"
