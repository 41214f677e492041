"""Drive a study to its end: keep the place busy, record in groups, survive what happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic

from zenturio.annotate.model import Goal
from zenturio.errors import Interrupted, RecordError
from zenturio.execute.executor import AdaptsToRuntime, Executor
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.experiment.failure import log_end
from zenturio.experiment.machine import Kinds
from zenturio.record import Lease, Repository
from zenturio.study.driver.cancel_requests import CancelRequests
from zenturio.study.driver.experiment_source import ExperimentSource
from zenturio.study.driver.in_flight import InFlight
from zenturio.study.driver.lease_keeper import LeaseKeeper
from zenturio.study.driver.outcome_buffer import GROUP, WAIT, OutcomeBuffer
from zenturio.study.driver.program_history import ProgramHistory
from zenturio.study.driver.progress import FailureGroup, RunProgress, RunSummary
from zenturio.study.driver.run_counts import LINES, RunCounts
from zenturio.study.driver.stop_signals import stop_on_signals
from zenturio.study.driver.work_queue import BATCH, ClaimedExperiment, OnlyState, WorkQueue

AHEAD = 0.25
"""Seconds of work that are claimed ahead: enough for the place never to wait."""
ELSEWHERE = 1.0
"""Seconds between two looks at what other drivers hold."""
QUIET = 5.0
"""Seconds for which a repository that failed is left alone while experiments still run."""
HEED = 1.0
"""Seconds between two looks at what others wish."""
KILLING = 10.0
"""Seconds within which what was killed is back, at the most: more than any place's grace."""
CAUSES = 10
"""Causes of failures of which the summary shows the end of a log."""

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


DEFAULT_SETTINGS = DriverSettings()


class StudyDriver:
    """One driver at one study, from its first claim to its last commit."""

    def __init__(
        self,
        study: str,
        lease: Lease,
        repository: Repository,
        executor: Executor,
        source: ExperimentSource,
        *,
        only: frozenset[OnlyState] = frozenset({"missing"}),
        goals: tuple[Goal, ...] = (),
        settings: DriverSettings = DEFAULT_SETTINGS,
        listener: ProgressListener = lambda _progress: None,
        programs: ProgramHistory | None = None,
        kinds: Callable[[], Kinds] = lambda: None,
        round_: int | None = None,
    ) -> None:
        """With *kinds* only results of these machines count as cached, with a round only its."""
        self._study = study
        self._repository = repository
        self._slots = executor.slots
        self._place = executor
        self._learning = executor if isinstance(executor, AdaptsToRuntime) else None
        self._source = source
        self._fail_fast = settings.fail_fast
        self._listener = listener
        self._heart = LeaseKeeper(repository, lease)
        self._tally = RunCounts(study, executor.slots, goals, programs)
        self._flight = InFlight(executor)
        self._supply = WorkQueue(
            study, lease.number, repository, source, only, self._recalled, kinds, round_
        )
        self._journal = OutcomeBuffer(
            study,
            lease.number,
            repository,
            settings.retry,
            settings.fail_fast,
            self._accepted,
            self._refused,
            self._again,
        )
        self._stops = 0
        self._failed_fast = False
        self._next_look = 0.0
        self._wishes: CancelRequests | None = None
        self._next_wish = 0.0
        self._quiet = 0.0

    def look_ahead(self) -> tuple[int, int]:
        """Make the first batch; how many experiments it had, and how many of them are known."""
        made = self._supply.look_ahead()
        return made, self._tally.known

    def other_machines(self) -> Counter[MachineKind]:
        """Of what is to be run of the first batch: which other kinds of machine have results."""
        return self._supply.other_machines()

    @property
    def has_completed(self) -> bool:
        """Whether it went on until nothing was left, and nobody stopped it."""
        return self._is_over() and not self._stops

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped it; a failure with --fail-fast is nobody."""
        return self._stops > 0 and not self._failed_fast

    def drive(self) -> RunSummary:
        """Run until nothing is left, or until somebody stops it."""
        began = monotonic()
        with stop_on_signals(self.stop), self._heart:
            try:
                self._loop()
            except BaseException as error:
                self._abandon(error)
                raise
        interrupted = self.is_stopped
        self._tally.conclude()
        self._tell()
        seconds = monotonic() - began
        summary = self._tally.summary(self._source.total, seconds, interrupted=interrupted)
        return replace(summary, failures=tuple(self._with_end(summary.failures)))

    def _with_end(self, failures: Iterable[FailureGroup]) -> Iterator[FailureGroup]:
        """Each with the end of what its example said, also of those that failed before."""
        for number, each in enumerate(failures):
            if each.end or number >= CAUSES:
                yield each
            else:
                logs = self._repository.logs(each.digest)
                yield replace(each, end=log_end(logs.stderr, logs.stdout, LINES)[1])

    def stop(self) -> None:
        """Take nothing more; asked again, kill what runs."""
        self._stops += 1
        self._flight.wake()

    def wake(self) -> None:
        """Look for more to run at once: the source has something new."""
        self._flight.wake()

    def heed(self, wishes: CancelRequests) -> None:
        """From now on, cancel what these say."""
        self._wishes = wishes

    def _loop(self) -> None:
        while True:
            self._heart.check()
            self._obey()
            if self._stops > 1:
                raise Interrupted(f"study {self._study} was stopped; what ran was killed")
            more = False
            if not self._flight or monotonic() >= self._quiet:
                try:
                    more = self._advance()
                except RecordError:
                    # What runs may have cost hours: the repository may be back when it ends.
                    if not self._flight:
                        raise
                    self._quiet = monotonic() + QUIET
            if self._is_over():
                return
            self._hear(0.0 if more else WAIT if self._journal else ELSEWHERE)
            self._tell()

    def _obey(self) -> None:
        if self._wishes is None or monotonic() < self._next_wish:
            return
        self._next_wish = monotonic() + HEED
        for digest in self._wishes.unwanted():
            if self._flight.drop(digest):
                self._wishes.take_back(digest)

    def _advance(self) -> bool:
        """Commit, and give the place what it has room for; whether more can be done at once."""
        if self._journal.due() or len(self._flight) < self._slots:  # which waits for a search
            self._journal.commit(retry=self._stops == 0)
        if self._stops:
            self._flight.take_back()
            return False
        supply = self._supply
        waits = supply.dry or supply.elsewhere >= BATCH  # dry: a search may wait for just these
        if supply.elsewhere and waits and monotonic() >= self._next_look:
            supply.look_elsewhere()
            self._next_look = monotonic() + ELSEWHERE
        return self._fill()

    def _fill(self) -> bool:
        """Give the place what it has room for, and a little more, so that it never waits."""
        ahead = max(min(int(self._tally.rate * AHEAD), GROUP), getattr(self._place, "wants", 0))
        room = max(self._slots * 2, ahead) - len(self._flight)
        if room <= 0 or (len(self._flight) > self._slots and room < ahead // 4):
            return False
        for ready in self._supply.take(room):
            self._flight.submit(ready)
        return len(self._flight) < self._slots and not self._supply.dry

    def _is_over(self) -> bool:
        if self._flight or self._journal:
            return False
        # A search that waits for an experiment that was left out would wait for ever.
        if self._stops:
            return True
        waits = self._supply.elsewhere or self._source.expecting
        return self._supply.dry and not waits

    def _hear(self, seconds: float) -> None:
        """Wait until something has ended, and take all that has, or as much as a commit holds."""
        for ready, outcome in self._flight.hear(seconds):
            if outcome is not None:
                self._journal.add(ready, outcome)
            elif self._stops:
                self._supply.release(ready.experiment)
            else:
                self._supply.back(ready)
            if self._journal.full:
                return

    def _abandon(self, error: BaseException) -> None:
        """Kill what runs; keep what ended all the same."""
        for ready, outcome in self._flight.kill(KILLING):
            if outcome is not None:
                self._journal.add(ready, outcome)
        if not isinstance(error, RecordError):  # which has been tried with patience
            with suppress(RecordError):
                self._journal.commit(retry=False)

    def _accepted(self, experiment: Experiment, outcome: Outcome) -> None:
        self._flight.forget(experiment.digest)
        self._supply.release(experiment)
        self._tally.ended(experiment, outcome)
        self._source.land(experiment, outcome)
        if outcome.status != "ok" and self._fail_fast and not self._stops:
            self._failed_fast = True
            self.stop()

    def _recalled(self, experiment: Experiment, outcome: Outcome) -> None:
        self._tally.recalled(experiment, outcome)
        if self._learning is not None:
            self._learning.learn(outcome)

    def _refused(self, experiment: Experiment) -> None:
        self._flight.forget(experiment.digest)
        self._supply.leave_to_others(experiment)

    def _again(self, tried: list[ClaimedExperiment]) -> None:
        for ready in tried:
            self._flight.forget(ready.experiment.digest)
        self._supply.retry(tried)

    def _tell(self) -> None:
        try:
            # What waits for a slot does not run yet.
            running, skipped = min(len(self._flight), self._slots), self._supply.skipped
            progress = self._tally.progress(self._source.total, running, skipped)
            remarks = (*self._flight.remarks(), *self._tally.news())
            self._listener(replace(progress, remarks=remarks) if remarks else progress)
        except OSError:
            # Who looked on has gone, with their terminal or their pipe; the study goes on.
            self._listener = lambda _progress: None
