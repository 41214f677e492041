"""Groups of the rows of a columnar copy, aggregates of their values, and the best points."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from zenturio.experiment import aggregates
from zenturio.record.columnar_copy import (
    Array,
    ColumnarCopy,
    NotInCopyError,
    Reals,
    look_up,
    row_parts,
)

MOST_CELLS = 1 << 22
"""Combinations of values, whether there are rows of them or not, that have a place each."""
LARGEST = 1e140
"""Beyond it squares and sums may overflow: the database knows what comes of that."""


class RowGroups:
    """Rows grouped by the codes of several columns.

    What is computed for each row is computed for some rows at a time: arrays of ten million rows
    would cost the system more to provide than the processor to fill.
    """

    def __init__(
        self,
        codes: Sequence[Array],
        sizes: Sequence[int],
        length: int,
        chosen: Array | None = None,
    ) -> None:
        """*codes*: for each column, a code below the column's size for each of *length* rows.

        *chosen*: which rows take part; None for all.
        """
        total = math.prod(max(size, 1) for size in sizes)
        if total >= 2**62:
            raise NotInCopyError("too many combinations")
        wide = np.dtype(np.uint16 if total < 2**16 else np.int32 if total < 2**31 - 1 else np.int64)
        cells: Array = np.empty(length, dtype=wide)
        has_table = total <= max(MOST_CELLS, 2 * length)
        rows = np.zeros(total + 1 if has_table else 0, dtype=np.int64)
        for part in row_parts(length, len(rows)):
            combined: Array = np.zeros(part.stop - part.start, dtype=wide)
            for column, size in zip(codes, sizes, strict=True):
                combined *= wide.type(max(size, 1))
                combined += column[part].astype(wide, copy=False)
            if chosen is not None:
                combined[~chosen[part]] = total
            if has_table:
                rows += np.bincount(combined, minlength=len(rows))
            cells[part] = combined
        if has_table:
            present = np.flatnonzero(rows[:total])
            number = np.zeros(len(rows), dtype=wide)
            number[present] = np.arange(len(present), dtype=wide)
            number[total] = len(present)
            for part in row_parts(length):
                cells[part] = number[cells[part]]
            self._all_rows = np.append(rows[present], rows[total])
        else:
            present, cells = np.unique(cells, return_inverse=True)
            present = present[present < total]
            self._all_rows = np.bincount(cells, minlength=len(present) + 1)
        self.count = len(present)
        self.cells = cells
        """Of each row its group; `count` for those that take no part."""
        self.codes = [np.empty(0, dtype=np.int64)] * len(codes)
        """Of each group its codes, column by column."""
        for at in reversed(range(len(codes))):
            self.codes[at] = present % max(sizes[at], 1)
            present = present // max(sizes[at], 1)

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Yield some rows after the others, with their groups."""
        for part in row_parts(len(self.cells), self.count):
            yield part, self.cells[part].astype(np.intp)

    def sums(self, values: Callable[[slice, Array], Array]) -> Array:
        """Return the sum of the *values* of each group, followed by the sum of the others.

        *values* is called with some rows and their groups.
        """
        sums: Array = np.zeros(self.count + 1)
        for part, cells in self.parts():
            sums += np.bincount(cells, values(part, cells), self.count + 1)
        return sums

    @property
    def rows(self) -> Array:
        """How many rows each group has."""
        return self._all_rows[:-1]

    @cached_property
    def order(self) -> Array:
        """The rows by their groups, those of a group as they come."""
        cells = self.cells
        # Sorting is by radix, in linear time, only where the numbers are short.
        if self.count < 2**16:
            return np.argsort(cells.astype(np.uint16), kind="stable")
        low = np.argsort((cells & 0xFFFF).astype(np.uint16), kind="stable")
        return low[np.argsort((cells >> 16)[low].astype(np.uint16), kind="stable")]

    @cached_property
    def starts(self) -> Array:
        """Where each group begins in `order`."""
        return np.cumsum(self._all_rows)[:-1] - self.rows

    def members(self, group: int) -> Array:
        """Return the rows of a group."""
        start = self.starts[group]
        return self.order[start : start + self.rows[group]]

    def in_order(self, values: Reals) -> Array:
        """Return the *values* in the order of their groups: those of `order`."""
        if self.count >= 2**16:
            return values[self.order]
        ordered = np.empty(len(values), dtype=values.dtype)
        free = np.concatenate([self.starts, [len(values) - self._all_rows[-1]]])
        for part, cells in self.parts():
            order = np.argsort(cells.astype(np.uint16), kind="stable")
            rows = np.bincount(cells, minlength=self.count + 1)
            places = np.arange(len(order)) + (free + rows - np.cumsum(rows))[cells[order]]
            ordered[places] = values[part][order]
            free += rows
        return ordered

    def least(self, values: Reals) -> Array:
        """Return the least value in each group; NaN does not count."""
        return self._extreme(np.fmin, values)

    def greatest(self, values: Reals) -> Array:
        """Return the greatest value in each group; NaN does not count."""
        return self._extreme(np.fmax, values)

    def _extreme(self, chosen: np.ufunc, values: Reals) -> Array:
        worst: Any = np.nan
        if values.dtype.kind == "i":
            limits = np.iinfo(values.dtype)
            worst = limits.max if chosen is np.fmin else limits.min
        extremes = np.full(self.count + 1, worst, dtype=values.dtype)
        for part, cells in self.parts():
            chosen.at(extremes, cells, values[part])
        return extremes[:-1]


_SAMPLED_ROWS = 4_000
"""Rows of each group in a sample that tells about where its quantiles are."""
_SAMPLE_MARGIN = 2.25
"""Ranks of a sample, for the root of its size: 4.5 standard deviations of the rank of a median."""


def _sample_stride(length: int, groups: int) -> int:
    """Every how many rows one is taken into a sample; 0 where that would be no small part of them.

    It shares no factor with the periods that grids of few values have.
    """
    stride = length // max(_SAMPLED_ROWS * groups, 1)
    while math.gcd(stride, 2 * 3 * 5 * 7) > 1:
        stride -= 1
    return stride if stride > 4 else 0


class GroupedValues:
    """Real values, NaN where there is none, aggregated in each group of rows."""

    def __init__(self, groups: RowGroups, values: Reals) -> None:
        """NotInCopyError for values whose squares overflow or vanish."""
        self._groups = groups
        self._values = values
        self._stride = _sample_stride(len(values), groups.count)
        low = high = np.nan
        nulls: Array = np.zeros(groups.count + 1, dtype=np.int64)
        sums: Array = np.zeros(groups.count + 1)
        sampled: list[tuple[Array, Array]] = []
        # All that needs no other pass is found in one: values are read again for each.
        for part, cells in groups.parts():
            some = values[part]
            low = float(np.fmin.reduce(some, initial=low))
            high = float(np.fmax.reduce(some, initial=high))
            if max(abs(low), abs(high)) >= LARGEST:
                raise NotInCopyError("values that overflow")
            if self._stride:
                places = slice(-part.start % self._stride, None, self._stride)
                sampled.append((some[places].copy(), cells[places].copy()))
            is_null = np.isnan(some)
            if is_null.any():
                nulls += np.bincount(cells[is_null], minlength=len(nulls))
                some = np.where(is_null, 0.0, some)
            sums += np.bincount(cells, some, len(sums))
        self.is_one_signed = low >= 0 or high <= 0
        self.greatest = max(abs(low), abs(high))
        self.counts: Array = groups.rows - nulls[:-1]
        """How many values each group has."""
        # Rows that take no part are read as well: their distances are from 0.
        self._first_means = np.append(sums[:-1] / np.maximum(self.counts, 1), 0.0)
        self._sampled = sampled

    def _summed(self, terms: Callable[[Array, Array], Array]) -> Array:
        """Return the sum of the *terms* of each group, which are made of values and groups."""

        def of_part(part: slice, cells: Array) -> Array:
            answers = terms(self._values[part], cells)
            return np.nan_to_num(answers, nan=0.0) if np.isnan(answers).any() else answers

        return self._groups.sums(of_part)[:-1]

    @cached_property
    def _corrections(self) -> Array:
        return self._summed(lambda values, cells: values - self._first_means[cells])

    @cached_property
    def means(self) -> Array:
        return self._first_means[:-1] + self._corrections / np.maximum(self.counts, 1)

    @cached_property
    def sums(self) -> Array:
        return self._first_means[:-1] * self.counts + self._corrections

    @cached_property
    def sizes(self) -> Array:
        """Of each group the sum of the magnitudes."""
        if self.is_one_signed:
            return np.abs(self.sums)
        return self._summed(lambda values, _: np.abs(values))

    @cached_property
    def deviations(self) -> Array:
        """The sample's standard deviation (corrected two-pass); NaN of fewer than two values."""
        squares = self._summed(lambda values, cells: (values - self._first_means[cells]) ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            squares -= self._corrections**2 / self.counts
            deviations: Array = np.sqrt(np.maximum(squares, 0.0) / (self.counts - 1))
        return deviations

    @cached_property
    def lows(self) -> Array:
        return self._groups.least(self._values)

    @cached_property
    def highs(self) -> Array:
        return self._groups.greatest(self._values)

    @cached_property
    def medians(self) -> Array:
        """The middle value, or the mean of the two in the middle."""
        return self.quantiles(0.5)

    def quantiles(self, share: float) -> Array:
        """The value below which that *share* of a group lies, interpolated; NaN of no values."""
        counts = self.counts
        places = (np.maximum(counts, 1) - 1) * share
        lower = np.floor(places).astype(np.int64)
        upper = np.minimum(lower + 1, np.maximum(counts - 1, 0))
        low, high = self._ranked(lower, upper)
        return np.where(counts > 0, low + (high - low) * (places - lower), np.nan)

    def median_ends(self, end: Literal[0, 1]) -> Array:
        """The lower or upper end of the 95% interval of the median; NaN of too few values."""
        counts, which = np.unique(self.counts, return_inverse=True)
        outside = [aggregates.outside_median_interval(count) for count in counts.tolist()]
        below = np.array([-1 if many is None else many for many in outside])[which]
        ranks = np.maximum(below if end == 0 else self.counts - 1 - below, 0)
        ranks = np.where(below < 0, 0, ranks)
        return np.where(below < 0, np.nan, self._ranked(ranks, ranks)[0])

    def _ranked(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the values of these ranks, from 0, in each group."""
        groups = self._groups
        if groups.count > len(self._values) // 256:
            # Many small groups: all are sorted at once, by value and then by group.
            values = self._values[slice(None)]
            by_value = np.argsort(values, kind="stable")
            cells = groups.cells[by_value]
            ordered = values[by_value[np.argsort(cells, kind="stable")]]
            return ordered[groups.starts + lower], ordered[groups.starts + upper]
        low, high, is_found = self._ranked_near(lower, upper)
        left = np.flatnonzero(~is_found)
        if len(left):
            ordered = groups.in_order(self._values)
            for group in left.tolist():
                start = groups.starts[group]
                members = ordered[start : start + groups.rows[group]]
                members.partition([lower[group], upper[group]])  # NaN comes last
                low[group], high[group] = members[lower[group]], members[upper[group]]
        return low, high

    def _ranked_near(self, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """The same of the groups where a sample tells about where these ranks are, and of which.

        Only values within bounds out of the sample are put in order. How many there are below the
        bounds tells whether the ranks lie within: the answers are exact.
        """
        groups, counts = self._groups, self.counts
        low, high = (np.full(groups.count, np.nan) for _ in range(2))
        is_found = counts == 0
        if not self._sampled:
            return low, high, is_found
        least, greatest = self._sampled_bounds(lower, upper)
        below: Array = np.zeros(groups.count + 1)
        kept: list[tuple[Array, Array]] = []
        for part, cells in groups.parts():
            values = self._values[part]
            bounds = least[cells]
            below += np.bincount(cells, values < bounds, len(below))
            is_within = (values >= bounds) & (values <= greatest[cells])
            kept.append((values[is_within], cells[is_within].astype(np.uint16)))
        values, cells = (np.concatenate(arrays) for arrays in zip(*kept, strict=True))
        values = values[np.argsort(cells, kind="stable")]
        within = np.bincount(cells, minlength=groups.count)
        starts = np.cumsum(within) - within
        first, last = lower - below[:-1].astype(np.int64), upper - below[:-1].astype(np.int64)
        is_near = (counts > 0) & (first >= 0) & (last < within)
        for group in np.flatnonzero(is_near).tolist():
            members = values[starts[group] : starts[group] + within[group]]
            members.partition([first[group], last[group]])
            low[group], high[group] = members[first[group]], members[last[group]]
        return low, high, is_found | is_near

    def _sampled_bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return bounds for the values of these ranks in each group, by the sample; almost certain.

        Behind them those of the rows that take no part: nothing lies between.
        """
        groups = self._groups
        values, cells = (np.concatenate(arrays) for arrays in zip(*self._sampled, strict=True))
        is_used = (cells < groups.count) & ~np.isnan(values)
        values, cells = values[is_used], cells[is_used].astype(np.uint16)
        values = values[np.argsort(cells, kind="stable")]
        sizes = np.bincount(cells, minlength=groups.count)
        starts = np.cumsum(sizes) - sizes
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            values[start : start + size].sort()
        margin = _SAMPLE_MARGIN * np.sqrt(sizes) + 1
        share = sizes / np.maximum(self.counts, 1)
        first = np.floor(lower * share - margin).astype(np.int64)
        last = np.ceil(upper * share + margin).astype(np.int64)
        padded = np.append(values, 0.0)
        least = np.where(first >= 0, padded[np.maximum(starts + first, 0)], -np.inf)
        past = last >= sizes
        greatest = np.where(past, np.inf, padded[np.where(past, 0, starts + last)])
        return np.append(least, np.inf), np.append(greatest, -np.inf)

    def members(self) -> Iterator[list[Any]]:
        """Yield the values of each group."""
        for group in range(self._groups.count):
            yield self.values_of(group)

    def values_of(self, group: int) -> list[Any]:
        """Return the values of a group."""
        values = self._values[self._groups.members(group)]
        chosen: list[Any] = values[~np.isnan(values)].tolist()
        return chosen


_ROUNDING = 2.0**-52
"""How far a sum of floats may be off, for each of them and in parts of their magnitudes."""


class AggregatedPoint(NamedTuple):
    """A point, and the mean or the median of a metric over its repeats."""

    values: tuple[Any, ...]
    score: float
    used: list[float]
    """The metric of each repeat that has a finite value."""
    ok: int
    tried: int


class RankedPoints(NamedTuple):
    """The best points, the best first, and of how many points and results they are."""

    points: list[AggregatedPoint]
    of: int
    tried: int


@dataclass(frozen=True)
class RankingCriterion:
    """By what points are ranked."""

    metric: str
    aggregate: Literal["mean", "median"]
    sign: float
    """The points come first whose aggregate times this is least."""


def best_points(
    copy: ColumnarCopy,
    parameters: Sequence[str],
    rank: RankingCriterion,
    count: int,
    states: Collection[str],
) -> RankedPoints | None:
    """Return the first *count* points by *rank*; None where the copy cannot tell.

    Results in *states* count as tried, those that are ``ok`` have a value. Points of equal rank
    stand in the order of the space.
    """
    try:
        return _best_points(copy, parameters, rank, count, states)
    except NotInCopyError:
        return None


def _best_points(
    copy: ColumnarCopy,
    parameters: Sequence[str],
    rank: RankingCriterion,
    count: int,
    states: Collection[str],
) -> RankedPoints:
    codes, words = copy.column("status").codes()
    was_tried, was_ok = (
        np.array([word in wanted for word in words], dtype=np.bool_) for wanted in (states, ("ok",))
    )
    chosen = None if was_tried.all() else look_up(was_tried, codes)
    coded = [copy.column(key).codes() for key in parameters]
    groups = RowGroups([c for c, _ in coded], [len(v) for _, v in coded], copy.rows, chosen)
    ok = look_up(was_ok, codes)
    scores = copy.reals(rank.metric)
    has_score = ok.copy()
    for part in row_parts(len(scores)):
        has_score[part] &= np.isfinite(scores[part])
    candidates_of = _by_mean if rank.aggregate == "mean" else _by_median
    candidates = candidates_of(groups, scores, has_score, count, rank.sign)
    position = copy.column("position")
    if position.nulls is not None:
        raise NotInCopyError("position")
    repeat_codes, repeats = copy.column("repeat").codes()
    among = _rows_of(groups, candidates)
    place = np.lexsort((
        copy.column("number").data[among], np.array(repeats)[repeat_codes[among]],
        position.data[among],
    ))  # fmt: skip
    score_of = dict(zip(among.tolist(), scores[among].tolist(), strict=True))
    members: dict[int, list[int]] = {}
    for row in among[place].tolist():
        members.setdefault(int(groups.cells[row]), []).append(row)
    points = []
    for group, its_rows in members.items():
        used = [score_of[row] for row in its_rows if has_score[row]]
        score = (aggregates.mean if rank.aggregate == "mean" else aggregates.median)(used)
        assert score is not None, "a candidate has scores"
        values = tuple(v[c[group]] for (_, v), c in zip(coded, groups.codes, strict=True))
        points.append(AggregatedPoint(values, score, used, int(ok[its_rows].sum()), len(its_rows)))
    points.sort(key=lambda point: point.score * rank.sign)
    return RankedPoints(points[:count], groups.count, int(groups.rows.sum()))


def _rows_of(groups: RowGroups, chosen: Array) -> Array:
    """Return the rows of the *chosen* groups."""
    is_chosen = np.zeros(groups.count + 1, dtype=np.bool_)
    is_chosen[chosen] = True
    return np.flatnonzero(look_up(is_chosen, groups.cells))


def _by_mean(groups: RowGroups, scores: Reals, has_score: Array, count: int, sign: float) -> Array:
    """The groups that may be among the first *count* by the mean of the scores times *sign*."""
    low = high = 0.0

    def losses(part: slice, _cells: Array) -> Array:
        nonlocal low, high
        losses = np.where(has_score[part], scores[part], 0.0) * sign
        low, high = min(low, float(losses.min())), max(high, float(losses.max()))
        return losses

    used = groups.sums(lambda part, _: has_score[part])[:-1]
    sums = groups.sums(losses)[:-1]
    sizes = np.abs(sums)
    if low < 0 < high:
        sizes = groups.sums(lambda part, cells: np.abs(losses(part, cells)))[:-1]
    scored = np.flatnonzero(used)
    means = sums[scored] / used[scored]
    # A finite loss whose sum is not finite may be anywhere: the exact mean decides.
    off = np.nan_to_num(sizes[scored] * _ROUNDING, posinf=np.inf)
    means = np.nan_to_num(means, posinf=0.0, neginf=0.0)
    if count < len(scored):
        bound = np.partition(means + off, count)[count]
        chosen: Array = scored[means - off <= bound]
        return chosen
    return scored


def _by_median(
    groups: RowGroups, scores: Reals, has_score: Array, count: int, sign: float
) -> Array:
    """The groups that may be among the first *count* by the median of the scores times *sign*.

    Nothing is sorted but the scores of a few groups with low means. So many of these have a median
    up to some bound that those with a greater one are out. And where at most half of the scores
    are up to it, the median is greater.
    """
    used = groups.sums(lambda part, _: has_score[part])[:-1].astype(np.int64)
    scored = np.flatnonzero(used)
    if count >= len(scored):
        return scored
    sums = groups.sums(lambda part, _: np.where(has_score[part], scores[part], 0.0) * sign)[:-1]
    likely = scored
    if 2 * count < len(scored):
        likely = scored[np.argpartition(sums[scored] / used[scored], 2 * count)[: 2 * count]]
        likely.sort()
    rows = _rows_of(groups, likely)
    rows = rows[has_score[rows]]
    losses, cells = scores[rows] * sign, groups.cells[rows]
    ordered = losses[np.lexsort((losses, cells))]
    ends = np.cumsum(used[likely])
    upper = ordered[ends - used[likely] + used[likely] // 2]
    bound = np.partition(upper, count - 1)[count - 1]
    low = groups.sums(lambda part, _: has_score[part] & (scores[part] * sign <= bound))[:-1]
    chosen: Array = scored[low[scored] >= (used[scored] + 1) // 2]
    return chosen
