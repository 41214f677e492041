"""Objectives that are given on the command line, in the syntax of OBJECTIVE."""

from __future__ import annotations

from collections.abc import Iterable

from zenturio.annotate.grammar import read
from zenturio.annotate.model import MEASURED, Application, Goal
from zenturio.annotate.statements import ObjectiveStatement
from zenturio.errors import Passage

_KEYWORD = "OBJECTIVE "


def read_goals(
    text: str, application: Application, origin: str = "--objective"
) -> tuple[Goal, ...]:
    """The goals that ``MINIMIZE expr, MAXIMIZE expr`` says of *application*."""
    metrics = [metric.name for metric in application.metrics]
    parameters = [parameter.name for parameter in application.space.parameters]
    return goals_of(text, [*MEASURED, *metrics, *parameters], origin)


def goals_of(text: str, names: Iterable[str], origin: str = "--objective") -> tuple[Goal, ...]:
    """The goals that ``MINIMIZE expr, MAXIMIZE expr`` says of what has these *names*."""
    aim = read(Passage.of(_KEYWORD + text, origin))
    assert isinstance(aim, ObjectiveStatement), "an OBJECTIVE is an aim"
    known = dict.fromkeys(names)
    for goal in aim.goals:
        goal.expression.check(known)
    return aim.goals
