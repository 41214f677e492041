"""A search under way: what is tried next, what came of it, what is best, when it is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from zenturio.search.objective import Goals, Losses, Trial, covers
from zenturio.search.rounds import steady
from zenturio.search.search import Search
from zenturio.search.stops import Budget, Stops
from zenturio.space import Point

Scores = tuple[float | None, ...]

Recall = Callable[[Sequence[Point]], Sequence[Scores | None]]
"""What is known already of each of some points; None: nothing, so it is to be tried."""

LOST = 1000
"""A search whose next so many points were all tried before is not asked again."""


class Asked(NamedTuple):
    """A point to be tried, and its number: how its scores are handed in."""

    number: int
    point: Point


class Pilot:
    """Steers a search, and runs nothing: whoever does takes points, and lands their scores.

    Scores may land in any order; the search is told of them in the order in which it asked. So
    the same search makes the same trials, whatever is ready first and however many points are
    tried at the same time. Trials that were still away when a rule ended the search do not count.

    No point is tried twice, whatever the search asks for, unless *again*: of one that it asked for
    before it is told the same scores again, in its turn, and that counts for no trial.
    """

    def __init__(
        self,
        search: Search,
        goals: Goals,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        stops: Stops = Stops(),  # noqa: B008 - frozen
        recall: Recall | None = None,
        *,
        again: bool = False,
    ) -> None:
        self.goals = goals
        self.trials: list[Trial] = []
        """All that counts, in the order in which it was asked for."""
        self.best: Trial | None = None
        self.ended = ""
        """What ended the search: exhausted, budget, time, target, stall; empty before that."""
        self.recalled = 0
        """How many trials were known, and were not tried for this search."""
        self._search = steady(search)
        self._budget = budget
        self._target = None if stops.target is None else goals.losses((stops.target,) * len(goals))
        self._patience = stops.patience(budget)
        self._recall = recall
        self._end = None if budget.seconds is None else monotonic() + budget.seconds
        self._again = again
        self._points: deque[tuple[Point, bool]] = deque()
        """What was asked for and not told, the earliest first; and whether it is a repetition,
        which is not tried, and never stands first."""
        self._away = 0
        """How many of them are no repetitions."""
        self._scores: dict[Point, Scores] = {}
        """Of each point that was asked for; none while it is away."""
        self._repeated = 0
        """How many repetitions were asked for in a row."""
        self._landed: dict[int, Scores] = {}
        """The scores of those of them that came back before an earlier one."""
        self._untold: list[Trial] = []
        self._front: list[Losses] = []
        self._best: Losses = goals.worst
        self._improved = 0
        self._closed = False

    @property
    def over(self) -> bool:
        """Whether nothing more is asked, and nothing that counts is away."""
        return bool(self.ended) and not self._away

    @property
    def away(self) -> int:
        """How many points were taken and have not been told to the search."""
        return self._away

    @property
    def front(self) -> list[Trial]:
        """The trials that no other is better than in every respect."""
        return self.goals.front(self.trials)

    def take(self, limit: int) -> list[Asked]:
        """Up to *limit* points to be tried now.

        None: wait for some that are away to land, or the search is ``over``. What ``recall``
        knows is no longer to be tried, and lands at once.
        """
        taken: list[Asked] = []
        while len(taken) < limit and not self.ended:
            asked = self._asked(limit - len(taken))
            if not asked:
                break
            known = self._recall([each.point for each in asked]) if self._recall else ()
            if not any(scores is not None for scores in known):
                taken += asked
                continue
            for each, scores in zip(asked, known, strict=True):
                if scores is None:
                    taken.append(each)
                else:
                    self.recalled += 1
                    self.land(each.number, scores)
        return [] if self._closed else taken

    def late(self) -> bool:
        """Whether what is away counts no longer; before it is tried, time that is over ends it."""
        if not self._closed and self._end is not None and monotonic() >= self._end:
            self._close("time")
        return self._closed

    def land(self, number: int, scores: Scores) -> None:
        """The point with this *number* has *scores*; none of them, if it failed."""
        told = len(self.trials)
        if number != told:
            self._landed[number] = scores
            return
        self._learn(scores)
        while self._away and (number := len(self.trials)) in self._landed:
            self._learn(self._landed.pop(number))

    def _asked(self, limit: int) -> list[Asked]:
        number = len(self.trials) + self._away
        if self._end is not None and monotonic() >= self._end:
            self.ended = "time"
            return []
        if self._budget.trials is not None:
            limit = min(limit, self._budget.trials - number)
            if limit <= 0:
                self.ended = "budget"
                return []
        points = self._new_points(limit)
        if not points and not self._away:
            self.ended = "exhausted"
        self._away += len(points)
        return [Asked(number + at, point) for at, point in enumerate(points)]

    def _new_points(self, limit: int) -> list[Point]:
        """What the search asks for, without what it asked for before.

        A search that names nothing new for long, though all is known to it, is exhausted.
        """
        while True:
            if self._untold:
                told, self._untold = self._untold, []
                self._search.tell(told)
            points = self._search.ask(limit)
            new = [point for point in points if self._is_new(point)]
            self._repeated = 0 if new else self._repeated + len(points)
            self._tell_repetitions()
            if new or not points or self._away or self._repeated >= LOST:
                return new

    def _is_new(self, point: Point) -> bool:
        """Whether *point*, which is asked for now, is to be tried."""
        repetition = not self._again and point in self._scores
        self._points.append((point, repetition))
        if not repetition:
            self._scores[point] = ()
        return not repetition

    def _tell_repetitions(self) -> None:
        """Repetitions that stand first were tried before: the search hears of that again."""
        while self._points and self._points[0][1]:
            point, _ = self._points.popleft()
            self._untold.append(Trial(point, self._scores[point]))

    def _learn(self, scores: Scores) -> None:
        if self._closed or not self._away:
            return
        point, _ = self._points.popleft()
        self._away -= 1
        trial = Trial(point, scores)
        self._scores[point] = scores
        self.trials.append(trial)
        self._untold.append(trial)
        self._tell_repetitions()
        losses = self.goals.losses(scores)
        if losses != self.goals.worst and self._improves(losses):
            self._improved = len(self.trials)
            if losses < self._best:
                self.best, self._best = trial, losses
            if self._target is not None and self._best[0] <= self._target[0]:
                self._close("target")
        if self._patience is not None and len(self.trials) - self._improved >= self._patience:
            self._close("stall")

    def _improves(self, losses: Losses) -> bool:
        """Whether nothing so far is at least as good in every respect; if so, it is kept."""
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

    def _close(self, why: str) -> None:
        """A rule ends the search here: what is still away counts no longer."""
        self.ended, self._closed = why, True
        self._points.clear()
        self._away = 0
        self._landed.clear()
