"""The state of a search: pending points, trials, the best one, and when the search ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from zenturio.search.batched import order_independent
from zenturio.search.engine import Search
from zenturio.search.objective import Directions, Losses, Trial, covers
from zenturio.search.stop_rules import Budget, StopRules
from zenturio.space import Point

Scores = tuple[float | None, ...]

CachedScores = Callable[[Sequence[Point]], Sequence[Scores | None]]
"""Return the cached scores of each point, None for a point that has to be evaluated."""

MAX_REPEATS = 1000
"""A search is exhausted when it proposes this many evaluated points in a row."""


class PendingTrial(NamedTuple):
    """A point to evaluate, and the number under which its scores are reported."""

    number: int
    point: Point


class SearchLoop:
    """Stands between an engine and whatever evaluates points; it evaluates nothing itself.

    Scores may be told in any order. The engine hears of them in the order in which it proposed the
    points, so that the same seed makes the same trials whatever the number of slots and whichever
    evaluation finishes first. Trials that are pending when a rule ends the search do not count.

    No point is evaluated twice, whatever the engine proposes, unless *allow_repeats*: for a point
    that it proposed before, the engine is told the same scores again, and no trial is counted.
    """

    def __init__(
        self,
        search: Search,
        directions: Directions,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        stops: StopRules = StopRules(),  # noqa: B008 - frozen
        cached: CachedScores | None = None,
        *,
        allow_repeats: bool = False,
    ) -> None:
        self.directions = directions
        self.trials: list[Trial] = []
        """All trials that count, in the order in which the engine proposed them."""
        self.best: Trial | None = None
        self.stop_reason = ""
        """Why the search ended: exhausted, budget, time, target or stall; empty before that."""
        self.cached_count = 0
        """How many trials were cached, and not evaluated for this search."""
        self._search = order_independent(search)
        self._budget = budget
        self._target = (
            None if stops.target is None else directions.losses((stops.target,) * len(directions))
        )
        self._patience = stops.patience(budget)
        self._cached = cached
        self._deadline = None if budget.seconds is None else monotonic() + budget.seconds
        self._allow_repeats = allow_repeats
        self._queue: deque[tuple[Point, bool]] = deque()
        """Proposed points that the engine was not told of, the earliest first, each with whether it
        is a repeat. A repeat is not evaluated, and never stands first."""
        self._pending = 0
        """How many points in the queue are no repeats."""
        self._scores: dict[Point, Scores] = {}
        """The scores of each proposed point; empty while it is pending."""
        self._repeats = 0
        """How many repeats were proposed in a row."""
        self._out_of_order: dict[int, Scores] = {}
        """Scores that arrived before those of an earlier point."""
        self._untold: list[Trial] = []
        self._front: list[Losses] = []
        self._best: Losses = directions.worst
        self._improved_at = 0
        self._closed = False

    @property
    def is_over(self) -> bool:
        """Whether no more points will be proposed, and none that counts is pending."""
        return bool(self.stop_reason) and not self._pending

    @property
    def pending(self) -> int:
        """How many points were returned by ``ask`` and not told to the engine."""
        return self._pending

    @property
    def front(self) -> list[Trial]:
        """The Pareto front of the trials."""
        return self.directions.front(self.trials)

    def ask(self, limit: int) -> list[PendingTrial]:
        """Return up to *limit* points to evaluate now.

        An empty answer means: wait until pending trials are told, or the search ``is_over``. Points
        with cached scores are told at once and not returned.
        """
        result: list[PendingTrial] = []
        while len(result) < limit and not self.stop_reason:
            batch = self._propose(limit - len(result))
            if not batch:
                break
            cached = self._cached([trial.point for trial in batch]) if self._cached else ()
            if not any(scores is not None for scores in cached):
                result += batch
                continue
            for trial, scores in zip(batch, cached, strict=True):
                if scores is None:
                    result.append(trial)
                else:
                    self.cached_count += 1
                    self.tell(trial.number, scores)
        return [] if self._closed else result

    def is_late(self) -> bool:
        """Return whether pending trials no longer count; end the search if its time is over."""
        if not self._closed and self._deadline is not None and monotonic() >= self._deadline:
            self._close("time")
        return self._closed

    def tell(self, number: int, scores: Scores) -> None:
        """Report the *scores* of a pending trial; empty scores for one that failed."""
        if number != len(self.trials):
            self._out_of_order[number] = scores
            return
        self._learn(scores)
        while self._pending and (number := len(self.trials)) in self._out_of_order:
            self._learn(self._out_of_order.pop(number))

    def _propose(self, limit: int) -> list[PendingTrial]:
        """Ask the engine for up to *limit* new points, within the budget."""
        number = len(self.trials) + self._pending
        if self._deadline is not None and monotonic() >= self._deadline:
            self.stop_reason = "time"
            return []
        if self._budget.trials is not None:
            limit = min(limit, self._budget.trials - number)
            if limit <= 0:
                self.stop_reason = "budget"
                return []
        points = self._new_points(limit)
        if not points and not self._pending:
            self.stop_reason = "exhausted"
        self._pending += len(points)
        return [PendingTrial(number + offset, point) for offset, point in enumerate(points)]

    def _new_points(self, limit: int) -> list[Point]:
        """Return the engine's next points without those that it proposed before.

        An engine that proposes nothing new for ``MAX_REPEATS`` points is exhausted.
        """
        while True:
            if self._untold:
                untold, self._untold = self._untold, []
                self._search.tell(untold)
            points = self._search.ask(limit)
            new = [point for point in points if self._enqueue(point)]
            self._repeats = 0 if new else self._repeats + len(points)
            self._tell_repeats()
            if new or not points or self._pending or self._repeats >= MAX_REPEATS:
                return new

    def _enqueue(self, point: Point) -> bool:
        """Add *point* to the queue, and return whether it has to be evaluated."""
        is_repeat = not self._allow_repeats and point in self._scores
        self._queue.append((point, is_repeat))
        if not is_repeat:
            self._scores[point] = ()
        return not is_repeat

    def _tell_repeats(self) -> None:
        """Tell the engine again of the repeats that stand first in the queue."""
        while self._queue and self._queue[0][1]:
            point, _ = self._queue.popleft()
            self._untold.append(Trial(point, self._scores[point]))

    def _learn(self, scores: Scores) -> None:
        """Complete the first pending trial, and apply the rules that end a search."""
        if self._closed or not self._pending:
            return
        point, _ = self._queue.popleft()
        self._pending -= 1
        trial = Trial(point, scores)
        self._scores[point] = scores
        self.trials.append(trial)
        self._untold.append(trial)
        self._tell_repeats()
        losses = self.directions.losses(scores)
        if losses != self.directions.worst and self._improves(losses):
            self._improved_at = len(self.trials)
            if losses < self._best:
                self.best, self._best = trial, losses
            if self._target is not None and self._best[0] <= self._target[0]:
                self._close("target")
        if self._patience is not None and len(self.trials) - self._improved_at >= self._patience:
            self._close("stall")

    def _improves(self, losses: Losses) -> bool:
        """Add *losses* to the front unless a trial there is at least as good in every objective."""
        front = self._front
        if len(losses) == 1:
            if front and front[0] <= losses:
                return False
            self._front = [losses]
            return True
        if any(covers(other, losses) for other in front):
            return False
        self._front = [other for other in front if not covers(losses, other)] + [losses]
        return True

    def _close(self, reason: str) -> None:
        """End the search now: pending trials no longer count."""
        self.stop_reason, self._closed = reason, True
        self._queue.clear()
        self._pending = 0
        self._out_of_order.clear()
