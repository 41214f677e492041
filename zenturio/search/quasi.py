"""Points that fill a space evenly: Sobol's sequence and Latin hypercubes."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.errors import PlaceError
from zenturio.search.factors import Ints
from zenturio.search.genome import Genome
from zenturio.search.walker import Reals, Walk, Walker

BATCH = 256
HYPERCUBE = 64
"""Points of a Latin hypercube where no budget says how many there will be."""


class Sobol(Walker):
    """Points that leave no gaps (Sobol, scrambled): to see a whole space with few points."""

    several = True
    blind = True

    def walk(self) -> Walk:
        length = self.genome.length
        sequence = _quasi().Sobol(length, rng=self.rng)
        while True:
            yield spread(self.genome, sequence.random(BATCH))


class Latin(Walker):
    """Points of which each value has its share (Latin hypercube): to see what matters."""

    several = True
    blind = True

    def walk(self) -> Walk:
        size = self.task.budget or HYPERCUBE
        while True:
            cube = _quasi().LatinHypercube(self.genome.length, rng=self.rng)
            yield spread(self.genome, cube.random(size))


def spread(genome: Genome, shares: Reals) -> Ints:
    """The valid rows at *shares* from 0 to below 1 of each gene."""
    return genome.repaired(np.floor(shares * genome.sizes).astype(np.int64))


def _quasi() -> Any:
    try:
        from scipy.stats import qmc  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError(
            "this engine needs SciPy", hint="pip install 'zenturio[search]'"
        ) from error
    return qmc
