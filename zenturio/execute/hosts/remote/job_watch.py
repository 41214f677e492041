"""What is seen of a job while it runs: that it ended, how far it is, what it asks for."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

from zenturio.execute.hosts.remote import supervisor
from zenturio.execute.hosts.remote.job_store import StoredJob
from zenturio.system import processes

_STOPPED_SECONDS = 5.0
"""Seconds for which a supervisor may be stopped."""
_MOST_BYTES = 1 << 16
"""Bytes of a profile that are told at a time."""


class WatchedJob:
    """One job that somebody wants to hear of."""

    def __init__(self, token: str, job: StoredJob, sent_bytes: int = 0) -> None:
        """*sent_bytes*: bytes of the profile that are known already."""
        self.token = token
        self.job = job
        self.descriptor = -1
        self._profile = job.folder / supervisor.FILES[supervisor.PROFILE]
        self._requirements = job.folder / supervisor.FILES[supervisor.REQUIREMENTS]
        self._sent_bytes = sent_bytes
        self._requirements_stamp: tuple[int, int] | None = None
        self._unfinished_stamp: tuple[int, int] | None = None
        self._stop_detector = processes.StopDetector(_STOPPED_SECONDS)
        with suppress(OSError, ValueError, AttributeError):
            self.descriptor = os.pidfd_open(int(job.lock.read_text()))

    def new_events(self) -> list[dict[str, Any]]:
        """New lines of the profile, and requirements that were written anew."""
        events: list[dict[str, Any]] = []
        with suppress(OSError):
            if self._profile.stat().st_size > self._sent_bytes:
                events += self._progress()
        with suppress(OSError):
            events += self._new_requirements()
        return events

    def _new_requirements(self) -> list[dict[str, Any]]:
        status = self._requirements.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._requirements_stamp:
            return []
        text = self._requirements.read_text("utf-8", "replace")[:_MOST_BYTES]
        # The program may be in the middle of writing it: half of `>= 512MB` is another demand.
        if not text.endswith("\n") and stamp != self._unfinished_stamp:
            self._unfinished_stamp = stamp
            return []
        self._requirements_stamp = stamp
        return [{"event": "demands", "token": self.token, "text": text}]

    def _progress(self) -> list[dict[str, Any]]:
        with self._profile.open("rb") as file:
            file.seek(self._sent_bytes)
            lines, end, _ = file.read(_MOST_BYTES).rpartition(b"\n")
        if not end:
            return []  # the line is not whole yet
        self._sent_bytes += len(lines) + 1
        text = lines.decode("utf-8", "replace")
        return [{"event": "profile", "token": self.token, "text": text, "told": self._sent_bytes}]

    def final_state(self) -> str:
        """``ended`` or ``lost``; empty while it runs."""
        state = self.job.state()
        if state == "running":
            self._look_after_keeper()
        if state == "lost":
            supervisor.kill_leftovers(self.job)
        return state if state in ("ended", "lost") else ""

    def _look_after_keeper(self) -> None:
        """Kill a supervisor that its experiment has stopped: it keeps no TIMEOUT any more."""
        with suppress(OSError, ValueError):
            pid = int(self.job.lock.read_text())
            if self._stop_detector.is_stuck(pid) and self.job.is_running():
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
