"""Which experiments are of points that their study's space does not hold any more.

A set that was narrowed, a constraint or a parameter that was added leave outcomes behind that
answer another question. The present space is that of the annotated files in the project; where
they are not there (or are another program by now), that of the files as they were run last.
Points of ``--set`` count, too, while the last run has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from zenturio.record import SPACES, Repository
from zenturio.record.open import path_in_project


def digests_outside(repository: Repository, study: str) -> frozenset[str]:
    """The digests of the experiments of *study* whose points the present space does not hold.

    None are outside where the space cannot be known: of a study that was run from Python.
    """
    definition = repository.definition(study)
    sources = {path: sha256(body).hexdigest() for path, body in definition.sources.items()}
    if is_unchanged(study, definition.notes, sources):
        return frozenset()
    # To read the files of a space loads NumPy and the parser of directives.
    from zenturio.query import points_outside  # noqa: PLC0415

    spaces = points_outside.present_spaces(definition, archived="@" in study)
    digests = points_outside.outside(repository, study, spaces) if spaces else ()
    return frozenset(digests)


def left_out_notes(count: int) -> tuple[str, ...]:
    """Return the note on experiments that a result leaves out."""
    if not count:
        return ()
    was, points = ("is", "its point") if count == 1 else ("are", "their points")
    noun = "experiment" if count == 1 else "experiments"
    return (f"{count:,} {noun} {was} left out: the space no longer contains {points} (--all)",)


def is_unchanged(study: str, notes: Mapping[str, Any], sources: Mapping[str, str]) -> bool:
    """Return whether no point of the study can be outside of its present space.

    It had one space, and its files are as they were when it was run last: *notes* and the SHA-256
    of files are those of its newest definition. The space of an archived version stays.
    """
    if len(notes.get(SPACES, ())) != 1:
        return False
    root = None if "@" in study else path_in_project(notes.get("root"))
    return root is None or all(
        _digest(root / path) in (None, digest) for path, digest in sources.items()
    )


def _digest(path: Path) -> str | None:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
