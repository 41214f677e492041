"""The best points of a study, by what it was to be good for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from zenturio.annotate.model import Goal
from zenturio.annotate.scan import goals_of
from zenturio.errors import InputError
from zenturio.experiment.aggregates import mean
from zenturio.experiment.experiment import MachineKind, machine_notes
from zenturio.expression import Value, parse
from zenturio.record import SEED_KIND, ExperimentState, Repository
from zenturio.record.row_filter import NEWEST, RowChoice, label_of, machine_named, round_notes
from zenturio.search import Directions
from zenturio.study.driver.progress import score


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """A point with its score for each goal, the mean of the repeats that have a number for all."""

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


@dataclass
class _Repeats:
    values: Mapping[str, Value]
    machine: MachineKind | None
    round: int | None
    tried: int = 0
    scores: list[tuple[float | None, ...]] = field(default_factory=list)
    """For each repeat that succeeded, its score for each goal."""


TRIED: tuple[ExperimentState, ...] = ("ok", "failed", "timeout")


def best(
    repository: Repository,
    study: str,
    count: int,
    objective: str = "",
    *,
    without: Collection[str] = (),
    rows: RowChoice = NEWEST,
) -> PointRanking:
    """The *count* best points of *study*; of several goals all that no other point is better than.

    Results of several kinds of machine are not averaged: a point has a score for each kind, and
    for each round if *rows* are of all rounds. A point none of whose repeats has a number for each
    goal is never among them. Experiments with a digest in *without* are left out. Points of equal
    score stand in the order of the space.
    """
    goals = _goals(repository, study, objective)
    points: dict[tuple[tuple[Value, ...], str, int | None], _Repeats] = {}
    machines: dict[str, Counter[int]] = {}
    fields = repository.definition(study).parameters
    names = [field.name for field in fields if field.kind != SEED_KIND]  # it differs run by run
    for record in repository.records(study, states=TRIED):
        if record.outcome is None or record.digest in without or not rows.holds(record):
            continue
        key = tuple(record.values.get(name) for name in names)
        label = label_of(record)
        machines.setdefault(label, Counter())[record.round] += 1
        apart = record.round if rows.round == "all" else None
        fresh = _Repeats(dict(zip(names, key, strict=True)), record.outcome.machine, apart)
        repeats = points.setdefault((key, label, apart), fresh)
        repeats.tried += 1
        if record.state == "ok":
            values, outcome = record.values, record.outcome
            scores = tuple(score(goal.expression, values, outcome) for goal in goals)
            repeats.scores.append(scores)
    if rows.machine:
        only = machine_named(rows.machine, machines)
        machines = {only: machines[only]}
        points = {key: repeats for key, repeats in points.items() if key[1] == only}
    scored = [point for point in (_scored(repeats, goals) for repeats in points.values()) if point]
    directions = Directions([goal.direction for goal in goals])
    words = ", ".join(f"{goal.direction} {goal.expression.text}" for goal in goals)
    ranked = _ranked(scored, directions)
    chosen = ranked[:count] if len(goals) == 1 else _front(ranked, directions)
    return PointRanking(
        tuple(chosen),
        len({key for key, *_ in points}),
        words,
        len(without),
        {label: counts.total() for label, counts in machines.items()},
        dict(sum(machines.values(), Counter[int]())),
    )


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


def _scored(repeats: _Repeats, goals: Sequence[Goal]) -> ScoredPoint | None:
    used = [scores for scores in repeats.scores if None not in scores]
    means: dict[str, float] = {}
    for goal, column in zip(goals, zip(*used, strict=True), strict=False):
        score = mean([value for value in column if value is not None])
        if score is not None:
            means[goal.expression.text] = score
    if not means:
        return None
    counts = (len(used), len(repeats.scores), repeats.tried)
    return ScoredPoint(repeats.values, means, *counts, repeats.machine, repeats.round)


def _ranked(scored: Sequence[ScoredPoint], goals: Directions) -> list[ScoredPoint]:
    return sorted(scored, key=lambda point: goals.losses(tuple(point.scores.values())))


def _front(ranked: Sequence[ScoredPoint], goals: Directions) -> list[ScoredPoint]:
    """Return those that no other is at least as good as in every respect."""
    front: list[ScoredPoint] = []
    losses = [goals.losses(tuple(point.scores.values())) for point in ranked]
    for at, point in enumerate(ranked):
        others = (o for i, o in enumerate(losses) if i != at and o != losses[at])
        if not any(all(a <= b for a, b in zip(o, losses[at], strict=True)) for o in others):
            front.append(point)
    return front
