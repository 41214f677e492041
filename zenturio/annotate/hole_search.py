"""Holes in files: where the values of a parameter stand, and what replaces them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

from zenturio.annotate.directive_lines import hidden
from zenturio.annotate.metric_patterns import check_pattern
from zenturio.annotate.model import Annotated, Hole
from zenturio.annotate.source import Span, Spans, without_end
from zenturio.errors import AnnotationError, Diagnostic, Passage, Place, did_you_mean
from zenturio.regular_expressions import compile_pattern

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eEdDqQ][+-]?\d+)?")
_WORD = re.compile(r"\w")
_NO_WORD_BEFORE, _NO_WORD_BEHIND = r"(?<!\w)", r"(?!\w)"
_NO_PATTERN = re.compile(r"[^\\^$*+?|()\[\]{}.]*")
_MANY = 2000

# Behind an odd number of \ or %, and flags of a conversion: "\n", "%d", "%-d", "%.*f".
_ESCAPE = re.compile(r"(?:(?<!\\)(?:\\\\)*\\|(?<!%)(?:%%)*%[-+#0-9.*'$]*)\Z")
_LONGEST_ESCAPE = 32


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Characters of a file, from *start* to before *end*, that a parameter's text replaces."""

    start: int
    end: int
    hole: Hole


class HoleLayout:
    """Which lines of a file may be replaced, and where they begin."""

    def __init__(self, annotated: Annotated) -> None:
        lines = annotated.source.lines
        self.starts = [0, *accumulate(map(len, lines))]
        closed = {n for line in annotated.lines for n in range(line.first, line.last + 1)}
        for lines_off in hidden(annotated.lines, len(lines)):
            closed.update(lines_off)
        self._closed = closed

    def line_of(self, position: int) -> int:
        return bisect_right(self.starts, position) - 1

    def is_open(self, line: int) -> bool:
        """Whether occurrences in the line count: not in directives, not between OFF and ON."""
        return line not in self._closed

    def allows(self, occurrence: Occurrence) -> bool:
        """Whether all its lines are open and within the scope of its hole."""
        first, last = self.line_of(occurrence.start), self.line_of(max(occurrence.end - 1, 0))
        hole = occurrence.hole
        return (
            hole.first <= first
            and last < hole.last
            and all(self.is_open(line) for line in range(first, last + 1))
        )


def occurrences(annotated: Annotated) -> tuple[Occurrence, ...]:
    """What is replaced in the file: leftmost first, of several the longest, none overlapping.

    Of two holes with the same target, the one whose scope begins later stands further inside.
    """
    layout = HoleLayout(annotated)
    order = {id(hole): i for i, hole in enumerate(annotated.holes)}
    places = sorted(
        (o for o in _candidates(annotated) if layout.allows(o)),
        # Leftmost, longest, literal before regular expression, innermost scope, first declared.
        key=lambda o: (o.start, -o.end, o.hole.match == "regex", -o.hole.first, order[id(o.hole)]),
    )
    taken: list[Occurrence] = []
    end = 0
    for occurrence in places:
        if occurrence.start >= end and not (taken and _same_place(occurrence, taken[-1])):
            taken.append(occurrence)
            end = occurrence.end
    return tuple(taken)


def diagnostics(files: Iterable[Annotated]) -> tuple[Diagnostic, ...]:
    """One for each SUBSTITUTE without OPTIONAL whose target stands in none of its files."""
    counts: dict[Hole, int] = defaultdict(int)
    where: dict[Hole, list[Annotated]] = defaultdict(list)
    for file in files:
        if file.holes:
            taken = {id(o.hole) for o in occurrences(file)}
            for hole in file.holes:
                directive = _directive_of(hole)
                counts[directive] += id(hole) in taken
                where[directive].append(file)
    return tuple(
        _absent(hole, where[hole]) for hole, n in counts.items() if not n and not hole.optional
    )


def _directive_of(hole: Hole) -> Hole:
    """One key for the holes that one directive makes in several files."""
    return Hole(hole.parameter, hole.target, hole.match, 0, 0, hole.optional, hole.place)


def _same_place(one: Occurrence, other: Occurrence) -> bool:
    """Both empty, at one position: only a group of a regular expression can be so."""
    return (one.start, one.end) == (other.start, other.end)


def _candidates(annotated: Annotated) -> Iterator[Occurrence]:
    literal = [hole for hole in annotated.holes if hole.match != "regex" and hole.target]
    if literal:
        yield from _literal(annotated, literal)
    for hole in annotated.holes:
        if hole.match == "regex":
            yield from _regex(annotated, hole)


def _literal(annotated: Annotated, holes: list[Hole]) -> Iterator[Occurrence]:
    """Every place where a target stands, also those that overlap."""
    text, escapes = annotated.source.text or "", Escapes(annotated)
    at: dict[str, list[Hole]] = defaultdict(list)
    for hole in holes:
        at[hole.target].append(hole)
    lengths = {len(target) for target in at}
    # One pattern for all targets finds where any of them may stand, in one walk over the file.
    any_of = re.compile("|".join(map(re.escape, sorted(at, key=len, reverse=True))))
    position = 0
    while match := any_of.search(text, position):
        start = match.start()
        # Not behind the match: overlapping targets compete, and `occurrences` decides.
        position = start + 1
        for target in {text[start : start + length] for length in lengths}:
            for hole in at.get(target, ()):
                is_word = stands_alone(target, text, start) and start not in escapes
                if hole.match == "text" or is_word:
                    yield Occurrence(start, start + len(target), hole)


class Escapes:
    r"""The positions in strings of a file behind a backslash or a percent sign.

    The ``n`` of ``"\n"`` and the ``d`` of ``"%d"`` are no words.
    """

    def __init__(self, annotated: Annotated) -> None:
        self._text = annotated.source.text or ""
        self._dialect = annotated.dialect

    @cached_property
    def _spans(self) -> Spans:
        return Spans(self._text, self._dialect)

    def __contains__(self, position: object) -> bool:
        assert isinstance(position, int)
        # The patterns first: finding the strings of a whole file costs far more.
        before = self._text[max(position - _LONGEST_ESCAPE, 0) : position]
        if not _ESCAPE.search(before):
            return False
        span = self._spans.at(position)
        return span is not None and span.is_string and span.start < position


def stands_alone(target: str, text: str, start: int) -> bool:
    """Whether the *target* at *start* is no part of a longer word or number.

    A boundary is asked for only where the target begins or ends with a letter, digit or _. A number
    is not found inside ``100.5``, ``1e100``, ``1e-100`` or ``x100``, but is in ``1..100``,
    ``.eq.100`` and ``100.times``.
    """
    before, behind = _boundaries(target)
    return bool(before.match(text, start) and behind.match(text, start + len(target)))


@cache
def _boundaries(target: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What must stand before and behind *target*: few patterns serve all targets."""
    before = _NO_WORD_BEFORE if _WORD.match(target) else ""
    behind = _NO_WORD_BEHIND if target and _WORD.match(target[-1]) else ""
    if _NUMBER.fullmatch(target):
        # Not behind a word, nor behind the point of a decimal; but behind `..` or `.eq.`.
        before = r"(?<!\w)(?<!(?<![.A-Za-z])\.)"
        if target[0] in "+-":
            before = r"(?<![\d.][eEdDqQ])"
        elif target[0].isdigit():
            before += r"(?<![\d.][eEdDqQ][+-])"
        behind = r"(?!\w)(?!\.(?!\.|[A-Za-z]{2}))"
    return re.compile(before), re.compile(behind)


def _regex(annotated: Annotated, hole: Hole) -> Iterator[Occurrence]:
    """Matches line by line, so that ``^`` and ``$`` mean what they mean to a reader."""
    pattern = compile_pattern(hole.target)
    group = 1 if pattern.groups else 0
    position = 0
    for number, line in enumerate(annotated.source.lines):
        if hole.first <= number < hole.last:
            for match in pattern.finditer(without_end(line)):
                start, end = match.span(group)
                # A group that took no part has no place, and an empty match replaces nothing.
                if start >= 0 and match.end() > match.start():
                    yield Occurrence(position + start, position + end, hole)
        position += len(line)


def _absent(hole: Hole, files: list[Annotated]) -> Diagnostic:
    only = files[0].path if len(files) == 1 else f"any of {len(files)} files"
    message = f"{hole.target} does not stand in {only} where it could be replaced"
    hints = [hint for file in files[:1] for hint in _hints(hole, file)]
    hint = hints[0] if hints else _near(hole, files[0])
    return Diagnostic(message, hole.place, f"{hint}; OPTIONAL if it may be missing")


def _hints(hole: Hole, file: Annotated) -> Iterator[str]:
    """Why a target that stands in the file all the same is not replaced."""
    layout = HoleLayout(file)
    scope = next(h for h in file.holes if _directive_of(h) == _directive_of(hole))
    if hole.match == "regex":
        return
    text = file.source.text or ""
    hidden_lines = []
    escapes = Escapes(file)
    for match in re.finditer(re.escape(hole.target), text):
        line = layout.line_of(match.start())
        if not layout.is_open(line):
            hidden_lines.append(line)
        elif hole.match == "word" and not stands_alone(hole.target, text, match.start()):
            yield f"it is part of a longer word in line {line + 1}: MATCH TEXT finds it there"
        elif hole.match == "word" and match.start() in escapes:
            sign = "a backslash or % of a string"
            yield f"it stands behind {sign} in line {line + 1}: MATCH TEXT finds it there"
        elif not scope.first <= line < scope.last:
            move = ": move the directive above it" if line < scope.first else ""
            yield f"it stands in line {line + 1}, but {_scope(scope)}{move}"
        else:
            yield f"in line {line + 1} it is part of a longer target"
    # The directive itself holds its target: that line is no hint.
    own_line = hole.place.line - 1 if hole.place.file == str(file.source.path) else -1
    for line in hidden_lines:
        if line != own_line:
            yield f"line {line + 1} is a directive or behind OFF, where nothing is replaced"


def _scope(hole: Hole) -> str:
    if hole.last <= hole.first:
        return "the scope begins below the directive, where nothing follows"
    if hole.last == hole.first + 1:
        return f"the scope is line {hole.last}"
    return f"the scope is lines {hole.first + 1} to {hole.last}"


def _near(hole: Hole, file: Annotated) -> str:
    layout = HoleLayout(file)
    lines = file.source.lines[:_MANY]
    open_text = "".join(line for i, line in enumerate(lines) if layout.is_open(i))
    words = set(re.findall(r"[^\W\d]\w*", open_text))
    if hole.match == "regex":
        return "check the target's spelling"
    if not _NO_PATTERN.fullmatch(hole.target):
        scope = next(h for h in file.holes if _directive_of(h) == _directive_of(hole))
        pattern = replace(scope, match="regex")
        with suppress(AnnotationError):
            check_pattern(Passage.of(hole.target))
            for occurrence in _regex(file, pattern):
                if layout.is_open(line := layout.line_of(occurrence.start)):
                    return f"as a regular expression it matches in line {line + 1}: MATCH REGEX"
    near = did_you_mean(hole.target, words) if len(words) <= _MANY else ""
    return near if near.startswith("did") else "check the target's spelling"


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
            replaced = [*_substituted(file), *_assigned(file)]
            yield from sorted(
                replaced, key=lambda replacement: (replacement.place.line, replacement.place.column)
            )


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
