"""Two studies side by side: how much one metric differs, and whether that is more than noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from zenturio.errors import InputError, did_you_mean
from zenturio.query.aggregates import Origins
from zenturio.query.present import left_out_notes
from zenturio.query.result_table import ResultTable
from zenturio.query.statistics import CONFIDENCE, FEWEST, Shift, mean, shift

Verdict = Literal["more", "less", "no difference", "too few repeats"]
"""Of the second study against the first."""


@dataclass(frozen=True, slots=True)
class PointPair:
    """One point in both studies."""

    point: tuple[Any, ...]
    first: float
    second: float
    """The means of the metric."""
    repeats: tuple[int, int]
    positive: bool
    """Whether every repeat in both is above zero, so that a ratio says something."""
    shift: Shift | None
    """Where difference and ratio lie; None where there are too few repeats to say."""
    verdict: Verdict

    @property
    def difference(self) -> float:
        return self.second - self.first

    @property
    def ratio(self) -> float | None:
        """The second mean over the first; None where not every repeat is above zero."""
        return self.second / self.first if self.positive else None


@dataclass(frozen=True)
class Comparison:
    """All points that both studies have."""

    names: tuple[str, str]
    metric: str
    unit: str
    on: tuple[str, ...]
    pairs: tuple[PointPair, ...]
    only: tuple[int, int]
    """How many points one study has and the other has not."""
    left_out: tuple[int, int]
    """How many experiments of each study have no finite value of the metric."""
    confidence: float
    outside: tuple[int, int] = (0, 0)
    """How many experiments of each are left out, for its space does not hold their points."""
    origins: tuple[Origins, Origins] = (Origins(), Origins())
    """Of which kinds of machine and of which rounds the results of each are."""

    @property
    def ratio(self) -> float | None:
        """The geometric mean of the ratios; None unless every point has one."""
        ratios = [pair.ratio for pair in self.pairs]
        known_ratios = [ratio for ratio in ratios if ratio is not None]
        if not known_ratios or len(known_ratios) < len(ratios):
            return None
        return math.exp(mean([math.log(ratio) for ratio in known_ratios]))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before believing the rows."""
        first, second = self.names
        judged = [pair for pair in self.pairs if pair.verdict != "too few repeats"]
        differ = sum(pair.verdict != "no difference" for pair in judged)
        chance = len(judged) * (1 - self.confidence)
        alone = f"{self.only[0]:,} only in {first}, {self.only[1]:,} only in {second}"
        notes = [f"{len(self.pairs):,} points in both, {alone}"]
        if self.ratio is not None:
            notes.append(f"geometric mean of the ratios {second} / {first}: {self.ratio:.4g}")
        elif self.pairs:
            without = sum(pair.ratio is None for pair in self.pairs)
            notes.append(
                f"{without:,} of {len(self.pairs):,} points have no ratio:"
                f" {self.metric} is not above zero in each of their repeats"
            )
        if judged:
            notes.append(
                f"{differ:,} of {len(judged):,} differ at {self.confidence:.0%} confidence"
                f" (by chance alone about {chance:.1f} would)"
            )
        if few := len(self.pairs) - len(judged):
            notes.append(f"{few:,} have fewer than {FEWEST} repeats: too few to judge")
        for name, count in zip(self.names, self.left_out, strict=True):
            if count:
                notes.append(f"{count:,} experiments of {name} have no finite {self.metric}")
        for name, count in zip(self.names, self.outside, strict=True):
            notes += [f"{name}: {note}" for note in left_out_notes(count)]
        for name, origins in zip(self.names, self.origins, strict=True):
            notes += [f"{name}: {note}" for note in origins.notes]
        return tuple(notes)

    def result(self) -> ResultTable:
        """The comparison as a table."""
        first, second = self.names
        columns = (
            *self.on, first, second, "difference", "low", "high", "ratio", "repeats", "verdict",
        )  # fmt: skip
        rows = tuple(
            (
                *pair.point,
                pair.first,
                pair.second,
                pair.difference,
                *(pair.shift.difference if pair.shift else (None, None)),
                pair.ratio,
                f"{pair.repeats[0]}, {pair.repeats[1]}",
                pair.verdict,
            )
            for pair in self.pairs
        )
        with_unit = (first, second, "difference", "low", "high")
        units = dict.fromkeys(with_unit, self.unit) if self.unit else {}
        return ResultTable(columns, rows, units, found=len(rows), notes=self.notes)


def compare(
    first: pd.DataFrame,
    second: pd.DataFrame,
    metric: str,
    *,
    on: Sequence[str] = (),
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Two frames of studies, point by point; *on* are the parameters that make a point.

    Without *on* these are all parameters that both have. Each study's repeats are resampled (the
    bootstrap, seeded) to see how far the difference of the means can be trusted: the verdict is
    "more" or "less" where zero is outside of its interval. Of fewer than five repeats nothing is
    said.
    """
    shared = tuple(on) or _shared(first, second)
    if not shared:
        raise InputError("the studies share no parameter", hint="name those to compare on: --on n")
    groups = [_groups(frame, shared, metric) for frame in (first, second)]
    both = [point for point in groups[0] if point in groups[1]]
    if not both:
        raise InputError(
            f"no point of {', '.join(shared)} is in both studies",
            hint="compare on fewer parameters: --on n",
        )
    random = np.random.default_rng(seed)
    pairs = tuple(_pair(p, groups[0][p], groups[1][p], random, confidence) for p in both)
    names = [str(frame.attrs.get("study", "")) for frame in (first, second)]
    if names[0] == names[1]:
        names = ["first", "second"]
    return Comparison(
        names=(names[0], names[1]),
        metric=metric,
        unit=str(first.attrs.get("units", {}).get(metric, "")),
        on=shared,
        pairs=pairs,
        only=(len(groups[0]) - len(both), len(groups[1]) - len(both)),
        left_out=(_left_out(first, groups[0]), _left_out(second, groups[1])),
        confidence=confidence,
        outside=(first.attrs.get("left_out", 0), second.attrs.get("left_out", 0)),
        origins=(Origins.of(first.attrs), Origins.of(second.attrs)),
    )


def _left_out(frame: pd.DataFrame, groups: Mapping[tuple[Any, ...], np.ndarray]) -> int:
    return len(frame) - sum(map(len, groups.values()))


def _shared(first: pd.DataFrame, second: pd.DataFrame) -> tuple[str, ...]:
    others = set(second.attrs.get("parameters", ()))
    return tuple(name for name in first.attrs.get("parameters", ()) if name in others)


def _groups(
    frame: pd.DataFrame, on: Sequence[str], metric: str
) -> Mapping[tuple[Any, ...], np.ndarray]:
    """The finite values of *metric* at each point."""
    for name in (*on, metric):
        if name not in frame.columns:
            hint = did_you_mean(name, map(str, frame.columns))
            raise InputError(f"study {frame.attrs.get('study')!r} has no {name!r}", hint=hint)
    try:
        values = frame[metric].to_numpy(dtype=float, na_value=math.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"{metric!r} holds text: only numbers can be compared") from error
    values = values.astype(float, copy=False)
    finite = np.flatnonzero(np.isfinite(values))
    cells, points = np.zeros(len(finite), dtype=np.int64), [()]
    for name in on:
        codes, distinct = pd.factorize(frame[name].iloc[finite], use_na_sentinel=True)
        listed = [*distinct.tolist(), None]  # a code of -1 stands for what has no value
        pairs, cells = np.unique(cells * len(listed) + codes % len(listed), return_inverse=True)
        points = [
            (*points[at], listed[code])
            for at, code in zip(
                *(part.tolist() for part in divmod(pairs, len(listed))), strict=True
            )
        ]
    _, first = np.unique(cells, return_index=True)
    by_point = np.split(
        values[finite][np.argsort(cells, kind="stable")], np.cumsum(np.bincount(cells))[:-1]
    )
    return {points[at]: by_point[at] for at in np.argsort(first, kind="stable").tolist()}


def _pair(
    point: tuple[Any, ...],
    first: np.ndarray,
    second: np.ndarray,
    random: np.random.Generator,
    confidence: float,
) -> PointPair:
    repeats = (len(first), len(second))
    positive = bool((first > 0).all() and (second > 0).all())
    interval: Shift | None = None
    verdict: Verdict = "too few repeats"
    if min(repeats) >= FEWEST:
        interval = shift(first, second, random, confidence)
        low, high = interval.difference
        verdict = "more" if low > 0 else "less" if high < 0 else "no difference"
    return PointPair(point, mean(first), mean(second), repeats, positive, interval, verdict)
