"""A launcher: one process for each slot, which runs one experiment after another.

The driver sends a request through standard input and gets a reply through standard output; when
the input ends, the driver has gone, and everything that the launcher started goes too.

* Orphans come to the launcher (subreaper, on Linux): a run is over when it has no child left,
  whatever the experiment forked, and in whichever session. Elsewhere they are looked for.
* Output goes through pipes that the launcher drains; see streams.
* Several commands share the pipes and one life: what one leaves in the background may serve the
  next, and is ended behind the last.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

from zenturio.execute import wire
from zenturio.execute.resource_monitors import RunObservers
from zenturio.execute.run_conditions import (
    recorded_limits,
    run_load,
    thread_limits,
    unbound,
)
from zenturio.execute.spawn import CapturedStream, Spawner, live_log_paths
from zenturio.system import processes
from zenturio.system.machine import MachineLoad, bound_cpus, processor_delay

_QUIET_SECONDS = 0.002
"""Seconds for which a command is left alone, with what it prints: most short ones end by then."""
_UNKILLABLE_SECONDS = 30.0
"""Seconds after which a killed process that does not go is left to the system."""
_REAPED_AT_ONCE = 64
"""How many children are taken in before something else gets its turn."""


class Launcher:
    """Runs the requests that come through *requests*, and answers through *replies*."""

    def __init__(self, requests: int, replies: int, load: MachineLoad | None = None) -> None:
        self.requests = requests
        self._replies = replies
        self.wake, self.far = os.pipe()
        for end in (self.wake, self.far):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # poll() does not return for a signal with a Python handler; the byte in this pipe wakes it.
        signal.set_wakeup_fd(self.far, warn_on_full_buffer=False)
        self.poll = select.poll()
        self.poll.register(requests, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        # Our own variables are no business of an experiment: ZENTURIO_DB may hold a password, which
        # would stand in its output, and how we log is not how it prints.
        self.environment = {
            name: value for name, value in os.environb.items() if not name.startswith(b"ZENTURIO_")
        }
        self.driver_gone = False
        """Whether the driver has gone."""
        self.machine_load = load or MachineLoad()
        self._runs = 0
        self._peak = 0

    def peak(self) -> int:
        """Return the launcher's own largest size; looked up now and then, for it hardly changes."""
        if self._runs % 256 == 0:
            self._peak = processes.own_peak_bytes()
        self._runs += 1
        return self._peak

    def serve(self) -> None:
        """Until the driver goes."""
        while (request := wire.receive(self.requests)) is not None:
            if "steps" not in request:
                continue  # a cancellation that came too late
            reply, blobs = LauncherRun(self, request).execute()
            if self.driver_gone:
                return
            wire.send(self._replies, reply, *blobs)


class LauncherRun:
    """One request: its commands, one after the other, until one fails or the run is stopped."""

    def __init__(self, launcher: Launcher, request: dict[str, Any]) -> None:
        self._launcher = launcher
        self._poll = launcher.poll
        self._request = request
        self._streams: dict[int, CapturedStream] = {}
        self._ctime = 0.0
        self._maxrss = 0
        self._hidden = 0
        """A largest resident size up to this may be the launcher's own."""
        self._leader = 0
        self._leaders: list[int] = []
        """All commands that were started."""
        metrics = request["environment"].get("ZEN_METRICS", "")
        self._mark = os.fsencode(f"ZEN_METRICS={metrics}") if metrics else b""
        """What the environment of each process of the run holds, where none removed it."""
        self._over = True
        """Whether the command itself has ended."""
        self._status = 0
        self._limits: dict[str, str] = {}
        """The variables that say how many threads it may start."""
        self._delay: float | None = None
        """Seconds that commands were ready and waited for a processor."""
        self._observers = RunObservers({}, shared=False, environment={})
        """The metrics of OBSERVE."""
        self._stop = ""
        """Why the run has to end: timeout, cancelled, memory, processes; or unstartable."""

    def execute(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the reply: how it ended, what it used; and head and tail of both streams."""
        request = self._request
        streams = [CapturedStream(request["head"], request["tail"]) for _ in range(2)]
        cpu = min(request["cpus"]) if request["cpus"] else None
        before = self._launcher.machine_load.sample(cpu)
        started, clock = time.time(), time.monotonic()
        step, wall, why = self._steps(streams)
        self._observers.end()
        for stream in streams:
            stream.close_write()
        self._end(0.0 if self._stop in ("memory", "processes") else request["grace"])
        blobs = [part for stream in streams for part in self._finish(stream)]
        ended = started + time.monotonic() - clock
        after = self._launcher.machine_load.sample(cpu)
        pinned = bound_cpus(request["cpus"])
        return {
            "stop": self._stop,
            "why": why,
            "step": step,
            "status": self._status,
            "wtime": wall,
            "ctime": self._ctime,
            "maxrss": self._maxrss if self._maxrss > self._hidden else None,
            "hidden": self._hidden,
            "started": started,
            "ended": ended,
            "load": [before.load, after.load],
            "machine": run_load(before, after, self._ctime, self._delay),
            "threads": self._limits,
            **({"cpus": len(request["cpus"])} if request["cpus"] else {}),
            **({"pinned": pinned} if pinned else {}),
            "observed": self._observers.readings,
            "user_mode": self._observers.user_mode,
            "sizes": [stream.size for stream in streams],
            "lengths": list(map(len, blobs)),
        }, blobs

    def _steps(self, streams: list[CapturedStream]) -> tuple[int, float, str]:
        """Run the commands; the last one's number, the wall time of all, and what went wrong."""
        number, wall = 0, 0.0
        used = None  # by the program, before its result is verified
        request = self._request
        environment = self._environment()
        self._limits = recorded_limits(environment)
        self._observers = RunObservers(
            request.get("observe", {}),
            shared=bool(request.get("shared")),
            environment=environment,
        )
        spawner = Spawner(environment, streams[0].write, streams[1].write)
        setsid = processes.EXACT_STARTER if request["exact"] else ""
        try:
            os.chdir(request["folder"])
            processes.bind_to_cpus(request["cpus"])
            measured = len(request["steps"]) - request.get("verifying", 0)
            self._observers.begin()
            for at, step in enumerate(request["steps"]):
                number = at
                if at == measured:
                    used = (self._ctime, self._maxrss, self._hidden)
                    self._observers.end()
                self._leader, exact = spawner.start(step, setsid)
                self._leaders.append(self._leader)
                self._hidden = max(self._hidden, 0 if exact else self._launcher.peak())
                begun = spawner.begun
                self._over = False
                self._pump(_QUIET_SECONDS)
                if not self._over:
                    self._open(streams)
                    self._wait(step, begun, streams)
                if used is None:
                    wall += time.monotonic() - begun
                if self._stop or self._status:
                    break
        except OSError as error:
            self._stop = "unstartable"
            return number, wall, error.strerror or str(error)
        finally:
            if used is not None:
                self._ctime, self._maxrss, self._hidden = used
        return number, wall, ""

    def _environment(self) -> dict[bytes, bytes]:
        """Return what the commands inherit and the experiment sets, and limits of threads."""
        request, inherited = self._request, self._launcher.environment
        without = {os.fsencode(name) for name in request.get("without", ())}
        environment = {name: inherited[name] for name in inherited.keys() - without}
        for name, text in request["environment"].items():
            environment[os.fsencode(name)] = os.fsencode(text)
        if "threads" in request:
            commands = [step["command"] for step in request["steps"]]
            environment.update(thread_limits(request["threads"], environment, commands))
        if request.get("shared"):
            environment.update(unbound(environment))
        return environment

    def _open(self, streams: list[CapturedStream]) -> None:
        """Read *streams* from now on."""
        for stream in streams:
            if stream.fileno() not in self._streams and not stream.ended:
                self._streams[stream.fileno()] = stream
                self._poll.register(stream, select.POLLIN)

    def _wait(self, step: dict[str, Any], begun: float, streams: list[CapturedStream]) -> None:
        """Wait until the command exits, or its run has to stop."""
        limit = step["timeout"]
        end = begun + limit if limit is not None else float("inf")
        look = begun + processes.LOOK_SECONDS
        while not self._over and not self._stop:
            now = time.monotonic()
            if now >= end:
                self._stop = "timeout"
            elif now >= look:
                look = now + processes.LOOK_SECONDS
                self._watch(step["memory"])
                if self._request.get("shown"):
                    for stream, path in zip(
                        streams, live_log_paths(self._request["folder"]), strict=True
                    ):
                        stream.show(path)
            self._observers.sample()
            if not self._stop:
                self._pump(min(end, look, self._observers.next_sample) - now)

    def _watch(self, memory: int | None) -> None:
        """Stop a run that holds too much memory, or too many processes."""
        members = [pid for pid in self._members() if not self._observers.owns(pid)]
        if len(members) > self._request["processes"]:
            self._stop = "processes"
        elif memory and processes.resident_bytes(members) > memory:
            self._stop = "memory"

    def _pump(self, seconds: float) -> None:
        """Wait for something to happen, and see to it."""
        for descriptor, _ in self._poll.poll(max(seconds, 0.0) * 1000):
            stream = self._streams.get(descriptor)
            if stream is not None:
                if not stream.drain():
                    self._poll.unregister(self._streams.pop(descriptor))
            elif descriptor == self._launcher.wake:
                with suppress(BlockingIOError):
                    os.read(descriptor, 4096)
                self._reap()
            else:
                self._listen()

    def _listen(self) -> None:
        message = wire.receive(self._launcher.requests)
        if message is None:
            self._launcher.driver_gone = True
            self._poll.unregister(self._launcher.requests)
            self._stop = "cancelled"
        elif message.get("cancel") == self._request["run"]:
            self._stop = self._stop or "cancelled"

    def _reap(self) -> bool:
        """Take in children that ended, the adopted too; false when there is none left.

        No more than some at a time: a fork bomb has always another one.
        """
        # Read before the command is reaped, which takes its account away.
        delay = None if self._over else processor_delay(self._leader)
        # The SIGCHLD of several children may be one: all that ended are taken in.
        for _ in range(_REAPED_AT_ONCE):
            self._observers.reap()
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if self._observers.owns(pid):
                continue
            self._ctime += usage.ru_utime + usage.ru_stime
            self._maxrss = max(self._maxrss, usage.ru_maxrss * processes.MAXRSS_UNIT)
            if pid == self._leader:
                self._status = os.waitstatus_to_exitcode(status)
                self._over = True
                self._delay = None if delay is None else (self._delay or 0.0) + delay
        with suppress(BlockingIOError):
            os.write(self._launcher.far, b".")  # there may be more
        return True

    def _members(self) -> list[int]:
        """Return every process of this run, or its groups where the system tells no more."""
        return processes.members(self._leaders, self._mark)

    def _strays(self) -> list[int]:
        """Return those that are no children of ours and live; none where orphans come to us."""
        return processes.strays(self._leaders, self._mark)

    def _end(self, grace: float) -> None:
        """End whatever the run left: asks, and kill after *grace* seconds."""
        if not self._is_alive():
            return
        end = time.monotonic() + grace
        if grace > 0 and not self._launcher.driver_gone:
            members = self._members()
            processes.send_signal(members, signal.SIGTERM)
            processes.send_signal(members, signal.SIGCONT)  # one that is stopped hears nothing else
        while self._is_alive() and time.monotonic() < end and not self._launcher.driver_gone:
            self._pump(min(end - time.monotonic(), processes.LOOK_SECONDS))
        # Killed again and again: a fork may have escaped between the look and the signal.
        end = time.monotonic() + _UNKILLABLE_SECONDS
        pause = 0.001
        while self._is_alive() and time.monotonic() < end:
            processes.kill_trees(
                lambda: processes.children(os.getpid()) + self._strays(), self._leader
            )
            self._pump(pause)
            pause = min(pause * 2, processes.LOOK_SECONDS)

    def _is_alive(self) -> bool:
        return self._reap() or bool(self._strays())

    def _finish(self, stream: CapturedStream) -> tuple[bytes, bytes]:
        stream.rest()
        if self._streams.pop(stream.fileno(), None):
            self._poll.unregister(stream)
        stream.close()
        return stream.kept()


def main() -> None:
    """Serve the driver at the other end of standard input and output."""
    processes.prepare_supervisor()
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):  # what a module prints when it is imported is no reply
        os.dup2(null, descriptor)
    with suppress(BrokenPipeError):
        Launcher(requests, replies).serve()
