"""The best points of a study by its objectives."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Any, Literal, NamedTuple, cast

from zenturio import quantities
from zenturio.annotate.model import Goal
from zenturio.annotate.scan import goals_of
from zenturio.errors import InputError
from zenturio.experiment.aggregates import (
    LEAST_FOR_MEDIAN_INTERVAL,
    STOPPED,
    RepeatNoise,
    RepeatRule,
    default_aggregate,
    deviation,
    mean,
    median,
    median_interval,
    noise_of,
)
from zenturio.experiment.experiment import (
    UNKNOWN_KIND,
    MachineKind,
    machine_notes,
)
from zenturio.experiment.number_hints import describe_text
from zenturio.expression import Expression, Value, parse
from zenturio.expression.syntax_tree import Name
from zenturio.record import SEED_KIND, ExperimentState, Repository
from zenturio.record.entities import (
    NEWEST,
    ColumnPage,
    ColumnRequest,
    RowChoice,
    check_round,
    machine_named,
    round_notes,
)
from zenturio.search import Directions
from zenturio.search.objective import Losses
from zenturio.study.driver.progress import ExpectedPoint, scalars, score_of_values
from zenturio.study.last_options import SEARCH
from zenturio.study.recorded_definition import FUNCTION


class RepeatAggregate(NamedTuple):
    """What makes one score of the repeats of a point."""

    name: str
    reduce: Callable[[Sequence[float]], float | None]


MEAN = RepeatAggregate("mean", mean)
MEDIAN = RepeatAggregate("median", median)

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A point with one score for each goal, made of the repeats that have a number for all."""

    values: Mapping[str, Value]
    scores: Mapping[str, float]
    used: int
    """Repeats that the scores are made of."""
    ok: int
    """Repeats that succeeded."""
    tried: int
    """Repeats that ran to an end, whatever it was."""
    machine: MachineKind | None = None
    """The kind of machine that measured all of these; None if unknown."""
    round: int | None = None
    """The round that measured them, where rounds are told apart."""
    stopped: str = ""
    """Why it has no more repeats, where their number depends on the goal."""
    interval: Interval | None = None
    """The 95% interval of the median of the only goal; None of a mean, and of too few repeats."""
    deviations: Mapping[str, float] = field(default_factory=dict)
    """The sample's standard deviation of each goal whose score is the mean of several repeats."""


@dataclass(frozen=True, slots=True)
class NonNumericScores:
    """Results that succeeded and have no score, because a metric of the goal is a text."""

    count: int
    metric: str
    text: str
    """Of the first one."""

    @property
    def note(self) -> str:
        verb = "has" if self.count == 1 else "have"
        return (
            f"{quantities.amount(self.count, 'result')} {verb} no number: {self.metric} is"
            f" {describe_text(self.text)}"
        )


class RankedScore(NamedTuple):
    """The score of a point at the head of a ranking."""

    score: float
    used: int
    interval: Interval | None = None
    """Of a median, with a chance of error divided by the number of points (Bonferroni), or from
    the least to the greatest repeat if these are too few for that; None for fewer than six."""


@dataclass(frozen=True, slots=True)
class PointRanking:
    """The best points, and of how many they are."""

    points: tuple[ScoredPoint, ...]
    of: int
    words: str
    outside: int = 0
    """Experiments that were left out."""
    machines: Mapping[str, int] = field(default_factory=dict)
    """Results by kind of machine."""
    rounds: Mapping[int, int] = field(default_factory=dict)
    """Results by round."""
    noise: RepeatNoise | None = None
    """Of the only goal; None for several goals, for another aggregate than the mean,
    and where no point has repeats that differ."""
    leaders: tuple[RankedScore, ...] = ()
    """The best points of all, the best first; only with noise, or where the best one has an
    interval of its median."""
    aggregates: Mapping[str, str] = field(default_factory=dict)
    """What the score of each goal is of the repeats, such as their median."""
    expected: ExpectedPoint | None = None
    """The point that is expected to be the best; of a search without repeats only."""
    has_repeats: bool = False
    """Whether some point was tried several times."""
    texts: NonNumericScores | None = None
    """Results without a score because a metric is a text."""

    def certainty(
        self, student: Callable[[float, float], float]
    ) -> tuple[list[Interval | None], list[bool]]:
        """Return the 95% interval of each point, and which of the leaders may be the best.

        The interval of a median holds for its point alone: order statistics, see
        `median_interval`. Those of means hold for all points at once, with a chance of error
        divided by the number of points (Bonferroni); *student* returns a quantile of Student's
        distribution. Whether a point may be the best always allows for the number of points: the
        best of many scores is a lucky one.
        """
        leaders = self.leaders
        if self.noise is None:
            best_interval = leaders[0].interval if leaders else None
            alike = [_overlap(best_interval, leader.interval) for leader in leaders]
            return [point.interval for point in self.points], alike
        noise = self.noise
        quantile = student(1 - 0.05 / (2 * max(self.of, 1)), noise.freedom)
        shown = [
            noise.interval(leader.score, leader.used, quantile)
            for leader in leaders[: len(self.points)]
        ]
        alike = [not noise.tells_apart(leaders[0][:2], leader[:2], quantile) for leader in leaders]
        return [*shown], alike

    def facts(self, student: Callable[[float, float], float]) -> list[dict[str, Any]]:
        """Return the points as JSON has them, see `certainty`."""
        intervals, alike = self.certainty(student)
        return [
            {
                "parameters": dict(point.values),
                "scores": dict(point.scores),
                "aggregates": dict(self.aggregates),
                "std": dict(point.deviations),
                "used": point.used,
                "ok": point.ok,
                "tried": point.tried,
                "interval": interval,
                "as_good": alike[at] if alike else None,
                "left_out": self.outside,
                "machine": point.machine.label if point.machine else None,
                "round": point.round,
                **({"expected": asdict(self.expected)} if self.expected else {}),
                **({"stopped": point.stopped} if point.stopped else {}),
            }
            for at, (point, interval) in enumerate(zip(self.points, intervals, strict=True))
        ]

    @property
    def lacks_repeats(self) -> bool:
        """Whether points have repeats, but the best one too few for an interval of the median."""
        return (
            [*self.aggregates.values()] == ["median"]
            and self.has_repeats
            and bool(self.points)
            and self.points[0].used < LEAST_FOR_MEDIAN_INTERVAL
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the points before believing their order."""
        notes = [*machine_notes(self.machines), *round_notes(self.rounds)]
        for rank, point in enumerate(self.points, 1):
            if point.used < point.tried:
                failed = point.tried - point.ok
                causes = [f"{failed} did not succeed"] if failed else []
                without = point.ok - point.used
                verb = "has" if without == 1 else "have"
                causes += [f"{without} {verb} no number for the objective"] if without else []
                notes.append(
                    f"row {rank} counts {point.used} of {point.tried} repeats:"
                    f" {' and '.join(causes)}"
                )
        notes += [self.texts.note] if self.texts else []
        return tuple(notes)


def _overlap(first: Interval | None, second: Interval | None) -> bool:
    """Return whether two intervals have a value in common; what has none may be anywhere."""
    return not first or not second or (first[0] <= second[1] and second[0] <= first[1])


@dataclass(slots=True)
class _PointRepeats:
    point: tuple[Value, ...]
    machine: MachineKind | None
    round: int | None
    tried: int = 0
    ok: int = 0
    scores: array[float] = field(default_factory=lambda: array("d"))
    """Of each repeat that has a number for all goals, these numbers one behind the other."""

    def of_goals(self, goals: int) -> list[list[float]]:
        """Return the scores for each of so many *goals*."""
        return [self.scores[goal::goals].tolist() for goal in range(goals)]

    def reduced(self, aggregates: Sequence[RepeatAggregate]) -> tuple[float, ...]:
        """Return one number for each goal, by its aggregate; nothing where one of them has none.

        Where no repeat has a score there is none, though a sum or a count of nothing is a number.
        """
        if not self.scores:
            return ()
        columns = zip(aggregates, self.of_goals(len(aggregates)), strict=True)
        numbers = [aggregate.reduce(scores) for aggregate, scores in columns]
        return tuple([number for number in numbers if number is not None]) * (None not in numbers)


MOST_LEADERS = 1000
"""Points at the head of a ranking that are compared with the best one."""
TRIED: tuple[ExperimentState, ...] = ("ok", "failed", "wrong", "timeout")


def best(
    repository: Repository,
    study: str,
    count: int,
    objective: str = "",
    *,
    without: Collection[str] = (),
    only: Collection[int] | None = None,
    rows: RowChoice = NEWEST,
    aggregate: RepeatAggregate | None = None,
) -> PointRanking:
    """The *count* best points of *study*; of several goals all that no other point is better than.

    A point's score is what *aggregate* makes of its repeats; if none is named, the median of a
    goal that is a time, and the mean of any other.

    Results of several kinds of machine are not averaged: a point has a score for each kind, and
    for each round if *rows* are of all rounds. A point none of whose repeats has a number for each
    goal is never among them. Experiments with a digest in *without* are left out, and with *only*
    all but these rows. Points of equal score stand in the order of the space.
    """
    goals = _goals(repository, study, objective)
    fields = repository.definition(study).parameters
    names = [field.name for field in fields if field.kind != SEED_KIND]  # it differs run by run
    needed = frozenset[str]().union(*(goal.expression.names for goal in goals))
    request = ColumnRequest(names + sorted(needed), needed, TRIED, rows.round, without, only)
    rule = RepeatRule.of(repository.definition(study).notes, goals[0].expression.text)
    aggregates = [aggregate or _default(repository, study, goal) for goal in goals]
    if len(goals) == 1 and rows == NEWEST and not without and only is None and rule is None:
        ranking = _best_in_copy(repository, study, count, names, goals[0], aggregates[0])
        if ranking is not None:
            return ranking
    if isinstance(rows.round, int):
        check_round(rows.round, {each.round for each in repository.count_results(study)})
    points = _MeasuredPoints(names, goals, apart=rows.round == "all")
    for page in repository.column_pages(study, request):
        points.add(page)
    machines = points.machines
    measured = points.ordered
    if rows.machine:
        kind = machine_named(rows.machine, machines)
        machines = {kind: machines[kind]}
        measured = [r for r in measured if _label(r.machine) == kind]
    directions = Directions([goal.direction for goal in goals])
    reduced = ((repeats.reduced(aggregates), repeats) for repeats in measured)
    scored = [(directions.losses(numbers), repeats) for numbers, repeats in reduced if numbers]
    of = len({repeats.point for repeats in measured}) if points.has_several else len(measured)
    noise: RepeatNoise | None = None
    leaders: tuple[RankedScore, ...] = ()
    if len(goals) == 1:
        if aggregates == [MEAN]:
            noise = noise_of([repeats.scores for _, repeats in scored])
        has_leaders = noise or aggregates == [MEDIAN]
        most = max(count, MOST_LEADERS if has_leaders else 0)
        ranked = heapq.nsmallest(most, scored, key=itemgetter(0))  # stable, as sorting is
        if has_leaders:
            numbers = (repeats.reduced(aggregates)[0] for _, repeats in ranked)
            repeats_of = (repeats.scores for _, repeats in ranked)
            leaders = leaders_of(zip(numbers, repeats_of, strict=True), aggregates[0], of)
        chosen = ranked[:count]
    else:
        chosen = _front(sorted(scored, key=itemgetter(0)))
    best_points = tuple(
        _scored_point(names, goals, aggregates, repeats, rule) for _, repeats in chosen
    )
    return PointRanking(
        best_points,
        of,
        _words(goals, aggregates, best_points),
        len(without),
        {label: counts.total() for label, counts in machines.items()},
        dict(sum(machines.values(), Counter[int]())),
        noise,
        leaders,
        _names_by_goal(goals, aggregates),
        # Mean and median of one repeat are the same.
        _expected(repository, study, goals, names, scored)
        if aggregates in ([MEAN], [MEDIAN])
        else None,
        any(repeats.tried > 1 for repeats in measured),
        points.texts,
    )


def _expected(
    repository: Repository,
    study: str,
    goals: Sequence[Goal],
    names: Sequence[str],
    scored: Sequence[tuple[Losses, _PointRepeats]],
) -> ExpectedPoint | None:
    """Return the point of a search that is expected to be the best.

    None where points have repeats, which tell more, or results on several kinds of machine.
    """
    definition = repository.definition(study)
    measures = {field.name: field.exact for field in definition.metrics}
    is_exact = all(measures.get(name, False) for name in goals[0].expression.names)
    if len(goals) > 1 or SEARCH not in definition.notes or is_exact:
        return None
    if len({repeats.point for _, repeats in scored}) < len(scored):
        return None
    # Most studies are not searched, and do not load the engines.
    from zenturio.study.driver.search_source import (  # noqa: PLC0415 - see above
        CONFIRM,
        confirmed_point,
        expected_point,
    )

    if CONFIRM in definition.notes[SEARCH]:
        return confirmed_point(
            goals[0],
            [
                (dict(zip(names, r.point, strict=True)), r.scores.tolist())
                for _, r in scored
                if len(r.scores) > 1 and r.ok == r.tried
            ],
        )
    if any(len(repeats.scores) > 1 for _, repeats in scored):
        return None
    return expected_point(
        goals[0],
        [(dict(zip(names, r.point, strict=True)), r.scores[0]) for _, r in scored],
    )


def _default(repository: Repository, study: str, goal: Goal) -> RepeatAggregate:
    """Return the aggregate of a goal for which none is named."""
    node = goal.expression.node  # the text may have parentheses or quotes around the name
    name = node.name if isinstance(node, Name) else None
    units = [m.unit for m in repository.definition(study).metrics if m.name == name]
    return {"mean": MEAN, "median": MEDIAN}[default_aggregate("".join(units))]


def _words(
    goals: Sequence[Goal], aggregates: Sequence[RepeatAggregate], points: Sequence[ScoredPoint]
) -> str:
    """Return what the *points* are the best by: ``minimize wtime (median of repeats)``."""
    has_repeats = any(point.used > 1 for point in points)
    return ", ".join(
        f"{goal.direction} {goal.expression.text}"
        + (f" ({aggregate.name} of repeats)" if has_repeats else "")
        for goal, aggregate in zip(goals, aggregates, strict=True)
    )


def _names_by_goal(
    goals: Sequence[Goal], aggregates: Sequence[RepeatAggregate]
) -> Mapping[str, str]:
    return {g.expression.text: a.name for g, a in zip(goals, aggregates, strict=True)}


def leaders_of(
    ranked: Iterable[tuple[float, Sequence[float]]], aggregate: RepeatAggregate, of: int
) -> tuple[RankedScore, ...]:
    """Return leaders of *of* points, of the scores and repeats of the first ones."""
    if aggregate != MEDIAN:
        return tuple(RankedScore(score, len(repeats)) for score, repeats in ranked)
    leaders: list[RankedScore] = []
    for score, repeats in ranked:
        interval: Interval | None = None
        if len(repeats) >= LEAST_FOR_MEDIAN_INTERVAL:
            interval = median_interval(repeats, 1 - 0.05 / of) or (min(repeats), max(repeats))
        elif not leaders:  # nothing can be told from the best point
            break
        leaders.append(RankedScore(score, len(repeats), interval))
    return tuple(leaders)


def _best_in_copy(
    repository: Repository,
    study: str,
    count: int,
    names: Sequence[str],
    goal: Goal,
    aggregate: RepeatAggregate,
) -> PointRanking | None:
    """Return the same out of the columnar copy of a large study; None where that cannot tell.

    It can where the goal is a metric, the aggregate is mean or median, and all results are of one
    round and kind of machine. Means of floats in the order of the rows tell which points may be
    among the best, and counts of scores which medians may be; of these alone the exact means and
    medians are computed.
    """
    metric = goal.expression.text
    counts = repository.count_results(study)
    origins = {(result.machine, result.round) for result in counts}
    if goal.expression.names != {metric} or len(origins) != 1 or aggregate not in (MEAN, MEDIAN):
        return None
    ((machine, round_),) = origins
    copied = repository.columnar_copy(study)
    if copied is None:
        return None
    from zenturio.record import columnar_groups  # noqa: PLC0415 - loads NumPy

    sign = Directions([goal.direction]).losses([1.0])[0]
    kind: Literal["mean", "median"] = "median" if aggregate == MEDIAN else "mean"
    rank = columnar_groups.RankingCriterion(f"metric:{metric}", kind, sign)
    most = max(count, MOST_LEADERS) if aggregate == MEDIAN else count
    ranked = columnar_groups.best_points(
        copied, [f"parameter:{name}" for name in names], rank, most, TRIED
    )
    if ranked is None:
        return None
    leaders: tuple[RankedScore, ...] = ()
    if aggregate == MEDIAN:
        leaders = leaders_of(((p.score, p.used) for p in ranked.points), aggregate, ranked.of)
    points = tuple(
        ScoredPoint(
            dict(zip(names, p.values, strict=True)), {metric: p.score}, len(p.used), p.ok, p.tried,
            machine, None, "", *_certainty([goal], [aggregate], [p.used])
        )
        for p in ranked.points[:count]
    )  # fmt: skip
    return PointRanking(
        points,
        ranked.of,
        _words([goal], [aggregate], points),
        0,
        {_label(machine): ranked.tried},
        {round_: ranked.tried},
        None,
        leaders,
        _names_by_goal([goal], [aggregate]),
        has_repeats=ranked.tried > ranked.of,
    )


class _MeasuredPoints:
    """The repeats of each point, gathered page by page."""

    def __init__(self, names: Sequence[str], goals: Sequence[Goal], *, apart: bool) -> None:
        """*names*: the parameters that make a point. *apart*: tell rounds apart."""
        self._names = names
        self._goals = goals
        self._apart = apart
        self._groups: dict[tuple[str, int | None], dict[tuple[Value, ...], _PointRepeats]] = {}
        self.ordered: list[_PointRepeats] = []
        """In the order of the space."""
        self.machines: dict[str, Counter[int]] = {}
        """Results by kind of machine and round."""
        self.texts: NonNumericScores | None = None

    @property
    def has_several(self) -> bool:
        """Whether a point may have several places: one for each kind of machine and round."""
        return len(self._groups) > 1

    def add(self, page: ColumnPage) -> None:
        """Gather the results of *page*."""
        for (number, round_), count in Counter(
            zip(page.machines, page.rounds, strict=True)
        ).items():
            label = _label(page.kinds.get(number))
            self.machines.setdefault(label, Counter())[round_] += count
        length = len(page.states)
        columns = [page.parameters.get(name, (None,) * length) for name in self._names]
        points = zip(*columns, strict=True) if columns else [()] * length
        scores = zip(*(_scores(goal.expression, page) for goal in self._goals), strict=True)
        origin: tuple[int, int] | None = None
        repeats: _PointRepeats | None = None
        results = zip(points, page.machines, page.rounds, page.states, scores, strict=True)
        for row, (point, number, round_, state, score) in enumerate(results):
            if origin != (number, round_):
                origin, repeats = (number, round_), None
                machine, apart = page.kinds.get(number), round_ if self._apart else None
                group = self._groups.setdefault((_label(machine), apart), {})
            # Repeats of a point mostly follow each other.
            if repeats is None or repeats.point != point:
                repeats = group.get(point)
                if repeats is None:
                    repeats = group[point] = _PointRepeats(point, machine, apart)
                    self.ordered.append(repeats)
            repeats.tried += 1
            if state == "ok":
                repeats.ok += 1
                if None not in score:
                    repeats.scores.extend(score)
                else:
                    self._note_text(page, row)

    def _note_text(self, page: ColumnPage, row: int) -> None:
        """Remember that the score of a result is missing, if a metric of the goals is a text."""
        names = sorted({name for goal in self._goals for name in goal.expression.names})
        values = ((name, page.metrics[name][row]) for name in names if name in page.metrics)
        text = next(((name, value) for name, value in values if isinstance(value, str)), None)
        if text is not None:
            first = self.texts or NonNumericScores(0, *text)
            self.texts = replace(first, count=first.count + 1)


def _label(machine: MachineKind | None) -> str:
    return machine.label if machine else UNKNOWN_KIND


def _scores(expression: Expression, page: ColumnPage) -> Iterable[float | None]:
    """Return the score of each result of *page*."""
    names = sorted(expression.names)
    if names == [expression.text] and names[0] in page.metrics:
        column = page.metrics[names[0]]
        # Most goals are a measured real, as it is.
        if set(map(type, column)) == {float}:
            reals = cast("Sequence[float]", column)
            return [value if math.isfinite(value) else None for value in reals]
    return (score_of_values(expression, values) for values in _values(names, page))


def _values(names: Sequence[str], page: ColumnPage) -> Iterator[dict[str, Value]]:
    """Yield what these *names* stand for in each result: a metric goes before a parameter."""
    columns = [
        (name, page.parameters.get(name), page.metrics.get(name, (None,) * len(page.states)))
        for name in names
    ]
    for row in range(len(page.states)):
        values: dict[str, Value] = {}
        for name, parameter, metric in columns:
            measured = metric[row]
            if measured is not None:
                values |= scalars({name: measured})
            elif parameter is not None:
                values[name] = parameter[row]
        yield values


def _goals(repository: Repository, study: str, objective: str) -> tuple[Goal, ...]:
    definition = repository.definition(study)
    if objective:
        names = [field.name for field in (*definition.parameters, *definition.metrics)]
        if FUNCTION in definition.notes:  # nobody declares what a function returns
            for record in islice(repository.records(study, states=("ok",)), 1):
                names += record.outcome.metrics if record.outcome else ()
        return goals_of(objective, names)
    texts = [(goal["direction"], goal["expression"]) for goal in definition.goals]
    if not texts:
        raise InputError(
            f"study {study} has no objective", hint="name one: --objective 'MINIMIZE wtime'"
        )
    directions = Directions([direction for direction, _ in texts]).names
    expressions = (parse(text) for _, text in texts)
    return tuple(Goal(d, e) for d, e in zip(directions, expressions, strict=True))


def _scored_point(
    names: Sequence[str],
    goals: Sequence[Goal],
    aggregates: Sequence[RepeatAggregate],
    repeats: _PointRepeats,
    rule: RepeatRule | None,
) -> ScoredPoint:
    numbers = repeats.reduced(aggregates)
    scores = repeats.of_goals(len(goals))
    return ScoredPoint(
        dict(zip(names, repeats.point, strict=True)),
        dict(zip((goal.expression.text for goal in goals), numbers, strict=True)),
        len(scores[0]),
        repeats.ok,
        repeats.tried,
        repeats.machine,
        repeats.round,
        STOPPED[rule.stop(scores[0], repeats.tried)] if rule else "",
        *_certainty(goals, aggregates, scores),
    )


def _certainty(
    goals: Sequence[Goal],
    aggregates: Sequence[RepeatAggregate],
    scores: Sequence[Sequence[float]],
) -> tuple[Interval | None, dict[str, float]]:
    """Return the interval of the median of the only goal, and deviations around means."""
    interval = median_interval(scores[0]) if aggregates == [MEDIAN] else None
    spreads = {
        goal.expression.text: deviation(repeats)
        for goal, aggregate, repeats in zip(goals, aggregates, scores, strict=True)
        if aggregate == MEAN
    }
    return interval, {name: spread for name, spread in spreads.items() if spread is not None}


def _front(ranked: Iterable[tuple[Losses, _PointRepeats]]) -> list[tuple[Losses, _PointRepeats]]:
    """Return those that no other is at least as good as in every respect.

    In *ranked*, sorted, what is better than a point stands before it, and is in the front itself
    or behind one that is: so only the front is compared.
    """
    front: list[tuple[Losses, _PointRepeats]] = []
    for losses, repeats in ranked:
        others = (other for other, _ in front if other != losses)
        if not any(all(a <= b for a, b in zip(o, losses, strict=True)) for o in others):
            front.append((losses, repeats))
    return front
