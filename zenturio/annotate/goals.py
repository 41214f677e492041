"""Goals that are given beside the files, as an OBJECTIVE says them."""

from __future__ import annotations

from zenturio.annotate.grammar import read
from zenturio.annotate.model import MEASURED, Application, Goal
from zenturio.annotate.statements import Aim
from zenturio.errors import Passage

_KEYWORD = "OBJECTIVE "


def read_goals(
    text: str, application: Application, origin: str = "--objective"
) -> tuple[Goal, ...]:
    """The goals that ``MINIMIZE expr, MAXIMIZE expr`` says of *application*."""
    aim = read(Passage.of(_KEYWORD + text, origin))
    assert isinstance(aim, Aim), "an OBJECTIVE is an aim"
    known = dict.fromkeys(MEASURED) | {metric.name: None for metric in application.metrics}
    known |= {parameter.name: None for parameter in application.space.parameters}
    for goal in aim.goals:
        goal.expression.check(known)
    return aim.goals
