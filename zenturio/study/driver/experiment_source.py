"""Where the experiments of a run come from: points in their order, or a search that learns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from time import monotonic
from typing import Any, Protocol

from zenturio.annotate.model import Goal
from zenturio.errors import InputError
from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.aggregates import mean
from zenturio.experiment.experiment import RunPosition
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, StopRules, make
from zenturio.space import Point, Space
from zenturio.study.driver.experiment_states import Proposed
from zenturio.study.driver.progress import BestPoint, score
from zenturio.study.driver.run_order import WINDOW, RunOrder

HELD = 32 * 2**20
"""Bytes of filled files that are held at the most for those that wait."""
SPELL = 0.5
"""Seconds that are spent at the most on making experiments while others wait to be recorded."""

MakeExperiments = Callable[[Point], Iterable[Experiment]]
MakeExperiment = Callable[[Point, int, RunPosition | None], Experiment]
"""Makes one repeat of a point, which has a position in the order of the run."""


class ExperimentSource(Protocol):
    """Hands out experiments, and hears what became of them."""

    def __iter__(self) -> Iterator[Experiment]:
        """Yield those that can be had now; asked again, those that came since."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more comes when what is out has landed."""
        ...

    @property
    def expecting(self) -> bool:
        """Whether more may come although nothing of this source is out."""
        ...

    @property
    def total(self) -> int:
        """How many there are in all, as far as it can be known now."""
        ...

    @property
    def ahead(self) -> int:
        """How many may be made before there is room for them."""
        ...

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """One of them has its outcome for good."""
        ...


class Proposals:
    """Experiments of a source, taken in batches that are not too many, too large, or too slow."""

    def __init__(self, source: ExperimentSource) -> None:
        self._source = source
        self._made: list[Experiment] = []

    def make(self, count: int) -> Proposed:
        """Take *count* experiments, or as many as the source likes to make ahead.

        What was made before the source raised an error belongs to the next batch.
        """
        size = 0
        counted: set[int] = set()
        end = monotonic() + SPELL
        most = max(count, self._source.ahead)
        for experiment in self._source:
            self._made.append(experiment)
            for filed in experiment.files:
                if filed.content is not None and id(filed.content) not in counted:
                    counted.add(id(filed.content))  # many experiments share what is not filled
                    size += len(filed.content)
            if len(self._made) >= most or size > HELD or monotonic() > end:
                return Proposed(self._take(), exhausted=False, over=False)
        return Proposed(self._take(), exhausted=True, over=self._source.over)

    def _take(self) -> list[Experiment]:
        made, self._made = self._made, []
        return made


class PointsInOrder:
    """Experiments in a given order, each made when it is asked for."""

    over = True
    expecting = False
    ahead = WINDOW

    def __init__(self, experiments: Iterator[Experiment], total: int) -> None:
        self.total = total
        self._experiments = experiments

    def __iter__(self) -> Iterator[Experiment]:
        return self._experiments

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """A walk learns nothing on its way."""


class ArrangedPoints(PointsInOrder):
    """The repeats of points in the order of a run: sorted, until `arrange` names another one."""

    def __init__(
        self, points: Iterable[Point], make: MakeExperiment, repeats: int, total: int
    ) -> None:
        super().__init__(self._arranged(RunOrder()), total)
        self._points = enumerate(points)
        self._make = make
        self._repeats = repeats
        self._first: list[tuple[int, Point]] = []
        self._tried: dict[int, Experiment] = {}

    def try_first(self) -> Iterable[Experiment]:
        """Return the experiments of the first points, made now; they come in their turn, too."""
        self._first = list(islice(self._points, WINDOW))
        self._tried = {at: self._make(point, 1, None) for at, point in self._first}
        return self._tried.values()

    def arrange(self, order: RunOrder) -> None:
        """Go through the points in *order* from now on."""
        self._experiments = self._arranged(order)

    def _arranged(self, order: RunOrder) -> Iterator[Experiment]:
        points = chain(self._first, self._points)
        for (at, point), repeat, position in order.arrange(points, self._repeats):
            if repeat == 1 and (tried := self._tried.pop(at, None)):
                yield replace(tried, position=position)
            else:
                yield self._make(point, repeat, position)


@dataclass(frozen=True)
class SearchSpec:
    """How points are searched for: which engine, set how, and when it ends."""

    engine: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    stops: StopRules = field(default_factory=StopRules)
    seed: int = 0

    def loop(self, space: Space, goals: Sequence[Goal]) -> SearchLoop:
        """Return the search on its way; InputError if it is not one for this engine or space."""
        if not goals:
            raise InputError(
                "a search needs an objective",
                hint="write ZEN$ OBJECTIVE MAXIMIZE metric, or --objective 'MINIMIZE wtime'",
            )
        directions = Directions(tuple(goal.direction for goal in goals))
        task = SearchProblem(space, directions, self.seed, self.budget.trials)
        return SearchLoop(
            make(self.engine, task, self.settings), directions, self.budget, self.stops
        )

    def planned(self, space: Space) -> int:
        """Return how many points it may come to; 0 where nobody knows."""
        size = space.size if space.finite else None
        limits = [count for count in (self.budget.trials, size) if count is not None]
        return min(limits, default=0)


@dataclass
class _PendingPoint:
    """A point that was asked for, and the scores of its repeats so far."""

    numbers: list[int]
    left: int
    scores: list[tuple[float | None, ...]] = field(default_factory=list)


class SearchSource:
    """The experiments that a search asks for; each point's repeats count as their mean."""

    expecting = False
    ahead = 0  # what was asked for too early does not know what was learnt meanwhile

    def __init__(
        self, loop: SearchLoop, goals: Sequence[Goal], make: MakeExperiments, planned: int
    ) -> None:
        self.loop = loop
        self._goals = tuple(goals)
        self._make = make
        self._planned = planned
        self._made = 0
        self._ready: deque[Experiment] = deque()
        self._away: dict[Point, _PendingPoint] = {}
        self._points: dict[str, Point] = {}

    def __iter__(self) -> Iterator[Experiment]:
        while self._ready or self._ask():
            yield self._ready.popleft()

    @property
    def over(self) -> bool:
        return self.loop.is_over and not self._ready

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
        pending.left -= 1
        if outcome.status == "ok":
            values = experiment.values
            pending.scores.append(
                tuple(score(goal.expression, values, outcome) for goal in self._goals)
            )
        if not pending.left:
            del self._away[point]
            scores = mean_scores(pending.scores)
            for number in pending.numbers:
                self.loop.tell(number, scores)

    def _ask(self) -> bool:
        """Return whether the search had something new."""
        for number, point in self.loop.ask(1):
            if point in self._away:
                self._away[point].numbers.append(number)
                continue
            experiments = tuple(self._make(point))
            self._away[point] = _PendingPoint([number], len(experiments))
            self._points |= {experiment.digest: point for experiment in experiments}
            self._ready += experiments
            self._made += len(experiments)
        return bool(self._ready)


def mean_scores(scores: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...]:
    """Of the repeats that succeeded, for each goal; nothing if none did."""
    columns = zip(*scores, strict=True)
    return tuple(mean([value for value in column if value is not None]) for column in columns)
