"""An experiment on its way through this machine, and the room that it needs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from zenturio.execute.filing import Folder
from zenturio.experiment import Experiment, Outcome


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder that is filled, and what its launcher is to be told."""

    folder: Folder
    request: dict[str, Any]


class Task(Future[Outcome]):
    """The future of an experiment; cancelling it while it runs kills the experiment."""

    def __init__(self, experiment: Experiment, slots: int) -> None:
        """For a place with so many *slots*: more than all of them nobody gets."""
        super().__init__()
        self.experiment = experiment
        steps = experiment.steps
        if experiment.build is not None:
            steps = (*steps, *experiment.build.steps)
        self.cpus = min(max([step.cpus for step in steps], default=1), slots)
        self.memory = max([step.memory or 0 for step in steps], default=0)
        self.losses = 0
        """How many launchers were lost under it."""
        self.stopped = False
        """Whether it is to end before its time."""
        self.kill: Callable[[], None] | None = None
        """Ends what runs for it now."""
        self.prepared: Prepared | None = None

    def cancel(self) -> bool:
        """Takes it off, or kills it; false where it is over already."""
        if super().cancel():
            return True
        if self.done():
            return False
        self.stopped = True
        kill = self.kill
        if kill is not None:
            kill()
        return True


class Room:
    """CPUs and memory that are free."""

    def __init__(self, cpus: int, memory: int) -> None:
        self.cpus = cpus
        self.memory = memory

    def fits(self, task: Task) -> bool:
        return task.cpus <= self.cpus and task.memory <= self.memory

    def take(self, task: Task) -> None:
        self.cpus -= task.cpus
        self.memory -= task.memory

    def give_back(self, task: Task) -> None:
        self.cpus += task.cpus
        self.memory += task.memory
