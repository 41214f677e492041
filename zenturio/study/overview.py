"""Facts on studies and experiments from the repository, for commands and pages that show them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zenturio.errors import InputError, NotFoundError, RecordError
from zenturio.experiment import Artifact, MetricValue, Missing, Series
from zenturio.experiment.experiment import UNKNOWN_KIND
from zenturio.record import (
    PAIRED,
    SPACES,
    AttemptRecord,
    EquatedResult,
    ExperimentRecord,
    ExperimentState,
    Lease,
    MeasurementRound,
    Repository,
    RepositoryEvent,
    ResultCount,
    StudyDefinition,
)
from zenturio.record.entities import OUTCOME_STATES
from zenturio.record.open import FOLDER, open_repository, project_folder
from zenturio.study.last_options import orphans_at, place_of

if TYPE_CHECKING:
    from zenturio.execute.executor import Outstanding, Progress
    from zenturio.expression import Value
    from zenturio.record.entities import StudyStanding


@contextmanager
def opened_repository(db: str | None, *, finds_unique: bool = True) -> Iterator[Repository]:
    """Yield the repository at *db*, else the project's; closed behind. Nothing is created.

    With *finds_unique* a name that only one project has means that study, from whatever folder.
    """
    repository = open_repository(db, create=False, finds_unique=finds_unique)
    try:
        yield repository
    finally:
        repository.close()


@dataclass(frozen=True)
class StudyStatus:
    """Where a study stands."""

    study: str
    created: float
    counts: Mapping[ExperimentState, int]
    planned: int
    """Experiments of all its points, as far as that was known when it was run last."""
    drivers: tuple[Lease, ...]
    """Those that are not certainly dead."""
    place: str = ""
    """Where it was run last, if that is known."""
    stages: Mapping[Progress, int] = field(default_factory=dict)
    """How far those of its experiments are that the place has, where they outlive their driver."""
    drained: Mapping[str, str] = field(default_factory=dict)
    """Why each machine of the place is drained that gets nothing new."""
    results: tuple[ResultCount, ...] = ()
    """All results, by kind of machine and round."""
    history: tuple[MeasurementRound, ...] = ()
    """When what has results was measured again, the first round first."""
    verb: str = ""
    """What runs it, where that is no ``zen run``: compare, gate, noise, history, bisect."""
    command: tuple[str, ...] = ()
    """The words behind ``zen`` that do, where a command line did."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Of its newest definition."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each file of that definition."""
    unplanned: int | None = 0
    """Experiments that its last run did not plan: of other points, or further runs of a point.

    None if there may be some that were not counted.
    """

    @property
    def is_earlier_version(self) -> bool:
        """Whether its program has been edited since: another version goes on."""
        # It loads the parser of directives, which `zen list` does without.
        from zenturio.study.recorded_definition import base_of  # noqa: PLC0415 - see above

        return base_of(self.study) is not None

    @property
    def program_paths(self) -> tuple[str, ...]:
        """The files that were run, where that is known."""
        return tuple(map(str, self.notes.get("paths", ())))

    @property
    def machines(self) -> dict[str, int]:
        """Results by kind of machine."""
        return by_machine(self.results)

    @property
    def rounds(self) -> dict[int, int]:
        """Results by round."""
        return by_round(self.results)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def ok(self) -> int:
        return self.counts["ok"]

    @property
    def warmup(self) -> int:
        """Runs that ended well and do not count."""
        return self.counts.get("warmup", 0)

    @property
    def running(self) -> int:
        return self.counts["running"]

    @property
    def failed(self) -> int:
        return self.total - self.ok - self.warmup - self.running

    @property
    def missing(self) -> int:
        """Those that nobody runs and that have no outcome, as far as it is known."""
        return max(self.planned - self.total + (self.unplanned or 0), 0)

    @property
    def left(self) -> int:
        return self.running + self.missing


def by_machine(counts: Iterable[ResultCount]) -> dict[str, int]:
    """Results by the label of their kind of machine."""
    results: Counter[str] = Counter()
    for count in counts:
        results[count.machine.label if count.machine else UNKNOWN_KIND] += count.count
    return dict(sorted(results.items()))


def by_round(counts: Iterable[ResultCount]) -> dict[int, int]:
    """Results by the number of their round."""
    results: Counter[int] = Counter()
    for count in counts:
        results[count.round] += count.count
    return dict(sorted(results.items()))


def study_status(db: str | None, name: str) -> StudyStatus:
    """Return where the study *name* stands."""
    with opened_repository(db) as repository:
        study = repository.study(name)
        return _status(repository, repository.standings([study.name])[0])


def study_statuses(db: str | None) -> list[StudyStatus]:
    """Where every study stands, in the order of their creation; none before the first run."""
    try:
        with opened_repository(db) as repository:
            return [_status(repository, standing) for standing in repository.standings()]
    except NotFoundError:
        if db is not None:
            raise
        return []


def result_count(repository: Repository, study: str) -> int:
    """Return how many experiments of *study* have a result."""
    counts = repository.count_states(study)
    return sum(counts[state] for state in OUTCOME_STATES)


def queued_paths(db: str | None) -> frozenset[tuple[str, ...]]:
    """Return the files of each study that waits for a service, or that one runs."""
    with opened_repository(db) as repository:
        submissions = repository.submissions(("waiting", "running"))
        return frozenset(tuple(map(str, s.request.get("paths", ()))) for s in submissions)


def _status(repository: Repository, standing: StudyStanding) -> StudyStatus:
    """Return the standing of a study with what its place and its drivers' processes say."""
    notes, counts, study = standing.notes, standing.counts, standing.info
    planned = int(notes.get("experiments", 0))
    had_several_spaces = len(notes.get(SPACES, ())) > 1
    is_over = not had_several_spaces and planned <= sum(counts.values()) - counts["running"]
    orphans = None if is_over else orphans_at(notes, project_folder() / FOLDER)
    return StudyStatus(
        study.name,
        study.created,
        counts,
        planned,
        tuple(lease for lease in standing.leases if not lease.driver_has_exited()),
        place_of(notes),
        _stages(repository, study.name, orphans),
        _drained(orphans),
        standing.results,
        standing.rounds,
        *_command_of(notes),
        notes,
        standing.sources,
        None if had_several_spaces else 0,
    )


VERBS = frozenset({"compare", "gate", "noise", "history", "bisect"})
"""What runs versions beside each other."""


def _command_of(notes: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the verb that runs a study of versions, and the words of the command line."""
    note = notes.get(PAIRED)
    if not isinstance(note, dict) or note.get("verb") not in VERBS:
        return "", ()
    words = note.get("command")
    verb, words = str(note["verb"]), words if isinstance(words, list) else []
    # Somebody else may have written the database, and people copy what is printed.
    is_ours = words[:1] == [verb] and all(isinstance(w, str) and w.isprintable() for w in words)
    return verb, tuple(words) if is_ours else ()


def _drained(orphans: Outstanding | None) -> Mapping[str, str]:
    ask = getattr(orphans, "drained", None)
    return {} if ask is None else dict(ask())


def _stages(repository: Repository, study: str, orphans: Outstanding | None) -> dict[Progress, int]:
    """Return how far the experiments of *study* are that its place still has."""
    stages = orphans.stages() if orphans is not None else {}
    counts: Counter[Progress] = Counter()
    if stages:
        for record in repository.records(study, states=("missing", "running")):
            if record.digest in stages:
                counts[stages[record.digest]] += 1
    return dict(counts)


@dataclass(frozen=True)
class ExperimentDetails:
    """One experiment with all that is known of it."""

    study: str
    record: ExperimentRecord
    attempts: tuple[AttemptRecord, ...]
    artifacts: tuple[Artifact, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    definition: StudyDefinition = field(default_factory=StudyDefinition)
    """What the study was when it ran."""
    folder: Path | None = None
    """Where its files are, if they were kept in this project."""
    equality: EquatedResult | None = None
    """The user who accepted its result from another version, if one did."""
    origin: str = ""
    """The version that ran it, in that case; empty if it was removed since."""
    redactions: tuple[RepositoryEvent, ...] = ()
    """When a secret was removed from its record, or from that of its study."""

    @property
    def metrics(self) -> Mapping[str, MetricValue]:
        return self.record.outcome.metrics if self.record.outcome else {}


def find_experiment(
    repository: Repository, digits: str, study: str | None = None, artifacts: int | None = None
) -> ExperimentDetails:
    """The experiment whose digest begins with *digits*; an error if there is none, or several.

    At most *artifacts* of its artifacts are read.
    """
    prefix = digits.strip().lower()
    if not prefix or set(prefix) - set("0123456789abcdef"):
        raise InputError(
            f"{digits!r} is not the digest of an experiment",
            hint="zen results STUDY --columns digest,status lists digests (digits 0-9 and a-f)",
        )
    matches = repository.find_digests(prefix, 8)
    if study is not None:
        repository.study(study)
        matches = tuple(match for match in matches if study in match[1])
    if not matches:
        where = f" in study {study}" if study else ""
        raise NotFoundError(
            f"no experiment{where} begins with {digits}",
            hint="zen results STUDY --columns digest,status lists digests",
        )
    if len(matches) > 1:
        shown = ", ".join(digest[: len(prefix) + 4] for digest, _ in matches)
        raise InputError(f"{digits} begins several digests: {shown}", hint="give more digits")
    digest, studies = matches[0]
    if not studies:
        raise RecordError(
            f"{repository.location} is damaged: {digest} belongs to no study",
            hint="see what `zen db check` says",
        )
    home = study or studies[0]
    newest = repository.definition(home)
    attempts = repository.attempts(digest)
    started = next((match.started for match in reversed(attempts) if match.started), None)
    equality = repository.equated_result(home, digest)
    origin = _origin(repository, equality) if equality else ""
    folder = project_folder() / FOLDER / "work" / digest
    return ExperimentDetails(
        home,
        repository.experiment_record(home, digest),
        attempts,
        repository.artifacts(digest, most=artifacts),
        {f.name: f.unit for f in (*newest.parameters, *newest.metrics) if f.unit},
        _definition_that_ran(repository, origin if equality else home, newest, started),
        folder if folder.is_dir() else None,
        equality,
        origin,
        repository.redactions(home, digest),
    )


def _origin(repository: Repository, equality: EquatedResult) -> str:
    """Return the version whose result was accepted as equal."""
    matches = repository.find_digests(equality.digest, 1) if equality.digest else ()
    return matches[0][1][0] if matches else ""


def _definition_that_ran(
    repository: Repository, study: str, newest: StudyDefinition, started: float | None
) -> StudyDefinition:
    """Return what *study* was at that time; nothing is known where it was removed."""
    if not study:
        return StudyDefinition()
    return newest if started is None else repository.definition(study, started)


@dataclass(frozen=True)
class ExperimentDifference:
    """Where two experiments differ."""

    digests: tuple[str, str]
    parameters: Mapping[str, tuple[Value, Value]]
    metrics: Mapping[str, tuple[MetricValue | None, MetricValue | None]]
    files: Mapping[str, str]
    """Unified differences by path."""
    note: str = ""


def compare_experiments(one: ExperimentDetails, other: ExperimentDetails) -> ExperimentDifference:
    """Return where *one* and *other* differ: parameters, metrics, filled files."""
    from zenturio.study.reprocess_experiments import UnfilledError, files_of  # noqa: PLC0415 - it loads NumPy

    note, files = "", {}
    try:
        before, after = (
            files_of(one.definition, one.record),
            files_of(other.definition, other.record),
        )
        files = _file_differences(before, after)
    except UnfilledError as error:
        note = f"their files cannot be shown: {error}"
    return ExperimentDifference(
        (one.record.digest, other.record.digest),
        _pairs(one.record.values, other.record.values),
        _pairs(one.metrics, other.metrics),
        files,
        note,
    )


T = TypeVar("T")


def _pairs(one: Mapping[str, T], other: Mapping[str, T]) -> dict[str, tuple[T | None, T | None]]:
    names = dict.fromkeys((*one, *other))
    pairs = {name: (one.get(name), other.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _file_differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    differences = {}
    for path in sorted({*before, *after}):
        lines = difflib.unified_diff(
            before.get(path, "").splitlines(keepends=True),
            after.get(path, "").splitlines(keepends=True),
            n=1,
        )
        text = "".join(line if line.endswith("\n") else line + "\n" for line in list(lines)[2:])
        if text:
            differences[path] = text
    return differences


def measure_json(measure: MetricValue | None) -> object:
    """Return a metric as JSON holds it: what is missing says why."""
    if isinstance(measure, Missing):
        return {"missing": measure.why}
    return list(measure.values) if isinstance(measure, Series) else measure


def measure_text(measure: MetricValue | None) -> str:
    """Return a metric as a person reads it."""
    if isinstance(measure, Missing):
        return f"missing: {measure.why}"
    if isinstance(measure, Series):
        shown = ", ".join(
            f"{v:.4g}" if isinstance(v, float) else str(v) for v in measure.values[:6]
        )
        more = f", ... ({len(measure.values)} in all)" if len(measure.values) > 6 else ""
        return f"[{shown}{more}]"
    if isinstance(measure, float):
        return f"{measure:.6g}"
    return "" if measure is None else str(measure)
