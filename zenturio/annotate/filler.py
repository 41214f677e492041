"""
Put a point's texts into the files of an application.

Each file is cut once into pieces of bytes with slots between them, so that filling is a join. Bytes
outside the slots are those of the source; what was put in is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zenturio.annotate.directive_lines import MARK
from zenturio.annotate.hole_search import HoleLayout, occurrences
from zenturio.annotate.model import Annotated, Application, Assignment, CopiedFile, WrittenDirective
from zenturio.annotate.region_probes import probe_essence, probe_lines, probe_routine
from zenturio.annotate.source import Source, Spans, shown, without_end
from zenturio.errors import AnnotationError, Diagnostic, Place

if TYPE_CHECKING:
    from zenturio.space import Point


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
        """Every other file with the point's texts; *seed_texts* come before them."""
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
            which = next(i for i, text in enumerate(texts) if text == error.object)
            assignment, bad = self._inputs[which], error.object[error.start]
            raise AnnotationError(
                f"{assignment.parameter}: {self._annotated.path} is in {encoding},"
                f" which has no {bad!a}",
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
                    hint="go on in a second line, or keep the text in a variable",
                )


def _joined(cut: _Cut, encoded: list[bytes]) -> bytes:
    """The pieces with the texts in their slots."""
    pieces = cut[0].copy()
    for piece, i in cut[1]:
        pieces[piece] = encoded[i]
    return b"".join(pieces)


def _essential(annotated: Annotated, edits: list[_Edit]) -> list[_Edit]:
    """The edits that leave out comments about directives, and say of probes what they measure."""
    starts = HoleLayout(annotated).starts
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
    """Which parameters the SUBSTITUTE in a file and line (from 1) is about."""
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
    starts = HoleLayout(annotated).starts
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
    """What regions need behind the end of the file."""
    text = annotated.source.text or ""
    routines = "".join(probe_routine(region, annotated.dialect) for region in annotated.regions)
    if routines:
        before = "" if text.endswith(("\n", "\r")) else "\n"
        yield _Edit(len(text), len(text), None, before + routines, essence="")


def _probes(annotated: Annotated) -> Iterable[tuple[int, tuple[str, str]]]:
    """The code that begins and ends each region and what counts in its place, by its line."""
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
    """``ZEN: n = 128`` for a SUBSTITUTE, ``ZEN`` for all else."""
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
    """The text as shown; in a comment, what the file's encoding lacks is no error."""
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
    """The pieces, those of the slots empty, and which input goes into which piece."""
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
    """The code with slots that a fixed form cuts off; comments may be longer.

    Code that is too long as it stands shows that the compiler is told to read on. The directive
    before an ASSIGN is a comment: its length shows nothing.
    """
    width, layout = annotated.dialect.width, HoleLayout(annotated)
    if width is None:
        return ()
    text = annotated.source.text or ""
    spans = Spans(text, annotated.dialect)
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
    annotated: Annotated, edits: list[_Edit], layout: HoleLayout, spans: Spans
) -> Mapping[int, list[_Edit]]:
    """The edits with a slot outside of comments, by the line where their code begins."""
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


def _last_line(layout: HoleLayout, edit: _Edit) -> int:
    """The line that the edit's text is followed by."""
    return min(layout.line_of(edit.end), len(layout.starts) - 2)


def _columns(code: str) -> int:
    """Columns of a line: a tab among the first five leads to the statement's field."""
    tab = code.find("\t", 0, 6)
    return len(code) + (5 - tab if tab >= 0 else 0)


def _code_length(annotated: Annotated, layout: HoleLayout, spans: Spans, line: int) -> int:
    """Columns of a line before a comment in it."""
    start = layout.starts[line]
    text = without_end(annotated.source.lines[line])
    for column in range(len(text)):
        span = spans.at(start + column)
        if span and span.comment and column:
            return len(text[:column].rstrip())
    return len(text)
