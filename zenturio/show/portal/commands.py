"""Commands that a page tells: as a shell takes them, without passwords."""

from __future__ import annotations

import shlex
from pathlib import Path

from zenturio.record import Definition
from zenturio.record.open import flavour


def again(definition: Definition, study: str, db: str | None, *options: str) -> str:
    """The command that runs *study* again; empty where it was not run from files."""
    notes = definition.notes
    paths = [str(path) for path in notes.get("paths", ())]
    if not paths or not notes.get("runs"):
        return ""
    words = ["zen", "run", *(path if path[:1] != "-" else f"./{path}" for path in paths)]
    for override in notes.get("overrides", ()):
        words += ["-P", str(override)]
    if len(paths) > 1 or Path(paths[0]).stem != study:
        words += ["--name", study]
    if db:
        words += ["--db", shown(db)]
    command = shlex.join([*words, *options])
    root = notes.get("root")
    return f"cd {shlex.quote(str(root))} && {command}" if root else command


def shown(db: str) -> str:
    """A URL without its password; a path as it is."""
    return flavour(db).place if "://" in db else db
