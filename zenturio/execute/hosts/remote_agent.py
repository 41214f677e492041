"""The agent on a host: executes the requests of a driver, and reports events.

Requests and replies carry a number; events carry none. When the input ends, this process exits;
jobs continue, because each has its own supervisor.
"""

from __future__ import annotations

import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from zenturio.execute import wire
from zenturio.execute.folder_files import folder_fault, matching_files, remove_tree
from zenturio.execute.hosts import remote_jobs
from zenturio.execute.hosts.remote_jobs import JobStore, StoredJob
from zenturio.execute.run_conditions import check_run_facts
from zenturio.experiment.safe_file_reading import OutsideError, open_inside
from zenturio.system import processes
from zenturio.system.machine import (
    available_memory,
    cpu_mhz,
    cpu_model,
    machine_facts,
    system_name,
    usable_cores,
    usable_memory,
)

# What a host is, how it is at the moment, and how fast it computes.

_STEPS = 100_000
_TIMING_ROUNDS = 3


def static_facts() -> dict[str, Any]:
    """Return what seldom changes: cores, memory, architecture, operating system, CPU."""
    return {
        "node": platform.node(),
        "arch": platform.machine(),
        "os": system_name(),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "mhz": cpu_mhz(),
        "cores": usable_cores(),
        "memory": usable_memory(),
        "python": platform.python_version(),
    }


def current_facts(folder: str) -> dict[str, Any]:
    """Return what changes all the time: load, free memory, free disk at *folder*."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    space = os.statvfs(folder)
    return {
        "load": load,
        "free_memory": available_memory(),
        "disk": space.f_bavail * space.f_frsize,
    }


def measure_speed() -> float:
    """Millions of steps a second of a fixed computation: the best of a few rounds.

    Steps of an interpreter, which tell machines apart, not programs: 20 ms for each round.
    """
    best = float("inf")
    for _ in range(_TIMING_ROUNDS):
        begun = time.perf_counter()
        state = 1
        for step in range(_STEPS):
            state = (state * 1103515245 + step) & 0x7FFFFFFF
        best = min(best, time.perf_counter() - begun)
    return round(_STEPS / best / 1e6, 3)


# What is seen of a job while it runs: that it ended, how far it is, what it asks for.

_STOPPED_SECONDS = 5.0
"""Seconds for which a supervisor may be stopped."""
_MOST_BYTES = 1 << 16
"""Bytes of a profile that are sent at a time."""


class WatchedJob:
    """A job whose events a driver has subscribed to."""

    def __init__(self, token: str, job: StoredJob, sent_bytes: int = 0) -> None:
        """*sent_bytes*: bytes of the profile that the driver has already."""
        self.token = token
        self.job = job
        self.descriptor = -1
        self._profile = job.folder / remote_jobs.FILES[remote_jobs.PROFILE]
        self._requirements = job.folder / remote_jobs.FILES[remote_jobs.REQUIREMENTS]
        self._sent_bytes = sent_bytes
        self._requirements_stamp: tuple[int, int] | None = None
        self._unfinished_stamp: tuple[int, int] | None = None
        self._stop_detector = processes.StopDetector(_STOPPED_SECONDS)
        with suppress(OSError, ValueError, AttributeError):
            self.descriptor = os.pidfd_open(int(job.lock.read_text()))

    def new_events(self) -> list[dict[str, Any]]:
        """Send new lines of the profile, and changed requirements."""
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
        """Return ``ended`` or ``lost``; empty while it runs."""
        state = self.job.state()
        if state == "running":
            self._look_after_keeper()
        if state == "lost":
            remote_jobs.kill_leftovers(self.job)
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


GREETING = b"zenturio agent\n"
_POLL_SECONDS = 0.1
"""Seconds between two checks of what jobs write, while any runs."""
_COMMAND_BYTES, _STREAM_BYTES, _MOST_FILES = 2**20, 2**22, 10**5
"""The same limits as in hosts/protocol.py, beyond which the driver believes nothing."""
_COMMAND_SECONDS = 10.0
"""Seconds that a command may take which is run for its answer."""
Answer = tuple[dict[str, Any], list[bytes]]


class HostAgent:
    """Serves one driver through a pair of descriptors."""

    def __init__(self, folder: Path, owner: str, requests: int = 0, replies: int = 1) -> None:
        self._store = JobStore(folder, owner)
        self._folder = folder
        self._requests = requests
        self._replies = replies
        self._watched: dict[str, WatchedJob] = {}
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._handlers: dict[str, Callable[[dict[str, Any], list[bytes]], Answer]] = {
            "hello": self._hello, "facts": self._facts, "command": self._command,
            "missing": self._missing, "put": self._put, "prepare": self._prepare,
            "start": self._start, "watch": self._watch, "state": self._state,
            "cancel": self._cancel, "signal": self._signal, "reply": self._reply,
            "found": self._matching, "read": self._read, "built": self._built,
            "remove": self._remove,
        }  # fmt: skip

    def serve(self) -> None:
        """Until the driver goes."""
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll(self._wait())}
            if self._requests in ready:
                request = wire.receive(self._requests)
                if request is None:
                    return
                self._answer(request)
            self._report_changes(ready)

    def _wait(self) -> float | None:
        return _POLL_SECONDS * 1000 if self._watched else None

    def _report_changes(self, ready: set[int]) -> None:
        """Tell what jobs have written, and which have ended."""
        for watched in list(self._watched.values()):
            state = ""
            if watched.descriptor in ready or watched.descriptor < 0 or not ready:
                state = watched.final_state()
            if not ready or state:
                for event in watched.new_events():
                    wire.send(self._replies, event)
            if state:
                self._unwatch(watched)
                wire.send(self._replies, {"event": "over", "token": watched.token, "state": state})

    def _answer(self, request: dict[str, Any]) -> None:
        blobs = wire.receive_blobs(self._requests, request) or []
        try:
            answer, parts = self._handlers[request["do"]](request, blobs)
        except (OSError, ValueError, OutsideError, subprocess.SubprocessError) as error:
            answer, parts = {"error": str(error) or type(error).__name__}, []
        except (LookupError, TypeError) as error:  # a question that is not whole ends nobody
            answer, parts = {"error": repr(error)}, []
        answer = {**answer, "id": request["id"], "lengths": list(map(len, parts))}
        wire.send(self._replies, answer, *parts)

    def _hello(self, _request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Return where the folder is, which jobs there are, and what machine this is."""
        jobs = {token: self._store.job(token).state() for token in self._store.tokens()}
        return {"folder": str(self._folder), "jobs": jobs, "machine": machine_facts(nvml="")}, []

    def _facts(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        values: dict[str, Any] = current_facts(str(self._folder))
        if request["whole"]:
            values.update(static_facts())
        if request["calibrate"]:
            values["speed"] = measure_speed()
        if request["probe"]:
            values.update(self._probe_facts(request["probe"]))
        return {"facts": values}, []

    def _probe_facts(self, command: str) -> dict[str, Any]:
        """Return what a command of the host's owner says of it: a JSON object."""
        process = self._run_command(command)
        values: Any = None
        if process.returncode == 0:
            with suppress(ValueError):
                values = json.loads(process.stdout)
        if not isinstance(values, dict):
            output = (process.stderr or process.stdout).decode("utf-8", "replace").strip()[-200:]
            raise ValueError(  # noqa: TRY004 - what a command says is a value
                f"the probe {command!r} ends with {process.returncode}, and prints no JSON object: "
                f"{output or 'nothing'}"
            )
        return values

    def _run_command(self, command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )

    def _command(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        process = self._run_command(request["command"])
        return {"status": process.returncode}, [
            process.stdout[:_COMMAND_BYTES],
            process.stderr[:_COMMAND_BYTES],
        ]

    def _missing(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Return which of the shared files are not here."""
        absent = [
            digest for digest in request["digests"] if not self._store.staged(digest).exists()
        ]
        return {"missing": absent}, []

    def _put(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        digest, offset, mode = request["digest"], request["offset"], request["mode"]
        mtime, last = request["mtime"], request["last"]
        self._store.put(digest, offset, blobs[0], mode, mtime=mtime, last=last)
        return {}, []

    def _prepare(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Return a folder for a job; told where it is."""
        job = self._store.job(request["token"])
        if job.is_running():
            raise ValueError(f"{request['token']} runs")
        self._store.prepare(job, request, blobs)
        return {"folder": str(job.folder)}, []

    def _start(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Start a job; one that runs or has ended already is only watched: asked twice is once."""
        job = self._store.job(request["token"])
        state = job.state()
        if state == "unknown":
            raise ValueError(f"{request['token']} is not prepared")
        # A repeated start after a lost answer finds another state: the job runs once.
        if state == "prepared":
            remote_jobs.start_supervisor(job, request["request"])
        return self._watch(request, [])

    def _watch(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        token = request["token"]
        self._unwatch(self._watched.get(token))
        watched = WatchedJob(token, self._store.job(token), request.get("told", 0))
        self._watched[token] = watched
        if watched.descriptor >= 0:
            self._poll.register(watched.descriptor, select.POLLIN)
        return {"state": watched.job.state()}, []

    def _unwatch(self, watched: WatchedJob | None) -> None:
        if watched is None:
            return
        del self._watched[watched.token]
        if watched.descriptor >= 0:
            self._poll.unregister(watched.descriptor)
        watched.close()

    def _state(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        return {"state": self._store.job(request["token"]).state()}, []

    def _cancel(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        remote_jobs.cancel_job(self._store.job(request["token"]))
        return {}, []

    def _signal(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """STOP or CONT for all that a job runs."""
        job = self._store.job(request["token"])
        number = {"STOP": signal.SIGSTOP, "CONT": signal.SIGCONT}[request["signal"]]
        if job.is_running():
            processes.send_signal(processes.descendants(int(job.lock.read_text())), number)
        return {}, []

    def _reply(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Return how a job ended, as its supervisor saw it.

        Add what it did to shared files and to its folder.
        """
        job = self._store.job(request["token"])
        with job.reply.open("rb") as file:
            reply = wire.receive(file.fileno())
            blobs = (
                None
                if reply is None
                else wire.receive_blobs(file.fileno(), reply, most=_STREAM_BYTES)
            )
        if blobs is None:
            raise ValueError("its reply is not whole")
        check_run_facts(reply, 2**16)  # the job could write to it: that is no fault of this host
        fault = folder_fault(str(job.folder))
        answer = {"reply": reply, "spoilt": bool(job.spoilt()), "fault": fault}
        return {**answer, "idle": job.idle.exists(), "machine": machine_facts(nvml="")}, blobs

    def _matching(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Return the plain files of a job's folder that match patterns: path, size and mode."""
        folder = self._store.job(request["token"]).folder
        files = []
        for path in matching_files(str(folder), request["patterns"]):
            with suppress(OSError):
                look = (folder / path).lstat()
                files.append([path, look.st_size, look.st_mode & 0o777])
        if len(files) > _MOST_FILES:
            raise ValueError(f"{len(files)} files match; at most {_MOST_FILES} come back")
        return {"files": files}, []

    def _read(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Return a piece of a file of a job's folder, to which no link leads."""
        folder = self._store.job(request["token"]).folder
        descriptor = open_inside(folder, request["path"])
        with os.fdopen(descriptor, "rb") as file:
            file.seek(request["offset"])
            return {}, [file.read(request["length"])]

    def _built(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """Return whether a build is here; with a token, what that job left is the build."""
        if "token" in request:
            self._store.keep_build(self._store.job(request["token"]), request["digest"])
        return {"built": self._store.is_built(request["digest"])}, []

    def _remove(self, request: dict[str, Any], _blobs: list[bytes]) -> Answer:
        """End a job, and take all of it away; told whether it is gone."""
        job = self._store.job(request["token"])
        self._unwatch(self._watched.get(request["token"]))
        if job.is_running():
            remote_jobs.cancel_job(job)
            remote_jobs.kill_stopped(job)
            return {"gone": False}, []
        keeper_lost = job.lock.exists() and not job.reply.exists()
        if keeper_lost:
            remote_jobs.kill_leftovers(job)
        remove_tree(job.path)
        return {"gone": True}, []


def main() -> None:
    """Run ``serve FOLDER OWNER``, on standard input and output."""
    folder = Path(sys.argv[1]).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.write(1, GREETING)
    with suppress(BrokenPipeError):
        HostAgent(folder, sys.argv[2]).serve()
