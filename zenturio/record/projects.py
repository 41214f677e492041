"""Projects on a shared database: whose study a name means.

A project folder has an id of its own, in ``.zenturio/project.json``, which a copy of the folder
replaces at its first write. On PostgreSQL a study belongs to the project that created it: another
project's study of the same name is another study, called ``OWNER/NAME`` there. Studies of a
database that knew no projects belong to all. In a file of SQLite all studies are one project's.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from zenturio.files import replace_whole
from zenturio.record.sql_names import literal

FILE = "project.json"
COMMON = 1
"""The number of the project whose studies belong to all."""
UNIQUE_SQL = "NOT EXISTS (SELECT 1 FROM studies o WHERE o.name = s.name AND o.id <> s.id)"
"""The condition that no other study has the name of a study ``s``."""
_UUID = re.compile(r"[0-9a-f]{32}")


@dataclass
class Project:
    """The project of a folder, as a database knows it."""

    folder: Path | None = None
    """Its ``.zenturio``; none for a database that is a project's file."""
    finds_unique: bool = False
    """Whether a plain name also means the only study of that name, of whatever project."""
    _uuid: str = field(default="", init=False)

    @classmethod
    def of(cls, uuid: str) -> Project:
        """Return the project with that id, wherever its folder is."""
        project = cls()
        project._uuid = uuid
        return project

    @property
    def uuid(self) -> str:
        """The id, empty if the folder has none yet."""
        if not self._uuid and self.folder is not None:
            self._uuid = _read(self.folder).get("uuid", "")
        return self._uuid

    def begin(self) -> None:
        """Give the folder an id, if it has none, or that of a project that it was copied from."""
        if self.folder is None or not self.folder.is_dir():
            return
        facts = _read(self.folder)
        uuid = facts.get("uuid", "")
        if not uuid or _is_copy(self.folder, facts):
            uuid = secrets.token_hex(16)
        place = _place(self.folder)
        if {**facts, "uuid": uuid, **place} != facts:
            text = json.dumps({"uuid": uuid, **place}, indent=1)
            replace_whole(self.folder / FILE, [text.encode()])
        self._uuid = uuid

    @property
    def is_own_sql(self) -> str:
        """Return the condition that a study ``s`` of a project ``p`` needs no owner's name.

        Who looks from no project at all needs one only where several projects have the name. Who
        runs or removes studies there means none of another project: a run begins a project.
        """
        if self.uuid:
            own = f"p.uuid = {literal(self.uuid)}"
        else:
            own = UNIQUE_SQL if self.finds_unique or self.folder is None else "false"
        return f"(coalesce(p.owner, '') = '' OR {own})"

    @property
    def label_sql(self) -> str:
        """Return what stands before the name of a study ``s`` of a project ``p``.

        The owner, and for all but the owner's first project its name, too.
        """
        return (
            f"CASE WHEN {self.is_own_sql} THEN '' WHEN p.id = (SELECT min(q.id) FROM projects q"
            " WHERE q.owner = p.owner) THEN p.owner ELSE p.owner || '/' || p.name END"
        )


def split(name: str) -> list[tuple[str, str]]:
    """Return the labels and names that ``OWNER/NAME`` or ``OWNER/PROJECT/NAME`` may mean."""
    parts = name.split("/")
    return [("/".join(parts[:i]), "/".join(parts[i:])) for i in range(1, min(3, len(parts)))]


def _read(folder: Path) -> dict[str, str]:
    """Return what the file says; nothing where it is damaged or not a plain file."""
    with suppress(OSError, ValueError):
        path = folder / FILE
        if path.is_symlink() or not path.is_file():
            return {}
        with path.open("rb") as file:
            facts = json.loads(file.read(10_000))
        if isinstance(facts, dict) and _UUID.fullmatch(str(facts.get("uuid"))):
            return {str(name): str(value) for name, value in facts.items()}
    return {}


def _place(folder: Path) -> dict[str, str]:
    status = folder.stat()
    return {"folder": os.fspath(folder.absolute()), "inode": str(status.st_ino)}


def _is_copy(folder: Path, facts: dict[str, str]) -> bool:
    """Return whether the project that *facts* are of is elsewhere still; else it was moved."""
    if facts.get("inode") == _place(folder)["inode"]:
        return False
    elsewhere = Path(facts.get("folder", ""))
    if not facts.get("folder") or elsewhere == folder.absolute():
        return False
    return _read(elsewhere).get("uuid") == facts["uuid"]
