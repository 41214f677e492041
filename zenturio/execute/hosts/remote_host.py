"""One host while a driver lives: its connection, what is known of it, and its room."""

from __future__ import annotations

import logging
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from hashlib import blake2b
from threading import Condition, Event, Lock, Thread
from typing import Any, Protocol

from zenturio.errors import PlaceError
from zenturio.execute.hosts.connection import (
    Answer,
    Connection,
    DroppedError,
    RequestFailedError,
    valid_facts,
)
from zenturio.execute.hosts.hosts_file import HostMachine, HostsOptions, fact_values
from zenturio.execute.launch_request import plain_words, step_request
from zenturio.execute.machines import machine_parts
from zenturio.execute.run_conditions import check_run_facts
from zenturio.execute.wire import MalformedError, is_token
from zenturio.experiment import Log, MachineKind, Step
from zenturio.expression import Value

# Signs that a host, not the experiment, is the reason why a run failed; and a test of a host.
#
# A sign proves nothing: the same command may be missing everywhere. So the experiment runs
# elsewhere, and the host is charged with the fault only when that went better.

LEAST_DISK = 2**20
"""A disk with fewer bytes is full."""
_DISK_FULL = (b"No space left on device", b"Disk quota exceeded")
_NOT_FOUND_CODES = (126, 127)
"""What a shell says of a command that it does not find, or may not execute."""
_SHOWN_CHARACTERS = 200
_CONTENT = b"read by a probe\n" * 4096
_PROBE_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


class ProbedHost(Protocol):
    """The commands of a probe."""

    def ask(self, do: str, *blobs: bytes, **fields: Any) -> Answer: ...

    def discard(self, token: str) -> None: ...


def fault_sign(stop: str, exit_status: int, why: str, stderr: Log) -> str:
    """Return why a failure may be the host's, in words.

    Nothing where it is the program's own.
    """
    if stop == "unstartable":
        return f"a command cannot be started: {why}"
    if stop or not exit_status:
        return ""
    output = stderr.head + stderr.tail
    # The command may be missing everywhere: a suspicion, which another host confirms or not.
    if exit_status in _NOT_FOUND_CODES:
        return f"a command is not there: {_last_line(output) or f'exit {exit_status}'}"
    for text in _DISK_FULL:
        if text in output:
            return text.decode().lower()
    return ""


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][-_SHOWN_CHARACTERS:] if lines else ""


def needed_program(step: Step) -> str:
    """Return the command that a step needs from its host; nothing where it brings it along."""
    first = (plain_words(step.command) or [""])[0]
    return "" if "/" in first else first


def probe_host(host: ProbedHost, needed: str) -> str:
    """Why *host* cannot run a small job that writes a file and finds *needed*; nothing if it can.

    DroppedError where there is no connection.
    """
    command = "cat probe.txt > copy.txt"
    if needed:
        command += f" && command -v -- {shlex.quote(needed)}"
    token = f"{secrets.token_hex(16)}-p{secrets.token_hex(4)}"
    try:
        files = [["probe.txt", 0o644, None]]
        empty: dict[str, Any] = {"shared": [], "build": None, "over": [], "builds": False}
        host.ask("prepare", _CONTENT, token=token, files=files, **empty)
        host.ask("start", token=token, request=_probe_request(command))
        end = time.monotonic() + _PROBE_SECONDS
        while (state := host.ask("state", token=token)[0]["state"]) == "running":
            if time.monotonic() > end:
                return "a probe does not end"
            time.sleep(_PAUSE_SECONDS)
        if state != "ended":
            return f"a probe is {state}"
        answer, blobs = host.ask("reply", token=token)
        facts = answer["reply"]
        check_run_facts(facts, 1)
        if facts["stop"] or facts["status"]:
            return fault_sign(facts["stop"], facts["status"], facts["why"], Log(blobs[2])) or (
                f"a probe ends with {facts['status']}: {_last_line(blobs[2])}"
            )
    except RequestFailedError as error:
        return str(error)
    finally:
        host.discard(token)
    return ""


def _probe_request(command: str) -> dict[str, Any]:
    return {
        "steps": [step_request(Step(command, timeout=_PROBE_SECONDS))],
        "environment": {},
        "head": 4096,
        "tail": 4096,
        "grace": 1.0,
        "processes": 100,
        "exact": False,
    }


_log = logging.getLogger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds between two attempts to connect: doubled up to the most."""
_TIDY_SECONDS = 0.2
"""Seconds between two checks of a job that is to go away."""
Listener = Callable[[str, dict[str, Any]], None]


class RemoteHost:
    """Connected as long as it can be; a thread of its own sees to that, and looks how it is."""

    def __init__(
        self,
        machine: HostMachine,
        options: HostsOptions,
        owner: str,
        stored_facts: Mapping[str, Any],
        counts: Callable[[str], bool],
        changed: Callable[[RemoteHost], None],
    ) -> None:
        """*stored_facts*: facts of an earlier time; *counts*: whether a job that is there counts.

        *changed* hears, in the host's own thread, when it comes, goes, or is looked at.
        """
        self.machine = machine
        self.name = machine.name
        self.facts: dict[str, Any] = {**valid_facts(stored_facts)[0], **machine.facts}
        self.kind: MachineKind | None = None
        """Which kind of machine it is, as it said when it was connected last."""
        self.is_up = False
        self.fault = "not reached yet"
        """Why it is not connected or drained, or what its probe could not tell; else empty."""
        self.leaving = False
        """Whether it is no longer among the hosts: it gets nothing new."""
        self.drain_reason = ""
        """Why it gets nothing new, if it is drained."""
        self.distrusted = False
        """Whether it said what no host may say: this driver does not speak to it again."""
        self.announced: bool | None = None
        """The last reported state of the host: up or down."""
        self.announced_drain_reason = ""
        """The last reported reason for draining it."""
        self.first = Event()
        """Set when the first attempt to connect is over."""
        self.cpus = 0
        self.memory = 0
        """What jobs of this driver hold."""
        self.making: dict[str, Future[Any]] = {}
        """Files and builds that somebody puts there: others wait for it."""
        self.turn = Lock()
        self._options = options
        self._owner = f"{owner}-{blake2b(self.name.encode(), digest_size=4).hexdigest()}"
        """Hosts may share a folder: each has its own jobs there."""
        self._counts = counts
        self._changed = changed
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self._connection: Connection | None = None
        self._leftovers: set[str] = set()
        self._wake = Condition()
        self._closed = False
        self._last_poll = 0.0
        self._last_survey = 0.0
        self._faults: set[str] = set()
        """The experiments that it could not run, since the last one that it could."""
        self._needed = ""
        """The command that the last of them asked for."""
        self._probe_at = 0.0
        self._thread = Thread(target=self._loop, name=f"zenturio-{self.name}", daemon=True)
        self._thread.start()

    @property
    def slots(self) -> int:
        """How many experiments of one CPU it takes at a time; 0 if that is not known yet."""
        return self.machine.slots or int(self.facts.get("cores") or 0)

    @property
    def free(self) -> int:
        return self.slots - self.cpus

    def values(self) -> dict[str, Value]:
        """Return what expressions may ask of it."""
        identity: dict[str, Value] = {
            "name": self.name,
            "address": self.machine.address,
            "slots": self.slots,
            "free": self.free,
        }
        defaults: dict[str, Value] = {"tags": "", "cost": 0.0, "speed": None, "load": None}
        return {**defaults, **fact_values(self.facts), **identity}

    def fits(self, cpus: int, memory: int) -> bool:
        """Return whether there is room now."""
        limit = self.facts.get("memory")
        enough = limit is None or memory + self.memory <= limit
        return self.is_usable and not self.leaving and cpus <= self.free and enough

    @property
    def is_usable(self) -> bool:
        """Whether it is connected, and not drained."""
        return self.is_up and not self.drain_reason

    def take(self, cpus: int, memory: int) -> None:
        self.cpus += cpus
        self.memory += memory

    def ask(self, do: str, *blobs: bytes, **fields: Any) -> Answer:
        """Return the host's answer; DroppedError while there is no connection."""
        connection = self._connection
        if connection is None:
            raise DroppedError
        return connection.ask(do, *blobs, **fields)

    def distrust(self, violation: str) -> None:
        """Drain it for good: it said what no host may say."""
        self.distrusted = True
        self.drain_reason = f"not trusted any more: {violation}"
        self.fault = self.drain_reason
        connection = self._connection
        if connection is not None:
            connection.refuse(violation)

    def charge(self, digest: str, fault: str, needed: str = "") -> None:
        """Note that the host could not run an experiment; several in a row drain it."""
        with self._wake:
            self._faults.add(digest)
            self._needed = needed
            most = self._options.drain
            if self.drain_reason or not most or len(self._faults) < most:
                return
            self.drain_reason = f"drained, it could not run {most} experiments in a row: {fault}"
            _log.info("%s is drained: %s", self.name, fault)
            self.fault = self.drain_reason
            self._probe_at = time.monotonic() + self._options.status
            self._wake.notify()
        self._changed(self)

    def discharge(self) -> None:
        """Note that the host finished an experiment."""
        self._faults.clear()

    def listen(self, token: str, listener: Listener) -> None:
        """Call *listener* for events of the job *token* and of the connection."""
        self._listeners[token] = listener

    def silence(self, token: str) -> None:
        self._listeners.pop(token, None)

    def discard(self, token: str) -> None:
        """End the job *token* and take it away, as soon as that can be done."""
        self.silence(token)
        with self._wake:
            self._leftovers.add(token)
            self._wake.notify()

    def tidy(self, seconds: float) -> None:
        """Wait until everything that was discarded is gone, if the host is there."""
        end = time.monotonic() + seconds
        with self._wake:
            while self._leftovers and self.is_up and time.monotonic() < end:
                self._wake.wait(_TIDY_SECONDS)

    def close(self) -> None:
        """Let go."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        connection = self._connection
        if connection is not None:
            connection.close()
        self._thread.join()

    # What its own thread does.

    def _loop(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._closed and not self.distrusted:
            if self._connection is None and not self._connect():
                self.first.set()
                self._sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _SHORTEST_PAUSE
            self.first.set()
            if time.monotonic() >= self._last_poll + self._options.status:
                self._poll_facts(
                    is_full=time.monotonic() >= self._last_survey + self._options.exists
                )
            self._tidy_up()
            if self.drain_reason and time.monotonic() >= self._probe_at:
                self._probe_drained()
            seconds_left = self._last_poll + self._options.status - time.monotonic()
            self._sleep(_TIDY_SECONDS if self._leftovers else max(seconds_left, 0.0))

    def _sleep(self, seconds: float) -> None:
        with self._wake:
            if not self._closed and not (
                self._leftovers and seconds > _TIDY_SECONDS and self.is_up
            ):
                self._wake.wait(seconds)

    def _connect(self) -> bool:
        machine = self.machine
        try:
            connection = Connection(
                machine.words(self._options.connect),
                machine.python,
                machine.folder,
                self._owner,
                patience=self._options.connect,
                on_event=self._on_event,
                on_dropped=self._on_dropped,
                is_wanted=lambda: not self._closed,
            )
        except PlaceError as error:
            self._record_failure(error)
            return False
        self._connection = connection
        if not connection.is_open:  # it ended before anybody could hear of that
            self._on_dropped(connection)
            return False
        if self._closed:
            connection.close()
            return True
        with suppress(DroppedError, RequestFailedError):
            greeting, _ = connection.ask("hello")
            self.kind = machine_parts(greeting["machine"])["machine"]
            self._poll_facts(is_full=True)
            self.is_up = True
            self._changed(self)
            self._match_jobs(greeting["jobs"])
        return True

    def _record_failure(self, error: PlaceError) -> None:
        diagnostic = error.diagnostics[0]
        fault = (
            f"{diagnostic.message} ({diagnostic.hint})" if diagnostic.hint else diagnostic.message
        )
        if fault != self.fault:
            self.fault = fault
            self._changed(self)

    def _match_jobs(self, jobs: dict[str, str]) -> None:
        """Who waits for a job hears how it stands; what nobody wants is ended."""
        for token, listener in list(self._listeners.items()):
            listener("back", {"state": jobs.get(token, "unknown")})
        with self._wake:
            # Attempts of dead drivers end here, the first time that their host is reached again.
            for token in filter(is_token, jobs):  # of others are no jobs of ours
                if token not in self._listeners and not self._counts(token):
                    self._leftovers.add(token)

    def _poll_facts(self, *, is_full: bool) -> None:
        """Return the load of the host; with *is_full* also its facts, and once its speed."""
        self._last_poll = time.monotonic()
        self._last_survey = self._last_poll if is_full else self._last_survey
        calibrate = is_full and self.facts.get("speed") is None
        answer: dict[str, Any] = {}
        probe_fault = ""
        try:
            answer, _ = self.ask(
                "facts", whole=is_full, calibrate=calibrate, probe=self.machine.probe
            )
        except RequestFailedError as error:
            probe_fault = str(error)  # what does not need its probe is still polled
            with suppress(DroppedError, RequestFailedError):
                answer, _ = self.ask("facts", whole=is_full, calibrate=calibrate, probe="")
        except DroppedError:
            return
        sound, facts_fault = valid_facts(answer.get("facts", {}))
        self.fault = self.drain_reason or probe_fault or facts_fault
        self.facts = {**self.facts, **sound, **self.machine.facts}
        if self.is_up:
            self._changed(self)

    def _probe_drained(self) -> None:
        """Has a drained host run a small job: it gets experiments again when it can."""
        self._probe_at = time.monotonic() + self._options.status
        try:
            probe_fault = probe_host(self, self._needed)
        except DroppedError:
            return
        except MalformedError as error:
            self.distrust(str(error))
            return
        if probe_fault or self.distrusted:
            return
        with self._wake:
            self._faults.clear()
            self.drain_reason = self.fault = ""
        self._changed(self)

    def _tidy_up(self) -> None:
        for token in list(self._leftovers):
            try:
                is_removed = self.ask("remove", token=token)[0]["gone"]
            except DroppedError:
                return
            except RequestFailedError:
                is_removed = True  # asked again, the host would refuse again
            if is_removed:
                with self._wake:
                    self._leftovers.discard(token)
                    self._wake.notify_all()

    # What the connection's thread does.

    def _on_event(self, event: dict[str, Any]) -> None:
        listener = self._listeners.get(event["token"])
        if listener is not None:
            listener(event["event"], event)

    def _on_dropped(self, connection: Connection) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        self.is_up = False
        self.fault = "the connection was lost"
        _log.info("%s: the connection was lost", self.name)
        if connection.violation:
            self.distrust(connection.violation)
        for listener in list(self._listeners.values()):
            listener("dropped", {})
        self._changed(self)
        with self._wake:
            self._wake.notify()
