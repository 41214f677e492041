"""
The runtimes of a Dask worker, and their tasks.

Dask cannot stop a task that runs. A runtime can, and does: when Dask gives the task up (it was
cancelled, its client is gone, the scheduler is lost), when its driver asks, when the worker closes.
When the worker dies its launchers find their pipes closed, and kill what they started.
"""

from __future__ import annotations

import asyncio
import json
import logging
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
    PlainReport,
    SessionSettings,
    TaskReport,
    WorkerRuntime,
)
from zenturio.execute.experiment_codec import pack_failure
from zenturio.experiment.provenance import tool_version
from zenturio.system.machine import machine_facts

_log = logging.getLogger(__name__)

IDLE_SECONDS = 3.0
"""Seconds after which an unused runtime is closed: its driver may be gone."""
_SWEEP_SECONDS = 1.0


class RuntimePlugin(WorkerPlugin):
    """All runtimes of a worker, one for each driver."""

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
        self._runtimes: dict[SessionSettings, WorkerRuntime] = {}
        self._tasks: dict[str, tuple[WorkerRuntime, tuple[int, ...]]] = {}
        self._look = PeriodicCallback(self._sweep, _SWEEP_SECONDS * 1000)
        self._look.start()

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Dask gives up a task that runs."""
        if finish == "released" and start in ("executing", "long-running"):
            given_up = self._tasks.get(str(key))
            if given_up is not None:
                runtime, tickets = given_up
                runtime.stop(tickets)

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """The worker closes."""
        self._look.stop()
        with self._lock:
            runtimes, self._runtimes = list(self._runtimes.values()), {}
        await asyncio.gather(*(asyncio.to_thread(runtime.close) for runtime in runtimes))

    @contextmanager
    def at(
        self, session: SessionSettings, key: str, tickets: tuple[int, ...]
    ) -> Iterator[WorkerRuntime]:
        """The driver's runtime, for the time of a task."""
        with self._lock:
            runtime = self._runtimes.get(session)
            if runtime is None:
                runtime = WorkerRuntime(session, self._scratch, self._slots, self._memory)
                self._runtimes[session] = runtime
                _log.debug("session %s begins", session.name)
            runtime.active_tasks += 1
            self._tasks[key] = (runtime, tickets)
        try:
            yield runtime
        finally:
            with self._lock:
                del self._tasks[key]
                runtime.active_tasks -= 1
                runtime.last_used = monotonic()

    def stop(self, session: str, tickets: tuple[int, ...]) -> None:
        """A driver wants these killed."""
        for settings, runtime in list(self._runtimes.items()):
            if settings.name == session:
                runtime.stop(tickets)

    def leave(self, session: str) -> None:
        """A driver goes."""
        self._close([runtime for runtime in list(self._runtimes) if runtime.name == session])

    def _sweep(self) -> None:
        long_ago = monotonic() - IDLE_SECONDS
        with self._lock:
            idle = [
                w
                for w, s in self._runtimes.items()
                if not s.active_tasks and s.last_used < long_ago
            ]
        if idle:
            Thread(target=self._close, args=(idle,), daemon=True).start()

    def _close(self, sessions: list[SessionSettings]) -> None:
        with self._lock:
            runtimes = [
                self._runtimes.pop(session) for session in sessions if session in self._runtimes
            ]
        for runtime in runtimes:
            runtime.close()


_plugin_lock = Lock()


def _this_plugin() -> RuntimePlugin:
    """Return the runtimes of the worker that this task runs in; the first task makes them."""
    worker = get_worker()
    # Tasks of one worker start in several threads: one of them registers the plugin.
    with _plugin_lock:
        if RuntimePlugin.name not in worker.plugins:
            sync(worker.loop, worker.plugin_add, RuntimePlugin(), RuntimePlugin.name)
    return cast("RuntimePlugin", worker.plugins[RuntimePlugin.name])


def run_batch(
    batch: bytes, tickets: tuple[int, ...], session: SessionSettings, key: str
) -> PlainReport:
    """Return the task of Dask: runs what is packed."""
    plugin = _this_plugin()
    try:
        with plugin.at(session, key, tickets) as runtime:
            return replace(runtime.run(batch, tickets), worker=plugin.address).plain()
    except ZenError as error:
        return TaskReport({ticket: pack_failure(error) for ticket in tickets}).plain()


def follow_batch(tickets: tuple[int, ...], session: SessionSettings, key: str) -> PlainReport:
    """Return the task of Dask that waits for what another one left running."""
    with _this_plugin().at(session, key, tickets) as runtime:
        return runtime.follow(tickets).plain()


async def stop_experiments(session: str, tickets: tuple[int, ...], dask_worker: Worker) -> None:
    """Called in every worker; a coroutine, for who calls does not wait for its end."""
    runtimes = dask_worker.plugins.get(RuntimePlugin.name)
    if isinstance(runtimes, RuntimePlugin):
        runtimes.stop(session, tickets)


async def leave_session(session: str, dask_worker: Worker) -> None:
    """Called in every worker."""
    runtimes = dask_worker.plugins.get(RuntimePlugin.name)
    if isinstance(runtimes, RuntimePlugin):
        await asyncio.to_thread(runtimes.leave, session)


def worker_machine() -> str:
    """Return what the machine of a worker is, as JSON: nothing else is unpacked on the way."""
    return json.dumps(machine_facts())


def worker_versions() -> tuple[str, str, str]:
    """Of a worker: its machine, its Python, its zenturio."""
    return node(), python_version(), tool_version()
