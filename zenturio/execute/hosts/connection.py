"""One connection to a host, OpenSSH's client here and an agent at its other end.

What OpenSSH is configured to do holds here too (jump hosts, keys, user names). Beyond that: host
keys are checked, nothing is asked for, nothing is forwarded; a peer that is silent is given up.
"""

from __future__ import annotations

import io
import logging
import os
import select
import shlex
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from itertools import count
from threading import Lock, Thread
from typing import Any

from zenturio.errors import PlaceError
from zenturio.execute import wire
from zenturio.execute.folder_files import FOLDER_FAULTS
from zenturio.execute.machines import check_machine_facts
from zenturio.execute.wire import (
    Check,
    MalformedError,
    any_text,
    anything,
    boolean,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    path,
    record,
    short_repr,
    text,
    tuple_of,
)

_log = logging.getLogger(__name__)

# Checks of what a host says: the schema of each answer and each event, with limits
#
# A host is somebody else's machine. What it says is checked before it is used; one that says
# anything else is not asked again (see `RemoteHost.distrust`), and its experiments run elsewhere.

PIECE_BYTES = 2**20
"""Bytes of a file that go at a time: others use the connection between two pieces."""
STREAM_BYTES = 2**22
"""Of each stream, so many bytes at its beginning and at its end come back."""
COMMAND_BYTES = 2**20
"""Bytes of a stream of a command that is run for its answer."""
MOST_FILES = 10**5
"""Files that an attempt may bring back."""
_MOST_JOBS = 10**5
_MOST_FACTS = 1000
_PROFILE_CHARACTERS = 2**17
"""Characters of a profile that are sent at a time."""
_CORES = 4096
_MESSAGE = any_text(2**16)

_STATE = one_of("ended", "running", "lost", "prepared", "unknown")
_SIZE = integer(0, 2**62)
_NAME = text(256)

FACT_CHECKS: Mapping[str, Check] = {
    "node": _NAME, "arch": _NAME, "os": _NAME, "kernel": _NAME, "cpu": _NAME, "python": _NAME,
    "mhz": nullable(number(0, 1e7)), "cores": integer(1, _CORES), "memory": _SIZE,
    "load": nullable(number(0, 1e9)), "free_memory": nullable(_SIZE), "disk": _SIZE,
    "speed": nullable(number(0, 1e12)),
}  # fmt: skip
_OTHER_FACT = nullable(first_of(boolean, integer(-(2**63)), number(), any_text(4096)))


@dataclass(frozen=True)
class AnswerSchema:
    """What belongs to an answer: names, and how many pieces of bytes of which size."""

    names: Check
    pieces: int = 0
    most: int = 0
    """Bytes of each piece."""


def valid_facts(facts: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the valid facts, and the error of an invalid one."""
    sound, fault = {}, ""
    for name, value in facts.items():
        try:
            FACT_CHECKS.get(name, _OTHER_FACT)(value, f"its fact {name}")
        except MalformedError as error:
            fault = str(error)
        else:
            sound[name] = value
    return sound, fault


_EMPTY = AnswerSchema(record({}))

ANSWER_CHECKS: Mapping[str, AnswerSchema] = {
    "hello": AnswerSchema(
        record(
            {
                "folder": text(),
                "jobs": object_of(text(256), _STATE, _MOST_JOBS),
                "machine": check_machine_facts,
            }
        )
    ),
    "facts": AnswerSchema(record({"facts": object_of(text(128), anything, _MOST_FACTS)})),
    "command": AnswerSchema(record({"status": integer(-255, 255)}), 2, COMMAND_BYTES),
    "missing": AnswerSchema(record({"missing": list_of(_NAME, MOST_FILES)})),
    "put": _EMPTY,
    "prepare": AnswerSchema(record({"folder": text()})),
    "start": AnswerSchema(record({"state": _STATE})),
    "watch": AnswerSchema(record({"state": _STATE})),
    "state": AnswerSchema(record({"state": _STATE})),
    "cancel": _EMPTY,
    "signal": _EMPTY,
    "reply": AnswerSchema(
        record(
            {
                "reply": object_of(_NAME, anything, 100),
                "spoilt": boolean,
                "idle": boolean,
                "machine": check_machine_facts,
                "fault": one_of("", *FOLDER_FAULTS),
            }
        ),
        4,
        STREAM_BYTES,
    ),
    "found": AnswerSchema(
        record({"files": list_of(tuple_of(path, _SIZE, integer(0, 0o777)), MOST_FILES)})
    ),
    "read": AnswerSchema(record({}), 1, PIECE_BYTES),
    "built": AnswerSchema(record({"built": boolean})),
    "remove": AnswerSchema(record({"gone": boolean})),
}

_EVENT_CHECKS: Mapping[str, Check] = {
    "over": record({"event": anything, "token": _NAME, "state": one_of("ended", "lost")}),
    "demands": record({"event": anything, "token": _NAME, "text": _MESSAGE}),
    "profile": record(
        {"event": anything, "token": _NAME, "text": any_text(_PROFILE_CHARACTERS), "told": _SIZE}
    ),
}


def check_answer(do: str, answer: Mapping[str, Any]) -> None:
    """MalformedError where *answer* is none to the question *do*; an error is one to each."""
    if "error" in answer:
        record({"error": _MESSAGE})(dict(answer), f"the answer to {do}")
    else:
        ANSWER_CHECKS[do].names(dict(answer), f"the answer to {do}")


def check_event(message: dict[str, Any]) -> None:
    """MalformedError where *message* is not an event."""
    kind = message.get("event")
    if not isinstance(kind, str) or kind not in _EVENT_CHECKS:
        raise MalformedError(f"there is no event {short_repr(kind)}")
    _EVENT_CHECKS[kind](message, f"the event {kind}")


# The agent that is sent, and the connection

_FILES = (
    "system/platform_detection.py",
    "system/generic.py",
    "system/machine.py",
    "system/linux.py",
    "system/file_systems.py",
    "name_patterns.py",
    "annotate/counter_events.py",
    "execute/folder_files.py",
    "execute/launcher.py",
    "execute/run_conditions.py",
    "execute/resource_monitors.py",
    "execute/wire.py",
    "execute/spawn.py",
    "system/processes.py",
    "execute/hosts/remote_agent.py",
    "execute/hosts/remote_jobs.py",
    "experiment/safe_file_reading.py",
)
_MAIN = "from zenturio.execute.hosts.remote_agent import main\n\nmain()\n"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)

_BOOT = """\
import hashlib, os, stat, sys
digest, size, folder, owner = sys.argv[1:5]
def refuse(words):
    os.write(2, ("zenturio: " + words).encode("utf-8", "replace") + b"\\n")
    sys.exit(1)
if sys.version_info < (3, 9):
    refuse("Python 3.9 or newer is needed here, not %d.%d" % sys.version_info[:2])
folder = os.path.abspath(os.path.expanduser(folder))
try:
    os.makedirs(folder, 0o700, exist_ok=True)
    room = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
except OSError as error:
    refuse("%s: %s" % (folder, error.strerror))
look = os.fstat(room)
if look.st_uid != os.geteuid():
    refuse("the folder %s belongs to somebody else" % folder)
if look.st_mode & 0o022:
    refuse("the folder %s can be written by others" % folder)
above = os.path.dirname(os.path.realpath(folder))
while True:
    look = os.stat(above)
    if look.st_mode & 0o002 and not look.st_mode & stat.S_ISVTX:
        refuse("the folder %s can be replaced: others can write to %s" % (folder, above))
    if above == os.path.dirname(above):
        break
    above = os.path.dirname(above)
name = "agent-" + digest + ".pyz"
def is_agent(content):
    return hashlib.blake2b(content, digest_size=16).hexdigest() == digest
def present():
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=room)
    except OSError:
        return b""
    with os.fdopen(file, "rb") as file:
        return file.read(int(size) + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
if not is_agent(present()):
    os.write(1, b"zenturio wants its agent\\n")
    content = b""
    while len(content) < int(size):
        piece = os.read(0, min(int(size) - len(content), 65536))
        if not piece:
            sys.exit(1)
        content += piece
    if not is_agent(content):
        refuse("its agent came with other bytes than it had")
    draft = name + "." + str(os.getpid())
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=room), "wb") as file:
            file.write(content)
        os.rename(draft, name, src_dir_fd=room, dst_dir_fd=room)
    except OSError as error:
        refuse("%s: %s" % (folder, error.strerror))
path = os.path.join(folder, name)
os.execv(sys.executable, [sys.executable, "-I", "-S", path, folder, owner])
"""
"""What a host is told first; it answers with what it wants, or greets at once.

The folder has to be the user's own, and no one else's to write to or to replace: what lies there is
executed, and read as files of experiments. The agent is compared with its digest all the same.
"""

AGENT_WANTED = b"zenturio wants its agent\n"


@cache
def packed_agent() -> bytes:
    """Return the file: the same bytes from the same sources."""
    room = files("zenturio")
    stream = io.BytesIO()
    packages = sorted(
        {"/".join(part.split("/")[:i]) for part in _FILES for i in range(part.count("/") + 1)}
    )
    with zipfile.ZipFile(stream, "w") as archive:

        def put(name: str, content: bytes | str) -> None:
            # A fixed date: the digest depends on the sources alone.
            entry = zipfile.ZipInfo(name, _FIXED_DATE)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)

        for package in packages:
            put(f"zenturio/{package}/__init__.py" if package else "zenturio/__init__.py", b"")
        for part in _FILES:
            put(f"zenturio/{part}", room.joinpath(part).read_bytes())
        put("__main__.py", _MAIN)
    return stream.getvalue()


def boot_command(python: str, folder: str, owner: str) -> str:
    """Return the command, in sh's words, that makes a host ask for the file or greet."""
    content = packed_agent()
    digest = blake2b(content, digest_size=16).hexdigest()
    words = [python, "-I", "-c", _BOOT, digest, str(len(content)), folder, owner]
    return "exec " + " ".join(map(shlex.quote, words))


GREETING = b"zenturio agent\n"
ANSWER_SECONDS = 60.0
"""Seconds that an answer may take."""
_POLL_SECONDS = 0.2
"""Seconds between two checks whether a connection is still wanted."""
_CLOSING_SECONDS = 2.0
"""Seconds that a client has to exit before it is killed."""
_MOST_NOISE_BYTES = 65536
"""Bytes that a login may print before the agent greets."""
_SSH_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "ControlMaster=no",
    "ControlPath=none",
    "LogLevel=ERROR",
)
KEY_CHANGED = "has changed and you have requested strict checking"
"""What ssh says of a key that is not the one it knows; behind it come words for any bad key."""
_OWN_FOLDER_HINT = (
    "name a folder of your own, with room, that nobody else can write to: "
    'folder = "/scratch/YOUR-NAME/zenturio"'
)
_HINTS = (
    (
        KEY_CHANGED,
        "is it another machine? ask its administrator; if the key is new, ssh-keygen -R its name",
    ),
    ("host key", "compare its key once by hand: log in with ssh, as the same user"),
    ("permission denied", "add your key there (ssh-copy-id); zenturio cannot enter a password"),
    ("resolve", "is the address right?"),
    ("refused", "does sshd run there, at this port?"),
    ("timed out", "is it switched on, and can this machine reach it?"),
    ("belongs to somebody else", _OWN_FOLDER_HINT),
    ("can be written by others", "take that away (chmod go-w), or " + _OWN_FOLDER_HINT),
    ("can be replaced", _OWN_FOLDER_HINT),
    ("read-only file system", _OWN_FOLDER_HINT),
    ("errno 13", _OWN_FOLDER_HINT),
    ("too many levels of symbolic links", "name the folder itself, not a link to it"),
    ("not a directory", "name the folder itself, not a link to it"),
    ("no space left", _OWN_FOLDER_HINT),
    ("quota", _OWN_FOLDER_HINT),
    ("python", 'name another one: python = "/opt/python3/bin/python3"'),
)
Answer = tuple[dict[str, Any], list[bytes]]


class DroppedError(Exception):
    """The connection ended; what was asked may have been done, or not."""


class RequestFailedError(Exception):
    """The host could not execute a request; the message is its own."""


@dataclass
class _Request:
    """A request, and the future for its reply."""

    do: str
    future: Future[Answer]
    abandoned: bool = False
    """Nobody waits any more: the connection ends."""


def ssh_command(
    address: str, *, port: int | None, user: str, options: Sequence[str], patience: float
) -> list[str]:
    """Return the words before the command that a host is to run."""
    alive = max(int(patience / 3), 1)
    settings = [*_SSH_OPTIONS, f"ConnectTimeout={max(int(patience), 1)}"]
    settings += [f"ServerAliveInterval={alive}", "ServerAliveCountMax=3"]
    words = ["ssh", "-T", *options]
    words += [word for setting in settings for word in ("-o", setting)]
    words += ["-p", str(port)] if port else []
    words += ["-l", user] if user else []
    return [*words, "--", address]


class Connection:
    """Asks from any thread; events are heard in a thread of the connection's own."""

    def __init__(
        self,
        words: Sequence[str],
        python: str,
        folder: str,
        owner: str,
        *,
        patience: float,
        on_event: Callable[[dict[str, Any]], None],
        on_dropped: Callable[[Connection], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Opens it, or raises PlaceError with what ssh says; *words* come before the command.

        A greeting is awaited only while *is_wanted* is true.
        """
        self.violation = ""
        """What the host said that no host may say: then the connection has ended for good."""
        self._numbers = count(1)
        self._pending: dict[int, _Request] = {}
        self._writing = Lock()
        self._on_event = on_event
        self._on_dropped = on_dropped
        self._is_wanted = is_wanted
        self._open = True
        self._stderr = bytearray()
        self._noise = 0
        """Bytes that came before the greeting."""
        try:
            self._process = subprocess.Popen(
                [*words, boot_command(python, folder, owner)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise PlaceError(f"{words[0]}: {error.strerror}", hint="is OpenSSH there?") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        # A host that does not read must not block the driver for ever: see _write.
        os.set_blocking(self._to, False)
        self._stderr_thread = Thread(target=self._read_stderr, daemon=True)
        self._stderr_thread.start()
        try:
            self._greet(patience)
        except BaseException:
            self._end()
            self._process.stdout.close()
            raise
        _log.debug("connected through %s", words[0])
        self._thread = Thread(target=self._listen, name="zenturio-host", daemon=True)
        self._thread.start()

    def ask(self, do: str, *blobs: bytes, seconds: float = ANSWER_SECONDS, **fields: Any) -> Answer:
        """Return the host's answer: a message, and bytes with it."""
        number = next(self._numbers)
        question = self._pending[number] = _Request(do, Future())
        try:
            with self._writing:
                if not self._open:
                    raise BrokenPipeError
                message = {**fields, "do": do, "id": number, "lengths": list(map(len, blobs))}
                self._write(wire.encode_message(message, *blobs))
            answer, parts = question.future.result(seconds)
        except Late:
            question.abandoned = True
            # An answer that comes later must not be taken for that of the next question.
            self._kill()  # it hangs: who listens will see the end
            raise DroppedError from None
        except OSError:
            self._pending.pop(number, None)
            raise DroppedError from None
        if "error" in answer:
            raise RequestFailedError(answer["error"])
        return answer, parts

    @property
    def is_open(self) -> bool:
        """Whether it accepts requests."""
        return self._open

    def refuse(self, violation: str) -> None:
        """End it, for the host said what no host may say."""
        self.violation = self.violation or violation
        _log.warning("connection refused for good: %s", violation)
        self._kill()

    def close(self) -> None:
        """Let go; what runs there runs on."""
        self._on_dropped = lambda _connection: None
        self._end()
        self._thread.join()

    def _greet(self, patience: float) -> None:
        """Until the agent greets; ships it if it is wanted."""
        end = time.monotonic() + 2 * patience
        received = b""
        shipped = False
        while True:
            received += self._line(end)
            if received.endswith(GREETING):
                return
            if received.endswith(AGENT_WANTED) and not shipped:
                self._send_agent()
                shipped = True

    def _line(self, end: float) -> bytes:
        """Return what is said next, up to a line's end; PlaceError where nothing more will be."""
        line = b""
        while not line.endswith(b"\n"):
            self._noise += 1
            if self._noise > _MOST_NOISE_BYTES:
                raise PlaceError("its login shell prints without end", hint="look at its .bashrc")
            seconds_left = end - time.monotonic() if self._is_wanted() else 0.0
            ready, _, _ = select.select(
                [self._from], [], [], max(min(seconds_left, _POLL_SECONDS), 0)
            )
            piece = os.read(self._from, 1) if ready else b""
            if not ready and seconds_left > _POLL_SECONDS:
                continue
            if not piece:
                if not ready:
                    self._kill()
                raise self._failure(line, late=not ready)
            line += piece
        return line

    def _send_agent(self) -> None:
        try:
            self._write(packed_agent())
        except OSError:
            raise self._failure(b"", late=False) from None

    def _write(self, data: bytes) -> None:
        """BrokenPipeError where nothing of it gets through for as long as an answer may take."""
        remaining = memoryview(data)
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        while remaining:
            if not poll.poll(ANSWER_SECONDS * 1000):
                self._kill()
                raise BrokenPipeError
            with suppress(BlockingIOError):
                remaining = remaining[os.write(self._to, remaining[:65536]) :]

    def _failure(self, line: bytes, *, late: bool) -> PlaceError:
        """Return what ssh, or the login, said last."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._stderr_thread.join(1.0)
        output = bytes(self._stderr) + b"\n" + line
        raw_lines = output.decode("utf-8", "replace").splitlines()
        lines = [raw.strip() for raw in raw_lines if raw.strip()]
        last = lines[-1] if lines else ""
        words = next((raw for raw in lines if KEY_CHANGED in raw), last)
        why = words or ("it timed out" if late else f"ssh ended with {self._process.returncode}")
        hints = (hint for word, hint in _HINTS if word in why.lower())
        return PlaceError(why, hint=next(hints, ""))

    def _read_stderr(self) -> None:
        """Keep the beginning of what ssh says, and read the rest, however much it is."""
        stream = self._process.stderr
        assert stream is not None
        with suppress(OSError, ValueError), stream:
            while piece := os.read(stream.fileno(), 65536):
                self._stderr += piece[: max(_MOST_NOISE_BYTES - len(self._stderr), 0)]

    def _listen(self) -> None:
        try:
            while (message := wire.receive(self._from)) is not None:
                if not self._accept(message):
                    break
        except MalformedError as error:
            self.violation = self.violation or str(error)
        except OSError:
            pass  # it is over, however it ended
        self._end()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._on_dropped(self)

    def _accept(self, message: dict[str, Any]) -> bool:
        """Return an answer, or an event; false where the connection ended in the middle of it."""
        if "id" not in message:
            check_event(message)
            self._on_event(message)
            return True
        number = message.pop("id")
        integer()(number, "id")
        question = self._pending.pop(number, None)
        if question is None:
            raise MalformedError("the host sent a reply without a request")
        if question.abandoned:
            return False
        try:
            parts = self._parts(question.do, message)
            message.pop("lengths", None)
            check_answer(question.do, message)
        except MalformedError:
            question.future.set_exception(DroppedError())
            raise
        if parts is None:
            question.future.set_exception(DroppedError())
            return False
        question.future.set_result((message, parts))
        return True

    def _parts(self, do: str, message: dict[str, Any]) -> list[bytes] | None:
        """Return what follows an answer: as many pieces as belong to it, none with an error."""
        expected = ANSWER_CHECKS[do]
        count = 0 if "error" in message else expected.pieces
        return wire.receive_blobs(
            self._from, message, most=expected.most, least_count=count, most_count=count
        )

    def _kill(self) -> None:
        """End the client and what it has started: a proxy, or a shell and its commands."""
        if self._process.poll() is None:  # until it is waited for, its group is no other's
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> None:
        """End the client; whoever waits hears that the connection is gone."""
        self._open = False
        _log.debug("connection closed")
        process = self._process
        # A writer may be stuck in the pipe with this lock: the kill frees it.
        if self.violation or not self._writing.acquire(timeout=_CLOSING_SECONDS):
            self._kill()  # who writes to it hears that at once
            self._writing.acquire()
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        self._writing.release()
        try:
            process.wait(_CLOSING_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            process.wait()
        for question in list(self._pending.values()):
            if not question.future.done():
                question.future.set_exception(DroppedError())
        self._stderr_thread.join(1.0)
