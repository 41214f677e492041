"""Metrics of plans, and plans of moldable tasks.

The metrics are those of section 4.3 of "Dynamic Scheduling of Scientific Workflow Applications on
the Grid". They follow the critical path: from the task that ends last back to the predecessor whose
data arrived last, and so on. A machine of the paper is a processor here, so each core counts. If no
processor in use can run all tasks, there is no sequential time, and the metrics that need it are
NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zenturio.errors import unknown_name
from zenturio.schedule.model.evaluation import (
    order_rows,
    problem_arrays,
    processor_rows,
    times_by_capacity,
)
from zenturio.schedule.model.plan import SLACK, Plan, faults
from zenturio.schedule.model.problem import MoldableProblem, Problem
from zenturio.schedule.model.workflow import Floats, Indices
from zenturio.search.objective import Direction


@dataclass(frozen=True, slots=True)
class PlanMetric:
    """Name, direction, unit, one-line description and definition of a metric.

    In definitions, as in the paper, T is the makespan, p the number of processors used and S the
    sequential time.
    """

    name: str
    direction: Direction
    unit: str
    about: str
    definition: str


METRICS = {
    metric.name: metric
    for metric in (
        PlanMetric(
            "makespan",
            "minimize",
            "s",
            "execution time: when the last task ends",
            "T: when the last task ends",
        ),
        PlanMetric("speedup", "maximize", "", "the sequential time by the makespan", "S / T"),
        PlanMetric(
            "efficiency",
            "maximize",
            "",
            "the speedup by the number of processors used",
            "S / (p T)",
        ),
        PlanMetric(
            "communication",
            "minimize",
            "s",
            "transfers of data on the critical path",
            "time of the transfers on the critical path",
        ),
        PlanMetric(
            "synchronisation",
            "minimize",
            "s",
            "waiting for a processor on the critical path",
            "time in which tasks of the critical path wait for a processor although they have their"
            " data",
        ),
        PlanMetric(
            "overhead",
            "minimize",
            "s",
            "makespan beyond an even share of sequential time",
            "T - S / p",
        ),
        PlanMetric(
            "loss_of_parallelism",
            "minimize",
            "s",
            "overhead that neither waits nor transfers",
            "computation - S / p; so overhead = communication + synchronisation"
            " + loss_of_parallelism",
        ),
        PlanMetric(
            "throughput",
            "maximize",
            "1/s",
            "efficiency by makespan: for many workflows",
            "efficiency / T",
        ),
        PlanMetric(
            "cost",
            "minimize",
            "",
            "what cores cost a second, and machines a period",
            "sum over tasks of time x cores x `cost` of the machine, plus `price` for each started"
            " `billing` of each machine used, from switching it on to its last task",
        ),
        PlanMetric(
            "energy",
            "minimize",
            "J",
            "energy of the machines, while they are switched on",
            "joules of the machines used, while they are on; undefined (NaN) if no machine has"
            " power",
        ),
        PlanMetric(
            "reliability",
            "maximize",
            "",
            "probability that no machine fails under a task",
            "probability that no machine fails while it runs a task: exp(-sum over tasks of time /"
            " `mtbf`); undefined (NaN) if no machine has one",
        ),
        PlanMetric(
            "idle",
            "minimize",
            "",
            "the share of their time in which used processors idle",
            "1 - (time in which processors compute) / (p T)",
        ),
        PlanMetric(
            "slr",
            "minimize",
            "",
            "makespan by the longest path, each task at its fastest",
            "T / (longest path without transfers, each task on its fastest processor)",
        ),
        PlanMetric(
            "processors",
            "minimize",
            "",
            "how many processors are used",
            "p: processors that run at least one task",
        ),
        PlanMetric(
            "sequential",
            "minimize",
            "s",
            "all tasks on the best one of these processors",
            "S: all tasks one after the other, on that of the processors used which is best at it",
        ),
        PlanMetric(
            "computation",
            "minimize",
            "s",
            "the tasks on the critical path",
            "time of the tasks on the critical path",
        ),
    )
}


def metric(name: str) -> PlanMetric:
    """Return the metric *name*; NotFoundError if there is none."""
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    return METRICS[name]


@singledispatch
def metrics(plan: Any) -> dict[str, float]:
    """Return all metrics of *plan* by name."""
    raise TypeError(f"{plan!r} is not a plan")


@metrics.register
def _(plan: Plan) -> dict[str, float]:
    return MetricCalculator(plan.problem).of(plan)


class MetricCalculator:
    """Metrics of many plans of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.numbers = problem_arrays(problem)
        if problem.staged:
            # The times of tasks have their transfers already.
            still = np.zeros_like(problem.latency)
            self.numbers = self.numbers._replace(latency=still, slowness=still, moves=False)

    def of(self, plan: Plan) -> dict[str, float]:
        """Return all metrics of *plan*, taking its times as they are."""
        from zenturio.schedule.kernels.plan_times import FIGURES, plan_figures  # noqa: PLC0415

        row = np.empty((1, len(FIGURES)))
        used = np.empty(self.problem.processors, np.bool_)
        processors = plan.processor.astype(np.uint32)
        plan_figures(self.numbers, self.prices, processors, plan.start, plan.end, used, row[0])
        return {name: float(values[0]) for name, values in self._metrics(row).items()}

    def all(self, processors: ArrayLike, orders: ArrayLike) -> dict[str, Floats]:
        """Return each metric of each row of *processors*, as an array.

        *orders* has one order for each row, or a single one for all.
        """
        from zenturio.schedule.kernels.plan_times import (  # noqa: PLC0415 - loads Numba
            FIGURES,
            all_plan_figures,
            figures_of_times,
        )

        placements = processor_rows(self.numbers, processors)
        rows = np.empty((len(placements), len(FIGURES)))
        sequences = order_rows(self.numbers, orders, len(placements))
        if self.problem.resources is None:
            all_plan_figures(self.numbers, self.prices, placements, sequences, rows)
        else:
            times = times_by_capacity(self.problem, placements, sequences)
            figures_of_times(self.numbers, self.prices, placements, *times, rows)
        return self._metrics(rows)

    def losses(self, name: str, processors: ArrayLike, orders: ArrayLike) -> Floats:
        """Return the metric *name* of each plan as a loss: lower is better.

        Infinite where the metric is undefined.
        """
        sign = 1.0 if metric(name).direction == "minimize" else -1.0
        losses: Floats = sign * self.all(processors, orders)[name]
        return np.where(np.isfinite(losses), losses, np.inf)

    @cached_property
    def longest(self) -> float:
        """Seconds of the longest path, each task on its fastest processor."""
        from zenturio.schedule.kernels.plan_times import longest_path  # noqa: PLC0415

        problem = self.problem
        least = problem.work * problem.pace.min(axis=1)[problem.row]
        order = problem.order.astype(np.uint32)
        return float(longest_path(self.numbers, order, least, np.empty(problem.tasks)))

    @cached_property
    def prices(self) -> Any:
        """What machines cost, as kernels take it."""
        from zenturio.schedule.kernels.plan_times import PlanMetricArrays  # noqa: PLC0415

        problem = self.problem
        cores = np.ones(problem.tasks)
        for i, task in problem.workflow.more.items():
            cores[i] = task.cores
        machines = problem.platform.machines
        price = np.array([machine.cost for machine in machines], np.float64)[problem.node]
        facts = [
            (m.cores, m.boot, m.price, m.billing, m.power_idle, m.power_busy) for m in machines
        ]
        is_shared = problem.resources is not None
        width = [machine.cores if is_shared else 1 for machine in machines]
        return PlanMetricArrays(
            self._alone(),
            cores,
            price,
            np.array(width, np.float64)[problem.node],
            any(m.price or m.power_idle or m.power_busy for m in machines),
            np.array(facts, np.float64),
            1 / np.array([machine.mtbf for machine in machines], np.float64)[problem.node],
        )

    @property
    def _may_fail(self) -> bool:
        return bool(self.prices.failures.any())

    def _alone(self) -> Floats:
        """Return the seconds of all tasks on each processor; infinite where one cannot run."""
        problem = self.problem
        kinds = np.unique(problem.row)
        work = np.bincount(problem.row, problem.work, len(problem.pace))[kinds]
        pace = problem.pace[kinds]
        seconds: Floats = np.where(np.isfinite(pace), pace, 0.0).T @ work
        seconds[~np.isfinite(pace).all(axis=0)] = np.inf
        return seconds

    def _metrics(self, rows: Floats) -> dict[str, Floats]:
        from zenturio.schedule.kernels.plan_times import FIGURES  # noqa: PLC0415

        raw = dict(zip(FIGURES, rows.T, strict=True))
        time, used = raw["makespan"], raw["processors"]
        sequential = np.where(np.isfinite(raw["sequential"]), raw["sequential"], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            speedup = sequential / time
            share = sequential / used
            values = {
                **raw,
                "sequential": sequential,
                "speedup": speedup,
                "efficiency": speedup / used,
                "overhead": time - share,
                "loss_of_parallelism": raw["computation"] - share,
                "throughput": speedup / used / time,
                "reliability": np.exp(-raw["failures"])
                if self._may_fail
                else np.full(len(time), np.nan),
                "idle": 1 - raw["busy"] / (used * time),
                "slr": time / self.longest,
            }
        return {name: values[name] for name in METRICS}


@dataclass(frozen=True, eq=False)
class MoldablePlan:
    """A start, an end and a set of nodes for each task of *problem*.

    The nodes of task t are ``node[first[t]:first[t + 1]]``.
    """

    problem: MoldableProblem
    algorithm: str
    start: Floats
    end: Floats
    first: Indices
    node: Indices
    notes: dict[str, Any] = field(default_factory=dict)
    """Facts from the algorithm: generations, a Pareto front, why it stopped."""

    def __repr__(self) -> str:
        return f"<MoldablePlan by {self.algorithm}: {len(self.end)} tasks in {self.makespan:g} s>"

    @cached_property
    def counts(self) -> Indices:
        """The number of nodes of each task."""
        return np.diff(self.first).astype(np.int32)

    @cached_property
    def makespan(self) -> float:
        return float(self.end.max(initial=0.0))

    @cached_property
    def cost(self) -> float:
        """Node seconds used by tasks: what a shared cluster charges (Equation 7)."""
        return float(((self.end - self.start) * self.counts).sum())

    @property
    def paid(self) -> float:
        """Node seconds of the whole cluster until the end: what a dedicated cluster charges."""
        return self.problem.nodes * self.makespan

    @property
    def idle(self) -> float:
        """The share of the paid node seconds in which no task runs."""
        return 1 - self.cost / self.paid if self.paid else 0.0

    def nodes(self, task: int) -> Indices:
        """Return the numbers of the nodes that run *task*."""
        return self.node[self.first[task] : self.first[task + 1]]

    def machine(self, task: int) -> str:
        """Return where *task* runs, for display: machines and ranges of machines."""
        names = [machine.name for machine in self.problem.platform.machines]
        runs = np.split(self.nodes(task), np.flatnonzero(np.diff(self.nodes(task)) != 1) + 1)
        ends = [(names[run[0]], names[run[-1]]) for run in runs if len(run)]
        return ", ".join(a if a == b else f"{a}-{b}" for a, b in ends)


@metrics.register
def _(plan: MoldablePlan) -> dict[str, float]:
    """Those that other plans have too, with nodes for processors; then what clusters charge."""
    time, alone = plan.makespan, plan.problem.alone
    used = len(np.unique(plan.node))
    machines = plan.problem.platform.machines
    price = np.array([machine.cost * machine.cores for machine in machines], np.float64)
    lasts = np.repeat(plan.end - plan.start, plan.counts)
    speedup = alone / time if time else np.nan
    return {
        "makespan": time,
        "speedup": speedup,
        "efficiency": speedup / used if used else np.nan,
        "cost": float(price[plan.node] @ lasts),
        "idle": 1 - plan.cost / (used * time) if time else np.nan,
        "processors": float(used),
        "sequential": alone,
        "node_seconds": plan.cost,
        "paid_seconds": plan.paid,
        "unused": plan.idle,
    }


@faults.register
def _(plan: MoldablePlan) -> Iterator[str]:
    problem = plan.problem
    if not (len(plan.start) == len(plan.end) == len(plan.first) - 1 == problem.tasks):
        planned = min(len(plan.start), len(plan.end), len(plan.first) - 1)
        yield f"{planned} of {problem.tasks} tasks are planned"
        return
    names = problem.workflow.names
    slack = SLACK * max(plan.makespan, 1.0) if np.isfinite(plan.makespan) else SLACK
    for task in range(problem.tasks):
        start, end, count = plan.start[task], plan.end[task], int(plan.counts[task])
        takes = problem.time(task, count)
        if not -slack <= start <= end < np.inf:
            yield f"{names[task]} starts at {start} and ends at {end}"
        elif not np.isfinite(takes):
            yield f"{names[task]} cannot run on {count} nodes"
        elif not abs(end - start - takes) <= slack:
            yield f"{names[task]} lasts {end - start:g} s on {count} nodes, not {takes:g}"
        if len(set(plan.nodes(task).tolist()) & set(range(problem.nodes))) < count:
            yield f"{names[task]} has a node twice, or one that is not there"
    yield from _early_moldable_starts(plan, slack)
    yield from _shared_nodes(plan, slack)


def _early_moldable_starts(plan: MoldablePlan, slack: float) -> Iterator[str]:
    flow = plan.problem.workflow
    ready = plan.end[flow.sources] + plan.problem.delay
    for edge in np.flatnonzero(plan.start[flow.targets] < ready - slack):
        source, target = flow.sources[edge], flow.targets[edge]
        yield (
            f"{flow.names[target]} starts at {plan.start[target]:g}, "
            f"before {flow.names[source]} and its data are there, at {ready[edge]:g}"
        )


def _shared_nodes(plan: MoldablePlan, slack: float) -> Iterator[str]:
    """Yield tasks that overlap on a node; a task of zero length overlaps with none."""
    task = np.repeat(np.arange(len(plan.end)), plan.counts)
    lasting = np.flatnonzero((plan.end - plan.start)[task] > slack)
    order = lasting[np.lexsort((plan.start[task[lasting]], plan.node[lasting]))]
    earlier, later = order[:-1], order[1:]
    same_node = plan.node[earlier] == plan.node[later]
    names = plan.problem.workflow.names
    for i in np.flatnonzero(
        same_node & (plan.start[task[later]] < plan.end[task[earlier]] - slack)
    ):
        node = plan.problem.platform.machines[plan.node[earlier[i]]].name
        yield f"{names[task[earlier[i]]]} and {names[task[later[i]]]} overlap on {node}"
