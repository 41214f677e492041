"""The heuristic that every other is measured with."""

from __future__ import annotations

from typing import ClassVar

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.evaluate import topological_orders
from zenturio.schedule.listing import list_schedule, mean_delays, mean_times, upward_ranks
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.search.settings import NoSettings


class Heft:
    """The longest way to an end first, each task where it ends first, in gaps as well (HEFT).

    For nearly every workflow, and the first to try: of the list heuristics it is mostly the best.
    Not where a few tasks decide and machines differ in what they are good at: each task takes
    what is best for itself, which cost 11% on average over the optimum of 24 such instances.
    Cost: tasks x processors; a million tasks on 300 processors take seconds.
    H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13(3), 2002.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Ranks by mean times and mean transfers, as in section 4.1; insertion as in 4.2."""
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        return list_schedule(problem, "heft", topological_orders(problem, -rank))


def heft(problem: Problem) -> Plan:
    """The plan of HEFT, for algorithms that begin with it."""
    return Heft().plan(problem)
