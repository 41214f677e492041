"""Baselines: random, low-discrepancy and exhaustive search."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from zenturio.errors import InputError, PlaceError, SpaceError
from zenturio.install_hint import extra_hint
from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.search.genome import Genome
from zenturio.search.objective import Trial
from zenturio.settings.schema import NoSettings
from zenturio.space import Point

SHUFFLE_LIMIT = 1 << 20
"""Spaces of up to this many points are shuffled, larger ones sampled."""

BATCH = 256


class Random(GeneratorEngine):
    """Random sampling, uniform over all valid points: the baseline."""

    multi_objective = True
    ignores_results = True

    def walk(self) -> SearchGenerator:
        count = self.genome.count
        # A permutation proposes each point once, but needs memory for all their numbers.
        if self.problem.allow_repeats or count is None or count > SHUFFLE_LIMIT:
            while True:
                yield self.genome.draw(self.rng, BATCH)
        numbers = self.rng.permutation(count).astype(np.int64)
        for start in range(0, count, BATCH):
            yield self.genome.by_number(numbers[start : start + BATCH])


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


def unit_sequence(width: int, rng: np.random.Generator, count: int) -> Reals:
    """Return the first *count* points of a scrambled Sobol sequence in *width* dimensions."""
    with warnings.catch_warnings():
        # It is balanced for powers of two alone, of which SciPy warns.
        warnings.simplefilter("ignore", UserWarning)
        points: Reals = _quasi().Sobol(width, rng=rng).random(count)
    return points


def _quasi() -> Any:
    try:
        from scipy.stats import qmc  # noqa: PLC0415 - an extra, and a second
    except ImportError as error:
        raise PlaceError("this engine needs SciPy", hint=extra_hint("search")) from error
    return qmc


class Exhaustive:
    """Every point of the space, one after the other: for small spaces."""

    Settings = NoSettings
    order_independent = True
    multi_objective = True

    def __init__(self, problem: SearchProblem, settings: NoSettings) -> None:
        del settings
        if not problem.space.finite:
            raise InputError(
                "a continuous space has infinitely many points",
                hint="take n points of it with LIN or LOG, or another engine: random, sobol, ga",
            )
        points = iter(problem.space)
        # An empty space is an error when the engine is made, not after a silent search.
        first = next(points, None)
        if first is None:
            raise SpaceError(
                "no point meets all constraints",
                hint="add values to the sets, or relax a constraint",
            )
        self._points = chain([first], points)

    def ask(self, limit: int) -> Sequence[Point]:
        return list(islice(self._points, limit))

    def tell(self, trials: Iterable[Trial]) -> None:
        """Ignore *trials*: the order is fixed."""
