"""What is wanted of a study, seen while it runs: the last value of the objective, and the best."""

from __future__ import annotations

import math
from collections.abc import Mapping

from zenturio.annotate.model import Goal
from zenturio.errors import ExpressionError
from zenturio.experiment import MetricValue, Missing, Outcome, Series
from zenturio.expression import Expression, Value
from zenturio.study.driver.progress import BestPoint


class BestScore:
    """The best value of the first goal so far; a value that is no number is never the best."""

    def __init__(self, goals: tuple[Goal, ...]) -> None:
        self._goal = goals[0] if goals else None
        self.name = self._goal.expression.text if self._goal else ""
        self.last: Value = None
        self.found: BestPoint | None = None
        self._value: float | None = None

    def see(self, values: Mapping[str, Value], outcome: Outcome) -> None:
        """Learn of one more experiment that succeeded."""
        if self._goal is None:
            return
        value = score(self._goal.expression, values, outcome)
        if value is None:
            return
        self.last = value
        sign = 1 if self._goal.direction == "maximize" else -1
        if self._value is None or sign * value > sign * self._value:
            self._value = value
            self.found = BestPoint(self.name, value, dict(values))


def score(expression: Expression, values: Mapping[str, Value], outcome: Outcome) -> float | None:
    """The value of an objective, or none where it has none that can be compared."""
    try:
        value = expression.value({**values, **scalars(outcome.metrics)})
    except ExpressionError:
        return None
    if isinstance(value, str) or value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def scalars(metrics: Mapping[str, MetricValue]) -> dict[str, Value]:
    """Metrics as values of expressions: what is missing, or a series, is NULL."""
    return {
        name: None if isinstance(measured, Missing | Series) else measured
        for name, measured in metrics.items()
    }
