"""Plain values that repositories take and return: studies, experiments, attempts, leases, rounds,
submissions, and the identity of a driver's process.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.experiment import (
    SUCCEEDED,
    UNKNOWN_KIND,
    HostConditions,
    HostDetails,
    Kinds,
    Log,
    MachineKind,
    MetricValue,
    Missing,
    Outcome,
    Series,
)
from zenturio.expression import Value
from zenturio.system.processes import process_birth, realm

if TYPE_CHECKING:
    import numpy as np

    from zenturio.expression import Type


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """A process that drives a study."""

    host: str
    pid: int
    born: str
    """Boot, process namespace and start time: with the pid, one process only."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Distinguishes two drivers in one process; identifies a driver that acquires again."""

    @staticmethod
    def current() -> DriverProcess:
        """This process."""
        pid = os.getpid()
        return DriverProcess(socket.gethostname(), pid, process_birth(pid) or "")

    def has_exited(self) -> bool:
        """Return whether the process has certainly exited; false if this host cannot tell.

        A different boot or process namespace may be another machine of the same name, so its
        drivers are presumed alive until their lease expires.
        """
        if self.host != socket.gethostname() or not self.born.startswith(realm()):
            return False
        return process_birth(self.pid) != self.born


ExperimentState = Literal[
    "missing", "running", "ok", "warmup", "failed", "wrong", "timeout", "cancelled"
]
"""The state of an experiment: missing (its attempts left no outcome), running (claimed), or the
status of its outcome."""
EXPERIMENT_STATES: tuple[ExperimentState, ...] = (
    "running", "ok", "warmup", "failed", "wrong", "timeout", "cancelled",
)  # fmt: skip
"""The states that a study counts; an experiment that was never tried has no row."""
OUTCOME_STATES: frozenset[ExperimentState] = frozenset(EXPERIMENT_STATES) - {"running"}

AttemptState = Literal[
    "running", "ok", "warmup", "failed", "wrong", "timeout", "cancelled", "stale", "superseded"
]
"""The state of an attempt: stale if its driver was lost, superseded if its outcome came late."""


PAIRED = "paired"
"""Key of the note of a study of versions that ran in blocks: which ones, and how many blocks."""
PAIRED_ROUND = "paired round"
"""The kind of events that note that a round of such a study has enough measurements."""
BUDGET_SPENT = ", the budget is spent"
"""The end of the text of such an event if the round ran out of time."""
SPACES = "spaces"
"""Key of the note with the fingerprints of all spaces that the study was run with."""
SEED_KIND = "seed"
"""The kind of a value that differs between repeats of a point: stored as a parameter."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a metric of a study."""

    name: str
    type: Type | None = None
    unit: str = ""
    kind: str = ""
    """Of a parameter: how its value is passed (``substitute``, ``assign``, ``env``, ``param``), or
    SEED.
    """
    how: str = ""
    """Of a metric: what measures it, as written. Studies that share an experiment share the metrics
    with the same name and source.
    """
    exact: bool = field(default=False, kw_only=True)
    """Of a metric: whether it has the same value on every kind of machine."""


ALWAYS = "always"
"""The source of the metrics that every study has."""


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """The definition of a study: parameters, metrics, objectives, and where it came from."""

    parameters: tuple[Field, ...] = ()
    metrics: tuple[Field, ...] = ()
    goals: tuple[Any, ...] = ()
    """Any JSON value."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Any JSON value."""
    sources: Mapping[str, bytes] = field(default_factory=dict)
    """The annotated files by their path."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Notes of the caller, as JSON."""


@dataclass(frozen=True, slots=True)
class StudyInfo:
    """Name, version and views of a study."""

    name: str
    view: str
    """The SQL view of the experiments that succeeded."""
    view_all: str
    """The SQL view of all its experiments."""
    created: float
    """Seconds since 1970 (UTC), by the clock of the database."""
    version: int = 1
    """NAME@VERSION names this version even if the study is renamed or archived."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one driver to drive one study."""

    number: int
    study: str
    host: str
    pid: int
    since: float
    until: float
    seconds: float
    born: str = ""
    """Distinguishes the process from others with the same pid: see `DriverProcess`."""
    order_seed: str = field(default="", compare=False)
    """Seed of the newest round, if it was read when the lease was acquired."""

    def driver_has_exited(self) -> bool:
        """Return whether the process of that driver has certainly exited."""
        return DriverProcess(self.host, self.pid, self.born).has_exited()


class RecordPosition(NamedTuple):
    """The position of a record in the order of its study."""

    number: int
    """The point's index in the space."""
    repeat: int
    row: int
    """The number of its attempt."""


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """One experiment of a study: its parameters, state and outcome."""

    key: RecordPosition
    digest: str
    state: ExperimentState
    values: Mapping[str, Value]
    outcome: Outcome | None
    """Without logs and artifacts; None before there is one."""
    round: int = 1
    """The round that measured it."""
    newest: bool = True
    """Whether it is the newest result on this kind of machine."""

    @property
    def index(self) -> int:
        return self.key.number

    @property
    def repeat(self) -> int:
        return self.key.repeat


@dataclass(frozen=True, slots=True)
class MeasurementRound:
    """Results of a version of a study that were measured at one time."""

    number: int
    began: float
    person: str = ""
    """The user who began it."""
    reason: str = ""
    is_open: bool = False
    """Whether the round was begun to measure again, and is not complete."""
    seed: str = ""
    """The seed of the order in which its experiments run; empty before a run drew one."""


@dataclass(frozen=True, slots=True)
class ResultCount:
    """The number of results of a study with a kind of machine, a round and a status."""

    machine: MachineKind | None
    round: int
    status: ExperimentState
    count: int


class CachedResults(NamedTuple):
    """Which of some experiments have a result."""

    digests: frozenset[str]
    """Experiments that need not run again."""
    elsewhere: Mapping[str, MachineKind]
    """By digest, for the other experiments: another kind of machine that has a result."""


class ResultRunPosition(NamedTuple):
    """A result's position in the order of its run: see `experiment.RunPosition`."""

    round: int
    machine: MachineKind | None
    repeat: int
    block: int
    turn: int


@dataclass(frozen=True, slots=True)
class StudyStanding:
    """What is recorded of a study, without its experiments."""

    info: StudyInfo
    counts: Mapping[ExperimentState, int]
    results: tuple[ResultCount, ...]
    leases: tuple[Lease, ...]
    rounds: tuple[MeasurementRound, ...]
    notes: Mapping[str, Any]
    """Of its newest definition."""
    sources: Mapping[str, str]
    """The SHA-256 of each file of that definition, by path."""
    last_event: float
    """The time of its last change; of its creation, if it has not changed."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt at an experiment."""

    number: int
    state: AttemptState
    driver: int
    """The number of the lease that its driver held."""
    host: str = ""
    started: float = 0.0
    ended: float | None = None
    cause: str = ""
    exit: int | None = None
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    """Its metrics; empty for the accepted attempt, whose metrics are the experiment's."""
    machine: MachineKind | None = None
    """The kind of machine that it ran on, if the executor reported it."""
    host_details: HostDetails | None = None
    conditions: HostConditions | None = None
    round: int = 1


@dataclass(frozen=True, slots=True)
class EquatedResult:
    """The source of a result that a user accepted from another version as equal."""

    study: str
    """NAME@NUMBER of that version."""
    person: str
    at: float
    digest: str = ""
    """Digest of the experiment that was run; empty if it was removed since."""


REDACTION_EVENT = "redacted"
"""The kind of events that note that a secret was removed from a record."""


@dataclass(frozen=True, slots=True)
class RepositoryEvent:
    """Something that happened, by the database's clock."""

    at: float
    kind: str
    text: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptLogs:
    """The output of an attempt."""

    stdout: Log = field(default_factory=Log)
    stderr: Log = field(default_factory=Log)


SubmissionState = Literal["waiting", "running", "done", "failed", "cancelled"]
"""The state of a submission: not started, running, or how it ended."""
FINISHED_SUBMISSION_STATES: frozenset[SubmissionState] = frozenset(("done", "failed", "cancelled"))


@dataclass(frozen=True, slots=True)
class StudySubmission:
    """A study in the queue of a service."""

    number: int
    token: str
    """Chosen by the submitter: a submission with the same token is the same one."""
    user: str
    study: str
    request: Mapping[str, Any]
    """The study request, as JSON."""
    submitted: float
    turn: SubmissionState = "waiting"
    begun: float | None = None
    ended: float | None = None
    cause: str = ""
    """Why it ended, as a message."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Its progress, as the service last reported it, as JSON."""
    verified: bool = False
    """Whether the server or the service checked that *user* submitted it."""


@dataclass(frozen=True, slots=True)
class StudyDeletion:
    """What the deletion of a study removes, or would remove."""

    study: str
    experiments: int
    """Experiments that only this study has."""
    shared: int
    """Experiments that other studies have too; these keep them."""
    attempts: int
    log_bytes: int
    artifacts: tuple[str, ...]
    """Files of artifacts that nothing else uses."""
    foreign: tuple[str, ...] = ()
    """Those of the files that are outside the project, and are kept."""


# Rounds and kinds of machine: the filter of result rows by them

RoundChoice = int | Literal["newest", "all"]
"""A round by its number; the newest one of each experiment and kind of machine; or every one."""


@dataclass(frozen=True, slots=True)
class RowChoice:
    """A user's choice of results: by round, kind of machine, or both."""

    machine: str = ""
    """A kind of machine, or an unambiguous part of its label; empty: every kind."""
    round: RoundChoice = "newest"

    def holds(self, record: ExperimentRecord) -> bool:
        """Return whether a result is of the chosen round."""
        if self.round == "newest":
            return record.newest
        return self.round in ("all", record.round)


NEWEST = RowChoice()
"""The newest result of each experiment on each kind of machine."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A `RowChoice` in terms of the database, with the number of the kind of machine."""

    machine: int | None = None
    """The number of a kind of machine; None: every kind."""
    round: RoundChoice = "newest"

    @property
    def conditions(self) -> str:
        """The conditions on a row ``e``, each preceded by AND."""
        machine_condition = "" if self.machine is None else f" AND e.machine = {int(self.machine)}"
        if self.round == "newest":
            return f"{machine_condition} AND e.newest = 1"
        return (
            machine_condition
            if self.round == "all"
            else f"{machine_condition} AND e.round = {int(self.round)}"
        )


def read_round(text: str) -> RoundChoice:
    """Return the round in the text of ``--round``: none, a number, or all."""
    word = text.strip().lower()
    if word in ("", "newest"):
        return "newest"
    if word == "all":
        return "all"
    if word.isdecimal() and int(word) > 0:
        return int(word)
    raise InputError(f"--round {text}", hint="the number of a round, or all")


def label_of(record: ExperimentRecord) -> str:
    """Return the label of the kind of machine that measured a result."""
    machine = record.outcome.machine if record.outcome else None
    return machine.label if machine else UNKNOWN_KIND


def machine_named(text: str, labels: Collection[str]) -> str:
    """Return the one of *labels* that equals or contains *text*; InputError unless one does."""
    if text in labels:
        return text
    matches = [label for label in sorted(labels) if text.casefold() in label.casefold()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(
            f"--machine {text}: several kinds of machine match",
            hint=f"one of: {'; '.join(matches)}",
        )
    kinds = "; ".join(sorted(labels))
    hint = did_you_mean(text, labels) if len(labels) > 5 else f"there are: {kinds or 'none'}"
    raise InputError(f"--machine {text}: no kind of machine with results matches", hint=hint)


def check_round(choice: RoundChoice, measured: Collection[int]) -> None:
    """Raise InputError if the chosen round has no results, but others have."""
    if isinstance(choice, int) and measured and choice not in measured:
        raise InputError(
            f"round {choice} has no results",
            hint=f"rounds with results: {', '.join(map(str, sorted(measured)))}",
        )


def round_notes(counts: Mapping[int, int]) -> tuple[str, ...]:
    """Return the note for results of several rounds."""
    if len(counts) < 2:
        return ()
    named = "; ".join(f"{number} ({count:,})" for number, count in sorted(counts.items()))
    return (f"results of {len(counts)} rounds: {named}; --round picks one",)


# Column pages: chosen fields of many results, without an object for each


@dataclass(frozen=True, slots=True)
class ColumnPage:
    """Some results of a study, in the order of the space."""

    states: Sequence[ExperimentState]
    machines: Sequence[int]
    """The number of the kind of machine of each result."""
    rounds: Sequence[int]
    parameters: Mapping[str, Sequence[Value]]
    """The requested fields, as far as the study has them."""
    metrics: Mapping[str, Sequence[MetricValue | None]]
    """Likewise; None for a metric that was not measured."""
    kinds: Mapping[int, MachineKind]
    """The kinds of machine by number, without unknown ones."""


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """The fields, states and rows to read from the results of a study."""

    parameters: Collection[str]
    metrics: Collection[str]
    states: Collection[ExperimentState]
    round: RoundChoice = "newest"
    without: Collection[str] = ()
    """Digests of experiments to leave out."""
    only: Collection[int] | None = None
    """Numbers of the rows to read; None: all rows."""


@dataclass(frozen=True, slots=True)
class KeyedResults:
    """Results of one program, identified by the keys of their points: see `experiment.identity`."""

    keys: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
    """The halves of the keys, as unsigned integers."""
    ranks: np.ndarray[Any, Any]
    """Of several results with one key, the one with the highest rank counts."""
    started: np.ndarray[Any, Any]
    causes: np.ndarray[Any, Any]
    """Indices into `cause_texts`; 0 for a success."""
    cause_texts: Sequence[str]
    parameters: Mapping[str, Sequence[Value]]
    """The requested fields, as far as the study has them."""
    metrics: Mapping[str, Sequence[MetricValue | None]]

    def __len__(self) -> int:
        return len(self.ranks)


# Rules of acceptance, the same in every repository: which outcomes are recorded and reused

MOST_METRICS = 10_000
"""The most metrics of a run that are kept; further ones are counted."""
NOT_KEPT = "metrics_not_kept"
"""The metric with the number of metrics that were not kept."""
MOST_VALUES = 1_000_000
"""The most values of a series that are kept; a longer series is missing, with the reason."""


def replaces_attempt(past: AttemptState | None) -> bool:
    """Return whether a late outcome replaces its attempt, whose state is *past* (None: not stored).

    A stale attempt has no outcome yet. Any other state means that the outcome was recorded, and the
    driver repeats the call because it did not receive the reply.
    """
    return past is None or past == "stale"


Rank = tuple[bool, int, int]


def result_rank(status: str, attempt: int, number: int) -> Rank:
    """Return the sort key of the results of an experiment: other studies reuse the first.

    That is the oldest one that is ok; if none is, the last attempt: a user who rejects that one
    (``--only failed``) rejects all.
    """
    return (False, 0, number) if status in SUCCEEDED else (True, -attempt, number)


def machine_counts(machine: MachineKind | None, kinds: Kinds) -> bool:
    """Return whether a result of *machine* is valid for *kinds*; yes if one of them is None."""
    return kinds is None or machine is None or machine in kinds


def is_of(machine: MachineKind | None, kinds: Kinds) -> bool:
    """Return whether a result is known to be of one of *kinds*."""
    return kinds is not None and machine in kinds


def match_remeasured(again: Sequence[Outcome], recorded: Sequence[Outcome]) -> dict[int, Outcome]:
    """Return the new outcomes by the positions of those in *recorded* that they replace.

    If an experiment has results of several kinds of machine, the attempt identifies the one.
    """
    # Usually an experiment has one result, and then the attempt need not agree.
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
    """Return *outcome* with the metrics that are kept, and the number of the others.

    A series with too many values is missing: a part of it could be taken for the whole.
    """
    long = {
        name: Missing(
            f"its {len(value.values):,} values were not kept: the limit is {MOST_VALUES:,}"
        )
        for name, value in outcome.metrics.items()
        if isinstance(value, Series) and len(value.values) > MOST_VALUES
    }
    if long:
        outcome = replace(outcome, metrics={**outcome.metrics, **long})
    # The metric with the number of others takes one place.
    dropped = len(outcome.metrics) - MOST_METRICS
    if dropped <= 0:
        return outcome
    metrics = dict(islice(outcome.metrics.items(), MOST_METRICS - 1))
    why = f"{dropped + 1:,} metrics were not kept: the limit is {MOST_METRICS:,} in a run"
    return replace(outcome, metrics={NOT_KEPT: Missing(why), **metrics})


MetricSources = Mapping[str, str]
"""The source of each metric of a study, as written."""


def shared_metrics(
    metrics: Mapping[str, MetricValue], source: str, theirs: MetricSources, ours: MetricSources
) -> dict[str, MetricValue]:
    """Return *metrics* that study *source* measured, for a study with the metrics *ours*.

    A metric that no study declared (the program reported it) is included; one that *ours* measures
    in a different way is missing, with the reason.
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
