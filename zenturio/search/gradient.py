"""Gradient descent by finite differences, on ordered parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.search.neighbours import interleave
from zenturio.settings.schema import setting


@dataclass(frozen=True)
class GradientSettings:
    descents: int = setting(1, "descents at the same time", low=1)
    step: float = setting(0.05, "first difference, as a share of each set", low=0, high=1)
    lengths: int = setting(6, "points evaluated along each direction", low=1)
    starts: int = setting(8, "random points; a descent starts at the best of them", low=1)
    finest: float = setting(1e-6, "difference at which a descent in continuous sets ends", low=0)


class Gradient(GeneratorEngine):
    """Gradient descent by finite differences, with restarts: for smooth, ordered spaces."""

    Settings: ClassVar[type[GradientSettings]] = GradientSettings

    def __init__(self, problem: SearchProblem, settings: GradientSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings
        self._moving = np.flatnonzero(self.genome.ordered & (self.genome.sizes > 1))
        self._scale = (self.genome.sizes[self._moving] - 1).astype(np.float64)

    def walk(self) -> SearchGenerator:
        return interleave([self._restarts(rng) for rng in self.rng.spawn(self._settings.descents)])

    def _restarts(self, rng: np.random.Generator) -> SearchGenerator:
        """Descend from one start after another, without end; unordered genes keep their value."""
        while True:
            starts = self.start_rows(rng, self._settings.starts)
            losses = (yield starts)[:, 0]
            if len(self._moving):
                yield from self._descend(starts[losses.argmin()], losses.min())

    def _descend(self, row: Ints, loss: float) -> SearchGenerator:
        share = self._settings.step
        while True:
            # At least to the next value: below that, both neighbours would be the point itself.
            steps = np.maximum(share, 1 / self._scale)
            nearby = self._nearby(row, steps)
            losses = (yield nearby)[:, 0]
            downhill = self._downhill(row, loss, nearby, losses)
            if downhill.any():
                along = self._along(row, downhill)
                line_losses = (yield along)[:, 0]
                nearby = np.concatenate([along, nearby])
                losses = np.concatenate([line_losses, losses])
            if losses.min() < loss:
                row, loss = nearby[losses.argmin()], losses.min()
            elif share < max(self._settings.finest, 0.5 / self._scale.max()):
                return
            else:
                share /= 4

    def _nearby(self, row: Ints, steps: Reals) -> Ints:
        """Return *row* with each ordered gene one step down, then with each one step up."""
        count = len(self._moving)
        targets = np.repeat(row[None, :], 2 * count, axis=0)
        whole: Ints = np.rint(steps * self._scale).astype(np.int64)
        targets[np.arange(count), self._moving] -= whole
        targets[np.arange(count) + count, self._moving] += whole
        return self.genome.moved(row, targets)

    def _downhill(self, row: Ints, loss: float, nearby: Ints, losses: Reals) -> Reals:
        """Return the direction of descent as shares of each set, scaled to a maximum of 1.

        Neighbours that failed, or that repairing made equal to *row*, are ignored.
        """
        count = len(self._moving)
        slopes = np.zeros(count)
        for at in range(2 * count):
            moved = (nearby[at, self._moving] - row[self._moving]) / self._scale
            run = moved[at % count]
            if run and np.isfinite(losses[at]) and np.isfinite(loss):
                # Half of each side: the mean of both differences, or half a slope where one side
                # is missing.
                slopes[at % count] -= (losses[at] - loss) / run / 2
        most = np.abs(slopes).max()
        return slopes / most if most > 0 else slopes

    def _along(self, row: Ints, direction: Reals) -> Ints:
        """Return points along *direction*, at doubling distances up to half of each set."""
        # The steepest gene sets the scale, so a length is the share of that gene's set.
        lengths = 0.5 ** np.arange(self._settings.lengths, 0, -1)
        targets = np.repeat(row[None, :], len(lengths), axis=0)
        steps = lengths[:, None] * direction[None, :] * self._scale
        targets[:, self._moving] += np.rint(steps).astype(np.int64)
        return self.genome.moved(row, targets)
