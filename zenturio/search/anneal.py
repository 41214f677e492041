"""Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.search.neighbours import interleave
from zenturio.settings.schema import setting


@dataclass(frozen=True)
class AnnealSettings:
    chains: int = setting(4, "chains at the same time", low=1)
    steps: int | None = setting(None, "steps of a chain; auto: its share of the budget", low=2)
    hot: float = setting(
        0.5, "first temperature, in standard deviations of the starting points", low=0
    )
    cold: float = setting(0.001, "last temperature, in the same unit", low=0)
    reach: float = setting(
        0.3, "first step of ordered parameters, as a share of the set", low=0, high=1
    )
    starts: int = setting(
        5, "random points; a chain starts at the best, and scales its temperature by them", low=2
    )


class Anneal(GeneratorEngine):
    """Simulated annealing: for rugged spaces."""

    Settings: ClassVar[type[AnnealSettings]] = AnnealSettings

    def __init__(self, problem: SearchProblem, settings: AnnealSettings) -> None:
        super().__init__(problem, settings)
        self._settings = settings

    @property
    def steps(self) -> int:
        """Steps in which a chain cools down."""
        if self._settings.steps is not None:
            return self._settings.steps
        share = (self.problem.budget or 4000) // self._settings.chains
        return max(share - self._settings.starts, 2)

    def walk(self) -> SearchGenerator:
        return interleave([self._chain(rng) for rng in self.rng.spawn(self._settings.chains)])

    def _chain(self, rng: np.random.Generator) -> SearchGenerator:
        """Cool down from one start after another, without end."""
        while True:
            starts = self.start_rows(rng, self._settings.starts)
            losses = (yield starts)[:, 0]
            yield from self._cool(starts[losses.argmin()], losses, rng)

    def _cool(self, row: Ints, losses: Reals, rng: np.random.Generator) -> SearchGenerator:
        # Failed starts say nothing about the scale of losses.
        usable = losses[losses < math.inf]
        scale = float(usable.std()) if len(usable) > 1 else 0.0
        loss, steps = float(losses.min()), self.steps
        hot, cold = self._settings.hot, min(self._settings.cold, self._settings.hot)
        for step in range(steps):
            cooled = step / (steps - 1)
            heat = scale * hot * (cold / hot) ** cooled if hot > 0 else 0.0
            nearby = self._near(row, self._settings.reach * (1 - cooled), rng)
            other = float((yield nearby[None, :])[0, 0])
            if other <= loss or _accepted(other - loss, heat, rng):
                row, loss = nearby, other

    def _near(self, row: Ints, reach: float, rng: np.random.Generator) -> Ints:
        """Return *row* with one gene changed, or more where that is not valid."""
        genome = self.genome
        # Repairing may undo a move; where it always does, the chain jumps to a random row.
        for _ in range(8):
            gene = int(rng.integers(genome.length))
            size, target = int(genome.sizes[gene]), row.copy()
            if genome.ordered[gene]:
                step = 1 + int(abs(rng.normal()) * reach * (size - 1))
                target[gene] += step if rng.integers(2) else -step
                target = genome.above(row, target)
            else:
                target[gene] = rng.integers(size)
            (neighbour,) = genome.repair(target[None, :])
            if (neighbour != row).any():
                return neighbour  # type: ignore[no-any-return] # a row of an array
        (anywhere,) = genome.draw(rng, 1)
        return anywhere  # type: ignore[no-any-return] # a row of an array


def _accepted(worse: float, heat: float, rng: np.random.Generator) -> bool:
    """Accept a loss that is *worse* by the Metropolis criterion exp(-worse / heat)."""
    # Drawn even if it is not needed: the stream must not depend on the losses.
    chance = rng.random()
    return heat > 0 and math.isfinite(worse) and chance < math.exp(-worse / heat)
