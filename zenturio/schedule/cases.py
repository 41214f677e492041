"""Problems as the kernels that search for plans want them, the plans to begin with, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zenturio.schedule.evaluate import problem_arrays, topological_orders
from zenturio.schedule.listing import mean_delays, mean_times, upward_ranks
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zenturio.schedule.kernels.placing import DecodingProblem

FREE = -1
"""A gene that leaves it to the decoder where a group runs."""
_PLACEMENTS = 10_000_000
"""How many tasks are placed if nobody says how many plans: less than a second."""
_MIN_EVALUATIONS, _MAX_EVALUATIONS = 50, 100_000


def decoding_problem_of(problem: Problem) -> DecodingProblem:
    """*problem* for the kernels of ``placing`` and what is built upon them."""
    from zenturio.schedule.kernels.placing import DecodingProblem  # noqa: PLC0415 - loads Numba

    forth, after = problem_arrays(problem), problem.after
    back = forth._replace(
        start=after.start.astype(np.uint64),
        parent=after.task.astype(np.uint32),
        data=problem.workflow.data[after.edge],
        latency=np.ascontiguousarray(problem.latency.T),
        slowness=np.ascontiguousarray(problem.slowness.T),
    )
    alike = bool((problem.pace == problem.pace[:, :1]).all()) and not problem.grouped
    return DecodingProblem(
        forth,
        back,
        problem.group.astype(np.uint32),
        np.ascontiguousarray(np.isfinite(problem.pace)),
        alike and not forth.moves,
    )


def ranked_orders(problem: Problem, count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Orders by the longest way to an end: that of HEFT first, then ever other times and delays.

    The second takes the fastest processor for each task, the third no transfers; from then on
    chance changes times, some little, some much.
    """
    mean, delays = mean_times(problem), mean_delays(problem)
    ways = [(mean, delays), (_fastest_times(problem), delays), (mean, np.zeros_like(delays))]
    while len(ways) < count:
        times, moved = ways[len(ways) % 3]
        spread = rng.uniform(0.05, 0.6)
        ways.append((times * rng.uniform(1 - spread, 1 + spread, len(times)), moved))
    ranks = np.array([upward_ranks(problem, *way) for way in ways[:count]])
    return np.ascontiguousarray(topological_orders(problem, -ranks), np.uint32)


def decoded_plan(
    problem: Problem,
    case: DecodingProblem,
    algorithm: str,
    order: Any,
    genes: Any,
    notes: dict[str, Any],
) -> Plan:
    """The plan that *order* and *genes* stand for."""
    from zenturio.schedule.kernels.placing import decode_plan, empty_plan  # noqa: PLC0415

    board = empty_plan(problem.tasks, problem.processors)
    decode_plan(case, case.forth, order, genes, board)
    return Plan(problem, algorithm, board.place.astype(np.int32), board.start, board.end, notes)


def start_order(plan: Plan) -> NDArray[np.uint32]:
    """The tasks of *plan* as they start, each behind what it waits for."""
    at = np.empty(plan.problem.tasks, np.int64)
    at[plan.problem.order] = np.arange(len(at))
    return np.lexsort((at, plan.end, plan.start)).astype(np.uint32)


def default_evaluations(problem: Problem) -> int:
    """How many plans can be tried in less than a second, and for a large problem a little more."""
    return min(max(_PLACEMENTS // max(problem.tasks, 1), _MIN_EVALUATIONS), _MAX_EVALUATIONS)


def _fastest_times(problem: Problem) -> Floats:
    found: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    return found
