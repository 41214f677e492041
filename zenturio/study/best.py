"""The best points of a study, by what it was to be good for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zenturio.annotate import Goal
from zenturio.annotate.goals import goals_of
from zenturio.errors import InputError
from zenturio.expression import Value, parse
from zenturio.record import SEED, Repository
from zenturio.search import Goals
from zenturio.study.goal import score


@dataclass(frozen=True, slots=True)
class Scored:
    """A point with its score for each goal, the mean of its runs."""

    values: Mapping[str, Value]
    scores: Mapping[str, float]
    runs: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best points, and of how many they are."""

    points: tuple[Scored, ...]
    of: int
    words: str


@dataclass
class _Runs:
    values: Mapping[str, Value]
    scores: list[tuple[float | None, ...]] = field(default_factory=list)


def best(repository: Repository, study: str, count: int, objective: str = "") -> Ranking:
    """The *count* best points of *study*; of several goals all that no other point is better than.

    A point none of whose runs has a number for each goal is never among them.
    """
    goals = _goals(repository, study, objective)
    runs: dict[tuple[Value, ...], _Runs] = {}
    fields = repository.definition(study).parameters
    names = [field.name for field in fields if field.kind != SEED]  # it differs run by run
    for record in repository.records(study, states=("ok",)):
        if record.outcome is None:
            continue
        key = tuple(record.values.get(name) for name in names)
        found = runs.setdefault(key, _Runs(dict(zip(names, key, strict=True))))
        values, outcome = record.values, record.outcome
        found.scores.append(tuple(score(goal.expression, values, outcome) for goal in goals))
    scored = [each for each in (_scored(found, goals) for found in runs.values()) if each]
    wanted = Goals([goal.direction for goal in goals])
    words = ", ".join(f"{goal.direction} {goal.expression.text}" for goal in goals)
    ranked = _ranked(scored, wanted)
    chosen = ranked[:count] if len(goals) == 1 else _front(ranked, wanted)
    return Ranking(tuple(chosen), len(runs), words)


def _goals(repository: Repository, study: str, objective: str) -> tuple[Goal, ...]:
    definition = repository.definition(study)
    if objective:
        fields = (*definition.parameters, *definition.metrics)
        return goals_of(objective, [field.name for field in fields])
    texts = [(goal["direction"], goal["expression"]) for goal in definition.goals]
    if not texts:
        raise InputError(
            f"study {study} has no objective", cure="say one: --objective 'MINIMIZE wtime'"
        )
    directions = Goals([direction for direction, _ in texts]).directions
    expressions = (parse(text) for _, text in texts)
    return tuple(Goal(d, e) for d, e in zip(directions, expressions, strict=True))


def _scored(runs: _Runs, goals: Sequence[Goal]) -> Scored | None:
    columns = list(zip(*runs.scores, strict=True))
    means: dict[str, float] = {}
    for goal, column in zip(goals, columns, strict=True):
        known = [value for value in column if value is not None]
        if not known:
            return None
        means[goal.expression.text] = math.fsum(known) / len(known)
    return Scored(runs.values, means, len(runs.scores))


def _ranked(scored: Sequence[Scored], goals: Goals) -> list[Scored]:
    return sorted(scored, key=lambda each: goals.losses(tuple(each.scores.values())))


def _front(ranked: Sequence[Scored], goals: Goals) -> list[Scored]:
    """Those that no other is at least as good as in every respect."""
    front: list[Scored] = []
    losses = [goals.losses(tuple(each.scores.values())) for each in ranked]
    for at, each in enumerate(ranked):
        others = (o for i, o in enumerate(losses) if i != at and o != losses[at])
        if not any(all(a <= b for a, b in zip(o, losses[at], strict=True)) for o in others):
            front.append(each)
    return front
