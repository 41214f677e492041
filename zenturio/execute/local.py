"""
This machine as a place: as many experiments at once as it has CPUs for.

Each slot has a launcher (see launcher), which outlives neither the driver nor its experiments. An
experiment is run once; RETRY belongs to the study, which records each attempt. Only a launcher that
was lost (killed, by somebody or for memory) is no fault of the experiment, which is run again.

CPUS takes as many of the place's slots; an experiment that asks for more than there are runs
alone, with all of them. MEMORY is taken from the machine's; besides, each process may allocate that
much (RLIMIT_DATA, and a stack for each CPU), and a run whose processes together hold more is
killed. Address space is not limited: interpreters and sanitizers reserve far more than they use.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.dispatcher import Dispatcher
from zenturio.execute.executor import ClosesOnExit
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.local_runner import LocalRunner, RunnerSettings
from zenturio.execute.local_task import CpuPool, LocalTask, ResourcePool
from zenturio.execute.machine_json import own_machine
from zenturio.execute.workspace import Keep
from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.provenance import cores, memory

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
        """*jobs* at once, as many as there are cores if none is said; *pin*: each on own CPUs."""
        self.slots = jobs or cores()
        self.machine = own_machine()
        self._memory = min(memory(), settings.memory or memory())
        self._closed = Event()
        self._lock = Lock()
        # Who is pinned has the CPUs that it asks for, and one if it does not say.
        threads = settings.threads or (1 if pin else max(cores() // self.slots, 1))
        settings = replace(settings, keep=keep, threads=threads, slots=self.slots)
        self._runner = LocalRunner(folder, settings, self._closed)
        room = ResourcePool(self.slots, self._memory)
        with disk_errors(folder):  # short of open files, it has no pipe to wake its thread through
            self._dispatcher = Dispatcher(
                self._runner, room, CpuPool() if pin else None, self._closed
            )

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
        if not experiment.recipe.requires:
            return None
        from zenturio.execute.requirements import unmet_requirement  # noqa: PLC0415 - it loads the language

        return unmet_requirement(experiment)
