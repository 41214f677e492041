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


class Asked(NamedTuple):
    """A point to be tried, and its number: how its scores are handed in."""

    number: int
    point: Point


class Pilot:
    """Steers a search, and runs nothing: whoever does takes points, and lands their scores.

    Scores may land in any order; the search is told of them in the order in which it asked. So
    the same search makes the same trials, whatever is ready first and however many points are
    tried at the same time. Trials that were still away when a rule ended the search do not count.
    """

    def __init__(
        self,
        search: Search,
        goals: Goals,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        stops: Stops = Stops(),  # noqa: B008 - frozen
        recall: Recall | None = None,
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
        self._points: deque[Point] = deque()
        """What is away, the earliest first."""
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
        return bool(self.ended) and not self._points

    @property
    def away(self) -> int:
        """How many points were taken and have not been told to the search."""
        return len(self._points)

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
        while self._points and (number := len(self.trials)) in self._landed:
            self._learn(self._landed.pop(number))

    def _asked(self, limit: int) -> list[Asked]:
        if self._untold:
            told, self._untold = self._untold, []
            self._search.tell(told)
        number = len(self.trials) + len(self._points)
        if self._end is not None and monotonic() >= self._end:
            self.ended = "time"
            return []
        if self._budget.trials is not None:
            limit = min(limit, self._budget.trials - number)
            if limit <= 0:
                self.ended = "budget"
                return []
        points = self._search.ask(limit)
        if not points and not self._points:
            self.ended = "exhausted"
        self._points.extend(points)
        return [Asked(number + at, point) for at, point in enumerate(points)]

    def _learn(self, scores: Scores) -> None:
        if self._closed or not self._points:
            return
        trial = Trial(self._points.popleft(), scores)
        self.trials.append(trial)
        self._untold.append(trial)
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
        self._landed.clear()
