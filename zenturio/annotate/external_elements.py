"""LINES and GLOB: set elements that are read from a file or a folder."""

from __future__ import annotations

from pathlib import Path

from zenturio.annotate.path_patterns import MOST_ENTRIES, PathPattern, TooManyEntries
from zenturio.annotate.typed_elements import TypedElement
from zenturio.errors import AnnotationError, Passage, Place, did_you_mean

_LARGEST = 64_000_000


def lines_of(name: Passage, base: Path, place: Place) -> list[TypedElement]:
    """The lines of a file without the white space around them; empty ones are left out."""
    text = _content(name, base, place)
    lines = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)
    found = [
        TypedElement(line.strip(), place, f" in line {number} of {name.text}")
        for number, line in lines
        if line.strip()
    ]
    if not found:
        hint = "one element in each line"
        raise AnnotationError(f"{name.text} has no lines: the set is empty", place=place, hint=hint)
    return found


def _content(name: Passage, base: Path, place: Place) -> str:
    path = base / name.text
    hint = "a text file with one element in each line"
    try:
        if path.is_file() and path.stat().st_size <= _LARGEST:
            return path.read_bytes().decode("utf-8-sig")
        reason = "it is too large" if path.is_file() else ""
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except (OSError, ValueError) as error:
        reason = str(error)
    if not reason:
        raise _missing(name, base, place)
    raise AnnotationError(f"{name.text} cannot be read: {reason}", place=place, hint=hint)


def _missing(name: Passage, base: Path, place: Place) -> AnnotationError:
    folder = (base / name.text).parent
    try:
        names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError:
        message, hint = f"there is no folder {folder}", f"paths begin at {base}"
    else:
        message = f"there is no file {name.text} in {base}"
        hint = did_you_mean(Path(name.text).name, names)
    return AnnotationError(message, place=place, hint=hint)


def folder_entries(pattern: Passage, base: Path, place: Place) -> list[TypedElement]:
    """The paths that match, as the pattern writes them, sorted; hidden ones only if it says so."""
    try:
        names = {name.replace("\\", "/") for name in PathPattern(str(base)).matches(pattern.text)}
    except TooManyEntries:
        message = f"{pattern.text} looks at more than {MOST_ENTRIES:,} files"
        hint = "name the folder more exactly"
        raise AnnotationError(message, place=place, hint=hint) from None
    except (OSError, ValueError, RecursionError):
        names = set()
    if not names:
        hint = f"paths begin at {base}; a pattern is written as data/*.csv"
        message = f"nothing matches {pattern.text}: the set is empty"
        raise AnnotationError(message, place=place, hint=hint)
    if unreadable := [name for name in names if not _is_text(name)]:
        message = f"{unreadable[0]!a} is no name in UTF-8"
        raise AnnotationError(message, place=place, hint="rename the file")
    return [TypedElement(name, place, f" in {pattern.text}") for name in sorted(names)]


def _is_text(name: str) -> bool:
    """Whether a file's name can be written into a file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
