"""Bayesian optimisation with a Gaussian process (kriging; Jones, Schonlau and Welch 1998)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gaussian_process import Features, GaussianProcess, Reals
from zenturio.search.gene_blocks import Ints
from zenturio.search.generator_engine import GeneratorEngine, SearchGenerator
from zenturio.search.settings import setting

FEWEST, MOST = 4, 20
"""Limits of the random points before the first model."""
REFIT_FACTOR = 1.3
"""The hyperparameters are refitted when the number of trials grew by this factor."""
ROUNDS = 4
"""Generations of candidates, each made from the best of the one before."""
POOL = 20
"""The number of best rows from which new candidates are made."""
LEVEL = 0.3
"""Offset of the logarithm of losses: smaller values stretch differences among the best."""


@dataclass(frozen=True)
class KrigingSettings:
    starts: int | None = setting(
        None, "random points before the first model; auto: 20, fewer for small budgets", low=2
    )
    batch: int = setting(4, "points in a batch", low=1)
    candidates: int = setting(
        300, "points that the model predicts, in each of 4 generations", low=8
    )
    caution: float = setting(1.0, "weight of uncertainty: larger values explore more", low=0)
    memory: int = setting(400, "largest number of trials in the model", low=10)


class KrigingSearch(GeneratorEngine):
    """Bayesian optimisation with a Gaussian process: for few, expensive experiments."""

    Settings: ClassVar[type[KrigingSettings]] = KrigingSettings

    def __init__(self, problem: SearchProblem, settings: KrigingSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings

    @property
    def starts(self) -> int:
        """The number of random points before the first model."""
        if self._settings.starts is not None:
            return self._settings.starts
        budget = self.problem.budget
        return MOST if budget is None else min(max(budget // 6, FEWEST), MOST)

    def walk(self) -> SearchGenerator:
        model = GaussianProcess(Features(self.genome.sizes, self.genome.ordered))
        yield self.genome.scatter(self.rng, self.starts)
        fitted_at = 0
        while True:
            rows, losses = self._evaluated_rows()
            selected = select_training(losses, self._settings.memory)
            costs = log_levels(losses[selected])
            if len(rows) >= REFIT_FACTOR * fitted_at:
                model.learn(rows[selected], costs)
                fitted_at = len(rows)
            model.fit(rows[selected], costs)
            yield self._candidates(model, rows[np.argsort(losses, kind="stable")[:POOL]])

    def _evaluated_rows(self) -> tuple[Ints, Reals]:
        """Return the rows and losses of all trials, those of other engines included."""
        width = 8 * self.genome.length
        rows = np.frombuffer(b"".join(row[:width] for row in self.evaluated), dtype=np.int64)
        losses = np.array([bounds[0] for row, bounds in self.evaluated.items() if row])
        return rows.reshape(-1, self.genome.length), losses

    def _candidates(self, model: GaussianProcess, pool: Ints) -> Ints:
        """Search for the rows with the best lower confidence bound by evolution; return a batch."""
        count = self._settings.candidates
        best, bounds = np.empty((0, pool.shape[1]), dtype=np.int64), np.empty(0)
        targets = [self.genome.scatter(self.rng, count // 3), self._variations(pool, count)]
        for _ in range(ROUNDS):
            new = self.unseen(np.unique(self.genome.repair(np.concatenate(targets)), axis=0))
            mean, deviation = model.predict(new)
            best = np.concatenate([best, new])
            bounds = np.concatenate([bounds, mean - self._settings.caution * deviation])
            best, first = np.unique(best, axis=0, return_index=True)
            order = np.argsort(bounds[first], kind="stable")[:POOL]
            best, bounds = best[order], bounds[first][order]
            if not len(best):
                anywhere = self.genome.draw(self.rng, count)
                new = self.unseen(anywhere)
                return (new if len(new) else anywhere)[:1]
            targets = [self._variations(best, count)]
        return best[: self._settings.batch]

    def _variations(self, pool: Ints, count: int) -> Ints:
        """Return variations of the rows of *pool*, more of the first: crossover and mutation."""
        rng, sizes, width = self.rng, self.genome.sizes, self.genome.length
        first, second = np.minimum(rng.geometric(0.25, (2, count)) - 1, len(pool) - 1)
        share = rng.choice([0.0, 0.3], (count, 1))
        targets = np.where(rng.random((count, width)) < share, pool[second], pool[first])
        hit = rng.random((count, width)) < rng.choice([1.0, 2.0, 4.0], (count, 1)) / width
        hit[np.arange(count), rng.integers(width, size=count)] = True
        reach = 0.3 * 10.0 ** -rng.uniform(0, 2.5, (count, 1))
        steps = rng.normal(size=(count, width)) * reach * (sizes - 1)
        offsets = (np.sign(steps) * np.ceil(np.abs(steps))).astype(np.int64)
        anything = rng.integers(sizes, size=(count, width))
        return np.where(hit, np.where(self.genome.ordered, targets + offsets, anything), targets)


def select_training(losses: Reals, most: int) -> Ints:
    """Return the trials that enter the model: all, or the last ones and the best of the rest."""
    recent = np.arange(max(len(losses) - most // 2, 0), len(losses))
    best = np.argsort(losses[: len(losses) - len(recent)], kind="stable")
    return np.sort(np.concatenate([best[: most - len(recent)], recent]))


def log_levels(losses: Reals) -> Reals:
    """Return the logarithms of *losses*, standardised, so that bad ones do not hide the good ones.

    A failed trial counts as the worst one.
    """
    usable = losses[np.isfinite(losses)]
    if not len(usable) or usable.min() == usable.max():
        return np.zeros(len(losses))
    best, width = usable.min(), np.median(usable) - usable.min()
    above = (np.minimum(losses, usable.max()) - best) / (width or usable.max() - best)
    levels: Reals = np.log(above + LEVEL)
    levels -= levels.mean()
    return levels / float(levels.std() or 1.0)
