"""
The stations of a worker of Dask, and the tasks that come to them.

Dask cannot stop a task that runs. A station can, and does: when Dask gives the task up (it was
cancelled, its client is gone, the scheduler is lost), when its driver asks, when the worker closes.
When the worker dies its launchers find their pipes closed, and kill what they started.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from platform import node, python_version
from threading import Lock, Thread
from time import monotonic
from typing import Any, cast

from distributed import Worker, WorkerPlugin, get_worker
from distributed.utils import sync
from tornado.ioloop import PeriodicCallback

from zenturio.errors import ZenError
from zenturio.execute.dask.worker_runtime import (
    DriverSettings,
    PlainReport,
    TaskReport,
    WorkerRuntime,
)
from zenturio.execute.experiment_codec import pack_failure
from zenturio.execute.machine_facts import machine_facts
from zenturio.experiment.provenance import tool_version

IDLE_SECONDS = 3.0
"""Seconds after which a station that nobody uses is closed: its driver may be gone."""
_SWEEP_SECONDS = 1.0


class RuntimePlugin(WorkerPlugin):
    """All stations of a worker, one for each driver."""

    name = "zenturio"

    def setup(self, worker: Worker) -> None:
        """The worker is there."""
        sys.set_int_max_str_digits(0)  # metrics have as many digits as they have
        limit = worker.memory_manager.memory_limit
        self._memory = int(limit) if limit else None
        self._slots = worker.state.nthreads
        self._scratch = Path(worker.local_directory)
        self.address = worker.address
        self._lock = Lock()
        self._stations: dict[DriverSettings, WorkerRuntime] = {}
        self._tasks: dict[str, tuple[WorkerRuntime, tuple[int, ...]]] = {}
        self._look = PeriodicCallback(self._sweep, _SWEEP_SECONDS * 1000)
        self._look.start()

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Dask gives up a task that runs."""
        if finish == "released" and start in ("executing", "long-running"):
            given_up = self._tasks.get(str(key))
            if given_up is not None:
                station, tickets = given_up
                station.stop(tickets)

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """The worker closes."""
        self._look.stop()
        with self._lock:
            stations, self._stations = list(self._stations.values()), {}
        await asyncio.gather(*(asyncio.to_thread(each.close) for each in stations))

    @contextmanager
    def at(
        self, way: DriverSettings, key: str, tickets: tuple[int, ...]
    ) -> Iterator[WorkerRuntime]:
        """The driver's station, for the time of a task."""
        with self._lock:
            station = self._stations.get(way)
            if station is None:
                station = WorkerRuntime(way, self._scratch, self._slots, self._memory)
                self._stations[way] = station
            station.busy += 1
            self._tasks[key] = (station, tickets)
        try:
            yield station
        finally:
            with self._lock:
                del self._tasks[key]
                station.busy -= 1
                station.used = monotonic()

    def stop(self, session: str, tickets: tuple[int, ...]) -> None:
        """A driver wants these killed."""
        for way, station in list(self._stations.items()):
            if way.session == session:
                station.stop(tickets)

    def leave(self, session: str) -> None:
        """A driver goes."""
        self._close([way for way in list(self._stations) if way.session == session])

    def _sweep(self) -> None:
        long_ago = monotonic() - IDLE_SECONDS
        with self._lock:
            idle = [w for w, s in self._stations.items() if not s.busy and s.used < long_ago]
        if idle:
            Thread(target=self._close, args=(idle,), daemon=True).start()

    def _close(self, ways: list[DriverSettings]) -> None:
        with self._lock:
            stations = [self._stations.pop(way) for way in ways if way in self._stations]
        for station in stations:
            station.close()


_plugin_lock = Lock()


def _this_plugin() -> RuntimePlugin:
    """The stations of the worker that this task runs in; the first task makes them."""
    worker = get_worker()
    with _plugin_lock:
        if RuntimePlugin.name not in worker.plugins:
            sync(worker.loop, worker.plugin_add, RuntimePlugin(), RuntimePlugin.name)
    return cast("RuntimePlugin", worker.plugins[RuntimePlugin.name])


def run_batch(
    parcel: bytes, tickets: tuple[int, ...], way: DriverSettings, key: str
) -> PlainReport:
    """The task of Dask: runs what is packed."""
    here = _this_plugin()
    try:
        with here.at(way, key, tickets) as station:
            return replace(station.run(parcel, tickets), worker=here.address).plain()
    except ZenError as error:
        return TaskReport({ticket: pack_failure(error) for ticket in tickets}).plain()


def follow_batch(tickets: tuple[int, ...], way: DriverSettings, key: str) -> PlainReport:
    """The task of Dask that waits for what another one left running."""
    with _this_plugin().at(way, key, tickets) as station:
        return station.follow(tickets).plain()


async def stop_experiments(session: str, tickets: tuple[int, ...], dask_worker: Worker) -> None:
    """Called in every worker; a coroutine, for who calls does not wait for its end."""
    stations = dask_worker.plugins.get(RuntimePlugin.name)
    if isinstance(stations, RuntimePlugin):
        stations.stop(session, tickets)


async def leave_session(session: str, dask_worker: Worker) -> None:
    """Called in every worker."""
    stations = dask_worker.plugins.get(RuntimePlugin.name)
    if isinstance(stations, RuntimePlugin):
        await asyncio.to_thread(stations.leave, session)


def worker_machine() -> str:
    """Return what the machine of a worker is, as JSON: nothing else is unpacked on the way."""
    return json.dumps(machine_facts())


def worker_versions() -> tuple[str, str, str]:
    """Of a worker: its machine, its Python, its zenturio."""
    return node(), python_version(), tool_version()
