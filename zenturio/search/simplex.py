"""The simplex method of Nelder and Mead (1965), on ordered parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.search.genome import Genome
from zenturio.search.neighbours import interleave
from zenturio.settings.schema import setting


@dataclass(frozen=True)
class SimplexSettings:
    simplexes: int = setting(1, "simplexes at the same time", low=1)
    step: float = setting(0.25, "edges of the first simplex, as a share of each set", low=0, high=1)
    starts: int = setting(8, "random points; a simplex starts at the best of them", low=1)
    finest: float = setting(1e-6, "edge at which a simplex in continuous sets ends", low=0)


class Simplex(GeneratorEngine):
    """The Nelder-Mead simplex with restarts: for few, ordered parameters."""

    Settings: ClassVar[type[SimplexSettings]] = SimplexSettings

    def __init__(self, problem: SearchProblem, settings: SimplexSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings

    def walk(self) -> SearchGenerator:
        return interleave([self._restarts(rng) for rng in self.rng.spawn(self._settings.simplexes)])

    def _restarts(self, rng: np.random.Generator) -> SearchGenerator:
        """Descend from one start after another, without end; unordered genes keep their value."""
        while True:
            starts = self.start_rows(rng, self._settings.starts)
            losses = (yield starts)[:, 0]
            simplex = RowSimplex(self.genome, starts[losses.argmin()], self._settings)
            if simplex.dimensions:
                yield from simplex.descend()


class RowSimplex:
    """A simplex in the active ordered genes of *row*; its other genes keep their value."""

    def __init__(self, genome: Genome, row: Ints, settings: SimplexSettings) -> None:
        is_active = ~genome.optional | (row != 0)
        self._genome, self._row, self._settings = genome, row, settings
        self._moving = np.flatnonzero(genome.ordered & (genome.sizes > 1) & is_active)
        self._scale = (genome.sizes[self._moving] - 1).astype(np.float64)

    @property
    def dimensions(self) -> int:
        """The number of genes that it moves in."""
        return len(self._moving)

    def descend(self) -> SearchGenerator:
        """Yield corners until all of them are the same."""
        corners = self._first(self._row[self._moving] / self._scale)
        losses = (yield self._placed(corners))[:, 0]
        while True:
            order = np.argsort(losses, kind="stable")
            corners, losses = corners[order], losses[order]
            if self._is_small(corners):
                return
            middle = corners[:-1].mean(axis=0)
            reflection = np.clip(middle + (middle - corners[-1]), 0, 1)
            reflected = float((yield self._placed(reflection[None, :]))[0, 0])
            # Reflection 1, expansion 2, contraction and shrinking 1/2: the coefficients of the
            # paper.
            if reflected < losses[0]:
                other = np.clip(middle + 2 * (middle - corners[-1]), 0, 1)
            elif reflected < losses[-2]:
                corners[-1], losses[-1] = reflection, reflected
                continue
            else:
                towards = reflection if reflected < losses[-1] else corners[-1]
                other = middle + (towards - middle) / 2
            loss = float((yield self._placed(other[None, :]))[0, 0])
            if loss < min(reflected, losses[-1]):
                corners[-1], losses[-1] = other, loss
            elif reflected < losses[0]:
                corners[-1], losses[-1] = reflection, reflected
            else:
                # All corners but the best move, so all are evaluated again; repeats cost nothing.
                corners = corners[0] + (corners - corners[0]) / 2
                losses = (yield self._placed(corners))[:, 0]

    def _first(self, start: Reals) -> Reals:
        """Return the first simplex: *start*, and one corner a step inwards for each dimension."""
        steps = np.maximum(self._settings.step, 1 / self._scale)
        signs = np.where(start + steps <= 1, 1.0, -1.0)
        corners = np.clip(start + np.diag(steps * signs), 0, 1)
        return np.concatenate([start[None, :], corners])

    def _is_small(self, corners: Reals) -> bool:
        """Return whether all corners have the same values, to within the finest edge."""
        edges = np.ptp(corners, axis=0)
        return bool((edges < np.maximum(self._settings.finest, 0.5 / self._scale)).all())

    def _placed(self, corners: Reals) -> Ints:
        rows = np.repeat(self._row[None, :], len(corners), axis=0)
        rows[:, self._moving] = np.rint(corners * self._scale).astype(np.int64)
        return self._genome.moved(self._row, rows)
