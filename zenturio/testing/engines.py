"""
What every search engine promises, as tests: a plug-in's tests inherit them.

::

    class TestGolden(EngineContract):
        spaces = (zen.Space(n=zen.span(1, 50)),)

        def search(self, problem: SearchProblem) -> Search:
            return Golden(problem, GoldenSettings())
"""

from __future__ import annotations

import io
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar

from zenturio.errors import InputError
from zenturio.search import (
    Budget,
    Directions,
    PendingTrial,
    Scores,
    Search,
    SearchLoop,
    SearchProblem,
    Trial,
    drive,
)
from zenturio.space import Point, Space, geometric, parameter, span, uniform

_TRIALS = 25

_KILLED_SEARCH = """
import os, pickle, signal, sys
sys.path[:], trials, contract = pickle.load(sys.stdin.buffer)
from itertools import islice
from zenturio.search import drive
from zenturio.testing.engines import cost
contract = pickle.loads(contract)
for trial in islice(drive(contract.loop(contract.spaces[0]), cost), trials):
    pickle.dump(trial, sys.stdout.buffer)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A search that kills itself after some trials, which it has written."""


def cost(point: Point) -> Scores:
    """Return a rugged cost of *point*, which fails here and there."""
    total = sum(
        abs(value - 2.5) if isinstance(value, int | float) else len(str(value)) * 1.5
        for value in point.values()
    )
    return () if math.floor(total * 7) % 11 == 3 else (total + math.sin(5 * total),)


def _away(point: Point, target: float) -> float:
    """Return how far *point* is from *target*: a cost that never fails."""
    return sum(
        abs(value - target)
        if isinstance(value, int | float)
        else abs(ord(str(value)[0]) - 97 - target)
        for value in point.values()
    )


class _WatchedSearch:
    """A search of which each call has to keep what all engines promise."""

    def __init__(self, search: Search, problem: SearchProblem, contract: EngineContract) -> None:
        self._search = search
        self._problem = problem
        self._contract = contract
        self._proposed: set[Point] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)  # what an engine says of itself, such as batch_size

    def ask(self, limit: int) -> Sequence[Point]:
        with _limited("ask", self._contract.seconds):
            points = self._search.ask(limit)
        assert len(points) <= limit, f"{len(points)} points where {limit} were asked for"
        for point in points:
            assert self._problem.space.contains(point), f"{point} is not valid"
            is_new = point not in self._proposed or self._contract.may_propose_again
            assert is_new, f"{point} is proposed again"
            self._proposed.add(point)
        return points

    def tell(self, trials: Iterable[Trial]) -> None:
        with _limited("tell", self._contract.seconds):
            self._search.tell(trials)


@contextmanager
def _limited(call: str, seconds: float) -> Iterator[None]:
    """Fail if what is done takes more than *seconds* of processor time, or ten times as long.

    Where there are no such timers, or another one is under way, nothing is limited.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return

    def fail(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"{call} does not return: it hangs, or waits for what never comes")

    # A loop without an end uses processor time, which other work on the machine does not; a thread
    # that waits uses none.
    timers = (
        (signal.ITIMER_VIRTUAL, signal.SIGVTALRM, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds),
    )
    used = [timer for timer in timers if not signal.getitimer(timer[0])[0]]
    handlers = [signal.signal(number, fail) for _, number, _ in used]
    try:
        for timer, _, limit in used:
            signal.setitimer(timer, limit)
        yield
    finally:
        for (timer, number, _), handler in zip(used, handlers, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _negated(scores: Scores) -> Scores:
    return tuple(None if score is None else -score for score in scores)


class EngineContract:
    """Say how a search is made, and for which spaces if not for all."""

    spaces: ClassVar[tuple[Space, ...]] = (
        Space(n=[8, 1, 4, 2, 16], m=span(1, 30), k=["a", "b", "c"]),
        Space(n=geometric(1, 256), m=span(1, 12), t=[1, 2, 4]).where("n * m <= 512", "m % t == 0"),
        Space(x=uniform(-3, 3), k=["a", "b"]),
        Space(
            k=["a", "b"],
            n=parameter(span(1, 9), when="k == 'a'"),
            x=parameter(uniform(0, 1), when="k == 'b'"),
            y=uniform(-3, 3),
        ),
    )
    """Spaces that the engine is for."""
    small: ClassVar[Space] = Space(n=span(1, 6))
    """A space that is seen whole within 1000 trials, if the engine sees all of any."""
    may_end_early: ClassVar[bool] = False
    """Whether a search may end before its budget is spent or its space is seen, such as one that
    converges."""
    may_propose_again: ClassVar[bool] = False
    """Whether a search may propose a point again, such as one that mixes two engines. The point is
    not tried again, and the search is told the same scores."""
    seconds: ClassVar[float] = 120.0
    """Processor time after which a call of the search counts as one that does not return."""

    def search(self, problem: SearchProblem) -> Search:
        """Return a search for *problem*."""
        raise NotImplementedError

    def loop(self, space: Space, *, seed: int = 3, budget: int = _TRIALS) -> SearchLoop:
        """Return a search that is under way."""
        search = self.watched(SearchProblem(space, Directions(), seed, budget))
        return SearchLoop(search, Directions(), Budget(budget))

    def watched(self, problem: SearchProblem) -> Search:
        """Return a search for *problem* whose calls are checked."""
        return _WatchedSearch(self.search(problem), problem, self)

    def check_spent(
        self, count: int, space: Space, *, known: int = 0, budget: int = _TRIALS
    ) -> None:
        """Fail if a search that ended after *count* trials gave up."""
        expected = min(budget, space.size - known) if space.finite else budget
        assert count, "no point is proposed"
        assert self.may_end_early or count == expected, f"it gave up: {count} of {expected} trials"

    def test_every_point_is_valid_none_is_tried_twice_and_the_budget_is_spent(self) -> None:
        for space in self.spaces:
            points = [trial.point for trial in drive(self.loop(space), cost)]
            assert len(points) == len(set(points)) <= _TRIALS
            assert all(space.contains(point) for point in points)
            self.check_spent(len(points), space)

    def test_the_same_seed_makes_the_same_trials(self) -> None:
        for space in self.spaces:
            first, second = (list(drive(self.loop(space, seed=7), cost)) for _ in range(2))
            assert first == second

    def test_the_trials_are_the_same_whatever_is_ready_first(self) -> None:
        for slots, space in enumerate(self.spaces, 3):
            expected = list(drive(self.loop(space), cost))
            chance, loop = random.Random(slots), self.loop(space)  # noqa: S311 - no secret
            pending: list[PendingTrial] = []
            while not loop.is_over:
                pending += loop.ask(slots - len(pending))
                for _ in range(chance.randrange(1, len(pending) + 1) if pending else 0):
                    number, point = pending.pop(chance.randrange(len(pending)))
                    loop.tell(number, cost(point))
            assert loop.trials == expected

    def test_without_an_order_the_trials_depend_on_the_order_of_arrival_alone(self) -> None:
        for space in self.spaces:
            problem = SearchProblem(space, Directions(), 3, _TRIALS, slots=4, ordered=False)
            first, second = (
                SearchLoop(self.watched(problem), Directions(), Budget(_TRIALS), ordered=False)
                for _ in range(2)
            )
            chance = random.Random(4)  # noqa: S311 - no secret
            pending: list[PendingTrial] = []
            repeated: dict[int, Point] = {}
            while not first.is_over:
                pending += first.ask(_TRIALS)
                if not pending:
                    continue
                number, point = pending.pop(chance.randrange(len(pending)))
                first.tell(number, cost(point))
                # The other one is asked for one point at a time, and late.
                while number not in repeated:
                    proposed = second.ask(1)
                    assert proposed, "what arrived before is all that a proposal depends on"
                    repeated.update(proposed)
                second.tell(number, cost(repeated.pop(number)))
            assert second.trials == first.trials
            assert all(space.contains(trial.point) for trial in first.trials)

    def test_a_search_that_was_killed_after_any_trial_goes_on_to_the_same_trials(self) -> None:
        budget = 12
        expected = [list(drive(self.loop(space, budget=budget), cost)) for space in self.spaces]
        for kill in range(budget):
            at = kill % len(self.spaces)
            space, trials = self.spaces[at], expected[at]
            # The one after it was still running when later ones were recorded.
            recorded = {
                trial.point: trial.scores
                for trial in (*trials[:kill], *trials[kill + 1 : kill + 3])
            }
            search = self.watched(SearchProblem(space, Directions(), 3, budget))
            resumed = SearchLoop(
                search,
                Directions(),
                Budget(budget),
                cached=lambda points, recorded=recorded: [recorded.get(p) for p in points],  # type: ignore[misc]
            )
            assert list(drive(resumed, cost)) == trials, f"killed after {kill} trials"
            assert resumed.cached_count == len(recorded)

    def test_known_points_are_not_tried_and_use_no_budget(self) -> None:
        for space in self.spaces:
            known = {point: cost(point) for point in space.sample(3, 2)}
            search = self.watched(SearchProblem(space, Directions(), 3, _TRIALS))
            loop = SearchLoop(search, Directions(), Budget(_TRIALS), known=known)
            points = {trial.point for trial in drive(loop, cost)}
            assert all(space.contains(point) for point in points)
            assert not points & known.keys()
            self.check_spent(len(points), space, known=len(known))

    def test_it_asks_for_no_more_points_than_it_may(self) -> None:
        for space in self.spaces:
            search = self.watched(SearchProblem(space, Directions(), 1, _TRIALS))
            for limit in (1, 3, 8):
                points = search.ask(limit)
                assert len(points) <= limit
                search.tell([Trial(point, cost(point)) for point in points])

    def test_a_search_ends(self) -> None:
        loop = self.loop(self.small, budget=1000)
        trials = list(drive(loop, cost))
        assert loop.stop_reason == "exhausted"
        assert len(trials) <= self.small.size

    def test_it_survives_that_everything_fails(self) -> None:
        for scores in ((), (None,), (math.nan,), (math.inf,)):
            loop = self.loop(self.spaces[0])
            trials = list(drive(loop, lambda _point, scores=scores: scores))  # type: ignore[misc]
            assert loop.best is None
            self.check_spent(len(trials), self.spaces[0])

    def test_it_may_hear_of_trials_that_it_did_not_ask_for(self) -> None:
        for space in self.spaces:
            search = self.watched(SearchProblem(space, Directions(), 1, _TRIALS))
            proposed = search.ask(8)
            unasked = [point for point in space.sample(5, 9) if point not in proposed]
            search.tell([Trial(point, cost(point)) for point in (*proposed, *unasked)])
            assert all(space.contains(point) for point in search.ask(4))

    def test_a_search_whose_process_was_killed_goes_on_in_another_one(self) -> None:
        # Texts have other hashes there, so sets of them have another order.
        killed = subprocess.run(
            [sys.executable, "-P", "-c", _KILLED_SEARCH],
            input=pickle.dumps((sys.path, 11, pickle.dumps(self))),
            env={**os.environ, "PYTHONHASHSEED": "1"},
            stdout=subprocess.PIPE,
            check=False,
        )
        recorded: dict[Point, Scores] = {}
        written = io.BytesIO(killed.stdout)
        while written.tell() < len(killed.stdout):
            trial = pickle.load(written)  # noqa: S301 - our own process wrote it
            recorded[trial.point] = trial.scores
        assert killed.returncode == -signal.SIGKILL
        assert recorded
        search = self.watched(SearchProblem(self.spaces[0], Directions(), 3, _TRIALS))
        resumed = SearchLoop(
            search,
            Directions(),
            Budget(_TRIALS),
            cached=lambda points: [recorded.get(point) for point in points],
        )
        assert list(drive(resumed, cost)) == list(drive(self.loop(self.spaces[0]), cost))
        assert resumed.cached_count == len(recorded)

    def test_maximizing_the_negative_makes_the_same_trials(self) -> None:
        for space in self.spaces:
            directions = Directions("maximize")
            search = self.watched(SearchProblem(space, directions, 3, _TRIALS))
            loop = SearchLoop(search, directions, Budget(_TRIALS))
            negated = drive(loop, lambda point: _negated(cost(point)))
            points = [trial.point for trial in negated]
            assert points == [trial.point for trial in drive(self.loop(space), cost)]

    def test_a_budget_is_left_whatever_is_known(self) -> None:
        for space in self.spaces:
            if space.finite and space.size < 40:  # all that is worth a trial may be known
                continue
            known = {point: cost(point) for point in space.sample(4, 2)}
            search = self.watched(SearchProblem(space, Directions(), 3, 4))
            loop = SearchLoop(search, Directions(), Budget(4), known=known)
            assert list(drive(loop, cost))

    def test_any_budget_will_do(self) -> None:
        for budget in (1, 2, None):
            search = self.watched(SearchProblem(self.spaces[0], Directions(), 3, budget))
            loop = SearchLoop(search, Directions(), Budget(budget or 5))
            assert 1 <= len(list(drive(loop, cost))) <= (budget or 5)

    def test_a_space_of_one_point_is_searched(self) -> None:
        space = Space(n=[5])
        assert [trial.point for trial in drive(self.loop(space), cost)] == list(space)

    def test_it_survives_that_a_score_is_infinitely_good(self) -> None:
        loop = self.loop(self.spaces[0], budget=12)
        trials = list(drive(loop, lambda _point: (-math.inf,)))
        assert loop.best is None
        self.check_spent(len(trials), self.spaces[0], budget=12)

    def test_several_objectives_are_refused_or_searched(self) -> None:
        space, directions = self.spaces[0], Directions(["minimize", "maximize"])
        try:
            search = self.search(SearchProblem(space, directions, 3, _TRIALS))
        except InputError:
            return
        if not getattr(search, "multi_objective", False):
            return

        def points(directions: Directions, *targets: float) -> list[Point]:
            """The points for these objectives, each of which has its best point elsewhere."""
            signs = [1 if name == "minimize" else -1 for name in directions.names]
            search = self.watched(SearchProblem(space, directions, 3, _TRIALS))
            loop = SearchLoop(search, directions, Budget(_TRIALS))

            def costs(point: Point) -> Scores:
                return tuple(
                    sign * _away(point, target) for sign, target in zip(signs, targets, strict=True)
                )

            return [trial.point for trial in drive(loop, costs)]

        expected = points(directions, 0, 20)
        self.check_spent(len(expected), space)
        turned = points(Directions(["maximize", "minimize"]), 0, 20)
        assert turned == expected, "it takes one direction for another"
        first, second = points(directions, 40, 20), points(directions, 0, -20)
        assert (first != expected) == (second != expected), "it learns from one objective alone"
