"""The driver's end of a launcher: started on demand, replaced when it is lost or stands still.

And what goes through it: experiments on their way through this machine, and the CPUs and memory
that they take.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Protocol

from zenturio.errors import PlaceError
from zenturio.execute import wire
from zenturio.execute.executor import CancellableFuture
from zenturio.execute.run_conditions import check_run_facts
from zenturio.execute.wire import MalformedError
from zenturio.execute.workspace import StagedFolder, environment_mark
from zenturio.experiment import Experiment, Log
from zenturio.system import processes
from zenturio.system.machine import CPUS, cpu_order


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A filled folder, and the message for its launcher."""

    folder: StagedFolder
    request: dict[str, Any]


class LocalTask(CancellableFuture):
    """The future of an experiment; cancelling it while it runs kills the experiment."""

    def __init__(self, experiment: Experiment, slots: int) -> None:
        """For a place with so many *slots*: more than all of them nobody gets."""
        super().__init__()
        self.experiment = experiment
        self.cpus = min(experiment.cpus, slots)
        self.memory = experiment.memory
        self.slots_start = 0
        """Slots that were in use when it was started, its own included."""
        self.slots_end = 0
        self.losses = 0
        """How many launchers were lost under it."""
        self.kill: Callable[[], None] | None = None
        """Ends what runs for it now."""
        self.prepared: PreparedRun | None = None

    def stop(self) -> None:
        kill = self.kill
        if kill is not None:
            kill()


class ResourcePool:
    """CPUs and memory that are free."""

    def __init__(self, cpus: int, memory: int) -> None:
        self.cpus = cpus
        self.memory = memory

    def fits(self, task: LocalTask) -> bool:
        return task.cpus <= self.cpus and task.memory <= self.memory

    def take(self, task: LocalTask) -> None:
        self.cpus -= task.cpus
        self.memory -= task.memory

    def give_back(self, task: LocalTask) -> None:
        self.cpus += task.cpus
        self.memory += task.memory


class CpuPool:
    """The CPUs of this process, handed out and given back.

    Those that the system isolated from others come first, and one thread of each core before the
    second ones: two experiments share a core only if there are more of them than cores.
    """

    def __init__(self, usable: Iterable[int] | None = None, cpus: Path = CPUS) -> None:
        self._order = cpu_order(processes.usable_cpus() if usable is None else usable, cpus)
        self.every = sorted(self._order, key=self._order.__getitem__)
        self._free = list(self.every)
        self.description = _described(self._order)

    def take(self, count: int) -> list[int]:
        """Take *count* CPUs; return none if fewer are free."""
        if count > len(self._free):
            return []
        cpus, self._free = self._free[:count], self._free[count:]
        return cpus

    def give_back(self, cpus: list[int]) -> None:
        self._free = sorted(self._free + cpus, key=self._order.__getitem__)


def _described(order: Mapping[int, tuple[bool, int, int]]) -> str:
    """Return the note on the CPUs to which experiments are bound."""
    cores = sum(sibling == 0 for _, sibling, _ in order.values())
    isolated = sum(not shared for shared, _, _ in order.values())
    text = f"experiments are bound to cores of their own: there are {cores}"
    if len(order) > cores:
        text += f", with {len(order)} threads (SMT), whose second ones are used last"
    else:
        text += ", and no SMT siblings among the processors that may be used"
    return text + (f"; {isolated} isolated processors are used first" if isolated else "")


_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class WatchedProcess(Protocol):
    """Something whose `check` kills a process that makes no progress."""

    def check(self) -> None: ...


class Watchdog:
    """Checks everything that it watches twice a second; its thread starts with the first."""

    def __init__(self) -> None:
        self._watched: set[WatchedProcess] = set()
        self._turn = Lock()
        self._closed = Event()
        self._thread: Thread | None = None

    def watch(self, watched: WatchedProcess) -> None:
        """From now on."""
        with self._turn:
            self._watched.add(watched)
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._drive, name="zenturio-watchdog", daemon=True)
                self._thread.start()

    def leave(self, watched: WatchedProcess) -> None:
        """No longer."""
        with self._turn:
            self._watched.discard(watched)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _drive(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with self._turn:
                # Outside of the lock: a check may end a launcher, which leaves the watchdog.
                watched = list(self._watched)
            for launcher in watched:
                launcher.check()


_ROOT = str(Path(__file__).resolve().parents[2])
_MAIN = (
    "import sys; sys.path.append(sys.argv[1]); from zenturio.execute.launcher import main; main()"
)
_EXIT_SECONDS = 10.0
STOPPED_SECONDS = 5.0
"""Seconds after which a launcher that was stopped (SIGSTOP) is given up."""
_SLACK_SECONDS = 60.0
"""Seconds by which a launcher may be late: half of them it waits for processes that do not die."""


class LauncherLostError(Exception):
    """The launcher ended in the middle of a run; nothing of the run is alive any more."""


@dataclass(frozen=True, slots=True)
class LauncherReply:
    """How a run ended, as its launcher saw it."""

    facts: dict[str, Any]
    stdout: Log
    stderr: Log


class LauncherProcess:
    """One launcher. A run at a time; cancelling may come from any thread."""

    def __init__(self, watchdog: Watchdog, stopped: float = STOPPED_SECONDS) -> None:
        """The *watchdog* kills its launcher where that was *stopped* for so many seconds."""
        self._watchdog = watchdog
        self._stop_detector = processes.StopDetector(stopped)
        self._deadline = float("inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._writing = Lock()
        self._runs = 0
        self._task: LocalTask | None = None
        self._mark = b""
        self._request: Mapping[str, Any] = {}

    def run(self, task: LocalTask, request: dict[str, Any]) -> LauncherReply:
        """Run *request* of *task*, and waits for its end."""
        self.send(task, request)
        return self.receive()

    def send(self, task: LocalTask, request: dict[str, Any]) -> None:
        """Begin *request* of *task*; LostError from here on means that nothing of it is alive."""
        process = self._process or self._start()
        assert process.stdin is not None
        self._mark = environment_mark(request["folder"] + "/")
        self._request = request
        try:
            with self._writing:
                self._runs += 1
                request["run"] = self._runs
                self._task = task
                # Set before the request is sent: the watchdog may look at any moment.
                self._deadline = _reply_deadline(request)
                wire.send(process.stdin.fileno(), request)
        except BrokenPipeError:
            raise self._lost() from None
        task.kill = self.cancel
        if task.cancel_requested:
            self.cancel()

    def receive(self) -> LauncherReply:
        """Return what came out of what was sent."""
        try:
            # The experiment shares the pipe by inheritance and may write to it: bytes that are no
            # reply are taken as the loss of the launcher, never as an outcome.
            return _receive_reply(self.fileno(), self._request)
        except (EOFError, MalformedError):  # what is no reply was written by the experiment
            raise self._lost() from None
        finally:
            self._deadline = float("inf")
            if self._task is not None:
                self._task.kill = None
            self._task = None

    def fileno(self) -> int:
        """Return where the reply can be read; the launcher is started if there is none."""
        process = self._process or self._start()
        assert process.stdout is not None
        return process.stdout.fileno()

    def _lost(self) -> LauncherLostError:
        self.close()
        _log.info("a launcher was lost in the middle of a run")
        processes.kill_marked(self._mark)
        return LauncherLostError()

    def cancel(self) -> None:
        """End what runs now, if anything does."""
        with self._writing, suppress(OSError):
            if self._task and self._process and self._process.stdin:
                # A launcher that was stopped does not hear the request; then the watchdog ends it.
                soon = monotonic() + self._request["grace"] + _SLACK_SECONDS
                self._deadline = min(self._deadline, soon)
                wire.send(self._process.stdin.fileno(), {"cancel": self._runs})

    def check(self) -> None:
        """Kill a launcher that makes no progress; requests to it then fail as lost."""
        process = self._process
        if process is not None and (
            self._stop_detector.is_stuck(process.pid) or monotonic() > self._deadline
        ):
            process.kill()

    def close(self) -> None:
        """End the launcher, and so everything that it started."""
        process, self._process = self._process, None
        _log.debug("launcher %s ends", process.pid if process else "(none)")
        self._watchdog.leave(self)
        if process is None:
            return
        with suppress(OSError), process:  # closes both pipes and waits
            if process.stdin:
                process.stdin.close()
            if processes.is_stopped(process.pid):
                process.kill()
            try:
                process.wait(_EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        """Return a launcher in a session of its own: what the terminal sends does not reach it."""
        # Isolated and without site: nothing of the user is imported, and it starts in 10 ms.
        command = [sys.executable, "-I", "-S", "-c", _MAIN, _ROOT]
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise PlaceError(
                f"no process can be started: {os.strerror(error.errno or 0)}",
                hint="end other programs, or allow more processes and open files (ulimit -a)",
            ) from error
        self._watchdog.watch(self)
        _log.debug("launcher %d started", self._process.pid)
        return self._process


def _reply_deadline(request: Mapping[str, Any]) -> float:
    """Return when a reply is overdue: the launcher enforces each TIMEOUT, and needs time to end."""
    limits = [step["timeout"] for step in request["steps"]]
    if None in limits:
        return float("inf")
    return monotonic() + float(sum(limits)) + float(request["grace"]) + _SLACK_SECONDS


def _receive_reply(descriptor: int, request: Mapping[str, Any]) -> LauncherReply:
    """Return the reply to *request*.

    EOFError where none will come, MalformedError where it is none.
    """
    facts = wire.receive(descriptor)
    if facts is None:
        raise EOFError
    check_run_facts(facts, len(request["steps"]))
    blobs = wire.receive_blobs(descriptor, facts, most=max(request["head"], request["tail"]))
    if blobs is None:
        raise EOFError
    out_head, out_tail, err_head, err_tail = blobs
    out_size, err_size = facts["sizes"]
    return LauncherReply(
        facts,
        _joined_log(out_head, out_tail, out_size),
        _joined_log(err_head, err_tail, err_size),
    )


def _joined_log(head: bytes, tail: bytes, size: int) -> Log:
    if tail and len(head) + len(tail) == size:
        return Log(head + tail, b"", size)
    return Log(head, tail, size)
