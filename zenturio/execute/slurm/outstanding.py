"""What drivers have at a cluster, living and dead, seen from outside."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.execute.dask.session_folder import remove_dead_sessions
from zenturio.execute.executor import Progress
from zenturio.execute.slurm.options import SlurmOptions
from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm_commands import SlurmCommands, UnansweredError

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
            shown = queue.look({name for name, _ in ours}) if ours else {}
            queue.cancel(
                f"{job.array}_{task[1]}"
                for task, jobs in shown.items()
                for job in jobs
                if task in ours and not job.ended
            )
        except UnansweredError as error:
            raise PlaceError(
                f"{error}; what waits there does nothing any more, what runs goes on",
                hint="try again later, or see scancel",
            ) from error
        return len(ours)
