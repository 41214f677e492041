"""Hill climbing with restarts and shrinking steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, SearchGenerator
from zenturio.search.neighbours import interleave, neighbours_of
from zenturio.settings.schema import setting

FINEST = 2.0**-30
"""The smallest step in a continuous set, as a share of its range."""


@dataclass(frozen=True)
class HillSettings:
    climbers: int = setting(1, "climbers at the same time", low=1)
    step: float = setting(
        0.25, "first step of ordered parameters, as a share of the set", low=0, high=1
    )
    others: int = setting(8, "other values that are tried for an unordered parameter", low=1)
    starts: int = setting(8, "random points; a climber starts at the best of them", low=1)


class Hill(GeneratorEngine):
    """Hill climbing with restarts: for smooth, ordered spaces."""

    Settings: ClassVar[type[HillSettings]] = HillSettings

    def __init__(self, problem: SearchProblem, settings: HillSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings

    def walk(self) -> SearchGenerator:
        return interleave([self._climb(rng) for rng in self.rng.spawn(self._settings.climbers)])

    def _climb(self, rng: np.random.Generator) -> SearchGenerator:
        """Climb from one start after another, without end."""
        while True:
            starts = self.start_rows(rng, self._settings.starts)
            losses = (yield starts)[:, 0]
            yield from self._ascend(starts[losses.argmin()], losses.min(), rng)

    def _ascend(self, row: Ints, loss: float, rng: np.random.Generator) -> SearchGenerator:
        """Move from *row* to the best neighbour until no neighbour is better at any step size."""
        share, settings = self._settings.step, self._settings
        finest = FINEST if self.genome.count is None else 1 / max(self.genome.sizes.max(), 2)
        while True:
            nearby = neighbours_of(self.genome, row, share, settings.others, rng)
            if len(nearby):
                losses = (yield nearby)[:, 0]
                if losses.min() < loss:
                    row, loss = nearby[losses.argmin()], losses.min()
                    continue
            if share < finest:
                return
            # A quarter, not a half: each size costs a round over all neighbours.
            share /= 4
