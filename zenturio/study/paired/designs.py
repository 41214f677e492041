"""When two versions were measured often enough: for a comparison, and for a gate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

from zenturio.experiment.aggregates import median
from zenturio.experiment.signed_ranks import (
    BlockPlan,
    Estimate,
    Interval,
    LookedAt,
    decide_in_looks,
    is_clear,
)
from zenturio.study.paired.paired_source import MeasuredBlocks, VersionBlock, following

ALPHA = 0.05
"""At most so many comparisons of equal programs have a wrong word."""


EPSILON = 1e-9
"""Values that do not vary may lie exactly at the bound: then rounding must not decide."""
FAILURES = 3
"""A version that failed more often at a point is not measured further."""


class Differences(NamedTuple):
    """The differences of two versions: by point, and by block; logarithms of ratios if possible."""

    points: Sequence[Mapping[int, float]]
    is_ratio: bool

    def common(self) -> dict[int, float]:
        """Return the mean over the points of each block that has all of them."""
        blocks = set(self.points[0]).intersection(*self.points[1:])
        return {
            block: math.fsum(point[block] for point in self.points) / len(self.points)
            for block in sorted(blocks)
        }


def differences(measured: MeasuredBlocks, labels: tuple[str, str], points: int) -> Differences:
    """Return by how much the second of *labels* is above the first."""
    sides = [[measured.of(label, point) for point in range(points)] for label in labels]
    is_ratio = all(value > 0 for side in sides for point in side for value in point.values())
    scale = math.log if is_ratio else float
    by_point = [
        {block: scale(second[block]) - scale(value) for block, value in first.items()
         if block in second}
        for first, second in zip(*sides, strict=True)
    ]  # fmt: skip
    return Differences(by_point, is_ratio)


@dataclass
class UntilCompared:
    """Blocks of two versions until each point, and all together, have a word."""

    labels: tuple[str, str]
    points: int
    plan: BlockPlan
    margin: float
    """Of ratios: such as 0.02, within which they are the same."""
    warmup: bool = True
    _open: tuple[int, ...] = field(default=(), init=False)

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next block; points that are decided leave once all together are."""
        number = following(measured, warmup=self.warmup)
        if number > self.plan.most or max(measured.failures.values(), default=0) > FAILURES:
            return None
        everywhere = tuple(range(self.points))
        if number - 1 in self.plan.sizes:
            self._open = self._undecided(measured)
            if not self._open:
                return None
        return VersionBlock(number, self.labels, self._open or everywhere)

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """The last look is that of who reads the results: see `query.compare_studies`."""

    def _undecided(self, measured: MeasuredBlocks) -> tuple[int, ...]:
        by_point, is_ratio = pairs = differences(measured, self.labels, self.points)
        clear = partial(is_clear, margin=math.log1p(self.margin) if is_ratio else 0.0)
        decide = partial(decide_in_looks, plan=self.plan, reached=measured.reached)
        if not decide(pairs.common(), alpha=ALPHA, is_decided=clear).is_decided:
            return tuple(range(self.points))
        level = ALPHA / self.points
        return tuple(
            point
            for point, values in enumerate(by_point)
            if not decide(values, alpha=level, is_decided=clear).is_decided
        )


GateState = Literal["worse", "no worse", "unclear"]


class GatedPoint(NamedTuple):
    """What a gate says of a point."""

    state: GateState
    looked_at: LookedAt
    """The look that decided, or the last one; its ends are at 5% each by themselves."""
    medians: tuple[float | None, float | None]
    failures: tuple[int, int]


@dataclass
class UntilGated:
    """Blocks of a baseline and a new version until it is worse at a point, or at none.

    It is worse where the lower end of an interval at 5% / points lies beyond the bound, and no
    worse where the upper end lies below it at every point, at 5% each: the intersection-union test
    (R. L. Berger: Multiparameter hypothesis testing and acceptance sampling, Technometrics 24
    (1982)). Differences are taken so that more is worse.
    """

    labels: tuple[str, str]
    points: int
    plan: BlockPlan
    worse: float
    """Relative change that counts as worse, such as 0.05."""
    more_is_better: bool = False
    warmup: bool = True
    is_ratio: bool = field(default=True, init=False)

    def next_block(self, measured: MeasuredBlocks) -> VersionBlock | None:
        """Return the next block of those points that are not decided."""
        number = following(measured, warmup=self.warmup)
        if number > self.plan.most or max(measured.failures.values(), default=0) > FAILURES:
            return None
        undecided = tuple(range(self.points))
        if number - 1 in self.plan.sizes:
            states = [point.state for point in self.judge(measured)]
            if "worse" in states:
                return None
            undecided = tuple(p for p, state in enumerate(states) if state == "unclear")
            if not undecided:
                return None
        return VersionBlock(number, self.labels, undecided)

    def end_early(self, measured: MeasuredBlocks, /) -> None:
        """Look once more, with all that is left of the level."""
        self.plan = replace(self.plan, ended=measured.reached)

    def judge(self, measured: MeasuredBlocks) -> tuple[GatedPoint, ...]:
        """Return what is to be said of each point now."""
        by_point, self.is_ratio = differences(measured, self.labels, self.points)
        return tuple(self._point(measured, at, values) for at, values in enumerate(by_point))

    def _point(self, measured: MeasuredBlocks, at: int, values: Mapping[int, float]) -> GatedPoint:
        sign = -1.0 if self.more_is_better else 1.0
        shifted = {block: sign * value for block, value in values.items()}
        bound = self._bound()
        decide = partial(decide_in_looks, shifted, self.plan, reached=measured.reached, sides=1)
        worse = decide(alpha=ALPHA / self.points, is_decided=lambda i: i.low > bound + EPSILON)
        good = decide(alpha=ALPHA, is_decided=lambda i: i.high < bound - EPSILON)
        first, second = self.labels
        failures = (measured.failures.get((first, at), 0), measured.failures.get((second, at), 0))
        state: GateState = "unclear"
        if worse.is_decided:
            state = "worse"
        elif good.is_decided and failures[1] == 0:
            # Runs of the new version that failed might have been its slow ones.
            state = "no worse"
        looked_at = worse if worse.is_decided else good
        medians = (
            median([*measured.of(first, at).values()]),
            median([*measured.of(second, at).values()]),
        )
        return GatedPoint(state, _signed(looked_at, sign), medians, failures)

    def _bound(self) -> float:
        """Return the difference, taken so that more is worse, that is too much."""
        if not self.is_ratio:
            return self.worse
        return -math.log1p(-self.worse) if self.more_is_better else math.log1p(self.worse)


def _signed(looked_at: LookedAt, sign: float) -> LookedAt:
    """Return the same with its differences turned over where *sign* is negative."""
    value, interval = looked_at.estimate
    if sign > 0:
        return looked_at
    turned = interval and Interval(-interval.high, -interval.low)
    return looked_at._replace(estimate=Estimate(-value, turned))
