"""Drive a study to its end: keep the place busy, commit in groups, survive failures.

What is decided about an experiment is decided in `experiment_states`; here its commands are applied
to the repository, the place, the source and the observers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from zenturio.annotate.model import Goal
from zenturio.errors import Interrupted, PlaceError, RecordError
from zenturio.execute.executor import Executor
from zenturio.experiment import MachineKind, Outcome
from zenturio.experiment.experiment import (
    SUCCEEDED,
    Kinds,
    ProgramIdentity,
    log_end,
    written_failure,
)
from zenturio.record import Lease, Repository
from zenturio.study.driver import experiment_states as states
from zenturio.study.driver.experiment_source import (
    ExperimentSource,
    JudgesOutcomes,
    Proposals,
    SkipsCached,
    TracksArrivalOrder,
)
from zenturio.study.driver.experiment_states import ExperimentStates, StopRequested
from zenturio.study.driver.in_flight import (
    Inbox,
    InFlight,
    SynchronousExecutor,
    SynchronousInFlight,
)
from zenturio.study.driver.progress import (
    LINES,
    ExecutableChanges,
    FailureGroup,
    ResultChecks,
    RunCounts,
    RunProgress,
    RunSummary,
)
from zenturio.study.driver.stop_requests import CancelRequests, stop_on_signals
from zenturio.study.driver.study_records import (
    GROUP,
    WAIT,
    LeaseKeeper,
    OnlyState,
    OptimisticRecords,
    StudyRecords,
    UnrecordedOutcomes,
    with_position,
)

if TYPE_CHECKING:
    from zenturio.execute.machines import QuietMachine
    from zenturio.study.driver.cached_points import CachedPoints
    from zenturio.study.driver.observers import Observers

AHEAD = 0.25
"""Seconds of work that are claimed ahead: enough for the place never to wait."""
ELSEWHERE = 1.0
"""Seconds between two checks of what other drivers hold."""
MOST_NAMED = 3
"""Other drivers that are named while the run waits for them."""
QUIET = 5.0
"""Seconds for which a repository that failed is left alone while experiments still run."""
CANCEL_POLL = 1.0
"""Seconds between two checks of requests to cancel."""
KILLING = 10.0
"""Seconds in which cancelled experiments return, at most: more than any place's grace."""
CAUSES = 10
"""Causes of failures of which the summary shows the end of a log."""

AnyExecutor = Executor | SynchronousExecutor
ProgressListener = Callable[[RunProgress], None]


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """How a run behaves."""

    fail_fast: bool = False
    retry: int | None = None
    """Attempts beyond the first; what the RUN line says, if none is given."""
    lease: float = 60.0
    """Seconds of silence after which another driver may take over what this one had claimed."""
    any_machine: bool = False
    """Whether results of another kind of machine count as cached, too."""
    again: bool = False
    """Whether what has results is measured again, in a round of its own."""
    each_machine: bool = False
    """Whether each kind of machine of the place measures everything; else any of them does."""
    observers: tuple[str, ...] = ()
    """The plug-ins that are called for each transition of an experiment, by name."""
    go_on: bool = False
    """Whether to go on although the first experiments fail for one cause of the study itself."""
    for_search: bool = False
    """Whether a search chose the points, and learns from those that fail."""
    quiet_machine: bool = False
    """Whether experiments start only while this machine is quiet."""


DEFAULT_SETTINGS = DriverSettings()


class StudyDriver:
    """One driver of one study, from its first claim to its last commit.

    `drive` runs in one thread, which alone touches the repository and the states of experiments.
    Others only write to the `inbox`; `stop` does so, too.
    """

    def __init__(
        self,
        study: str,
        lease: Lease,
        repository: Repository,
        executor: AnyExecutor,
        source: ExperimentSource,
        *,
        only: frozenset[OnlyState] = frozenset({"missing"}),
        goals: tuple[Goal, ...] = (),
        settings: DriverSettings = DEFAULT_SETTINGS,
        listener: ProgressListener = lambda _progress: None,
        programs: ExecutableChanges | None = None,
        kinds: Callable[[], Kinds] = lambda: None,
        round_: int | None = None,
        observers: Observers | None = None,
        unrecorded: UnrecordedOutcomes | None = None,
        checks: ResultChecks | None = None,
    ) -> None:
        """With *kinds* only results of these machines count as cached, with *round_* its.

        What the repository does not take in the end is put into *unrecorded*, and taken from there
        instead of run.
        """
        self.inbox: Inbox = SimpleQueue()
        self._study = study
        self._repository = repository
        self._source = source
        self._proposals = Proposals(source)
        self._goals = goals
        self._programs = programs or ExecutableChanges()
        self._cached_points: CachedPoints | None = None
        if isinstance(source, SkipsCached):
            source.skip_cached(self._load_cached_points)
        self._quiet_machine: QuietMachine | None = None
        if settings.quiet_machine:
            # Most runs do not ask for it.
            from zenturio.execute import machines  # noqa: PLC0415 - see above

            self._quiet_machine = machines.QuietMachine()
        self._fail_fast = settings.fail_fast
        self._go_on = settings.go_on
        self._listener = listener
        self._lease_keeper = LeaseKeeper(repository, lease)
        self._unrecorded = unrecorded
        self._kinds = kinds
        self._counts = RunCounts(
            study,
            executor.slots,
            goals,
            programs,
            is_one_machine=getattr(executor, "machine", None) is not None,
            is_search=settings.for_search or isinstance(source, TracksArrivalOrder),
            checks=checks,
        )
        self._in_flight: InFlight
        self._records: StudyRecords
        record = study, lease.number, repository, only, kinds, round_
        if isinstance(executor, SynchronousExecutor):
            self._records = unclaimed = OptimisticRecords(*record)
            self._in_flight = SynchronousInFlight(executor, self.inbox, unclaimed)
        else:
            self._records = StudyRecords(*record)
            self._in_flight = InFlight(executor, self.inbox)
            if isinstance(source, JudgesOutcomes):
                self._in_flight.judge = source.judge
        self._observers = observers
        self._states = ExperimentStates(settings.retry, is_observed=observers is not None)
        self._pace = self._records.pace()
        self._stops = 0
        self._has_failed_fast = False
        self._next_look = 0.0
        self._cancel_requests: CancelRequests | None = None
        self._next_cancel_poll = 0.0
        self._quiet_until = 0.0
        self._actions: dict[type[Any], Callable[[Any], states.Event | None]] = {
            states.Propose: self._propose,
            states.LookUp: self._look_up,
            states.ClaimBatch: self._claim,
            states.Submit: self._submit,
            states.Cancel: self._cancel,
            states.AwaitCommit: self._await_commit,
            states.Record: self._record,
            states.RecordAttempts: self._record_attempts,
            states.ReportCached: self._report_cached,
            states.ReportRecorded: self._report_recorded,
            states.Forget: self._forget,
            states.AbortRun: self._abort_run,
        }

    def look_ahead(self) -> tuple[int, int]:
        """Make and look up the first batch; return its size, and how many of it are cached."""
        proposed = self._propose(states.Propose(1))
        self._handle(proposed)
        return len(proposed.experiments), self._counts.cached

    def other_machines(self) -> Counter[MachineKind]:
        """Return which other kinds of machine have results of what is to be run first."""
        return self._records.other_machines(self._states.waiting)

    @property
    def has_completed(self) -> bool:
        """Whether it ran until nothing was left, and was not stopped."""
        return self._is_over() and not self._stops

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped it; with --fail-fast, or a faulty study, failures do."""
        return self._stops > 0 and not self._has_failed_fast

    def drive(self) -> RunSummary:
        """Run until nothing is left, or until it is stopped."""
        began = monotonic()
        in_flight = self._in_flight
        stopping = stop_on_signals(in_flight.request_stop, in_flight.signals)
        with stopping, self._lease_keeper, self._records.committing():
            try:
                self._loop()
            except BaseException as error:
                self._abandon(error)
                raise
        interrupted = self.is_stopped
        self._counts.conclude()
        self._report_progress()
        seconds = monotonic() - began
        summary = self._counts.summary(self._source.total, seconds, interrupted=interrupted)
        failures = tuple(self._with_log_ends(summary.failures))
        return replace(summary, failures=failures, skipped=self._states.skipped)

    def stop(self) -> None:
        """Start nothing more; asked again, kill what runs. Any thread may call it."""
        self.inbox.put(StopRequested())

    def watch(self, requests: CancelRequests) -> None:
        """From now on, cancel the experiments that *requests* name."""
        self._cancel_requests = requests

    def announce(self, text: str) -> None:
        """Report *text* with the next progress."""
        self._counts.announce(text)

    def _loop(self) -> None:
        self._receive(0.0)  # a stop that came before the first experiment was submitted
        while True:
            self._lease_keeper.check()
            self._read_cancel_requests()
            if self._stops > 1:
                raise Interrupted(
                    f"study {self._study} was stopped; its running experiments were killed"
                )
            has_more = False
            if not self._in_flight or monotonic() >= self._quiet_until:
                try:
                    has_more = self._advance()
                except RecordError:
                    # What runs may have cost hours: the repository may be back when it ends.
                    if not self._in_flight.is_running:
                        raise
                    self._quiet_until = monotonic() + QUIET
            if self._is_over():
                return
            self._receive(0.0 if has_more else WAIT if self._states.unrecorded else ELSEWHERE)
            self._report_progress()

    def _handle(self, event: states.Event) -> None:
        """Pass *event* to the state machine, do what it commands, and pass on the answers."""
        commands = self._states.handle(event)
        if self._observers is not None:
            for failure in self._observers.observe(self._states.take_transitions()):
                self._counts.announce(failure)
        for command in commands:
            # The answer is handled before the next command: what was done must not be forgotten
            # where that fails.
            answer = self._actions[type(command)](command)
            if answer is not None:
                self._handle(answer)

    def _advance(self) -> bool:
        """Commit, and fill the place; return whether more can be done at once."""
        # While the place idles, the next experiment may depend on outcomes that wait.
        if self._pace.is_due or len(self._in_flight) < self._in_flight.slots:
            self._handle(states.CommitDue())
            # Not reached where the repository failed: the commit is due again at once.
            self._pace.reset()
        if self._stops:
            self._in_flight.cancel_queued()
            return False
        if self._states.has_to_look_elsewhere and monotonic() >= self._next_look:
            self._look_elsewhere()
            self._next_look = monotonic() + ELSEWHERE
        return not self._has_to_wait() and self._fill()

    def _has_to_wait(self) -> bool:
        """Return whether the machine is too busy to start an experiment on."""
        if self._quiet_machine is None or self._states.is_dry:
            return False
        reason = self._quiet_machine.wait_reason(has_running=bool(self._in_flight))
        if reason:
            self._counts.announce(reason)
        return bool(reason)

    def _fill(self) -> bool:
        """Submit as many experiments as there is room for, and a few more; see `_advance`."""
        slots, submitted = self._in_flight.slots, len(self._in_flight)
        if self._quiet_machine is not None:  # what waits at the place would start whatever happens
            if submitted < slots:
                self._handle(states.PlaceHasRoom(slots - submitted))
            return False
        ahead = max(min(int(self._counts.rate * AHEAD), GROUP), self._in_flight.wants)
        room = max(slots * 2, ahead) - submitted
        if room <= 0 or (submitted > slots and room < ahead // 4):
            return False
        self._handle(states.PlaceHasRoom(room))
        return len(self._in_flight) < slots and not self._states.is_dry

    def _is_over(self) -> bool:
        if self._in_flight or self._states.unrecorded:
            return False
        if self._stops:
            return True
        # A search that waits for an experiment that was left out would wait for ever.
        waits = self._states.elsewhere or self._source.expecting
        return self._states.is_dry and not waits

    def _receive(self, seconds: float) -> None:
        """Wait for a message, and take all that are there, or as many as a commit holds."""
        for event in self._in_flight.arrivals(seconds):
            self._stops += isinstance(event, StopRequested)
            self._handle(event)
            if self._pace.is_full:
                return

    def _read_cancel_requests(self) -> None:
        if self._cancel_requests is None or monotonic() < self._next_cancel_poll:
            return
        self._next_cancel_poll = monotonic() + CANCEL_POLL
        for digest in self._cancel_requests.unwanted():
            self._handle(states.CancelRequested(digest))

    def _look_elsewhere(self) -> None:
        """Look up what others hold; RecordError where all is refused and no other driver is alive.

        Asked before the look and after it: who held it at the last refusal may have ended since,
        and the look gets what it recorded or gave back; another driver may have come meanwhile.
        """
        is_alone = self._states.is_stalled and not self._waits_for_others()
        while self._states.elsewhere:
            self._handle(states.LookElsewhere())
        if not is_alone:
            return
        self._fill()
        if self._states.is_stalled and self._states.elsewhere and not self._waits_for_others():
            digest = self._states.elsewhere[0].experiment.digest
            raise RecordError(
                f"the database neither grants experiment {digest[:12]} nor has its outcome,"
                " and no other driver is alive",
                hint="see what `zen db check` says",
            )

    def _waits_for_others(self) -> bool:
        """Return whether any other driver is alive, and say for which ones the run waits."""
        drivers = self._records.other_drivers()
        if not drivers:
            return False
        names = [f"process {d.pid} on {d.host} (study {d.study})" for d in drivers[:MOST_NAMED]]
        unnamed = f" and {len(drivers) - MOST_NAMED:,} more" if drivers[MOST_NAMED:] else ""
        self._counts.announce(
            f"waiting for experiments that other drivers have claimed: {', '.join(names)}{unnamed}"
        )
        return True

    def _abandon(self, error: BaseException) -> None:
        """Kill what runs; keep what has finished all the same."""
        self._states.handle(StopRequested())
        # Killed before the claims are given back with the lease: else another driver would run the
        # same experiments beside these.
        self._in_flight.cancel_all()
        end = monotonic() + KILLING
        while self._in_flight and monotonic() < end:
            # The first error of its kind has ended the run already.
            with suppress(PlaceError):
                for event in self._in_flight.arrivals(end - monotonic()):
                    self._handle(event)
        if isinstance(error, RecordError):  # which has been tried with patience
            self._keep_unrecorded()
            return
        try:
            self._handle(states.CommitDue())
        except RecordError:
            self._keep_unrecorded()

    # What the commands of the state machine mean. Each returns the event that answers it.

    def _propose(self, command: states.Propose) -> states.Proposed:
        proposed = self._proposals.make(command.count)
        if self._cached_points is not None:
            self._counts.recall(self._cached_points.take_tally())
        return proposed

    def _load_cached_points(self, program: ProgramIdentity) -> CachedPoints | None:
        """Return what the source need not make; None where each is to be looked up."""
        # Observers hear of each experiment, and what was not recorded is looked for by digest.
        if self._observers is None and not self._unrecorded:
            # Where the repository fails, the look-ups say so, with patience.
            with suppress(RecordError):
                self._cached_points = self._records.cached_points(
                    program, self._goals, self._programs
                )
        return self._cached_points

    def _look_up(self, command: states.LookUp) -> states.Event:
        return self._records.look_up(command.batch, again=command.again)

    def _claim(self, command: states.ClaimBatch) -> states.Event:
        try:
            attempts = self._records.claim(command.batch)
        except BaseException:
            self._handle(states.ClaimFailed(command.batch))
            raise
        return states.ClaimAnswered(command.batch, attempts)

    def _submit(self, command: states.Submit) -> None:
        # The states say submitted already. If the place fails in the middle, the run ends, and the
        # claims of the rest are given back with the lease.
        for tracked in command.batch:
            if (outcome := self._unrecorded_outcome(tracked.experiment.digest)) is not None:
                self._in_flight.restore(tracked, outcome)
            else:
                self._in_flight.submit(tracked)

    def _unrecorded_outcome(self, digest: str) -> Outcome | None:
        """Return what an earlier driver measured and could not record."""
        return self._unrecorded.find(digest, self._kinds()) if self._unrecorded else None

    def _keep_unrecorded(self) -> None:
        """Put what has finished and cannot be committed where the next run finds it."""
        if self._unrecorded is None:
            return
        for command in self._states.handle(states.CommitDue()):
            if isinstance(command, states.Record):
                count = self._unrecorded.keep(outcome for _, outcome in command.outcomes)
                ended = sum(outcome.status != "cancelled" for _, outcome in command.outcomes)
                if count:
                    self._counts.announce(
                        f"{_outcomes(count)} could not be recorded: the next run records "
                        f"{'it' if count == 1 else 'them'} from the folder .zenturio"
                    )
                if count < ended:
                    self._counts.announce(
                        f"{_outcomes(ended - count)} could neither be recorded nor kept: the"
                        " next run measures again"
                    )
                self._report_progress()

    def _discard_recorded(self, digests: Iterable[str]) -> None:
        if self._unrecorded:
            self._unrecorded.discard(digests)

    def _cancel(self, command: states.Cancel) -> None:
        self._in_flight.cancel(command.digest)
        if self._cancel_requests is not None:
            self._cancel_requests.take_back(command.digest)

    def _await_commit(self, command: states.AwaitCommit) -> None:
        may_end_run = self._fail_fast and command.are_last
        has_failed = may_end_run and any(o.status not in SUCCEEDED for _, o in command.outcomes)
        self._pace.add(command.outcomes, urgent=has_failed)

    def _record(self, command: states.Record) -> states.Event:
        outcomes = command.outcomes
        if isinstance(self._source, TracksArrivalOrder):
            # Written in the commit of the outcome: the next proposal may depend on it.
            outcomes = [
                (tracked, with_position(outcome, self._source.arrived(tracked.experiment)))
                for tracked, outcome in outcomes
            ]
        return states.Recorded(command.outcomes, set(self._records.record(outcomes)))

    def _record_attempts(self, command: states.RecordAttempts) -> states.Event:
        self._records.record_attempts(command.outcomes)
        return states.AttemptsRecorded(command.outcomes)

    def _report_cached(self, command: states.ReportCached) -> None:
        self._discard_recorded(experiment.digest for experiment, _ in command.outcomes)
        for experiment, outcome in command.outcomes:
            self._source.complete(experiment, outcome)
            self._counts.recalled(experiment, outcome)
            self._in_flight.learn(outcome)

    def _report_recorded(self, command: states.ReportRecorded) -> states.Event | None:
        has_failed = False
        self._discard_recorded(tracked.experiment.digest for tracked, _ in command.outcomes)
        for tracked, outcome in command.outcomes:
            self._counts.ended(tracked.experiment, outcome)
            self._source.complete(tracked.experiment, outcome)
            has_failed |= outcome.status not in SUCCEEDED
        if not has_failed or self._stops:
            return None
        if not self._fail_fast:
            if self._go_on or not self._counts.is_study_faulty:
                return None
            if self._counts.failed == self._source.total:
                return None  # there are no others that could be spared
            self._counts.report_fault()
        self._has_failed_fast = True
        self._stops = 1
        return StopRequested()

    def _forget(self, command: states.Forget) -> None:
        for tracked, _ in command.outcomes:
            self._in_flight.forget(tracked.experiment.digest)

    def _abort_run(self, command: states.AbortRun) -> None:
        tracked = command.tracked
        raise PlaceError(
            f"experiment {tracked.experiment.digest[:12]} came back {tracked.losses} times"
            " without an outcome",
            hint="check the place where it runs",
        )

    def _report_progress(self) -> None:
        try:
            # What waits for a slot does not run yet.
            running = min(len(self._in_flight), self._in_flight.slots)
            progress = self._counts.progress(self._source.total, running, self._states.skipped)
            remarks = (*self._in_flight.remarks(), *self._counts.news())
            self._listener(replace(progress, remarks=remarks) if remarks else progress)
        except OSError:
            # The terminal or pipe of the listener is gone; the study goes on.
            self._listener = lambda _progress: None

    def _with_log_ends(self, failures: Iterable[FailureGroup]) -> Iterator[FailureGroup]:
        """Yield *failures* with the end of a log, also of those that failed in earlier runs."""
        for number, failure in enumerate(failures):
            if failure.end or number >= CAUSES:
                yield failure
            else:
                logs = self._repository.logs(failure.digest)
                end = log_end(logs.stderr, logs.stdout, LINES)[1]
                is_one = failure.count == 1
                written = written_failure(failure.cause, logs.stderr) if is_one else failure.written
                yield replace(failure, end=end, written=written)


def _outcomes(count: int) -> str:
    return "1 outcome" if count == 1 else f"{count:,} outcomes"
