"""The pages of a service in a process of their own, restarted when it hangs or dies.

Browsers cost descriptors, memory and the interpreter's lock of that process; the driver of the
studies runs beside it. The two share only the database. The pages end when their standard input
does, so that they never outlive the service.
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
from zenturio.show.portal.access import UserDirectory
from zenturio.show.portal.server import PortalServer, check_access_control, open_socket
from zenturio.show.portal.state import PortalSettings
from zenturio.study.service.service_config import ServiceUser
from zenturio.system.unix_socket import allowed_users, listen_at

HEARTBEAT_SECONDS = 1.0
"""Between two messages of a process that is alive."""
SILENT_SECONDS = 30.0
"""Without a message: a page holds the interpreter's lock and will not release it."""
START_SECONDS = 120.0
"""Until the first message: a busy machine imports slowly."""
RESTART_SECONDS = 1.0
"""Before a restart; doubled each time that the process ends at once."""
LONGEST_PAUSE_SECONDS = 60.0
SHUTDOWN_SECONDS = 10.0
"""That the process has to end by itself."""
PORT_SECONDS = 3.0
"""For which the pages of a killed service may still hold the port or the socket."""
_log = logging.getLogger(__name__)


class PagesProcess:
    """The process of the pages, as the service sees it."""

    def __init__(
        self,
        settings: PortalSettings,
        host: str,
        port: int,
        users: UserDirectory,
        names: Iterable[str] = (),
        on_event: Callable[[str, str], None] = lambda _error_class, _text: None,
        *,
        socket_path: Path | None = None,
        proxy_user: str = "",
    ) -> None:
        """Start the process; *on_event* is called with its events.

        These are ``link`` with an address that opens the pages, ``used``, and ``again``.
        At a Unix socket instead of *host* and *port* only root, the user of this process and
        *proxy_user* may connect.
        """
        if socket_path is not None:
            host = "localhost"
        check_access_control(settings, host, "", users)
        self._on_event = on_event
        self._socket_path = socket_path
        self._arguments: dict[str, Any] = {
            "settings": {**asdict(settings), "folder": str(settings.folder)},
            "host": host,
            "names": list(names),
            "system_users": sorted(allowed_users(proxy_user)) if socket_path is not None else [],
            "people": {**asdict(users), "users": {n: asdict(u) for n, u in users.users.items()}},
        }
        self._socket = (
            _retried(lambda: open_socket(host, port))
            if socket_path is None
            else _retried(lambda: listen_at(socket_path, others=bool(proxy_user)))
        )
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="zenturio-pages")
        self.process = self._start()

    def __enter__(self) -> Self:
        """Raise ZenError if the pages cannot start at all."""
        try:
            self._greet(self.process)
        except BaseException:
            self._end(self.process)
            self._close_socket()
            raise
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._watcher.join()
        self._close_socket()

    def _close_socket(self) -> None:
        self._socket.close()
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)

    def _start(self) -> subprocess.Popen[bytes]:
        # In a session of its own: Ctrl-C is for the service, which then ends the pages.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._socket.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._socket.fileno()],
            start_new_session=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(self._arguments).encode() + b"\n")
            process.stdin.flush()
        return process

    def _greet(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the first message of the first process."""
        messages = self._messages = _messages_of(process)
        for kind, text in messages.until_silent(self._stopping):
            if kind == "error":
                name, text_of_error = json.loads(text)
                raise _error_class(name)(text_of_error)
            self._on_event(kind, text)
            if kind == "link":
                return
        raise PlaceError("the pages did not start", hint="run zen portal to see why")

    def _watch(self) -> None:
        """Pass on the messages of the process; restart it when it is silent or ends."""
        pause = RESTART_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            for kind, text in self._messages.until_silent(self._stopping):
                if kind != "alive":
                    self._on_event(kind, text)
            self._end(self.process)
            if self._stopping.is_set():
                return
            pause = (
                RESTART_SECONDS if time.monotonic() - started > LONGEST_PAUSE_SECONDS else pause * 2
            )
            self._on_event("again", f"the pages ended with exit code {self.process.returncode}")
            self._stopping.wait(min(pause, LONGEST_PAUSE_SECONDS))
            if not self._stopping.is_set():
                self.process = self._start()
                self._messages = _messages_of(self.process)
        self._end(self.process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Let the process end by itself, or else kill it."""
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        seconds = SHUTDOWN_SECONDS if self._stopping.is_set() else RESTART_SECONDS
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ProcessMessages:
    """Lines of a process, read by a thread, so that waiting for one can time out."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.has_message = False
        self._queue: Queue[tuple[str, str] | None] = Queue()
        self._stream = stream
        threading.Thread(target=self._read, name="zenturio-pages-say", daemon=True).start()

    def until_silent(self, over: threading.Event) -> Iterator[tuple[str, str]]:
        """Yield messages until the process ends, is silent for too long, or *over* is set."""
        last = time.monotonic()
        while not over.is_set():
            try:
                message = self._queue.get(timeout=0.2)
            except Empty:
                if time.monotonic() - last > (
                    SILENT_SECONDS if self.has_message else START_SECONDS
                ):
                    return
                continue
            if message is None:
                return
            last = time.monotonic()
            self.has_message = True
            yield message

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                with suppress(ValueError, TypeError):
                    kind, text = json.loads(line)
                    self._queue.put((str(kind), str(text)))
        self._queue.put(None)


def _retried(listen: Callable[[], socket.socket]) -> socket.socket:
    """Return what *listen* opens, as soon as the pages of a killed service have released it."""
    deadline = time.monotonic() + PORT_SECONDS
    while True:
        try:
            return listen()
        except PlaceError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _messages_of(process: subprocess.Popen[bytes]) -> ProcessMessages:
    assert process.stdout is not None
    return ProcessMessages(process.stdout)


def _error_class(name: str) -> type[ZenError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, ZenError) else PlaceError


def main() -> None:
    """Serve the pages that standard input describes, until it ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # closing the terminal is for the service
    listening = socket.socket(fileno=int(sys.argv[1]))
    try:
        service = _portal_server(json.loads(sys.stdin.buffer.readline()), listening)
    except ZenError as error:
        _send("error", json.dumps([type(error).__name__, str(error)]))
        return
    _send("link", service.link())
    threading.Thread(target=_stop_with_stdin, args=(service,), daemon=True).start()
    service.run(_heartbeat, HEARTBEAT_SECONDS)


def _portal_server(arguments: Mapping[str, Any], listening: socket.socket) -> PortalServer:
    settings, user_values = arguments["settings"], arguments["people"]
    users = {name: ServiceUser(**user) for name, user in user_values["users"].items()}
    return PortalServer(
        PortalSettings(**{**settings, "folder": Path(settings["folder"])}),
        arguments["host"],
        on_link_used=lambda link: _send("used", link),
        users=UserDirectory(
            **{**user_values, "users": users, "proxies": tuple(user_values["proxies"])}
        ),
        names=arguments["names"],
        listening=listening,
        system_users=frozenset(arguments["system_users"]),
    )


def _stop_with_stdin(service: PortalServer) -> None:
    sys.stdin.buffer.read()
    service.stop()
    time.sleep(SHUTDOWN_SECONDS / 2)
    os._exit(0)  # a page that does not end must not delay the exit


def _heartbeat(stuck: int) -> None:
    _send("alive", "")
    if stuck:
        _log.error("%d pages do not end; restarting the process of the pages", stuck)
        os._exit(1)


def _send(kind: str, text: str) -> None:
    with suppress(OSError):  # the service has ended; so will standard input
        sys.stdout.buffer.write(json.dumps([kind, text]).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
