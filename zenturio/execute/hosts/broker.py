"""Assignment of tasks to hosts: jobs that wait, hosts that have room, and jobs that would be better
elsewhere.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from threading import RLock
from typing import Any

from zenturio.errors import ExpressionError, PlaceError, PluginError
from zenturio.execute.hosts.host_choice import (
    JobRequirements,
    ProgressProfile,
    Selector,
    best_host,
    explain_mismatch,
    worth_moving,
)
from zenturio.execute.hosts.hosts_file import KNOWN_FACTS, HostsOptions
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.launcher_client import LocalTask
from zenturio.execute.wire import MalformedError
from zenturio.experiment import Experiment, MachineKind

_ARRIVALS = count()
_MOST_UNREAD_CHARACTERS = 32 * 2**20
"""Characters of texts that may wait to be read."""
_MOST_UNREAD_EVENTS = 20_000
"""Events that may: at most ten a second are sent for a job, and files may be on their way long."""


class HostJob(LocalTask):
    """The future of an experiment, what it wants, and what has become of it so far."""

    def __init__(
        self,
        experiment: Experiment,
        slots: int,
        wants: JobRequirements,
        kind: MachineKind | None = None,
    ) -> None:
        """With *kind* only a host of that kind of machine may run it."""
        super().__init__(experiment, max(slots, 1))
        self.requirements = wants
        self._kind = kind
        self.profile = ProgressProfile()
        """Of the attempt that runs."""
        self._events: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self._unread = 0
        """Characters of texts in the news."""
        self.moves = 0
        """How often it moved because that was better."""
        self.began = time.time()
        self.host = ""
        """Where it is, or was last."""
        self.number = next(_ARRIVALS)
        """The order in which jobs came."""
        self.runs = False
        """Whether its commands run: not while files go there, nor while they come back."""
        self.staging = 0.0
        """Seconds that it took to start it, the last time."""
        self.score = 0.0
        """The rank of that host when it went there: what is usual there was measured under it."""
        self.suspects: dict[str, tuple[str, str]] = {}
        """Hosts that may be why it failed there: a sign of that, and the command that it needs."""
        self._avoided: dict[str, float] = {}
        self.left_at = 0.0
        """Since when it is on its way to another host; 0 where it is not."""
        self.kill = self.stop

    def suits(self, machine: MachineKind | None) -> bool:
        """Return whether a host of that kind of machine may run it."""
        return self._kind is None or self._kind == machine

    @property
    def digest(self) -> str:
        return self.experiment.digest

    def stop(self) -> None:
        """Tell whoever sees to it that it is to end."""
        self._events.put(("cancel", {}))

    def cancel_waiting(self) -> bool:
        """Cancel it if it was never begun."""
        if self.running() or self.done():
            return self.done()
        self.cancel()
        return self.set_running_or_notify_cancel() is False

    def notify(self, kind: str, event: dict[str, Any]) -> None:
        """Add an event of the job or of its host; thread-safe.

        MalformedError where its host says more than anybody reads.
        """
        self._unread += len(event.get("text", ""))
        if self._unread > _MOST_UNREAD_CHARACTERS or self._events.qsize() > _MOST_UNREAD_EVENTS:
            raise MalformedError("it sends more events than can be read")
        self._events.put((kind, event))

    def next_event(self, seconds: float) -> tuple[str, dict[str, Any]]:
        """Return what happened next, within so many *seconds*; an empty text, if nothing did."""
        try:
            kind, event = self._events.get(timeout=seconds)
        except Empty:
            return "", {}
        self._unread -= len(event.get("text", ""))
        return kind, event

    def discard_events(self) -> None:
        """Forget earlier reports on the attempt."""
        self._events = SimpleQueue()
        self._unread = 0

    def avoid(self, host: str, seconds: float) -> None:
        """Do not assign it to *host* for a while."""
        self._avoided[host] = time.monotonic() + seconds

    def avoids(self, host: str) -> bool:
        return self._avoided.get(host, 0.0) > time.monotonic()


_CHANGING_FACTS = frozenset(("load", "free_memory", "disk", "free"))
"""What may be otherwise in a moment: a requirement of these is waited for."""


class Broker:
    """Gives waiting jobs to hosts, in the order in which they came as far as there is room.

    A job that has to wait for hosts of a certain sort does not keep others from theirs.
    """

    def __init__(
        self,
        options: HostsOptions,
        limit: int | None,
        select: Selector,
        start: Callable[[HostJob, RemoteHost], None],
    ) -> None:
        """*select* chooses hosts, *start* starts an attempt; at most *limit* jobs run at a time."""
        self._options = options
        self._select = select
        self._limit = limit
        self._start = start
        self._hosts: dict[str, RemoteHost] = {}
        self._waiting: list[HostJob] = []
        self._running: dict[HostJob, RemoteHost] = {}
        self._promised: dict[HostJob, RemoteHost] = {}
        """Room that is kept for jobs which are to move there."""
        self._turn = RLock()
        self._move: float | None = None
        self._closed = False

    @property
    def hosts(self) -> list[RemoteHost]:
        return list(self._hosts.values())

    def host(self, name: str) -> RemoteHost | None:
        return self._hosts.get(name)

    def add(self, host: RemoteHost) -> None:
        self._hosts[host.name] = host

    def refusal(self, job: HostJob) -> PlaceError | ExpressionError | None:
        """Return why no host will ever do for *job*; none as long as one may."""
        hosts = [host for host in self.hosts if not host.leaving and not host.distrusted]
        if self.hosts and all(host.drain_reason for host in hosts):
            why = "\n".join(f"{host.name}: {host.fault}" for host in self.hosts)
            return PlaceError("no usable host is left", hint=why)
        if not all(host.slots for host in hosts):
            return None  # one that nobody has seen yet may do
        memory = max((h.facts.get("memory") or float("inf") for h in hosts), default=0.0)
        if job.memory > memory:
            return PlaceError(
                f"an experiment needs {job.memory} B of memory; no host has more than {memory} B",
                hint="a smaller MEMORY, or another host",
            )
        required_names = {
            name for expression in job.requirements.requires for name in expression.host_names
        }
        facts = {host.name: host.values() for host in hosts}
        try:
            if best_host(job.requirements, list(facts.values()), self._names()) is not None:
                return None
            # Load, free memory and disk change: such a job waits. Only what cannot change is
            # refused.
            if required_names & _CHANGING_FACTS or required_names - set(self._names()):
                return self._unknown(job)
            return PlaceError(
                "no host meets REQUIRE",
                hint=explain_mismatch(job.requirements, facts, self._names()),
            )
        except ExpressionError as error:
            return error

    def put(self, job: HostJob) -> None:
        """Append *job* to the queue."""
        with self._turn:
            self.cancel_move(job)  # it may go where room was kept, or where it is better by now
            if job not in self._waiting:
                insort(self._waiting, job, key=lambda waiting: waiting.number)
        self.assign()

    def adopt(self, job: HostJob, host: RemoteHost) -> None:
        """Add *job*, which runs at *host* already, even beyond its capacity."""
        with self._turn:
            self._take(job, host)
        self._start(job, host)

    def stuck(self) -> str:
        """Return why nothing runs although jobs wait, in words; nothing where that is not so."""
        with self._turn:
            if self._running or not self._waiting or self._closed:
                return ""
            job, up = self._waiting[0], [host for host in self.hosts if host.is_usable]
            with suppress(ExpressionError):
                why = explain_mismatch(
                    job.requirements, {h.name: h.values() for h in up}, self._names()
                )
                count = len(self._waiting)
                reason = "no host meets their requirements now"
                return f"nothing runs, {count:,} waiting: {reason}\n{why}".strip()
            return ""

    def detach(self, job: HostJob) -> None:
        """Release the resources of *job* at its host."""
        with self._turn:
            host = self._running.pop(job, None)
            if host is not None:
                host.take(-job.cpus, -job.memory)

    def cancel_move(self, job: HostJob) -> None:
        """Cancel the move of *job*, and free the slots that were reserved for it."""
        with self._turn:
            host = self._promised.pop(job, None)
            if host is not None:
                host.take(-job.cpus, -job.memory)

    def rebalance(self) -> None:
        """Assign waiting jobs after a change of a host."""
        self.assign()
        self._improve()

    def assign(self) -> None:
        """Give out all that can be given."""
        started, refused = [], []
        with self._turn:
            for job in list(self._waiting):
                if self._closed or not self._is_room():
                    break
                # From here on the future cannot be cancelled by its owner alone: the agent has to
                # hear it.
                if not job.running() and not job.set_running_or_notify_cancel():
                    self._waiting.remove(job)
                    continue
                try:
                    host = self._chosen(job)
                except PluginError as error:
                    self._waiting.remove(job)
                    refused.append((job, error))
                    continue
                if host is not None:
                    self._waiting.remove(job)
                    self._take(job, host)
                    started.append((job, host))
        # Outside of the lock: an agent may finish at once, and call back.
        for job, host in started:
            self._start(job, host)
        for job, fault in refused:
            job.set_exception(fault)

    def reject_impossible(self) -> None:
        """End the waiting of those for which no host will ever do."""
        refused = []
        with self._turn:
            for job in list(self._waiting):
                refusal = self.refusal(job)
                if refusal is not None:
                    self._waiting.remove(job)
                    refused.append((job, refusal))
        for job, fault in refused:
            if job.running() or job.set_running_or_notify_cancel():
                job.set_exception(fault)

    def find_better(self, job: HostJob, host: RemoteHost) -> RemoteHost | None:
        """Return where *job*, which breaks its contract, is better off now."""
        with self._turn:
            host_found = self._best(job, without=host)
            return host_found if host_found and self._gains(job, host_found, gain=0.0) else None

    def has_alternative(self, job: HostJob, host: RemoteHost) -> bool:
        """Return whether any other host would do, room or not."""
        with self._turn:
            return self._best(job, without=host, room=False) is not None

    def is_suitable(self, requirements: JobRequirements, host: RemoteHost) -> bool:
        """Return whether *host* is as it is wanted; ExpressionError where that makes no sense."""
        return best_host(requirements, [host.values()], self._names()) is not None

    def observe_move(self, seconds: float) -> None:
        """Note the cost of a move, as the estimate for the next one."""
        self._move = seconds if self._move is None else 0.5 * (self._move + seconds)

    def close(self) -> tuple[list[HostJob], list[HostJob]]:
        """Assign no more jobs; return those that wait, and those that run."""
        with self._turn:
            self._closed = True
            return list(self._waiting), list(self._running)

    def remove(self, job: HostJob) -> bool:
        """Take *job* off, if it waits."""
        with self._turn:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            return True

    def _is_room(self) -> bool:
        if self._limit is not None and len(self._running) >= self._limit:
            return False
        return any(host.fits(1, 0) for host in self._hosts.values())

    def _best(
        self, job: HostJob, *, without: RemoteHost | None = None, room: bool = True
    ) -> RemoteHost | None:
        """Return the best host for *job*.

        None where its selector fails: it is heard when it assigns.
        """
        try:
            return self._chosen(job, without=without, room=room)
        except PluginError:
            return None

    def _chosen(
        self, job: HostJob, *, without: RemoteHost | None = None, room: bool = True
    ) -> RemoteHost | None:
        hosts = [host for host in self._hosts.values() if host is not without]
        fit: Iterable[RemoteHost] = (
            host
            for host in hosts
            if job.suits(host.kind)
            and not job.avoids(host.name)
            and (host.fits(self._cpus(job, host), job.memory) if room else host.is_usable)
        )
        candidates = list(fit)
        try:
            at = self._select(
                job.requirements, [host.values() for host in candidates], self._names()
            )
        except ExpressionError:
            return None  # it could be computed when the job came: it will be again
        return None if at is None else candidates[at]

    def _cpus(self, job: HostJob, host: RemoteHost) -> int:
        return min(job.cpus, host.slots)

    def _take(self, job: HostJob, host: RemoteHost) -> None:
        self._running[job] = host
        host.take(job.cpus, job.memory)
        with suppress(ExpressionError):
            job.score = job.requirements.score(host.values(), self._names())

    def _gains(self, job: HostJob, target: RemoteHost, gain: float) -> bool:
        names = self._names()
        return worth_moving(
            job.profile,
            job.score,
            job.requirements.score(target.values(), names),
            move=2 * job.staging if self._move is None else self._move,
            gain=gain,
            anew=not self._options.restart,
        )

    def _improve(self) -> None:
        """Tell jobs that run of better hosts, one for each that has room."""
        if not self._options.gain:
            return
        with self._turn:
            for job, host in list(self._running.items()):
                if job.moves >= self._options.migrations or not host.is_up or job in self._promised:
                    continue
                target = self._best(job, without=host)
                if target is not None and self._gains(job, target, self._options.gain):
                    # Room is reserved while it moves: a waiting job would take it in the meantime.
                    self._promised[job] = target
                    target.take(job.cpus, job.memory)
                    job.notify("better", {"host": target.name})

    def _names(self) -> set[str]:
        return {*KNOWN_FACTS, *(name for host in self._hosts.values() for name in host.facts)}

    def _unknown(self, job: HostJob) -> ExpressionError | None:
        """Return the error for a requirement with a fact that no host has."""
        for expression in job.requirements.requires:
            if expression.host_names - self._names():
                try:
                    expression.value(job.requirements.values, host=dict.fromkeys(self._names()))
                except ExpressionError as error:
                    return error
        return None
