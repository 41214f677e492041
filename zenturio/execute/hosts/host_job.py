"""An experiment on its way through hosts."""

from __future__ import annotations

import time
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from zenturio.execute.hosts.host_choice import JobRequirements
from zenturio.execute.hosts.progress_profile import ProgressProfile
from zenturio.execute.json_checks import MalformedError
from zenturio.execute.local_task import LocalTask
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
        """From any thread: something happened to it, or to its host.

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
        """What was said of an attempt before does not count."""
        self._events = SimpleQueue()
        self._unread = 0

    def avoid(self, host: str, seconds: float) -> None:
        """It is not to go back to *host* for a while."""
        self._avoided[host] = time.monotonic() + seconds

    def avoids(self, host: str) -> bool:
        return self._avoided.get(host, 0.0) > time.monotonic()
