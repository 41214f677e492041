"""Executors: the protocol, the future of an experiment, and what all executors share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Literal, Protocol, Self, runtime_checkable

from zenturio.errors import ZenError
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.experiment.experiment import Kinds


class Executor(Protocol):
    """A place where experiments run; *slots* says how many at once.

    The future fails only if the place itself does (PlaceError): what a program does is an outcome.
    Cancelling a future that waits takes it off; cancelling one that runs kills the experiment,
    whose outcome then has the status ``cancelled``. A place may also have ``wants``: how many it
    likes to have at a time, where that is more than a driver would give it; and ``machine``, where
    it is one kind of machine, and known beforehand; or ``machines``, where it is of several.
    """

    slots: int

    def submit(self, experiment: Experiment) -> Future[Outcome]: ...

    def close(self) -> None:
        """Kill what runs, cancel what waits, and leave no process and no file behind."""
        ...


def machines_of(place: object) -> Kinds:
    """Return the kinds of machine that *place* has now; None where that is not known."""
    machines: Kinds = getattr(place, "machines", None)
    if machines:
        return machines
    machine: MachineKind | None = getattr(place, "machine", None)
    return None if machine is None else frozenset({machine})


@runtime_checkable
class SelectsMachine(Executor, Protocol):
    """A place of several kinds of machine that can run an experiment on a certain one."""

    @property
    def machines(self) -> Kinds:
        """The kinds of the present machines."""
        ...

    def slots_of(self, machine: MachineKind) -> int:
        """Return how many experiments that kind of machine runs at once."""
        ...

    def submit_to(self, machine: MachineKind, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment that only this kind of machine may run."""
        ...


@runtime_checkable
class Resumable(Executor, Protocol):
    """A place whose experiments outlive their driver: the next one that submits them finds them.

    What came out is kept, beyond ``close``, until it is forgotten.
    """

    def forget(self, digest: str) -> None:
        """Note that the outcome is recorded, so that its files may be removed."""
        ...


@runtime_checkable
class RunsAsUsers(Executor, Protocol):
    """A place that runs experiments with the rights of a user of this machine."""

    def submit_as(self, user: str, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment that is run as *user*."""
        ...


@runtime_checkable
class EmitsMessages(Executor, Protocol):
    """A place that has something to say to its user while it works."""

    remarks: deque[str]
    """Each once; whoever shows them takes them off."""


@runtime_checkable
class ScreensExperiments(Executor, Protocol):
    """A place that knows beforehand what it can never run."""

    def refusal(self, experiment: Experiment) -> ZenError | None:
        """Return why it cannot run *experiment*; none where it can."""
        ...


@runtime_checkable
class AdaptsToRuntime(Executor, Protocol):
    """A place that goes by how long experiments take."""

    def learn(self, outcome: Outcome) -> None:
        """Note the duration of an experiment that was run before, here or elsewhere."""
        ...


Progress = Literal["queued", "running", "ended"]
"""How far an experiment is whose outcome is not recorded."""


class Outstanding(Protocol):
    """What drivers have at a place, living and dead, seen from outside.

    The class of a place that has such a thing answers it from ``left(folder, options)``. It may
    also have ``drained()``: of machines that get nothing new, the name and why.
    """

    def stages(self) -> Mapping[str, Progress]:
        """Return how far each experiment is there, by digest."""
        ...

    def cancel(self, digests: Collection[str]) -> int:
        """End those of *digests* whose drivers are dead; how many there were."""
        ...


class ClosesOnExit(ABC):
    """A place that is closed behind the last line of a ``with``."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class CancellableFuture(Future[Outcome]):
    """The future of an experiment; cancelling it while it runs kills the experiment."""

    def __init__(self) -> None:
        super().__init__()
        self.cancel_requested = False
        """Whether it is to end before its time."""
        self.setup = ""
        """What the place runs before: a part of the kind of machine that an outcome belongs to."""

    def set_result(self, outcome: Outcome) -> None:
        """Set the outcome, with the setup of the place added."""
        if self.setup:
            machine = replace(outcome.machine or MachineKind(), setup=self.setup)
            outcome = replace(outcome, machine=machine)
        super().set_result(outcome)

    def cancel(self) -> bool:
        """Take it off, or kill it; false where it is over already."""
        # It waits: the executor will see that and drop it. Running ones are asked to end below.
        if super().cancel():
            return True
        if self.done():
            return False
        self.cancel_requested = True
        self.stop()
        return True

    def stop(self) -> None:
        """End what runs for it now, if anything does."""
        raise NotImplementedError
