"""Whether results of one kind of machine stand for those of another."""

from __future__ import annotations

from collections.abc import Mapping

from zenturio.annotate.model import MEASURED, Application, Goal, Metric

_VARYING = MEASURED.keys() - {"exit"}
"""What each machine measures anew, whatever the program is."""


def is_exact(application: Application, goals: tuple[Goal, ...]) -> bool:
    """Whether all that a study measures has the same value on every machine.

    Each METRIC is declared EXACT or computed from such ones, and neither a formula nor one of
    *goals* asks for times or memory. A study without a METRIC is one of times.
    """
    metrics = {metric.name: metric for metric in application.metrics}
    return (
        bool(metrics)
        and all(_metric_is_exact(metric, metrics) for metric in application.metrics)
        and not any(goal.expression.names & _VARYING for goal in goals)
    )


def _metric_is_exact(metric: Metric, metrics: Mapping[str, Metric]) -> bool:
    if metric.formula is None:
        return metric.exact
    names = metric.formula.names
    used = [metrics[name] for name in names if name in metrics]
    return not names & _VARYING and (
        metric.exact or all(_metric_is_exact(other, metrics) for other in used)
    )
