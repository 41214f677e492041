"""The rules of acceptance that every repository shares: which outcome counts, and for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from zenturio.experiment.experiment import (
    SUCCEEDED,
    Kinds,
    MachineKind,
    MetricValue,
    Missing,
    Outcome,
    Series,
)
from zenturio.record.entities import AttemptState

MOST_METRICS = 10_000
"""Metrics of a run that are kept at the most; the rest is counted."""
NOT_KEPT = "metrics_not_kept"
"""The metric that says how many were too many."""
MOST_VALUES = 1_000_000
"""Values of a series that are kept at the most; a longer one is missing, and says why."""


def replaces_attempt(past: AttemptState | None) -> bool:
    """Return whether a late outcome replaces its attempt, whose state is *past* (None: not stored).

    A stale attempt has no outcome yet. Any other one was recorded: this is the same call, made
    again by a driver that did not hear the answer.
    """
    return past is None or past == "stale"


Rank = tuple[bool, int, int]


def result_rank(status: str, attempt: int, number: int) -> Rank:
    """Return the sort key of the results of an experiment: the first one is given to others.

    The oldest that is ok; if none is, the last attempt: who sets that one aside has refused all.
    """
    return (False, 0, number) if status in SUCCEEDED else (True, -attempt, number)


def machine_counts(machine: MachineKind | None, kinds: Kinds) -> bool:
    """Return whether a result of *machine* stands for one of *kinds*; of any, if that is none."""
    return kinds is None or machine is None or machine in kinds


def is_of(machine: MachineKind | None, kinds: Kinds) -> bool:
    """Return whether a result is known to be of one of *kinds*."""
    return kinds is not None and machine in kinds


def match_remeasured(again: Sequence[Outcome], recorded: Sequence[Outcome]) -> dict[int, Outcome]:
    """Return what replaces which of the *recorded*, by their places in the sequence.

    Where an experiment has results of several kinds of machine, the attempt says which is meant.
    """
    # Mostly an experiment has one result, and then the attempt need not agree.
    newest = {outcome.digest: outcome for outcome in again}
    exact = {(outcome.digest, outcome.attempt): outcome for outcome in again}
    count = Counter(outcome.digest for outcome in recorded)
    replacements: dict[int, Outcome] = {}
    for at, outcome in enumerate(recorded):
        digest = outcome.digest
        replacement = (
            newest.get(digest) if count[digest] == 1 else exact.get((digest, outcome.attempt))
        )
        if replacement is not None:
            replacements[at] = replacement
    return replacements


def limit_metrics(outcome: Outcome) -> Outcome:
    """Return *outcome* with as many metrics as are kept; one of them says how many were not.

    A series with too many values is missing: a part of it would pass for the whole.
    """
    long = {
        name: Missing(
            f"its {len(value.values):,} values were not kept: {MOST_VALUES:,} are, at the most"
        )
        for name, value in outcome.metrics.items()
        if isinstance(value, Series) and len(value.values) > MOST_VALUES
    }
    if long:
        outcome = replace(outcome, metrics={**outcome.metrics, **long})
    # One of those that are kept is the remark itself.
    dropped = len(outcome.metrics) - MOST_METRICS
    if dropped <= 0:
        return outcome
    metrics = dict(islice(outcome.metrics.items(), MOST_METRICS - 1))
    why = f"{dropped + 1:,} metrics were not kept: {MOST_METRICS:,} of a run are, at the most"
    return replace(outcome, metrics={NOT_KEPT: Missing(why), **metrics})


MetricSources = Mapping[str, str]
"""The metrics of a study, and what measures each, as written."""


def shared_metrics(
    metrics: Mapping[str, MetricValue], source: str, theirs: MetricSources, ours: MetricSources
) -> dict[str, MetricValue]:
    """Return *metrics* as study *source* measured them, as far as we would have measured the same.

    A metric that nobody declared (the program reported it) comes along; one that we measure in
    a way of our own is missing, and says why.
    """
    shared = {
        name: measure
        for name, measure in metrics.items()
        if theirs.get(name, "") == ours.get(name, "")
    }
    for name, way in ours.items():
        if way and name not in shared:
            reason = "measures it in another way" if name in metrics else "did not measure it"
            shared[name] = Missing(f"the experiment was run by study {source!r}, which {reason}")
    return shared
