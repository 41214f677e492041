"""The places where parameters are filled in, for display."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from zenturio.annotate.hole_search import HoleLayout, occurrences
from zenturio.annotate.model import Annotated, Hole
from zenturio.annotate.source import without_end
from zenturio.annotate.spans import Span, Spans
from zenturio.errors import Place

ASSIGNMENT = "an assignment"
_FORMATTED = re.compile(r"(?<!\w)(?:[rR]?[fF]|[fF][rR])\Z")


@dataclass(frozen=True, slots=True)
class Replacement:
    """An occurrence of a SUBSTITUTE's target, or the line that an ASSIGN becomes."""

    parameter: str
    target: str
    place: Place
    context: str
    """``code``, ASSIGNMENT, or what it stands in, as ``a string`` or ``a comment``."""
    hole: Hole | None = None


def replacements(files: Iterable[Annotated]) -> Iterator[Replacement]:
    """Everything that is replaced, file by file, from top to bottom."""
    for file in files:
        if file.holes or file.assignments:
            found = [*_substituted(file), *_assigned(file)]
            yield from sorted(found, key=lambda each: (each.place.line, each.place.column))


def _substituted(file: Annotated) -> Iterator[Replacement]:
    text = file.source.text or ""
    layout, spans = HoleLayout(file), Spans(text, file.dialect)
    for occurrence in occurrences(file):
        number = layout.line_of(occurrence.start)
        start = occurrence.start - layout.starts[number]
        line = without_end(file.source.lines[number])
        width = min(occurrence.end - occurrence.start, len(line) - start)
        place = Place(str(file.source.path), number + 1, start + 1, line, max(width, 1))
        context = _context(text, occurrence.start, spans.at(occurrence.start))
        hole = occurrence.hole
        target = text[occurrence.start : occurrence.end]
        yield Replacement(hole.parameter, target, place, context, hole)


def _assigned(file: Annotated) -> Iterator[Replacement]:
    for assignment in file.assignments:
        place = assignment.line.body.place(0, len(assignment.line.body.text))
        yield Replacement(assignment.parameter, assignment.target, place, ASSIGNMENT)


def _context(text: str, position: int, span: Span | None) -> str:
    if span is None or span.what == "code" or _is_formatted(text, position, span):
        return "code"
    return span.what


def _is_formatted(text: str, position: int, span: Span) -> bool:
    """Whether the position is within the braces of a Python f-string, which hold code."""
    prefix = text[max(span.start - 3, 0) : span.start]
    before = text[span.start : position].replace("{{", "")
    is_inside = before.rfind("{") > before.rfind("}")
    return span.is_string and is_inside and _FORMATTED.search(prefix) is not None
