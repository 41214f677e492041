"""Files on their way: shared ones to a host, once; those of an attempt back to here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

from zenturio.errors import PlaceError
from zenturio.execute.filing import remove
from zenturio.execute.hosts.connection import DroppedError, RefusedError
from zenturio.execute.hosts.host import Host
from zenturio.execute.hosts.protocol import PIECE
from zenturio.execute.hosts.site import Site
from zenturio.execute.schema import MalformedError, shown
from zenturio.experiment import ExperimentFile
from zenturio.experiment.identity import content_digest

_MOST = 64 * 2**20
"""Bytes of a file that is wanted whole in memory."""
_LOOK = 0.2
"""Seconds between two looks at whether one is to stop waiting."""
T = TypeVar("T")
Stopped = Callable[[], None]
"""Raises what is to end the waiting."""


def stage(host: Host, filed: ExperimentFile, content: bytes | None, stopped: Stopped) -> str:
    """The name under which a shared file is at the host; brought there if it is not."""
    digest = filed.digest if content is None else content_digest(content).hex()
    name = digest + ("x" if filed.mode & 0o111 else "")
    once(host, name, lambda: _ship(host, name, filed, content), stopped)
    return name


def once(host: Host, name: str, make: Callable[[], T], stopped: Stopped) -> T:
    """What *make* makes at the host, once for all; who comes later waits for it.

    Where it could not be made the next one tries again.
    """
    while True:
        with host.turn:
            known = host.making.get(name)
            future: Future[T] = known or Future()
            host.making[name] = future
        if known is None:
            return _made(host, name, make, future)
        while not known.done():
            stopped()
            wait((known,), _LOOK)
        if known.exception() is None:
            return future.result()


def _made(host: Host, name: str, make: Callable[[], T], future: Future[T]) -> T:
    try:
        found = make()
    except BaseException as error:
        with host.turn:
            del host.making[name]
        future.set_exception(error)
        raise
    future.set_result(found)
    return found


def _ship(host: Host, name: str, filed: ExperimentFile, content: bytes | None) -> None:
    told, _ = host.ask("missing", digests=[name])
    if not told["missing"]:
        return
    if content is None:
        assert filed.original is not None
        content = filed.original.read_bytes()
        if content_digest(content).hex() != filed.digest:
            raise PlaceError(
                f"{filed.original} is not what it was when the study began",
                hint="run the study again: it is another experiment now",
            )
    for offset in range(0, max(len(content), 1), PIECE):
        piece = content[offset : offset + PIECE]
        last = offset + PIECE >= len(content)
        host.ask(
            "put", piece, digest=name, offset=offset, mode=filed.mode, mtime=filed.mtime, last=last
        )


def fetch(site: Site, path: str, size: int = _MOST) -> bytes:
    """The bytes of a file of the attempt; none where it is not there, or no plain file."""
    parts = []
    offset = 0
    with suppress(RefusedError):
        while offset < size:
            piece = _read(site, path, offset, min(PIECE, size - offset))
            if not piece:
                break
            parts.append(piece)
            offset += len(piece)
    return b"".join(parts)


def fetch_all(site: Site, patterns: Iterable[str], target: Path) -> list[str]:
    """Brings the files that match *patterns* to below *target*; their paths."""
    wanted = list(patterns)
    if not wanted:
        return []
    told, _ = site.ask("found", patterns=wanted)
    files: list[tuple[str, int, int]] = [(path, size, mode) for path, size, mode in told["files"]]
    _check_files(files, site)
    draft = target.with_name(f"{target.name}.piece")
    for path, size, mode in files:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        _fetch(site, path, size, draft)
        draft.chmod(mode & 0o755 | 0o600)  # what others could write to is not believed for long
        os.replace(draft, place)  # noqa: PTH105
    return [path for path, _, _ in files]


def _check_files(files: Sequence[tuple[str, int, int]], site: Site) -> None:
    """Refuses files of which one stands in another's place, or that are too large together."""
    paths = {path for path, _, _ in files}
    folders = {str(above) for path in paths for above in PurePosixPath(path).parents}
    if len(paths) < len(files) or paths & folders:
        raise MalformedError(f"the same path stands for two files: {shown(min(paths))}, ...")
    size, most = sum(size for _, size, _ in files), site.ways.returns
    if size > most:
        raise RefusedError(
            f"the files that come back have {size} B; at most {most:.0f} B may: "
            'allow more in [options] of the file of hosts, such as returns = "20GB"'
        )


def _fetch(site: Site, path: str, size: int, draft: Path) -> None:
    with draft.open("wb") as file:
        for offset in range(0, size, PIECE):
            length = min(PIECE, size - offset)
            piece = _read(site, path, offset, length)
            file.write(piece)
            if len(piece) < length:  # it is shorter by now: a program that runs writes to it
                break


def _read(site: Site, path: str, offset: int, length: int) -> bytes:
    _, (piece,) = site.ask("read", path=path, offset=offset, length=length)
    if len(piece) > length:
        raise MalformedError(f"{len(piece)} bytes came instead of {length}")
    return piece


def carry(site: Site) -> None:
    """Brings the restart files here, all of them or none: those of before stay then."""
    if not site.ways.restart:
        return
    draft = site.restart.with_name("restart.draft")
    remove(str(draft))
    try:
        if fetch_all(site, site.ways.restart, draft):
            remove(str(site.restart))
            draft.rename(site.restart)
    except (DroppedError, RefusedError):
        remove(str(draft))
