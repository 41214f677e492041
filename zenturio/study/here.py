"""A study of the project that one stands in: its folder, its database, this machine."""

from __future__ import annotations

from pathlib import Path

MARKS = (".zenturio", "zenturio.toml", ".git")
"""What makes a folder a project's."""


def project_folder(start: Path | None = None) -> Path:
    """The nearest folder, from *start* upwards, that is a project's; *start* itself if none is."""
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    return here
