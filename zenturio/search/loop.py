"""The loop that drives an engine: proposals, evaluations, and when to stop."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from statistics import fmean
from time import monotonic
from typing import NamedTuple

from zenturio.errors import InputError, did_you_mean
from zenturio.search.batched import order_independent
from zenturio.search.engine import Search
from zenturio.search.objective import Directions, Losses, Trial, covers
from zenturio.space import Point

_UNITS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")
_RULES = ("target", "stall")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend: trials and seconds; None for no limit."""

    trials: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StopRules:
    """Rules that end a search before its budget does."""

    target: float | None = None
    """Stop when the first objective is at least as good as this."""
    stall: int | None = None
    """Stop after this many trials without improvement."""
    share: float | None = None
    """The same as a percentage of the budget's trials."""

    def patience(self, budget: Budget) -> int | None:
        """Return after how many trials without improvement the search stops; None for never."""
        if self.share is None:
            return self.stall
        if budget.trials is None:
            raise InputError(
                "stall in % needs a budget of trials",
                hint="--budget 500, or a number: stall=100",
            )
        share = max(1, round(budget.trials * self.share / 100))
        return share if self.stall is None else min(share, self.stall)


def parse_budget(text: str | int | Budget | None) -> Budget:
    """Parse ``500``, ``10min`` or ``500,10min``."""
    if isinstance(text, Budget):
        return text
    budget = Budget()
    for part in () if text is None else str(text).split(","):
        word = part.strip().lower()
        if word.isdecimal() and int(word) > 0:
            budget = replace(budget, trials=int(word))
        elif (match := _TIME.fullmatch(word)) and match[2] in _UNITS and float(match[1]) > 0:
            budget = replace(budget, seconds=float(match[1]) * _UNITS[match[2]])
        else:
            raise InputError(
                f"{part.strip()!r} is not a budget",
                hint="write a number of trials, a time, or both: 500, 10min, or 500,10min",
            )
    return budget


def parse_stop_rules(texts: Iterable[str] | str | StopRules) -> StopRules:
    """Parse rules such as ``target=12.5``, ``stall=100`` and ``stall=20%``."""
    if isinstance(texts, StopRules):
        return texts
    stops = StopRules()
    parts = [part for text in ([texts] if isinstance(texts, str) else texts) for part in _cut(text)]
    for name, value in parts:
        if name not in _RULES:
            raise InputError(
                f"--stop {name}: there is no such rule", hint=did_you_mean(name, _RULES)
            )
        number = _number(value.removesuffix("%"))
        if name == "target" and number is not None and not value.endswith("%"):
            stops = replace(stops, target=number)
        elif name == "stall" and number is not None and number > 0 and value.endswith("%"):
            stops = replace(stops, share=number)
        elif name == "stall" and number is not None and number >= 1 and number == int(number):
            stops = replace(stops, stall=int(number))
        else:
            hint = "stall=100, or stall=20%" if name == "stall" else "target=12.5"
            raise InputError(f"--stop {name}={value} is not a rule", hint=f"write {hint}")
    return stops


def _cut(text: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


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

    Scores may be told in any order. If the search is *ordered*, the engine hears of them in the
    order in which it proposed the points, so that the same seed makes the same trials whichever
    evaluation finishes first. Otherwise it hears of them as they arrive, and the same seed makes
    the same trials for the same order of arrival. Trials that are pending when a rule ends the
    search do not count.

    *known* are scores of points that were evaluated before. The engine is told of them first; they
    are not proposed, count as no trial, and use no budget.

    No point is evaluated twice, whatever the engine proposes, unless *allow_repeats*: for a point
    that it proposed before, the engine is told the same scores again, and no trial is counted.
    """

    def __init__(
        self,
        search: Search,
        directions: Directions,
        budget: Budget = Budget(),
        stops: StopRules = StopRules(),
        cached: CachedScores | None = None,
        *,
        allow_repeats: bool = False,
        known: Mapping[Point, Scores] | None = None,
        ordered: bool = True,
    ) -> None:
        self.directions = directions
        self.trials: list[Trial] = []
        """All trials that count, in the order in which the engine proposed them, or in that of
        arrival."""
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
        self._is_ordered = ordered
        self._arriving: dict[int, Point] = {}
        """Without an order: the pending points by their numbers."""
        self._queue: deque[tuple[Point, bool]] = deque()
        """Proposed points that the engine was not told of, the earliest first, each with whether it
        is a repeat. A repeat is not evaluated, and never stands first."""
        self._pending = 0
        """How many points in the queue are no repeats."""
        self._scores: dict[Point, Scores] = dict(known or {})
        """The scores of each proposed or known point; empty while it is pending."""
        self._repeats = 0
        """How many repeats were proposed in a row."""
        self._out_of_order: dict[int, Scores] = {}
        """Scores that arrived before those of an earlier point."""
        self.known_trials = [Trial(point, scores) for point, scores in self._scores.items()]
        """The points that were evaluated before, with their scores."""
        self._untold = list(self.known_trials)
        self._front: list[Losses] = []
        self._best: Losses = directions.worst
        self._improved_at = 0
        self._closed = False
        for trial in self._untold:
            self._compare(trial)
        if self._target is not None and self._best[0] <= self._target[0]:
            self._close("target")

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
            # Telling scores may end the search, so the common case returns before that.
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
        if not self._is_ordered:
            if (point := self._arriving.pop(number, None)) is not None:
                self._learn(point, scores)
            return
        if number != len(self.trials):
            self._out_of_order[number] = scores
            return
        self._learn_first(scores)
        while self._pending and (number := len(self.trials)) in self._out_of_order:
            self._learn_first(self._out_of_order.pop(number))

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
        pending = [PendingTrial(number + offset, point) for offset, point in enumerate(points)]
        if not self._is_ordered:
            self._arriving.update(pending)
        return pending

    def _new_points(self, limit: int) -> list[Point]:
        """Return the engine's next points without those that it proposed before.

        An engine that proposes nothing new for ``MAX_REPEATS`` points is exhausted.
        """
        while True:
            # Told just before the engine is asked: it learns in one call of all that it can know.
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
        if self._is_ordered or is_repeat:
            self._queue.append((point, is_repeat))
        if not is_repeat:
            self._scores[point] = ()
        return not is_repeat

    def _tell_repeats(self) -> None:
        """Tell the engine again of the repeats that stand first in the queue.

        Without an order only repeats stand there, each as long as its point is pending.
        """
        if not (self._queue and self._queue[0][1]):
            return
        pending = set(self._arriving.values())
        while self._queue and self._queue[0][1] and self._queue[0][0] not in pending:
            point, _ = self._queue.popleft()
            self._untold.append(Trial(point, self._scores[point]))

    def _learn_first(self, scores: Scores) -> None:
        """Complete the trial that was proposed first of those that are pending."""
        if self._pending:
            self._learn(self._queue.popleft()[0], scores)

    def _learn(self, point: Point, scores: Scores) -> None:
        """Complete a pending trial, and apply the rules that end a search."""
        self._pending -= 1
        trial = Trial(point, scores)
        self._scores[point] = scores
        self.trials.append(trial)
        self._untold.append(trial)
        self._tell_repeats()
        if self._compare(trial):
            self._improved_at = len(self.trials)
            if self._target is not None and self._best[0] <= self._target[0]:
                self._close("target")
        if self._patience is not None and len(self.trials) - self._improved_at >= self._patience:
            self._close("stall")
        if not self.stop_reason and len(self.trials) == self._budget.trials:
            self.stop_reason = "budget"

    def _compare(self, trial: Trial) -> bool:
        """Return whether *trial* is an improvement, and keep it if it is the best."""
        losses = self.directions.losses(trial.scores)
        # A failed trial is never an improvement, not even as the first one.
        if losses == self.directions.worst or not self._improves(losses):
            return False
        if losses < self._best:
            self.best, self._best = trial, losses
        return True

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
        # Scores that arrive from now on find nothing to complete, and are dropped by `tell`.
        self._queue.clear()
        self._arriving.clear()
        self._pending = 0
        self._out_of_order.clear()


LEADERS_SHARE = 3
"""A confirmation begins with one leading trial for so many of its measurements,"""
FEWEST_LEADERS = 5
"""and at least with so many."""
FINALISTS = 2


class Confirmation:
    """Fresh measurements of the leading trials of a search, which tell the best from the lucky.

    The lowest of many noisy scores is one that was measured too low. So the leading trials are
    measured once more each, the better half of them again, and so on (successive halving; Karnin,
    Koren and Somekh 2013). The scores by which they became leaders do not count. Each round has
    to be complete before the next one, so results may arrive in any order.
    """

    def __init__(self, runs: int, directions: Directions) -> None:
        self._runs = runs
        """How many measurements may still be made."""
        self._directions = directions
        self._leaders: list[Point] = []
        self._first: dict[Point, float] = {}
        self._scores: dict[Point, list[float]] = {}
        """The fresh scores of the leaders."""
        self._failed: set[Point] = set()
        self._pending: set[Point] = set()
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be measured, and nothing is pending."""
        return self._has_begun and not self._pending and not (self._runs and self._leaders)

    @property
    def best(self) -> tuple[Point, list[float]] | None:
        """The leader with the best mean of fresh scores, and these; None before there is one."""
        at = confirmed(list(self._scores.values()), self._directions)
        return None if at is None else list(self._scores.items())[at]

    def next_round(self, trials: Sequence[Trial]) -> list[tuple[Point, int]]:
        """Return the points to measure now, each with the number of that measurement of it.

        None of them while a round is pending. *trials* are all trials of the search.
        """
        if self._pending:
            return []
        if not self._has_begun:
            self._begin(trials)
        elif self._leaders:
            self._halve()
        self._leaders = self._leaders[: self._runs]
        self._runs -= len(self._leaders)
        self._pending = set(self._leaders)
        return [(point, len(self._scores[point]) + 2) for point in self._leaders]

    def tell(self, point: Point, score: float | None) -> None:
        """Report a fresh score of *point*; None where it failed, which rules it out."""
        self._pending.remove(point)
        if score is None or not math.isfinite(score):
            self._failed.add(point)
            self._scores[point] = []
        else:
            self._scores[point].append(score)

    def _begin(self, trials: Sequence[Trial]) -> None:
        self._has_begun = True
        losses = self._directions.losses
        scored = [trial for trial in trials if losses(trial.scores) != self._directions.worst]
        ranked = sorted(scored, key=lambda trial: losses(trial.scores))
        count = max(self._runs // LEADERS_SHARE, FEWEST_LEADERS)
        for trial in ranked:  # a point may have several trials, where repeats are allowed
            if len(self._first) < count:
                self._first.setdefault(trial.point, trial.scores[0] or 0.0)
        self._leaders = list(self._first)
        self._scores = {point: [] for point in self._leaders}

    def _halve(self) -> None:
        if all(set(self._scores[point]) == {self._first[point]} for point in self._leaders):
            self._leaders = []  # there is no noise
            return
        remaining = [point for point in self._leaders if point not in self._failed]
        remaining.sort(key=lambda point: self._directions.losses((fmean(self._scores[point]),)))
        self._leaders = remaining[: max(len(self._leaders) // 2, FINALISTS)]


def confirmed(scores: Sequence[Sequence[float]], directions: Directions) -> int | None:
    """Return which of the points with these fresh *scores* is the best one; None for none.

    By the mean, of points with more than half of the most measurements: one that was left behind
    may have been lucky again.
    """
    most = max(map(len, scores), default=0)
    measured = [at for at, of_point in enumerate(scores) if 2 * len(of_point) > most]
    return min(measured, key=lambda at: directions.losses((fmean(scores[at]),)), default=None)


def check_confirmation(runs: int, budget: Budget, directions: Directions) -> Budget:
    """Return what is left of *budget* for the search itself; InputError for *runs* too many."""
    if not runs:
        return budget
    if runs < 0 or len(directions) > 1:
        raise InputError(
            f"{runs} runs cannot confirm a best point"
            if runs < 0
            else "of several objectives there is no single best point to confirm, but a front",
            hint="give one objective, and 1 run or more",
        )
    if budget.trials is None:
        raise InputError(
            "the runs that confirm the best point are a part of the budget, which is not given",
            hint="say how many there are in all: a budget of 100",
        )
    if 2 * runs > budget.trials:
        raise InputError(
            f"{runs} of {budget.trials} runs to confirm the best point leave too few to find it",
            hint=f"at most half, a tenth to a fifth is usual: {max(budget.trials // 5, 1)}",
        )
    return replace(budget, trials=budget.trials - runs)


BATCH_LIMIT = 1024
"""Points that are asked for at a time where an evaluation is a function call."""


def drive(
    loop: SearchLoop, objective: Callable[[Point], Scores], limit: int = BATCH_LIMIT
) -> Iterator[Trial]:
    """Yield the trials of *loop*, whose points *objective* evaluates one after the other.

    Points that were asked for and not evaluated when the search ends are dropped.
    """
    yielded = 0
    while not loop.is_over:
        for number, point in loop.ask(limit):
            if loop.is_late():
                break
            loop.tell(number, objective(point))
            yield from loop.trials[yielded:]
            yielded = len(loop.trials)
    yield from loop.trials[yielded:]


def run_concurrent(
    loop: SearchLoop, submit: Callable[[Point], Future[Scores]], slots: int
) -> Iterator[Trial]:
    """Yield the trials of *loop* with *slots* evaluations at a time.

    A free slot gets the next point at once. If a future fails, its error is raised and the pending
    ones are cancelled.
    """
    in_flight: dict[Future[Scores], PendingTrial] = {}
    yielded = 0
    try:
        while not loop.is_over:
            for pending in loop.ask(slots - len(in_flight)):
                in_flight[submit(pending.point)] = pending
            if in_flight:
                completed, _ = wait(in_flight, return_when=FIRST_COMPLETED)
                for future in completed:
                    loop.tell(in_flight.pop(future).number, future.result())
            yield from loop.trials[yielded:]
            yielded = len(loop.trials)
    finally:
        for future in in_flight:
            future.cancel()
