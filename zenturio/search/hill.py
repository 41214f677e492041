"""Hill climbing with restarts, by steps that become smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.factors import Ints
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.steps import around, together
from zenturio.search.walker import Walk, Walker

FINEST = 2.0**-30
"""The smallest step in a continuous set, as a share of it."""


@dataclass(frozen=True)
class HillSettings:
    climbers: int = setting(1, "climbers at the same time", low=1)
    step: float = setting(0.25, "first step of ordered parameters, as a share", low=0, high=1)
    others: int = setting(8, "other values tried of a parameter that is not ordered", low=1)
    starts: int = setting(8, "points of which the best is where a climber starts", low=1)


class Hill(Walker):
    """The best neighbour, again and again, then from elsewhere: for smooth, ordered spaces."""

    Settings: ClassVar[type[HillSettings]] = HillSettings

    def __init__(self, task: Task, settings: HillSettings) -> None:
        super().__init__(task, settings)
        self._settings = settings

    def walk(self) -> Walk:
        return together([self._climb(rng) for rng in self.rng.spawn(self._settings.climbers)])

    def _climb(self, rng: np.random.Generator) -> Walk:
        """Up from one start after the other, for ever."""
        while True:
            starts = self.genome.scattered(rng, self._settings.starts)
            losses = (yield starts)[:, 0]
            yield from self._ascend(starts[losses.argmin()], losses.min(), rng)

    def _ascend(self, row: Ints, loss: float, rng: np.random.Generator) -> Walk:
        """From *row* to where no neighbour is better, whatever the step."""
        share, chosen = self._settings.step, self._settings
        finest = FINEST if self.genome.count is None else 1 / max(self.genome.sizes.max(), 2)
        while True:
            nearby = around(self.genome, row, share, chosen.others, rng)
            if len(nearby):
                losses = (yield nearby)[:, 0]
                if losses.min() < loss:
                    row, loss = nearby[losses.argmin()], losses.min()
                    continue
            if share < finest:
                return
            share /= 4
