"""An experiment on its way through this machine, and the CPUs and memory that it takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zenturio.execute.executor import CancellableFuture
from zenturio.execute.staged_folder import StagedFolder
from zenturio.experiment import Experiment


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A folder that is filled, and what its launcher is to be told."""

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
    """The CPUs of this process, handed out and given back."""

    def __init__(self) -> None:
        usable = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        self.every = sorted(usable(0))
        self._free = list(self.every)

    def take(self, count: int) -> list[int]:
        """Take *count* CPUs; return none if fewer are free."""
        if count > len(self._free):
            return []
        cpus, self._free = self._free[:count], self._free[count:]
        return cpus

    def give_back(self, cpus: list[int]) -> None:
        self._free = sorted(self._free + cpus)
