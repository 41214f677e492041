"""A cluster of Dask as a place: a local one, one at an address, or one in jobs of a batch system.

What the machine of a worker does is in runtime, what travels between in traffic.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import ClassVar

from zenturio.errors import PlaceError
from zenturio.execute.dask.cluster_client import DaskCluster, connect
from zenturio.execute.dask.options import DaskOptions
from zenturio.execute.dask.session_folder import DaskSession
from zenturio.execute.dask.task_tracker import TaskTracker
from zenturio.execute.dask.ticket_queue import BatchSizer, DaskTicket
from zenturio.execute.dask.worker_runtime import SessionSettings
from zenturio.execute.executor import ClosesOnExit
from zenturio.execute.workspace import Keep
from zenturio.experiment import INCOMING, Experiment, Outcome
from zenturio.experiment.experiment import Kinds

_DEFAULTS = DaskOptions()
_HAND_BACK_SECONDS = 1.0
"""Seconds after which a task gives back what it has not begun."""


class Dask(ClosesOnExit):
    """Run experiments in the workers of a Dask cluster."""

    Options: ClassVar = DaskOptions

    def __init__(
        self,
        folder: Path = Path(".zenturio"),
        jobs: int | None = None,
        *,
        keep: Keep = "never",
        pin: bool = False,
        options: DaskOptions = _DEFAULTS,
        hands_back: bool = False,
    ) -> None:
        """*jobs* at once, in a local cluster; others have as many slots as their workers say.

        With *hands_back* an experiment that has lost its worker is cancelled, for somebody else.
        """
        self._batches = batches = BatchSizer(options.together)
        self._prologue = options.prologue.strip()
        folder = folder.absolute()
        self._session = DaskSession(folder)
        name, node = self._session.name, platform.node()
        self._settings = SessionSettings(
            name, node, str(folder), keep, pin, options.grace, _HAND_BACK_SECONDS
        )
        try:
            self._cluster = connect(options, self._session.folder, jobs)
        except BaseException:
            self._session.close()
            raise
        incoming = folder.absolute() / INCOMING
        self._tracker = TaskTracker(
            self._cluster,
            self._settings,
            batches,
            incoming,
            options.patience,
            hands_back=hands_back,
        )
        self._closed = False
        self._lock = Lock()

    @property
    def slots(self) -> int:
        """How many at once: workers come and go."""
        return self._cluster.slots

    @property
    def machines(self) -> Kinds:
        """The kinds of machine of the workers that are there, with what each runs before."""
        setup = self._prologue
        return frozenset(replace(kind, setup=setup) for kind in self._cluster.machines())

    @property
    def wants(self) -> int:
        """How many it likes to have: batches that run, that wait for a slot, that come back."""
        return self.slots * (self._batches.size * 3 if self._batches.sends_ahead else 2)

    @property
    def has_workers(self) -> bool:
        """Whether there is a worker at this moment."""
        with suppress(OSError):
            return bool(self._cluster.threads())
        return False

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment; it starts when a worker has room for it."""
        ticket = DaskTicket(experiment, self.slots, self._tracker.stop)
        ticket.setup = self._prologue
        if self._closed:
            ticket.set_exception(PlaceError("this place is closed"))
        else:
            self._tracker.put(ticket)
        return ticket

    def close(self) -> None:
        """Kill what runs, cancel what waits, and leave the cluster, or ends its own."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._tracker.close()
        self._cluster.leave(self._settings.name)
        self._tracker.cancel_unreturned()
        self._cluster.close()
        self._session.close()

    @staticmethod
    def script(folder: Path, options: DaskOptions) -> str:
        """Return what a job of workers would be."""
        from zenturio.execute.dask.worker_jobs import worker_script  # noqa: PLC0415 - loads Dask

        return worker_script(options, folder)

    def check(self) -> Iterable[str]:
        """What is wrong with the cluster, in words."""
        return cluster_problems(self._cluster)


def cluster_problems(cluster: DaskCluster) -> Iterator[str]:
    """Workers that cannot work for us, or that are not what we are."""
    client = cluster.client
    own_version = client.get_versions()["client"]["packages"]["distributed"]
    scheduler_version = client.get_versions()["scheduler"]["packages"]["distributed"]
    if scheduler_version != own_version:
        yield (
            f"the scheduler of {cluster.where} has Dask {scheduler_version}; "
            f"this machine has {own_version}"
        )
    from zenturio.execute.dask import worker_plugin  # noqa: PLC0415 - loads Dask

    answers = client.run(worker_plugin.worker_versions, on_error="return")
    if not answers and not cluster.queued:
        yield f"{cluster.where} has no worker at this moment"
    for worker, answer in answers.items():
        yield from worker_problems(worker, answer)


def worker_problems(worker: str, answer: tuple[str, str, str] | Exception) -> Iterator[str]:
    """What is wrong with a worker that says so of itself."""
    if isinstance(answer, Exception):
        yield f"worker {worker} cannot import zenturio: {answer}; install it there"
        return
    from zenturio.execute.dask import worker_plugin  # noqa: PLC0415 - loads Dask

    _, python, tool = worker_plugin.worker_versions()
    host, its_python, its_tool = answer
    if its_tool != tool:
        yield f"worker {worker} on {host} has zenturio {its_tool}; this machine has {tool}"
    if its_python.split(".")[:2] != python.split(".")[:2]:
        yield f"worker {worker} on {host} has Python {its_python}; this machine has {python}"
