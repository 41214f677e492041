"""Random search."""

from __future__ import annotations

import numpy as np

from zenturio.search.generator_engine import GeneratorEngine, SearchGenerator

SHUFFLE_LIMIT = 1 << 20
"""Spaces of up to this many points are shuffled, larger ones sampled."""

BATCH = 256


class Random(GeneratorEngine):
    """Random sampling, uniform over all valid points: the baseline."""

    multi_objective = True
    ignores_results = True

    def walk(self) -> SearchGenerator:
        count = self.genome.count
        if self.problem.allow_repeats or count is None or count > SHUFFLE_LIMIT:
            while True:
                yield self.genome.draw(self.rng, BATCH)
        numbers = self.rng.permutation(count).astype(np.int64)
        for start in range(0, count, BATCH):
            yield self.genome.by_number(numbers[start : start + BATCH])
