"""The plain values that repositories take and return, and the identity of a driver's process."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zenturio.experiment.experiment import (
    HostConditions,
    HostDetails,
    Log,
    MachineKind,
    MetricValue,
    Outcome,
)
from zenturio.system.processes import process_birth, realm

if TYPE_CHECKING:
    from zenturio.expression import Type, Value


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """A process that drives a study."""

    host: str
    pid: int
    born: str
    """Boot, process namespace and start time: with the pid, one process only."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells two drivers in one process apart; a driver that asks again is recognised by it."""

    @staticmethod
    def current() -> DriverProcess:
        """This process."""
        pid = os.getpid()
        return DriverProcess(socket.gethostname(), pid, process_birth(pid) or "")

    def has_exited(self) -> bool:
        """Return whether the process has certainly exited; false where this host cannot tell.

        A boot or a process namespace that is not ours may be another machine of the same name,
        so its drivers are believed until their lease runs out.
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
"""The note of a study of versions that ran beside each other: which, and in how many blocks."""
PAIRED_ROUND = "paired round"
"""The kind of events that say that the measurement of a round of such a study suffices."""
BUDGET_SPENT = ", the budget is spent"
"""What the text of such an event ends with where time ended the round."""
SPACES = "spaces"
"""The note of a definition with the fingerprints of all spaces that the study was run with."""
SEED_KIND = "seed"
"""The kind of a value that differs between repeats of a point: stored as a parameter."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a metric of a study."""

    name: str
    type: Type | None = None
    unit: str = ""
    kind: str = ""
    """Of a parameter: where it goes (``substitute``, ``assign``, ``env``, ``param``), or SEED."""
    how: str = ""
    """Of a metric: what measures it, as written. Where two studies share an experiment, they
    share the metrics that agree in name and in this."""
    exact: bool = field(default=False, kw_only=True)
    """Of a metric: whether it has the same value on every kind of machine."""


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """The definition of a study: parameters, metrics, objectives, and where it came from."""

    parameters: tuple[Field, ...] = ()
    metrics: tuple[Field, ...] = ()
    goals: tuple[Any, ...] = ()
    """Anything JSON."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Anything JSON."""
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
    """Seconds since 1970, UTC, by the database's clock."""
    version: int = 1
    """NAME@VERSION means it, whatever becomes of its name."""


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
    """Tells the process from others with the same pid: see `DriverProcess`."""
    order_seed: str = field(default="", compare=False)
    """Of the newest round, where acquiring the lease has read it."""

    def driver_has_exited(self) -> bool:
        """Return whether the process of that driver has certainly ended."""
        return DriverProcess(self.host, self.pid, self.born).has_exited()


class RecordKey(NamedTuple):
    """Where a record stands in the order of its study."""

    number: int
    """The point's index in the space."""
    repeat: int
    row: int
    """The number of its attempt."""


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """One experiment of a study: what it was, how it stands, and what came out."""

    key: RecordKey
    digest: str
    state: ExperimentState
    values: Mapping[str, Value]
    outcome: Outcome | None
    """Without logs and artifacts; none while there is none."""
    round: int = 1
    """The round that measured it."""
    newest: bool = True
    """Whether no later round measured it on this kind of machine."""

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
    """Who began it."""
    reason: str = ""
    is_open: bool = False
    """Whether it was begun to measure again, and not all of that has ended."""
    seed: str = ""
    """Of the order in which its experiments run; empty before a run drew one."""


@dataclass(frozen=True, slots=True)
class ResultCount:
    """How many results of a study have a kind of machine, a round and a status."""

    machine: MachineKind | None
    round: int
    status: ExperimentState
    count: int


@dataclass(frozen=True, slots=True)
class StudyStanding:
    """What is recorded of a study, but for its experiments."""

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
    """When something happened to it last: its creation, if nothing did since."""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt at an experiment."""

    number: int
    state: AttemptState
    driver: int
    """The number of the lease under which it was made."""
    host: str = ""
    started: float = 0.0
    ended: float | None = None
    cause: str = ""
    exit: int | None = None
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    """Its metrics, unless it is the accepted one: those are the experiment's."""
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
    """Of the experiment that was run; empty if it was removed since."""


REDACTION_EVENT = "redacted"
"""The kind of events that tell that a secret was removed from a record."""


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
    """Chosen by the submitter: the same token again is the same submission."""
    user: str
    study: str
    request: Mapping[str, Any]
    """What to run, and how, as JSON."""
    submitted: float
    turn: SubmissionState = "waiting"
    begun: float | None = None
    ended: float | None = None
    cause: str = ""
    """Why it ended as it did, in words."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Its progress, as the service last reported it, as JSON."""
    verified: bool = False
    """Whether the server or the service checked that *user* submitted it."""


@dataclass(frozen=True, slots=True)
class StudyDeletion:
    """What the deletion of a study removes, or would remove."""

    study: str
    experiments: int
    """That no other study has."""
    shared: int
    """That other studies have too: these keep them."""
    attempts: int
    log_bytes: int
    artifacts: tuple[str, ...]
    """The files of artifacts that nothing else needs."""
    foreign: tuple[str, ...] = ()
    """Those among them that are not in the project, and stay."""
