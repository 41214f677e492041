"""The states of the experiments of a run: events go in, commands come out.

The driver passes events to this module, and executes the commands that it returns. Nothing here
reads a clock, starts a thread or touches a repository, so each decision can be read and tested
alone::

    proposed -> waiting -> claiming -> claimed -> submitted -> finished -> recorded
        |          ^          |           ^           |           |
        |          |          v           |           |           +-> elsewhere (superseded)
        |          +---- elsewhere        +-----------+ returned by its place
        |          |                                  |
        |          +------------------- failed <------+ with attempts left
        +-> cached | skipped                          +-> cancelling -> finished

Whatever is claimed or at a place when a run is stopped is *released*: the next driver finds it.

An experiment is *submitted* while it runs, too: no decision of the driver depends on the
difference, and an executor does not report it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, get_args

from zenturio.experiment import Experiment, Outcome

logger = logging.getLogger(__name__)

LOSSES = 3
"""A place that returns an experiment without an outcome so often is at fault."""
REFUSALS = 10
"""After so many refused claims in a row, it is asked whether any other driver is alive."""
LOOK_UPS = 2048
"""Experiments that other drivers hold and that are looked up together, at most."""

State = Literal[
    "proposed",  # made by the source, not looked up yet
    "waiting",  # to be run, and nobody holds it
    "claiming",  # asked for in the repository
    "elsewhere",  # another driver holds it, or another point here is the same experiment
    "claimed",  # held by this driver, not at a place
    "submitted",  # at its place: queued there, or running
    "cancelling",  # the same, and a user asked for its end
    "failed",  # an attempt failed that is recorded before the next one
    "finished",  # its outcome waits for the next commit
    "cached",  # had an outcome
    "skipped",  # not in a state that the run is to run
    "recorded",  # its outcome is accepted
    "released",  # left to the next driver
]
Step = Literal[
    "is_cached",
    "is_missing",
    "is_skipped",
    "is_asked_for",
    "is_duplicate",
    "is_granted",
    "is_refused",
    "is_not_answered",
    "is_submitted",
    "is_returned",
    "is_given_up",
    "is_unwanted",
    "has_finished",
    "has_failed",
    "is_accepted",
    "is_superseded",
    "is_retried",
    "is_not_retried",
]

STATES: tuple[State, ...] = get_args(State)
STEPS: tuple[Step, ...] = get_args(Step)
OVER: frozenset[State] = frozenset({"cached", "skipped", "recorded", "released"})
"""States without a next one; such experiments are not held in memory."""

TRANSITIONS: Mapping[tuple[State, Step], State] = {
    ("proposed", "is_cached"): "cached",
    ("proposed", "is_missing"): "waiting",
    ("proposed", "is_skipped"): "skipped",
    ("waiting", "is_asked_for"): "claiming",
    ("waiting", "is_duplicate"): "elsewhere",
    ("claiming", "is_granted"): "claimed",
    ("claiming", "is_refused"): "elsewhere",
    ("claiming", "is_not_answered"): "waiting",
    ("elsewhere", "is_cached"): "cached",
    ("elsewhere", "is_missing"): "waiting",
    ("claimed", "is_submitted"): "submitted",
    ("submitted", "is_returned"): "claimed",
    ("submitted", "is_given_up"): "released",
    ("submitted", "is_unwanted"): "cancelling",
    ("submitted", "has_finished"): "finished",
    ("submitted", "has_failed"): "failed",
    ("cancelling", "has_finished"): "finished",
    ("finished", "is_accepted"): "recorded",
    ("finished", "is_superseded"): "elsewhere",
    ("failed", "is_retried"): "waiting",
    ("failed", "is_not_retried"): "released",
}


class ImpossibleTransition(RuntimeError):
    """An event that cannot happen to an experiment in its state: a fault of the driver."""


@dataclass(slots=True, eq=False)
class TrackedExperiment:
    """An experiment of this run, and what it has come to."""

    experiment: Experiment
    state: State = "proposed"
    attempt: int = 0
    """The number of the attempt that this driver holds the claim on."""
    tries: int = 1
    """Which try this is in this run, from 1: what RETRY counts."""
    losses: int = 0
    """How often its place returned it."""
    outcome: Outcome | None = None
    """What came of this attempt, or was cached."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of an experiment, as reported to observers."""

    experiment: Experiment
    before: State
    after: State
    attempt: int = 0
    """The number of the attempt that this driver holds the claim on; 0 before it has one."""
    outcome: Outcome | None = None
    """From the states cached, failed and finished on: what came of it."""


Batch = Sequence[TrackedExperiment]
Pair = tuple[TrackedExperiment, Outcome]


# Events: what happened. One event for a batch, for a driver starts a thousand experiments a second.


@dataclass(frozen=True, slots=True)
class Proposed:
    """The source made *experiments*; with *exhausted* it has no more now, with *over* none ever."""

    experiments: Sequence[Experiment]
    exhausted: bool
    over: bool


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The repository has *outcomes* of some of *batch*; those of *missing* are to be run."""

    batch: Batch
    outcomes: Mapping[str, Outcome]
    missing: AbstractSet[str]


@dataclass(frozen=True, slots=True)
class PlaceHasRoom:
    """The place has room for *count* more experiments."""

    count: int


@dataclass(frozen=True, slots=True)
class ClaimAnswered:
    """The repository granted the *attempts*, by digest; others of *batch* are held elsewhere."""

    batch: Batch
    attempts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ClaimFailed:
    """The repository failed to claim *batch*."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Finished:
    """The place has run experiments to their *outcomes*."""

    outcomes: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class Returned:
    """The place returned an experiment without an outcome, at the time *at*."""

    tracked: TrackedExperiment
    at: float


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A user wants the experiment cancelled that has *digest*."""

    digest: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """No more experiments are to be started."""


@dataclass(frozen=True, slots=True)
class CommitDue:
    """It is time to record what has finished."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The repository has *outcomes*; it accepted those with *accepted* digests."""

    outcomes: Sequence[Pair]
    accepted: AbstractSet[str]


@dataclass(frozen=True, slots=True)
class AttemptsRecorded:
    """The repository has the failed attempts *outcomes*, which are not the last ones."""

    outcomes: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class LookElsewhere:
    """It is time to see what became of the experiments that others hold."""


Event = (
    Proposed
    | LookedUp
    | PlaceHasRoom
    | ClaimAnswered
    | ClaimFailed
    | Finished
    | Returned
    | CancelRequested
    | StopRequested
    | CommitDue
    | Recorded
    | AttemptsRecorded
    | LookElsewhere
)


# Commands: what the driver is to do now.


@dataclass(frozen=True, slots=True)
class Propose:
    """Make *count* experiments, or more where that is cheap: answer `Proposed`."""

    count: int


@dataclass(frozen=True, slots=True)
class LookUp:
    """See which of *batch* have outcomes: answer `LookedUp`.

    With *again* they were looked up before, and another driver had them.
    """

    batch: Batch
    again: bool = False


@dataclass(frozen=True, slots=True)
class ClaimBatch:
    """Claim *batch* in the repository: answer `ClaimAnswered`, or `ClaimFailed`."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit *batch* to the place, in this order."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel an experiment at its place, and reply to the request."""

    digest: str


@dataclass(frozen=True, slots=True)
class AwaitCommit:
    """Outcomes wait for the next commit; with *are_last* no other attempts will follow."""

    outcomes: Sequence[Pair]
    are_last: bool


@dataclass(frozen=True, slots=True)
class Record:
    """Record *outcomes*: answer `Recorded`."""

    outcomes: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class RecordAttempts:
    """Record *outcomes* as attempts that others will follow: answer `AttemptsRecorded`."""

    outcomes: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class ReportCached:
    """Tell search and progress of *outcomes* that were there."""

    outcomes: Sequence[tuple[Experiment, Outcome]]


@dataclass(frozen=True, slots=True)
class ReportRecorded:
    """Tell search and progress of *outcomes* that are recorded now."""

    outcomes: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class Forget:
    """Tell the place that these outcomes are recorded, and need not be kept."""

    outcomes: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class AbortRun:
    """End the run: the place returned an experiment too often."""

    tracked: TrackedExperiment


Command = (
    Propose
    | LookUp
    | ClaimBatch
    | Submit
    | Cancel
    | AwaitCommit
    | Record
    | RecordAttempts
    | ReportCached
    | ReportRecorded
    | Forget
    | AbortRun
)
Commands = tuple[Command, ...]


class ExperimentStates:
    """All experiments of a run that are not over yet, in the order in which they are run.

    A command that was not answered, because the repository failed, leaves the experiments where
    they were; the next event of its kind asks for it again. Not thread-safe: only the driver's
    thread calls it.
    """

    def __init__(self, retry: int | None = None, *, is_observed: bool = False) -> None:
        """Retry failed experiments *retry* times; as often as their RUN line says, if None.

        If it *is_observed*, transitions are kept for `take_transitions`.
        """
        self._is_observed = is_observed
        self._transitions: list[Transition] = []
        self._retry = retry
        self._room = 0
        self._source_is_over = False
        self._source_is_dry = False
        self.is_stopping = False
        self.skipped = 0
        self.proposed: list[TrackedExperiment] = []
        self.waiting: deque[TrackedExperiment] = deque()
        self.elsewhere: list[TrackedExperiment] = []
        self.claimed: deque[TrackedExperiment] = deque()
        self.finished: list[Pair] = []
        self.failed: list[Pair] = []
        self.in_flight: dict[str, TrackedExperiment] = {}
        self._refusals = 0
        """Answers in a row that granted nothing, while nothing was in flight."""
        self._held: set[str] = set()
        """Digests from the claim to the record: the same experiment is never run twice at once."""
        self._handlers: dict[type[Any], Callable[[Any], Commands]] = {
            Proposed: self._on_proposed,
            LookedUp: self._on_looked_up,
            PlaceHasRoom: self._on_room,
            ClaimAnswered: self._on_claim_answered,
            ClaimFailed: self._on_claim_failed,
            Finished: self._on_finished,
            Returned: self._on_returned,
            CancelRequested: self._on_cancel_requested,
            StopRequested: self._on_stop_requested,
            CommitDue: self._on_commit_due,
            Recorded: self._on_recorded,
            AttemptsRecorded: self._on_attempts_recorded,
            LookElsewhere: self._on_look_elsewhere,
        }

    def handle(self, event: Event) -> Commands:
        """Take in *event*; return what the driver is to do, in this order."""
        return self._handlers[type(event)](event)

    def take_transitions(self) -> list[Transition]:
        """Return the transitions since the last call, in their order."""
        transitions, self._transitions = self._transitions, []
        return transitions

    @property
    def is_dry(self) -> bool:
        """Whether nothing can be run before an experiment in flight has its outcome."""
        source_has_none = self._source_is_over or self._source_is_dry
        return source_has_none and not (self.proposed or self.waiting or self.claimed)

    @property
    def has_to_look_elsewhere(self) -> bool:
        """Whether those that others hold keep the run from its end, or fill the memory."""
        # A search that has nothing now may wait for just these.
        return bool(self.elsewhere) and (self.is_dry or len(self.elsewhere) >= LOOK_UPS)

    @property
    def is_stalled(self) -> bool:
        """Whether all that is left was refused so often that some driver should be known."""
        return self._refusals >= REFUSALS and not self.in_flight

    @property
    def unrecorded(self) -> int:
        """How many outcomes wait for the next commit."""
        return len(self.finished) + len(self.failed)

    def _step(self, batch: Iterable[TrackedExperiment], step: Step) -> None:
        """Move *batch* on; ImpossibleTransition leaves the rest of it where it was."""
        logs = logger.isEnabledFor(logging.DEBUG)  # asked once: a batch may hold thousands
        for tracked in batch:
            before = tracked.state
            try:
                tracked.state = TRANSITIONS[before, step]
            except KeyError:
                digest = tracked.experiment.digest
                message = f"experiment {digest[:12]} is {before}: {step} is impossible"
                raise ImpossibleTransition(message) from None
            if self._is_observed:
                of, after = tracked.experiment, tracked.state
                outcome = tracked.outcome
                self._transitions.append(Transition(of, before, after, tracked.attempt, outcome))
            if logs:
                digest = tracked.experiment.digest[:12]
                logger.debug("%s: %s -> %s (%s)", digest, before, tracked.state, step)

    def _on_proposed(self, event: Proposed) -> Commands:
        if event.exhausted:
            self._source_is_over = event.over
        self._source_is_dry = event.exhausted and not event.experiments
        self.proposed += map(TrackedExperiment, event.experiments)
        return (LookUp(self.proposed[:]),) if self.proposed else self._claim_for_room()

    def _on_looked_up(self, event: LookedUp) -> Commands:
        cached, missing, skipped = [], [], []
        for tracked in event.batch:
            digest = tracked.experiment.digest
            if digest in event.missing:
                missing.append(tracked)
            elif digest in event.outcomes:
                tracked.outcome = event.outcomes[digest]
                cached.append(tracked)
            else:
                skipped.append(tracked)
        # Those that were elsewhere were not skipped when they were looked up first.
        self._step(cached, "is_cached")
        self._step(missing, "is_missing")
        self._step(skipped, "is_skipped")
        answered = set(map(id, event.batch))
        self.proposed = [tracked for tracked in self.proposed if id(tracked) not in answered]
        self.elsewhere = [tracked for tracked in self.elsewhere if id(tracked) not in answered]
        self.waiting += missing
        self.skipped += len(skipped)
        self._refusals = 0 if cached else self._refusals
        outcomes = event.outcomes
        pairs = [(t.experiment, outcomes[t.experiment.digest]) for t in cached]
        commands: Commands = (ReportCached(pairs),) if pairs else ()
        return commands + self._claim_for_room()

    def _on_room(self, event: PlaceHasRoom) -> Commands:
        if self.is_stopping:
            return ()
        if self.claimed:
            # Returned by the place. This driver still holds the claims, so they are asked for no
            # second time, and go before everything that waits.
            batch = [self.claimed.popleft() for _ in range(min(event.count, len(self.claimed)))]
            return self._submit(batch)
        # Kept for the answers: `Proposed` and `LookedUp` end in `_claim_for_room`.
        self._room = event.count
        if self.proposed:  # the repository failed when they were to be looked up
            return (LookUp(self.proposed[:]),)
        if len(self.waiting) < event.count and not self._source_is_over:
            return (Propose(event.count - len(self.waiting)),)
        return self._claim_for_room()

    def _claim_for_room(self) -> Commands:
        batch: dict[str, TrackedExperiment] = {}
        while self.waiting and len(batch) < self._room:
            tracked = self.waiting.popleft()
            digest = tracked.experiment.digest
            if digest in self._held or digest in batch:
                # Another point is the same experiment: this one waits for its outcome.
                self._step((tracked,), "is_duplicate")
                self.elsewhere.append(tracked)
            else:
                batch[digest] = tracked
        # Spent, so that a later look-up, which no room was asked for, claims nothing.
        self._room = 0
        if not batch:
            return ()
        claims = list(batch.values())
        self._step(claims, "is_asked_for")
        return (ClaimBatch(claims),)

    def _on_claim_answered(self, event: ClaimAnswered) -> Commands:
        granted, refused = [], []
        for tracked in event.batch:
            attempt = event.attempts.get(tracked.experiment.digest)
            if attempt is None:
                refused.append(tracked)
            else:
                tracked.attempt = attempt
                granted.append(tracked)
        self._step(granted, "is_granted")
        self._step(refused, "is_refused")
        self.elsewhere += refused
        self._held.update(event.attempts)
        # While something is in flight the run goes on anyway: a refusal is no reason to worry.
        self._refusals = 0 if granted or self.in_flight else self._refusals + 1
        return self._submit(granted)

    def _on_claim_failed(self, event: ClaimFailed) -> Commands:
        # If the repository granted it all the same, the next claim gives this driver its own again.
        self._step(event.batch, "is_not_answered")
        self.waiting.extendleft(reversed(event.batch))  # in front, in their order
        return ()

    def _submit(self, batch: Batch) -> Commands:
        self._step(batch, "is_submitted")
        self.in_flight |= {tracked.experiment.digest: tracked for tracked in batch}
        return (Submit(batch),) if batch else ()

    def _on_finished(self, event: Finished) -> Commands:
        commands: Commands = ()
        finished: list[Pair] = []
        failed: list[Pair] = []
        for pair in event.outcomes:
            tracked, outcome = pair
            tracked.outcome = outcome
            # Tried until it happened to be right, a wrong result would hide its fault.
            if outcome.status in ("ok", "warmup", "wrong") or tracked.state != "submitted":
                finished.append(pair)
            elif outcome.status == "cancelled":
                # By the place, or while the run is stopped: it is nobody's result.
                tracked.outcome = None
                commands += self._on_returned(Returned(tracked, outcome.ended or 0.0))
            else:
                (failed if self._is_retried(tracked) else finished).append(pair)
        self._step((tracked for tracked, _ in finished), "has_finished")
        self._step((tracked for tracked, _ in failed), "has_failed")
        for tracked, _ in chain(finished, failed):
            del self.in_flight[tracked.experiment.digest]
        self.finished += finished
        self.failed += failed
        if finished:
            commands += (AwaitCommit(finished, are_last=True),)
        return (*commands, AwaitCommit(failed, are_last=False)) if failed else commands

    def _is_retried(self, tracked: TrackedExperiment) -> bool:
        allowed = self._retry
        if allowed is None:
            allowed = max((step.retry for step in tracked.experiment.steps), default=0)
        return tracked.tries <= allowed

    def _on_returned(self, event: Returned) -> Commands:
        tracked = event.tracked
        digest = tracked.experiment.digest
        if tracked.state == "cancelling":
            # Cancelled before it ran: the user gets an outcome that says so.
            return self._on_finished(Finished([(tracked, _cancelled(tracked, event.at))]))
        self._step((tracked,), "is_given_up" if self.is_stopping else "is_returned")
        del self.in_flight[digest]
        if self.is_stopping:
            self._held.discard(digest)
            return ()
        # Not an attempt of the experiment, for the fault is the place's.
        self.claimed.append(tracked)
        tracked.losses += 1
        return (AbortRun(tracked),) if tracked.losses >= LOSSES else ()

    def _on_cancel_requested(self, event: CancelRequested) -> Commands:
        tracked = self.in_flight.get(event.digest)
        if tracked is None:
            return ()
        if tracked.state == "submitted":
            self._step((tracked,), "is_unwanted")
        return (Cancel(event.digest),)

    def _on_stop_requested(self, _event: StopRequested) -> Commands:
        self.is_stopping = True
        return ()

    def _on_commit_due(self, _event: CommitDue) -> Commands:
        commands: Commands = ()
        if self.finished:
            commands += (Record(self.finished[:]),)
        if self.failed:
            commands += (RecordAttempts(self.failed[:]),)
        return commands

    def _on_recorded(self, event: Recorded) -> Commands:
        accepted: list[Pair] = []
        superseded: list[Pair] = []
        # Accepted or not, the claim is used up: what was superseded may be claimed anew.
        for pair in event.outcomes:
            digest = pair[0].experiment.digest
            self._held.discard(digest)
            (accepted if digest in event.accepted else superseded).append(pair)
        self._step((tracked for tracked, _ in accepted), "is_accepted")
        late = [tracked for tracked, _ in superseded]
        self._step(late, "is_superseded")
        self.elsewhere += late
        # They are the first ones still: outcomes that came meanwhile are behind them.
        del self.finished[: len(event.outcomes)]
        return Forget(event.outcomes), ReportRecorded(accepted)

    def _on_attempts_recorded(self, event: AttemptsRecorded) -> Commands:
        batch = [tracked for tracked, _ in event.outcomes]
        self._step(batch, "is_not_retried" if self.is_stopping else "is_retried")
        self._held -= {tracked.experiment.digest for tracked in batch}
        del self.failed[: len(batch)]
        if self.is_stopping:  # the next driver finds them waiting in the repository
            return (Forget(event.outcomes),)
        for tracked in batch:
            tracked.tries += 1
            tracked.outcome = None
            tracked.losses = 0  # each attempt may be lost by its place anew
        self.waiting.extendleft(reversed(batch))
        return (Forget(event.outcomes),)

    def _on_look_elsewhere(self, _event: LookElsewhere) -> Commands:
        batch = list(islice(self.elsewhere, LOOK_UPS))
        return (LookUp(batch, again=True),) if batch else ()


def _cancelled(tracked: TrackedExperiment, at: float) -> Outcome:
    """Return the outcome of an experiment that was cancelled before it began."""
    return Outcome(
        tracked.experiment.digest,
        "cancelled",
        "cancelled",
        attempt=tracked.attempt,
        started=at,
        ended=at,
    )
