"""Explanation of a study: which parameters matter, which points are best, what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zenturio import quantities
from zenturio.errors import InputError, Passage, SpaceError
from zenturio.experiment.aggregates import LEAST_FOR_MEDIAN_INTERVAL
from zenturio.expression import text_of
from zenturio.query.excluded_points import digests_outside
from zenturio.query.forest import ForestShares, ParameterShare, forest_shares
from zenturio.query.importance import LEAST, UNKNOWN
from zenturio.query.points_outside import present_space
from zenturio.query.regression import real_column
from zenturio.query.statistics import student
from zenturio.query.study_table import numbers_where
from zenturio.record import Repository
from zenturio.record.entities import NEWEST, RowChoice
from zenturio.search import Directions, SearchLoop, SearchProblem, make
from zenturio.search.baselines import Random
from zenturio.show.chart import Chart
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.chart_table import is_missing
from zenturio.show.charts.search_charts import (
    ChartObjective,
    derived_parameters,
    objectives_of,
    search_points,
)
from zenturio.show.charts.study_charts import MOST_POINTS, draw_chart
from zenturio.space import Point, Space
from zenturio.space.space import space_from_json
from zenturio.study.best_points import PointRanking, best
from zenturio.study.last_options import SEARCH
from zenturio.study.recorded_definition import SPACE, resolve_name

SHOWN = 3
"""Points as good as the best, or pairs of parameters, that a line names at most."""


@dataclass(frozen=True)
class Proposal:
    """The point that an engine would try next, or the reason why there is none."""

    engine: str
    values: Mapping[str, Any] | None
    reason: str = ""


@dataclass(frozen=True)
class Explanation:
    """Which parameters of a study matter, which points are best, and what to try next."""

    study: str
    objectives: tuple[str, ...]
    """As ``minimize wtime``. Shares and charts are of the first one."""
    points: int
    """Points that finished."""
    usable: int
    """Those with a number for the first objective."""
    forest: ForestShares | None
    """None where there are too few points, or no parameter varies; then `reason` says why."""
    reason: str
    ranking: PointRanking
    proposal: Proposal
    is_exact: bool = False
    """Whether the first objective has no noise, as a metric that is declared EXACT has none."""

    @property
    def metric(self) -> str:
        return ChartObjective.of(self.objectives[0]).name

    def with_verdict(self, verdict: str) -> list[ParameterShare]:
        """Return the parameters of which the forest says so."""
        shares = self.forest.shares if self.forest else ()
        return [share for share in shares if share.verdict == verdict]

    @property
    def lines(self) -> list[str]:
        """The explanation as text, in five lines."""
        return [
            self._data_line(),
            f"parameters: {self._matters()}",
            f"interactions: {self._together()}",
            f"best: {self._best()}",
            f"next: {self._next()}",
        ]

    def _data_line(self) -> str:
        counted = f"{self.usable:,} of {quantities.amount(self.points, 'point')}"
        verb = "has" if self.points == 1 else "have"
        of = f"{self.study}: {', '.join(self.objectives)}"
        text = f"{of}; {counted} {verb} a value of {self.metric}"
        if self.ranking.texts:
            text += f"; {self.ranking.texts.note}"
        if self.forest is None:
            return text
        if self.forest.points < self.forest.of:
            text += f"; the model is fitted to a sample of {self.forest.points:,} points"
        explained = f"{max(self.forest.explained, 0.0):.0%}"
        return f"{text}; the model predicts {explained} of the variance of held-out points"

    def _matters(self) -> str:
        if self.forest is None:
            return self.reason
        parts = [
            f"{share.parameter} explains {_percent(share.total, *share.total_interval)}"
            for share in self.with_verdict("yes")
        ] or ["no parameter matters for certain"]
        if names := [share.parameter for share in self.with_verdict("no")]:
            verb = "matters" if len(names) == 1 else "matter"
            parts.append(f"{quantities.listing(names)} hardly {verb}")
        if names := [share.parameter for share in self.with_verdict(UNKNOWN)]:
            parts.append(f"{UNKNOWN} about {quantities.listing(names)}")
        return "; ".join(parts)

    def _together(self) -> str:
        if self.forest is None or not self.forest.has_skill:
            return UNKNOWN
        certain = [pair for pair in self.forest.pairs if pair.interval.low > LEAST]
        texts = [
            f"{' and '.join(pair.parameters)} explain {_percent(pair.share, *pair.interval)}"
            for pair in certain[:SHOWN]
        ]
        hidden = len(certain) - len(texts)
        texts += [f"{quantities.amount(hidden, 'more pair')} (--json)"] * bool(hidden)
        if not texts:
            return f"no pair of parameters explains more than {LEAST:.0%} for certain"
        return "; ".join(texts)

    def _best(self) -> str:
        points = self.ranking.points
        if not points:
            return "no point has a value of every objective"
        command = f"zen best {shlex.quote(self.study)}"
        if len(self.objectives) > 1:
            count = quantities.amount(len(points), "point")
            return f"the Pareto front has {count} ({command} lists them)"
        first = points[0]
        intervals, alike = self.ranking.certainty(student)
        (score,) = first.scores.values()
        text = f"{self.metric} = {score:.4g} at {_values(first.values)}"
        if intervals[0] is None:
            equal = [_values(p.values) for p in points[1:] if p.scores == first.scores]
            text += "".join(f"; the same value at {values}" for values in equal[:SHOWN])
            if len(equal) > SHOWN - 1:
                text += f"; {command} -n 20 shows whether more points have this value"
            if self.ranking.lacks_repeats:
                least = LEAST_FOR_MEDIAN_INTERVAL
                return f"{text}; an interval of the median needs at least {least} repeats"
            if self.is_exact:
                alone = "" if equal else ", and no other point is as good"
                return f"{text}; {self.metric} is EXACT: its values have no noise{alone}"
            if first.used > 1:
                return f"{text}; the repeats do not differ"
            return f"{text}; which points may be as good is not known without repeats (REPEAT)"
        text += f" (95% interval {intervals[0][0]:.4g} to {intervals[0][1]:.4g})"
        others = [point for point, yes in zip(points, alike, strict=False) if yes][1:]
        names = [_values(point.values) for point in others[:SHOWN]]
        hidden = sum(alike) - 1 - len(names)
        names += [f"{hidden:,} more ({command} -n {sum(alike)} lists all)"] * bool(hidden)
        if not names:
            return f"{text}; no other point may be as good"
        return f"{text}; points that may be as good: {' or '.join(names)}"

    def _next(self) -> str:
        if self.proposal.values is None:
            return self.proposal.reason
        return f"{_values(self.proposal.values)}, proposed by the engine {self.proposal.engine}"

    def facts(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        forest = self.forest
        intervals, alike = self.ranking.certainty(student)
        return {
            "study": self.study,
            "objectives": list(self.objectives),
            "points": self.points,
            "usable": self.usable,
            "explained": forest.explained if forest else None,
            "parameters": [
                {
                    "parameter": share.parameter,
                    "first": share.first,
                    "first_interval": list(share.first_interval),
                    "total": share.total,
                    "total_interval": list(share.total_interval),
                    "matters": share.verdict,
                }
                for share in (forest.shares if forest else ())
            ],
            "pairs": [
                {
                    "parameters": list(pair.parameters),
                    "share": pair.share,
                    "interval": list(pair.interval),
                }
                for pair in (forest.pairs if forest else ())
            ],
            "best": [
                {
                    "parameters": dict(point.values),
                    "scores": dict(point.scores),
                    "interval": intervals[at],
                    "as_good": alike[at] if alike else None,
                }
                for at, point in enumerate(self.ranking.points)
            ],
            "as_good": sum(alike) if alike else None,
            "next": None if self.proposal.values is None else dict(self.proposal.values),
            "engine": self.proposal.engine,
            "notes": [note for note in (self.reason, self.proposal.reason) if note],
        }


def explain(
    repository: Repository,
    study: str,
    objective: str = "",
    *,
    where: str | Passage | None = None,
    outside: bool = False,
    rows: RowChoice = NEWEST,
) -> Explanation:
    """Return what *study* taught about its objective, or another *objective*.

    With *where*, only experiments that meet this condition count.
    InputError where it has no objective, or no results.
    """
    study = resolve_name(repository, study)
    frame = search_points(
        repository, (study,), where=where, objective=objective, outside=outside, rows=rows,
        most=MOST_POINTS,
    )  # fmt: skip
    if not frame.attrs.get("goals"):
        hint = "name one: --objective 'MINIMIZE wtime'"
        raise InputError(f"study {study} has no objective to explain", hint=hint)
    objectives = [o.with_direction() for o in objectives_of(ChartQuery(kind="dependence"), frame)]
    # What is to be tried next must not be known, whether it meets the condition or not.
    known = (
        frame
        if where is None
        else search_points(
            repository, (study,), objective=objective, outside=outside, rows=rows, most=MOST_POINTS
        )
    )
    definition = repository.definition(study)
    space = present_space(repository, study) or _function_space(definition.notes)
    frame.attrs["derived"] = known.attrs["derived"] = derived_parameters(space)
    without = frozenset() if outside else digests_outside(repository, study)
    only = numbers_where(repository, study, where, rows)
    ranking = best(repository, study, SHOWN + 1, objective, without=without, only=only, rows=rows)
    metric = objectives[0].name
    forest, reason = None, ""
    try:
        forest = forest_shares(frame, metric)
    except InputError as error:
        reason = error.diagnostics[0].message
    return Explanation(
        study,
        tuple(f"{o.direction} {o.name}" for o in objectives),
        len(frame),
        int(np.isfinite(real_column(frame, metric)).sum()),  # type: ignore[arg-type] # a mapping, too
        forest,
        reason,
        ranking,
        _propose(known, objectives, space, definition.notes.get(SEARCH, {})),
        any(field.exact for field in definition.metrics if field.name == metric),
    )


def explanation_chart(repository: Repository, explanation: Explanation, **options: Any) -> Chart:
    """Return the partial dependence on the parameters that matter, or on all if none is known to.

    *options* are fields of a `ChartQuery`. InputError where there is nothing to draw.
    """
    if explanation.forest is None:
        raise InputError(f"nothing to draw: {explanation.reason}", hint="run more points")
    axes = tuple(share.parameter for share in explanation.with_verdict("yes"))
    query = ChartQuery.of(studies=explanation.study, kind="dependence", axes=axes, **options)
    return draw_chart(repository, query).chart


def _function_space(notes: Mapping[str, Any]) -> Space | None:
    """Return the space of the last run of a study of a Python function."""
    record = notes.get(SPACE)
    try:
        return None if record is None else space_from_json(record)
    except (InputError, LookupError, TypeError, ValueError):  # written by somebody else
        return None


def _propose(
    frame: pd.DataFrame,
    objectives: Sequence[ChartObjective],
    space: Space | None,
    search: Mapping[str, Any],
) -> Proposal:
    """Return what the engine of the study's last *search* would try, or the default engine."""
    engine, settings = str(search.get("engine", "auto")), dict(search.get("settings", {}))
    if space is None:
        return Proposal(engine, None, "not known: the space of the study is not recorded")
    directions = Directions([str(o.direction) for o in objectives])
    problem = SearchProblem(space, directions, int(search.get("seed", 0)))
    try:
        searcher = make(engine, problem, settings)
        if getattr(searcher, "ignores_results", False) or isinstance(searcher, Random):
            engine, searcher = "auto", make("auto", problem)
        loop = SearchLoop(searcher, directions, known=_known_points(frame, objectives, space))
        trials = loop.ask(1)
    except InputError as error:
        why = error.diagnostics[0].message
        return Proposal(engine, None, f"engine {engine} proposes nothing: {why}")
    if not trials:
        return Proposal(engine, None, "all points of the space were run")
    return Proposal(engine, dict(trials[0].point))


def _known_points(
    frame: pd.DataFrame, objectives: Iterable[ChartObjective], space: Space
) -> dict[Point, tuple[float | None, ...]]:
    """Return the scores of the points of *frame* that *space* contains."""
    names = [p.name for p in space.dimensions if p.name in frame]
    columns = [frame[name].astype(object).tolist() for name in names]
    scores = zip(*(frame[o.name].tolist() for o in objectives), strict=True)
    known: dict[Point, tuple[float | None, ...]] = {}
    for *values, score in zip(*columns, scores, strict=True):
        pairs = zip(names, values, strict=True)
        present = {name: value for name, value in pairs if not is_missing(value)}
        try:
            point = space.find(present)
        except (SpaceError, InputError):  # of an earlier version of the space
            continue
        known[point] = () if any(map(is_missing, score)) else tuple(map(float, score))
    return known


def _percent(share: float, low: float, high: float) -> str:
    return f"{share:.0%} of the variance ({low:.0%} to {high:.0%})"


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={_text(value)}" for name, value in values.items() if value is not None
    )


def _text(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else text_of(value)
