"""Holes in the text of files: how they are found, and how the values of a point fill them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from zenturio.annotate.directive_lines import MARK, hidden
from zenturio.annotate.model import (
    Annotated,
    Application,
    Assignment,
    CopiedFile,
    Hole,
    WrittenDirective,
)
from zenturio.annotate.patterns import check_pattern
from zenturio.annotate.region_probes import probe_essence, probe_lines, probe_routine
from zenturio.annotate.source import Source, Span, SyntaxSpans, shown, without_end
from zenturio.errors import AnnotationError, Diagnostic, Passage, Place, did_you_mean
from zenturio.regular_expressions import compile_pattern

if TYPE_CHECKING:
    from zenturio.space import Point


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


class EditableLines:
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
        """Whether occurrences in the line count: not in directives, nor between OFF and ON."""
        return line not in self._closed

    def allows(self, occurrence: Occurrence) -> bool:
        """Return whether all its lines are open and within the scope of its hole."""
        first, last = self.line_of(occurrence.start), self.line_of(max(occurrence.end - 1, 0))
        hole = occurrence.hole
        return (
            hole.first <= first
            and last < hole.last
            and all(self.is_open(line) for line in range(first, last + 1))
        )


def occurrences(annotated: Annotated) -> tuple[Occurrence, ...]:
    """Return the replacements in the file: leftmost first, the longest of several, not overlapping.

    Of two holes with the same target, the one whose scope begins later stands further inside.
    """
    layout = EditableLines(annotated)
    order = {id(hole): i for i, hole in enumerate(annotated.holes)}
    places = sorted(
        (o for o in _candidates(annotated) if layout.allows(o)),
        # Leftmost, longest, literal before regular expression, innermost scope, first declared.
        key=lambda o: (o.start, -o.end, o.hole.match == "regex", -o.hole.first, order[id(o.hole)]),
    )
    accepted: list[Occurrence] = []
    end = 0
    for occurrence in places:
        if occurrence.start >= end and not (accepted and _same_place(occurrence, accepted[-1])):
            accepted.append(occurrence)
            end = occurrence.end
    return tuple(accepted)


def diagnostics(files: Iterable[Annotated]) -> tuple[Diagnostic, ...]:
    """Return one for each SUBSTITUTE without OPTIONAL whose target is in none of its files."""
    counts: dict[Hole, int] = defaultdict(int)
    where: dict[Hole, list[Annotated]] = defaultdict(list)
    for file in files:
        if file.holes:
            filled = {id(o.hole) for o in occurrences(file)}
            for hole in file.holes:
                directive = _directive_of(hole)
                counts[directive] += id(hole) in filled
                where[directive].append(file)
    return tuple(
        _absent(hole, where[hole]) for hole, n in counts.items() if not n and not hole.optional
    )


def _directive_of(hole: Hole) -> Hole:
    """One key for the holes that one directive makes in several files."""
    return Hole(hole.parameter, hole.target, hole.match, 0, 0, hole.optional, hole.place)


def _same_place(first: Occurrence, second: Occurrence) -> bool:
    """Both empty, at one position: only a group of a regular expression can be so."""
    return (first.start, first.end) == (second.start, second.end)


def _candidates(annotated: Annotated) -> Iterator[Occurrence]:
    literal = [hole for hole in annotated.holes if hole.match != "regex" and hole.target]
    if literal:
        yield from _literal(annotated, literal)
    for hole in annotated.holes:
        if hole.match == "regex":
            yield from _regex(annotated, hole)


def _literal(annotated: Annotated, holes: list[Hole]) -> Iterator[Occurrence]:
    """Yield every place where a target stands, also those that overlap."""
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
    def _spans(self) -> SyntaxSpans:
        return SyntaxSpans(self._text, self._dialect)

    def __contains__(self, position: object) -> bool:
        assert isinstance(position, int)
        # The patterns first: finding the strings of a whole file costs far more.
        before = self._text[max(position - _LONGEST_ESCAPE, 0) : position]
        if not _ESCAPE.search(before):
            return False
        span = self._spans.at(position)
        return span is not None and span.is_string and span.start < position


def stands_alone(target: str, text: str, start: int) -> bool:
    """Return whether the *target* at *start* is no part of a longer word or number.

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
    message = f"{hole.target} does not occur in {only} at a place where it can be replaced"
    hints = [hint for file in files[:1] for hint in _hints(hole, file)]
    hint = hints[0] if hints else _near(hole, files[0])
    return Diagnostic(message, hole.place, f"{hint}; add OPTIONAL if the target may be missing")


def _hints(hole: Hole, file: Annotated) -> Iterator[str]:
    """Yield why a target that stands in the file all the same is not replaced."""
    layout = EditableLines(file)
    scope = next(h for h in file.holes if _directive_of(h) == _directive_of(hole))
    text = file.source.text or ""
    hidden_lines = []
    escapes = Escapes(file)
    starts: Iterator[int]
    if hole.match == "regex":
        anywhere = replace(scope, first=0, last=len(file.source.lines))
        starts = (occurrence.start for occurrence in _regex(file, anywhere))
    else:
        starts = (match.start() for match in re.finditer(re.escape(hole.target), text))
    for start in starts:
        line = layout.line_of(start)
        if not layout.is_open(line):
            hidden_lines.append(line)
        elif hole.match == "word" and not stands_alone(hole.target, text, start):
            yield f"it is part of a longer word on line {line + 1}: MATCH TEXT finds it there"
        elif hole.match == "word" and start in escapes:
            sign = "a backslash or % of a string"
            yield f"it follows {sign} on line {line + 1}: MATCH TEXT finds it there"
        elif not scope.first <= line < scope.last:
            move = ": move the directive above that line" if line < scope.first else ""
            yield f"it occurs on line {line + 1}, but {_scope(scope)}{move}"
        else:
            yield f"on line {line + 1} it is part of a longer target"
    # The directive itself holds its target: that line is no hint.
    own_line = hole.place.line - 1 if hole.place.file == str(file.source.path) else -1
    for line in hidden_lines:
        if line != own_line:
            yield f"line {line + 1} is a directive or follows OFF: nothing is replaced there"


def _scope(hole: Hole) -> str:
    if hole.last <= hole.first:
        return "the scope begins after the directive, and no line follows"
    if hole.last == hole.first + 1:
        return f"the scope is line {hole.last}"
    return f"the scope is lines {hole.first + 1} to {hole.last}"


def _near(hole: Hole, file: Annotated) -> str:
    layout = EditableLines(file)
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
                    return (
                        f"as a regular expression it matches on line {line + 1}: write MATCH REGEX"
                    )
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
    layout, spans = EditableLines(file), SyntaxSpans(text, file.dialect)
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
    """Return whether the position is within the braces of a Python f-string, which hold code."""
    prefix = text[max(span.start - 3, 0) : span.start]
    before = text[span.start : position].replace("{{", "")
    is_inside = before.rfind("{") > before.rfind("}")
    return span.is_string and is_inside and _FORMATTED.search(prefix) is not None


# Filling
#
# Each file is cut once into pieces of bytes with slots between them, so that filling is a join.
# Bytes outside the slots are those of the source; what was put in is never read again.


@dataclass(frozen=True, slots=True)
class Filled:
    """A file as an experiment sees it."""

    path: str
    content: bytes
    mode: int
    essence: bytes = b""
    """The content without the lines that only say what directives chose: a METRIC or a comment
    that comes or goes makes no other program."""


class Skeleton(NamedTuple):
    """What stays of a file for every point, without comments that say what directives chose."""

    path: str
    mode: int
    content: bytes
    """With a NUL for each text."""
    parameters: tuple[str, ...]
    """The parameter of each text."""


class Filler:
    """Writes the files of an application for one point after the other."""

    def __init__(self, application: Application) -> None:
        changed = [file for file in application.files if _is_changed(file)]
        named = _parameters_of_lines(changed)
        self._templates = tuple(_Template(file, named) for file in changed)
        self.unchanged: tuple[Annotated | CopiedFile, ...] = (
            *(file for file in application.files if not _is_changed(file)),
            *application.copied,
        )
        """The files that are the same for every point."""

    @property
    def parameters(self) -> frozenset[str]:
        """Those whose texts stand in a file."""
        return frozenset().union(*(template.parameters for template in self._templates))

    @property
    def skeletons(self) -> tuple[Skeleton, ...]:
        """What stays of each file, in the order in which they are filled."""
        return tuple(template.skeleton for template in self._templates)

    def files(self, point: Point, seed_texts: Mapping[str, str] = {}) -> tuple[Filled, ...]:
        """Return every other file with the point's texts; *seed_texts* come before them."""
        return tuple(template.fill(point, seed_texts) for template in self._templates)

    def doubts(self, texts: Mapping[str, Sequence[str]]) -> Iterator[Diagnostic]:
        """What would stop a point that took the longest or the rarest of each name's *texts*."""
        for template in self._templates:
            yield from template.doubts(texts)


def _is_changed(file: Annotated) -> bool:
    return bool(file.lines or file.holes)


@dataclass(frozen=True, slots=True)
class _Input:
    """A parameter's text in one of the forms that a file needs it in."""

    parameter: str
    form: Callable[[str], str] | None
    place: Place


@dataclass(frozen=True, slots=True)
class _Edit:
    """Characters that give way to what stands *before* and *behind* the input, and the input."""

    start: int
    end: int
    input: _Input | None
    before: str = ""
    behind: str = ""
    comment: int | None = None
    """The line, if all of it is a comment about a directive."""
    essence: str | None = None
    """What counts in place of a probe, whose code may become better: what it measures."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """Code of fixed columns: its characters, with the number of an input for each slot."""

    line: int
    parts: tuple[str | int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(part for part in self.parts if isinstance(part, int))

    def columns(self, texts: Sequence[str]) -> int:
        """Columns of the longest line that *texts* make of it."""
        code = "".join(texts[part] if isinstance(part, int) else part for part in self.parts)
        return max(map(_columns, code.splitlines()), default=0)


class _Template:
    """One file: pieces of bytes, and which input goes where between them."""

    def __init__(self, annotated: Annotated, named: _Named) -> None:
        self._annotated = annotated
        self._source = annotated.source
        edits = [*_occurrence_edits(annotated), *_line_edits(annotated, named)]
        edits.sort(key=lambda edit: edit.start)
        # Behind the sorted ones: they stand at the end of the file, where a slot may end, too.
        edits += _routines(annotated)
        self._inputs = list(dict.fromkeys(edit.input for edit in edits if edit.input))
        index = {assignment: i for i, assignment in enumerate(self._inputs)}
        self._whole = _cut(self._source, edits, index)
        self._essence = _cut(self._source, _essential(annotated, edits), index)
        self._limits = _limits(annotated, edits, index)
        self.path = annotated.path

    @property
    def skeleton(self) -> Skeleton:
        pieces, slots = self._essence
        parameters = tuple(self._inputs[i].parameter for _, i in slots)
        # No text file has a NUL, so no content can be mistaken for a slot.
        return Skeleton(self.path, self._source.mode, b"\0".join(pieces), parameters)

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(assignment.parameter for assignment in self._inputs)

    def fill(self, point: Point, seed_texts: Mapping[str, str]) -> Filled:
        texts = []
        for assignment in self._inputs:
            name = assignment.parameter
            text = seed_texts[name] if name in seed_texts else point.text(name)
            texts.append(assignment.form(text) if assignment.form else text)
        if self._limits:
            self._check_columns(texts)
        encoded = self._encoded(texts)
        whole, essence = _joined(self._whole, encoded), _joined(self._essence, encoded)
        return Filled(self.path, whole, self._source.mode, essence)

    def doubts(self, texts: Mapping[str, Sequence[str]]) -> Iterator[Diagnostic]:
        choices = [
            [
                assignment.form(text) if assignment.form else text
                for text in texts.get(assignment.parameter, ())
            ]
            for assignment in self._inputs
        ]
        longest = [max(texts, key=len, default="") for texts in choices]
        everything = ["".join(texts) for texts in choices]
        for check in (partial(self._check_columns, longest), partial(self._encoded, everything)):
            try:
                check()
            except AnnotationError as error:
                yield from error.diagnostics

    def _encoded(self, texts: list[str]) -> list[bytes]:
        encoding = self._source.encoding
        try:
            return [text.encode(encoding) for text in texts]
        except UnicodeEncodeError as error:
            at = next(i for i, text in enumerate(texts) if text == error.object)
            assignment, bad = self._inputs[at], error.object[error.start]
            raise AnnotationError(
                f"{assignment.parameter}: {self._annotated.path} is in {encoding}, which does "
                f"not have the character {bad!a}",
                place=assignment.place,
                hint="save the file as UTF-8, or choose a text without this character",
            ) from None

    def _check_columns(self, texts: list[str]) -> None:
        width = self._annotated.dialect.width or 0
        for limit in self._limits:
            columns = limit.columns(texts)
            # Compilers of fixed form ignore what is behind, without a word: another program would
            # run.
            if columns > width:
                line = without_end(self._source.lines[limit.line])
                names = {self._inputs[i].parameter: texts[i] for i in limit.inputs}
                chosen = ", ".join(f"{name} = {text}" for name, text in names.items())
                raise AnnotationError(
                    f"with {chosen} this line has {columns} columns; fixed form ends at {width}",
                    place=Place(str(self._source.path), limit.line + 1, 1, line, len(line)),
                    hint="continue on a second line, or keep the text in a variable",
                )


def _joined(cut: _Cut, encoded: list[bytes]) -> bytes:
    """Return the pieces with the texts in their slots."""
    pieces = cut[0].copy()
    for piece, i in cut[1]:
        pieces[piece] = encoded[i]
    return b"".join(pieces)


def _essential(annotated: Annotated, edits: list[_Edit]) -> list[_Edit]:
    """The edits that leave out comments about directives, and say of probes what they measure."""
    starts = EditableLines(annotated).starts
    essential = []
    for edit in edits:
        if edit.comment is not None:
            essential.append(_Edit(starts[edit.comment], starts[edit.comment + 1], None))
        elif edit.essence is not None:
            essential.append(_Edit(edit.start, edit.end, None, edit.essence))
        else:
            essential.append(edit)
    return essential


_Cut = tuple[list[bytes], tuple[tuple[int, int], ...]]
_Named = Mapping[tuple[str, int], list[tuple[str, Place]]]


def _parameters_of_lines(files: Iterable[Annotated]) -> _Named:
    """Return which parameters the SUBSTITUTE in a file and line (from 1) is about."""
    named: dict[tuple[str, int], list[tuple[str, Place]]] = {}
    for file in files:
        for hole in file.holes:
            parameters = named.setdefault((hole.place.file, hole.place.line), [])
            if hole.parameter not in (name for name, _ in parameters):
                parameters.append((hole.parameter, hole.place))
    return named


def _occurrence_edits(annotated: Annotated) -> Iterable[_Edit]:
    for occurrence in occurrences(annotated):
        hole = occurrence.hole
        yield _Edit(occurrence.start, occurrence.end, _Input(hole.parameter, None, hole.place))


def _line_edits(annotated: Annotated, named: _Named) -> Iterable[_Edit]:
    """What becomes of the directives' lines: assignments, and comments on one line each."""
    starts = EditableLines(annotated).starts
    assigned = {a.line.first: a for a in annotated.assignments}
    probed = dict(_probes(annotated))
    for line in annotated.lines:
        for number in range(line.first, line.last + 1):
            text = without_end(annotated.source.lines[number])
            start = starts[number]
            if number in assigned:
                yield _assignment(annotated, assigned[number], start, start + len(text))
            elif number in probed:
                code, essence = probed[number]
                code = _indent(annotated, line) + code
                yield _Edit(start, start + len(text), None, code, essence=essence)
            else:
                at = text.index(MARK)
                behind = f" {text[text.index(line.closer, at) :]}" if line.closer else ""
                chosen = named.get((str(annotated.source.path), number + 1), [])
                span = (start + at, start + len(text))
                yield replace(_comment(annotated, line, span, chosen, behind), comment=number)


def _indent(annotated: Annotated, line: WrittenDirective) -> str:
    """What stands before code on a directive's line: statements of fixed form begin in column 7."""
    return line.indent.ljust(6) if annotated.dialect.width else line.indent


def _routines(annotated: Annotated) -> Iterable[_Edit]:
    """Return the code that regions need after the end of the file."""
    text = annotated.source.text or ""
    routines = "".join(probe_routine(region, annotated.dialect) for region in annotated.regions)
    if routines:
        before = "" if text.endswith(("\n", "\r")) else "\n"
        yield _Edit(len(text), len(text), None, before + routines, essence="")


def _probes(annotated: Annotated) -> Iterable[tuple[int, tuple[str, str]]]:
    """Yield the code that begins and ends each region and what counts in its place, by its line."""
    for region in annotated.regions:
        begin, end = probe_lines(region, annotated.dialect)
        yield region.begin.first, (begin, probe_essence(region))
        yield region.end.first, (end, "ZEN END CR")


def _comment(
    annotated: Annotated,
    line: WrittenDirective,
    span: tuple[int, int],
    chosen: list[tuple[str, Place]],
    behind: str,
) -> _Edit:
    """Return ``ZEN: n = 128`` for a SUBSTITUTE, ``ZEN`` for all else."""
    if not chosen:
        return _Edit(*span, None, "ZEN" + behind)
    encoding = annotated.source.encoding
    form = partial(
        _in_comment,
        encoding=encoding,
        show=partial(shown, dialect=annotated.dialect, opener=line.opener, closer=line.closer),
    )
    parameter, place = chosen[0]
    return _Edit(*span, _Input(parameter, form, place), f"ZEN: {form(parameter)} = ", behind)


def _in_comment(text: str, encoding: str, show: Callable[[str], str]) -> str:
    """Return the text as shown; in a comment, what the file's encoding lacks is no error."""
    return show(text).encode(encoding, "backslashreplace").decode(encoding)


def _assignment(annotated: Annotated, assignment: Assignment, start: int, end: int) -> _Edit:
    dialect, line = annotated.dialect, assignment.line
    if dialect.form is None:
        raise AnnotationError(
            f"{dialect.name} has no assignment",
            place=line.body.place(0, len("ASSIGN")),
            hint="use SUBSTITUTE",
        )
    before, behind = dialect.around(assignment.target)
    place = line.body.place(0, len(line.body.text))
    return _Edit(
        start,
        end,
        _Input(assignment.parameter, dialect.quote, place),
        _indent(annotated, line) + before,
        behind,
    )


def _cut(source: Source, edits: list[_Edit], index: Mapping[_Input, int]) -> _Cut:
    """Return the pieces, those of the slots empty, and which input goes into which piece."""
    text = source.text or ""
    pieces: list[bytes] = []
    slots: list[tuple[int, int]] = []
    gap, position = [], 0
    for edit in edits:
        gap += [text[position : edit.start], edit.before]
        if edit.input:
            pieces += [source.encode("".join(gap)), b""]
            slots.append((len(pieces) - 1, index[edit.input]))
            gap = []
        gap.append(edit.behind)
        position = edit.end
    pieces.append(source.encode("".join(gap) + text[position:]))
    # The mark stands before all else, also if the first piece is empty.
    pieces[0] = source.bom + pieces[0]
    return pieces, tuple(slots)


def _limits(
    annotated: Annotated, edits: list[_Edit], index: Mapping[_Input, int]
) -> tuple[_Limit, ...]:
    """Return the code with slots that a fixed form cuts off; comments may be longer.

    Code that is too long as it stands shows that the compiler is told to read on. The directive
    before an ASSIGN is a comment: its length shows nothing.
    """
    width, layout = annotated.dialect.width, EditableLines(annotated)
    if width is None:
        return ()
    text = annotated.source.text or ""
    spans = SyntaxSpans(text, annotated.dialect)
    directives = {n for line in annotated.lines for n in range(line.first, line.last + 1)}
    limits = []
    for line, inside in _edited_code(annotated, edits, layout, spans).items():
        start, last = layout.starts[line], _last_line(layout, inside[-1])
        end = layout.starts[last] + _code_length(annotated, layout, spans, last)
        old = text[start:end].splitlines()
        if line not in directives and any(_columns(code) > width for code in old):
            continue
        parts: list[str | int] = []
        for edit in inside:
            assert edit.input, "only slots are put into code"
            parts += [text[start : edit.start], edit.before, index[edit.input], edit.behind]
            start = edit.end
        limits.append(_Limit(line, (*parts, text[start:end])))
    return tuple(limits)


def _edited_code(
    annotated: Annotated, edits: list[_Edit], layout: EditableLines, spans: SyntaxSpans
) -> Mapping[int, list[_Edit]]:
    """Return the edits with a slot outside of comments, by the line where their code begins."""
    code: dict[int, list[_Edit]] = {}
    first = last = -1
    for edit in edits:
        span = spans.at(edit.start)
        assigns = edit.input and edit.input.form is annotated.dialect.quote
        if edit.input and (assigns or not (span and span.comment)):
            line = layout.line_of(edit.start)
            if line > last:  # else a target over two lines has joined them
                first = line
            code.setdefault(first, []).append(edit)
            last = _last_line(layout, edit)
    return code


def _last_line(layout: EditableLines, edit: _Edit) -> int:
    """Return the line that the edit's text is followed by."""
    return min(layout.line_of(edit.end), len(layout.starts) - 2)


def _columns(code: str) -> int:
    """Columns of a line: a tab among the first five leads to the statement's field."""
    tab = code.find("\t", 0, 6)
    return len(code) + (5 - tab if tab >= 0 else 0)


def _code_length(annotated: Annotated, layout: EditableLines, spans: SyntaxSpans, line: int) -> int:
    """Columns of a line before a comment in it."""
    start = layout.starts[line]
    text = without_end(annotated.source.lines[line])
    for column in range(len(text)):
        span = spans.at(start + column)
        if span and span.comment and column:
            return len(text[:column].rstrip())
    return len(text)
