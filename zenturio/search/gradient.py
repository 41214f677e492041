"""Gradient descent by finite differences, on ordered parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.factors import Ints
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.steps import together
from zenturio.search.walker import Reals, Walk, Walker


@dataclass(frozen=True)
class GradientSettings:
    descents: int = setting(1, "descents at the same time", low=1)
    step: float = setting(0.05, "first difference, as a share of each set", low=0, high=1)
    lengths: int = setting(6, "points that are tried along each direction", low=1)
    starts: int = setting(8, "points of which the best is where a descent starts", low=1)
    finest: float = setting(1e-6, "difference at which a descent in continuous sets ends", low=0)


class Gradient(Walker):
    """The steepest way down (finite differences), and restarts: for smooth, ordered spaces."""

    Settings: ClassVar[type[GradientSettings]] = GradientSettings

    def __init__(self, task: Task, settings: GradientSettings) -> None:
        super().__init__(task, settings)
        self._settings = settings
        self._moving = np.flatnonzero(self.genome.ordered & (self.genome.sizes > 1))
        self._scale = (self.genome.sizes[self._moving] - 1).astype(np.float64)

    def walk(self) -> Walk:
        return together([self._fall(rng) for rng in self.rng.spawn(self._settings.descents)])

    def _fall(self, rng: np.random.Generator) -> Walk:
        """From one start after the other, for ever; what is not ordered stays as it starts."""
        while True:
            starts = self.genome.scattered(rng, self._settings.starts)
            losses = (yield starts)[:, 0]
            if len(self._moving):
                yield from self._descend(starts[losses.argmin()], losses.min())

    def _descend(self, row: Ints, loss: float) -> Walk:
        share = self._settings.step
        while True:
            steps = np.maximum(share, 1 / self._scale)
            nearby = self._nearby(row, steps)
            losses = (yield nearby)[:, 0]
            downhill = self._downhill(row, loss, nearby, losses)
            if downhill.any():
                ahead = self._ahead(row, downhill)
                further = (yield ahead)[:, 0]
                nearby = np.concatenate([ahead, nearby])
                losses = np.concatenate([further, losses])
            if losses.min() < loss:
                row, loss = nearby[losses.argmin()], losses.min()
            elif share < max(self._settings.finest, 0.5 / self._scale.max()):
                return
            else:
                share /= 4

    def _nearby(self, row: Ints, steps: Reals) -> Ints:
        """*row* with each ordered gene down by its step, then with each of them up."""
        count = len(self._moving)
        wishes = np.repeat(row[None, :], 2 * count, axis=0)
        whole: Ints = np.rint(steps * self._scale).astype(np.int64)
        wishes[np.arange(count), self._moving] -= whole
        wishes[np.arange(count) + count, self._moving] += whole
        return self.genome.repaired(wishes)

    def _downhill(self, row: Ints, loss: float, nearby: Ints, losses: Reals) -> Reals:
        """The direction in which the loss falls, as shares of each set, 1 at the most.

        A neighbour that failed, or that repairing made the same, says nothing.
        """
        count = len(self._moving)
        slopes = np.zeros(count)
        for at in range(2 * count):
            moved = (nearby[at, self._moving] - row[self._moving]) / self._scale
            run = moved[at % count]
            if run and np.isfinite(losses[at]) and np.isfinite(loss):
                slopes[at % count] -= (losses[at] - loss) / run / 2
        most = np.abs(slopes).max()
        return slopes / most if most > 0 else slopes

    def _ahead(self, row: Ints, direction: Reals) -> Ints:
        """Points along *direction*, each twice as far as the one before, up to half the sets."""
        lengths = 0.5 ** np.arange(self._settings.lengths, 0, -1)
        wishes = np.repeat(row[None, :], len(lengths), axis=0)
        steps = lengths[:, None] * direction[None, :] * self._scale
        wishes[:, self._moving] += np.rint(steps).astype(np.int64)
        return self.genome.repaired(wishes)
