"""The best points of a study, out of its columnar copy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from zenturio.experiment import aggregates
from zenturio.record.column_copy import Array, ColumnCopy, NotCopiedError
from zenturio.record.column_groups import RowGroups

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
    except NotCopiedError:
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
        raise NotCopiedError("position")
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
