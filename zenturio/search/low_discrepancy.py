"""Low-discrepancy sampling: Sobol sequences and Latin hypercubes."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.errors import PlaceError
from zenturio.search.gene_blocks import Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.search.genome import Genome

BATCH = 256
HYPERCUBE = 64
"""Points of a Latin hypercube without a budget."""


class Sobol(GeneratorEngine):
    """Evenly spread points (scrambled Sobol sequence): to cover a space with few points."""

    multi_objective = True
    ignores_results = True

    def walk(self) -> SearchGenerator:
        length = self.genome.length
        sequence = _quasi().Sobol(length, rng=self.rng)
        while True:
            yield spread(self.genome, sequence.random(BATCH))


class Latin(GeneratorEngine):
    """Latin hypercube sampling, which uses all values equally: to see which parameters matter."""

    multi_objective = True
    ignores_results = True

    def walk(self) -> SearchGenerator:
        size = self.problem.budget or HYPERCUBE
        while True:
            cube = _quasi().LatinHypercube(self.genome.length, rng=self.rng)
            yield spread(self.genome, cube.random(size))


def spread(genome: Genome, shares: Reals) -> Ints:
    """Return the valid rows nearest to *shares*, each from 0 to below 1 of a gene's range."""
    return genome.repair(np.floor(shares * genome.sizes).astype(np.int64))


def _quasi() -> Any:
    try:
        from scipy.stats import qmc  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError(
            "this engine needs SciPy", hint="pip install 'zenturio[search]'"
        ) from error
    return qmc
