"""Files on their way: shared ones to a host, once; those of an attempt back to here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

from zenturio.errors import PlaceError
from zenturio.execute.file_staging import remove_tree
from zenturio.execute.hosts.answer_checks import PIECE_BYTES
from zenturio.execute.hosts.connection import DroppedError, RefusedError
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.hosts.stage_context import StageContext
from zenturio.execute.json_checks import MalformedError, short_repr
from zenturio.experiment import ExperimentFile
from zenturio.experiment.identity import content_digest

_MOST_IN_MEMORY = 64 * 2**20
"""Bytes of a file that is wanted whole in memory."""
_POLL_SECONDS = 0.2
"""Seconds between two looks at whether one is to stop waiting."""
T = TypeVar("T")
CheckCancelled = Callable[[], None]
"""Raises what is to end the waiting."""


def stage_file(
    host: RemoteHost, filed: ExperimentFile, content: bytes | None, stopped: CheckCancelled
) -> str:
    """Return the name under which a shared file is at the host; brought there if it is not."""
    digest = filed.digest if content is None else content_digest(content).hex()
    name = digest + ("x" if filed.mode & 0o111 else "")
    make_once(host, name, lambda: _send_file(host, name, filed, content), stopped)
    return name


def make_once(host: RemoteHost, name: str, make: Callable[[], T], stopped: CheckCancelled) -> T:
    """Return what *make* makes at the host, once for all; who comes later waits for it.

    Where it could not be made the next one tries again.
    """
    while True:
        with host.turn:
            pending = host.making.get(name)
            # Whoever registers the future first makes it; all others wait for that one.
            future: Future[T] = pending or Future()
            host.making[name] = future
        if pending is None:
            return _make_first(host, name, make, future)
        while not pending.done():
            stopped()
            wait((pending,), _POLL_SECONDS)
        if pending.exception() is None:
            return future.result()


def _make_first(host: RemoteHost, name: str, make: Callable[[], T], future: Future[T]) -> T:
    try:
        result = make()
    except BaseException as error:
        with host.turn:
            del host.making[name]
        future.set_exception(error)
        raise
    future.set_result(result)
    return result


def _send_file(host: RemoteHost, name: str, filed: ExperimentFile, content: bytes | None) -> None:
    answer, _ = host.ask("missing", digests=[name])
    if not answer["missing"]:
        return
    if content is None:
        assert filed.original is not None
        content = filed.original.read_bytes()
        if content_digest(content).hex() != filed.digest:
            raise PlaceError(
                f"{filed.original} has changed since the study began",
                hint="run the study again: it is another experiment now",
            )
    for offset in range(0, max(len(content), 1), PIECE_BYTES):
        piece = content[offset : offset + PIECE_BYTES]
        last = offset + PIECE_BYTES >= len(content)
        host.ask(
            "put", piece, digest=name, offset=offset, mode=filed.mode, mtime=filed.mtime, last=last
        )


def fetch_file(context: StageContext, path: str, size: int = _MOST_IN_MEMORY) -> bytes:
    """Return the bytes of a file of the attempt.

    None where it is not there, or no plain file.
    """
    parts = []
    offset = 0
    with suppress(RefusedError):
        while offset < size:
            piece = _read_piece(context, path, offset, min(PIECE_BYTES, size - offset))
            if not piece:
                break
            parts.append(piece)
            offset += len(piece)
    return b"".join(parts)


def fetch_files(context: StageContext, patterns: Iterable[str], target: Path) -> list[str]:
    """Bring the files that match *patterns* to below *target*; their paths."""
    pattern_list = list(patterns)
    if not pattern_list:
        return []
    answer, _ = context.ask("found", patterns=pattern_list)
    files: list[tuple[str, int, int]] = [(path, size, mode) for path, size, mode in answer["files"]]
    _check_files(files, context)
    draft = target.with_name(f"{target.name}.piece")
    for path, size, mode in files:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        _receive_file(context, path, size, draft)
        # No setuid and no group or world write bits from a foreign machine.
        draft.chmod(mode & 0o755 | 0o600)  # what others could write to is not believed for long
        os.replace(draft, place)  # noqa: PTH105
    return [path for path, _, _ in files]


def _check_files(files: Sequence[tuple[str, int, int]], context: StageContext) -> None:
    """Refuse files of which one stands in another's place, or that are too large together."""
    paths = {path for path, _, _ in files}
    folders = {str(above) for path in paths for above in PurePosixPath(path).parents}
    if len(paths) < len(files) or paths & folders:
        raise MalformedError(f"the same path stands for two files: {short_repr(min(paths))}, ...")
    size, most = sum(size for _, size, _ in files), context.options.returns
    if size > most:
        raise RefusedError(
            f"the files that come back have {size} B; at most {most:.0f} B may: "
            'allow more in [options] of the file of hosts, such as returns = "20GB"'
        )


def _receive_file(context: StageContext, path: str, size: int, draft: Path) -> None:
    with draft.open("wb") as file:
        for offset in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - offset)
            piece = _read_piece(context, path, offset, length)
            file.write(piece)
            if len(piece) < length:  # it is shorter by now: a program that runs writes to it
                break


def _read_piece(context: StageContext, path: str, offset: int, length: int) -> bytes:
    _, (piece,) = context.ask("read", path=path, offset=offset, length=length)
    if len(piece) > length:
        raise MalformedError(f"{len(piece)} bytes came instead of {length}")
    return piece


def fetch_restart_files(context: StageContext) -> None:
    """Bring the restart files here, all of them or none: those of before stay then."""
    if not context.options.restart:
        return
    draft = context.restart.with_name("restart.draft")
    remove_tree(str(draft))
    try:
        if fetch_files(context, context.options.restart, draft):
            remove_tree(str(context.restart))
            draft.rename(context.restart)
    except (DroppedError, RefusedError):
        remove_tree(str(draft))
