"""Paired differences of blocks: signed ranks, their intervals, and looks at a growing number.

Versions that ran next to each other in random order have, if they are equal, differences whose
signs are fair coins, whatever disturbed the machine. The tests here use nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from zenturio.experiment.aggregates import mean_ranks

EXACT_BLOCKS = 200
"""Up to so many blocks the distribution of signed ranks is computed exactly."""


class Interval(NamedTuple):
    """An interval for a quantity, with the requested confidence."""

    low: float
    high: float


def signed_rank_level(blocks: int, statistic: int) -> float:
    """P(W <= *statistic*) of the signed ranks of so many *blocks*, whose signs are fair coins.

    F. Wilcoxon: Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945); Hollander,
    Wolfe & Chicken: Nonparametric Statistical Methods (2014), 3.1. Exact up to `EXACT_BLOCKS`, by
    the recursion on sums of distinct ranks; beyond, the normal distribution.
    """
    if statistic < 0:
        return 0.0
    if blocks > EXACT_BLOCKS:
        middle, spread = _signed_rank_moments(blocks)
        return NormalDist(middle, spread).cdf(statistic + 0.5)
    levels = _signed_rank_levels(blocks)
    return float(levels[min(statistic, len(levels) - 1)])


def signed_rank_quantile(blocks: int, alpha: float) -> int | None:
    """Return the largest q with 2 P(W <= q) <= *alpha*; None where even q = 0 is too likely.

    Hollander, Wolfe & Chicken (2014), 3.1 and table A.4.
    """
    if blocks > EXACT_BLOCKS:
        middle, spread = _signed_rank_moments(blocks)
        q = math.floor(NormalDist(middle, spread).inv_cdf(alpha / 2) - 0.5)
    else:
        # 2 / 2^n is exact, so that a level that is met exactly is not lost to a rounding.
        levels = _signed_rank_levels(blocks)
        q = int(np.searchsorted(2 * levels, alpha * (1 + 1e-12), side="right")) - 1
    return q if q >= 0 else None


@lru_cache(maxsize=256)
def _signed_rank_levels(blocks: int) -> np.ndarray:
    """P(W <= q) for each q."""
    likely = np.ones(1)
    for rank in range(1, blocks + 1):
        without, with_rank = np.pad(likely, (0, rank)), np.pad(likely, (rank, 0))
        likely = (without + with_rank) / 2
    return np.cumsum(likely)


def _signed_rank_moments(blocks: int) -> tuple[float, float]:
    squares = blocks * (blocks + 1) * (2 * blocks + 1)
    return blocks * (blocks + 1) / 4, math.sqrt(squares / 24)


def fewest_blocks(alpha: float) -> int:
    """Return the least number of blocks that has an interval at level *alpha*: 2 / 2^n <= alpha.

    Of 2^n equally likely signs only the two without a change of sign are beyond it: Hollander,
    Wolfe & Chicken (2014), 3.1.
    """
    return max(1, math.ceil(1 + math.log2(1 / alpha) - 1e-12))


class Estimate(NamedTuple):
    """A value, and where it lies; no interval where the blocks are too few for the level."""

    value: float
    interval: Interval | None


def hodges_lehmann(differences: Sequence[float] | np.ndarray, alpha: float) -> Estimate:
    """Return the middle of symmetric *differences*, and its interval at level 1 - *alpha*.

    The median of the Walsh averages (d_i + d_j) / 2, i <= j, and the order statistics that the
    signed rank test does not reject: J. L. Hodges & E. L. Lehmann: Estimates of location based on
    rank tests, Annals of Mathematical Statistics 34 (1963); E. L. Lehmann: Nonparametrics (1975).
    The interval is closed, so ties and zeros make it conservative.
    """
    values = np.asarray(differences, dtype=float)
    averages = np.concatenate([(values[i] + values[i:]) / 2 for i in range(len(values))])
    averages.sort()
    q = signed_rank_quantile(len(values), alpha)
    interval = None
    if q is not None:
        interval = Interval(float(averages[q]), float(averages[len(averages) - 1 - q]))
    return Estimate(float(np.median(averages)), interval)


LEAST_BLOCKS = 8
"""Blocks before the first look at a comparison that runs as often as needed."""
MOST_BLOCKS = 50
"""Blocks after which such a comparison ends, decided or not."""


class Look(NamedTuple):
    """A number of blocks after which the interval is read, and the level that it may spend."""

    blocks: int
    alpha: float


@dataclass(frozen=True)
class BlockPlan:
    """How many blocks a comparison runs, and when it looks whether they suffice.

    Looking again and again at the same level would say `different` of equal programs in 7 to 24%
    of comparisons. So each look spends a part of the level, in proportion to its blocks: K. Kim &
    D. L. DeMets: Design and analysis of group sequential tests based on the type I error spending
    rate function, Biometrika 74 (1987); K. K. G. Lan & D. L. DeMets, Biometrika 70 (1983). A look
    is judged by the interval at its own level (C. Jennison & B. W. Turnbull: Interim analyses: the
    repeated confidence interval approach, J. R. Statist. Soc. B 51 (1989)); the levels of all
    looks sum to the whole one, so Boole's inequality holds for all words at once.
    """

    least: int = LEAST_BLOCKS
    most: int = MOST_BLOCKS
    ended: int | None = None
    """The block after which time ended it: the last look, which spends what is left.

    How long runs take says nothing of which version of a pair is the slow one if both are equal,
    so such an end is independent of the signs.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """The blocks of each look: half as many again, to an even number, below 60% of all."""
        sizes = [min(self.least, self.most)]
        while (following := 2 * math.ceil(sizes[-1] * 0.75)) < 0.6 * self.most:
            sizes.append(following)
        last = self.most if self.ended is None else min(self.ended, self.most)
        return (*(size for size in sizes if size < last), last)

    def looks(self, alpha: float, *, sides: int = 2) -> tuple[Look, ...]:
        """Return the looks with their levels, which sum to *alpha*.

        A look at so few blocks that no test rejects at its level spends nothing: the next one has
        its share. The level of a one-sided test (*sides* 1) is that of one side.
        """
        looks: list[Look] = []
        spent = 0.0
        sizes = self.sizes
        for size in sizes:
            share = 1.0 if size == sizes[-1] else size / self.most
            level = alpha * share - spent
            if signed_rank_quantile(size, level * 2 / sides) is not None:
                spent += level
                looks.append(Look(size, level))
        return tuple(looks)


class LookedAt(NamedTuple):
    """What a comparison says after its first decisive look, or after the last one so far."""

    estimate: Estimate
    blocks: int
    """How many blocks the estimate is of."""
    alpha: float
    is_decided: bool


def decide_in_looks(
    differences: Mapping[int, float],
    plan: BlockPlan,
    alpha: float,
    is_decided: Callable[[Interval], bool],
    *,
    reached: int,
    sides: int = 2,
) -> LookedAt:
    """Return the estimate at the first look whose interval *is_decided*.

    *differences* by the number of their block, from 1; those of blocks in which a run failed are
    missing. All blocks up to the one *reached* have been run. What is decided stays decided. With
    one of *sides* each end of an interval is at the level of its look by itself.
    """
    looked_at = LookedAt(Estimate(math.nan, None), 0, alpha, is_decided=False)
    for look in plan.looks(alpha, sides=sides):
        if look.blocks > reached:
            break
        values = [value for block, value in differences.items() if block <= look.blocks]
        if not values:
            continue
        estimate = hodges_lehmann(values, look.alpha * 2 / sides)
        decided = estimate.interval is not None and is_decided(estimate.interval)
        looked_at = LookedAt(estimate, len(values), look.alpha, decided)
        if decided:
            return looked_at
    if not looked_at.blocks and differences:
        # Before the first look there is a value, and no interval that may be read.
        value = hodges_lehmann(list(differences.values()), alpha).value
        return LookedAt(Estimate(value, None), len(differences), alpha, is_decided=False)
    return looked_at


def is_clear(interval: Interval, margin: float) -> bool:
    """Return whether an interval of differences says less, more, or the same within *margin*."""
    low, high = interval
    return low > 0 or high < 0 or (-margin <= low and high <= margin)


DRAWS = 40
"""Samples by which the width of an interval is foretold."""
DETECTABLE = 1.43
"""Differences of so many half widths are seen in 80% of comparisons."""


def expected_half_width(
    differences: Sequence[float], blocks: int, alpha: float = 0.05, seed: int = 0
) -> float | None:
    """Return half the width of the interval that so many *blocks* of equal programs would have.

    Resampled (B. Efron: Bootstrap methods, Annals of Statistics 7 (1979)) from the sizes of
    *differences* with random signs, which is what equal programs have; the median of `DRAWS`
    samples. None where so few blocks have no interval.
    """
    if not differences or signed_rank_quantile(blocks, alpha) is None:
        return None
    random = np.random.default_rng(seed)
    sizes = np.abs(np.asarray(differences, dtype=float))
    widths = []
    for _ in range(DRAWS):
        sample = random.choice(sizes, blocks) * random.choice([-1.0, 1.0], blocks)
        interval = hodges_lehmann(sample, alpha).interval
        assert interval is not None, "asked before"
        widths.append((interval.high - interval.low) / 2)
    return float(np.median(widths))


def rank_sum_chance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how likely samples of one distribution differ in their ranks as these do, or more.

    H. B. Mann & D. R. Whitney: On a test of whether one of two random variables is stochastically
    larger than the other, Annals of Mathematical Statistics 18 (1947); by the normal distribution,
    with the correction for ties and for continuity.
    """
    count, other = len(first), len(second)
    both = count + other
    values = [*first, *second]
    above = math.fsum(mean_ranks(values)[:count]) - count * (count + 1) / 2
    _, ties = np.unique(values, return_counts=True)
    spread = count * other / 12 * (both + 1 - float((ties**3 - ties).sum()) / (both * (both - 1)))
    if spread <= 0:
        return 1.0
    distance = max(abs(above - count * other / 2) - 0.5, 0.0)
    return 2 * NormalDist().cdf(-distance / math.sqrt(spread))
