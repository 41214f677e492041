"""A cluster under a batch system as an executor, and its jobs as seen from outside."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from zenturio.errors import PlaceError
from zenturio.execute.batch.pilots import PilotOptions, Pilots
from zenturio.execute.batch.queue_poller import OutcomeReader, QueuePoller
from zenturio.execute.batch.system import (
    ArrayTask,
    BatchJob,
    BatchOptions,
    BatchSystem,
    JobDemand,
    JobPaths,
    UnansweredError,
    array_script,
)
from zenturio.execute.batch.tickets import (
    ArraySubmission,
    BatchSession,
    BatchTicket,
    TicketTable,
    cancelled_outcome,
)
from zenturio.execute.executor import ClosesOnExit, Progress
from zenturio.execute.experiment_codec import pack_experiment
from zenturio.execute.worker import is_from_signal
from zenturio.execute.workspace import Keep
from zenturio.experiment import INCOMING, Experiment, Outcome

_log = logging.getLogger(__name__)


LOOK_SECONDS = 5.0
"""Seconds that commands that only show the queue wait for the batch system."""


class BatchOutstanding:
    """The sessions below the folder of a place, and what the queue says of their jobs."""

    def __init__(self, folder: Path, system: BatchSystem[Any], project: Path) -> None:
        self._sessions = BatchSession.all(folder)
        self._system = system
        self._project = project

    def stages(self) -> dict[str, Progress]:
        """Return how far each experiment is that is not recorded, by digest."""
        progress: dict[str, Progress] = {}
        names = {name for session in self._sessions for name, _ in session.batches()}
        jobs_of: Mapping[ArrayTask, list[BatchJob]] = {}
        if names:
            self._system.patience = min(self._system.patience, LOOK_SECONDS)
            with suppress(UnansweredError, PlaceError):  # then nobody knows what runs
                jobs_of = self._system.look(names)
        for session in self._sessions:
            tasks, ended = session.tasks(), set(session.ended())
            for digest in session.digests():
                jobs = jobs_of.get(tasks[digest], []) if digest in tasks else []
                if digest in ended:
                    progress[digest] = "ended"
                elif any(job.begun for job in jobs):
                    progress[digest] = "running"
                elif digest in tasks:  # else it was about to be submitted
                    progress.setdefault(digest, "queued")
        return progress

    def cancel(self, digests: Collection[str]) -> int:
        """End the jobs of those that dead drivers have there; how many had one.

        What has ended already waits for who goes on. PlaceError where the batch system does not
        answer.
        """
        self._system.sweep_workers(self._project)
        requested, count = set(digests), 0
        for session in self._sessions:
            unfinished = requested & set(session.digests()) - set(session.ended())
            # The lock tells a dead driver from a living one, whose experiments are not touched.
            if not unfinished or not session.take():
                continue
            try:
                count += self._cancel(session, unfinished)
            finally:
                session.leave() if session.digests() else session.remove()
        return count

    def _cancel(self, session: BatchSession, digests: set[str]) -> int:
        tasks = session.tasks()
        ours = {tasks[digest] for digest in digests if digest in tasks}
        for digest in digests:
            session.drop(digest)  # what has not begun does nothing from now on
        try:
            found_jobs = self._system.look({name for name, _ in ours}) if ours else {}
            self._system.cancel(
                [
                    (job.array, task[1])
                    for task, jobs in found_jobs.items()
                    for job in jobs
                    if task in ours and not job.ended
                ]
            )
        except UnansweredError as error:
            raise PlaceError(
                f"{error}; jobs that wait there will end without running anything, running jobs "
                "continue",
                hint=f"try again later, or use the commands of {self._system.name}",
            ) from error
        return len(ours)


DEFAULT_JOBS = 500
"""Experiments in the queue at once, by default."""
CLOSING_SECONDS = 90.0
"""Seconds that closing waits for the batch system to end what ran."""


class BatchExecutor(ClosesOnExit):
    """Run experiments as tasks of job arrays, and find those of a driver that died.

    Short ones may go to workers that stay (see pilots), which end with the driver. Every parcel and
    every outcome lies in a folder that the nodes see: below the project's, or below the one that
    the options name. Outcomes that were not forgotten stay there when the place is closed: whoever
    asks for the same experiment gets it. A subclass says which batch system it is.
    """

    System: ClassVar[type[BatchSystem[Any]]]
    Options: ClassVar[type[BatchOptions]] = BatchOptions

    def __init__(
        self,
        folder: Path = Path(".zenturio"),
        jobs: int | None = None,
        *,
        keep: Keep = "never",
        pin: bool = False,  # noqa: ARG002 - the batch system itself binds what it starts
        options: BatchOptions | None = None,
    ) -> None:
        """*jobs*: the most in the queue at once, running or pending."""
        self.slots = jobs or DEFAULT_JOBS
        self.remarks: deque[str] = deque()
        """What the user should know, each once; whoever shows it takes it off."""
        self._options = options = options or self.Options()
        self._system = system = self.System(options)
        self._folder = self._place_folder(folder, options)
        BatchSession.sweep(self._folder)
        # Pilots of dead drivers would wait in the queue and start for nobody.
        system.sweep_workers(folder.absolute())
        self._session = BatchSession.begin(self._folder)
        self._sessions = [self._session]
        """Our own, and those that were taken over."""
        self._sent_messages: set[str] = set()
        self._lock = Lock()
        self._closed = False
        paths = _job_paths(folder, options, self._session.path, keep)
        try:
            self._pilots = Pilots(
                options if isinstance(options, PilotOptions) else None,
                partial(system.open_workers, folder, keep),
                self._remark,
                self._fetch,
                self._submit_own_job,
            )
        except BaseException:
            self._session.remove()
            raise
        self._table = TicketTable(self.slots)
        self._submission = ArraySubmission(self._table, self._session, system, paths)
        incoming = folder.absolute() / INCOMING
        self._reader = OutcomeReader(
            self._table, self._sessions, incoming, options.poll, self.learn
        )
        self._poller = QueuePoller(
            self._table, self._submission, system, self._remark, self._pilots, self._reader.unpacked
        )
        self._shared = paths.shared

    def submit(self, experiment: Experiment) -> BatchTicket:
        """Take an experiment, or find its job, or what that left."""
        with self._lock:
            if self._closed:
                ticket = self._ticket(experiment, self._session)
                ticket.set_exception(PlaceError("this place is closed"))
                return ticket
            self._table.forget(experiment.digest)
            self._pilots.count_submission()
            return self._adopt(experiment) or self._new(experiment)

    @property
    def wants(self) -> int:
        """How many it likes to have: short ones travel together."""
        return self._pilots.wants

    def learn(self, outcome: Outcome) -> None:
        """Note the duration of an experiment that was run before, at any place."""
        if outcome.status == "ok":
            self._pilots.learn(outcome.ended - outcome.started)

    def forget(self, digest: str) -> None:
        """Remove the files of an experiment whose outcome is recorded."""
        self._table.forget(digest)

    def close(self) -> None:
        """Cancel all that is in the queue, and waits for its end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # Pilots first: what they hand back must not be submitted to a queue that is being emptied.
        self._pilots.close()
        self._poller.close(CLOSING_SECONDS)
        self._reader.close()
        self._reader.read()
        for ticket in self._table.queued():  # not all of them were answered for
            self._table.settle(ticket, cancelled_outcome(ticket.digest, None))
        for session in self._sessions:
            if session.digests():
                session.leave()
            else:
                session.remove()

    @classmethod
    def left(cls, folder: Path, options: BatchOptions) -> BatchOutstanding:
        """Return what drivers have there."""
        return BatchOutstanding(cls._place_folder(folder, options), cls.System(options), folder)

    @classmethod
    def script(cls, folder: Path, options: BatchOptions) -> str:
        """Return what a job would be."""
        return cls._preview_script(JobDemand(), 1, folder, options)

    @classmethod
    def preview(
        cls, experiment: Experiment, count: int, folder: Path, options: BatchOptions
    ) -> str:
        """Return the script with which *count* experiments like this one would be submitted."""
        return cls._preview_script(JobDemand.of(experiment), count, folder, options)

    def check(self) -> Iterable[str]:
        """Return what is wrong with the cluster, in words; a probe tells the rest."""
        return self._system.problems()

    def _new(self, experiment: Experiment) -> BatchTicket:
        ticket = self._ticket(experiment, self._session)
        if not (self._pilots.takes(ticket) and ticket.start() and self._pilots.run(ticket)):
            self._submit_own_job(ticket)
        return ticket

    def _submit_own_job(self, ticket: BatchTicket) -> None:
        """Submit the experiment as a job of its own."""
        parcel = pack_experiment(ticket.experiment, shared=self._shared)
        self._session.put(ticket.digest, parcel)
        self._table.add(ticket)
        self._poller.wake()

    def _fetch(self) -> None:
        self._poller.fetch()

    def _adopt(self, experiment: Experiment) -> BatchTicket | None:
        """Return what a driver that died had of it."""
        session = self._holding(experiment.digest)
        if session is None:
            return None
        ticket = self._ticket(experiment, session)
        ticket.adopted = True
        ticket.task = session.tasks().get(experiment.digest)
        if ticket.task is None:
            return self._stored_outcome(ticket)
        ticket.start()
        self._submission.adopt(ticket)
        self._poller.poll_soon()
        return ticket

    def _holding(self, digest: str) -> BatchSession | None:
        """Return the session of a dead driver that has the experiment; it is ours from now on."""
        for session in self._sessions[1:]:
            if session.holds(digest):
                return session
        paths = {session.path for session in self._sessions}
        for session in BatchSession.all(self._folder):
            if session.path not in paths and session.holds(digest) and session.take():
                self._sessions.append(session)
                _log.info("took over %s of a dead driver", session.path.name)
                return session
        return None

    def _stored_outcome(self, ticket: BatchTicket) -> BatchTicket | None:
        """Return an outcome whose job is known no more; none where there is no good one."""
        session, digest = ticket.session, ticket.digest
        outcome = self._reader.outcome(session, digest)
        if outcome is None or is_from_signal(outcome):
            session.drop(digest)
            return None
        self._table.keep(digest, session)
        ticket.start()
        ticket.set_result(outcome)
        return ticket

    def _ticket(self, experiment: Experiment, session: BatchSession) -> BatchTicket:
        ticket = BatchTicket(experiment, session, self._poller.wake)
        ticket.setup = self._options.setup.strip()
        return ticket

    def _remark(self, message: str) -> None:
        if message not in self._sent_messages:
            self._sent_messages.add(message)
            self.remarks.append(message)

    @classmethod
    def _place_folder(cls, folder: Path, options: BatchOptions) -> Path:
        name = cls.System.name.lower().replace(" ", "-")
        return _base_folder(folder, options) / "places" / name

    @classmethod
    def _preview_script(
        cls, demand: JobDemand, count: int, folder: Path, options: BatchOptions
    ) -> str:
        session = cls._place_folder(folder, options) / "session-N"
        paths = _job_paths(folder, options, session, "failed")
        length = min(count, options.array, DEFAULT_JOBS)
        return array_script(cls.System(options), "zen-N", length, demand, paths)


def _base_folder(folder: Path, options: BatchOptions) -> Path:
    return (Path(options.folder) if options.folder else folder).absolute()


def _job_paths(folder: Path, options: BatchOptions, session: Path, keep: Keep) -> JobPaths:
    return JobPaths(session, _base_folder(folder, options), not options.folder, keep)
