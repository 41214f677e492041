"""Two versions side by side: how much one metric differs, and whether that is more than noise.

A verdict needs runs that were interleaved: see `interleaved_pairs`. Of values that both versions
declare EXACT, one run of each tells. Each point gets an interval at level alpha / points
(Bonferroni), so that intervals and words agree and at most 5% of comparisons of equal programs have
any wrong word; the word of all points together has 5% of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.aggregates import TIMES
from zenturio.experiment.signed_ranks import (
    BlockPlan,
    Estimate,
    Interval,
    decide_in_looks,
    fewest_blocks,
    hodges_lehmann,
    is_clear,
    rank_sum_chance,
)
from zenturio.quantities import amount
from zenturio.query.aggregates import MachineRoundCounts
from zenturio.query.excluded_points import left_out_notes
from zenturio.query.interleaved_pairs import (
    FACTS,
    BlockPair,
    DataFrameRuns,
    RunColumns,
    StudyRuns,
    cells,
    conditions_that_differ,
    copied_runs,
    pair_runs,
    runs_by_point,
    split_by_predecessor,
)
from zenturio.query.result_table import ResultTable
from zenturio.query.statistics import CONFIDENCE, median
from zenturio.query.study_table import condition_of
from zenturio.record import BUDGET_SPENT, PAIRED, PAIRED_ROUND, Repository
from zenturio.record.entities import NEWEST, RowChoice

if TYPE_CHECKING:
    import pandas as pd

MOST_BLOCKS_EVER = 100_000
"""More blocks than anybody runs: a plan that has more was not made here."""
CARRY_OVER_LEVEL = 0.05
"""Level of the rank-sum test for runs that disturb the next one."""
FEWEST_PAIRS = 4
"""Pairs of each kind that this test needs: those behind the same, and behind the other version."""
MARGIN = 0.02
"""Ratios within 1.02 and 1 / 1.02 are the same."""
NOT_INTERLEAVED = "unclear (not interleaved)"
EQUAL = "same"
DIFFERS = "differs"
"""Of exact values: more at some points, and less or the same at others."""
DISTURBED = "unclear (a run disturbs the next)"
SETTLE_HINT = (
    "runs that follow a run of the other version differ from those that follow their own: zen"
    " compare --run --settle runs each version once, uncounted, before each run that counts"
)
HINT = (
    "for verdicts, make the versions values of one parameter (version) of one study with REPEAT 20,"
    " run it with --order blocks, and compare its values:"
    """ zen compare STUDY STUDY --where 'version == "old"' --where 'version == "new"'"""
)
RUN_HINT = "for a verdict, run both next to each other: zen compare {} {} --run"
WALL_TIME, PROCESSOR_TIME = "wtime", "ctime"

Point = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PointComparison:
    """The runs of both versions at one point, or at all points together."""

    point: Point
    first: float
    second: float
    """The medians of the metric; NaN of all points together."""
    repeats: tuple[int, int]
    blocks: int
    """In how many blocks both ran next to each other."""
    value: float | None
    """Ratio or difference, second to first; of medians where the runs were not interleaved."""
    interval: Interval | None
    """Where that lies; None where there are too few blocks to say."""
    verdict: str
    """faster, slower, more, less, same (within 2%), or unclear, with the reason; of a metric that
    both declare EXACT: more, less or same, and differs of all points together."""


@dataclass(frozen=True)
class Comparison:
    """All points that both versions have."""

    names: tuple[str, str]
    metric: str
    unit: str
    on: tuple[str, ...]
    pairs: tuple[PointComparison, ...]
    overall: PointComparison
    is_ratio: bool
    """Whether ratios are compared: every value is above zero. Else differences."""
    only: tuple[int, int]
    """How many points one version has and the other has not."""
    left_out: tuple[int, int]
    """How many experiments of each succeeded and have no finite value of the metric."""
    failures: tuple[int, int]
    """How many experiments of each failed, at points that both have."""
    conditions: tuple[str, ...]
    """What differs between the runs of both: host, load, experiments at a time."""
    confidence: float
    outside: tuple[int, int] = (0, 0)
    """How many experiments of each are left out, for its space does not hold their points."""
    origins: tuple[MachineRoundCounts, MachineRoundCounts] = (
        MachineRoundCounts(),
        MachineRoundCounts(),
    )
    """Of which kinds of machine and of which rounds the results of each are."""
    ended: int | None = None
    """The block after which the budget was spent."""
    are_studies: bool = False
    """Whether the names are those of two studies, or versions of one."""
    by_processor: Comparison | None = None
    """The same runs by their processor time, where their wall time is unclear."""

    @property
    def ratio(self) -> float | None:
        """Second to first over all points; None where differences are compared."""
        return self.overall.value if self.is_ratio else None

    @property
    def counts(self) -> dict[str, int]:
        """The points by their verdicts, most first."""
        return dict(Counter(pair.verdict for pair in self.pairs).most_common())

    @property
    def headline(self) -> str:
        """The verdict on all points, with the numbers behind it."""
        first, second = self.names
        overall, noun = self.overall, "ratio" if self.is_ratio else "difference"
        headline = f"{second} against {first}, {self.metric}: {overall.verdict}"
        if overall.value is not None:
            headline += f"; {noun} {overall.value:.4g}"
            headline += " as measured" if overall.blocks == 0 else ""
        if overall.interval is not None:
            low, high = overall.interval
            headline += f" ({low:.4g} to {high:.4g} at {self.confidence:.0%})"
        if overall.blocks:
            headline += f", {amount(overall.blocks, 'block')}"
        return headline

    @property
    def summary(self) -> tuple[str, ...]:
        """What to read first: conditions that differ, the verdict, how many points say so."""
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.counts.items())
        lines = [f"conditions differ: {line}" for line in self.conditions]
        lines += [self.headline, f"{amount(len(self.pairs), 'point')}: {counts}"]
        if any(pair.blocks and not pair.verdict.startswith("unclear") for pair in self.pairs):
            lines[-1] += f"; at most {1 - self.confidence:.0%} that any of these words is wrong"
        if self.by_processor is not None:
            lines.append(f"{self.by_processor.headline}: without waiting, input and output")
        if NOT_INTERLEAVED in self.counts:
            hint = RUN_HINT.format(*self.names) if self.are_studies else HINT
            lines.append(f"the runs of both were not next to each other in random order; {hint}")
        if DISTURBED in {self.overall.verdict, *self.counts}:
            lines.append(SETTLE_HINT)
        return tuple(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before believing the rows."""
        first, second = self.names
        alone = f"{self.only[0]:,} only in {first}, {self.only[1]:,} only in {second}"
        notes = [f"{amount(len(self.pairs), 'point')} in both, {alone}"]
        if not self.is_ratio:
            notes.append(f"compared by differences: {self.metric} is not above zero everywhere")
        if self.ended is not None:
            notes.append(f"the budget was spent after {amount(self.ended, 'block')}")
        if self.is_ratio and self.overall.interval is not None:
            low, high = self.overall.interval
            notes.append(
                "smallest difference these blocks could show over all points:"
                f" {math.expm1(math.log(high / low) / 2):.1%}"
            )
        if any(pair.blocks for pair in self.pairs):
            notes.append(
                "low and high: Hodges-Lehmann intervals of the signed rank test, corrected for the"
                " number of points (Bonferroni)"
            )
        if apart := sum(map(self._has_two_modes, self.pairs)):
            notes.append(
                f"at {amount(apart, 'point')} the ratio of the medians is far from the ratio within"
                " blocks: the runs may have two modes; zen plot --kind box shows them"
            )
        for name, count in zip(self.names, self.failures, strict=True):
            if count:
                notes.append(f"{count:,} experiments of {name} failed")
        for name, count in zip(self.names, self.left_out, strict=True):
            if count:
                notes.append(f"{count:,} experiments of {name} have no finite {self.metric}")
        for name, count in zip(self.names, self.outside, strict=True):
            notes += [f"{name}: {note}" for note in left_out_notes(count)]
        for name, origins in zip(self.names, self.origins, strict=True):
            notes += [f"{name}: {note}" for note in origins.notes]
        return tuple(notes)

    def _has_two_modes(self, pair: PointComparison) -> bool:
        """Whether the medians differ by more than the interval allows from what pairs say."""
        if not self.is_ratio or pair.interval is None or not pair.value:
            return False
        half = math.log(pair.interval.high / pair.interval.low) / 2
        return abs(math.log(pair.second / pair.first / pair.value)) > half

    def result(self) -> ResultTable:
        """Return the comparison as a table; the summary stands before the notes."""
        first, second = self.names
        noun = "ratio" if self.is_ratio else "difference"
        columns = (*self.on, first, second, noun, "low", "high", "blocks", "repeats", "verdict")
        rows = tuple(
            (
                *pair.point, pair.first, pair.second, pair.value,
                *(pair.interval or (None, None)), pair.blocks,
                f"{pair.repeats[0]}, {pair.repeats[1]}", pair.verdict,
            )
            for pair in self.pairs
        )  # fmt: skip
        with_unit = (first, second, *(() if self.is_ratio else (noun, "low", "high")))
        units = dict.fromkeys(with_unit, self.unit) if self.unit else {}
        notes = (*self.summary, *self.notes)
        return ResultTable(columns, rows, units, found=len(rows), notes=notes)

    def facts(self) -> dict[str, Any]:
        """What ``zen compare --json`` prints beside the table."""
        low, high = self.overall.interval or (None, None)
        by_processor = self.by_processor and {
            name: value
            for name, value in self.by_processor.facts().items()
            if name not in ("counts", "conditions")
        }
        return {
            "verdict": self.overall.verdict,
            "ratio" if self.is_ratio else "difference": self.overall.value,
            "low": low,
            "high": high,
            "blocks": self.overall.blocks,
            "counts": self.counts,
            "conditions": list(self.conditions),
            **({PROCESSOR_TIME: by_processor} if by_processor else {}),
        }


class _PairedVersions(NamedTuple):
    """The two versions of a study that ran them beside each other."""

    where: tuple[str, str]
    plan: BlockPlan
    """It was looked again and again whether the blocks suffice."""


def _paired_versions(repository: Repository, study: str) -> _PairedVersions | None:
    """Return the versions that *study* notes; None of any other study."""
    note: Any = repository.definition(study).notes.get(PAIRED)
    try:
        first, second = (json.dumps(str(label)) for label in note["labels"])
        least, most = (int(count) for count in note["blocks"])
        parameter = str(note["parameter"])
    except (KeyError, TypeError, ValueError):  # none, or not one of ours
        return None
    if not 1 <= least <= most <= MOST_BLOCKS_EVER:
        return None
    where = (f"{parameter} == {first}", f"{parameter} == {second}")
    return _PairedVersions(where, BlockPlan(least, most))


def _ended_early(repository: Repository, study: str, round_: int | str) -> int | None:
    """Return the block after which time ended a round; None where it did not."""
    rounds = {
        int(match[1]): int(match[2])
        for event in repository.events(study)
        if event.kind == PAIRED_ROUND
        and (match := re.fullmatch(rf"round (\d+): (\d+) blocks{BUDGET_SPENT}", event.text))
    }
    return rounds.get(round_) if isinstance(round_, int) else None


def compare_studies(
    repository: Repository,
    first: str,
    second: str,
    metric: str,
    *,
    on: Sequence[str] = (),
    where: tuple[Any, Any] = (None, None),
    rows: tuple[RowChoice, RowChoice] = (NEWEST, NEWEST),
    outside: bool = False,
    margin: float = MARGIN,
    plan: BlockPlan | None = None,
) -> Comparison:
    """Compare two studies, versions or choices of results: *where* and *rows* are of each.

    A study of versions that were run for a comparison has its own, with its *plan*: those of its
    newest round are compared unless *where* names others. If the wall time is unclear, the verdict
    by the processor time of the same runs is shown next to it.
    """
    versions = _paired_versions(repository, first) if first == second else None
    if versions is not None and where == (None, None):
        where, plan = versions.where, versions.plan
        # Each round was looked at by itself: results of several do not add up.
        newest = repository.rounds(first)[-1].number
        before, after = (
            replace(choice, round=newest) if choice.round == "newest" else choice for choice in rows
        )
        rows = (before, after)
        if before.round == after.round:
            plan = replace(plan, ended=_ended_early(repository, first, before.round))
    sides: list[RunColumns] = []
    for name, condition, choice in zip((first, second), where, rows, strict=True):
        runs: RunColumns | None = copied_runs(
            repository, name, metric, where=condition, rows=choice, outside=outside,
            is_paired=first == second, parameters=() if first == second else on,
        )  # fmt: skip
        if runs is None:
            from zenturio.query.frames import study_frame  # noqa: PLC0415 - loads pandas

            frame = study_frame(
                repository, name, where=condition, everything=True, metrics=[metric],
                outside=outside, rows=choice, facts=FACTS,
            )  # fmt: skip
            runs = DataFrameRuns(frame)
        if not len(runs) and condition is not None:
            raise _nothing_selected(repository, name, condition, choice, outside=outside)
        measures = repository.definition(name).metrics
        runs.attrs["exact"] = any(field.name == metric and field.exact for field in measures)
        sides.append(runs)
    comparison = _compare(sides[0], sides[1], metric, on=on, margin=margin, plan=plan)
    comparison = replace(
        comparison, ended=plan.ended if plan else None, are_studies=first != second
    )
    if metric != WALL_TIME or not comparison.overall.blocks:
        return comparison
    if not comparison.overall.verdict.startswith("unclear"):
        return comparison
    try:
        by_processor = compare_studies(
            repository, first, second, PROCESSOR_TIME, on=on, where=where, rows=rows,
            outside=outside, margin=margin, plan=plan,
        )  # fmt: skip
    except InputError:  # a study of calls has none
        return comparison
    return replace(comparison, by_processor=by_processor)


MOST_VALUES_NAMED = 8
"""Values of a parameter that a message names at most."""


def _nothing_selected(
    repository: Repository, study: str, condition: Any, rows: RowChoice, *, outside: bool
) -> InputError:
    """Return the error for a condition that no experiment meets, with the values that there are."""
    from zenturio.query.frames import study_frame  # noqa: PLC0415 - loads pandas

    parsed = condition_of(condition)
    names = sorted(parsed.names) if parsed else []
    frame = study_frame(
        repository, study, everything=True, metrics=[], outside=outside, rows=rows, facts=FACTS
    )
    hints = []
    for name in names:
        if name in frame.attrs["parameters"]:
            values = list(dict.fromkeys(cells(frame, name)))
            if 0 < len(values) <= MOST_VALUES_NAMED:
                hints.append(f"{name} is {' or '.join(map(str, values))}")
    return InputError(
        f"no experiment of {study} meets {parsed.text if parsed else condition}",
        hint="; ".join(hints) or f"zen status {study}",
    )


def _no_results(study: str, side: StudyRuns, metric: str) -> InputError:
    """Return the error for the side *study* without a number to compare."""
    if failed := sum(side.failures.values()):
        return InputError(
            f"{study} has no results to compare: {amount(failed, 'experiment')} failed",
            hint="zen status shows why",
        )
    if side.left_out:
        return InputError(
            f"{study} has no results to compare: {amount(side.left_out, 'experiment')} without a"
            f" finite {metric}",
            hint="choose another metric: --metric",
        )
    return InputError(f"{study} has no results to compare", hint="zen status shows what ran")


def compare(
    first: pd.DataFrame,
    second: pd.DataFrame,
    metric: str,
    *,
    on: Sequence[str] = (),
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
    plan: BlockPlan | None = None,
) -> Comparison:
    """Compare two frames of studies, point by point; *on* are the parameters that make a point.

    Without *on* these are all parameters that both have. Within one study, parameters with one
    value in each frame, and different ones, distinguish the versions and are not part of the point.
    *plan*: the numbers of blocks at which the test was evaluated, if not only at the end.
    """
    sides = DataFrameRuns(first), DataFrameRuns(second)
    return _compare(*sides, metric, on=on, confidence=confidence, margin=margin, plan=plan)


def _compare(
    first: RunColumns,
    second: RunColumns,
    metric: str,
    *,
    on: Sequence[str],
    confidence: float = CONFIDENCE,
    margin: float,
    plan: BlockPlan | None,
) -> Comparison:
    shared = _shared(first, second)
    versions = _version_parameters(first, second, shared)
    shared = tuple(name for name in shared if name not in versions)
    chosen = tuple(on) or shared
    if not chosen and not versions:
        raise InputError("the studies share no parameter", hint="name those to compare on: --on n")
    sides = [_side(columns, chosen, metric) for columns in (first, second)]
    names = _names(first, second, versions)
    for columns, side, name in zip((first, second), sides, names, strict=True):
        if not side.runs:
            study = str(columns.attrs.get("study", ""))
            raise _no_results(study if name == study else f"{study} ({name})", side, metric)
    points = [point for point in sides[0].runs if point in sides[1].runs]
    if not points:
        raise InputError(
            f"no point of {', '.join(chosen)} is in both studies",
            hint="compare on fewer parameters: --on n",
        )
    blocks = _blocks(sides, metric, chosen, shared, points)
    judged = [pairs for pairs, _ in blocks.values() if pairs]
    judge = _Judge(sides, str(first.attrs.get("units", {}).get(metric, "")), margin, plan, judged)
    # Both studies declare so: then no noise is in the values, and any two runs tell.
    judge.is_exact = bool(first.attrs.get("exact") and second.attrs.get("exact"))
    judge.disturbance = judge.carry_over(judged)
    alpha = 1 - confidence
    pairs = tuple(judge.point(p, *blocks[p], alpha / max(len(judged), 1)) for p in points)
    return Comparison(
        names=names,
        metric=metric,
        unit=judge.unit,
        on=chosen,
        pairs=pairs,
        overall=judge.overall(pairs, judged, alpha),
        is_ratio=judge.is_ratio,
        only=(len(sides[0].runs) - len(points), len(sides[1].runs) - len(points)),
        left_out=(sides[0].left_out, sides[1].left_out),
        failures=judge.failures(points),
        conditions=conditions_that_differ(names, sides, points),
        confidence=confidence,
        outside=(first.attrs.get("left_out", 0), second.attrs.get("left_out", 0)),
        origins=(MachineRoundCounts.of(first.attrs), MachineRoundCounts.of(second.attrs)),
    )


BlockPairs = dict[tuple[int, int], list[BlockPair]]
"""By round and repeat: the pairs of each combination of the parameters that make no point."""


def _blocks(
    sides: Sequence[StudyRuns],
    metric: str,
    on: Sequence[str],
    shared: Sequence[str],
    points: Sequence[Point],
) -> dict[Point, tuple[BlockPairs, tuple[str, ...]]]:
    """The blocks of each point in which both ran, and the conditions that differed in others."""
    blocks: dict[Point, tuple[BlockPairs, tuple[str, ...]]] = {point: ({}, ()) for point in points}
    first, second = (side.table.columns for side in sides)
    study = first.attrs.get("study")
    if not study or study != second.attrs.get("study"):
        return blocks  # blocks of different studies, or of two versions, never ran together
    if not all(side.table.has_blocks for side in sides):
        return blocks
    # Only runs that are equal in all other parameters may be pairs.
    names = (*on, *(name for name in shared if name not in on))
    before, after = (_side(columns, names, metric).runs for columns in (first, second))
    combinations: Counter[Point] = Counter()
    for combination, runs in before.items():
        point = combination[: len(on)]
        if combination not in after or point not in blocks:
            continue
        paired = pair_runs(runs, after[combination])
        pairs, differing = blocks[point]
        for pair in paired.pairs:
            pairs.setdefault(pair.block, []).append(pair)
        combinations[point] += bool(paired.pairs)
        blocks[point] = (pairs, tuple(dict.fromkeys((*differing, *paired.differing))))
    return {
        point: ({b: p for b, p in pairs.items() if len(p) == combinations[point]}, differing)
        for point, (pairs, differing) in blocks.items()
    }


class _Judge:
    """Finds the words of points and of all together."""

    def __init__(
        self,
        sides: Sequence[StudyRuns],
        unit: str,
        margin: float,
        plan: BlockPlan | None,
        judged: Sequence[BlockPairs],
    ) -> None:
        self.unit, self._sides, self._margin, self._plan = unit, sides, margin, plan
        self.is_ratio = all((side.table.values[side.rows(side.runs)] > 0).all() for side in sides)
        self._words = ("faster", "slower") if unit in TIMES else ("less", "more")
        # Of points that were decided earlier than others the last blocks are missing.
        self._reached = max((block for pairs in judged for _, block in pairs), default=0)
        self.disturbance = 0.0
        """How much a run of one version may have changed the next run."""
        self.is_exact = False
        """Whether the metric is declared to be the same in each run."""

    def carry_over(self, judged: Sequence[BlockPairs]) -> float:
        """Return by how much pairs differ by the version that ran before them; 0 if by chance."""
        if not judged:
            return 0.0
        pairs: list[BlockPair] = []
        differences: list[float] = []
        for blocks in judged:
            of_point = [pair for block in blocks.values() for pair in block]
            values = [self._difference([pair]) for pair in of_point]
            middle = median(values)
            pairs += of_point
            differences += [value - middle for value in values]
        same, other = split_by_predecessor(self._sides, pairs, differences)
        if min(len(same), len(other)) < FEWEST_PAIRS:
            return 0.0
        if rank_sum_chance(same, other) > CARRY_OVER_LEVEL:
            return 0.0
        return abs(median(other) - median(same))

    def point(
        self, point: Point, blocks: BlockPairs, differing: Sequence[str], alpha: float
    ) -> PointComparison:
        runs = [side.runs[point] for side in self._sides]
        first, second = (median(side.values) for side in runs)
        repeats = (len(runs[0]), len(runs[1]))
        if self.is_exact and all((side.values == side.values[0]).all() for side in runs):
            word = EQUAL if first == second else self._words[first < second]
            value = second / first if self.is_ratio else second - first
            return PointComparison(
                point, first, second, repeats, 0, value, Interval(value, value), word
            )
        if not blocks:
            word = f"unclear (differs by {', '.join(differing)})" if differing else NOT_INTERLEAVED
            value = second / first if self.is_ratio else second - first
            return PointComparison(point, first, second, repeats, 0, value, None, word)
        differences = {block: self._difference(pairs) for block, pairs in blocks.items()}
        judged = self._judged(differences, alpha, self.failures([point]))
        return PointComparison(point, first, second, repeats, *judged)

    def overall(
        self, pairs: Sequence[PointComparison], blocks: Sequence[BlockPairs], alpha: float
    ) -> PointComparison:
        """Return the mean over points in each block that has all of them.

        Each is symmetric about the mean effect if those of all points are, so the test stays exact.
        """
        failures = self.failures([pair.point for pair in pairs])
        repeats = (sum(p.repeats[0] for p in pairs), sum(p.repeats[1] for p in pairs))
        common = [b for b in blocks[0] if all(b in point for point in blocks)] if blocks else []
        # Exact values have no blocks: of these, none is the same within a margin.
        if not common or not any(pair.blocks for pair in pairs):
            words = {pair.verdict for pair in pairs if not pair.blocks}
            is_known = not any(word.startswith("unclear") for word in words)
            word = words.pop() if len(words) == 1 else DIFFERS if is_known else "unclear"
            values = [pair.value for pair in pairs if pair.value is not None]
            value = float(np.mean(np.log(values) if self.is_ratio else values))
            value = math.exp(value) if self.is_ratio else value
            return PointComparison((), math.nan, math.nan, repeats, 0, value, None, word)
        means = {
            b: float(np.mean([self._difference(point[b]) for point in blocks])) for b in common
        }
        judged = self._judged(means, alpha, failures)
        return PointComparison((), math.nan, math.nan, repeats, *judged)

    def _judged(
        self, differences: Mapping[tuple[int, int], float], alpha: float, failures: tuple[int, int]
    ) -> tuple[int, float, Interval | None, str]:
        """Return how many blocks count, the value, its interval and the word."""
        if self._plan is None:
            estimate = hodges_lehmann(list(differences.values()), alpha)
            blocks, needed = len(differences), fewest_blocks(alpha)
        else:
            by_block = {repeat: value for (_, repeat), value in differences.items()}
            clear = partial(is_clear, margin=math.log1p(self._margin) if self.is_ratio else 0.0)
            looked_at = decide_in_looks(by_block, self._plan, alpha, clear, reached=self._reached)
            estimate, blocks = looked_at.estimate, looked_at.blocks
            looks = self._plan.looks(alpha)  # none where time ended it before there was one
            needed = looks[0].blocks if looks else fewest_blocks(alpha)
        verdict = self._verdict(estimate, blocks, needed, failures)
        return blocks, *self._shown(estimate), verdict

    def _word(self, low: float, high: float) -> str:
        """Return the verdict of a single interval."""
        less, more = self._words
        within = math.log1p(self._margin) if self.is_ratio else 0.0
        if -within <= low and high <= within:
            return f"same (within {self._margin:.0%})" if self.is_ratio else "same"
        return more if low > 0 else less if high < 0 else "unclear"

    def failures(self, points: Sequence[Point]) -> tuple[int, int]:
        first, second = (sum(s.failures.get(p, 0) for p in points) for s in self._sides)
        return first, second

    def _difference(self, pairs: Sequence[BlockPair]) -> float:
        if self.is_ratio:
            return float(np.mean([math.log(pair.second) - math.log(pair.first) for pair in pairs]))
        return float(np.mean([pair.second - pair.first for pair in pairs]))

    def _shown(self, estimate: Estimate) -> tuple[float, Interval | None]:
        if not self.is_ratio:
            return estimate
        interval = estimate.interval
        return math.exp(estimate.value), interval and Interval(*map(math.exp, interval))

    def _verdict(
        self, estimate: Estimate, blocks: int, needed: int, failures: tuple[int, int]
    ) -> str:
        if estimate.interval is None:
            return f"unclear ({amount(blocks, 'block')}; {needed} needed)"
        low, high = estimate.interval
        less, more = self._words
        verdict = self._word(low, high)
        # The bias is that of a part of the pairs, so it is less than the disturbance.
        if verdict != self._word(low - self.disturbance, high + self.disturbance):
            return DISTURBED
        # Runs that failed might have been the slow ones: that side is never the better one.
        if verdict != "unclear" and (failures[0] > 0) != (failures[1] > 0):
            worse = more if failures[1] else less
            if self.unit not in TIMES or verdict != worse:
                return "unclear (one side failed)"
        return verdict


def _shared(first: RunColumns, second: RunColumns) -> tuple[str, ...]:
    names = set(second.attrs.get("parameters", ()))
    return tuple(name for name in first.attrs.get("parameters", ()) if name in names)


def _version_parameters(
    first: RunColumns, second: RunColumns, shared: Sequence[str]
) -> Mapping[str, tuple[Any, Any]]:
    """Return the parameters that tell two parts of one study apart, with the value of each part."""
    if first.attrs.get("study") != second.attrs.get("study"):
        return {}
    values = {name: tuple(_distinct(side, name) for side in (first, second)) for name in shared}
    return {
        name: (min(before), min(after))
        for name, (before, after) in values.items()
        if len(before) == len(after) == 1 and before != after
    }


def _distinct(columns: RunColumns, name: str) -> set[Any]:
    codes, values = columns.coded(name)
    return {values[code] for code in np.flatnonzero(np.bincount(codes)).tolist()}


def _names(
    first: RunColumns, second: RunColumns, versions: Mapping[str, tuple[Any, Any]]
) -> tuple[str, str]:
    before, after = (str(columns.attrs.get("study", "")) for columns in (first, second))
    if before != after:
        return before, after
    if versions:
        before, after = (
            ", ".join(f"{name}={values[at]}" for name, values in versions.items()) for at in (0, 1)
        )
        return before, after
    return "first", "second"


def _side(columns: RunColumns, on: Sequence[str], metric: str) -> StudyRuns:
    for name in (*on, metric):
        if name not in columns.names:
            hint = did_you_mean(name, columns.names)
            raise InputError(f"study {columns.attrs.get('study')!r} has no {name!r}", hint=hint)
    try:
        values = columns.metric(metric)
    except (TypeError, ValueError) as error:
        raise InputError(f"{metric!r} holds text: only numbers can be compared") from error
    return runs_by_point(columns, on, values)
