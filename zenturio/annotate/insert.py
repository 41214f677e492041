"""Inserts directives into a program, as a scheduler does with the machines it selects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from zenturio.annotate.clauses import write_text
from zenturio.annotate.dialects import Dialect, named
from zenturio.annotate.directive_lines import find
from zenturio.annotate.source import Source, split_lines, without_end
from zenturio.errors import AnnotationError
from zenturio.expression import Value, text_of

Way = Literal["SUBSTITUTE", "ASSIGN", "ENV", "PARAM"]

# What a program begins with that has to stay first.
_HEAD = re.compile(
    r"#!|#.*coding[:=]|<\?|<!DOCTYPE|#[ \t]*(?:syntax|escape|check)[ \t]*=|.*-\*-.*-\*-",
    re.IGNORECASE,
)


def insert(
    text: str,
    dialect: Dialect | str,
    parameters: Mapping[str, str | Iterable[Value]] = {},
    *,
    way: Way = "SUBSTITUTE",
    bodies: Iterable[str] = (),
    before: int | None = None,
    width: int = 100,
) -> str:
    """*text* with one directive for each parameter, then one for each of *bodies*.

    A parameter's set is a text as in a directive (``{ 1:10 }``, ``1:10`` or ``@other``), or
    values. The directives stand before line *before* (from 1), or behind the lines that have to
    stay first: a shebang, an encoding, an XML declaration, a parser directive of Docker. One that
    is longer than *width* goes on in further lines. A scan gives back what was put in.
    """
    kind = named(dialect) if isinstance(dialect, str) else dialect
    written = [_harmless(directive(way, *parameter), kind) for parameter in parameters.items()]
    lines = list(split_lines(text))
    at = _behind_head(lines) if before is None else min(max(before - 1, 0), len(lines))
    indent = _indent(lines, at) if before is not None else ""
    end = _line_end(lines)
    bodies_in_order = (*written, *bodies)
    new = [line + end for body in bodies_in_order for line in _lines(body, kind, indent, width)]
    if new and at and not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += end
        new[-1] = without_end(new[-1])
    result = "".join((*lines[:at], *new, *lines[at:]))
    # Read back what was written: line *before* may be within a string or a comment block.
    directives = find(Source(Path("<text>"), result), kind).directives
    if sum(at <= line.first < at + len(new) for line in directives) != len(bodies_in_order):
        message = f"a directive before line {at + 1} would stand in a string, a comment or between"
        raise AnnotationError(f"{message} OFF and ON", hint="name another line")
    return result


def directive(way: Way, target: str, elements: str | Iterable[Value], clauses: str = "") -> str:
    """The body of a directive: ``ENV OMP_NUM_THREADS = { 1, 2 } AS threads``."""
    return f"{way} {_name(target)} = {_set(elements)} {clauses}".rstrip()


def _name(name: str) -> str:
    """*name* as a target: quoted unless it is a word; backticks keep all to the letter."""
    if re.fullmatch(r"\w+", name):
        return name
    if name and name.isprintable():
        if "\\" not in name:
            return '"' + name.replace('"', '\\"') + '"'
        if "`" not in name:
            return f"`{name}`"
    raise AnnotationError(
        f"{name!r} cannot be written as a name",
        hint="leave out control characters, and backticks beside backslashes",
    )


def _set(elements: str | Iterable[Value]) -> str:
    if isinstance(elements, str):
        whole = elements.strip()
        return whole if whole.startswith(("{", "@")) else f"{{ {whole} }}"
    return "{ " + ", ".join(write_text(text_of(value)) for value in elements) + " }"


def _harmless(body: str, dialect: Dialect) -> str:
    r"""*body* with a backslash in what would end the comment; in quotes it means nothing."""
    opener = dialect.opener
    closer = dialect.closers.get(opener, "")
    for sequence in (closer, opener if closer else "", *dialect.fragile):
        if len(sequence) > 1:
            body = _within_quotes(body, sequence, f"{sequence[:-1]}\\{sequence[-1]}")
    return body


def _within_quotes(body: str, old: str, new: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: match[0].replace(old, new), body)


def _lines(body: str, dialect: Dialect, indent: str, width: int) -> Iterator[str]:
    """The directive's lines, broken at blanks outside of quotes."""
    opener = dialect.opener
    if not opener:
        raise AnnotationError(
            f"{dialect.name} files have no comments", hint="write the directives to NAME.zen"
        )
    closer = dialect.closers[opener]
    if closer and closer in body:
        hint = "put the directives into NAME.zen beside the file"
        raise AnnotationError(f"{closer} would end the comment: {body}", hint=hint)
    start = f"{'' if opener in dialect.column_one else indent}{opener} "
    behind = f" {closer}" if closer else ""
    room = max(width - len(start) - len("ZEN$& ") - len(behind), 1)
    for number, part in enumerate(_parts(body, room)):
        yield f"{start}{'ZEN$&' if number else 'ZEN$'} {part}{behind}"


def _parts(body: str, room: int) -> Iterator[str]:
    """Pieces of *body* of at most *room* characters, if there are blanks to break it at."""
    part = ""
    for word in re.findall(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|\S)+|\s+""", body):
        if part and not word.isspace() and len(part) + len(word) > room:
            yield part.rstrip()
            part = ""
        part += word if part or not word.isspace() else ""
    if part:
        yield part.rstrip()


def _behind_head(lines: list[str]) -> int:
    """The first line that something may stand before."""
    at = 0
    while at < len(lines) and _HEAD.match(lines[at].lstrip("\ufeff")):
        at += 1
    return at


def _indent(lines: list[str], at: int) -> str:
    line = without_end(lines[at]) if at < len(lines) else ""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_end(lines: list[str]) -> str:
    """The line end that the text has."""
    return lines[0][len(without_end(lines[0])) :] or "\n" if lines else "\n"
