"""Which points of a large study are cached, by their keys, without making their experiments.

A key names a point and a repeat, and the digest of the program names everything else: so a row of
results with both identifies the experiment, without filling files or computing digests. Results
that are news to the user are still looked up one by one: the first of each cause of failure, and
each that is better than all before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from zenturio.annotate.model import Goal
from zenturio.experiment.experiment import ProgramIdentity
from zenturio.experiment.experiment_generator import KeyColumns
from zenturio.expression import Expression
from zenturio.record.entities import KeyedResults
from zenturio.study.driver.progress import CachedTally, ExecutableChanges, scalars, score_of_values

Array = np.ndarray[Any, Any]
LoadCachedPoints = Callable[[ProgramIdentity], "CachedPoints | None"]
_PLAIN = {int, float, type(None)}


class CachedPoints:
    """The results of a program as a source of experiments asks for them."""

    def __init__(
        self,
        results: KeyedResults,
        goals: Sequence[Goal] = (),
        programs: ExecutableChanges | None = None,
        *,
        allow_failed: bool = True,
    ) -> None:
        """Without *allow_failed* only what succeeded counts."""
        order = _last_of_each_key(results)
        self._first, self._second = (half[order] for half in results.keys)
        self._causes = results.causes[order]
        self._started = results.started[order]
        self._cause_texts = results.cause_texts
        self._scores = [scores_of(goal.expression, results)[order] for goal in goals]
        self._signs = [1 if goal.direction == "maximize" else -1 for goal in goals]
        self._programs = programs or ExecutableChanges()
        self._allow_failed = allow_failed
        self._reported = {0}
        """Causes of which one failure went the usual way."""
        self._best = -np.inf
        self._uncounted: list[Array] = []
        """The places of results that were not counted yet."""
        self._uncounted_singles: list[int] = []
        """Likewise, of single ones."""

    def take(self, keys: KeyColumns) -> Array:
        """Return of which *keys* there are results that need not be looked at, and count these."""
        first, second = keys
        at = np.searchsorted(self._first, first)
        at[at == len(self._first)] = 0
        mask: Array = (self._first[at] == first) & (self._second[at] == second)
        causes = self._causes[at]
        if not self._allow_failed:
            mask &= causes == 0
        for place in self._news(at, causes, mask):
            mask[place] = False
        self._uncounted.append(at[mask])
        return mask

    def take_scores(self, keys: Iterable[bytes]) -> list[tuple[float | None, ...] | None] | None:
        """Return the scores of all repeats of a point by their *keys*; None for one that failed.

        None for a point that is to be looked up.
        """
        at = [self._places.get(key, -1) for key in keys]
        if -1 in at or any(map(self._is_news, at)):
            return None
        self._uncounted_singles += at
        return [
            None
            if self._cause_list[place]
            else tuple([scores[place] for scores in self._score_lists])
            for place in at
        ]

    def take_tally(self) -> CachedTally:
        """Return what was counted since the last call."""
        at = np.concatenate([*self._uncounted, np.array(self._uncounted_singles, dtype=np.intp)])
        self._uncounted, self._uncounted_singles = [], []
        causes, counts = np.unique(self._causes[at], return_counts=True)
        failures = {
            self._cause_texts[cause]: count
            for cause, count in zip(causes.tolist(), counts.tolist(), strict=True)
            if cause
        }
        outdated = self._programs.count_changed(self._started[at])
        return CachedTally(len(at), Counter(failures), outdated, 0 in causes)

    # Lists for what is asked point by point, for which arrays are slow.

    @cached_property
    def _cause_list(self) -> list[int]:
        return list(self._causes.tolist())

    @cached_property
    def _score_lists(self) -> list[list[float | None]]:
        return [[None if isnan(v) else v for v in scores.tolist()] for scores in self._scores]

    def _is_news(self, place: int) -> bool:
        """Return whether such a result is news to the user; from now on it counts."""
        cause = self._cause_list[place]
        if cause:
            is_news = cause not in self._reported
            self._reported.add(cause)
            return is_news or not self._allow_failed
        score = self._score_lists[0][place] if self._scores else None
        if score is None or self._signs[0] * score <= self._best:
            return False
        self._best = self._signs[0] * score
        return True

    @cached_property
    def _places(self) -> dict[bytes, int]:
        halves = np.stack([self._first, self._second], axis=1).astype(">u8").tobytes()
        return {halves[16 * at : 16 * at + 16]: at for at in range(len(self._first))}

    def _news(self, at: Array, causes: Array, mask: Array) -> list[int]:
        """Return the positions in *mask* of results that are news to the user."""
        news = []
        for cause in set(np.unique(causes[mask]).tolist()) - self._reported:
            news.append(int(np.flatnonzero(mask & (causes == cause))[0]))
            self._reported.add(cause)
        if self._scores:
            scores = np.where(mask & (causes == 0), self._signs[0] * self._scores[0][at], np.nan)
            if not np.isnan(scores).all() and (best := np.nanmax(scores)) > self._best:
                news.append(int(np.flatnonzero(scores == best)[0]))
                self._best = best
        return news


def _last_of_each_key(results: KeyedResults) -> Array:
    """Return an order by keys with one result for each: that with the highest rank."""
    first, second = results.keys
    order = np.argsort(first, kind="stable")
    if not (first[order][1:] == first[order][:-1]).any():
        return order
    order = np.lexsort((results.ranks, second, first))
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = (first[order][1:] != first[order][:-1]) | (second[order][1:] != second[order][:-1])
    return order[last]


def scores_of(expression: Expression, results: KeyedResults) -> Array:
    """Return the value of an objective for each result; NaN where it has none."""
    columns = {**results.parameters, **results.metrics}
    (*names,) = expression.names
    if expression.text in names and set(map(type, columns[expression.text])) <= _PLAIN:
        values = np.array(columns[expression.text], dtype=np.float64)
        return np.where(np.isfinite(values), values, np.nan)
    rows = zip(*(columns[name] for name in names), strict=True) if names else [()] * len(results)
    scores = (
        score_of_values(expression, scalars(dict(zip(names, row, strict=True)))) for row in rows
    )
    return np.array([np.nan if score is None else score for score in scores])
