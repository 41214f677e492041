"""The experiments that a search asks for. A run without a search does not load this module."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from zenturio.annotate.model import Goal, Repeat
from zenturio.errors import InputError
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.aggregates import mean
from zenturio.experiment.repeat_rule import StopReason, noise_of
from zenturio.search import (
    Budget,
    Direction,
    Directions,
    Scores,
    SearchLoop,
    SearchProblem,
    StopRules,
    make,
)
from zenturio.search.advised_search import AdvisedSearch
from zenturio.search.generator_engine import lag_for
from zenturio.space import Point, Space
from zenturio.study.driver.progress import BestPoint, score
from zenturio.study.driver.repeats_as_needed import PointRuns
from zenturio.study.last_options import SEARCH

if TYPE_CHECKING:
    from zenturio.study.driver.cached_points import CachedPoints, LoadCachedPoints


@dataclass(frozen=True)
class SearchSpec:
    """How points are searched for: which engine, set how, and when it ends."""

    engine: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    stops: StopRules = field(default_factory=StopRules)
    seed: int = 0
    slots: int = 1
    """How many points are evaluated at a time."""
    known: tuple[str, ...] | None = None
    """Digests of the experiments of known points, abbreviated; None before they were collected."""
    learn_from: str = ""
    """The study of another version or machine whose results advise the search."""
    advice: tuple[tuple[tuple[Any, ...], float], ...] = ()
    """Values of the parameters and scores in that study when the search began."""

    def resumed(self, before: Mapping[str, Any], slots: int) -> SearchSpec:
        """Return this search for *slots*, or for as many as it had when it was interrupted.

        *before* are the notes of its study. An engine asks ahead by the number of slots, so with
        the recorded number, and the points that were known when it began, a search proposes the
        same points. With more slots than that it begins anew, because otherwise slots would be
        idle.
        """
        noted = before.get(SEARCH, {})
        recorded = replace(
            self,
            slots=max(slots, int(noted.get("slots", 1))),
            known=tuple(noted.get("known", ())),
            advice=tuple((tuple(values), score) for values, score in noted.get("advice", ())),
        )
        return recorded if noted == recorded.note() else replace(self, slots=max(slots, 1))

    def note(self) -> dict[str, Any]:
        """Return what determines the points of this search, as JSON."""
        settings = {name: str(value) for name, value in sorted(self.settings.items())}
        return {
            "engine": self.engine,
            "settings": settings,
            "trials": self.budget.trials,
            "seed": self.seed,
            "slots": self.slots,
            "known": list(self.known or ()),
            **(
                {
                    "learn_from": self.learn_from,
                    "advice": [[list(values), score] for values, score in self.advice],
                }
                if self.learn_from
                else {}
            ),
        }

    def loop(
        self,
        space: Space,
        goals: Sequence[Goal],
        known: Mapping[Point, Scores] | None = None,
        shared: tuple[tuple[str, ...], ...] = (),
    ) -> SearchLoop:
        """Return the search on its way; InputError if it is not one for this engine or space.

        *shared* as `SearchProblem` has it.
        """
        if not goals:
            raise InputError(
                "a search needs an objective",
                hint="write ZEN$ OBJECTIVE MAXIMIZE metric, or --objective 'MINIMIZE wtime'",
            )
        directions = Directions(tuple(goal.direction for goal in goals))
        task = SearchProblem(
            space, directions, self.seed, self.budget.trials, slots=self.slots, shared=shared
        )
        engine = make(self.engine, task, self.settings)
        if self.learn_from:
            names = [parameter.name for parameter in space.dimensions]
            advice = {
                space.find(dict(zip(names, values, strict=True))): (score,)
                for values, score in self.advice
            }
            engine = AdvisedSearch(engine, task, advice)
        return SearchLoop(engine, directions, self.budget, self.stops, known=known)

    def lag(self, space: Space) -> int:
        """Return how many trials before one are not waited for when that is judged."""
        return lag_for(SearchProblem(space, budget=self.budget.trials, slots=self.slots))

    def planned(self, space: Space) -> int:
        """Return how many points it may come to; 0 where nobody knows."""
        size = space.size if space.finite else None
        limits = [count for count in (self.budget.trials, size) if count is not None]
        return min(limits, default=0)


FIRST_REPEATS = 2
"""Repeats of a point before it is compared with the best one."""
CLEARLY = 2.0
"""Standard errors by which a point is behind the best one, so that it gets no more repeats."""
FEWEST_FREEDOM = 5
"""Degrees of freedom of the noise, before which each point gets all its repeats."""


class Race:
    """Compares points with the best one so far, and stops repeats of those that are behind.

    Each point has a few repeats first; further ones, twice as many in all each time, as long as its
    mean is not behind that of the best point by more than noise explains (Birattari and others: A
    racing algorithm for configuring metaheuristics, 2002). So the best point has all its repeats.

    A point is compared with trials that lie *lag* trials or more before it, whichever others are
    complete by then: so its number of repeats does not depend on the order of outcomes.
    """

    def __init__(self, direction: Direction, lag: int) -> None:
        self._sign = 1.0 if direction == "minimize" else -1.0
        self._lag = lag
        self._scores: dict[int, list[float]] = {}
        """The scores of each trial's repeats, by its number."""

    def complete(self, number: int, scores: Sequence[float]) -> None:
        """Count a trial with its *scores*."""
        self._scores[number] = list(scores)

    def is_behind(self, number: int, scores: Sequence[float]) -> bool | None:
        """Return whether trial *number* is not the best one; None while earlier ones are pending.

        *scores* are those of its repeats so far.
        """
        reference = range(max(number - self._lag, 0))
        if any(earlier not in self._scores for earlier in reference):
            return None
        if not scores:
            return True
        trials = [self._scores[earlier] for earlier in reference if self._scores[earlier]]
        noise = noise_of([*trials, list(scores)])
        if not trials or noise is None or noise.freedom < FEWEST_FREEDOM:
            return False
        best = min(trials, key=lambda trial: self._sign * fmean(trial))
        mean, lowest = fmean(scores), fmean(best)
        is_worse = self._sign * mean > self._sign * lowest
        return is_worse and noise.tells_apart((mean, len(scores)), (lowest, len(best)), CLEARLY)


@dataclass
class _PendingPoint:
    """A point that was asked for, and the scores of its repeats so far."""

    numbers: list[int]
    runs: PointRuns
    scores: list[tuple[float | None, ...]] = field(default_factory=list)
    allowed: int = 0
    """How many runs it may have before it is compared with the best point."""


class SearchSource:
    """The experiments that a search asks for; each point's repeats count as their mean."""

    expecting = False
    ahead = 0  # what was asked for too early does not know what was learnt meanwhile

    def __init__(
        self,
        loop: SearchLoop,
        goals: Sequence[Goal],
        generator: ExperimentGenerator,
        repeat: Repeat,
        planned: int,
        lag: int = 0,
    ) -> None:
        self.loop = loop
        self.stops: Counter[StopReason] = Counter()
        """How many points needed no more runs, by the reason."""
        self._repeat = repeat
        self._goals = tuple(goals)
        self._generator = generator
        self._load: LoadCachedPoints | None = None
        self._cached: CachedPoints | None = None
        self._planned = planned
        self._made = 0
        self._ready: deque[Experiment] = deque()
        self._away: dict[Point, _PendingPoint] = {}
        self._points: dict[str, Point] = {}
        has_race = len(goals) == 1 and is_raced(repeat)
        self._race = Race(goals[0].direction, lag) if has_race else None

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Tell the search of cached points as *load* returns them, and make no experiments.

        Where results say how often a point runs, each of them is looked up.
        """
        if self._repeat.until is None and not self._repeat.warmup:
            self._load = load

    def __iter__(self) -> Iterator[Experiment | None]:
        if self._load:
            self._cached, self._load = self._load(self._generator.identity), None
        while self._ready or self._ask():
            yield self._ready.popleft() if self._ready else None

    @property
    def over(self) -> bool:
        # A point in flight may need more runs, if their number depends on what comes of them.
        may_grow = bool(self._race or self._repeat.until) and bool(self._away)
        return self.loop.is_over and not self._ready and not may_grow

    @property
    def ended(self) -> str:
        """What ended the search; empty while it goes on, or if it was left."""
        return self.loop.stop_reason if self.over else ""

    @property
    def best(self) -> BestPoint | None:
        """The best point by the first goal, at the mean of its repeats."""
        trial = self.loop.best
        if trial is None:
            return None
        return BestPoint(self._goals[0].expression.text, trial.scores[0], dict(trial.point))

    @property
    def total(self) -> int:
        return self._made if self.loop.stop_reason else max(self._planned, self._made)

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        point = self._points.pop(experiment.digest, None)
        if point is None:
            return
        pending = self._away[point]
        pending.runs.complete(experiment, outcome)
        if outcome.status == "ok":
            values = experiment.values
            pending.scores.append(
                tuple(score(goal.expression, values, outcome) for goal in self._goals)
            )
        self._go_on(point)
        # Others may have waited for this point to be compared with it.
        for waiting in [p for p, each in self._away.items() if each.runs.is_idle]:
            self._go_on(waiting)

    def _go_on(self, point: Point) -> None:
        """Make more runs of *point*, or tell the search of its scores if it needs none."""
        pending = self._away[point]
        if self.loop.is_over and pending.runs.is_idle:  # it ended before its budget did
            del self._away[point]
            return
        if self._race and pending.runs.is_idle and pending.runs.spared:
            values = [value for (value,) in pending.scores if value is not None]
            is_behind = self._race.is_behind(pending.numbers[0], values)
            if is_behind is None:
                return
            if is_behind:
                pending.runs.stop = "behind"
            pending.allowed *= 2
        if not pending.runs.has_all:
            self._add_runs(point)
            return
        del self._away[point]
        if pending.runs.stop is not None:
            self.stops[pending.runs.stop] += 1
        scores = mean_scores(pending.scores)
        for number in pending.numbers:
            self._tell(number, scores, pending.scores)

    def _tell(
        self,
        number: int,
        scores: tuple[float | None, ...],
        repeats: Sequence[tuple[float | None, ...] | None],
    ) -> None:
        if self._race:
            values = [each[0] for each in repeats if each]
            self._race.complete(number, [value for value in values if value is not None])
        self.loop.tell(number, scores)

    def _ask(self) -> bool:
        """Return whether the search had something new: what is cached is told at once."""
        has_cached = False
        for number, point in self.loop.ask(1):
            if point in self._away:
                self._away[point].numbers.append(number)
                continue
            if self._cached and (
                repeats := self._cached.take_scores(self._generator.keys_of(point))
            ):
                scores = mean_scores([s for s in repeats if s is not None])
                self._tell(number, scores, repeats)
                self._made += len(repeats)
                has_cached = True
                continue
            first = first_repeats(self._repeat)
            self._away[point] = _PendingPoint([number], PointRuns(self._repeat), allowed=first)
            self._add_runs(point)
        return has_cached or bool(self._ready)

    def _add_runs(self, point: Point) -> None:
        """Make the runs of *point* that are needed whatever comes of those in flight."""
        runs, allowed = self._away[point].runs, self._away[point].allowed
        while runs.stop is None and runs.spared and (number := runs.next_number) is not None:
            if self._race and runs.proposed >= allowed:
                return
            runs.propose()
            experiment = self._generator.experiment(point, number)
            self._points[experiment.digest] = point
            self._ready.append(experiment)
            self._made += 1


def is_raced(repeat: Repeat) -> bool:
    """Return whether a search with one objective may leave out repeats of a point."""
    return repeat.until is None and repeat.count > FIRST_REPEATS


def first_repeats(repeat: Repeat) -> int:
    """Return how many runs of a point a search begins with."""
    return FIRST_REPEATS + repeat.warmup if is_raced(repeat) else repeat.at_once


def mean_scores(scores: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...]:
    """Of the repeats that succeeded, for each goal; nothing if none did."""
    columns = zip(*scores, strict=True)
    return tuple(mean([value for value in column if value is not None]) for column in columns)
