"""Warnings about the filled files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from zenturio.annotate.filler import Filler
from zenturio.annotate.model import Annotated, Application, Assignment
from zenturio.annotate.replacements import ASSIGNMENT, Replacement, replacements
from zenturio.annotate.source import without_end
from zenturio.errors import Diagnostic, Place
from zenturio.space import Continuous, Dependent, Parameter

_TRIED = 10_000
_OPERATORS = tuple("=,(+-*/%<>&|[")
"""What an operand follows."""
_STRINGS = ("a string", "a character")
_QUOTES = ('"', "'", "`")
_BARE_WORD = re.compile(r"[-+.\w]+")


def fits(application: Application) -> Iterator[Diagnostic]:
    """Texts too long for a line of fixed columns, or that a file's encoding cannot hold."""
    texts = {parameter.name: _texts(parameter) for parameter in application.space.parameters}
    for diagnostic in Filler(application).doubts(texts):
        yield replace(diagnostic, severity="warning")


def blanks(application: Application) -> Iterator[Diagnostic]:
    """A WHEN without DEFAULT whose parameter is an operand: ``q = ;`` where it does not hold."""
    bare = {p.name: p for p in application.space.parameters if p.when and p.default is None}
    for each in replacements(application.files):
        parameter = bare.get(each.parameter)
        line = _without(each) if parameter is not None else ""
        if parameter is not None and line:
            del bare[each.parameter]
            message = f"where its WHEN does not hold, {parameter.name} is nothing: {line}"
            hint = 'say what stands there, as DEFAULT 0; DEFAULT "" if that is meant'
            yield Diagnostic(message, parameter.place, hint, severity="warning")


def _without(replacement: Replacement) -> str:
    """The line without a text where an operand is missing then; nothing where none is."""
    if replacement.context == ASSIGNMENT:
        return f"{replacement.target} ="
    line, column = replacement.place.text, replacement.place.column - 1
    before, behind = line[:column], line[column + len(replacement.target) :]
    if replacement.context != "code" or not before.rstrip().endswith(_OPERATORS):
        return ""
    return (before + behind).strip()


def _texts(parameter: Parameter) -> tuple[str, ...]:
    """What may be put in, where that can be listed."""
    domain = parameter.domain
    default = (parameter.default or "",) if parameter.when is not None else ()
    if domain is None or isinstance(domain, Continuous | Dependent) or domain.size > _TRIED:
        return default
    return (*domain.texts(), *default)


def strings(application: Application) -> Iterator[Diagnostic]:
    """Words that are replaced inside of strings: ``"n = %d"`` is a label, no variable.

    Where no code has the target, one that is the whole of a string is meant, as the mode in
    ``mode = "fast"``.
    """
    directives: dict[Place, list[Replacement]] = {}
    for each in replacements(application.files):
        hole = each.hole
        if hole and hole.match == "word" and _BARE_WORD.fullmatch(each.target):
            directives.setdefault(hole.place, []).append(each)
    for each_of in directives.values():
        in_code = any(each.context == "code" for each in each_of)
        inside = [
            each
            for each in each_of
            if each.context in _STRINGS and (in_code or not _is_whole(each.place))
        ]
        if inside:
            yield _in_strings(inside, in_code=in_code)


def _is_whole(place: Place) -> bool:
    """Whether quotes stand on both sides."""
    start, line = place.column - 1, place.text
    ends = line[max(start - 1, 0) : start], line[start + place.width : start + place.width + 1]
    return ends[0] == ends[1] and ends[0] in _QUOTES


def _in_strings(inside: list[Replacement], *, in_code: bool) -> Diagnostic:
    first, others = inside[0], len(inside) - 1
    more = f", and in {others:,} more string{'s' * (others > 1)}" if others else ""
    where = "not only in code" if in_code else "and nowhere in code"
    message = f"{first.target} is replaced in {first.context}{more}, {where}"
    hint = (
        "MATCH TEXT says that it is meant; ZEN$ OFF and ZEN$ ON around the line keep it; see all"
        " with zen check --show"
    )
    return Diagnostic(message, first.place, hint, severity="warning")


def overwritten(application: Application) -> Iterator[Diagnostic]:
    """An ASSIGN whose variable the next line sets again, so that no value has an effect."""
    for file in application.files:
        directives = {n for line in file.lines for n in range(line.first, line.last + 1)}
        for assignment in file.assignments:
            number = _next_code(file, assignment.line.last + 1, directives)
            if number is None or not _sets(assignment, file.source.lines[number]):
                continue
            body = assignment.line.body
            message = f"line {number + 1} sets {assignment.target} again: no value has an effect"
            hint = "put the directive behind that line"
            place = body.place(0, len(body.text))
            yield Diagnostic(message, place, hint, severity="warning")


def _next_code(file: Annotated, start: int, directives: set[int]) -> int | None:
    """The next line, from *start* on, that is no directive and not empty."""
    lines = file.source.lines
    rest = (n for n in range(start, len(lines)) if n not in directives and lines[n].strip())
    return next(rest, None)


def _sets(assignment: Assignment, line: str) -> bool:
    """Whether a line gives the target another value, and does not use the one that it has."""
    target = re.escape(assignment.target)
    name = rf"[$]?(?<!\w){target}(?!\w)"
    found = re.match(
        rf"\s*(?:(?:\w[\w ]*[ \t*&])?{name}\s*(?:=(?![=~])|:=|<-)|{name}\s*:(?![:=]))",
        without_end(line),
    )
    return found is not None and not re.search(rf"(?<!\w){target}(?!\w)", line[found.end() :])
