"""Pages in a process of their own, which is watched, and started anew when it hangs or dies.

What browsers cost, descriptors, memory, the interpreter's lock, they cost that process; what
drives studies goes on beside it. The two share nothing but the database. The pages end when their
standard input does: so they never outlive who started them.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any, Self

from zenturio import errors
from zenturio.errors import PlaceError, ZenError
from zenturio.show.portal.access import People
from zenturio.show.portal.server import Service, check_guarded, listen
from zenturio.show.portal.state import Settings
from zenturio.study.house import User

BEAT_SECONDS = 1.0
"""Between two signs of life."""
SILENT_SECONDS = 30.0
"""Without one: a page holds the interpreter's lock, and will for ever."""
START_SECONDS = 120.0
"""Until the first sign: a busy machine imports slowly."""
AGAIN_SECONDS = 1.0
"""Before it is started anew; twice as long each time that it ends at once."""
LONGEST_SECONDS = 60.0
END_SECONDS = 10.0
"""That it has to end by itself."""
PORT_SECONDS = 3.0
"""For which the pages of a service that was killed may still hold the port."""
_log = logging.getLogger(__name__)


class PagesProcess:
    """The pages of a service, as who drives its studies sees them."""

    def __init__(
        self,
        settings: Settings,
        host: str,
        port: int,
        people: People,
        names: Iterable[str] = (),
        told: Callable[[str, str], None] = lambda _kind, _text: None,
    ) -> None:
        """*told* hears ``link`` with an address that opens them, ``used``, and ``again``."""
        check_guarded(settings, host, "", people)
        self._told = told
        self._facts = {
            "settings": {**asdict(settings), "folder": str(settings.folder)},
            "host": host,
            "names": list(names),
            "people": {**asdict(people), "users": {n: asdict(u) for n, u in people.users.items()}},
        }
        self._socket = _listening(host, port)
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="zenturio-pages")
        self.process = self._start()

    def __enter__(self) -> Self:
        """ZenError if they cannot be started at all."""
        try:
            self._greet(self.process)
        except BaseException:
            self._end(self.process)
            self._socket.close()
            raise
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        self._socket.close()

    def _start(self) -> subprocess.Popen[bytes]:
        # In a session of its own: Ctrl-C is for who started it, who ends the pages.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._socket.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._socket.fileno()],
            start_new_session=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(self._facts).encode() + b"\n")
            process.stdin.flush()
        return process

    def _greet(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the first sign of life of the first process."""
        messages = self._messages = _heard(process)
        for kind, text in messages.until_silent(self._over):
            if kind == "error":
                name, words = json.loads(text)
                raise _kind(name)(words)
            self._told(kind, text)
            if kind == "link":
                return
        raise PlaceError("the pages did not start", hint="zen portal shows why")

    def _watch(self) -> None:
        """Pass on what the process says; start it anew when it falls silent or ends."""
        pause = AGAIN_SECONDS
        while not self._over.is_set():
            began = time.monotonic()
            for kind, text in self._messages.until_silent(self._over):
                if kind != "alive":
                    self._told(kind, text)
            self._end(self.process)
            if self._over.is_set():
                return
            pause = AGAIN_SECONDS if time.monotonic() - began > LONGEST_SECONDS else pause * 2
            self._told("again", f"the pages ended with status {self.process.returncode}")
            self._over.wait(min(pause, LONGEST_SECONDS))
            if not self._over.is_set():
                self.process = self._start()
                self._messages = _heard(self.process)
        self._end(self.process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Let it end by itself if it still can; else it is killed."""
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        seconds = END_SECONDS if self._over.is_set() else AGAIN_SECONDS
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Messages:
    """Lines of a process, read by a thread: for who asks does not want to wait for ever."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.heard = False
        self._queue: Queue[tuple[str, str] | None] = Queue()
        self._stream = stream
        threading.Thread(target=self._read, name="zenturio-pages-say", daemon=True).start()

    def until_silent(self, over: threading.Event) -> Iterator[tuple[str, str]]:
        """What is said, until it ends, falls silent for too long, or it is all *over*."""
        last = time.monotonic()
        while not over.is_set():
            try:
                message = self._queue.get(timeout=0.2)
            except Empty:
                if time.monotonic() - last > (SILENT_SECONDS if self.heard else START_SECONDS):
                    return
                continue
            if message is None:
                return
            last = time.monotonic()
            self.heard = True
            yield message

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                with suppress(ValueError, TypeError):
                    kind, text = json.loads(line)
                    self._queue.put((str(kind), str(text)))
        self._queue.put(None)


def _listening(host: str, port: int) -> socket.socket:
    end = time.monotonic() + PORT_SECONDS
    while True:
        try:
            return listen(host, port)
        except PlaceError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _heard(process: subprocess.Popen[bytes]) -> Messages:
    assert process.stdout is not None
    return Messages(process.stdout)


def _kind(name: str) -> type[ZenError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, ZenError) else PlaceError


def main() -> None:
    """Show the pages of what standard input says, until that ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal is not ours
    listening = socket.socket(fileno=int(sys.argv[1]))
    try:
        service = _service(json.loads(sys.stdin.buffer.readline()), listening)
    except ZenError as error:
        _say("error", json.dumps([type(error).__name__, str(error)]))
        return
    _say("link", service.link())
    threading.Thread(target=_wait_for_the_end, args=(service,), daemon=True).start()
    service.run(_beat, BEAT_SECONDS)


def _service(facts: Mapping[str, Any], listening: socket.socket) -> Service:
    settings, people = facts["settings"], facts["people"]
    users = {name: User(**user) for name, user in people["users"].items()}
    return Service(
        Settings(**{**settings, "folder": Path(settings["folder"])}),
        facts["host"],
        told=lambda link: _say("used", link),
        people=People(**{**people, "users": users, "proxies": tuple(people["proxies"])}),
        names=facts["names"],
        listening=listening,
    )


def _wait_for_the_end(service: Service) -> None:
    sys.stdin.buffer.read()
    service.stop()
    time.sleep(END_SECONDS / 2)
    os._exit(0)  # a page that does not end shall not keep the others


def _beat(stuck: int) -> None:
    _say("alive", "")
    if stuck:
        _log.error("%d pages do not end: the process that has them ends", stuck)
        os._exit(1)


def _say(kind: str, text: str) -> None:
    with suppress(OSError):  # nobody is there to hear it: the end comes by standard input
        sys.stdout.buffer.write(json.dumps([kind, text]).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
