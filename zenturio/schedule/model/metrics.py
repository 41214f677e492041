"""How good a plan is: the metrics of the papers, of one plan or of thousands at once.

Those of section 4.3 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" look
at the critical path: from the task that ends last back to the one whose data came last, and so on.
A machine there is a processor here: each core counts. Where no processor that is used can run all
tasks, there is no sequential time, and what needs it is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zenturio.errors import NotFoundError, did_you_mean
from zenturio.schedule.model.evaluation import order_rows, problem_arrays, processor_rows
from zenturio.schedule.model.plan import SLACK, Plan, faults
from zenturio.schedule.model.problem import MoldableProblem, Problem
from zenturio.schedule.model.workflow import Floats, Indices
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
        from zenturio.schedule.kernels.plan_times import FIGURES, plan_figures  # noqa: PLC0415

        row = np.empty((1, len(FIGURES)))
        used = np.empty(self.problem.processors, np.bool_)
        where = plan.processor.astype(np.uint32)
        plan_figures(self.numbers, self._prices, where, plan.start, plan.end, used, row[0])
        return {name: float(values[0]) for name, values in self._metrics(row).items()}

    def all(self, processors: ArrayLike, orders: ArrayLike) -> dict[str, Floats]:
        """Each metric of each row of *processors*, played in its row of *orders*, or the only."""
        from zenturio.schedule.kernels.plan_times import FIGURES, all_plan_figures  # noqa: PLC0415

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
        from zenturio.schedule.kernels.plan_times import longest_path  # noqa: PLC0415

        problem = self.problem
        least = problem.work * problem.pace.min(axis=1)[problem.row]
        order = problem.order.astype(np.uint32)
        return float(longest_path(self.numbers, order, least, np.empty(problem.tasks)))

    @cached_property
    def _prices(self) -> Any:
        from zenturio.schedule.kernels.plan_times import CostArrays  # noqa: PLC0415

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
        from zenturio.schedule.kernels.plan_times import FIGURES  # noqa: PLC0415

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


@dataclass(frozen=True, eq=False)
class MoldablePlan:
    """A start, an end and some nodes for each task of *problem*.

    Those of task t are ``node[first[t]:first[t + 1]]``.
    """

    problem: MoldableProblem
    algorithm: str
    start: Floats
    end: Floats
    first: Indices
    node: Indices
    notes: dict[str, Any] = field(default_factory=dict)
    """What the algorithm tells of itself: generations, a front, a reason to stop."""

    def __repr__(self) -> str:
        return f"<MoldablePlan by {self.algorithm}: {len(self.end)} tasks in {self.makespan:g} s>"

    @cached_property
    def counts(self) -> Indices:
        """How many nodes each task has."""
        return np.diff(self.first).astype(np.int32)

    @cached_property
    def makespan(self) -> float:
        return float(self.end.max(initial=0.0))

    @cached_property
    def cost(self) -> float:
        """Node seconds that tasks take: what a shared cluster charges (Equation 7)."""
        return float(((self.end - self.start) * self.counts).sum())

    @property
    def paid(self) -> float:
        """Node seconds of the whole cluster until the end: what a dedicated one charges."""
        return self.problem.nodes * self.makespan

    @property
    def idle(self) -> float:
        """The share of these in which no task runs: the paper's unused resources."""
        return 1 - self.cost / self.paid if self.paid else 0.0

    def nodes(self, task: int) -> Indices:
        """The numbers of the nodes that run *task*."""
        return self.node[self.first[task] : self.first[task + 1]]

    def machine(self, task: int) -> str:
        """Where *task* runs, as a person reads it: machines, and from which to which."""
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
    """Tasks of one node at one time; a task of no length is in nobody's way."""
    task = np.repeat(np.arange(len(plan.end)), plan.counts)
    lasting = np.flatnonzero((plan.end - plan.start)[task] > slack)
    order = lasting[np.lexsort((plan.start[task[lasting]], plan.node[lasting]))]
    one, other = order[:-1], order[1:]
    same = plan.node[one] == plan.node[other]
    names = plan.problem.workflow.names
    for i in np.flatnonzero(same & (plan.start[task[other]] < plan.end[task[one]] - slack)):
        node = plan.problem.platform.machines[plan.node[one[i]]].name
        yield f"{names[task[one[i]]]} and {names[task[other[i]]]} overlap on {node}"


_MAX_INTERVALS = 4_000_000
"""Tasks times beginnings of intervals, at the most."""
_MAX_THRESHOLDS = 64
"""Sets of tasks that are tried of each level, by how much comes behind them."""
_MAX_EXACT = 2.0**40
"""Numbers up to this are added without rounding, if they are whole."""


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Lower bounds of the makespan, each by its reason."""

    critical: float
    """The longest way, each task where it is fastest, and no transfer.

    What waits for a task, or a task for, is done together where that takes longer."""
    load: float
    """All work, spread evenly."""
    crowded: float
    """Work that must lie in some interval (Fernandez and Bussell, 1973)."""
    level: float
    """Tasks that are not to be cut: if two share a processor, that takes twice as long."""

    @property
    def best(self) -> float:
        return max(self.critical, self.load, self.crowded, self.level)


def lower_bounds(problem: Problem) -> LowerBounds:
    """What is known about the shortest plan of *problem*."""
    if not problem.tasks:
        return LowerBounds(0.0, 0.0, 0.0, 0.0)
    least: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    unit = _equal_task_times(problem)
    head, tail = _heads_and_tails(problem, least, unit)
    critical = float((head + least + tail).max())
    whole = _has_whole_times(problem)
    found = (
        critical,
        _load_bound(problem, least),
        _interval_bound(problem, least, head, tail, critical),
        _level_bound(problem, least, unit, head, tail),
    )
    return LowerBounds(*(float(math.ceil(each - 1e-9)) if whole else each for each in found))


def lower_bound(problem: Problem) -> float:
    """The best of the lower bounds."""
    return lower_bounds(problem).best


def gap(makespan: float, bound: float) -> float:
    """By which share of *bound* a plan is longer, at the most."""
    return max(0.0, makespan / bound - 1) if bound else 0.0


def _heads_and_tails(problem: Problem, least: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """How long it takes to each task, and from its end on, at the least."""
    from zenturio.schedule.kernels.bounding import earliest_starts  # noqa: PLC0415 - loads Numba

    count = len(_fastest(problem))
    order = problem.order.astype(np.uint32)
    head, tail = (
        earliest_starts(
            order[::step],
            links.start.astype(np.uint64),
            links.task.astype(np.uint32),
            problem.work,
            least,
            unit,
            count,
        )
        for step, links in ((1, problem.before), (-1, problem.after))
    )
    return head, tail


def _has_whole_times(problem: Problem) -> bool:
    """Whether all plans are of whole numbers: then so are the shortest."""
    moves = problem.latency.any() or (problem.slowness.any() and problem.workflow.data.any())
    if moves or problem.work.sum() * _finite_paces(problem).max() > _MAX_EXACT:
        return False
    times = np.unique(problem.work)[:, None] * np.unique(_finite_paces(problem))
    return bool((times == np.floor(times)).all())


def _finite_paces(problem: Problem) -> Floats:
    pace = problem.pace[np.unique(problem.row)]
    return pace[np.isfinite(pace)]


def _fastest(problem: Problem) -> Floats:
    """For each processor, the least that any task takes there for a unit of its work."""
    found: Floats = problem.pace[np.unique(problem.row)].min(axis=0)
    return found[np.isfinite(found)]


def _load_bound(problem: Problem, least: Floats) -> float:
    pace = _fastest(problem)
    even = float(least.sum()) / len(pace)
    speed = float((1 / pace).sum()) if pace.all() else math.inf
    return max(even, float(problem.work.sum()) / speed)


def _interval_bound(
    problem: Problem, least: Floats, head: Floats, tail: Floats, critical: float
) -> float:
    from zenturio.schedule.kernels.bounding import interval_excess  # noqa: PLC0415 - loads Numba

    lasting = least > 0
    first, length = head[lasting], least[lasting]
    last = (critical - tail - least)[lasting]
    begins = np.unique(np.concatenate([first, last]))
    step = max(1, -(-len(begins) * len(first) // _MAX_INTERVALS))
    more = float(interval_excess(first, last, length, begins[::step], len(_fastest(problem))))
    return critical + more


def _equal_task_times(problem: Problem) -> Floats:
    """The shortest times for 1, 2, ... equal tasks: as many as a level or a task's neighbours."""
    from zenturio.schedule.kernels.bounding import equal_task_times  # noqa: PLC0415 - loads Numba

    links = problem.before.start, problem.after.start
    most = max(np.bincount(problem.workflow.level).max(), *(np.diff(each).max() for each in links))
    found: Floats = equal_task_times(_fastest(problem), most)
    return found


def _level_bound(
    problem: Problem, least: Floats, unit: Floats, head: Floats, tail: Floats
) -> float:
    """Of each level, tasks that are done together: the first before them, the last behind them."""
    from zenturio.schedule.kernels.bounding import joint_time  # noqa: PLC0415 - loads Numba

    level, count = problem.workflow.level, len(_fastest(problem))
    by = np.lexsort((-tail, level))
    best = 0.0
    for row in np.split(by, np.flatnonzero(np.diff(level[by])) + 1):
        for stop in np.unique(np.linspace(1, len(row), _MAX_THRESHOLDS).astype(int)):
            some = row[:stop]
            behind = float(joint_time(some, problem.work, least, unit, count))
            best = max(best, float(head[some].min()) + behind + float(tail[row[stop - 1]]))
    return best
