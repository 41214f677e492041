"""Groups of the rows of a columnar copy, aggregates of their values, and the best points."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zenturio.experiment import aggregates
from zenturio.record.column_copy import Array, ColumnCopy, NotInCopyError

MOST_CELLS = 1 << 22
"""Combinations of values, whether there are rows of them or not, that have a place each."""
LARGEST = 1e140
"""Beyond it squares and sums may overflow: the database knows what comes of that."""


class RowGroups:
    """Rows grouped by the codes of several columns."""

    def __init__(self, codes: Sequence[Array], sizes: Sequence[int], length: int) -> None:
        """*codes*: of each column a number for each of *length* rows, below the column's size."""
        cells: Array = np.zeros(length, dtype=np.int32)
        total = 1
        for column, size in zip(codes, sizes, strict=True):
            total *= max(size, 1)
            if total >= 2**62:
                raise NotInCopyError("too many combinations")
            wide = cells.astype(np.int32 if total < 2**31 else np.int64, copy=False)
            cells = wide * np.asarray(size, dtype=wide.dtype) + column.astype(
                wide.dtype, copy=False
            )
        if total <= max(MOST_CELLS, 2 * length):
            present = np.flatnonzero(np.bincount(cells, minlength=total))
            number = np.zeros(total, dtype=np.int32)
            number[present] = np.arange(len(present), dtype=np.int32)
            self.cells: Array = number[cells]
        else:
            present, self.cells = np.unique(cells, return_inverse=True)
        self.count = len(present)
        self.codes = [np.empty(0, dtype=np.int64)] * len(codes)
        """Of each group its codes, column by column."""
        for at in reversed(range(len(codes))):
            self.codes[at] = present % max(sizes[at], 1)
            present = present // max(sizes[at], 1)

    @cached_property
    def rows(self) -> Array:
        """How many rows each group has."""
        return np.bincount(self.cells, minlength=self.count)

    @cached_property
    def order(self) -> Array:
        """The rows by their groups, those of a group as they come."""
        cells = self.cells
        # Sorting is by radix, in linear time, only where the numbers are short.
        if self.count <= 2**16:
            return np.argsort(cells.astype(np.uint16), kind="stable")
        low = np.argsort((cells & 0xFFFF).astype(np.uint16), kind="stable")
        return low[np.argsort((cells >> 16)[low].astype(np.uint16), kind="stable")]

    @cached_property
    def starts(self) -> Array:
        """Where each group begins in `order`."""
        return np.concatenate([[0], np.cumsum(self.rows)[:-1]]) if self.count else self.rows

    def members(self, group: int) -> Array:
        """The rows of a group."""
        start = self.starts[group]
        return self.order[start : start + self.rows[group]]

    def least(self, values: Array) -> Array:
        """The least value in each group; NaN does not count."""
        return np.fmin.reduceat(values[self.order], self.starts) if self.count else values[:0]

    def greatest(self, values: Array) -> Array:
        """The greatest value in each group; NaN does not count."""
        return np.fmax.reduceat(values[self.order], self.starts) if self.count else values[:0]


class GroupedValues:
    """Real values, NaN where there is none, aggregated in each group of rows."""

    def __init__(self, groups: RowGroups, values: Array) -> None:
        """NotInCopyError for values whose squares overflow or vanish."""
        self._groups = groups
        self._values = values
        low, high = (
            float(extreme.reduce(values, initial=np.nan)) for extreme in (np.fmin, np.fmax)
        )
        if max(abs(low), abs(high)) >= LARGEST:
            raise NotInCopyError("values that overflow")
        self.is_one_signed = low >= 0 or high <= 0
        self.greatest = max(abs(low), abs(high))
        self._nulls: Array | None = np.isnan(values)
        if not self._nulls.any():
            self._nulls = None

    @cached_property
    def counts(self) -> Array:
        """How many values each group has."""
        groups = self._groups
        if self._nulls is None:
            return groups.rows
        return groups.rows - np.bincount(groups.cells, self._nulls, groups.count).astype(np.int64)

    def _summed(self, values: Array) -> Array:
        if self._nulls is not None:
            values = np.where(self._nulls, 0.0, values)
        sums: Array = np.bincount(self._groups.cells, values, self._groups.count)
        return sums

    @cached_property
    def _first_means(self) -> Array:
        return self._summed(self._values) / np.maximum(self.counts, 1)

    @cached_property
    def _distances(self) -> Array:
        return self._values - self._first_means[self._groups.cells]

    @cached_property
    def _corrections(self) -> Array:
        return self._summed(self._distances)

    @cached_property
    def means(self) -> Array:
        return self._first_means + self._corrections / np.maximum(self.counts, 1)

    @cached_property
    def sums(self) -> Array:
        return self._first_means * self.counts + self._corrections

    @cached_property
    def sizes(self) -> Array:
        """Of each group the sum of the magnitudes."""
        return np.abs(self.sums) if self.is_one_signed else self._summed(np.abs(self._values))

    @cached_property
    def deviations(self) -> Array:
        """The sample's standard deviation (corrected two-pass); NaN of fewer than two values."""
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = self._summed(self._distances**2) - self._corrections**2 / self.counts
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
        groups, counts = self._groups, self.counts
        places = (np.maximum(counts, 1) - 1) * share
        lower = np.floor(places).astype(np.int64)
        upper = np.minimum(lower + 1, np.maximum(counts - 1, 0))
        ordered = self._values[groups.order]
        if groups.count > len(ordered) // 256:
            # Many small groups: all are sorted at once, by value and then by group.
            by_value = np.argsort(self._values, kind="stable")
            cells = groups.cells[by_value]
            ordered = self._values[by_value[np.argsort(cells, kind="stable")]]
        else:
            bounds = (groups.starts, groups.rows, counts, lower, upper)
            for start, length, count, low_rank, high_rank in zip(
                *(bound.tolist() for bound in bounds), strict=True
            ):
                if count:  # NaN comes last
                    ordered[start : start + length].partition([low_rank, high_rank])
        low, high = ordered[groups.starts + lower], ordered[groups.starts + upper]
        return np.where(counts > 0, low + (high - low) * (places - lower), np.nan)

    def members(self) -> Iterator[list[Any]]:
        """Yield the values of each group."""
        for group in range(self._groups.count):
            yield self.values_of(group)

    def values_of(self, group: int) -> list[Any]:
        """The values of a group."""
        values = self._values[self._groups.members(group)]
        chosen: list[Any] = values[~np.isnan(values)].tolist()
        return chosen


_ROUNDING = 2.0**-52
"""How far a sum of floats may be off, for each of them and in parts of their magnitudes."""


class CopiedPoint(NamedTuple):
    """A point, and the mean of a metric over its repeats."""

    values: tuple[Any, ...]
    mean: float
    used: int
    """Repeats that have a finite value."""
    ok: int
    tried: int


class RankedPoints(NamedTuple):
    """The best points, the best first, and of how many points and results they are."""

    points: list[CopiedPoint]
    of: int
    tried: int


def best_points(
    copy: ColumnCopy,
    parameters: Sequence[str],
    metric: str,
    count: int,
    sign: float,
    states: Collection[str],
) -> RankedPoints | None:
    """The *count* points whose mean times *sign* is least; None where the copy cannot tell.

    Results in *states* count as tried, those that are ``ok`` have a value. Points of equal means
    stand in the order of the space.
    """
    try:
        return _best_points(copy, parameters, metric, count, sign, states)
    except NotInCopyError:
        return None


def _best_points(
    copy: ColumnCopy,
    parameters: Sequence[str],
    metric: str,
    count: int,
    sign: float,
    states: Collection[str],
) -> RankedPoints:
    codes, words = copy.column("status").codes()
    was_tried = np.array([word in states for word in words], dtype=np.bool_)
    rows = None if was_tried.all() else np.flatnonzero(was_tried[codes])

    def take(data: Array) -> Array:
        return data if rows is None else data[rows]

    coded = [copy.column(key).codes() for key in parameters]
    length = copy.rows if rows is None else len(rows)
    groups = RowGroups([take(c) for c, _ in coded], [len(v) for _, v in coded], length)
    ok = take(np.array([word == "ok" for word in words], dtype=np.bool_)[codes])
    scores = take(copy.column(metric).reals())
    has_score = ok & np.isfinite(scores)
    candidates = _candidates(groups, np.where(has_score, scores, 0.0) * sign, has_score, count)
    position = copy.column("position")
    if position.nulls is not None:
        raise NotInCopyError("position")
    repeats = copy.column("repeat").reals()
    among = np.flatnonzero(np.isin(groups.cells, candidates))
    place = np.lexsort((
        take(copy.column("number").data)[among], take(repeats)[among], take(position.data)[among]
    ))  # fmt: skip
    members: dict[int, list[int]] = {}
    for row in among[place].tolist():
        members.setdefault(int(groups.cells[row]), []).append(row)
    points = []
    for group, its_rows in members.items():
        used = [float(scores[row]) for row in its_rows if has_score[row]]
        mean = aggregates.mean(used)
        assert mean is not None, "a candidate has scores"
        values = tuple(v[c[group]] for (_, v), c in zip(coded, groups.codes, strict=True))
        points.append(CopiedPoint(values, mean, len(used), int(ok[its_rows].sum()), len(its_rows)))
    points.sort(key=lambda point: point.mean * sign)
    return RankedPoints(points[:count], groups.count, length)


def _candidates(groups: RowGroups, losses: Array, has_score: Array, count: int) -> Array:
    """The groups that may be among the first *count* by the mean of the losses."""
    used = np.bincount(groups.cells, has_score, groups.count)
    sums = np.bincount(groups.cells, losses, groups.count)
    sizes = np.bincount(groups.cells, np.abs(losses), groups.count)
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
