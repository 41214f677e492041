"""Experiments that ran: measured again, their files made again, their digests checked."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self, cast

from zenturio.annotate.commands import fill_command
from zenturio.annotate.model import MEASURED, Application, Metric
from zenturio.annotate.scan import scan, scan_kept
from zenturio.annotate.substitution import Filler
from zenturio.errors import InputError, SpaceError
from zenturio.execute.experiment_codec import value_from_json, values_to_json
from zenturio.experiment import (
    Evidence,
    Experiment,
    ExperimentGenerator,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
    Recipe,
)
from zenturio.experiment.experiment import as_counted
from zenturio.experiment.experiment_generator import compared_numbers
from zenturio.experiment.metrics import Inapplicable, NotNumber, PartialNumberCheck
from zenturio.expression import Expression, Value
from zenturio.record import ExperimentRecord, Repository, StudyDefinition
from zenturio.record.entities import OUTCOME_STATES, REDACTION_EVENT
from zenturio.record.result_rows import ResultIdentity
from zenturio.record.sql_repository import SQLRepository
from zenturio.space import Point
from zenturio.study.recorded_definition import (
    DIGESTS,
    PROGRAM,
    changes_of,
    define_study,
    extraction_of,
    with_recorded_versions,
)
from zenturio.study.stages.stage_graph import AFTER, built_on, stages_of

BATCH = 500


@dataclass(frozen=True, slots=True)
class MissingMetric:
    """How many experiments lack a metric that they should have."""

    metric: str
    count: int
    why: str
    """The most frequent reason."""


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
    """Values that were not found in the kept output, or are no numbers."""
    failed: int
    """Experiments that were ok, and fail now for what is missing."""
    mended: int
    """Experiments that had failed for what was missing, and are ok now."""
    changes: tuple[str, ...] = ()
    """What else changed in the program: the next run begins a new table."""
    reasons: tuple[MissingMetric, ...] = ()
    """Why values are missing, one for each metric."""
    remarks: tuple[str, ...] = ()
    """What is likely not meant, though nothing is missing: numbers that a pattern cuts."""


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
    again = _Again(before, application.metrics, compared_numbers(application))
    planned, program = before.notes.get("experiments", 0), before.notes.get(PROGRAM, {})
    definition = define_study(application, int(planned), program)
    is_former = DIGESTS not in before.notes
    generator = ExperimentGenerator(application, former_digests=is_former)
    if is_former:  # what runs next tells which program that is
        notes = {name: note for name, note in definition.notes.items() if name != DIGESTS}
        definition = replace(definition, notes=notes)
    parts = generator.former_program | _stage_parts(application, program)
    changes = changes_of(program, parts) if program else ()
    if changes:  # its experiments ran with the files that it had then
        definition = replace(definition, sources=before.sources)
    count: Counter[str] = Counter()
    records = repository.records(study, states=OUTCOME_STATES)
    # Everything is measured before anything is changed: an error leaves the study as it was.
    with OutcomeSpool() as measured:
        while batch := list(islice(records, BATCH)):
            outcomes = [o for record in batch for o in again.outcomes(repository, record)]
            measured.add(outcomes)
            count["done"] += len(outcomes)
            count.update(again.seen(batch, outcomes))
            step(len(batch))
        if really:
            repository.remeasure(study, measured, definition)
    missing = sum(reason.count for reason in again.missing)
    counts = count["done"], again.names, again.gone, missing, count["failed"], count["ok"]
    return Extraction(study, *counts, changes, again.missing, tuple(again.remarks))


def _stage_parts(application: Application, recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of the program for the stages that *application* waits for.

    They are those that were *recorded* where a stage is not there any more: the next run says so.
    """
    if not application.after:
        return {}
    try:
        return built_on(stages_of(application))[-1]
    except InputError:
        return {part: digest for part, digest in recorded.items() if part.startswith(AFTER)}


class OutcomeSpool(Iterable[Outcome]):
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

    def __init__(
        self,
        before: StudyDefinition,
        metrics: tuple[Metric, ...],
        numbers: tuple[Expression, ...],
    ) -> None:
        extractions = {field.name: field.how for field in before.metrics}
        changed = [m for m in metrics if m.formula or extractions.get(m.name) != extraction_of(m)]
        self.names = tuple(metric.name for metric in changed)
        names = {metric.name for metric in metrics} | set(MEASURED)
        self.gone = tuple(name for name in extractions if name not in names)
        self._meter = MetricReader(Recipe(tuple(changed)))
        self._judge = MetricReader(Recipe(metrics, numbers=numbers))
        self._cuts = PartialNumberCheck(changed)
        self.remarks: list[str] = []
        self._missing: dict[str, Counter[str]] = {}
        """Why values are missing, by metric."""

    @property
    def missing(self) -> tuple[MissingMetric, ...]:
        """The metrics that are missing in some experiments."""
        counts = sorted(self._missing.items())
        return tuple(MissingMetric(n, c.total(), c.most_common(1)[0][0]) for n, c in counts)

    def outcomes(self, repository: Repository, record: ExperimentRecord) -> Iterator[Outcome]:
        """Yield the record's outcome with its new metrics."""
        outcome = record.outcome
        if outcome is None:
            return
        recorded = self._judge.restored(record.values, outcome.metrics)
        unchanged = {n: m for n, m in recorded.items() if n not in self.names}
        logs = repository.logs(record.digest, outcome.attempt)
        artifacts = repository.artifacts(record.digest, outcome.attempt)
        files = {artifact.path: artifact.kept for artifact in artifacts}
        evidence = Evidence(logs.stdout, logs.stderr, usage=unchanged, files=files)
        metrics = self._meter.measure(record.values, evidence)
        self.remarks.extend(self._cuts.see(evidence).values())
        judged = self._judged(outcome, record.values, metrics)
        for name, value in judged.metrics.items():
            is_asked_for = name in self.names or isinstance(value, NotNumber)
            if isinstance(value, Missing) and is_asked_for and not isinstance(value, Inapplicable):
                self._missing.setdefault(name, Counter())[value.why] += 1
        yield as_counted(judged, record.repeat)

    def seen(self, batch: list[ExperimentRecord], outcomes: list[Outcome]) -> Iterator[str]:
        """Yield the new status of each experiment whose status changed."""
        recorded = [record.outcome for record in batch if record.outcome]
        before = {(attempt.digest, attempt.attempt): attempt.status for attempt in recorded}
        for outcome in outcomes:
            if outcome.status != before[outcome.digest, outcome.attempt]:
                yield outcome.status

    def _judged(
        self, outcome: Outcome, values: Mapping[str, Value], metrics: dict[str, MetricValue]
    ) -> Outcome:
        """Return *outcome* with *metrics*; failed if the program ended well and lacks one."""
        if outcome.exit != 0 or outcome.status not in {"ok", "failed"}:
            return replace(outcome, metrics=metrics)
        metrics = self._judge.without_texts(values, metrics)
        cause = self._judge.lacking(metrics)
        return replace(outcome, metrics=metrics, status="failed" if cause else "ok", cause=cause)


# Files, made again from what the repository kept


class UnfilledError(Exception):
    """The files cannot be made again; says why."""


def files_of(definition: StudyDefinition, record: ExperimentRecord) -> dict[str, str]:
    """Return the annotated files by path, filled as *definition* fills them."""
    application = kept_application(definition)
    seeds = application.repeat.texts(record.repeat)
    filled = Filler(application).files(_point_of(application, record), seeds)
    return {file.path: file.content.decode("utf-8", "backslashreplace") for file in filled}


def commands_of(definition: StudyDefinition, record: ExperimentRecord) -> list[str]:
    """Return the BUILD and RUN commands of an experiment, with its values in them."""
    application = kept_application(definition)
    point = _point_of(application, record)
    texts = {**point.texts, **application.repeat.texts(record.repeat)}
    words = frozenset(p.name for p in application.space.parameters if p.words)
    commands = (*application.builds, *application.runs)
    return [fill_command(command.text, texts, words) for command in commands]


def _point_of(application: Application, record: ExperimentRecord) -> Point:
    seed = application.repeat.seed  # a value of the row, but no dimension of the space
    values = {name: value for name, value in record.values.items() if name != seed}
    try:
        return application.space.find(values)
    except SpaceError as error:
        reason = error.diagnostics[0].message
        message = f"the study's directives have changed since it ran: {reason}"
        raise UnfilledError(message) from error


def kept_application(definition: StudyDefinition) -> Application:
    """Return the application as the repository kept it: its annotated files, and its overrides."""
    try:
        return scan_kept(definition.sources, definition.notes.get("overrides", ()))
    except InputError as error:
        raise UnfilledError(str(error)) from error


# Digests, computed again from what a repository recorded of the programs
#
# The annotated files stand in the definition, the others with their digests in the recipe, the
# values in the row. So nothing of this asks for the program as it is now, and nothing is run.

SAMPLE = 200
"""Results of each version whose digests are computed again."""


@dataclass
class IdentityCheck:
    """How the digests of a sample compare with what was recorded."""

    right: int = 0
    unknown: int = 0
    """Results of which not enough was recorded."""
    wrong: tuple[str, ...] = ()
    """What is wrong, in words."""


def check_identity(repository: Repository, sample: int = SAMPLE) -> IdentityCheck:
    """Compute digests, keys and recipes of a sample of each version again."""
    result = IdentityCheck()
    if not isinstance(repository, SQLRepository):
        return result
    for study in repository.studies():
        names, without = repository.result_identities(study.name, sample)
        result.unknown += without
        if any(event.kind == REDACTION_EVENT for event in repository.events(study.name)):
            result.unknown += len(names)  # its parts are not what was hashed any more
            continue
        programs = _Programs(repository, study.name)
        for name in names:
            experiment = programs.experiment(name)
            if experiment is None:
                result.unknown += 1
            elif _differs(experiment, name):
                text = f"study {study.name}: {name.digest} is not the digest of what was recorded"
                result.wrong += (text,)
            else:
                result.right += 1
    return result


def _differs(experiment: Experiment, name: ResultIdentity) -> bool:
    assert experiment.program is not None, "a generator tells it"
    computed = experiment.digest, experiment.key, experiment.program.digest
    return computed != (name.digest, name.key, json.loads(name.document)["digest"])


class _Programs:
    """The programs of a study as they were recorded."""

    def __init__(self, repository: Repository, study: str) -> None:
        self._repository = repository
        self._study = study
        self._generators: dict[
            tuple[object, ...], tuple[Application, ExperimentGenerator] | None
        ] = {}

    def experiment(self, name: ResultIdentity) -> Experiment | None:
        """The experiment that the values of a result make; None where that cannot be told."""
        record = self._repository.experiment_record(self._study, name.digest)
        started = record.outcome.started if record.outcome else None
        definition = self._repository.definition(self._study, started)
        overrides = definition.notes.get("overrides", ())
        at = (name.document, *sorted(definition.sources.items()), *overrides)
        if at not in self._generators:
            try:
                application = kept_application(definition)
            except UnfilledError:
                self._generators[at] = None
            else:
                self._generators[at] = (
                    application,
                    recorded_generator(application, json.loads(name.document)),
                )
        generator = self._generators[at]
        return None if generator is None else _experiment_of(*generator, record)


def _experiment_of(
    application: Application, generator: ExperimentGenerator, record: ExperimentRecord
) -> Experiment | None:
    seed = application.repeat.seed
    values = {name: value for name, value in record.values.items() if name != seed}
    try:
        point = application.space.find(values)
    except SpaceError:  # a run with other values for a set
        return None
    every = generator.experiments(point, record.index)
    return next((experiment for experiment in every if experiment.repeat == record.repeat), None)


def recorded_generator(application: Application, recipe: Mapping[str, Any]) -> ExperimentGenerator:
    """Return a generator of *application*, whose other files are known by a recipe alone."""
    modes = {path: _mode(kind) for path, (kind, *_) in recipe["filled"].items()}
    files = tuple(_with_modes(application, modes))
    annotated = replace(application, files=files, links=(), folders=(), uses=())
    constants = {
        path: (_mode(kind), bytes.fromhex(digest))
        for path, (kind, digest) in recipe["constants"].items()
    }
    return ExperimentGenerator(annotated, recorded=(constants, recipe["used"]))


def _with_modes(application: Application, modes: Mapping[str, int]) -> Iterator[Any]:
    for file in application.files:
        if file.path in modes:
            yield replace(file, source=replace(file.source, mode=modes[file.path]))


def _mode(kind: str) -> int:
    return {"link": 0o120777, "executable": 0o755}.get(kind, 0o644)
