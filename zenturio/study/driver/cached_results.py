"""Which results count as cached, with which programs, and what is said of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

import numpy as np

from zenturio.annotate.commands import undeclared_programs
from zenturio.annotate.model import MEASURED, Application, Goal, Metric
from zenturio.experiment import MachineKind, Outcome
from zenturio.experiment.used_inputs import file_digest
from zenturio.record import Repository

Array = np.ndarray[Any, Any]

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


@dataclass(frozen=True)
class CachedTally:
    """What is counted of cached results whose experiments are not made."""

    count: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """By cause."""
    outdated: Counter[str] = field(default_factory=Counter)
    """By executable that has changed since."""
    has_succeeded: bool = False


PROGRAMS = "programs"
"""The note of a study that holds them."""
_KEPT = 100
"""Changes of one executable that are remembered."""


@dataclass
class ProgramHistory:
    """The content of each executable from a time on, as the drivers of a study saw it."""

    _paths: Mapping[str, str] = field(default_factory=dict)
    _changes: Mapping[str, list[tuple[float, str]]] = field(default_factory=dict)

    @staticmethod
    def of(application: Application, notes: Mapping[str, Any]) -> ProgramHistory:
        """What *notes* hold of the executables that *application* starts, and what they are now."""
        before = notes.get(PROGRAMS, {})
        paths, changes = {}, {}
        for word, path in undeclared_programs(application).items():
            try:
                digest = file_digest(path)
            except OSError:  # executable, but not readable
                continue
            known = [(float(t), str(d)) for t, d in before.get(word, {}).get("changes", ())]
            if not known or known[-1][1] != digest:
                known.append((time(), digest))
            paths[word], changes[word] = str(path), known[-_KEPT:]
        return ProgramHistory(paths, changes)

    def notes(self) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return {
            word: {"path": path, "changes": self._changes[word]}
            for word, path in self._paths.items()
        }

    def count_changed(self, started: Array) -> Counter[str]:
        """Count by executable the outcomes of which `changed_since` would name it."""
        counts = Counter[str]()
        for word, changes in self._changes.items():
            times, digests = zip(*changes, strict=True)
            at = np.searchsorted(times, started, "right") - 1
            differs = np.array([*(digest != digests[-1] for digest in digests), False])
            counts[word] = int(differs[at].sum())  # -1 is before the first one: nothing is known
        return +counts

    def changed_since(self, outcome: Outcome) -> Iterable[str]:
        """The executables that are not what they were when *outcome* was made, if that is known."""
        for word, changes in self._changes.items():
            before = [digest for since, digest in changes if since <= outcome.started]
            if before and before[-1] != changes[-1][1]:
                yield word


def changed_program_notes(counts: Counter[str]) -> list[str]:
    """Of how many cached results it is to be said that an executable has changed since."""
    return [
        f"{word} has changed since {count:,} cached {'results were' if count > 1 else 'result was'}"
        f' made: ZEN$ USE PROGRAM "{word}" makes it part of the experiments, and runs them again'
        for word, count in counts.items()
    ]
