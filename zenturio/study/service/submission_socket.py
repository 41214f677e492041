"""The Unix socket of a service on a file of SQLite: the kernel identifies the users who submit and
cancel.

Whoever may write a file of SQLite can write any name into it. So a service listens at a socket
beside the file, asks the kernel who is at the other end (``SO_PEERCRED``), and enters the
submission itself, with a signature of its own. Users of the socket need not be able to write the
file. A request and its answer are one message each, as in `wire`.
"""

from __future__ import annotations

import hmac
import logging
import os
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import Any, Self

from zenturio import errors, trust
from zenturio.errors import PlaceError, SafetyError, ZenError
from zenturio.execute import wire
from zenturio.execute.wire import (
    MalformedError,
    anything,
    boolean,
    first_of,
    integer,
    list_of,
    object_of,
    one_of,
    record,
    text,
)
from zenturio.record import Repository
from zenturio.study.service.service_config import ServiceUser
from zenturio.study.service.submission_client import (
    PreparedSubmission,
    cancel_submission,
    enter_submission,
)
from zenturio.study.service.submitted_program import LARGEST_BYTES, SubmittedProgram
from zenturio.system.unix_socket import listen_at, peer, short_path

_log = logging.getLogger(__name__)
ENDING = "serve.sock"
"""How the name of the socket ends, behind that of the database."""
SILENT_SECONDS = 30
"""For which a connection may be silent."""
CANCEL_SECONDS = 60
"""For which a client waits for an answer: a study may have to be stopped."""
MOST_OF_ONE_USER = 4
"""Connections of a user at a time: nobody can take those of others."""
MOST_CONNECTIONS = 64
RETRY_SECONDS = 0.1
"""After which connections are accepted again, where this process has too many files open."""
_TIMEOUT = struct.Struct("@ll")
_OPTION = first_of(
    text(2**16), integer(-(2**63)), boolean, one_of(None), list_of(text(2**16), 4096)
)
_check_submit = record(
    {
        "do": one_of("submit"),
        "study": text(255),
        "options": object_of(text(64), _OPTION, 64),
        "program": anything,
    },
    {"lengths": list_of(integer(0, LARGEST_BYTES)), "token": text(1024)},
)
_check_cancel = record({"do": one_of("cancel"), "number": integer(1)}, {"token": text(1024)})
_check_answer = first_of(
    record({"number": integer(1)}),
    record({"failure": text(64), "message": text(2**16), "hint": text(2**16)}),
)


def socket_path(database: Path) -> Path:
    """Return where a service on the file *database* listens."""
    return database.with_name(f"{database.name}.{ENDING}")


def refuse_read_only(repository: Repository) -> None:
    """PlaceError where the queue cannot be written, and no service is there to do it."""
    database = Path(repository.location)
    if database.is_file() and not os.access(database, os.W_OK, effective_ids=True):
        raise PlaceError(
            f"no running service accepts submissions for {database}",
            hint="try again when a service runs; only the owner of the file can write to it",
        )


class SubmissionSocket:
    """Takes submissions and cancellations of the users of this machine, while a block runs."""

    def __init__(
        self, repository: Repository, users: Mapping[str, ServiceUser] = MappingProxyType({})
    ) -> None:
        """For a *repository* in a file; *users* are administrators, and who have a token."""
        self._repository = repository
        self._users = users
        self._path = socket_path(Path(repository.location))
        self._connections: Counter[int] = Counter()
        self._lock = Lock()
        self._closed = Event()

    def __enter__(self) -> Self:
        self._listening = listen_at(self._path, others=True)
        self._thread = Thread(target=self._accept, name="zenturio-submissions", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection
        self._thread.join()
        self._listening.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                if self._closed.wait(RETRY_SECONDS):
                    return
                continue
            # Counted before a thread is made: nobody exhausts this process by opening connections.
            user = peer(connection)
            if user is None or not self._admit(user):
                connection.close()
                continue
            Thread(target=self._serve, args=(connection, user), daemon=True).start()

    def _admit(self, user: int) -> bool:
        with self._lock:
            is_full = self._connections.total() >= MOST_CONNECTIONS
            if is_full or self._connections[user] >= MOST_OF_ONE_USER:
                return False
            self._connections[user] += 1
            return True

    def _serve(self, connection: socket.socket, user: int) -> None:
        try:
            with closing(connection):
                _limit_silence(connection, SILENT_SECONDS)
                answer = self._answer(connection, user)
                if answer is not None:
                    wire.send(connection.fileno(), answer)
        except OSError as error:  # whoever asked has gone, or is silent
            _log.info("a connection of %s ended: %s", trust.user_name(user), error)
        finally:
            with self._lock:
                self._connections[user] -= 1

    def _answer(self, connection: socket.socket, user: int) -> dict[str, Any] | None:
        """Return the answer to a request; None where nothing was asked."""
        try:
            message = wire.receive(connection.fileno())
            if message is None:
                return None
            number = self._handle(connection, message, user)
            _log.info("%d: %s of submission %d", user, message["do"], number)
        except MalformedError as error:
            return _failure(SafetyError(f"the request is malformed: {error}"))
        except ZenError as error:
            return _failure(error)
        return {"number": number}

    def _handle(self, connection: socket.socket, message: dict[str, Any], user: int) -> int:
        """Do what *user* asks for, and return the number of the submission."""
        name, has_token = trust.user_name(user), "token" in message
        # A token has the rights of its user, not those of the account whose process brought it.
        if has_token:
            name = self._user_of(message.pop("token"))
        if message.get("do") != "cancel":
            prepared = _receive_submission(connection, message)
            return enter_submission(self._repository, prepared, name, is_checked=True).number
        _check_cancel(message, "the request")
        is_owner = not has_token and user in (0, os.geteuid())
        named = self._users.get(name)
        is_admin = is_owner or (named is not None and named.role == "admin")
        number = message["number"]
        return cancel_submission(self._repository, number, name, is_admin=is_admin).number

    def _user_of(self, token: object) -> str:
        """Return the user whose token it is; SafetyError for that of nobody who may submit."""
        digest = hash_token(str(token))
        for user in self._users.values():
            # In constant time: the time of a refusal must not tell how much of a token was right.
            if user.role != "look" and hmac.compare_digest(user.token, digest):
                return user.name
        raise SafetyError("no user has this token", hint="zen serve --token makes one")


def hash_token(token: str) -> str:
    """Return what zenturio.toml keeps of a token."""
    return f"sha256:{sha256(token.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _receive_submission(connection: socket.socket, message: dict[str, Any]) -> PreparedSubmission:
    _check_submit(message, "the request")
    if sum(message.get("lengths", ())) > LARGEST_BYTES:
        raise MalformedError(f"the files have more than {LARGEST_BYTES} bytes")
    program = SubmittedProgram.read(message["program"])
    blobs = wire.receive_blobs(connection.fileno(), message, most=LARGEST_BYTES)
    files = {sha256(blob).hexdigest(): blob for blob in blobs or ()}
    if sorted(files) != program.contents:
        raise MalformedError("the files are not those of the program")
    options = {**message["options"], "project": ""}
    facts = {**options, "program": program.facts(), "contents": program.contents}
    return PreparedSubmission(message["study"], facts, files)


def _failure(error: ZenError) -> dict[str, Any]:
    first = error.diagnostics[0]
    message = f"{first.place}: {first.message}" if first.place else first.message
    return {"failure": type(error).__name__, "message": message, "hint": first.hint}


def _limit_silence(connection: socket.socket, seconds: int) -> None:
    # Not `settimeout`: `wire` reads the descriptor, which that would make non-blocking.
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, _TIMEOUT.pack(seconds, 0))


@dataclass(frozen=True)
class ServiceClient:
    """The service of an SQLite file, to which users send their submissions."""

    database: Path
    token: str = ""
    """Of the user in whose name it asks; that of the process if it is empty."""

    @property
    def path(self) -> Path:
        """The socket."""
        return socket_path(self.database)

    @classmethod
    def of(cls, repository: Repository, token: str = "") -> ServiceClient | None:
        """Return the client of the service of *repository*; None if none listens.

        SafetyError where who listens is neither root nor the owner of the file: somebody else
        would get the files that are submitted.
        """
        database = Path(repository.location)
        if not database.is_file():
            return None
        client = cls(database, token)
        try:
            client._connected().close()
        except OSError:
            return None
        return client

    def submit(self, prepared: PreparedSubmission) -> int:
        """Submit a study as the user of this process; return its number."""
        names = ("program", "contents")
        options = {n: v for n, v in prepared.facts.items() if n not in names}
        blobs = list(prepared.files.values())
        message = {
            "do": "submit",
            "study": prepared.study,
            "options": options,
            "program": prepared.facts["program"],
            "lengths": [len(blob) for blob in blobs],
        }
        return self._ask(message, *blobs)

    def cancel(self, number: int) -> None:
        """Cancel a submission as the user of this process, and wait until nothing of it runs."""
        self._ask({"do": "cancel", "number": number})

    def _ask(self, message: dict[str, Any], *blobs: bytes) -> int:
        if self.token:
            message = {**message, "token": self.token}
        try:
            with closing(self._connected()) as connection:
                _limit_silence(connection, CANCEL_SECONDS)
                wire.send(connection.fileno(), message, *blobs)
                answer = wire.receive(connection.fileno())
            if answer is None:
                raise PlaceError("the service closed the connection", hint="try again")
            _check_answer(answer, "the answer")
        except (OSError, MalformedError) as error:
            raise PlaceError(f"the service does not answer at {self.path}: {error}") from error
        if "failure" in answer:
            kind = getattr(errors, answer["failure"], PlaceError)
            is_known = isinstance(kind, type) and issubclass(kind, ZenError)
            raise (kind if is_known else PlaceError)(answer["message"], hint=answer["hint"])
        return int(answer["number"])

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_path(self.path) as name:
                connection.connect(name)
            self._check_peer(connection)
        except (OSError, SafetyError):
            connection.close()
            raise
        return connection

    def _check_peer(self, connection: socket.socket) -> None:
        """Refuse a listener that is neither root nor the owner of the database, before sending
        anything.
        """
        user = peer(connection)
        if user not in (0, self.database.stat().st_uid):
            raise SafetyError(
                f"{self.path} belongs to {trust.user_name(user or 0)}, not to the owner of the"
                " database",
                hint=f"ask who runs the service; {self.path.parent} should be writable for the"
                " service alone",
            )
