"""Directives in a file: the lines that hold them, their scopes, and how new ones are inserted.

A directive is a whole line: white space, an opener, ``ZEN$``, the body, the closer if there is one.
Lines in strings, heredocs and comment blocks are told apart by patterns of the dialect (see
`dialects.dialect` for their limits); a file of an unknown kind is judged line by line alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from zenturio.annotate.clauses import Diagnostics, write_text
from zenturio.annotate.dialects import UNKNOWN, Dialect, named
from zenturio.annotate.model import (
    Declaration,
    EndStatement,
    MeasuredRegion,
    RegionStatement,
    Statement,
    WrittenDirective,
)
from zenturio.annotate.source import Source, Span, SyntaxSpans, split_lines, without_end
from zenturio.errors import AnnotationError, Diagnostic, Passage, Place
from zenturio.expression import Value, text_of

MARK = "ZEN$"
GOES_ON = "ZEN$&"
_WHOLE_LINE = "write each directive on its own line"
_WITHIN = "write nothing after {0}; in a value, write its first character as \\xHH"

KEYWORDS = frozenset(
    {"SUBSTITUTE", "ASSIGN", "ENV", "PARAM", "CONSTRAINT", "BUILD", "RUN", "REQUIRE", "RANK"}
    | {
        "REPEAT",
        "METRIC",
        "CR",
        "OBJECTIVE",
        "VERIFY",
        "OBSERVE",
        "OUTPUT",
        "USE",
        "AFTER",
        "END",
        "OFF",
        "ON",
    }
)
"""What a directive may begin with: not the grammar's, which is not needed to find lines."""

_VERB = f"(?:{'|'.join(sorted(KEYWORDS))})"
_MISSPELT = re.compile(
    rf"(?i:zen)\$&?|(?i:zen)[ \t]+\$(?!\w)|\$[ \t]*ZEN\b|ZEN[&%#§€@]|(?i:zen)(?=[ \t]+{_VERB}\b)"
)

_DIRECTIVE = re.compile(rf"{re.escape(MARK)}[ \t]*(?i:{_VERB})\b")
_ONE_WORD = re.compile(r"\S{1,16}")


@dataclass(frozen=True, slots=True)
class DirectiveLines:
    """The directives of a file in order, and what is wrong with lines that only look like one."""

    lines: tuple[WrittenDirective, ...] = ()
    """Also those that only say OFF or ON; `Line.last` is the last line, not the one behind it."""
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def directives(self) -> tuple[WrittenDirective, ...]:
        """The lines that a grammar has to read: all but OFF and ON."""
        return tuple(line for line in self.lines if not switch(line))


def find(source: Source, dialect: Dialect) -> DirectiveLines:
    """Return every directive of a text file; nothing of a binary."""
    # Most files of a program have no directive: one search spares them all patterns.
    if source.text is None or "zen" not in source.text.lower():
        return DirectiveLines()
    search = _LineSearch(source, dialect)
    return DirectiveLines(tuple(search.lines()), tuple(search.diagnostics))


def switch(line: WrittenDirective) -> str:
    """Return ``OFF`` or ``ON`` if the directive says only that, else nothing."""
    word = line.body.text.upper()
    return word if word in {"OFF", "ON"} else ""


def hidden(lines: tuple[WrittenDirective, ...], length: int) -> tuple[range, ...]:
    """Return the lines between each OFF and its ON, or the end of a file of *length* lines."""
    ranges, start = [], None
    for line in lines:
        match switch(line):
            case "OFF" if start is None:
                start = line.last + 1
            case "ON" if start is not None:
                ranges.append(range(start, line.first))
                start = None
            case _:
                pass
    return (*ranges, range(start, length)) if start is not None else tuple(ranges)


class _LineSearch:
    """One walk over the lines of a file."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self.file = str(source.path)
        self.texts = [without_end(line) for line in source.lines]
        self.starts = _starts(source.lines)
        self.dialect = dialect
        self.spans = SyntaxSpans(source.text or "", dialect)
        self.diagnostics: list[Diagnostic] = []

    def lines(self) -> Iterator[WrittenDirective]:
        """Yield the directives; one that goes on is joined."""
        current: WrittenDirective | None = None
        off: WrittenDirective | None = None
        for number, text in enumerate(self.texts):
            directive = self._directive(number, text, hidden=off is not None)
            if directive and current and _goes_on(directive, current):
                current = _joined(current, replace(directive, body=_behind_and(directive.body)))
                continue
            if current:
                yield current
            current = self._beginning(directive)
            off = self._switched(current, off) if current else off
        if current:
            yield current
        if off:
            self._warn(
                off.body.place(0, 3), "OFF without ON: zenturio ignores all directives that follow"
            )

    def _beginning(self, directive: WrittenDirective | None) -> WrittenDirective | None:
        """*directive* if it begins a directive; a continuation without a beginning is an error."""
        if directive is None or not directive.body.text.startswith("&"):
            return directive
        message = f"{GOES_ON} goes on from the line before, which is not a directive behind "
        message += repr(directive.opener)
        self.diagnostics.append(Diagnostic(message, directive.body.place(0), f"write {MARK}"))
        return None

    def _switched(
        self, line: WrittenDirective, off: WrittenDirective | None
    ) -> WrittenDirective | None:
        match switch(line):
            case "OFF":
                return off or line
            case "ON":
                if off is None:
                    self._warn(line.body.place(0, 2), "ON without OFF: no directives were hidden")
                return None
            case _:
                return off

    def _directive(self, number: int, text: str, *, hidden: bool) -> WrittenDirective | None:
        """Return the directive in a line; what only looks like one is complained about."""
        if "zen" not in text.lower():
            return None
        head = self.dialect.head.match(text)
        rest = head["rest"] if head else ""
        if hidden:
            # Behind OFF nothing but ON counts, not even a misspelt directive.
            is_on = re.match(r"ZEN\$[ \t]*ON\b", rest, re.IGNORECASE)
            return self._line(number, text, head) if head and is_on else None
        if head and (rest.startswith(MARK) or _MISSPELT.match(rest)):
            span = self.spans.at(self.starts[number] + _opener_at(head))
            # The opener must begin its comment: in a string, or within a longer comment, it is
            # text.
            begins_here = span is None or span.start == self.starts[number] + _opener_at(head)
            if begins_here and rest.startswith(MARK):
                return self._line(number, text, head)
            if begins_here:
                self._misspelt(number, text, head)
                return None
        if MARK in text and not (self.dialect.prose and not rest.startswith(MARK)):
            self._no_directive(number, text, head)
        return None

    def _line(self, number: int, text: str, head: re.Match[str]) -> WrittenDirective | None:
        """Return the directive, if its comment ends with its line."""
        opener = head["opener"] if head["opener"] is not None else head["first"]
        closer = self.dialect.closers.get(opener, "")
        start = head.start("rest") + len(MARK)
        end = len(text.rstrip())
        if closer:
            closed = text.find(closer, start)
            if closed < 0:
                self._error(number, text, head, f"the comment is not closed on this line: {closer}")
                return None
            if text[closed + len(closer) :].strip():
                message = f"the comment ends before the end of the line: {closer}"
                self._error(number, text, head, message, _WITHIN.format(closer))
                return None
            end = closed
        body = text[start:end]
        column = start + len(body) - len(body.lstrip())
        place = Place(self.file, number + 1, column + 1, text)
        passage = Passage(body.strip(), ((0, place),))
        return WrittenDirective(number, number, head["indent"] or "", opener, closer, passage)

    def _misspelt(self, number: int, text: str, head: re.Match[str]) -> None:
        match = _MISSPELT.match(head["rest"])
        if match:
            place = self._place(number, text, head.start("rest"), len(match[0]))
            right = GOES_ON if match[0].endswith("&") else MARK
            self._warn(place, f"{match[0]} does not begin a directive", f"did you mean {right}?")

    def _no_directive(self, number: int, text: str, head: re.Match[str] | None) -> None:
        """Say why a line with ZEN$ is no directive, unless it is prose in a comment."""
        at = text.index(MARK)
        span = self.spans.at(self.starts[number] + at)
        place = self._place(number, text, at, len(MARK))
        if span and (not span.comment or span.start < self.starts[number]):
            begins_before = span.start < self.starts[number]
            hint = "move it out of there" if begins_before else _WHOLE_LINE
            self._warn(place, f"{MARK} {self._within(span, number)} is not a directive", hint)
        elif head and (span or not self.dialect.verbatim):
            between = head["rest"][: max(at - head.start("rest"), 0)]
            if not re.search(r"\w", between):
                message = f"{MARK} does not come directly after {text[: at - len(between)].strip()}"
                hint = (
                    "only white space is allowed between them; if you need other text there, "
                    f"write the directives into {self._side} beside the file"
                )
                self._warn(place, message, hint)
            elif self.dialect is UNKNOWN and _SECOND_OPENER.search(between):
                # What a # begins in a file of an unknown kind may be code: #declare n = 5;
                self._warn(place, f"{MARK} after code is not a directive", _WHOLE_LINE)
            elif self.dialect is UNKNOWN and _is_directive(text, at):
                # C in column 1 may begin a word that is no comment sign: CM of a deck.
                self._after_text(place, text[:at].strip())
        elif foreign := UNKNOWN.head.match(text):
            self._foreign(place, foreign)
        elif (sign := text[:at].strip()) and not re.search(r"\w", sign):
            message = f"{sign} does not begin a comment in files of this kind"
            hint = f"write the directives into {self._side} beside the file"
            self._warn(place, f"{message}, so {MARK} is not a directive", hint)
        elif self.dialect is UNKNOWN:
            self._after_text(place, sign)
        else:
            self._warn(place, f"{MARK} after code is not a directive", _WHOLE_LINE)

    def _after_text(self, place: Place, sign: str) -> None:
        """A directive behind a word that only its own language may know as a comment sign."""
        message = f"{MARK} after other text is not a directive"
        if _ONE_WORD.fullmatch(sign):
            message = f"{MARK} after {sign} is not a directive: {sign} is not a known comment sign"
        self._warn(place, message, f"{_WHOLE_LINE}, or into {self._side} beside the file")

    @property
    def _side(self) -> str:
        return f"{Path(self.file).name}.zen"

    def _foreign(self, place: Place, head: re.Match[str]) -> None:
        """Warn of a line that would be a directive in another language."""
        opener = head["opener"] or head["first"]
        if not head["rest"].startswith(MARK):
            self._warn(place, f"{MARK} after code is not a directive", _WHOLE_LINE)
        elif self.dialect.openers:
            hint = (
                f"{self.dialect.name} comments begin with {' or '.join(self.dialect.openers)}; "
                f"in another language, write the directives into {self._side} beside the file"
            )
            message = f"{opener} {MARK} is not a directive: {opener} does not begin a comment"
            self._warn(place, message, hint)
        else:
            hint = "write the directives into a file of the same name with .zen appended"
            self._warn(place, f"{self.dialect.name} files have no comments", hint)

    def _within(self, span: Span, number: int) -> str:
        first = self.starts[number]
        if span.start >= first:
            return f"in {span.what}"
        line = next(i for i in range(number, -1, -1) if self.starts[i] <= span.start)
        return f"in {span.what} that begins in line {line + 1}"

    def _place(self, number: int, text: str, at: int, width: int) -> Place:
        return Place(self.file, number + 1, at + 1, text, width)

    def _error(
        self, number: int, text: str, head: re.Match[str], message: str, hint: str = _WHOLE_LINE
    ) -> None:
        place = self._place(number, text, head.start("rest"), len(MARK))
        self.diagnostics.append(Diagnostic(message, place, hint))

    def _warn(self, place: Place, message: str, hint: str = "") -> None:
        self.diagnostics.append(Diagnostic(message, place, hint, "warning"))


_SIGNS = "|".join(re.escape(opener) for opener in UNKNOWN.openers if not opener.isalpha())
_SECOND_OPENER = re.compile(rf"\s(?:{_SIGNS})\s*$")
"""An opener in front of the mark, within what seems to be a comment."""


def _is_directive(text: str, at: int) -> bool:
    """Return whether the mark begins a directive: prose has words before it, and no values."""
    return bool(
        _DIRECTIVE.match(text, at)
        and (_ONE_WORD.fullmatch(text[:at].strip()) or re.search(r"[\"{=]", text[at:]))
    )


def _starts(lines: tuple[str, ...]) -> list[int]:
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line)
    return starts


def _opener_at(head: re.Match[str]) -> int:
    return head.start("opener") if head["opener"] is not None else head.start("first")


def _goes_on(directive: WrittenDirective, current: WrittenDirective) -> bool:
    same_opener = directive.opener.casefold() == current.opener.casefold()
    return same_opener and directive.body.text.startswith("&")


def _behind_and(body: Passage) -> Passage:
    """Return the body after the sign of a continuation."""
    return body.cut(1, len(body.text)).strip()


def _joined(line: WrittenDirective, continuation: WrittenDirective) -> WrittenDirective:
    """Both as one directive; a single blank parts their texts."""
    offset = len(line.body.text) + 1
    pieces = (*line.body.pieces, *((offset + o, place) for o, place in continuation.body.pieces))
    body = Passage(f"{line.body.text} {continuation.body.text}", pieces)
    return replace(line, last=continuation.last, body=body)


@dataclass(frozen=True, slots=True)
class ParsedDirective:
    """A directive of a file; no statement if it cannot be read."""

    line: WrittenDirective
    statement: Statement | None

    @property
    def begins(self) -> bool:
        """Whether an END belongs to it, as far as can be seen."""
        match self.statement:
            case Declaration(begins=begins):
                return begins
            case RegionStatement():
                return True
            case None:
                return self.line.body.text.upper().split()[-1:] == ["BEGIN"]
            case _:
                return False


@dataclass(frozen=True)
class Scopes:
    """The line behind each scope, by the line that begins it; and the regions."""

    ends: dict[int, int]
    regions: tuple[MeasuredRegion, ...]


def pair(written: Iterable[ParsedDirective], length: int, diagnostics: Diagnostics) -> Scopes:
    """Return each BEGIN with its END in a file of *length* lines."""
    pairing = _Pairing(diagnostics, [], {}, [])
    for statement in written:
        if isinstance(statement.statement, EndStatement):
            pairing.end(statement.statement, statement.line)
        elif statement.begins:
            pairing.open.append(statement)
    for statement in pairing.open:
        place, name = _start(statement)
        closing = f"END {name}".rstrip()
        message = f"the scope of {name or 'this directive'} begins here and never ends"
        diagnostics.error(message, place, f"write {closing} where the scope is to end")
        pairing.ends[statement.line.first] = length
    return Scopes(pairing.ends, tuple(pairing.regions))


@dataclass
class _Pairing:
    diagnostics: Diagnostics
    open: list[ParsedDirective]
    ends: dict[int, int]
    regions: list[MeasuredRegion]
    crossed: list[ParsedDirective] = field(default_factory=list)
    """What an END of something else has ended already: its own END is no second mistake."""

    def end(self, end: EndStatement, line: WrittenDirective) -> None:
        at = self.partner(end)
        if at is None:
            return
        scope = self.open[at]
        if at < len(self.open) - 1:
            inner = self.open[-1]
            place, name = _start(inner)
            message = (
                f"this ends {_start(scope)[1]}, but {name}, which began later at {place}, is "
                "still open"
            )
            hint = f"end the scope that began last first: END {name}"
            self.diagnostics.error(message, end.place, hint)
            self.crossed += self.open[at + 1 :]
        del self.open[at:]
        self.ends[scope.line.first] = line.first
        if isinstance(scope.statement, RegionStatement):
            region = scope.statement
            self.regions.append(
                MeasuredRegion(region.name.text, region.probes, scope.line, line, region.counters)
            )

    def partner(self, end: EndStatement) -> int | None:
        """Return which of the open ones *end* ends; a diagnostic if it is none."""
        fitting = [at for at, opening in enumerate(self.open) if _fits(opening, end)]
        if fitting:
            return fitting[-1]
        late = next((opening for opening in self.crossed if end.name and _fits(opening, end)), None)
        if late is not None:
            self.crossed.remove(late)
            return None
        closing = "END CR" if end.region else "END"
        if end.name is not None:
            closing += f" {end.name.text}"
        openings = ", ".join(_start(opening)[1] for opening in self.open)
        hint = (
            f"open scopes here: {openings}"
            if openings
            else ("no scope is open here: remove this END")
        )
        self.diagnostics.error(f"{closing} without BEGIN", end.place, hint)
        return None


def _fits(scope: ParsedDirective, end: EndStatement) -> bool:
    match scope.statement:
        case Declaration(target=target):
            return not end.region and (end.name is None or end.name.text == target.text)
        case RegionStatement(name=name):
            return end.region and (end.name is None or end.name.text == name.text)
        case _:
            return True


def _start(scope: ParsedDirective) -> tuple[Place, str]:
    """Return where a scope begins, and how its END is named."""
    body = scope.line.body
    match scope.statement:
        case Declaration(target=target):
            return _whole(target), quoted(target.text)
        case RegionStatement(name=name):
            return _whole(name), f"CR {quoted(name.text)}"
        case _:
            return body.place(0, len(body.text)), ""


def _whole(name: Passage) -> Place:
    return name.place(0, len(name.text))


def quoted(name: str) -> str:
    """Return *name* as it is written in a directive."""
    return name if name.replace("_", "a").isalnum() else f'"{name}"'


# Insertion of directives, as a scheduler does with the machines that it selects

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
    """Return *text* with one directive for each parameter, then one for each of *bodies*.

    A parameter's set is a text as in a directive (``{ 1:10 }``, ``1:10`` or ``@other``), or values.
    The directives stand before line *before* (from 1), or behind the lines that have to stay first:
    a shebang, an encoding, an XML declaration, a parser directive of Docker. One longer than
    *width* is continued on further lines. A scan gives back what was put in.
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
        message = f"a directive before line {at + 1} would be inside a string, a comment or between"
        raise AnnotationError(f"{message} OFF and ON", hint="name another line")
    return result


def directive(way: Way, target: str, elements: str | Iterable[Value], clauses: str = "") -> str:
    """Return the body of a directive: ``ENV OMP_NUM_THREADS = { 1, 2 } AS threads``."""
    return f"{way} {_name(target)} = {_set(elements)} {clauses}".rstrip()


def _name(name: str) -> str:
    """Return *name* as a target: quoted unless it is a word; backticks keep all to the letter."""
    if re.fullmatch(r"\w+", name):
        return name
    if name and name.isprintable():
        if "\\" not in name:
            return '"' + name.replace('"', '\\"') + '"'
        if "`" not in name:
            return f"`{name}`"
    raise AnnotationError(
        f"{name!r} cannot be used as a name",
        hint="leave out control characters, and backticks beside backslashes",
    )


def _set(elements: str | Iterable[Value]) -> str:
    if isinstance(elements, str):
        whole = elements.strip()
        return whole if whole.startswith(("{", "@")) else f"{{ {whole} }}"
    return "{ " + ", ".join(write_text(text_of(value)) for value in elements) + " }"


def _harmless(body: str, dialect: Dialect) -> str:
    r"""Return *body* with a backslash in what would end the comment; in quotes it means nothing."""
    opener = dialect.opener
    closer = dialect.closers.get(opener, "")
    for sequence in (closer, opener if closer else "", *dialect.fragile):
        if len(sequence) > 1:
            body = _within_quotes(body, sequence, f"{sequence[:-1]}\\{sequence[-1]}")
    return body


def _within_quotes(body: str, old: str, new: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: match[0].replace(old, new), body)


def _lines(body: str, dialect: Dialect, indent: str, width: int) -> Iterator[str]:
    """Yield the directive's lines, broken at blanks outside of quotes."""
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
    """Return the first line that something may stand before."""
    at = 0
    while at < len(lines) and _HEAD.match(lines[at].lstrip("\ufeff")):
        at += 1
    return at


def _indent(lines: list[str], at: int) -> str:
    line = without_end(lines[at]) if at < len(lines) else ""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_end(lines: list[str]) -> str:
    """Return the line end that the text has."""
    return lines[0][len(without_end(lines[0])) :] or "\n" if lines else "\n"
