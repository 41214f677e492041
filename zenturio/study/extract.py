"""Measure again what ran already, from the output that was kept; nothing is run."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self, cast

from zenturio.annotate.model import MEASURED, Metric
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.execute.experiment_codec import value_from_json, values_to_json
from zenturio.experiment import (
    Evidence,
    ExperimentGenerator,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
    Recipe,
)
from zenturio.experiment.experiment import as_counted
from zenturio.record import ExperimentRecord, Repository, StudyDefinition
from zenturio.record.entities import OUTCOME_STATES
from zenturio.study.study_definition import (
    DIGESTS,
    PROGRAM,
    changes_of,
    define_study,
    extraction_of,
    with_recorded_versions,
)

BATCH = 500


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was measured again."""

    study: str
    experiments: int
    metrics: tuple[str, ...]
    """Those that were added or are found in another way, and all that are computed."""
    gone: tuple[str, ...]
    """Those that the files ask for no more; what was measured stays."""
    missing: int
    """Values that the kept output does not hold."""
    failed: int
    """Experiments that were ok, and fail now for what is missing."""
    mended: int
    """Experiments that had failed for what was missing, and are ok now."""
    changes: tuple[str, ...] = ()
    """What else changed in the program: the next run begins a new table."""


def extract(
    repository: Repository,
    study: str,
    paths: Sequence[str] = (),
    step: Callable[[int], object] = lambda _count: None,
    *,
    really: bool = True,
) -> Extraction:
    """Give every experiment of *study* that has ended the metrics that its files ask for now.

    The files are those at *paths*, else those that it was run from. A metric that is found as
    before keeps its value. What the program reported by itself stays. Unless *really*, nothing is
    changed: the answer says what would be.
    """
    before = repository.definition(study)
    named = list(paths) or list(before.notes.get("paths", ()))
    if not named:
        raise InputError(
            f"study {study} has no annotated files", hint="name them: zen extract STUDY PATH"
        )
    application = scan(named, overrides=before.notes.get("overrides", ()))
    application = with_recorded_versions(application, repository, study)
    again = _Again(before, application.metrics)
    planned, program = before.notes.get("experiments", 0), before.notes.get(PROGRAM, {})
    definition = define_study(application, int(planned), program)
    is_former = DIGESTS not in before.notes
    generator = ExperimentGenerator(application, former_digests=is_former)
    if is_former:  # what runs next tells which program that is
        notes = {name: note for name, note in definition.notes.items() if name != DIGESTS}
        definition = replace(definition, notes=notes)
    changes = changes_of(program, generator.former_program) if program else ()
    if changes:  # its experiments ran with the files that it had then
        definition = replace(definition, sources=before.sources)
    count: Counter[str] = Counter()
    records = repository.records(study, states=OUTCOME_STATES)
    # Everything is measured before anything is changed: an error leaves the study as it was.
    with MeasuredOutcomes() as measured:
        while batch := list(islice(records, BATCH)):
            outcomes = [o for record in batch for o in again.outcomes(repository, record)]
            measured.add(outcomes)
            count["done"] += len(outcomes)
            count.update(again.seen(batch, outcomes))
            step(len(batch))
        if really:
            repository.remeasure(study, measured, definition)
    seen = count["done"], again.names, again.gone, count["missing"], count["failed"], count["ok"]
    return Extraction(study, *seen, changes)


class MeasuredOutcomes(Iterable[Outcome]):
    """Outcomes that wait in a temporary file for the one transaction that writes them.

    Only what that transaction replaces is kept: status, cause and metrics.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed by exit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Put *outcomes* behind the others."""
        for o in outcomes:
            row = [o.digest, o.status, o.cause, values_to_json(o.metrics), o.attempt]
            self._file.write(json.dumps(row) + "\n")

    def __iter__(self) -> Iterator[Outcome]:
        """Yield every outcome; from the first one on again, each time."""
        self._file.seek(0)
        for line in self._file:
            digest, status, cause, noted, attempt = cast("list[Any]", json.loads(line))
            metrics = {name: value_from_json(measure) for name, measure in noted.items()}
            yield Outcome(digest, status, cause, metrics, attempt)


class _Again:
    """Which metrics must be measured again, and how."""

    def __init__(self, before: StudyDefinition, metrics: tuple[Metric, ...]) -> None:
        extractions = {field.name: field.how for field in before.metrics}
        changed = [m for m in metrics if m.formula or extractions.get(m.name) != extraction_of(m)]
        self.names = tuple(metric.name for metric in changed)
        names = {metric.name for metric in metrics} | set(MEASURED)
        self.gone = tuple(name for name in extractions if name not in names)
        self._meter = MetricReader(Recipe(tuple(changed)))
        self._judge = MetricReader(Recipe(metrics))

    def outcomes(self, repository: Repository, record: ExperimentRecord) -> Iterator[Outcome]:
        """Yield the record's outcome with its new metrics."""
        outcome = record.outcome
        if outcome is None:
            return
        kept = {n: m for n, m in outcome.metrics.items() if n not in self.names}
        logs = repository.logs(record.digest, outcome.attempt)
        artifacts = repository.artifacts(record.digest, outcome.attempt)
        files = {artifact.path: artifact.kept for artifact in artifacts}
        evidence = Evidence(logs.stdout, logs.stderr, usage=kept, files=files)
        metrics = self._meter.measure(record.values, evidence)
        yield as_counted(self._judged(outcome, metrics), record.repeat)

    def seen(self, batch: list[ExperimentRecord], outcomes: list[Outcome]) -> Iterator[str]:
        """For each value that is missing and each experiment whose status changed, a word."""
        recorded = [record.outcome for record in batch if record.outcome]
        before = {(attempt.digest, attempt.attempt): attempt.status for attempt in recorded}
        for outcome in outcomes:
            yield from ("missing" for n in self.names if isinstance(outcome.metrics[n], Missing))
            if outcome.status != before[outcome.digest, outcome.attempt]:
                yield outcome.status

    def _judged(self, outcome: Outcome, metrics: dict[str, MetricValue]) -> Outcome:
        """Return *outcome* with *metrics*; failed if the program ended well and lacks one."""
        if outcome.exit != 0 or outcome.status not in {"ok", "failed"}:
            return replace(outcome, metrics=metrics)
        cause = self._judge.lacking(metrics)
        return replace(outcome, metrics=metrics, status="failed" if cause else "ok", cause=cause)
