"""Points by chance."""

from __future__ import annotations

import numpy as np

from zenturio.search.walker import Walk, Walker

SMALL = 1 << 20
"""A space of at most so many points is shuffled."""

BATCH = 256


class Random(Walker):
    """Points by chance, each valid one as likely as any other: the measure of all engines."""

    several = True
    blind = True

    def walk(self) -> Walk:
        count = self.genome.count
        if self.task.again or count is None or count > SMALL:
            while True:
                yield self.genome.drawn(self.rng, BATCH)
        numbers = self.rng.permutation(count).astype(np.int64)
        for start in range(0, count, BATCH):
            yield self.genome.numbered(numbers[start : start + BATCH])
