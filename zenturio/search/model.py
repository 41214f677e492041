"""Search by a model of all that was tried: kriging (Jones, Schonlau and Welch 1998)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.factors import Ints
from zenturio.search.kriging import Features, Kriging, Reals
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.walker import Walk, Walker

FEWEST, MOST = 4, 20
"""Points by chance before there is a model."""
GROWN = 1.3
"""The model learns anew which genes matter when it has so many times the trials."""
ROUNDS = 4
"""How often candidates are made from the best candidates."""
POOL = 20
"""Of how many good rows new candidates are made."""
LEVEL = 0.3
"""The less, the more the differences among the best trials count."""


@dataclass(frozen=True)
class ModelSettings:
    starts: int | None = setting(
        None, "points by chance before there is a model; auto: 20, fewer for small budgets", low=2
    )
    batch: int = setting(4, "points that are asked for before the model is told of them", low=1)
    candidates: int = setting(300, "points that the model looks at, in each of 4 rounds", low=8)
    caution: float = setting(1.0, "how much is looked where little is known", low=0)
    memory: int = setting(400, "trials that the model is made of at the most", low=10)


class Model(Walker):
    """What a model foresees as the best of all that was not tried: for few, dear experiments."""

    Settings: ClassVar[type[ModelSettings]] = ModelSettings

    def __init__(self, task: Task, settings: ModelSettings) -> None:
        super().__init__(task, settings)
        self._settings = settings

    @property
    def starts(self) -> int:
        """How many points are drawn before there is a model."""
        if self._settings.starts is not None:
            return self._settings.starts
        budget = self.task.budget
        return MOST if budget is None else min(max(budget // 6, FEWEST), MOST)

    def walk(self) -> Walk:
        model = Kriging(Features(self.genome.sizes, self.genome.ordered))
        yield self.genome.scattered(self.rng, self.starts)
        learnt = 0
        while True:
            rows, losses = self._tried()
            held = held_of(losses, self._settings.memory)
            costs = levelled(losses[held])
            if len(rows) >= GROWN * learnt:
                model.learn(rows[held], costs)
                learnt = len(rows)
            model.fit(rows[held], costs)
            yield self._promising(model, rows[np.argsort(losses, kind="stable")[:POOL]])

    def _tried(self) -> tuple[Ints, Reals]:
        """All that it was told of, those among it that it did not ask for too."""
        width = 8 * self.genome.length
        rows = np.frombuffer(b"".join(row[:width] for row in self.known), dtype=np.int64)
        losses = np.array([worth[0] for row, worth in self.known.items() if row])
        return rows.reshape(-1, self.genome.length), losses

    def _promising(self, model: Kriging, pool: Ints) -> Ints:
        """The candidates that may be the best, of which the better ones had descendants."""
        count = self._settings.candidates
        best, worth = np.empty((0, pool.shape[1]), dtype=np.int64), np.empty(0)
        wishes = [self.genome.scattered(self.rng, count // 3), self._varied(pool, count)]
        for _ in range(ROUNDS):
            new = self.unseen(np.unique(self.genome.repaired(np.concatenate(wishes)), axis=0))
            likely, doubt = model.foresee(new)
            best = np.concatenate([best, new])
            worth = np.concatenate([worth, likely - self._settings.caution * doubt])
            best, first = np.unique(best, axis=0, return_index=True)
            order = np.argsort(worth[first], kind="stable")[:POOL]
            best, worth = best[order], worth[first][order]
            if not len(best):
                anywhere = self.genome.drawn(self.rng, count)
                new = self.unseen(anywhere)
                return (new if len(new) else anywhere)[:1]
            wishes = [self._varied(best, count)]
        return best[: self._settings.batch]

    def _varied(self, pool: Ints, count: int) -> Ints:
        """Descendants of *pool*, more of its first rows: some genes of another one, some new."""
        rng, sizes, width = self.rng, self.genome.sizes, self.genome.length
        first, second = np.minimum(rng.geometric(0.25, (2, count)) - 1, len(pool) - 1)
        share = rng.choice([0.0, 0.3], (count, 1))
        wishes = np.where(rng.random((count, width)) < share, pool[second], pool[first])
        hit = rng.random((count, width)) < rng.choice([1.0, 2.0, 4.0], (count, 1)) / width
        hit[np.arange(count), rng.integers(width, size=count)] = True
        reach = 0.3 * 10.0 ** -rng.uniform(0, 2.5, (count, 1))
        steps = rng.normal(size=(count, width)) * reach * (sizes - 1)
        away = (np.sign(steps) * np.ceil(np.abs(steps))).astype(np.int64)
        anything = rng.integers(sizes, size=(count, width))
        return np.where(hit, np.where(self.genome.ordered, wishes + away, anything), wishes)


def held_of(losses: Reals, most: int) -> Ints:
    """Which trials a model is made of: all of them, or the last ones and the best of the rest."""
    recent = np.arange(max(len(losses) - most // 2, 0), len(losses))
    best = np.argsort(losses[: len(losses) - len(recent)], kind="stable")
    return np.sort(np.concatenate([best[: most - len(recent)], recent]))


def levelled(losses: Reals) -> Reals:
    """*losses* with mean 0 and variance 1, so that the bad ones do not hide the good ones.

    What failed is as bad as the worst.
    """
    usable = losses[np.isfinite(losses)]
    if not len(usable) or usable.min() == usable.max():
        return np.zeros(len(losses))
    best, width = usable.min(), np.median(usable) - usable.min()
    above = (np.minimum(losses, usable.max()) - best) / (width or usable.max() - best)
    levels: Reals = np.log(above + LEVEL)
    levels -= levels.mean()
    return levels / float(levels.std() or 1.0)
