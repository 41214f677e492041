"""Which results count as cached, and what is said of those that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from zenturio.annotate.model import MEASURED, Application, Goal, Metric
from zenturio.experiment import MachineKind
from zenturio.record import Repository

_VARYING = MEASURED.keys() - {"exit"}
"""What each machine measures anew, whatever the program is."""


def is_exact(application: Application, goals: tuple[Goal, ...]) -> bool:
    """Return whether all that a study measures has the same value on every machine.

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


def machines_with_results(repository: Repository, digests: Sequence[str]) -> Counter[MachineKind]:
    """Count the results of these experiments by the kind of machine, where it is known."""
    outcomes = repository.find_outcomes(digests).values() if digests else ()
    return Counter(outcome.machine for outcome in outcomes if outcome.machine is not None)


def other_machine_notes(kinds: Counter[MachineKind]) -> tuple[str, ...]:
    """Say which kinds of machine have results that are not used; nothing if there are none."""
    if not kinds:
        return ()
    names = "; ".join(f"{kind.label} ({count:,})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    verb = "have results" if count > 1 else "has a result"
    return (f"{count:,} {verb} of another kind of machine: {names}; --machine any uses them",)


def round_begins(number: int) -> str:
    """Say that a new round is going to be measured."""
    return f"round {number} begins: what has results is measured again, beside them"


def round_goes_on(number: int) -> str:
    """Say that a round is measured further which somebody has begun."""
    return f"round {number} goes on: what it has results of already is not run again"
