"""An experiment on its way through this machine, and the room that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zenturio.execute.cancellable_future import CancellableFuture
from zenturio.execute.file_staging import StagedFolder
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
