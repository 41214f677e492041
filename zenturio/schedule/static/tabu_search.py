"""Tabu search for plans: critical tasks move into the best gap of any processor."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.lower_bounds import gap, lower_bound
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.static.genetic import (
    GeneticScheduler,
    GeneticSchedulerSettings,
    decoding_problem_of,
    heuristic_plans,
    start_order,
)
from zenturio.settings.schema import setting
from zenturio.system.machine import usable_cores

_SLICE_SECONDS = 0.05
"""Compiled code cannot be interrupted: it returns after about this time."""
_MOVE_WORK = 100_000_000
"""Steps of about a second: a move takes some for each task, edge and processor."""
_SHARED_WORK = 5
"""A move takes so many times as long where tasks share machines."""
_MAX_TASKS = 20_000
"""Beyond, a single move takes too long."""


def can_insert(problem: Problem) -> bool:
    """Return whether the moves of a tabu search on *problem* take a short time each."""
    return 0 < problem.tasks <= _MAX_TASKS


class SequenceSearch:
    """The search where each processor runs one task at a time."""

    def __init__(self, problem: Problem, case: Any) -> None:
        from zenturio.schedule.kernels.tabu_search import empty_sequences  # noqa: PLC0415 - loads Numba

        self._case, self._bound = case, _bound_tasks(problem)
        self._current = empty_sequences(problem.tasks, problem.processors)
        self.best = empty_sequences(problem.tasks, problem.processors)

    def fill(self, plan: Plan) -> None:
        from zenturio.schedule.kernels.tabu_search import fill_sequences  # noqa: PLC0415

        place, order = plan.processor.astype(np.int64), start_order(plan).astype(np.int64)
        fill_sequences(self._case.forth, self._current, place, order)

    def search(self, moves: int, goal: float, state: Any) -> tuple[float, int]:
        from zenturio.schedule.kernels.tabu_search import search_insertions  # noqa: PLC0415

        shortest, count = search_insertions(
            self._case, self._bound, self._current, self.best, moves, goal, state
        )
        return float(shortest), int(count)


class SharedMachineSearch:
    """The search where tasks share machines."""

    def __init__(self, problem: Problem, case: Any) -> None:
        from zenturio.schedule.kernels.shared_tabu_search import SharedCase  # noqa: PLC0415 - loads Numba

        rank = np.empty(problem.tasks, np.int64)
        rank[problem.order] = np.arange(problem.tasks)
        # Where tasks hold their machines while inputs arrive, transfers are part of their times.
        changes = {} if case.capacities.overlap else {"moves": False}
        self.case = SharedCase(
            case.forth._replace(**changes), case.back._replace(**changes),
            case.capacities, case.fits, rank, np.arange(problem.tasks, dtype=np.uint32),
            _bound_tasks(problem),
        )  # fmt: skip
        self.current = self._empty(problem)
        self.best = self._empty(problem)

    def _empty(self, problem: Problem) -> Any:
        from zenturio.schedule.kernels.capacities import empty_timeline  # noqa: PLC0415
        from zenturio.schedule.kernels.shared_tabu_search import SharedPlan  # noqa: PLC0415

        tasks = problem.tasks
        return SharedPlan(
            np.zeros(tasks, np.uint32), np.zeros(tasks), np.zeros(tasks), np.zeros(tasks),
            problem.order.astype(np.uint32), problem.order.astype(np.uint32),
            np.zeros(problem.processors + 1, np.int64), np.zeros(tasks, np.uint32),
            np.zeros(tasks, np.uint32), empty_timeline(self.case.capacities, tasks),
        )  # fmt: skip

    def fill(self, plan: Plan) -> None:
        self.current.place[:] = plan.processor
        self.current.start[:] = plan.start
        self.current.end[:] = plan.end
        self.current.by_start[:] = start_order(plan)
        self.current.by_end[:] = self.current.by_start

    def search(self, moves: int, goal: float, state: Any) -> tuple[float, int]:
        from zenturio.schedule.kernels.shared_tabu_search import search_windows  # noqa: PLC0415

        shortest, count = search_windows(self.case, self.current, self.best, moves, goal, state)
        return float(shortest), int(count)


def _bound_tasks(problem: Problem) -> NDArray[np.bool_]:
    """Return which tasks must stay where others of their group are."""
    members = np.bincount(problem.group, minlength=problem.tasks)
    return members[problem.group] > 1


class InsertionSearch:
    """A tabu search that goes on in slices, each from where the last one ended."""

    def __init__(self, problem: Problem, first: Plan, seed: int, case: Any = None) -> None:
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415 - loads Numba

        self._problem = problem
        kernel = SequenceSearch if problem.resources is None else SharedMachineSearch
        self._kernel = kernel(problem, case or decoding_problem_of(problem))
        self._state = stream(seed)
        self._slice_moves = 20
        self.moves = 0
        self.is_cancelled = False
        self.restart(first)

    def restart(self, plan: Plan) -> None:
        """Go on from *plan*."""
        self._kernel.fill(plan)
        self.best = plan

    def improve(self, moves: int, goal: float) -> None:
        """Try *moves* moves, and less if *goal* is reached."""
        shortest, count = self._kernel.search(moves, goal, self._state)
        self.moves += count
        if shortest < self.best.makespan:
            best = self._kernel.best
            self.best = Plan(
                self._problem,
                "tabu",
                best.place.astype(np.int32),
                best.start.copy(),
                best.end.copy(),
            )

    def improve_until(self, deadline: float, goal: float) -> None:
        """Search until *deadline* (of the monotonic clock), or *goal* is reached."""
        while (
            not self.is_cancelled
            and self.best.makespan > goal
            and (seconds_left := deadline - monotonic()) > 0
        ):
            began = monotonic()
            self.improve(self._slice_moves, goal)
            took = max(monotonic() - began, 1e-6)
            # Twice as long at most: one slow slice says little about the next.
            factor = min(max(min(_SLICE_SECONDS, seconds_left / 2) / took, 0.25), 2.0)
            self._slice_moves = max(int(self._slice_moves * factor), 1)


_EXCHANGES = 4
"""How often searches in several threads begin anew from the best plan of all."""


def search_in_threads(problem: Problem, plans: Iterable[Plan], seconds: float, seed: int) -> Plan:
    """Return the best plan that searches on all cores find, one from each of the best *plans*."""
    deadline, goal = monotonic() + seconds, lower_bound(problem)
    ranked = sorted(plans, key=lambda plan: plan.makespan)
    case = decoding_problem_of(problem)
    searches = [
        InsertionSearch(problem, ranked[i % len(ranked)], seed + i, case)
        for i in range(min(usable_cores(), 64))
    ]
    with ThreadPoolExecutor(len(searches)) as pool:
        try:
            for exchange in range(1, _EXCHANGES + 1):
                until = deadline - seconds * (_EXCHANGES - exchange) / _EXCHANGES
                futures = [pool.submit(search.improve_until, until, goal) for search in searches]
                for future in futures:
                    future.result()
                best = min((search.best for search in searches), key=lambda plan: plan.makespan)
                if best.makespan <= goal:
                    break
                # The first search keeps its own way; the others follow the best.
                for search in searches[1:]:
                    if search.best.makespan > best.makespan:
                        search.restart(best)
        finally:  # after an interrupt, no thread goes on to its deadline
            for search in searches:
                search.is_cancelled = True
    return best


def default_moves(problem: Problem) -> int:
    """Return how many moves take about a second."""
    work = 20 * problem.tasks + 10 * len(problem.workflow.data) + 10 * problem.processors
    if problem.resources is not None:
        work *= _SHARED_WORK
    return min(max(_MOVE_WORK // max(work, 1), 20), 200_000)


@dataclass(frozen=True)
class TabuSettings:
    moves: int | None = setting(None, "moves to make; auto: about a second's worth", low=1)
    seconds: float | None = setting(
        None, "time limit, on all cores; with it, runs may differ", low=0.1
    )


class Tabu:
    """Move tasks of the critical path into the best gap of any machine (tabu search).

    It begins with the best plan of the list heuristics, and never returns a longer one. A moved
    task may not return for some moves; when nothing improves, a few tasks of the best plan move at
    random. Good for up to some thousand tasks, especially with much data: there it needs a tenth of
    the time of ga for the same plan. If tasks share cores and memory, a gap is a period in which
    the free resources suffice for the task. Cost: moves x (tasks + edges + processors). M.
    Mastrolilli, L. M. Gambardella: Effective neighbourhood functions for the flexible job shop
    problem. Journal of Scheduling 3(1), 2000.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[TabuSettings]] = TabuSettings

    def __init__(self, settings: TabuSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or TabuSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        settings, started = self._settings, monotonic()
        plans = heuristic_plans(problem)
        first = min(plans, key=lambda plan: plan.makespan)
        bound = lower_bound(problem)
        if not can_insert(problem):  # a move would take too long
            other = GeneticScheduler(GeneticSchedulerSettings(seconds=settings.seconds), self._seed)
            return replace(other.plan(problem), algorithm="tabu")
        moves = settings.moves or default_moves(problem)
        notes: dict[str, Any] = {"first": first.makespan, "bound": bound}
        if settings.seconds is not None:
            seconds_left = settings.seconds - (monotonic() - started)
            best = search_in_threads(problem, plans, max(seconds_left, 0.0), self._seed)
        else:
            search = InsertionSearch(problem, first, self._seed)
            slice_moves = max(moves // 20, 1)
            while search.moves < moves and search.best.makespan > bound:
                search.improve(min(slice_moves, moves - search.moves), bound)
            best = search.best
            notes["moves"] = search.moves
        notes["gap"] = gap(best.makespan, bound)
        return replace(best, algorithm="tabu", notes=notes)
