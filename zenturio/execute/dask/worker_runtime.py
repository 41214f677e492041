"""Runs experiments in a Dask worker; launchers, builds and files are kept between tasks.

There is one runtime for each driver in a worker process. On the driver's own machine it works in
the project's folder; on others in a scratch folder of the worker, to which files are sent.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from time import monotonic, time

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.experiment_codec import pack_failure, pack_outcome, unpack_experiments
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import COPY_LIMIT_BYTES, remove_tree
from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment, ExperimentFile, Outcome
from zenturio.experiment.identity import checked_digest
from zenturio.files import LockedFolder, make_folder

# The session folder ``places/dask-SESSION``: a worker that sees it shares the driver's disk
#
# It is held by a lock that ends with the driver; what a dead driver left, keys among it, is removed
# by the next one.

_PREFIX = "dask-"
QUEUED = "queued"
"""The file in it that names jobs of Slurm which end with the driver."""
_CANCEL_SECONDS = 5.0
"""Seconds that who comes next waits for Slurm to end them; they end by themselves too, later."""


class DaskSession:
    """One driver's."""

    def __init__(self, folder: Path) -> None:
        with disk_errors(folder):
            parent = make_folder(folder, session_path(folder, "").parent.name)
            remove_dead_sessions(folder)
            self._locked = LockedFolder.begin(parent, _PREFIX, mode=0o700)
        self.folder = self._locked.path
        self.name = self.folder.name.removeprefix(_PREFIX)

    def close(self) -> None:
        """Take it away."""
        remove_tree(str(self.folder))
        self._locked.release()


def session_path(folder: Path, name: str) -> Path:
    """Return the folder of the session *name* below the project's."""
    return folder / "places" / f"{_PREFIX}{name}"


def remove_dead_sessions(folder: Path) -> None:
    """Takes away what drivers left that are dead: their folders, and jobs in the queue of Slurm."""
    for session in LockedFolder.take_abandoned(session_path(folder, "").parent, _PREFIX):
        _cancel_jobs(session.path)
        remove_tree(str(session.path))


def _cancel_jobs(session: Path) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        command = ["scancel", "--quiet", f"--name={(session / QUEUED).read_text()}"]
        subprocess.run(command, capture_output=True, check=False, timeout=_CANCEL_SECONDS)


# The runtime


class WorkerFiles:
    """Copies of files by their content, in the folder of an `InputCache`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stored(self, experiment: Experiment) -> Experiment:
        """Return the same, with large files that came with it taken from here from now on."""
        files = tuple(self._stored(filed) for filed in experiment.files)
        build = experiment.build
        if build is not None:
            build = replace(build, files=tuple(self._stored(filed) for filed in build.files))
        if build == experiment.build and files == experiment.files:
            return experiment
        return replace(experiment, files=files, build=build)

    def missing_files(self, experiment: Experiment) -> Iterator[str]:
        """Yield the digests of files that are neither here nor where they came from."""
        build = experiment.build
        for filed in (*experiment.files, *(build.files if build else ())):
            original = filed.original
            if filed.content is not None or original is None or Path(original).exists():
                continue
            if not filed.digest or not self._path(filed).exists():
                yield filed.digest

    def _path(self, filed: ExperimentFile) -> Path:
        return self._folder / (checked_digest(filed.digest) + ("x" if filed.mode & 0o111 else ""))

    def _stored(self, filed: ExperimentFile) -> ExperimentFile:
        content = filed.content
        if content is None or len(content) <= COPY_LIMIT_BYTES or not filed.digest:
            return filed
        path = self._path(filed)
        if not path.exists():
            with disk_errors(self._folder):
                make_folder(self._folder.parent, self._folder.name)
                descriptor, draft = tempfile.mkstemp(dir=self._folder, prefix=".")
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                Path(draft).chmod(0o555 if filed.mode & 0o111 else 0o444)
                if filed.mtime is not None:
                    os.utime(draft, ns=(filed.mtime, filed.mtime))
                Path(draft).replace(path)
        return replace(filed, content=None, original=path)


NANNY_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MALLOC_TRIM_THRESHOLD_",
)
"""What Dask's nannies set for their workers, and what would change what experiments do."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a driver tells the runtimes that work for it."""

    name: str
    """Names the driver's session: a word that no other driver has."""
    host: str
    """The driver's machine."""
    folder: str
    """The project's folder, on that machine."""
    keep: Keep
    pin: bool
    grace: float
    """Seconds between SIGTERM and SIGKILL."""
    hand_back_seconds: float
    """Seconds after which a task gives back what it has not begun."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task has to say of its experiments, by their tickets."""

    done: dict[int, bytes] = field(default_factory=dict)
    returned: tuple[int, ...] = ()
    """Not begun: they are to go to whoever is free."""
    running: tuple[int, ...] = ()
    """Still running here; another task asks for them."""
    missing_files: frozenset[str] = frozenset()
    """Nothing was run: these files are not here."""
    worker: str = ""
    """Who reports."""

    def plain(self) -> PlainReport:
        """As it travels: in types that every reader has, for the driver imports no others."""
        return (
            self.done,
            self.returned,
            self.running,
            tuple(sorted(self.missing_files)),
            self.worker,
        )


PlainReport = tuple[dict[int, bytes], tuple[int, ...], tuple[int, ...], tuple[str, ...], str]
LONGEST_ADDRESS = 1000
"""Characters of a worker's address."""


def read_report(value: object, tickets: Collection[int]) -> TaskReport | None:
    """*value*, which came from a worker, if it is a report about *tickets* alone.

    Each of them once; of each what is to be told, in types that have no code of their own. What
    stands in the bytes is checked where they are unpacked.
    """
    if type(value) is not tuple or len(value) != 5:
        return None
    packed, returned, running, missing, worker = value
    if not (
        type(packed) is dict
        and type(returned) is tuple
        and type(running) is tuple
        and type(missing) is tuple
        and type(worker) is str
        and len(worker) <= LONGEST_ADDRESS
        and all(type(data) is bytes for data in packed.values())
        and all(type(name) is str for name in missing)
    ):
        return None
    numbers = [*packed, *returned, *running]
    if not all(type(number) is int for number in numbers):
        return None
    is_about = len(set(numbers)) == len(numbers) and set(numbers) <= set(tickets)
    return TaskReport(packed, returned, running, frozenset(missing), worker) if is_about else None


class WorkerRuntime:
    """Runs the experiments of one driver in one worker."""

    def __init__(
        self, session: SessionSettings, scratch: Path, slots: int, memory: int | None
    ) -> None:
        self._shares_disk = (
            session.host == platform.node()
            and session_path(Path(session.folder), session.name).exists()
        )
        self._scratch = None if self._shares_disk else scratch / f"zenturio-{session.name}"
        folder = self._scratch or Path(session.folder)
        settings = RunnerSettings(
            grace=session.grace,
            session=session.name,
            memory=memory,
            without=NANNY_VARIABLES,
            threads=1,  # other workers may share the machine
        )
        self._hand_back_seconds = session.hand_back_seconds
        self._files = WorkerFiles(folder / "inputs")
        self._local = Local(folder, slots, keep=session.keep, pin=session.pin, settings=settings)
        self._lock = Lock()
        self._futures: dict[int, tuple[str, Future[Outcome]]] = {}
        self._stopped: set[int] = set()
        self.active_tasks = 0
        """Tasks that are here now."""
        self.last_used = monotonic()

    def run(self, batch: bytes, tickets: tuple[int, ...]) -> TaskReport:
        """Run what is packed; reports when it is over, or when it takes too long together."""
        experiments = [self._files.stored(experiment) for experiment in unpack_experiments(batch)]
        missing = frozenset(
            name for experiment in experiments for name in self._files.missing_files(experiment)
        )
        if missing:
            return TaskReport(missing_files=missing)
        pairs = zip(tickets, experiments, strict=True)
        futures = {ticket: self._begin(ticket, experiment) for ticket, experiment in pairs}
        wait(futures.values(), self._hand_back_seconds if len(futures) > 1 else None)
        # Never hand back everything: a task that only returns its experiments makes no progress.
        wait(futures.values(), return_when=FIRST_COMPLETED)
        returned = [
            t for t, future in futures.items() if Future.cancel(future)
        ]  # kills none that runs
        running = [t for t, future in futures.items() if not future.done()]
        return self._report(futures.keys() - running, running, frozenset(returned))

    def follow(self, tickets: tuple[int, ...]) -> TaskReport:
        """Wait for what an earlier task left running; what is not known here goes back."""
        with self._lock:
            futures = {t: self._futures[t][1] for t in tickets if t in self._futures}
        wait(futures.values())
        report = self._report(futures, (), frozenset())
        return TaskReport(report.done, tuple(t for t in tickets if t not in futures))

    def stop(self, tickets: Iterable[int]) -> None:
        """Kill those that run, and those that come later."""
        tickets = list(tickets)
        with self._lock:
            # Kept although unknown here: the order may arrive before the experiment does.
            self._stopped.update(tickets)
            futures = [self._futures[t][1] for t in tickets if t in self._futures]
        for future in futures:
            future.cancel()

    def close(self) -> None:
        """Kill all running experiments, and remove everything but the files to keep."""
        with self._lock:
            futures = [future for _, future in self._futures.values()]
        for future in futures:
            future.cancel()
        self._local.close()
        if self._scratch is not None:
            remove_tree(str(self._scratch))

    def _begin(self, ticket: int, experiment: Experiment) -> Future[Outcome]:
        future = self._local.submit(experiment)
        with self._lock:
            self._futures[ticket] = (experiment.digest, future)
            stopped = ticket in self._stopped
        if stopped:
            future.cancel()
        return future

    def _report(
        self, over: Iterable[int], running: Iterable[int], returned: frozenset[int]
    ) -> TaskReport:
        """Tell of those that are over; the runtime has nothing to do with them any more."""
        packed, handed_back = {}, []
        for ticket in over:
            with self._lock:
                digest, future = self._futures.pop(ticket)
                stopped = ticket in self._stopped
                self._stopped.discard(ticket)
            if ticket in returned and not stopped:
                handed_back.append(ticket)
            else:
                packed[ticket] = self._packed(digest, future)
        return TaskReport(packed, tuple(handed_back), tuple(running))

    def _packed(self, digest: str, future: Future[Outcome]) -> bytes:
        if future.cancelled():
            now = time()
            never = Outcome(digest, "cancelled", "cancelled", started=now, ended=now)
            return pack_outcome(never)
        try:
            return pack_outcome(future.result(), shared=self._shares_disk)
        except ZenError as error:
            return pack_failure(error)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            return pack_failure(PlaceError(f"{platform.node()}: {reason}"))
