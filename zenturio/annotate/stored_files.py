"""Annotated files that are no longer in their folder, from the contents in a repository."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan
from zenturio.errors import InputError


def scan_kept(sources: Mapping[str, bytes], overrides: Sequence[str] = ()) -> Application:
    """The application of these files by path; InputError where they make none."""
    if not sources:
        raise InputError("the study has no annotated files")
    with tempfile.TemporaryDirectory(prefix="zenturio-") as name:
        folder = Path(name) / "study"
        for path, content in sources.items():
            target = folder / path
            if not target.resolve().is_relative_to(folder.resolve()):
                raise InputError(f"{path} is no path inside a study")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return scan(folder, overrides=overrides)
