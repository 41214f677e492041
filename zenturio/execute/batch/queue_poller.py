"""The threads that submit jobs, poll their queue, cancel them, and read what they leave."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Generic

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.batch.pilots import Pilots
from zenturio.execute.batch.system import (
    ArrayTask,
    BatchJob,
    BatchSystem,
    Options,
    QueueFullError,
    UnansweredError,
)
from zenturio.execute.batch.tickets import (
    ArraySubmission,
    BatchSession,
    BatchTicket,
    TicketTable,
    cancelled_outcome,
    job_outcome,
    loss_blame,
    loss_message,
    worker_died_outcome,
)
from zenturio.execute.experiment_codec import unpack_outcome
from zenturio.execute.worker import is_from_signal
from zenturio.experiment import Outcome

_log = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
"""Seconds that what comes waits for more, to be one job array with it."""
ARRAY_PAUSE_SECONDS = 0.5
"""Seconds between two job arrays, at the most: so that they are long ones."""
POLL_SHARE = 10
"""A look at the queue that took long is followed by so many times as long without one."""
SOON_SECONDS = 0.2
"""Seconds after which the queue is looked at again when something is to happen there."""
RETRY_SECONDS = 1.0
"""Seconds after which a batch system that did not answer is polled again."""
FULL_PAUSE_SECONDS = 10.0
"""Seconds after which more jobs are submitted where no more were taken."""
MOST_LOSSES = 3
"""How many jobs of an experiment may be lost before the place is taken for broken."""
MOST_DEATHS = 5
"""How many workers may die under an experiment before it is taken for the cause."""
CLOSING_COMMAND_SECONDS = 10.0
"""Seconds that a command of the batch system may take when all is to end."""
CLOSING_COMMANDS = 3
"""So many of them may be waited for after the end of all patience."""
UNREADABLE_SECONDS = 60.0
"""Seconds that an outcome may be there and cannot be read, after its job has ended."""


class QueuePoller(Generic[Options]):
    """Brings the tickets of *table* into the queue, and learns there what becomes of them."""

    def __init__(
        self,
        table: TicketTable,
        submission: ArraySubmission[Options],
        system: BatchSystem[Options],
        remark: Callable[[str], None],
        pilots: Pilots,
        unpacked: Callable[[bytes, str], Outcome],
    ) -> None:
        self._table = table
        self._submission = submission
        self._system = system
        self._options = system.options
        self._remark = remark
        self._pilots = pilots
        self._unpack = unpacked
        self._recalls = False
        """Whether pending jobs are to be cancelled and run by pilot jobs."""
        self._lost_digests: dict[str, list[str]] = {}
        """Experiments to be begun again that are not told of yet, by what became of their jobs."""
        self._wake_event = Event()
        self._closed_at: float | None = None
        self._next_poll = self._next_array = self._silent_until = 0.0
        self._is_gathering = False
        """Whether something waits for more, to be submitted with it."""
        self._soon_seconds = SOON_SECONDS
        self._thread = Thread(target=self._loop, name="zenturio-queue", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Wake the poller: there are new tickets or requests to cancel."""
        self._wake_event.set()

    def fetch(self) -> None:
        """Give pilot jobs all experiments that wait, and those that no job has begun."""
        self._recalls = True
        self._wake_event.set()

    def poll_soon(self) -> None:
        """Poll the queue soon, because a decision needs its state."""
        self._soon_seconds = min(SOON_SECONDS, self._options.poll)
        self._next_poll = min(self._next_poll, monotonic() + self._soon_seconds)
        self._wake_event.set()

    def close(self, patience: float) -> None:
        """Until no ticket is left, or *patience* is over."""
        self._system.patience = min(self._system.patience, CLOSING_COMMAND_SECONDS)
        self._closed_at = monotonic() + patience
        self._wake_event.set()
        self._thread.join(patience + CLOSING_COMMANDS * CLOSING_COMMAND_SECONDS)

    def _loop(self) -> None:
        try:
            while not self._is_done():
                self._wait()
                try:
                    self._step()
                except UnansweredError as error:
                    self._silent_until = monotonic() + RETRY_SECONDS
                    name = self._system.name
                    self._remark(f"{name} does not respond; zenturio tries again: {error}")
                except QueueFullError as error:
                    self._next_array = monotonic() + FULL_PAUSE_SECONDS
                    self._remark(
                        f"{self._system.name} accepts no more jobs for now; submitting again "
                        f"later: {error}"
                    )
                except PlaceError as error:
                    self._fail(error)
        except BaseException as error:  # whoever waits is not to wait for ever
            self._fail(PlaceError(f"the thread that polls the queue failed: {error!r}"))
            raise

    def _is_done(self) -> bool:
        if self._closed_at is None:
            return False
        return not len(self._table) or monotonic() > self._closed_at

    def _wait(self) -> None:
        """Until there is something to do."""
        now = monotonic()
        due = [now + 60.0] if self._closed_at is None else [now + SOON_SECONDS]
        if self._table.queued():
            due.append(self._next_poll)
        if self._table.waiting and self._table.room:
            due.append(self._next_array)
        seconds = max(min(due), self._silent_until) - now
        if seconds > 0 and self._wake_event.wait(seconds) and self._closed_at is None:
            self._wake_event.clear()
            if self._table.waiting and not self._is_gathering:
                self._is_gathering = True
                self._next_array = max(self._next_array, monotonic() + GATHER_SECONDS)

    def _step(self) -> None:
        now = monotonic()
        if now < self._silent_until:
            return
        if self._closed_at is not None:
            self._cancel_all()
        self._cancel()
        if self._pilots.are_ready and self._closed_at is None:
            self._hand_to_pilots()
        if self._table.waiting and self._table.room and now >= self._next_array:
            self._is_gathering = False
            self._next_array = monotonic() + min(ARRAY_PAUSE_SECONDS, self._options.poll)
            self._next_poll = min(self._next_poll, self._next_array)
            self._submission.submit()
        if monotonic() >= self._next_poll and self._table.queued():
            self._poll()

    def _cancel_all(self) -> None:
        for ticket in self._table.drain():
            ticket.session.drop(ticket.digest)
            if ticket.start():
                ticket.set_result(cancelled_outcome(ticket.digest, None))
        for ticket in self._table.queued():
            ticket.cancel_requested = True

    def _cancel(self) -> None:
        """End the jobs of what is to end; those that are not known yet will do nothing."""
        for ticket in self._table.take_matching(lambda ticket: ticket.cancel_requested):
            ticket.session.drop(ticket.digest)
            ticket.set_result(cancelled_outcome(ticket.digest, None))
        submitted: list[BatchTicket] = []
        for ticket in self._table.queued():
            if ticket.cancel_requested and not ticket.cancel_sent:
                ticket.session.parcel(ticket.digest).unlink(missing_ok=True)
                if self._submission.jobs(ticket):
                    submitted.append(ticket)
        if submitted:
            self._system.cancel(self._submission.cancel_targets(submitted))
            _log.debug("cancelled %d experiments in the queue", len(submitted))
            for ticket in submitted:
                ticket.cancel_sent = True
            self.poll_soon()

    def _hand_to_pilots(self) -> None:
        """To pilots, what waits for jobs; what has its job in the queue is taken off first."""
        for ticket in self._table.take_matching(self._pilots.takes):
            self._hand_over(ticket)
        if not self._recalls:
            return
        waiting = [t for t in self._table.queued() if self._is_to_be_fetched(t)]
        if jobs := self._arrays(waiting):
            self._system.recall(jobs)
            for ticket in waiting:
                ticket.recalled = True
            self.poll_soon()
        self._recalls = False

    def _arrays(self, tickets: Iterable[BatchTicket]) -> list[str]:
        names = {ticket.task[0] for ticket in tickets if ticket.task and not ticket.adopted}
        return sorted(job for name in names for job in self._submission.arrays(name))

    def _is_to_be_fetched(self, ticket: BatchTicket) -> bool:
        return not (
            ticket.began or ticket.cancel_requested or ticket.adopted
        ) and self._pilots.takes(ticket)

    def _hand_over(self, ticket: BatchTicket) -> None:
        """To pilots; if these have just gone it waits for a job as before."""
        if self._pilots.run(ticket):
            ticket.session.drop(ticket.digest)
        else:
            self._table.add(ticket)

    def _poll(self) -> None:
        """Look at the queue once, for all."""
        tickets = self._table.queued()
        began = monotonic()
        jobs_of = self._system.look({t.task[0] for t in tickets if t.task})
        took = monotonic() - began
        _log.debug("a look at the queue took %.2f s: %d tasks", took, len(jobs_of))
        # A controller under load answers slowly: the slower it is, the less it is asked.
        self._next_poll = monotonic() + max(self._options.poll, POLL_SHARE * took)
        for (name, _), jobs in jobs_of.items():
            for job in jobs:
                self._submission.record_job(name, job.array)
        self._submission.resolve()
        # A task that no node could start is held for an administrator: it would wait for ever.
        dead = [
            (job.array, number)
            for (_, number), jobs in jobs_of.items()
            for job in jobs
            if job.is_unlaunchable
        ]
        if dead:  # which counts as lost, so that another one is submitted
            self._system.cancel(dead)
        for ticket in tickets:
            self._judge(ticket, _job_of_ticket(ticket, jobs_of))
        self._report_lost()
        waiting = [t for t in self._table.queued() if not t.began]
        if self._pilots.begin(self._table.waiting + len(waiting)):
            stuck_arrays = {job.array for jobs in jobs_of.values() for job in jobs if job.is_stuck}
            # Else pilots would come behind all of it; what is held would begin by that.
            self._system.step_back(
                array for array in self._arrays(waiting) if array not in stuck_arrays
            )
        if any(t.cancel_requested for t in self._table.queued()):  # soon, but less and less often
            self._soon_seconds = min(self._soon_seconds * 2, self._options.poll)
            self._next_poll = min(
                self._next_poll, monotonic() + max(self._soon_seconds, POLL_SHARE * took)
            )

    def _judge(self, ticket: BatchTicket, job: BatchJob | None) -> None:
        """Decide from the state of its job what becomes of a ticket."""
        if ticket.done() or ticket.task is None:
            return
        if job is not None and not job.ended:
            self._on_alive(ticket, job)
        elif job is not None or self._submission.is_known(ticket.task[0]):
            self._on_ended(ticket, job)

    def _on_alive(self, ticket: BatchTicket, job: BatchJob) -> None:
        ticket.gone_since = None
        ticket.began = ticket.began or job.begun
        ticket.recalled = ticket.recalled and not job.begun
        if job.is_stuck:
            message = f"{self._system.name} holds jobs that may never run"
            self._remark(f"{message}: {job.reason} (job {job.array})")

    def _on_ended(self, ticket: BatchTicket, job: BatchJob | None) -> None:
        _log.debug("job of %.12s ended as %s", ticket.digest, job.state if job else "vanished")
        assert ticket.task is not None
        session, task = ticket.session, ticket.task
        if ticket.recalled and not ticket.cancel_requested and not session.has_begun(task):
            if self._table.withdraw(ticket):
                self._hand_over(ticket)
            return
        # Each start of a requeued task has files of its own: those of former starts do not count.
        start = _last_start(ticket, job)
        start_content, stored = None, None
        try:
            start_content = session.start(task, start)
            stored = self._unpack(start_content, ticket.digest) if start_content else None
        except PlaceError as error:
            ticket.fault = error
        is_over = stored or ticket.fault or session.setup_failed(task, start)
        if ticket.cancel_requested:
            self._table.settle(ticket, cancelled_outcome(ticket.digest, stored))
        elif is_over or self._is_overdue(ticket):
            job = job or self._how_ended(ticket)
            # What a signal may have brought about means nothing until it is known whose that was.
            if job is not None or not stored or self._is_overdue(ticket):
                self._settle(ticket, job, stored, begun=start_content is not None)

    @staticmethod
    def _has_outcome(ticket: BatchTicket) -> bool:
        return ticket.session.outcome(ticket.digest).exists()

    def _how_ended(self, ticket: BatchTicket) -> BatchJob | None:
        """Return the job of *ticket*, which the queue shows no more, as it is remembered."""
        for task in self._submission.jobs(ticket):
            if job := self._system.how_ended(task):
                return job
        return None

    def _is_overdue(self, ticket: BatchTicket) -> bool:
        """Return whether nothing will be seen any more of what the job of *ticket* left."""
        if ticket.gone_since is None:
            ticket.gone_since = monotonic()
        # File servers show a new file late on other machines: the outcome has this long to appear.
        seconds = monotonic() - ticket.gone_since - self._options.grace
        if self._has_outcome(ticket):  # it is just being read
            return seconds >= UNREADABLE_SECONDS
        return seconds >= 0

    def _settle(
        self, ticket: BatchTicket, job: BatchJob | None, stored: Outcome | None, *, begun: bool
    ) -> None:
        """Settle a ticket whose job is over with the files that it left."""
        assert ticket.task is not None
        outcome = None if ticket.fault else job_outcome(ticket.digest, job, stored, begun=begun)
        if outcome is not None:
            self._table.settle(ticket, outcome)
            return
        fault = "place" if ticket.fault else loss_blame(job, begun=begun)
        ticket.losses[fault] += 1
        if fault == "experiment" and ticket.losses[fault] >= MOST_DEATHS:
            self._table.settle(ticket, worker_died_outcome(ticket.digest, job, MOST_DEATHS))
        elif fault == "place" and (error := self._place_error(ticket, job)):
            self._table.settle(ticket, error)
            ticket.session.drop(ticket.digest)
        else:
            words = str(ticket.fault or loss_message(job))
            self._lost_digests.setdefault(words, []).append(ticket.digest[:12])
            self._submission.resubmit([ticket])

    def _place_error(self, ticket: BatchTicket, job: BatchJob | None) -> PlaceError | None:
        """Return why no other job will run *ticket* either, if that is so."""
        assert ticket.task is not None
        session, task = ticket.session, ticket.task
        message = str(ticket.fault or loss_message(job))
        log = session.log_end(task)
        is_taken = job is not None and job.taken
        if session.setup_failed(task, _last_start(ticket, job)) and not is_taken:
            node = f" on {job.node}" if job is not None and job.node else ""
            hint = "see setup in [places.NAME] of zenturio.toml"
            return PlaceError(f"the setup of the place failed{node}: {log}", hint=hint)
        if ticket.losses["place"] < MOST_LOSSES:
            return None
        hint = f"do the nodes see {session.path}, and do they have the Python that it names?"
        detail = log or f"it printed nothing: {hint}"
        message = (
            f"experiment {ticket.digest[:12]}: {message}, for the {MOST_LOSSES}rd time; {detail}"
        )
        return PlaceError(message, hint=hint)

    def _report_lost(self) -> None:
        """Log which experiments start again, in one line."""
        for message, digests in self._lost_digests.items():
            subject = f"{len(digests)} experiments, such as" if len(digests) > 1 else "experiment"
            self._remark(f"{subject} {digests[0]}: {message}; begun again")
        self._lost_digests.clear()

    def _fail(self, error: PlaceError) -> None:
        for ticket in self._table.drain():
            if ticket.start():
                ticket.set_exception(error)
        for ticket in self._table.queued():
            self._table.settle(ticket, error)


def _last_start(ticket: BatchTicket, job: BatchJob | None) -> int:
    """Return the number of the last start of the task of *ticket*."""
    assert ticket.task is not None
    if job is not None and job.restarts is not None:
        return job.restarts
    return ticket.session.last_start(ticket.task)


def _job_of_ticket(
    ticket: BatchTicket, jobs_of: Mapping[ArrayTask, list[BatchJob]]
) -> BatchJob | None:
    """Return the job of *ticket*: of several with its name, a living one, or the recorded one."""
    jobs = jobs_of.get(ticket.task, []) if ticket.task else []
    if len(jobs) < 2 or ticket.task is None:
        return jobs[0] if jobs else None
    recorded = ticket.session.job(ticket.task[0])
    # The job whose number the link X.job names is the one that runs; the other does nothing.
    return max(jobs, key=lambda job: (not job.ended, job.array == recorded))


CLOSING_SECONDS = 10.0
"""Seconds that closing waits for a disk that does not answer."""
LONGEST_PAUSE_SECONDS = 1.0
"""Seconds between two checks of the folder, at the most."""


class OutcomeReader:
    """Looks into the folders of *sessions* for outcomes of tickets in *table*."""

    def __init__(
        self,
        table: TicketTable,
        sessions: list[BatchSession],
        incoming: Path,
        poll: float,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        """*on_outcome* is called with each outcome."""
        self._table = table
        self._sessions = sessions
        self._incoming = incoming
        self._pause = max(min(poll / 5, LONGEST_PAUSE_SECONDS), 0.02)
        self._heard = on_outcome
        self._closed = Event()
        self._thread = Thread(target=self._drive, name="zenturio-outcome-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(CLOSING_SECONDS)

    def _drive(self) -> None:
        while not self._closed.wait(self._pause):
            self.read()

    def read(self) -> None:
        """Settle what has an outcome."""
        for session in list(self._sessions):
            for digest in session.ended():
                self._take(session, digest)

    def outcome(self, session: BatchSession, digest: str) -> Outcome | None:
        """Return what can be read of that experiment; raises what its worker could not do."""
        with suppress(OSError):  # a shared disk may show it a moment later
            return self.unpacked(session.content(session.outcome(digest)), digest)
        return None

    def unpacked(self, data: bytes, digest: str) -> Outcome:
        """Return what a worker wrote of that experiment.

        PlaceError where that is no outcome of it.
        """
        return unpack_outcome(data, digest, self._incoming)

    def _take(self, session: BatchSession, digest: str) -> None:
        ticket = self._table.find(digest)
        if ticket is None or ticket.session is not session:
            return
        try:
            outcome = self.outcome(session, digest)
        except PlaceError as error:  # another job may be luckier
            ticket.fault = error
            _log.info("outcome of %.12s cannot be used: %s", digest, error)
            session.outcome(digest).unlink(missing_ok=True)
            return
        except ZenError as error:
            self._table.settle(ticket, error)
            session.drop(digest)
            return
        if outcome is None:
            return
        if ticket.cancel_requested:
            outcome = cancelled_outcome(digest, outcome)
        # A job that is cancelled or preempted gets SIGTERM: that says nothing of the experiment.
        elif is_from_signal(outcome):  # of a job that an earlier version submitted
            session.outcome(digest).unlink(missing_ok=True)
            return
        _log.debug("outcome of %.12s read: %s", digest, outcome.status)
        self._heard(outcome)
        self._table.settle(ticket, outcome)
