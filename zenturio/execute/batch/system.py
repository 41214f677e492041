"""
What a batch system brings: its commands, and the head of a job's script.

Everything else is general: which experiments go into which job array, that each array is submitted
once, whose fault a lost job is, and how a driver finds the jobs of one that died.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

from zenturio.errors import PlaceError
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment, Outcome, Step
from zenturio.settings.schema import setting

WORKER_BYTES = 128 * 2**20
"""Bytes that a job needs beside its experiment: Python, a launcher, what they hold of output."""
JOB_OVERHEAD_SECONDS = 90.0
"""Seconds that a job may take beyond the TIMEOUTs: to start, to kill, to write what came out."""
PATH_BEFORE = "ZENTURIO_PATH"
"""The variable with the PATH of the user who submits a job."""
SETUP_FAILED = "zenturio: the setup failed at"
"""What the log of a job says before the command of its setup that failed."""


class UnansweredError(Exception):
    """There was no answer, or not now; what was asked may have been done all the same."""


class QueueFullError(Exception):
    """No more jobs are taken from this user for now, or not so many at once."""


class ArrayTooLongError(Exception):
    """The cluster does not take arrays of that length."""


@dataclass(frozen=True)
class BatchOptions:
    """What can be set of any batch system: jobs, and how often the queue is looked at."""

    extra: str = setting("", "more options of the jobs, one a line", executes=True)
    setup: str = setting(
        "", "shell commands to run before each experiment: module load gcc", executes=True
    )
    python: str = setting("", "Python with zenturio on the nodes; default: this one", executes=True)
    folder: str = setting("", "folder that the nodes see; default: the project's folder")
    poll: float = setting(5.0, "minimum seconds between two queries of the queue", low=0.05)
    array: int = setting(1000, "maximum number of experiments in one job array", low=1)
    grace: float = setting(30.0, "seconds to wait for an outcome after its job has ended", low=0)
    patience: float = setting(
        60.0,
        "timeout of a command of the batch system, in seconds; then zen tries it again",
        low=1,
    )


JobPhase = Literal["waiting", "running", "ended"]
JobEnd = Literal["finished", "time_limit", "memory_limit", "cancelled", "cluster_fault"]
"""Why a job ended: by itself, at a limit, by somebody's order, or because its node was lost."""

ArrayTask = tuple[str, int]
"""The name of a job array, and a number in it, from 1."""
JobTask = tuple[str, int | None]
"""The number that the batch system gave a job array, and a task of it; None is all of them."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A task of a job array as its batch system shows it."""

    array: str
    """The number of the job array."""
    state: str = ""
    """The batch system's own word for where it is, for messages."""
    phase: JobPhase = "waiting"
    end: JobEnd = "finished"
    """Why it ended, where it has."""
    node: str = ""
    reason: str = ""
    """Why it waits."""
    restarts: int | None = None
    """The number of its last start, from 0; none where the batch system does not count them."""
    is_stuck: bool = False
    """Whether it waits for something that waiting does not bring about."""
    is_unlaunchable: bool = False
    """Whether it is held until a person intervenes, because no node could start it."""
    seconds_left: float | None = None
    """Until its time is over; none where that is not known, or never."""
    seconds: float | None = None
    """All of its time."""

    @property
    def ended(self) -> bool:
        return self.phase == "ended"

    @property
    def begun(self) -> bool:
        return self.phase == "running"

    @property
    def taken(self) -> bool:
        """Whether the cluster, or another user, ended it."""
        return self.ended and self.end in ("cancelled", "cluster_fault")


@dataclass(frozen=True, slots=True)
class JobDemand:
    """The resources that a job requests; experiments that ask for the same go into one array."""

    cpus: int = 1
    memory: int | None = None
    """Bytes of the experiment itself."""
    seconds: float | None = None
    """All TIMEOUTs together; none where a step has none."""

    @staticmethod
    def of(experiment: Experiment) -> JobDemand:
        """Return what *experiment* needs, its build included, for it may have to be made."""
        build = experiment.build.steps if experiment.build else ()
        steps = (*build, *experiment.steps)
        return JobDemand(experiment.cpus, experiment.memory or None, _total_timeout(steps))

    @property
    def job_bytes(self) -> int | None:
        """The memory of the job; none where none is asked for."""
        return None if self.memory is None else self.memory + WORKER_BYTES

    @property
    def job_seconds(self) -> float | None:
        """The time limit of the job; none where none is asked for."""
        return None if self.seconds is None else self.seconds + JOB_OVERHEAD_SECONDS


def _total_timeout(steps: Iterable[Step]) -> float | None:
    total = 0.0
    for step in steps:
        if step.timeout is None:
            return None
        total += step.timeout
    return total


class PilotWorkers(Protocol):
    """Workers that stay, as jobs of a batch system."""

    @property
    def wants(self) -> int:
        """How many experiments they like to have."""
        ...

    @property
    def has_workers(self) -> bool:
        """Whether one is there at this moment."""
        ...

    def submit(self, experiment: Experiment) -> Future[Outcome]: ...

    def close(self) -> None: ...


Options = TypeVar("Options", bound=BatchOptions)


class BatchSystem(ABC, Generic[Options]):
    """The commands of a batch system, which may be slow to answer.

    Each of them may raise UnansweredError where it got no answer: it is asked again later. All but
    the constructor are called by one thread at a time.
    """

    name: ClassVar[str]
    """What users call it; in lower case it names its folder in a project."""
    array_number: ClassVar[str]
    """Text of a shell: within a job, the number of its array."""
    task_number: ClassVar[str]
    """Text of a shell: within a job, the number of its task."""
    start_number: ClassVar[str] = ""
    """Text of a shell: how often the task was started before; counted where nothing says it."""
    cpu_count: ClassVar[str] = ""
    """Text of a shell: how many CPUs the job has, where it may have more than it was to have."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.patience = options.patience
        """Seconds for each command."""

    @abstractmethod
    def head(self, name: str, count: int, demand: JobDemand, log: Path) -> Iterable[str]:
        """Return the first lines of the script of the array *name*, whose tasks are 1 to *count*.

        Task N writes what it says to the file *log*-N, and adds to what is there.
        """

    @abstractmethod
    def submit(self, script: Path) -> str:
        """Return the number of the job array that *script* describes.

        PlaceError where it will never be taken, QueueFullError and ArrayTooLongError where less
        would be, and UnansweredError where it may have been taken.
        """

    @abstractmethod
    def look(self, names: Collection[str]) -> Mapping[ArrayTask, list[BatchJob]]:
        """Return the tasks of the arrays of these *names*; ended ones only while they are known.

        A name that was submitted twice has several jobs.
        """

    @abstractmethod
    def cancel(self, tasks: Collection[JobTask]) -> None:
        """End *tasks*; those that have ended already are no error."""

    def how_ended(self, _task: JobTask) -> BatchJob | None:
        """Return a task that is no longer in the queue, as far as the system has a record of it."""
        return None

    def problems(self) -> Iterable[str]:
        """Return what is wrong with the cluster, in words."""
        return ()

    # For pilots, which are jobs too: where options are PilotOptions.

    def open_workers(self, folder: Path, keep: Keep) -> PilotWorkers:
        """Return workers that stay, submitted as jobs."""
        raise NotImplementedError

    def sweep_workers(self, folder: Path) -> None:
        """Cancel jobs of workers that wait for drivers of the project that are gone."""

    def recall(self, arrays: Iterable[str]) -> None:
        """Cancel what has not begun of *arrays*."""

    def step_back(self, arrays: Iterable[str]) -> None:
        """Let other jobs of this user go before what has not begun of *arrays*, if that can be."""


def command_output(
    command: Collection[str],
    patience: float,
    refusal: Callable[[str], Exception] = UnansweredError,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    answers: Collection[int] = (0,),
) -> str:
    """Return what a *command* of a batch system printed, run in *folder*.

    Where it ends with another code than *answers*, *refusal* makes an error of what it says.
    """
    words = list(command)
    try:
        done = subprocess.run(
            words,
            env={**(os.environ if environment is None else environment), **_path_before()},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=patience,
        )
    except subprocess.TimeoutExpired as error:
        raise UnansweredError(f"{words[0]} did not answer for {patience:g} s") from error
    except FileNotFoundError as error:
        raise PlaceError(
            f"there is no {words[0]} on this machine",
            hint="run zen where the commands of the batch system are, such as on the login node",
        ) from error
    except OSError as error:
        raise UnansweredError(f"{words[0]}: {error.strerror}") from error
    if done.returncode in answers:
        return done.stdout
    message = (done.stderr.strip() or done.stdout.strip()).splitlines()
    lines = [line.partition("error: ")[2] or line for line in message]
    raise refusal(f"{words[0]}: {'; '.join(lines) or f'it ended with {done.returncode}'}")


def _path_before() -> dict[str, str]:
    return {PATH_BEFORE: os.environ.get("PATH", "")}


# Scripts


@dataclass(frozen=True, slots=True)
class JobPaths:
    """Where a job finds what it needs, as the nodes see it."""

    session: Path
    """With ``parcels``, ``outcomes``, ``batches`` and ``logs``."""
    work: Path
    """Below which experiments run."""
    shared: bool
    """Whether that is the project's own folder."""
    keep: Keep = "never"


def array_script(
    system: BatchSystem[Options], name: str, count: int, demand: JobDemand, paths: JobPaths
) -> str:
    """Return the script of the array *name* of *count* experiments.

    The first task that starts says for which job the array's name stands. So of two jobs that
    were submitted under one name, only one does anything; and none, once the driver said that
    it has given the array up. Each start of a task, for it may be started several times, has a
    file of its own (see session_folder).
    """
    head = "\n".join(system.head(name, count, demand, paths.session / "logs" / name))
    # The link X.job decides, once and atomically, which job may run the array X.
    session = shlex.quote(str(paths.session))
    # Relative paths from here on; 78 is EX_CONFIG of sysexits.h: the node does not see the disk.
    enter = f"cd {session} || exit 78"
    setup = setup_lines(system.options.setup, f'touch {session}/"$zen_start.setup"')
    return f"""\
#!/bin/bash -l
{head}
{enter}
ln -s "{system.array_number}" batches/{name}.job 2>/dev/null
test "$(readlink batches/{name}.job)" = "{system.array_number}" || exit 0
zen_digest=$(sed -n "{system.task_number}"p batches/{name}.list)
test -f "parcels/$zen_digest" || exit 0
{_start_lines(system, name)}
export PATH="${{{PATH_BEFORE}:+${PATH_BEFORE}:}}$PATH"  # a login shell has set it anew
unset {PATH_BEFORE}
{setup}{enter}
exec {" ".join(_worker_command(system, paths))}
"""


def _start_lines(system: BatchSystem[Options], name: str) -> str:
    """Return the lines that name the files of this start of a task."""
    start = f"starts/{name}-{system.task_number}"
    if system.start_number:
        return f'zen_start="{start}.{system.start_number}"'
    # Of two starts of one task the second begins when the first is over: no race.
    return f"""\
zen_count=0
while test -e "{start}.$zen_count.job"; do zen_count=$((zen_count + 1)); done
zen_start="{start}.$zen_count"
touch "$zen_start.job\""""


def _worker_command(system: BatchSystem[Options], paths: JobPaths) -> Iterator[str]:
    """Yield the command that runs one parcel."""
    yield shlex.quote(system.options.python or sys.executable)
    yield "-P -m zenturio.execute.worker"  # nothing is imported from where it stands
    yield '"parcels/$zen_digest" "outcomes/$zen_digest" --start "$zen_start"'
    yield f"--folder {shlex.quote(str(paths.work))}"
    yield f"--session {paths.session.name}"
    yield f"--keep {paths.keep}"
    if system.cpu_count:
        yield f'--cpus "{system.cpu_count}"'
    if paths.shared:
        yield "--shared"


def option_lines(text: str, mark: str) -> list[str]:
    """Return the options that are configured as they are, one after the other, without *mark*."""
    lines = (line.strip().removeprefix(mark).strip() for line in text.splitlines())
    return [line for line in lines if line]


def setup_lines(setup: str, failing: str = ":") -> str:
    """Return the lines of a bash script that run *setup* and exit if a command fails.

    Then the script says which command that was, and does what *failing* says.
    """
    if not setup.strip():
        return ""
    words = f'echo "{SETUP_FAILED}: $BASH_COMMAND" >&2'
    # Ends with 1: Grid Engine would start a job again that ends with 99.
    trap = shlex.quote(f"{words}; {failing}; exit 1")
    return f"trap {trap} EXIT\nset -e\n{setup.strip()}\nset +e\ntrap - EXIT\n"


def log_end(path: Path, most: int = 2000) -> str:
    """Return the last bytes of a log, which may be of any size; nothing where there is none."""
    with suppress(OSError), path.open("rb") as log:
        log.seek(max(log.seek(0, os.SEEK_END) - most, 0))
        return log.read(most).decode("utf-8", "replace").strip()
    return ""
