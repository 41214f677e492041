"""A stream of workflows, played on a platform under one policy or another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.schedule.evaluate import problem_arrays, topological_orders
from zenturio.schedule.kernels.priority import POLICIES
from zenturio.schedule.listing import list_schedule, mean_delays, mean_times, upward_ranks
from zenturio.schedule.perturb import Perturbation, simulate_perturbed
from zenturio.schedule.plan import Plan
from zenturio.schedule.platform import Platform
from zenturio.schedule.problem import Problem
from zenturio.schedule.sharing import Granularity, RankedTasks, SharingPolicy
from zenturio.schedule.simulate import simulate
from zenturio.schedule.stream import WorkflowStream
from zenturio.schedule.streamed import StreamResult
from zenturio.schedule.workflow import Floats, Indices


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
        from zenturio.schedule.kernels.sharing import share_machines  # noqa: PLC0415 - loads Numba

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
        from zenturio.schedule.kernels.sharing import SharedTasks  # noqa: PLC0415 - loads Numba

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
