"""Which experiments are of points that their study's space does not hold any more.

A set that was narrowed, a constraint or a parameter that was added leave outcomes behind that
answer another question. The present space is that of the annotated files in the project; where
they are not there (or are another program by now), that of the files as they were run last.
Points of ``--set`` count, too, while the last run has it.
"""

from __future__ import annotations

from pathlib import Path

from zenturio.record import SPACES, Repository, StudyDefinition
from zenturio.record.open import path_in_project


def digests_outside(repository: Repository, study: str) -> frozenset[str]:
    """The digests of the experiments of *study* whose points the present space does not hold.

    None are outside where the space cannot be known: of a study that was run from Python.
    """
    definition = repository.definition(study)
    if _unchanged(definition):
        return frozenset()
    # To read the files of a space loads NumPy and the parser of directives.
    from zenturio.query import points_outside  # noqa: PLC0415

    spaces = points_outside.present_spaces(definition, archived="@" in study)
    digests = points_outside.outside(repository, study, spaces) if spaces else ()
    return frozenset(digests)


def left_out_notes(count: int) -> tuple[str, ...]:
    """What is said of experiments that an answer leaves out."""
    if not count:
        return ()
    was, points = ("is", "its point") if count == 1 else ("are", "their points")
    noun = "experiment" if count == 1 else "experiments"
    return (f"{count:,} {noun} {was} left out: the space does not hold {points} any more (--all)",)


def _unchanged(definition: StudyDefinition) -> bool:
    """Whether the study had one space, and its files are as they were when it was run last."""
    notes = definition.notes
    if len(notes.get(SPACES, ())) != 1:
        return False
    root = path_in_project(notes.get("root"))
    return root is None or all(
        _content(root / path) in (None, content) for path, content in definition.sources.items()
    )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
