"""zenturio.toml, the project's file of settings."""

from __future__ import annotations

from pathlib import Path

from zenturio import trust
from zenturio.errors import InputError
from zenturio.settings.document import Document, Table, read_text

FILE = "zenturio.toml"
_HINT = 'a line is key = "text", key = 12, or [places.NAME]'


def read_project_file(path: Path) -> Document:
    """Return what the file at *path* holds, nothing if it is not there.

    SafetyError if others can change it, InputError if it is not TOML.
    """
    trust.check_owner(path, "file of settings")
    if not path.exists():
        return Document(str(path), "", {}, toml=True)
    if not path.is_file():
        raise InputError(
            f"{path} is not a plain file", hint="remove it: a pipe would be waited for"
        )
    return Document.from_toml(path, read_text(path), _HINT)


def read_table(path: Path, name: str) -> Table | None:
    """Return the table ``[NAME]`` of the file; None if the file, or the table, is not there."""
    document = read_project_file(path)
    if name not in document.value:
        return None
    table = document.value[name]
    if not isinstance(table, dict):
        document.wrong((name,), f"{name} has to be a table", f"write [{name}]")
    return document.table((name,), table)
