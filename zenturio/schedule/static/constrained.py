"""List algorithms that keep a budget or a deadline: HEFT with a budget, and IC-PCP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, topological_orders
from zenturio.schedule.model.metrics import MetricCalculator, metrics
from zenturio.schedule.model.plan import SLACK, Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats
from zenturio.schedule.static.list_scheduling import (
    heft,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.schedule.static.partial_plans import Ints, PartialPlans
from zenturio.settings.schema import setting


def cost_rates(problem: Problem) -> Floats:
    """Return what a second of a task of one core costs on each processor, periods by their share.

    The price of a machine counts whole, because a task may be the only one on it.
    """
    machines = problem.platform.machines
    rates = np.array([m.cost + m.price / m.billing for m in machines])
    return rates[problem.node]


@dataclass(frozen=True)
class HeftBudgetSettings:
    budget: float | None = setting(
        None, "what the plan may cost; auto: the mean of HEFT and the cheapest", low=0
    )


class HeftBudget:
    """Place tasks as HEFT, each on the processor that its share of a budget can pay (BHEFT).

    Each task may cost its mean cost, plus a share of the spare budget in proportion to that cost.
    Good for clouds, with --budget. Costs are charged by billing period: once an hour is paid,
    further tasks on that machine in the same hour are free. Because this saves money, the algorithm
    also plans with larger budgets, as long as the plan costs no more than the given one, and tries
    the plans of HEFT and of least cost. Cost: several times that of HEFT, times the machines. W.
    Zheng, R. Sakellariou: Budget-deadline constrained workflow planning for admission control.
    Journal of Grid Computing 11(4), 2013.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[HeftBudgetSettings]] = HeftBudgetSettings

    def __init__(self, settings: HeftBudgetSettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self._settings = settings or HeftBudgetSettings()

    def plan(self, problem: Problem) -> Plan:
        plans = [heft(problem), cheapest_plan(problem)]
        costs = [metrics(plan)["cost"] for plan in plans]
        budget = self._settings.budget
        if budget is None:
            budget = sum(costs) / 2
        for factor in _BUDGET_FACTORS:
            plans.append(budget_plan(problem, budget * factor))
            costs.append(metrics(plans[-1])["cost"])
            if costs[-1] > budget * (1 + SLACK):
                break
        affordable = [plans[i] for i, cost in enumerate(costs) if cost <= budget * (1 + SLACK)]
        if not affordable:
            raise InputError(
                f"heft-budget found no plan with cost {budget:g}",
                hint=f"its cheapest costs {min(costs):g}; --front makespan+cost looks further",
            )
        best = min(affordable, key=lambda plan: plan.makespan)
        return replace(best, algorithm="heft-budget", notes={"budget": budget})


_BUDGET_FACTORS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0)
"""Budgets that are tried, by the one that is set."""


def budget_plan(problem: Problem, budget: float) -> Plan:
    """Return the plan of HEFT in which each task takes what its share of *budget* can pay."""
    rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    order = topological_orders(problem, -rank)
    rates = cost_rates(problem)
    pace = np.where(np.isfinite(problem.pace), problem.pace, np.nan)
    # Mean cost of each task over the processors that can run it.
    mean_rate = np.array([np.nanmean(row * rates) for row in pace])
    expected = problem.work * mean_rate[problem.row]
    remaining = float(expected.sum())
    partial = PartialPlans(problem, ["makespan", "cost"])
    for task in order.tolist():
        grown = partial.extensions(task)
        costs = partial.losses(task, grown)[:, 1]
        remaining -= expected[task]
        # What this plan may cost after the task, if all others cost what is expected.
        spare = budget - partial.cost - remaining - expected[task]
        share = expected[task] / (remaining + expected[task]) if expected[task] else 0.0
        limit = partial.cost + expected[task] + spare * share
        affordable = np.flatnonzero(costs <= limit * (1 + SLACK))
        if len(affordable):
            chosen = affordable[np.lexsort((costs[affordable], grown.end[affordable]))[0]]
        else:
            chosen = np.lexsort((grown.end, costs))[0]
        partial.keep(task, grown, np.array([chosen]))
    return evaluate(problem, partial.places[0], order, "heft-budget")


def cheapest_plan(problem: Problem) -> Plan:
    """Return the plan in which each task raises the cost least; on ties, where it ends first."""
    return budget_plan(problem, 0.0)


@dataclass(frozen=True)
class IcPcpSettings:
    deadline: float | None = setting(
        None, "seconds in which the plan must end; auto: half as long again as HEFT", low=0
    )


class IcPcp:
    """Put critical paths on the cheapest machines that keep a deadline (IC-PCP).

    Working back from the end of the workflow, it places each path of unplaced tasks as a whole on
    the cheapest processor that keeps the deadline. Unlike in the paper, placed tasks may still
    start later. Good for clouds, with --deadline: it minimises only the cost. If a path fits on no
    processor, it goes to the one where the workflow ends first. It also plans with shorter
    deadlines, in case a plan ends late. Not good for thousands of tasks. Cost: paths x processors x
    edges. S. Abrishami, M. Naghibzadeh, D. Epema: Deadline-constrained workflow scheduling
    algorithms for Infrastructure as a Service clouds. FGCS 29(1), 2013.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[IcPcpSettings]] = IcPcpSettings

    def __init__(self, settings: IcPcpSettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self._settings = settings or IcPcpSettings()

    def plan(self, problem: Problem) -> Plan:
        plans, deadline = [heft(problem)], self._settings.deadline
        if deadline is None:
            deadline = 1.5 * plans[0].makespan
        limit = deadline * (1 + SLACK)
        plans += [deadline_plan(problem, deadline * share) for share in _DEADLINE_SHARES]
        timely = [plan for plan in plans if plan.makespan <= limit]
        if not timely:
            least = min(plan.makespan for plan in plans)
            raise InputError(
                f"ic-pcp found no plan that ends within {deadline:g} s",
                hint=f"its shortest takes {least:g} s",
            )
        best = min(timely, key=lambda plan: metrics(plan)["cost"])
        return replace(best, algorithm="ic-pcp", notes={"deadline": deadline})


_DEADLINE_SHARES = (1.0, 0.9, 0.8, 0.65, 0.5)
"""Deadlines that are tried: where a path fits nowhere, a plan ends late."""


def deadline_plan(problem: Problem, deadline: float) -> Plan:
    """Return the plan of IC-PCP, which may end after *deadline* if a path fits nowhere."""
    paths = _PartialCriticalPaths(problem, deadline)
    paths.place_all()
    return evaluate(problem, paths.place, paths.order, "ic-pcp")


class _PartialCriticalPaths:
    """Tasks that are placed path by path; those without a place run at once where they are fast."""

    def __init__(self, problem: Problem, deadline: float) -> None:
        from zenturio.schedule.kernels.plan_times import partial_charges  # noqa: PLC0415 - loads Numba

        self._problem = problem
        self._deadline = deadline * (1 + SLACK)
        self._charges = partial_charges
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        self.order = topological_orders(problem, -rank)
        gauge = MetricCalculator(problem)
        self._numbers, self._prices = gauge.numbers, gauge.prices
        self._fastest: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
        # Inputs come in the order of ``before``, delays in that of the edges.
        self._delays = mean_delays(problem)[problem.before.edge]
        self._groups: dict[int, list[int]] = {}
        for task, group in enumerate(problem.group.tolist()):
            self._groups.setdefault(group, []).append(task)
        self._kinds = _machine_kinds(problem)
        self.place = np.full(problem.tasks, -1, np.int64)
        self._start, self._end = np.zeros(problem.tasks), np.zeros(problem.tasks)

    def place_all(self) -> None:
        # From the tasks that end last back, as if one task followed them all.
        self._evaluate(self.place)
        while (self.place < 0).any():
            free = np.flatnonzero(self.place < 0)
            path = [int(free[np.argmax(self._end[free])])]
            while (parent := self._critical_parent(path[-1])) is not None:
                path.append(parent)
            self._place_path(path)

    def _critical_parent(self, task: int) -> int | None:
        """Return the parent without a place whose data arrive last."""
        before = self._problem.before
        edges = range(before.start[task], before.start[task + 1])
        free = [edge for edge in edges if self.place[before.task[edge]] < 0]
        if not free:
            return None
        last = max(free, key=lambda edge: self._end[before.task[edge]] + self._delays[edge])
        return int(before.task[last])

    def _place_path(self, path: list[int]) -> None:
        """Place *path* on the cheapest processor that keeps the deadline, or the fastest."""
        problem = self._problem
        tasks = sorted({t for task in path for t in self._groups[int(problem.group[task])]})
        fits: NDArray[np.bool_] = np.isfinite(problem.pace[problem.row[tasks]]).min(axis=0)
        options = []
        for processor in self._candidates(fits):
            place = self.place.copy()
            place[tasks] = processor
            makespan, cost = self._evaluate(place)
            is_late = makespan > self._deadline
            options.append((is_late, makespan if is_late else cost, makespan, processor))
        if not options:  # no machine runs all of them: one after the other
            for task in path:
                if self.place[task] < 0:
                    self._place_path([task])
            return
        self.place[tasks] = min(options)[-1]
        self._evaluate(self.place)

    def _candidates(self, fits: NDArray[np.bool_]) -> list[int]:
        """Return the processors of machines in use, and the first one of each kind that is not."""
        in_use = set(self._problem.node[self.place[self.place >= 0]].tolist())
        chosen, kinds = [], set()
        for processor in np.flatnonzero(fits).tolist():
            if int(self._problem.node[processor]) not in in_use:
                if self._kinds[processor] in kinds:
                    continue
                kinds.add(self._kinds[processor])
            chosen.append(processor)
        return chosen

    def _evaluate(self, place: Ints) -> tuple[float, float]:
        """Return makespan and cost, and fill the times; what has no place costs nothing."""
        makespan, cost = self._charges(
            self._numbers, self._prices, place, self.order, self._fastest, self._delays,
            self._start, self._end,
        )  # fmt: skip
        return float(makespan), float(cost)


def _machine_kinds(problem: Problem) -> list[tuple[object, ...]]:
    """Return a key of each processor, equal where machines differ by their names only."""
    machines = problem.platform.machines
    kinds = [replace(machine, name="") for machine in machines]
    return [
        (kinds[machine], problem.pace[:, processor].tobytes())
        for processor, machine in enumerate(problem.node.tolist())
    ]
