"""A column as few levels: its values, or groups of neighbouring ones where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zenturio.expression import text_of

MANY_VALUES = 12
"""Numbers of more distinct values are taken in groups of neighbours."""
VALUE_GROUPS = 10
MOST_TEXTS = 50
"""Of texts with more distinct values, the frequent ones stand for themselves."""
OTHERS = "others"

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class LevelCodes:
    """For each row, a number for its value, and one for its level."""

    exact: Ints
    groups: Ints
    labels: tuple[str, ...]
    """Of the levels, in order of value."""


def level_codes(column: pd.Series[Any]) -> LevelCodes:
    """*column* as levels; rows without a value (inactive parameters) are a level of their own."""
    codes, found = pd.factorize(column, use_na_sentinel=True)
    values = [each.item() if hasattr(each, "item") else each for each in found]
    number = all(isinstance(each, int | float) for each in values)
    order = sorted(range(len(values)), key=lambda at: values[at] if number else str(values[at]))
    rank = np.empty(len(values) + 1, dtype=np.int64)  # the last is for what has no value
    rank[order] = np.arange(len(values))
    rank[-1] = len(values)
    exact = rank[codes]
    ranked = [values[at] for at in order]
    if number and len(ranked) > MANY_VALUES:
        return _grouped(exact, ranked)
    if not number and len(ranked) > MOST_TEXTS:
        return _frequent(exact, ranked)
    return _labelled(exact, exact, [*map(text_of, ranked), "none"])


def combine_codes(codes: Sequence[Ints]) -> Ints:
    """A number for each combination that there is, from 0, without gaps."""
    whole = codes[0]
    for each in codes[1:]:
        whole = whole * (int(each.max()) + 1) + each
        whole = np.unique(whole, return_inverse=True)[1].ravel()
    return np.unique(whole, return_inverse=True)[1].ravel()


def _grouped(exact: Ints, values: Sequence[Any]) -> LevelCodes:
    """Neighbouring numbers together, about as many rows in each group."""
    present = exact[exact < len(values)]
    below = np.cumsum(np.bincount(present, minlength=len(values))) - 1
    group = below * VALUE_GROUPS // len(present)
    labels = []
    for each in range(VALUE_GROUPS):
        inside = np.flatnonzero(group == each)
        first, last = (text_of(values[i]) for i in (inside[[0, -1]] if len(inside) else (0, 0)))
        labels.append(first if first == last else f"{first} .. {last}")
    return _labelled(exact, np.append(group, VALUE_GROUPS)[exact], [*labels, "none"])


def _frequent(exact: Ints, values: Sequence[Any]) -> LevelCodes:
    """The most frequent texts, and all others together."""
    counts = np.bincount(exact, minlength=len(values) + 1)[: len(values)]
    kept = np.sort(np.argsort(-counts, kind="stable")[: MOST_TEXTS - 1])
    group = np.full(len(values) + 1, len(kept), dtype=np.int64)
    group[kept] = np.arange(len(kept))
    group[-1] = len(kept) + 1
    return _labelled(exact, group[exact], [*(str(values[i]) for i in kept), OTHERS, "none"])


def _labelled(exact: Ints, groups: Ints, labels: Sequence[str]) -> LevelCodes:
    """Numbers without gaps, and the labels of those that there are."""
    there, dense = np.unique(groups, return_inverse=True)
    distinct = np.unique(exact, return_inverse=True)[1]
    return LevelCodes(distinct.ravel(), dense.ravel(), tuple(labels[at] for at in there))
