"""Plan to times: who runs what, in which order, to when each task starts and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats, Indices

if TYPE_CHECKING:
    from zenturio.schedule.kernels.plan_times import ProblemArrays


Unsigned = NDArray[np.uint32]


def problem_arrays(problem: Problem) -> ProblemArrays:
    """*problem* as the bare arrays that compiled functions take; make it once, use it often."""
    from zenturio.schedule.kernels.plan_times import ProblemArrays  # noqa: PLC0415 - loads Numba

    before, slow = problem.before, problem.slowness
    return ProblemArrays(
        np.ascontiguousarray(problem.work),
        problem.row.astype(np.uint32),
        np.ascontiguousarray(problem.pace),
        before.start.astype(np.uint64),
        before.task.astype(np.uint32),
        problem.workflow.data[before.edge],
        problem.node.astype(np.uint32),
        problem.site.astype(np.uint32),
        np.ascontiguousarray(problem.latency),
        np.ascontiguousarray(slow),
        bool(problem.latency.any() or (slow.any() and problem.workflow.data.any())),
    )


def makespans(given: ProblemArrays, processors: ArrayLike, orders: ArrayLike) -> Floats:
    """The makespan of each row of *processors*, with its row of *orders*, or with the only one.

    An order lists all tasks, each after those that it waits for (`orders_by`); a processor runs
    its tasks in this order. Infinite, where a task cannot run on its processor, or stands before
    one that it waits for.
    """
    from zenturio.schedule.kernels.plan_times import all_makespans  # noqa: PLC0415

    rows = processor_rows(given, processors)
    sequences = order_rows(given, orders, len(rows))
    found = np.empty(len(rows))
    all_makespans(given, rows, sequences, found)
    return found


def topological_orders(problem: Problem, ranks: ArrayLike) -> Indices:
    """All tasks, each after those that it waits for; of the ready ones, the lowest rank first.

    *ranks* has a number for each task, or a row of them for each order that is wanted.
    """
    from zenturio.schedule.kernels.plan_times import topological_sorts  # noqa: PLC0415

    given = np.ascontiguousarray(ranks, np.float64)
    rows = np.atleast_2d(given)
    if rows.ndim != 2 or rows.shape[1] != problem.tasks or np.isnan(rows).any():
        raise InputError(f"a rank for each of {problem.tasks} tasks, and no NaN")
    _ = problem.order  # refuses a loop
    found = np.empty(rows.shape, np.uint32)
    after = problem.after
    waits = np.diff(problem.before.start).astype(np.uint32)
    topological_sorts(
        after.start.astype(np.uint64), after.task.astype(np.uint32), waits, rows, found
    )
    return found.view(np.int32)[0 if given.ndim < 2 else slice(None)]


def evaluate(
    problem: Problem,
    processor: ArrayLike,
    order: ArrayLike,
    algorithm: str = "",
    notes: dict[str, Any] | None = None,
) -> Plan:
    """The plan in which each processor runs its tasks in *order*, each as soon as it can."""
    from zenturio.schedule.kernels.plan_times import plan_times  # noqa: PLC0415

    tasks = problem.tasks
    (where,) = _index_rows(processor, tasks, problem.processors, "processors")
    (sequence,) = _index_rows(order, tasks, tasks, "orders")
    at = np.full(tasks, -1)
    at[sequence] = np.arange(tasks)
    flow = problem.workflow
    early = np.flatnonzero(at[flow.sources] >= at[flow.targets])
    if (at < 0).any() or len(early):
        wrong = f"{flow.names[flow.targets[early[0]]]} is too early" if len(early) else "some lack"
        raise InputError(f"an order has all tasks, each after what it waits for: {wrong}")
    start, end = np.empty(tasks), np.empty(tasks)
    plan_times(problem_arrays(problem), where, sequence, np.empty(problem.processors), start, end)
    return Plan(problem, algorithm, where.astype(np.int32), start, end, notes or {})


def processor_rows(given: ProblemArrays, processors: ArrayLike) -> Unsigned:
    """*processors* as rows that a compiled function may read: one of its own for each task."""
    return _index_rows(processors, len(given.work), len(given.node), "processors")


def order_rows(given: ProblemArrays, orders: ArrayLike, plans: int) -> Unsigned:
    """*orders* as rows that a compiled function may read: one for each of *plans*, or for all."""
    rows = _index_rows(orders, len(given.work), len(given.work), "orders")
    if len(rows) not in {1, plans}:
        raise InputError(f"{len(rows)} orders for {plans} plans: one for all, or each")
    return rows


def _index_rows(given: ArrayLike, width: int, below: int, what: str) -> Unsigned:
    """*given* as rows of unsigned numbers; a compiled function must not read beyond its arrays."""
    rows = np.atleast_2d(np.asarray(given))
    if rows.ndim != 2 or rows.shape[1] != width or rows.dtype.kind not in "iu":
        raise InputError(f"{what}: {width} whole numbers in a row, and not {rows.shape}")
    if rows.size and not (rows.min() >= 0 and rows.max() < below):
        raise InputError(f"{what}: whole numbers from 0 to {below - 1}")
    return np.ascontiguousarray(rows, np.uint32)
