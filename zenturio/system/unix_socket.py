"""Unix sockets: which users may connect, and which user is at the other end."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zenturio.errors import InputError, PlaceError
from zenturio.system.file_systems import descriptor_path

_CREDENTIALS = struct.Struct("3i")
"""Of who connects, as Linux tells them: process, user, group."""
_LONGEST_ADDRESS = 100
"""Bytes of a path; the system takes 107."""


def allowed_users(proxy_user: str = "") -> frozenset[int]:
    """Return the user IDs that may connect; InputError if there is no *proxy_user*."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise PlaceError(
            "this system does not say who connects to a Unix socket",
            hint="listen at a port, and share a secret with the proxy",
        )
    users = {0, os.geteuid()}
    if proxy_user:
        try:
            users.add(pwd.getpwnam(proxy_user).pw_uid)
        except KeyError:
            raise InputError(
                f"there is no user {proxy_user!r} on this machine",
                hint="name the user that the proxy runs as, such as www-data",
            ) from None
    return frozenset(users)


def listen_at(path: Path, *, others: bool) -> socket.socket:
    """Return a socket that listens at *path*; *others* than its owner may try to connect, or not.

    One that a killed process left is replaced; PlaceError if something else is there.
    """
    _remove_left(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listening.fileno(), 0)  # Linux takes them over: nobody connects too early
        with short_path(path) as name:
            listening.bind(name)
        _set_permissions(path, 0o666 if others else 0o600)
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise PlaceError(
            f"cannot listen at {path}: {error.strerror or error}",
            hint="choose a short path in your own folder, such as $XDG_RUNTIME_DIR/zenturio.sock",
        ) from error
    return listening


def _set_permissions(path: Path, mode: int) -> None:
    """Set those of the socket *path*; OSError if it is something else by now."""
    # In a folder that others may write to, a link could have replaced it.
    if not descriptor_path(0):
        path.chmod(mode, follow_symlinks=False)
        return
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise OSError("somebody replaced the socket")
        os.chmod(descriptor_path(handle), mode)  # noqa: PTH101 - it is no path of ours
    finally:
        os.close(handle)


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a name of *path* that fits into an address of a socket, as long as the block runs."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    if not descriptor_path(0):
        raise PlaceError(
            f"{path} is too long for a socket, which may have {_LONGEST_ADDRESS} bytes",
            hint="name a shorter path",
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{descriptor_path(folder)}/{path.name}"
    finally:
        os.close(folder)


def peer(connection: socket.socket) -> int | None:
    """Return the number of the user at the other end; None if it is no Unix socket."""
    if connection.family != socket.AF_UNIX:
        return None
    size = _CREDENTIALS.size
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _remove_left(path: Path) -> None:
    """Remove the socket of a process that is gone."""
    try:
        status = path.lstat()
    except OSError:
        return
    ours = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()
    # Only a socket of ours that nobody answers at: anything else may belong to somebody.
    if not ours or _answers(path):
        occupant = "a process answers there" if ours else "something else is there"
        raise PlaceError(f"cannot listen at {path}: {occupant}", hint="name another path")
    path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            with short_path(path) as name:
                caller.connect(name)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
