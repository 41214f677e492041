"""A cluster under Slurm as an executor, and its jobs as seen from outside."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import TYPE_CHECKING

from zenturio.errors import InputError, PlaceError
from zenturio.execute.dask.session_folder import remove_dead_sessions
from zenturio.execute.executor import ClosesOnExit, Progress
from zenturio.execute.experiment_codec import pack_experiment
from zenturio.execute.slurm import job_script as choice
from zenturio.execute.slurm.array_submission import ArraySubmission
from zenturio.execute.slurm.job_script import (
    JobDemand,
    JobPaths,
    SlurmOptions,
    array_script,
    extra_options,
)
from zenturio.execute.slurm.pilots import Pilots
from zenturio.execute.slurm.queue_poller import OutcomeReader, QueuePoller
from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm.ticket_table import SlurmTicket, TicketTable, cancelled_outcome
from zenturio.execute.slurm_commands import SlurmCommands, UnansweredError
from zenturio.execute.worker import is_from_signal
from zenturio.execute.workspace import Keep
from zenturio.experiment import INCOMING, Experiment, Outcome

if TYPE_CHECKING:
    from zenturio.execute.dask.executor import Dask
    from zenturio.execute.dask.options import DaskOptions

_log = logging.getLogger(__name__)


LOOK_SECONDS = 5.0
"""Seconds that whoever only looks waits for Slurm."""


class SlurmOutstanding:
    """The sessions below the folder of a place, and what the queue says of their jobs."""

    def __init__(self, folder: Path, options: SlurmOptions, project: Path) -> None:
        self._sessions = SlurmSession.all(folder)
        self._patience = options.patience
        self._project = project

    def stages(self) -> dict[str, Progress]:
        """Return how far each experiment is that is not recorded, by digest."""
        progress: dict[str, Progress] = {}
        names = {name for session in self._sessions for name, _ in session.batches()}
        jobs_of = {}
        if names:
            with suppress(UnansweredError, PlaceError):  # then nobody knows what runs
                jobs_of = SlurmCommands(min(self._patience, LOOK_SECONDS)).look(names)
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

        What has ended already waits for who goes on. PlaceError where Slurm does not answer.
        """
        remove_dead_sessions(
            self._project
        )  # pilots that wait in the queue for a driver that is gone
        requested, count = set(digests), 0
        for session in self._sessions:
            held = requested & set(session.digests()) - set(session.ended())
            # The lock tells a dead driver from a living one, whose experiments are not touched.
            if not held or not session.take():
                continue
            try:
                count += self._cancel(session, held)
            finally:
                session.leave() if session.digests() else session.remove()
        return count

    def _cancel(self, session: SlurmSession, held: set[str]) -> int:
        queue, tasks = SlurmCommands(self._patience), session.tasks()
        ours = {tasks[digest] for digest in held if digest in tasks}
        for digest in held:
            session.drop(digest)  # what has not begun does nothing from now on
        try:
            found_jobs = queue.look({name for name, _ in ours}) if ours else {}
            queue.cancel(
                f"{job.array}_{task[1]}"
                for task, jobs in found_jobs.items()
                for job in jobs
                if task in ours and not job.ended
            )
        except UnansweredError as error:
            raise PlaceError(
                f"{error}; what waits there does nothing any more, what runs goes on",
                hint="try again later, or see scancel",
            ) from error
        return len(ours)


DEFAULT_JOBS = 500
"""How many experiments are in the queue at once, if nobody says."""
CLOSING_SECONDS = 90.0
"""Seconds that closing waits for Slurm to end what ran."""
_DEFAULTS = choice.SlurmOptions()
_UNUSABLE_STATES = frozenset(
    ("down", "drained", "draining", "fail", "failing", "unknown", "error", "maint")
)


class Slurm(ClosesOnExit):
    """Run experiments as tasks of job arrays, and find those of a driver that died.

    Short ones go to workers that stay (see pilots), which end with the driver.
    Every parcel and every outcome lies in a folder that the nodes see: below the project's, or
    below the one that the options name. What was not forgotten stays there when the place is
    closed: whoever asks for the same experiment gets it.
    """

    Options = choice.SlurmOptions

    def __init__(
        self,
        folder: Path = Path(".zenturio"),
        jobs: int | None = None,
        *,
        keep: Keep = "never",
        pin: bool = False,  # noqa: ARG002 - Slurm itself binds what it starts
        options: choice.SlurmOptions = _DEFAULTS,
    ) -> None:
        """*jobs* in the queue at once, running or not."""
        self.slots = jobs or DEFAULT_JOBS
        self.remarks: deque[str] = deque()
        """What the user should know, each once; whoever shows it takes it off."""
        self._options = options
        self._folder = _place_folder(folder, options)
        SlurmSession.sweep(self._folder)
        # Pilots of dead drivers would wait in the queue and start for nobody.
        remove_dead_sessions(folder.absolute())
        self._session = SlurmSession.begin(self._folder)
        self._sessions = [self._session]
        """Our own, and those that were taken over."""
        self._sent_messages: set[str] = set()
        self._lock = Lock()
        self._closed = False
        queue = SlurmCommands(options.patience)
        paths = _job_paths(folder, options, self._session.path, keep)
        workers = partial(_open_pilots, folder, keep, options)
        try:
            self._pilots = Pilots(options, workers, self._remark, self._fetch, self._submit_own_job)
        except BaseException:
            self._session.remove()
            raise
        self._desk = TicketTable(self.slots)
        self._submission = ArraySubmission(self._desk, self._session, options, paths, queue)
        incoming = folder.absolute() / INCOMING
        self._reader = OutcomeReader(self._desk, self._sessions, incoming, options.poll, self.learn)
        self._clerk = QueuePoller(
            self._desk,
            self._submission,
            queue,
            options,
            self._remark,
            self._pilots,
            self._reader.unpacked,
        )
        self._shared = paths.shared

    def submit(self, experiment: Experiment) -> SlurmTicket:
        """Take an experiment, or find its job, or what that left."""
        with self._lock:
            if self._closed:
                ticket = self._ticket(experiment, self._session)
                ticket.set_exception(PlaceError("this place is closed"))
                return ticket
            self._desk.forget(experiment.digest)
            self._pilots.count_submission()
            return self._adopt(experiment) or self._new(experiment)

    @property
    def wants(self) -> int:
        """How many it likes to have: short ones travel together."""
        return self._pilots.wants

    def learn(self, outcome: Outcome) -> None:
        """How long an experiment took that was run before, wherever that was."""
        if outcome.status == "ok":
            self._pilots.learn(outcome.ended - outcome.started)

    def forget(self, digest: str) -> None:
        """The outcome of that experiment is recorded: nobody will ask for it here again."""
        self._desk.forget(digest)

    def close(self) -> None:
        """Cancel all that is in the queue, and waits for its end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # Pilots first: what they hand back must not be submitted to a queue that is being emptied.
        self._pilots.close()
        self._clerk.close(CLOSING_SECONDS)
        self._reader.close()
        self._reader.read()
        for ticket in self._desk.queued():  # Slurm did not answer all the time
            self._desk.settle(ticket, cancelled_outcome(ticket.digest, None))
        for session in self._sessions:
            if session.digests():
                session.leave()
            else:
                session.remove()

    @staticmethod
    def left(folder: Path, options: choice.SlurmOptions) -> SlurmOutstanding:
        """Return what drivers have there."""
        return SlurmOutstanding(_place_folder(folder, options), options, folder)

    @staticmethod
    def script(folder: Path, options: choice.SlurmOptions) -> str:
        """Return what a job would be."""
        return _preview_script(JobDemand(), 1, folder, options)

    @staticmethod
    def preview(
        experiment: Experiment, count: int, folder: Path, options: choice.SlurmOptions
    ) -> str:
        """Return the script with which *count* experiments like this one would be submitted."""
        text = _preview_script(JobDemand.of(experiment), count, folder, options)
        if options.pilots != "always":
            return text
        from zenturio.execute.dask.worker_jobs import worker_script as job_of  # noqa: PLC0415 - it loads Dask

        return (
            f"{job_of(_pilot_options(options), folder)}\n\nwhat does not fit into those:\n\n{text}"
        )

    def check(self) -> Iterator[str]:
        """What is wrong with the cluster, in words; a probe tells the rest."""
        try:
            states = SlurmCommands(self._options.patience).partitions(self._options.partition)
        except (PlaceError, UnansweredError) as error:
            yield str(error)
            return
        if not states:
            pool = f"partition {self._options.partition}" if self._options.partition else "cluster"
            yield f"the {pool} has no node"
        elif not any(available == "up" for available, _ in states):
            yield "the partition is not up: " + ", ".join(a for a, _ in states)
        elif all(state.rstrip("*~#!%$@^-") in _UNUSABLE_STATES for _, state in states):
            yield "no node can run anything: " + ", ".join(sorted({s for _, s in states}))

    def _new(self, experiment: Experiment) -> SlurmTicket:
        ticket = self._ticket(experiment, self._session)
        if not (self._pilots.takes(ticket) and ticket.start() and self._pilots.run(ticket)):
            self._submit_own_job(ticket)
        return ticket

    def _submit_own_job(self, ticket: SlurmTicket) -> None:
        """It is to have a job of its own."""
        parcel = pack_experiment(ticket.experiment, shared=self._shared)
        self._session.put(ticket.digest, parcel)
        self._desk.add(ticket)
        self._clerk.wake()

    def _fetch(self) -> None:
        self._clerk.fetch()

    def _adopt(self, experiment: Experiment) -> SlurmTicket | None:
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
        self._clerk.poll_soon()
        return ticket

    def _holding(self, digest: str) -> SlurmSession | None:
        """Return the session of a dead driver that has the experiment; it is ours from now on."""
        for session in self._sessions[1:]:
            if session.holds(digest):
                return session
        paths = {session.path for session in self._sessions}
        for session in SlurmSession.all(self._folder):
            if session.path not in paths and session.holds(digest) and session.take():
                self._sessions.append(session)
                _log.info("took over %s of a dead driver", session.path.name)
                return session
        return None

    def _stored_outcome(self, ticket: SlurmTicket) -> SlurmTicket | None:
        """Return an outcome whose job is known no more; none where there is no good one."""
        session, digest = ticket.session, ticket.digest
        outcome = self._reader.outcome(session, digest)
        if outcome is None or is_from_signal(outcome):
            session.drop(digest)
            return None
        self._desk.keep(digest, session)
        ticket.start()
        ticket.set_result(outcome)
        return ticket

    def _ticket(self, experiment: Experiment, session: SlurmSession) -> SlurmTicket:
        ticket = SlurmTicket(experiment, session, self._clerk.wake)
        ticket.setup = self._options.setup.strip()
        return ticket

    def _remark(self, message: str) -> None:
        if message not in self._sent_messages:
            self._sent_messages.add(message)
            self.remarks.append(message)


def _preview_script(
    demand: JobDemand, count: int, folder: Path, options: choice.SlurmOptions
) -> str:
    paths = _job_paths(folder, options, _place_folder(folder, options) / "session-N", "failed")
    return array_script("zen-N", min(count, options.array, DEFAULT_JOBS), demand, options, paths)


def _open_pilots(folder: Path, keep: Keep, options: choice.SlurmOptions) -> Dask:
    """Pilots, submitted."""
    from zenturio.execute.dask.executor import Dask  # noqa: PLC0415 - most runs need none

    return Dask(folder, keep=keep, options=_pilot_options(options), hands_back=True)


def _pilot_options(options: choice.SlurmOptions) -> DaskOptions:
    """Return what is said of jobs, for those of workers."""
    from zenturio.execute.dask.options import DaskOptions  # noqa: PLC0415 - as above

    if options.folder:
        raise InputError(
            "workers that stay need the project's folder to be seen by the nodes",
            hint='leave out folder = "…", or pilots = "always"',
        )
    settings = {name: getattr(options, name) for name in ("qos", "constraint")}
    lines = [f"--{name}={quote(text)}" for name, text in settings.items() if text]
    return DaskOptions(
        cluster="slurm",
        nodes=options.pilot_jobs,
        cores=options.pilot_cores,
        memory=options.pilot_memory,
        walltime=options.pilot_time,
        queue=options.partition,
        account=options.account,
        lines="\n".join([*lines, *extra_options(options)]),
        prologue=options.setup,
        interface=options.interface,
        python=options.python,
        patience=options.patience,
    )


def _place_folder(folder: Path, options: choice.SlurmOptions) -> Path:
    base = Path(options.folder) if options.folder else folder
    return base.absolute() / "places" / "slurm"


def _job_paths(folder: Path, options: choice.SlurmOptions, session: Path, keep: Keep) -> JobPaths:
    base = Path(options.folder) if options.folder else folder
    return JobPaths(session, base.absolute(), not options.folder, keep)
