"""What a metric depends on, by a forest of regression trees: alone, in pairs, and in all.

The shares are those of functional ANOVA over trees (F. Hutter, H. Hoos, K. Leyton-Brown: An
efficient approach for assessing hyperparameter importance, ICML 2014): a tree is a constant in each
of its boxes, so that the variance of its mean over some of the parameters is a sum over pairs of
boxes. Each value of a parameter counts the same, however often a search tried it.

Trees fit noise, too. Whether a parameter matters is therefore decided by points that a tree did not
see: by how much worse they are predicted with the parameter's value of another point (L. Breiman:
Random forests, Machine Learning 45, 2001). Half of that, over the variance, is Jansen's estimate of
the total share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import Interval
from zenturio.expression import text_of
from zenturio.quantities import amount
from zenturio.query.importance import (
    LEAST,
    MOST_TEXTS,
    NEGLIGIBLE,
    OTHERS,
    UNKNOWN,
    Verdict,
)
from zenturio.query.regression import real_column, require_columns
from zenturio.query.statistics import CONFIDENCE, student

FEWEST = 16
"""A forest of fewer points is not fitted."""
MOST_POINTS = 2000
"""Points that trees are grown from; more cost time and tell little more about shares."""
TREES, TRIAL_TREES = 64, 16
BINS = 16
"""Intervals of a number with more distinct values."""
LEAF_SHARE = 1 / 200
"""A leaf has at least this share of the points, so that pairs of leaves can be summed over."""
LEAF_FACTORS = (1, 3, 9)
"""Sizes of leaves that are tried, in the smallest: large ones are better where there is noise."""
MOST_PAIRED = 10
"""Parameters whose pairs have shares: those with the largest total shares."""
SOME_SKILL = 0.1
"""A forest that explains less of the variance of points that it did not see has no shares."""
MUCH_SKILL = 0.5
"""One that explains less cannot say that a parameter does not matter: it may in what is left."""

Ints = np.ndarray[Any, np.dtype[np.int64]]
Reals = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class ParameterBins:
    """The values of a parameter: one by one, or in intervals of equal width."""

    name: str
    codes: Ints
    """Of each point, the number of its bin."""
    labels: tuple[str, ...]
    values: tuple[float, ...] = ()
    """The number of each bin, or the middle of its interval; NaN where the parameter is inactive;
    empty for texts.
    """
    log: bool = False
    """Whether intervals are equal in the logarithm."""

    @property
    def is_ordered(self) -> bool:
        return bool(self.values)


@dataclass(frozen=True)
class ParameterShare:
    """How much of a metric's variance over the space goes with one parameter."""

    parameter: str
    first: float
    """What goes with it alone."""
    first_interval: Interval
    total: float
    """With all interactions that it takes part in."""
    total_interval: Interval
    verdict: Verdict
    """Whether it matters, by points that were not used to fit."""


@dataclass(frozen=True)
class PairShare:
    """What goes with two parameters together, beyond what goes with each alone."""

    parameters: tuple[str, str]
    share: float
    interval: Interval


@dataclass(frozen=True)
class Dependence:
    """The mean of the metric over all other parameters, at each value of one."""

    bins: ParameterBins
    means: tuple[float, ...]
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class ForestShares:
    """What a metric depends on; the parameter with the largest total share comes first."""

    metric: str
    points: int
    of: int
    """Points with a value of the metric; more than *points* if the forest is of a sample."""
    explained: float
    """The share of the variance that is predicted of points left out of the fit; below 0 where the
    mean of all points predicts better.
    """
    shares: tuple[ParameterShare, ...]
    pairs: tuple[PairShare, ...]
    """The largest first; none where the forest explains nothing."""
    dependences: tuple[Dependence, ...]
    """Of all parameters, in the order of the shares."""

    @property
    def has_skill(self) -> bool:
        """Whether the forest predicts points that it did not see, so that its shares count."""
        return self.explained >= SOME_SKILL


def forest_shares(frame: pd.DataFrame, metric: str, parameters: Sequence[str] = ()) -> ForestShares:
    """Return what *metric* depends on, by the points of *frame*: one row for each.

    Without *parameters*, all that the frame of a study names but those that it calls derived.
    InputError where none varies, where *metric* does not, or there are too few points.
    """
    derived = frame.attrs.get("derived", ())
    named = (name for name in frame.attrs.get("parameters", ()) if name not in derived)
    names = tuple(parameters) or tuple(named)
    require_columns(frame, (metric, *names))  # type: ignore[arg-type] # a frame is a mapping to it
    y = real_column(frame, metric)  # type: ignore[arg-type]
    usable = np.flatnonzero(np.isfinite(y))
    if len(usable) < FEWEST:
        raise InputError(
            f"not enough data for a model: {metric!r} has a number at"
            f" {amount(len(usable), 'point')}, at least {FEWEST} are needed",
            hint="run more of them",
        )
    if np.ptp(y[usable]) == 0:
        raise InputError(
            f"{metric!r} has the same value at all {len(usable):,} points",
            hint="choose another metric, or check what the program prints",
        )
    rng = np.random.default_rng(0)
    chosen = usable
    if len(usable) > MOST_POINTS:
        chosen = np.sort(rng.choice(usable, MOST_POINTS, replace=False))
    ranks = frame.attrs.get("ranks", {})
    bins = [parameter_bins(name, frame[name].iloc[chosen], ranks.get(name, {})) for name in names]
    bins = [column for column in bins if len(column.labels) > 1]
    if not bins:
        raise InputError(f"no parameter varies in the {len(chosen):,} points with {metric!r}")
    return _analysed(metric, bins, y[chosen], len(usable), rng)


def parameter_bins(
    name: str, column: pd.Series[Any], ranks: Mapping[Any, int] = MappingProxyType({})
) -> ParameterBins:
    """Return *column* in bins; what has no value (an inactive parameter) is in the first one.

    Texts are in the order of their *ranks*, as those of a set, and others behind them.
    """
    missing = column.isna().to_numpy(bool)
    distinct = [getattr(v, "item", lambda v=v: v)() for v in column[~missing].unique()]
    inactive = ["inactive"] if missing.any() else []
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in distinct)
    offset = len(inactive)
    codes = np.zeros(len(column), dtype=np.int64)
    if not is_number:
        counts = column[~missing].value_counts()

        def place(text: str) -> tuple[int, str]:
            return ranks.get(text, len(ranks)), text

        texts_kept = sorted(map(str, distinct), key=place)
        if len(texts_kept) > MOST_TEXTS:
            texts_kept = [*sorted(map(str, counts.index[: MOST_TEXTS - 1]), key=place), OTHERS]
        number = {text: at + offset for at, text in enumerate(texts_kept)}
        texts = [str(value) for value in column[~missing]]
        codes[~missing] = [number.get(text, len(texts_kept) - 1 + offset) for text in texts]
        return ParameterBins(name, codes, (*inactive, *texts_kept))
    nan = (math.nan,) * offset
    ranked = np.array(sorted(map(float, distinct)))
    numbers = column[~missing].to_numpy(dtype=np.float64)
    if len(ranked) <= BINS:
        codes[~missing] = np.searchsorted(ranked, numbers) + offset
        labels = (*inactive, *(text_of(value) for value in sorted(distinct)))
        return ParameterBins(name, codes, labels, (*nan, *ranked.tolist()))
    log = _is_more_even_in_log(ranked)
    ends = np.log(ranked[[0, -1]]) if log else ranked[[0, -1]]
    edges = np.linspace(ends[0], ends[1], BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    places = np.log(numbers) if log else numbers
    codes[~missing] = np.clip(np.searchsorted(edges, places, "right") - 1, 0, BINS - 1) + offset
    values = (np.exp(middles) if log else middles).tolist()
    return ParameterBins(
        name, codes, (*inactive, *(f"{value:.3g}" for value in values)), (*nan, *values), log
    )


def _is_more_even_in_log(ranked: Reals) -> bool:
    """Return whether ascending numbers fill their range better on a logarithmic axis."""
    if ranked[0] <= 0:
        return False

    def unevenness(values: Reals) -> float:
        shares = (values - values[0]) / (values[-1] - values[0])
        return float(np.abs(shares - np.linspace(0, 1, len(shares))).max())

    return unevenness(np.log(ranked)) < unevenness(ranked)


@dataclass(frozen=True)
class _Tree:
    masks: Bools
    """By leaf, parameter and bin: whether the bin is in the leaf's box."""
    values: Reals
    leaf_of: Ints
    """Of each point."""
    is_left_out: Bools
    """Which points the tree was not grown from."""


@dataclass(frozen=True)
class _Grower:
    """What all trees are grown from."""

    codes: Ints
    """By point and parameter."""
    y: Reals
    sizes: tuple[int, ...]
    is_ordered: Bools
    width: int

    def grow(self, weights: Reals, least: int) -> _Tree:
        """Return the tree of points that count *weights* times each, at least *least* in a leaf."""
        box = np.arange(self.width) < np.array(self.sizes)[:, None]
        stack = [(np.arange(len(self.y)), box)]
        masks: list[Bools] = []
        values: list[float] = []
        leaf_of = np.zeros(len(self.y), dtype=np.int64)
        while stack:
            rows, box = stack.pop()
            split = self._split(rows, weights[rows], box, least)
            if split is None:
                leaf_of[rows] = len(values)
                values.append(np.average(self.y[rows], weights=weights[rows]))
                masks.append(box)
                continue
            parameter, left_bins = split
            goes_left = left_bins[self.codes[rows, parameter]]
            for side, chosen in ((left_bins, goes_left), (~left_bins, ~goes_left)):
                half = box.copy()
                half[parameter] &= side
                stack.append((rows[chosen], half))
        return _Tree(np.array(masks), np.array(values), leaf_of, weights == 0)

    def _split(
        self, rows: Ints, weights: Reals, box: Bools, least: int
    ) -> tuple[int, Bools] | None:
        """Return the parameter and the bins of the half that explain most; None for a leaf."""
        y = self.y[rows]
        total = weights.sum()
        if total < 2 * least:
            return None
        y = y - np.average(y, weights=weights)
        parameters, width = len(self.sizes), self.width
        places = (self.codes[rows] + np.arange(parameters) * width).ravel()
        repeated = np.repeat(weights, parameters)
        counts = np.bincount(places, repeated, parameters * width).reshape(-1, width)
        sums = np.bincount(places, np.repeat(weights * y, parameters), parameters * width)
        sums = sums.reshape(-1, width)
        # Texts have no order: that of their means contains the best division (Breiman 1984).
        with np.errstate(invalid="ignore", divide="ignore"):
            keys = np.where(counts > 0, sums / counts, np.inf)
        keys[self.is_ordered] = np.arange(width)
        order = np.argsort(keys, axis=1, kind="stable")
        left_counts = np.take_along_axis(counts, order, 1).cumsum(axis=1)
        left_sums = np.take_along_axis(sums, order, 1).cumsum(axis=1)
        right_counts = total - left_counts
        with np.errstate(invalid="ignore", divide="ignore"):
            gains = left_sums**2 / left_counts + left_sums**2 / right_counts
        gains[(left_counts < least) | (right_counts < least)] = -1.0
        parameter, cut = divmod(int(gains.argmax()), width)
        if gains[parameter, cut] <= 1e-12 * float(weights @ y**2):
            return None
        if self.is_ordered[parameter]:
            # Bins without points between both halves are divided among them.
            beyond = np.flatnonzero(counts[parameter, cut + 1 :])[0] + cut + 1
            cut = (cut + int(beyond) - 1) // 2 if beyond > cut + 1 else cut
        left_bins = np.zeros(width, dtype=np.bool_)
        left_bins[order[parameter, : cut + 1]] = True
        # A half must be a part of the box, or its share of the space would be 0.
        if not (left_bins & box[parameter]).any() or not (~left_bins & box[parameter]).any():
            return None
        return parameter, left_bins


def _analysed(
    metric: str, bins: Sequence[ParameterBins], y: Reals, of: int, rng: np.random.Generator
) -> ForestShares:
    sizes = tuple(len(column.labels) for column in bins)
    grower = _Grower(
        np.stack([column.codes for column in bins], axis=1), y, sizes,
        np.array([column.is_ordered for column in bins]), max(sizes),
    )  # fmt: skip
    trees = _best_forest(grower, rng)
    variance = float(y.var())
    explained = 1 - _error(trees, y) / variance if variance else 0.0
    verdicts = _verdicts(grower, trees, rng, explained)
    samples = [_tree_shares(tree, sizes) for tree in trees]
    usable = [sample for sample in samples if sample is not None]
    nothing = [np.zeros(len(bins))]
    firsts = np.array([sample.firsts for sample in usable] or nothing)
    totals = np.array([sample.totals for sample in usable] or nothing)
    intervals = [_middle(column) for column in totals.T]
    for at, interval in enumerate(intervals):
        # Predictions of the whole forest may need a parameter that too many trees do without.
        if verdicts[at] == "yes" and interval.low <= LEAST:
            verdicts[at] = UNKNOWN
    order = np.argsort(-totals.mean(axis=0), kind="stable").tolist()
    shares = tuple(
        ParameterShare(
            bins[at].name, float(firsts[:, at].mean()), _middle(firsts[:, at]),
            float(totals[:, at].mean()), intervals[at], verdicts[at],
        )
        for at in order
    )  # fmt: skip
    pairs: list[PairShare] = []
    if explained >= SOME_SKILL:
        for first, second in combinations(sorted(order[:MOST_PAIRED]), 2):
            values = np.array([sample.pair(first, second) for sample in usable])
            names = bins[first].name, bins[second].name
            pairs.append(PairShare(names, float(values.mean()), _middle(values)))
    dependences = tuple(_dependence(trees, bins[at], at, sizes) for at in order)
    return ForestShares(
        metric, len(y), of, explained, shares,
        tuple(sorted(pairs, key=lambda pair: -pair.share)), dependences,
    )  # fmt: skip


def _best_forest(grower: _Grower, rng: np.random.Generator) -> list[_Tree]:
    """Return a forest whose leaves are as large as predicts points left out best."""
    points = len(grower.y)
    smallest = max(1, math.ceil(points * LEAF_SHARE))
    draws = [np.bincount(rng.integers(points, size=points), minlength=points) for _ in range(TREES)]
    weights = [draw.astype(np.float64) for draw in draws]
    candidates: list[tuple[float, int, list[_Tree]]] = []
    for factor in LEAF_FACTORS:
        trees = [grower.grow(draw, smallest * factor) for draw in weights[:TRIAL_TREES]]
        candidates.append((_error(trees, grower.y), smallest * factor, trees))
    _, least, trees = min(candidates, key=lambda candidate: candidate[:2])
    return trees + [grower.grow(draw, least) for draw in weights[TRIAL_TREES:]]


def _error(trees: Sequence[_Tree], y: Reals) -> float:
    """Return the mean square error at points, of the trees that did not see them."""
    sums, counts = np.zeros(len(y)), np.zeros(len(y))
    for tree in trees:
        sums[tree.is_left_out] += tree.values[tree.leaf_of[tree.is_left_out]]
        counts[tree.is_left_out] += 1
    is_predicted = counts > 0
    off = y[is_predicted] - sums[is_predicted] / counts[is_predicted]
    return float(off @ off) / max(int(is_predicted.sum()), 1)


def _verdicts(
    grower: _Grower, trees: Sequence[_Tree], rng: np.random.Generator, explained: float
) -> list[Verdict]:
    """Return of each parameter whether it matters, by points that trees did not see.

    A permuted column makes predictions worse (Breiman 2001): by twice the total share (Jansen
    1999).

    All answers hold at once, with a chance of error divided by the number of parameters.
    """
    points, parameters = grower.codes.shape
    losses = np.zeros((points, parameters))
    counts = np.zeros(points)
    for tree in trees:
        rows = np.flatnonzero(tree.is_left_out)
        if len(rows) < 2:
            continue
        counts[rows] += 1
        before = (grower.y[rows] - tree.values[tree.leaf_of[rows]]) ** 2
        inside = np.stack([
            tree.masks[:, at, grower.codes[rows, at]] for at in range(parameters)
        ])  # fmt: skip
        hits = inside.sum(axis=0)
        for at in range(parameters):
            others = rng.permutation(rows)
            moved = hits - inside[at] + tree.masks[:, at, grower.codes[others, at]]
            values = tree.values[(moved == parameters).argmax(axis=0)]
            losses[rows, at] += (grower.y[rows] - values) ** 2 - before
    used = counts > 0
    shares = losses[used] / counts[used][:, None] / (2 * max(float(grower.y.var()), 1e-300))
    quantile = student(1 - (1 - CONFIDENCE) / (2 * parameters), max(int(used.sum()) - 1, 1))
    verdicts: list[Verdict] = []
    for column in shares.T:
        centre = float(column.mean())
        half = quantile * float(column.std(ddof=1)) / math.sqrt(len(column))
        if centre - half > LEAST:
            verdicts.append("yes")
        else:
            # The variance that is not predicted goes with parameters as the predicted one does.
            most = (centre + half) / max(explained, SOME_SKILL)
            is_no = explained >= MUCH_SKILL and most < NEGLIGIBLE
            verdicts.append("no" if is_no else UNKNOWN)
    return verdicts


class _TreeShares(NamedTuple):
    firsts: Reals
    totals: Reals
    pair: Callable[[int, int], float]
    """Computes the share of two parameters together."""


def _tree_shares(tree: _Tree, sizes: Sequence[int]) -> _TreeShares | None:
    """Return the shares of the variance of *tree* over the space; None if it is constant.

    Functional ANOVA of a tree (Hutter, Hoos, Leyton-Brown 2014).

    The mean square of a tree's mean over some parameters is the sum over all pairs of leaves of
    both values, times the share of the space in which both boxes agree in the others.
    """
    parameters = len(sizes)
    shares = tree.masks.sum(axis=2) / np.array(sizes)
    values = tree.values - float(tree.values @ shares.prod(axis=1))
    apart = shares.prod(axis=1) * values
    both = np.outer(apart, apart)  # where no parameter is the same
    ratios = []
    for at in range(parameters):
        mask = tree.masks[:, at].astype(np.float64)
        overlap = mask @ mask.T / sizes[at]
        ratios.append(overlap / np.outer(shares[:, at], shares[:, at]))
    variance = float(values**2 @ shares.prod(axis=1))
    if variance <= 1e-300:
        return None

    def closed(*chosen: int) -> float:
        weights = both
        for at in chosen:
            weights = weights * ratios[at]
        # A mean square that is 0 may come out below it by rounding.
        return max(0.0, float(weights.sum()) / variance)

    firsts = np.array([closed(at) for at in range(parameters)])
    # The product over all others is that of those before, times that of those behind.
    behind = list(accumulate(reversed(ratios[1:]), np.multiply, initial=np.ones_like(both)))[::-1]
    before, totals = both, np.zeros(parameters)
    for at, ratio in enumerate(ratios):
        totals[at] = 1 - max(0.0, float((before * behind[at]).sum()) / variance)
        before = before * ratio
    return _TreeShares(firsts, totals, lambda a, b: closed(a, b) - firsts[a] - firsts[b])


def _dependence(
    trees: Sequence[_Tree], bins: ParameterBins, at: int, sizes: Sequence[int]
) -> Dependence:
    means = np.array([
        (tree.values * np.delete(tree.masks.sum(axis=2) / np.array(sizes), at, 1).prod(axis=1))
        @ tree.masks[:, at, : sizes[at]]
        for tree in trees
    ])  # fmt: skip
    return Dependence(
        bins, tuple(means.mean(axis=0).tolist()), tuple(_middle(column) for column in means.T)
    )


def _middle(samples: Reals) -> Interval:
    """Return the middle 95% of the trees, each of which is grown from a bootstrap sample."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(samples, [tail, 100 - tail])
    return Interval(float(low), float(high))
