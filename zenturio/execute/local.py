"""This machine as a place: as many experiments at once as it has CPUs for.

Each slot has a launcher (see launcher), which outlives neither the driver nor its experiments. An
experiment is run once; RETRY belongs to the study, which records each attempt. Only a launcher that
was lost (killed, by somebody or for memory) is no fault of the experiment, which is run again.

CPUS takes as many of the place's slots; an experiment that asks for more than there are runs
alone, with all of them. MEMORY is taken from the machine's; besides, each process may allocate that
much (RLIMIT_DATA, and a stack for each CPU), and a run whose processes together hold more is
killed. Address space is not limited: interpreters and sanitizers reserve far more than they use.
"""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.executor import ClosesOnExit
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.launcher_client import (
    CpuPool,
    LauncherLostError,
    LauncherProcess,
    LocalTask,
    ResourcePool,
    Watchdog,
)
from zenturio.execute.local_runner import LocalRunner, RunnerSettings
from zenturio.execute.machines import own_machine
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment, Outcome
from zenturio.system import processes
from zenturio.system.machine import usable_cores, usable_memory

_log = logging.getLogger(__name__)


class Dispatcher:
    """One thread that starts tasks as they came, as soon as there is *room* for the first.

    Most experiments are light: their folders are filled and their outcomes made by this thread,
    between two waits, and the next ones are prepared while others run. What takes longer (a build,
    large files, outputs to keep) gets a thread of its own for its time.
    """

    def __init__(
        self, runner: LocalRunner, room: ResourcePool, cpus: CpuPool | None, closed: Event
    ) -> None:
        self._runner = runner
        self._room = room
        self._cpus = cpus
        self._closed = closed
        self._prefetch = self._slots = room.cpus
        self._incoming: deque[LocalTask] = deque()
        self._finished_heavy: deque[tuple[LocalTask, LauncherProcess]] = deque()
        """Heavy tasks that are over."""
        self._waiting: deque[LocalTask] = deque()
        self._running: dict[LocalTask, LauncherProcess] = {}
        self._by_descriptor: dict[int, LocalTask] = {}
        self._cpus_of: dict[LocalTask, list[int]] = {}
        self._idle: list[LauncherProcess] = []
        self._watchdog = Watchdog()
        self._wake_reader, self._wake_writer = os.pipe()
        self._asleep = False
        self._poll = select.poll()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._thread = Thread(target=self._drive, name="zenturio-dispatcher", daemon=True)
        self._thread.start()

    def put(self, task: LocalTask) -> None:
        """Submit a task; thread-safe."""
        self._incoming.append(task)
        self.wake()

    def wake(self) -> None:
        """Make the thread look at what has changed."""
        if self._asleep:
            self._asleep = False
            os.write(self._wake_writer, b".")

    def join(self) -> None:
        """Until all that ran has ended: after *closed* was set."""
        os.write(self._wake_writer, b".")
        self._thread.join()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _drive(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self._closed.set()
            for task in (*self._running, *self._waiting, *self._incoming):
                if not task.done():  # whoever waits for it is not to wait for ever
                    task.set_exception(error)
            raise
        finally:
            # Whatever happened, launchers end: they would outlive this thread.
            for slot in (*self._idle, *self._running.values()):
                slot.close()
            self._watchdog.close()

    def _loop(self) -> None:
        while self._running or not self._closed.is_set():
            if self._closed.is_set():
                self._cancel()
            self._collect()
            self._start()
            self._prepare()
            self._wait_for_events()
        self._cancel()

    def _collect(self) -> None:
        while self._incoming:
            self._waiting.append(self._incoming.popleft())
        while self._finished_heavy:
            task, slot = self._finished_heavy.popleft()
            self._release(task, slot)

    def _cancel(self) -> None:
        """Take off what waits, and kill what runs."""
        self._collect()
        while self._waiting:
            task = self._waiting.popleft()
            task.cancel()
            task.set_running_or_notify_cancel()
            self._runner.drop(task)
        for task in list(self._running):
            if not task.cancel_requested:
                task.cancel()

    def _start(self) -> None:
        """Start the first of those that wait, as long as there is room for it."""
        while self._waiting and self._room.fits(self._waiting[0]):
            task = self._waiting.popleft()
            if not task.running() and not task.set_running_or_notify_cancel():
                self._runner.drop(task)
                continue
            slot = (
                self._idle.pop()
                if self._idle
                else LauncherProcess(self._watchdog, self._runner.settings.stopped)
            )  # the one that was busy last
            self._room.take(task)
            self._running[task] = slot
            task.slots_start = self._slots - self._room.cpus
            _log.debug("%.12s starts, %d run", task.experiment.digest, len(self._running))
            if self._cpus:
                self._cpus_of[task] = self._cpus.take(task.cpus)
            if task.prepared is not None or self._runner.is_light(task.experiment):
                self._start_light(task, slot)
            else:
                Thread(target=self._run_heavy, args=(task, slot), daemon=True).start()

    def _start_light(self, task: LocalTask, slot: LauncherProcess) -> None:
        try:
            prepared = task.prepared or self._runner.prepare(task)
            if isinstance(prepared, Outcome):
                self._finish_with(task, prepared)
                return
            prepared.request["cpus"] = self._pinned(task)
            slot.send(task, prepared.request)
        except LauncherLostError:
            self._restart(task)
        except Exception as error:  # noqa: BLE001 - the future carries it to who waits
            self._fail(task, error)
        else:
            self._by_descriptor[slot.fileno()] = task
            self._poll.register(slot, select.POLLIN)

    def _pinned(self, task: LocalTask) -> list[int] | None:
        """Return the CPUs that *task* is bound to.

        All of them where too few were left for it alone.
        """
        return (self._cpus_of.get(task) or self._cpus.every) if self._cpus else None

    def _prepare(self) -> None:
        """Fill the folders of the next few, while all slots are busy."""
        for i in range(min(self._prefetch, len(self._waiting))):
            task = self._waiting[i]
            if task.prepared is None and self._runner.is_light(task.experiment):
                with suppress(Exception):  # which comes again when it is started
                    self._runner.prepare(task)
            if self._incoming or self._finished_heavy:
                return

    def _wait_for_events(self) -> None:
        """Wait until something ends or comes."""
        # Set before the queues are looked at: whoever adds a task from now on writes to the pipe.
        self._asleep = True
        # None waits for ever; 0 only collects what is ready, for there is other work to do.
        over = self._closed.is_set() and not self._running
        ended: list[tuple[LocalTask, LauncherProcess]] = []
        for descriptor, _ in self._poll.poll(
            0 if over or self._incoming or self._finished_heavy else None
        ):
            if descriptor == self._wake_reader:
                os.read(self._wake_reader, 4096)
            else:
                task = self._by_descriptor.pop(descriptor)
                self._poll.unregister(descriptor)
                ended.append((task, self._running[task]))
        self._asleep = False
        for task, slot in ended:
            self._finish(task, slot)

    def _finish(self, task: LocalTask, slot: LauncherProcess) -> None:
        try:
            reply = slot.receive()
            prepared = task.prepared
            assert prepared is not None
            task.slots_end = self._slots - self._room.cpus
            self._release(task, slot)
            # A free launcher costs throughput: the next task starts before this outcome is made.
            self._start()  # first of all: the launcher is not to wait for what follows
            task.set_result(self._runner.finish(task, prepared, reply))
        except LauncherLostError:
            self._restart(task)
        except Exception as error:  # noqa: BLE001
            self._fail(task, error)

    def _restart(self, task: LocalTask) -> None:
        """After the loss of its launcher."""
        _log.info("%.12s lost its launcher", task.experiment.digest)
        outcome = self._runner.lost(task)
        if outcome is not None:
            self._finish_with(task, outcome)
        else:
            self._release(task, self._running[task])
            self._waiting.appendleft(task)

    def _finish_with(self, task: LocalTask, outcome: Outcome) -> None:
        self._release(task, self._running[task])
        task.set_result(outcome)

    def _fail(self, task: LocalTask, error: Exception) -> None:
        """Settle a task with an error of the place."""
        self._runner.drop(task)
        if task in self._running:
            self._release(task, self._running[task])
        task.set_exception(error)

    def _release(self, task: LocalTask, slot: LauncherProcess) -> None:
        """Release the resources of *task*."""
        del self._running[task]
        _log.debug("%.12s left its slot, %d run", task.experiment.digest, len(self._running))
        self._room.give_back(task)
        self._idle.append(slot)
        if self._cpus:
            self._cpus.give_back(self._cpus_of.pop(task))

    def _run_heavy(self, task: LocalTask, slot: LauncherProcess) -> None:
        outcome: Outcome | None = None
        fault: Exception | None = None
        try:
            outcome = self._runner.run(
                task, slot, self._pinned(task), lambda: self._slots - self._room.cpus
            )
        except Exception as error:  # noqa: BLE001
            self._runner.drop(task)
            fault = error
        self._finished_heavy.append((task, slot))
        self.wake()
        if outcome is not None:
            task.set_result(outcome)
        else:
            task.set_exception(fault)


_DEFAULTS = RunnerSettings()


class Local(ClosesOnExit):
    """Run experiments on this machine."""

    def __init__(
        self,
        folder: Path = Path(".zenturio"),
        jobs: int | None = None,
        *,
        keep: Keep = "never",
        pin: bool = False,
        settings: RunnerSettings = _DEFAULTS,
    ) -> None:
        """*jobs* at once, by default the number of cores; *pin*: bind each to its own CPUs."""
        self.slots = jobs or usable_cores()
        self.machine = own_machine()
        self._memory = min(usable_memory(), settings.memory or usable_memory())
        self._closed = Event()
        self._lock = Lock()
        # Who is pinned has the CPUs that it asks for, and one if it does not say.
        threads = settings.threads or (1 if pin else max(usable_cores() // self.slots, 1))
        settings = replace(settings, keep=keep, threads=threads, slots=self.slots)
        self._runner = LocalRunner(folder, settings, self._closed)
        room = ResourcePool(self.slots, self._memory)
        with disk_errors(folder):  # short of open files, it has no pipe to wake its thread through
            cpus = CpuPool() if pin else None
            self.remarks = deque([cpus.description] if cpus else ())
            self._dispatcher = Dispatcher(self._runner, room, cpus, self._closed)

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment; it starts when there is room for it."""
        task = LocalTask(experiment, self.slots)
        refusal = self.refusal(experiment)
        if refusal is not None:
            task.set_exception(refusal)
            return task
        with self._lock:
            if self._closed.is_set():
                task.set_exception(PlaceError("this place is closed"))
            else:
                self._dispatcher.put(task)
        return task

    def close(self) -> None:
        """Kill what runs, cancel what waits, and ends the launchers."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._dispatcher.join()
        self._runner.close()

    def refusal(self, experiment: Experiment) -> ZenError | None:
        """Return why this machine cannot run *experiment*."""
        if experiment.memory > self._memory:
            return PlaceError(
                f"an experiment needs {experiment.memory} B of memory; this machine has "
                f"{self._memory} B",
                hint="a smaller MEMORY, or another machine",
            )
        if experiment.memory and not processes.can_measure_memory():
            return PlaceError(
                "MEMORY cannot be enforced: this system has neither libproc nor ps, which "
                "report how much memory a process uses",
                hint="install ps (procps), or remove MEMORY",
            )
        if not experiment.recipe.requires:
            return None
        from zenturio.execute.machines import unmet_requirement  # noqa: PLC0415 - it loads the language

        return unmet_requirement(experiment)
