"""The best points of a study, by what it was to be good for."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import cast

from zenturio.annotate.model import Goal
from zenturio.annotate.scan import goals_of
from zenturio.errors import InputError
from zenturio.experiment.aggregates import STOPPED, RepeatNoise, RepeatRule, mean, noise_of
from zenturio.experiment.experiment import UNKNOWN_KIND, MachineKind, machine_notes
from zenturio.expression import Expression, Value, parse
from zenturio.record import SEED_KIND, ExperimentState, Repository
from zenturio.record.entities import (
    NEWEST,
    ColumnPage,
    ColumnRequest,
    RowChoice,
    machine_named,
    round_notes,
)
from zenturio.search import Directions
from zenturio.search.objective import Losses
from zenturio.study.driver.progress import ExpectedPoint, scalars, score_of_values
from zenturio.study.last_options import SEARCH


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A point with one score for each goal, made of the repeats that have a number for all."""

    values: Mapping[str, Value]
    scores: Mapping[str, float]
    used: int
    """Repeats that the scores are the mean of."""
    ok: int
    """Repeats that succeeded."""
    tried: int
    """Repeats that ran to an end, whatever it was."""
    machine: MachineKind | None = None
    """The kind of machine that measured all of these; none where nobody knows it."""
    round: int | None = None
    """The round that measured them, where rounds are told apart."""
    stopped: str = ""
    """Why it has no more repeats, where their number depends on the goal."""


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
    leaders: tuple[tuple[float, int], ...] = ()
    """Score and used repeats of the best points of all, the best first; with noise only."""
    expected: ExpectedPoint | None = None
    """The point that is expected to be the best; of a search without repeats only."""

    def certainty(
        self, student: Callable[[float, float], float]
    ) -> tuple[list[tuple[float, float] | None], list[bool]]:
        """Return the 95% interval of each point, and which of the leaders may be the best.

        All intervals hold at once, with a chance of error divided by the number of points
        (Bonferroni): the best of many scores is a lucky one. *student* returns a quantile of
        Student's distribution.
        """
        if self.noise is None:
            return [None] * len(self.points), []
        noise, leaders = self.noise, self.leaders
        quantile = student(1 - 0.05 / (2 * max(self.of, 1)), noise.freedom)
        shown = [
            noise.interval(score, used, quantile) for score, used in leaders[: len(self.points)]
        ]
        alike = [not noise.tells_apart(leaders[0], leader, quantile) for leader in leaders]
        return [*shown], alike

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the points before believing their order."""
        notes = [*machine_notes(self.machines), *round_notes(self.rounds)]
        for rank, point in enumerate(self.points, 1):
            if point.used < point.tried:
                failed = point.tried - point.ok
                causes = [f"{failed} did not succeed"] if failed else []
                without = point.ok - point.used
                causes += [f"{without} have no number for the goal"] if without else []
                notes.append(
                    f"row {rank} counts {point.used} of {point.tried} repeats:"
                    f" {' and '.join(causes)}"
                )
        return tuple(notes)


@dataclass(slots=True)
class _PointRepeats:
    point: tuple[Value, ...]
    machine: MachineKind | None
    round: int | None
    tried: int = 0
    ok: int = 0
    scores: array[float] = field(default_factory=lambda: array("d"))
    """Of each repeat that has a number for all goals, these numbers one behind the other."""

    def reduced(self, goals: int, reduce: Reduce) -> tuple[float, ...]:
        """Return one number for each of so many *goals*; nothing where one of them has none."""
        numbers = [reduce(self.scores[goal::goals].tolist()) for goal in range(goals)]
        return tuple([number for number in numbers if number is not None]) * (None not in numbers)


Reduce = Callable[[Sequence[float]], float | None]
"""Makes one number of those of a point's repeats, such as their mean."""
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
    rows: RowChoice = NEWEST,
    reduce: Reduce = mean,
) -> PointRanking:
    """The *count* best points of *study*; of several goals all that no other point is better than.

    A point's score is the mean of its repeats, or what *reduce* makes of them.

    Results of several kinds of machine are not averaged: a point has a score for each kind, and
    for each round if *rows* are of all rounds. A point none of whose repeats has a number for each
    goal is never among them. Experiments with a digest in *without* are left out. Points of equal
    score stand in the order of the space.
    """
    goals = _goals(repository, study, objective)
    fields = repository.definition(study).parameters
    names = [field.name for field in fields if field.kind != SEED_KIND]  # it differs run by run
    needed = frozenset[str]().union(*(goal.expression.names for goal in goals))
    request = ColumnRequest(names + sorted(needed), needed, TRIED, rows.round, without)
    rule = RepeatRule.of(repository.definition(study).notes, goals[0].expression.text)
    is_plain = rule is None and reduce is mean
    if len(goals) == 1 and rows == NEWEST and not without and is_plain:
        ranking = _best_in_copy(repository, study, count, names, goals[0])
        if ranking is not None:
            return ranking
    points = _MeasuredPoints(names, goals, apart=rows.round == "all")
    for page in repository.column_pages(study, request):
        points.add(page)
    machines = points.machines
    measured = points.ordered
    if rows.machine:
        only = machine_named(rows.machine, machines)
        machines = {only: machines[only]}
        measured = [r for r in measured if _label(r.machine) == only]
    directions = Directions([goal.direction for goal in goals])
    reduced = ((repeats.reduced(len(goals), reduce), repeats) for repeats in measured)
    scored = [(directions.losses(numbers), repeats) for numbers, repeats in reduced if numbers]
    noise: RepeatNoise | None = None
    leaders: tuple[tuple[float, int], ...] = ()
    if len(goals) == 1:
        if reduce is mean:
            noise = noise_of([repeats.scores for _, repeats in scored])
        most = max(count, MOST_LEADERS if noise else 0)
        ranked = heapq.nsmallest(most, scored, key=itemgetter(0))  # stable, as sorting is
        if noise:
            leaders = tuple(
                (repeats.reduced(1, reduce)[0], len(repeats.scores)) for _, repeats in ranked
            )
        chosen = ranked[:count]
    else:
        chosen = _front(sorted(scored, key=itemgetter(0)))
    return PointRanking(
        tuple(_scored_point(names, goals, repeats, rule, reduce) for _, repeats in chosen),
        len({repeats.point for repeats in measured}) if points.has_several else len(measured),
        ", ".join(f"{goal.direction} {goal.expression.text}" for goal in goals),
        len(without),
        {label: counts.total() for label, counts in machines.items()},
        dict(sum(machines.values(), Counter[int]())),
        noise,
        leaders,
        _expected(repository, study, goals, names, scored) if reduce is mean else None,
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
    if any(len(repeats.scores) > 1 for _, repeats in scored):
        return None
    # Most studies are not searched, and do not load the engines.
    from zenturio.study.driver.search_source import expected_point  # noqa: PLC0415 - see above

    return expected_point(
        goals[0],
        [(dict(zip(names, r.point, strict=True)), r.scores[0]) for _, r in scored],
    )


def _best_in_copy(
    repository: Repository,
    study: str,
    count: int,
    names: Sequence[str],
    goal: Goal,
) -> PointRanking | None:
    """The same out of the columnar copy of a large study; None where that cannot tell.

    It can where the goal is a metric, and all results are of one round and kind of machine. Means
    of floats in the order of the rows tell which points may be among the best; of these alone the
    exact means are computed.
    """
    metric = goal.expression.text
    counts = repository.count_results(study)
    origins = {(result.machine, result.round) for result in counts}
    if goal.expression.names != {metric} or len(origins) != 1:
        return None
    ((machine, round_),) = origins
    copied = repository.column_copy(study)
    if copied is None:
        return None
    from zenturio.record import column_groups  # noqa: PLC0415 - loads NumPy

    sign = Directions([goal.direction]).losses([1.0])[0]
    ranked = column_groups.best_points(
        copied, [f"parameter:{name}" for name in names], f"metric:{metric}", count, sign, TRIED
    )
    if ranked is None:
        return None
    return PointRanking(
        tuple(
            ScoredPoint(dict(zip(names, p.values, strict=True)), {metric: p.mean}, p.used, p.ok,
                        p.tried, machine)
            for p in ranked.points
        ),
        ranked.of,
        f"{goal.direction} {metric}",
        0,
        {_label(machine): ranked.tried},
        {round_: ranked.tried},
    )  # fmt: skip


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
        for point, number, round_, state, score in zip(
            points, page.machines, page.rounds, page.states, scores, strict=True
        ):
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
        fields = (*definition.parameters, *definition.metrics)
        return goals_of(objective, [field.name for field in fields])
    texts = [(goal["direction"], goal["expression"]) for goal in definition.goals]
    if not texts:
        raise InputError(
            f"study {study} has no objective", hint="say one: --objective 'MINIMIZE wtime'"
        )
    directions = Directions([direction for direction, _ in texts]).names
    expressions = (parse(text) for _, text in texts)
    return tuple(Goal(d, e) for d, e in zip(directions, expressions, strict=True))


def _scored_point(
    names: Sequence[str],
    goals: Sequence[Goal],
    repeats: _PointRepeats,
    rule: RepeatRule | None,
    reduce: Reduce,
) -> ScoredPoint:
    numbers = repeats.reduced(len(goals), reduce)
    return ScoredPoint(
        dict(zip(names, repeats.point, strict=True)),
        dict(zip((goal.expression.text for goal in goals), numbers, strict=True)),
        len(repeats.scores) // len(goals),
        repeats.ok,
        repeats.tried,
        repeats.machine,
        repeats.round,
        STOPPED[rule.stop(repeats.scores[:: len(goals)], repeats.tried)] if rule else "",
    )


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
