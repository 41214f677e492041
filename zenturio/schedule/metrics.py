"""How good a plan is: the metrics of the papers, of one plan or of thousands at once.

Those of section 4.3 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" look
at the critical path: from the task that ends last back to the one whose data came last, and so on.
A machine there is a processor here: each core counts. Where no processor that is used can run all
tasks, there is no sequential time, and what needs it is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zenturio.errors import NotFoundError, did_you_mean
from zenturio.schedule.evaluate import order_rows, problem_arrays, processor_rows
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats
from zenturio.search.objective import Direction


@dataclass(frozen=True, slots=True)
class PlanMetric:
    name: str
    direction: Direction
    unit: str
    about: str


METRICS = {
    metric.name: metric
    for metric in (
        PlanMetric("makespan", "minimize", "s", "execution time: when the last task ends"),
        PlanMetric("speedup", "maximize", "", "the sequential time by the makespan"),
        PlanMetric("efficiency", "maximize", "", "the speedup by the number of processors used"),
        PlanMetric("communication", "minimize", "s", "transfers of data on the critical path"),
        PlanMetric(
            "synchronisation", "minimize", "s", "waiting for a processor on the critical path"
        ),
        PlanMetric("overhead", "minimize", "s", "makespan beyond an even share of sequential time"),
        PlanMetric(
            "loss_of_parallelism", "minimize", "s", "overhead that neither waits nor transfers"
        ),
        PlanMetric("throughput", "maximize", "1/s", "efficiency by makespan: for many workflows"),
        PlanMetric("cost", "minimize", "", "seconds of cores, each at the price of its machine"),
        PlanMetric("idle", "minimize", "", "the share of their time in which used processors idle"),
        PlanMetric("slr", "minimize", "", "makespan by the longest path, each task at its fastest"),
        PlanMetric("processors", "minimize", "", "how many processors are used"),
        PlanMetric("sequential", "minimize", "s", "all tasks on the best one of these processors"),
        PlanMetric("computation", "minimize", "s", "the tasks on the critical path"),
    )
}


def metric(name: str) -> PlanMetric:
    """The metric *name*; NotFoundError, if there is none."""
    if name not in METRICS:
        raise NotFoundError(f"no metric is named {name!r}", hint=did_you_mean(name, METRICS))
    return METRICS[name]


@singledispatch
def metrics(plan: Any) -> dict[str, float]:
    """All metrics of *plan*, by their names."""
    raise TypeError(f"{plan!r} is no plan")


@metrics.register
def _(plan: Plan) -> dict[str, float]:
    return MetricCalculator(plan.problem).of(plan)


class MetricCalculator:
    """The metrics of plans of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.numbers = problem_arrays(problem)

    def of(self, plan: Plan) -> dict[str, float]:
        """All metrics of *plan*, whose times are taken as they are."""
        from zenturio.schedule.kernels.account import FIGURES, plan_figures  # noqa: PLC0415

        row = np.empty((1, len(FIGURES)))
        used = np.empty(self.problem.processors, np.bool_)
        where = plan.processor.astype(np.uint32)
        plan_figures(self.numbers, self._prices, where, plan.start, plan.end, used, row[0])
        return {name: float(values[0]) for name, values in self._metrics(row).items()}

    def all(self, processors: ArrayLike, orders: ArrayLike) -> dict[str, Floats]:
        """Each metric of each row of *processors*, played in its row of *orders*, or the only."""
        from zenturio.schedule.kernels.account import FIGURES, all_plan_figures  # noqa: PLC0415

        where = processor_rows(self.numbers, processors)
        rows = np.empty((len(where), len(FIGURES)))
        sequences = order_rows(self.numbers, orders, len(where))
        all_plan_figures(self.numbers, self._prices, where, sequences, rows)
        return self._metrics(rows)

    def losses(self, name: str, processors: ArrayLike, orders: ArrayLike) -> Floats:
        """The metric *name* of each plan, the lower the better; infinite where there is none."""
        sign = 1.0 if metric(name).direction == "minimize" else -1.0
        found: Floats = sign * self.all(processors, orders)[name]
        return np.where(np.isfinite(found), found, np.inf)

    @cached_property
    def longest(self) -> float:
        """The longest path through the workflow, each task on the processor where it is fastest."""
        from zenturio.schedule.kernels.account import longest_path  # noqa: PLC0415

        problem = self.problem
        least = problem.work * problem.pace.min(axis=1)[problem.row]
        order = problem.order.astype(np.uint32)
        return float(longest_path(self.numbers, order, least, np.empty(problem.tasks)))

    @cached_property
    def _prices(self) -> Any:
        from zenturio.schedule.kernels.account import CostArrays  # noqa: PLC0415

        problem = self.problem
        cores = np.ones(problem.tasks)
        for i, task in problem.workflow.more.items():
            cores[i] = task.cores
        machines = problem.platform.machines
        price = np.array([machine.cost for machine in machines], np.float64)[problem.node]
        return CostArrays(self._alone(), cores, price)

    def _alone(self) -> Floats:
        """Seconds of all tasks on each processor; infinite where one of them cannot run."""
        problem = self.problem
        kinds = np.unique(problem.row)
        work = np.bincount(problem.row, problem.work, len(problem.pace))[kinds]
        pace = problem.pace[kinds]
        found: Floats = np.where(np.isfinite(pace), pace, 0.0).T @ work
        found[~np.isfinite(pace).all(axis=0)] = np.inf
        return found

    def _metrics(self, rows: Floats) -> dict[str, Floats]:
        from zenturio.schedule.kernels.account import FIGURES  # noqa: PLC0415

        raw = dict(zip(FIGURES, rows.T, strict=True))
        time, used = raw["makespan"], raw["processors"]
        sequential = np.where(np.isfinite(raw["sequential"]), raw["sequential"], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            speedup = sequential / time
            share = sequential / used
            found = {
                **raw,
                "sequential": sequential,
                "speedup": speedup,
                "efficiency": speedup / used,
                "overhead": time - share,
                "loss_of_parallelism": raw["computation"] - share,
                "throughput": speedup / used / time,
                "idle": 1 - raw["busy"] / (used * time),
                "slr": time / self.longest,
            }
        return {name: found[name] for name in METRICS}
