"""An attempt's folder at its host, filled in one message; what is large was brought before."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from zenturio.execute.file_staging import checked_path
from zenturio.execute.hosts.file_transfer import stage_file
from zenturio.execute.hosts.stage_context import StageContext, fill_host_facts, host_pattern
from zenturio.experiment import ExperimentFile

LARGE_BYTES = 2**20
"""Files beyond so many bytes are staged once for each host, and shared."""


def prepare_folder(
    context: StageContext,
    files: Iterable[ExperimentFile],
    build: str | None,
    *,
    builds: bool = False,
) -> None:
    """Fill the attempt's folder with *files*, those of a build, and those to go on from.

    *builds*: what runs there makes a build.
    """
    small: dict[str, tuple[int, int | None, bytes]] = {}
    shared: list[list[Any]] = []
    for filed in files:
        path = checked_path(filed.path)
        content, original = filed.content, filed.original
        if content is None and original is not None and not filed.digest:
            content = original.read_bytes()
        if content is not None and len(content) <= LARGE_BYTES:
            small[path] = (filed.mode, filed.mtime, content)
        else:
            name = stage_file(context.host, filed, content, context.stopped)
            shared.append([path, filed.mode, filed.mtime, name])
    restart_files = _files_below(context.restart)
    for path in restart_files:
        source = context.restart / path
        small[path] = (source.stat().st_mode & 0o777, None, source.read_bytes())
    context.ask(
        "prepare",
        *[content for _, _, content in small.values()],
        files=[[path, mode, mtime] for path, (mode, mtime, _) in small.items()],
        shared=[entry for entry in shared if entry[0] not in small],
        build=build,
        over=restart_files,
        builds=builds,
    )


def suits_host(path: str, context: StageContext) -> bool:
    """Return whether a file is for this host: of the variants of a file, only its own."""
    facts = context.host.values()
    for variant in context.options.variants:
        if fnmatchcase(path, host_pattern(variant)):
            return fnmatchcase(path, fill_host_facts(variant, facts))
    return True


def _files_below(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths)
