"""An engine with advice: results of another version or machine, which may be misleading."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from zenturio.errors import InputError
from zenturio.search.batched import order_independent
from zenturio.search.engine import Search, SearchProblem
from zenturio.search.generator_engine import lag_for
from zenturio.search.genome import Genome
from zenturio.search.kriging_search import (
    Features,
    GaussianProcess,
    Reals,
    log_levels,
    select_training,
    single_thread,
)
from zenturio.search.loop import Scores
from zenturio.search.objective import Trial
from zenturio.space import Point

WASTED_SHARE = 10
"""One trial in so many may be spent on advice that is no improvement; one in any case."""
FEWEST_COMPARED = 6
"""Trials before the agreement of forecasts with results decides anything."""
SURE = 2.33
"""Deviations by which ranks must agree: by chance they do in one of a hundred cases. They are
compared after each trial, so that one of twenty would let many misleading results in."""
MODELLED = 200
"""Results that the forecasts are made from at the most."""


class TransferSearch:
    """An engine that is also told of the points that did best elsewhere.

    Results from elsewhere never count as results here. They are ranked by a model of them, and the
    best of these points take turns with the engine's own proposals. Such a turn must improve the
    best trial: one in ten trials, and no more, may be spent on those that do not. So whatever
    the results from elsewhere say, nine tenths of the budget are the engine's. No turn is taken
    while the ranks of the forecasts do not agree with those of the trials.

    The proposals depend on the order of trials alone, like those of engines that propose ahead.
    """

    order_independent = True

    def __init__(
        self, search: Search, problem: SearchProblem, source: Mapping[Point, Scores]
    ) -> None:
        if len(problem.directions) > 1:
            raise InputError(
                "results of other versions and machines advise a search with one objective, and"
                f" there are {len(problem.directions)}",
                hint="leave out --learn-from, or name one --objective",
            )
        self._search = order_independent(search)
        self._problem = problem
        # Results are compared in the order of proposals, so that many may be pending.
        self._lag = lag_for(replace(problem, ordered=True))
        self._forecasts = SourceForecasts(problem, source)
        self._advice = deque(self._forecasts.ranked)
        self._seen: set[Point] = set()
        """Points that were proposed, or known before."""
        self._asked: list[tuple[Point, bool]] = []
        """All proposals in their order, each with whether it is advice."""
        self._numbers: defaultdict[Point, deque[int]] = defaultdict(deque)
        """The proposals of each pending point."""
        self._trials: dict[int, Trial] = {}
        """Results by the number of the proposal, until they were learnt from."""
        self._learned = 0
        self._best = float("inf")
        self._unrewarded = 0
        """Turns of the advice that did not improve the best trial, or whose result is pending."""
        self._compared: list[tuple[float, float]] = []
        """Forecast and loss of each trial."""

    def ask(self, limit: int) -> Sequence[Point]:
        points: list[Point] = []
        while len(points) < limit and self._learn(len(self._asked) - self._lag):
            point = self._next_advice()
            is_advice = point is not None
            if point is None:
                own = self._search.ask(1)
                if not own:
                    break
                point = own[0]
            self._unrewarded += is_advice
            self._seen.add(point)
            self._numbers[point].append(len(self._asked))
            self._asked.append((point, is_advice))
            points.append(point)
        return points

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            numbers = self._numbers.get(trial.point)
            if not numbers:  # it was known before
                self._seen.add(trial.point)
                self._best = min(self._best, self._loss(trial))
                self._search.tell([trial])
                continue
            number = numbers.popleft()
            self._trials[number] = trial
            if not self._asked[number][1]:
                self._search.tell([trial])

    def _learn(self, count: int) -> bool:
        """Learn from the first *count* proposals; return False if one has no result yet."""
        while self._learned < count:
            trial = self._trials.pop(self._learned, None)
            if trial is None:
                return False
            is_advice = self._asked[self._learned][1]
            loss = self._loss(trial)
            if is_advice:
                # When the engine hears of it must not depend on when the result arrived.
                self._search.tell([trial])
                self._unrewarded -= loss < self._best < float("inf")
            self._best = min(self._best, loss)
            self._compared.append((self._forecasts.of(trial.point), loss))
            self._learned += 1
        return True

    def _next_advice(self) -> Point | None:
        """Return the next point of the advice if it is its turn, and it has one that is new."""
        if len(self._asked) % 2 or self._unrewarded >= self._allowance or not self._agrees:
            return None
        while self._advice:
            point = self._advice.popleft()
            if point not in self._seen:
                return point
        return None

    @property
    def _allowance(self) -> int:
        """How many turns of the advice need not be an improvement."""
        budget = self._problem.budget
        return max((len(self._asked) if budget is None else budget) // WASTED_SHARE, 1)

    @property
    def _agrees(self) -> bool:
        """Whether the ranks of forecasts and results agree by more than their chance deviation."""
        count = len(self._compared)
        if count < FEWEST_COMPARED:
            return False
        agreement = rank_correlation(np.array(self._compared))
        return bool(agreement * np.sqrt(count - 1) > SURE)

    def _loss(self, trial: Trial) -> float:
        return self._problem.directions.losses(trial.scores)[0]


class SourceForecasts:
    """Losses as a Gaussian process of the results from elsewhere foresees them."""

    def __init__(self, problem: SearchProblem, source: Mapping[Point, Scores]) -> None:
        self._genome = genome = Genome(problem.space, problem.seed)
        rows = {point: genome.row(point) for point in source}
        losses = np.array([problem.directions.losses(scores)[0] for scores in source.values()])
        self.ranked: list[Point] = []
        """The points whose results can be compared, the best forecast first."""
        self._model: GaussianProcess | None = None
        usable = np.isfinite(losses)
        if not usable.any():
            return
        table = np.array(list(rows.values()), dtype=np.int64).reshape(len(rows), -1)
        chosen = select_training(losses, MODELLED)
        self._model = GaussianProcess(Features(genome.sizes, genome.ordered, genome.optional))
        costs = log_levels(losses[chosen])
        with single_thread():
            self._model.learn(table[chosen], costs)
            self._model.fit(table[chosen], costs)
            means, _ = self._model.predict(table[usable])
        points = [point for point, is_usable in zip(rows, usable, strict=True) if is_usable]
        self.ranked = [points[at] for at in np.argsort(means, kind="stable")]

    def of(self, point: Point) -> float:
        """Return the forecast for *point*, in no particular unit."""
        if self._model is None:
            return 0.0
        with single_thread():
            means, _ = self._model.predict(self._genome.row(point)[None, :])
        return float(means[0])


def rank_correlation(pairs: Reals) -> float:
    """Return Spearman's rank correlation of two columns; 0 if one of them does not vary."""
    ranks = np.stack([_mean_ranks(column) for column in pairs.T])
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norm = np.sqrt((centred**2).sum(axis=1).prod())
    return float((centred[0] * centred[1]).sum() / norm) if norm else 0.0


def _mean_ranks(values: Reals) -> Reals:
    """Return the rank of each value; equal ones share the mean of theirs."""
    # As `experiment.aggregates.mean_ranks`, which is in a package above this one.
    _, of, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Reals = (ends - (counts - 1) / 2)[of.ravel()]
    return ranks
