"""The default engine, which chooses by the problem and by what was successful."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenturio.search.baselines import Random
from zenturio.search.engine import Search, SearchProblem
from zenturio.search.ga import Ga, GaSettings
from zenturio.search.gene_encoding import FINE, Ints
from zenturio.search.kriging_search import (
    FEWEST,
    MOST,
    KrigingSearch,
    KrigingSettings,
    Reals,
    log_levels,
)
from zenturio.search.local_quadratic import LocalQuadratic
from zenturio.search.nsga2 import Nsga2, Nsga2Settings
from zenturio.search.objective import Trial
from zenturio.settings.schema import NoSettings
from zenturio.space import Point

MODEL_TRIALS = 2000
"""The largest budget for models; beyond it, their proposals take longer than what they save."""
MEMORY_TRIALS = 500
"""Spaces of more points than this are not modelled if the budget is enough for all of them."""
EVEN_CHANCE, FORGETTING = 0.3, 0.95
"""The share of turns that successes do not decide, and the weight of a turn after the next one."""
LEAST_GAIN = 0.01
"""In a space that is not all continuous: the share of the median's distance from the best by which
a success improves the best."""
FINE_RADIUS, FINE_SHARE = 1e-4, 0.25
"""The radius below which a quadratic polishes a minimum, and its share of the turns from then on;
none in a space that is not all continuous."""
FEWER_STARTS = 4
"""Random points that a space of continuous genes alone can do without, as the first one is in the
middle and the quadratic steps as soon as it has four points."""
MODEL, QUADRATIC = "model", "quadratic"


class Auto:
    """The best engine for the problem, chosen and mixed by what is successful: the default."""

    Settings = KrigingSettings
    order_independent = True
    multi_objective = True

    def __init__(self, problem: SearchProblem, settings: KrigingSettings) -> None:
        self.chosen = _choose(problem, settings)
        """The engine that proposes the points."""

    def ask(self, limit: int) -> Sequence[Point]:
        return self.chosen.ask(limit)

    def tell(self, trials: Iterable[Trial]) -> None:
        self.chosen.tell(trials)


def _choose(problem: SearchProblem, settings: KrigingSettings) -> Search:
    budget, several = problem.budget, len(problem.directions) > 1
    mixed = GlobalLocalSearch(problem, settings)
    count = mixed.genome.count
    if budget is not None and count is not None and MEMORY_TRIALS < count <= budget:
        return Random(problem, NoSettings())  # all points, in any order
    # Without a budget the first trials count most, as a user may stop after any of them.
    if budget is not None and budget > MODEL_TRIALS:
        if several:
            return Nsga2(problem, Nsga2Settings())
        return Ga(problem, GaSettings())
    return mixed


class GlobalLocalSearch(KrigingSearch):
    """Proposals of a model of the whole space and of a quadratic around the best point.

    Each turn is of the one with the larger of two draws from the distributions of their chances to
    improve the best (Thompson sampling). For several objectives each proposal minimises another
    weighted maximum of them (ParEGO; Knowles 2006).
    """

    def __init__(self, problem: SearchProblem, settings: KrigingSettings) -> None:
        super().__init__(problem, settings)
        self._continuous = np.flatnonzero(self.genome.sizes > FINE)
        self._quadratic = LocalQuadratic(self.rng)
        self._turns: dict[bytes, tuple[str, int]] = {}
        """The proposer of each row whose result was not rewarded yet, and its epoch."""
        self._successes = {MODEL: 0.0, QUADRATIC: 0.0}
        self._counts = {MODEL: 0.0, QUADRATIC: 0.0}
        self._best, self._gain = np.inf, 0.0
        self._is_mixed = len(self._continuous) < int((self.genome.sizes > 1).sum())

    @property
    def starts(self) -> int:
        budget = self.problem.budget
        has_quadratic = not self._is_mixed and len(self.problem.directions) == 1
        if self._settings.starts is not None or budget is None or not has_quadratic:
            return super().starts
        return min(max(budget // 6 - FEWER_STARTS, FEWEST), MOST)

    def first_rows(self, count: int) -> Ints:
        """Return *count* rows to begin with: the first one is in the middle of continuous genes."""
        rows = super().first_rows(count)
        continuous, first = self._continuous, rows[0]
        lowest = self.genome.optional[continuous].astype(np.int64)
        middle = lowest + (self.genome.sizes[continuous] - 1 - lowest) // 2
        first[continuous] = np.where(first[continuous] < lowest, first[continuous], middle)
        rows[:1] = self.genome.repair(rows[:1])
        return rows

    def propose(self) -> Ints:
        self._reward()
        rows, losses = self.evaluated_rows()
        quadratic = self._next_step(rows, losses) if self._has_quadratic(rows, losses) else None
        if quadratic is None:
            row = super().propose()
            self._turns[row.tobytes()] = MODEL, 0
        else:
            row = quadratic
            self._turns[row.tobytes()] = QUADRATIC, self._quadratic.epoch
        return row

    def evaluated_rows(self) -> tuple[Ints, Reals]:
        rows, losses = super().evaluated_rows()
        objectives = len(self.problem.directions)
        if objectives == 1 or not len(rows):
            return rows, losses
        bounds = np.array([losses for row, losses in self.evaluated.items() if row])
        failed = ~np.isfinite(bounds).all(axis=1)
        levels = np.stack([log_levels(column) for column in bounds.T], axis=1)
        weights = self.rng.dirichlet(np.ones(objectives))
        weighted = weights * (levels - levels.min(axis=0))
        scalar = weighted.max(axis=1) + 0.05 * weighted.sum(axis=1)
        return rows, np.where(failed, np.inf, scalar)

    def _reward(self) -> None:
        """Count the successes of proposals whose results arrived, in the order of proposals."""
        arrived = [row for row in self._turns if row in self.evaluated]
        others = (loss for row, (loss, *_) in self.evaluated.items() if row not in self._turns)
        self._best = min(others, default=np.inf)
        for row in arrived:
            name, epoch = self._turns.pop(row)
            loss = self.evaluated[row][0]
            improved = loss < self._best - self._gain
            if name == QUADRATIC:
                self._quadratic.observe(improved=loss < self._best, epoch=epoch)
            self._best = min(self._best, loss)
            for proposer in self._counts:
                self._counts[proposer] *= FORGETTING
                self._successes[proposer] *= FORGETTING
            self._counts[name] += 1
            self._successes[name] += improved

    def _has_quadratic(self, rows: Ints, losses: Reals) -> bool:
        """Return whether the next turn is one of the quadratic."""
        if not len(self._continuous) or len(self.problem.directions) > 1:
            return False
        usable = losses[np.isfinite(losses)]
        if len(rows) < FEWEST or not len(usable):
            return False
        if self._is_mixed:
            # The last digits of a minimum are worth less than another kind, or another branch.
            self._gain = LEAST_GAIN * float(np.median(usable) - usable.min())
        if self._quadratic.radius < FINE_RADIUS:
            # One minimum has all its digits but the last ones: there may be better ones elsewhere.
            return not self._is_mixed and bool(self.rng.random() < FINE_SHARE)
        if self.rng.random() < EVEN_CHANCE:
            return bool(self.rng.random() < 0.5)
        draws = {
            name: self.rng.beta(
                1 + self._successes[name], 1 + self._counts[name] - self._successes[name]
            )
            for name in self._counts
        }
        return bool(draws[QUADRATIC] > draws[MODEL])

    def _next_step(self, rows: Ints, losses: Reals) -> Ints | None:
        """Return the row of a step in the continuous genes of the best row; None for no new one."""
        best = rows[np.argmin(losses)]
        continuous = self._continuous
        moving = continuous[~self.genome.optional[continuous] | (best[continuous] != 0)]
        if not len(moving):
            return None
        lowest = self.genome.optional[moving].astype(np.int64)
        span = (self.genome.sizes[moving] - 1 - lowest).astype(np.float64)
        fixed = np.ones(self.genome.length, dtype=np.bool_)
        fixed[moving] = False

        def shares(table: Ints) -> Reals:
            like = (table[:, fixed] == best[fixed]).all(axis=1)
            within: Reals = (table[like][:, moving] - lowest) / span
            return within

        peers = (rows[:, fixed] == best[fixed]).all(axis=1)
        target = self._quadratic.propose(
            shares(rows), losses[peers], shares(self.rows_of(self.unanswered))
        )
        row = best.copy()
        row[moving] = lowest + np.rint(target * span).astype(np.int64)
        new = self.unseen(self.genome.moved(best, row[None, :]))
        return new if len(new) else None
