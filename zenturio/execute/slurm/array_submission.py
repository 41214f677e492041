"""Tickets become job arrays, each submitted once, whatever is heard of it."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from time import monotonic

from zenturio.errors import PlaceError
from zenturio.execute.slurm.job_script import JobPaths, SlurmOptions, array_script
from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm.ticket_table import SlurmTicket, TicketTable
from zenturio.execute.slurm_commands import (
    ArrayTooLongError,
    QueueFullError,
    SlurmCommands,
    UnansweredError,
)
from zenturio.failpoints import Failpoint

_log = logging.getLogger(__name__)

SUBMITTING = Failpoint("slurm.submitting")
SUBMITTED = Failpoint("slurm.submitted")

UNSURE_SECONDS = 5.0
"""Seconds in which a job whose submission was not answered shows up, if there is one."""


class ArraySubmission:
    """Hands the tickets of *desk* to the queue, and knows which jobs they are."""

    def __init__(
        self,
        desk: TicketTable,
        session: SlurmSession,
        options: SlurmOptions,
        paths: JobPaths,
        queue: SlurmCommands,
    ) -> None:
        self._desk = desk
        self._session = session
        self._options = options
        self._paths = paths
        self._queue = queue
        self._longest_allowed = self._longest = options.array
        self._count = 0
        self._prefix = f"zen-{secrets.token_hex(4)}"
        self._jobs: dict[str, set[str]] = {}
        """The numbers of a job array by its name: one, if nothing went wrong."""
        self._unconfirmed: dict[str, float] = {}
        """Names whose submission was not answered, and when that was."""

    @property
    def is_sure(self) -> bool:
        """Whether Slurm answered all that was submitted."""
        return not self._unconfirmed

    def submit(self) -> None:
        """One array of those that wait first.

        UnansweredError where Slurm does not say whether it has it, FullError where it takes no more
        for now.
        """
        tickets = self._desk.take(self._longest)
        if not tickets:
            return
        name = f"{self._prefix}-{self._count:06}"
        self._count += 1
        for number, ticket in enumerate(tickets):
            ticket.task = (name, number)
        self._desk.enter(tickets)
        try:
            text = array_script(name, len(tickets), tickets[0].demand, self._options, self._paths)
            path = self._session.write(name, text, [ticket.digest for ticket in tickets])
            # The list of digests is on the disk before sbatch is called: after kill -9 the next
            # driver finds the array by its name, whether sbatch got through or not.
            SUBMITTING()
            self._jobs[name] = {self._queue.submit(path)}
            SUBMITTED()
            _log.debug(
                "submitted %s: %d experiments, job %s", name, len(tickets), *self._jobs[name]
            )
            self._longest = min(max(self._longest, 2 * len(tickets)), self._longest_allowed)
        except ArrayTooLongError as error:
            if len(tickets) == 1:
                self._fail(tickets, PlaceError(str(error)))
            self._longest_allowed = self._longest = max(len(tickets) // 2, 1)
            self._desk.put_back(tickets)
        except QueueFullError:
            self._longest = max(len(tickets) // 2, 1)
            self._desk.put_back(tickets)
            raise
        except UnansweredError:
            self._unconfirmed[name] = monotonic()
            _log.info("submission of %s was not answered", name)
            raise
        except PlaceError as error:
            self._fail(tickets, error)

    def adopt(self, ticket: SlurmTicket) -> None:
        """One whose driver died: its job is in the queue, or was, or has never been submitted."""
        assert ticket.task is not None
        name = ticket.task[0]
        job = ticket.session.job(name)
        if job:
            self.record_job(name, job)
        elif name not in self._jobs:
            self._unconfirmed.setdefault(name, monotonic())
        self._desk.enter([ticket])

    def cancel_targets(self, tickets: list[SlurmTicket]) -> list[str]:
        """Return what scancel is to be told for *tickets*.

        An array that ends as a whole in one word.
        """
        ending = Counter(ticket.task[0] for ticket in tickets if ticket.task)
        queued = Counter(ticket.task[0] for ticket in self._desk.queued() if ticket.task)
        ending_arrays = {name for name, count in ending.items() if count == queued[name]}
        targets: dict[str, None] = {}
        for ticket in tickets:
            assert ticket.task is not None
            is_whole = not ticket.adopted and ticket.task[0] in ending_arrays
            jobs = self._jobs.get(ticket.task[0], ()) if is_whole else self.jobs(ticket)
            targets |= dict.fromkeys(jobs)
        return list(targets)

    def arrays(self, name: str) -> list[str]:
        """Return the job arrays of that name, as far as they are known."""
        return sorted(self._jobs.get(name, ()))

    def jobs(self, ticket: SlurmTicket) -> list[str]:
        """Return what scancel is to be told for *ticket*; nothing as long as that is not known."""
        assert ticket.task is not None
        name, number = ticket.task
        return [f"{job}_{number}" for job in self.arrays(name)]

    def record_job(self, name: str, job: str) -> None:
        """The queue shows *job* under that name."""
        self._jobs.setdefault(name, set()).add(job)
        self._unconfirmed.pop(name, None)

    def is_known(self, name: str) -> bool:
        """Return whether there certainly was a job of that name."""
        return name in self._jobs

    def resolve(self) -> None:
        """After a look at the queue: what did not show up for long is submitted once more.

        Either a task of the array has begun, or none ever will: see `Session.give_up`.
        """
        for name, since in list(self._unconfirmed.items()):
            if monotonic() - since < UNSURE_SECONDS:
                continue
            del self._unconfirmed[name]
            tickets = [t for t in self._desk.queued() if t.task and t.task[0] == name]
            if not tickets:
                continue
            session = tickets[0].session
            # Never submit twice: first make sure that no task of the silent submission can begin.
            if session.give_up(name):
                self.resubmit(tickets)
            else:
                self.record_job(name, session.job(name))

    def resubmit(self, tickets: list[SlurmTicket]) -> None:
        """Their jobs will not run them: others are submitted for them."""
        _log.info("%d experiments are submitted again", len(tickets))
        self._desk.put_back(tickets)
        for ticket in tickets:
            ticket.restart()
            self._move_here(ticket)

    def _move_here(self, ticket: SlurmTicket) -> None:
        """From the folder of a driver that died into ours."""
        if ticket.adopted:
            parcel = ticket.session.parcel(ticket.digest).read_bytes()
            self._session.put(ticket.digest, parcel)
            ticket.session.drop(ticket.digest)
            ticket.session, ticket.adopted = self._session, False

    def _fail(self, tickets: list[SlurmTicket], error: PlaceError) -> None:
        for ticket in tickets:
            self._desk.settle(ticket, error)
            ticket.session.drop(ticket.digest)
