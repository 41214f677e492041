"""Evaluation of plans: from processors and an order of tasks to start and end times."""

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
    """Return *problem* as the bare arrays that compiled kernels take; create once, use often."""
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


def makespans(arrays: ProblemArrays, processors: ArrayLike, orders: ArrayLike) -> Floats:
    """Return the makespan of each row of *processors*.

    *orders* has one order for each row, or a single one for all. An order lists all tasks
    topologically (`topological_orders`); a processor runs its tasks in that order. The makespan is
    infinite if a task cannot run on its processor, or precedes one of its predecessors.
    """
    from zenturio.schedule.kernels.plan_times import all_makespans  # noqa: PLC0415

    rows = processor_rows(arrays, processors)
    sequences = order_rows(arrays, orders, len(rows))
    result = np.empty(len(rows))
    all_makespans(arrays, rows, sequences, result)
    return result


def topological_orders(problem: Problem, ranks: ArrayLike) -> Indices:
    """Return topological orders of the tasks in which the ready task of lowest rank comes first.

    *ranks* has one number for each task, or one row for each order. Raise InputError if a rank is
    missing or NaN.
    """
    from zenturio.schedule.kernels.plan_times import topological_sorts  # noqa: PLC0415

    rank_array = np.ascontiguousarray(ranks, np.float64)
    rows = np.atleast_2d(rank_array)
    if rows.ndim != 2 or rows.shape[1] != problem.tasks or np.isnan(rows).any():
        raise InputError(f"a rank for each of {problem.tasks} tasks, and no NaN")
    _ = problem.order  # refuses a loop
    orders = np.empty(rows.shape, np.uint32)
    after = problem.after
    waits = np.diff(problem.before.start).astype(np.uint32)
    topological_sorts(
        after.start.astype(np.uint64), after.task.astype(np.uint32), waits, rows, orders
    )
    return orders.view(np.int32)[0 if rank_array.ndim < 2 else slice(None)]


def evaluate(
    problem: Problem,
    processor: ArrayLike,
    order: ArrayLike,
    algorithm: str = "",
    notes: dict[str, Any] | None = None,
) -> Plan:
    """Return the plan in which each processor runs its tasks in *order*, as early as possible.

    Raise InputError if *order* is not a topological order of all tasks.
    """
    from zenturio.schedule.kernels.plan_times import plan_times  # noqa: PLC0415

    tasks = problem.tasks
    (placement,) = _index_rows(processor, tasks, problem.processors, "processors")
    (sequence,) = _index_rows(order, tasks, tasks, "orders")
    position = np.full(tasks, -1)
    position[sequence] = np.arange(tasks)
    flow = problem.workflow
    early = np.flatnonzero(position[flow.sources] >= position[flow.targets])
    if (position < 0).any() or len(early):
        reason = (
            f"{flow.names[flow.targets[early[0]]]} comes too early"
            if len(early)
            else "some are missing"
        )
        raise InputError(f"an order has all tasks, each after what it waits for: {reason}")
    if problem.resources is not None:
        starts, ends = times_by_capacity(problem, placement[None], sequence[None])
        return Plan(problem, algorithm, placement.astype(np.int32), starts[0], ends[0], notes or {})
    start, end = np.empty(tasks), np.empty(tasks)
    plan_times(
        problem_arrays(problem), placement, sequence, np.empty(problem.processors), start, end
    )
    return Plan(problem, algorithm, placement.astype(np.int32), start, end, notes or {})


def times_by_capacity(
    problem: Problem, processors: Unsigned, orders: Unsigned
) -> tuple[Floats, Floats]:
    """Return the starts and ends of plans of a problem with resources, row by row.

    Each task of an order starts as early as its machine has room for it.
    """
    from zenturio.schedule.kernels.capacities import all_by_capacity  # noqa: PLC0415

    assert problem.resources is not None
    starts, ends = np.empty((2, len(processors), problem.tasks))
    all_by_capacity(
        problem_arrays(problem), problem.resources.arrays(), processors, orders, starts, ends
    )
    return starts, ends


def processor_rows(arrays: ProblemArrays, processors: ArrayLike) -> Unsigned:
    """Return *processors* as validated rows for kernels: one processor for each task."""
    return _index_rows(processors, len(arrays.work), len(arrays.node), "processors")


def order_rows(arrays: ProblemArrays, orders: ArrayLike, plans: int) -> Unsigned:
    """Return *orders* as validated rows for kernels: one for each of *plans*, or one for all."""
    rows = _index_rows(orders, len(arrays.work), len(arrays.work), "orders")
    if len(rows) not in {1, plans}:
        raise InputError(f"{len(rows)} orders for {plans} plans: one for all, or each")
    return rows


def _index_rows(values: ArrayLike, width: int, below: int, name: str) -> Unsigned:
    """Return *values* as rows of unsigned integers below *below*, each *width* long.

    Kernels do not check bounds, so an index out of range would read foreign memory.
    """
    rows = np.atleast_2d(np.asarray(values))
    is_whole = rows.dtype.kind in "iu" or not rows.size  # an empty list is one of reals
    if rows.ndim != 2 or rows.shape[1] != width or not is_whole:
        raise InputError(f"{name}: {width} whole numbers in a row, and not {rows.shape}")
    if rows.size and not (rows.min() >= 0 and rows.max() < below):
        raise InputError(f"{name}: whole numbers from 0 to {below - 1}")
    return np.ascontiguousarray(rows, np.uint32)
