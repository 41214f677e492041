"""A look ahead, at the price of a table."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.evaluate import problem_arrays, topological_orders
from zenturio.schedule.listing import child_edges, list_schedule, mean_delays
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats
from zenturio.search.settings import NoSettings


class Peft:
    """Each task where its end and what must follow it there take least (PEFT).

    For machines that differ in what they are good at: it knows what a choice costs the tasks
    behind. Not for a million tasks: the table has a number for each task on each processor. Nor
    for large data and much work for few processors: what it foresees has no queues.
    Cost: edges x processors, in time and memory.
    H. Arabnejad, J. G. Barbosa: List scheduling algorithm for heterogeneous systems by an
    optimistic cost table. IEEE TPDS 25(3), 2014.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Of the ready tasks, that with the highest mean of its row in the table."""
        table = optimistic_costs(problem)
        order = topological_orders(problem, -table.mean(axis=1))
        return list_schedule(problem, "peft", order, ahead=table)


def optimistic_costs(problem: Problem) -> Floats:
    """For each task on each processor, how long what follows takes at best (equation 5)."""
    from zenturio.schedule.kernels.listing import optimistic_cost_table  # noqa: PLC0415 - loads Numba

    start, child, delay = child_edges(problem, mean_delays(problem))
    order = problem.order.astype(np.uint32)
    table: Floats = optimistic_cost_table(problem_arrays(problem), order, start, child, delay)
    return table
