"""The metrics of an experiment: read from its output, reported by the program, or computed.

A finder for each kind of source (pattern, JSON, CSV, size) reads values from evidence, the output
and files of a run; a `MetricReader` combines them for one recipe. A metric without a value is
`Missing`, with the reason.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zenturio.annotate.model import MEASURED, Metric, Take
from zenturio.annotate.patterns import EVERY, JsonFilterSelector, JsonStep, json_steps
from zenturio.errors import ExpressionError, InputError
from zenturio.experiment.experiment import (
    MEASURED_WHEN,
    MISSING,
    NOT_NUMBERS,
    Log,
    MetricValue,
    Missing,
    Recipe,
    Series,
    value_at,
)
from zenturio.experiment.number_hints import (
    clock_hint,
    describe_text,
    is_behind_wildcard,
    is_written_with,
    longer_number,
    number_hint,
    with_group,
)
from zenturio.experiment.safe_file_reading import OutsideError, read_inside
from zenturio.regular_expressions import Match, SlowPatternError, compile_bytes_pattern

if TYPE_CHECKING:
    from zenturio.expression import Expression, Value


def parse_value(raw: bytes) -> Value:
    """Return *raw* as an int of any size, a float (NaN and Inf too), or the text as it is.

    A number too large for a float stays text: it is not Inf. Bytes that are no UTF-8 survive as
    surrogates.
    """
    if b"_" not in raw:  # Python reads 1_000 as a number, programs do not write it
        try:
            return int(raw)
        except ValueError:
            number = _real(raw)
            if number is not None:
                return number
    return raw.decode("utf-8", "surrogateescape")


def _real(raw: bytes) -> float | None:
    """Return *raw* as a float, written as C or (1.5D+03) as Fortran writes it."""
    try:
        number = float(raw)
    except ValueError:
        if not _is_fortran(raw.strip()):
            return None
        number = float(raw.lower().replace(b"d", b"e"))
    if math.isinf(number) and b"inf" not in raw.lower():
        return None
    return number


def _is_fortran(raw: bytes) -> bool:
    """Return whether *raw* is a real as Fortran writes it: a mantissa, d, and an exponent."""
    mantissa, _, exponent = raw.lower().partition(b"d")
    whole, _, part = _unsigned(mantissa).partition(b".")
    return (whole + part).isdigit() and _unsigned(exponent).isdigit()


def _unsigned(number: bytes) -> bytes:
    return number[1:] if number[:1] in (b"+", b"-") else number


def _reader(metric: Metric) -> Callable[[bytes], Value]:
    """Return the parser of *metric*: `parse_value` unless it declares THOUSANDS or DECIMAL."""
    if not metric.thousands and not metric.decimal:
        return parse_value
    thousands, decimal = metric.thousands, metric.decimal or "."

    def read(raw: bytes) -> Value:
        text = raw.decode("utf-8", "surrogateescape").strip()
        if not is_written_with(text, thousands, decimal):
            return text
        plain = text.replace(thousands, "") if thousands else text
        return parse_value(plain.replace(decimal, ".").encode())

    return read


def take_value(values: Sequence[Value], take: Take) -> MetricValue:
    """Return the one of *values* (at least one), or their aggregate, that ``TAKE`` names."""
    match take:
        case "first":
            return _plain(values[0])
        case "last":
            return _plain(values[-1])
        case "count":
            return len(values)
        case "all":
            return Series(tuple(values))
        case _:
            return _reduced(values, take)


def _plain(value: Value) -> MetricValue:
    return Missing("its value is null") if value is None else value


def _reduced(values: Sequence[Value], take: Take) -> MetricValue:
    """Return the smallest, largest, mean or sum of *values*; NaN if one of them is NaN."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        odd = next(v for v in values if isinstance(v, bool) or not isinstance(v, int | float))
        return Missing(f"TAKE {take} needs numbers, but one of {len(values)} is {_shown(odd)}")
    if any(isinstance(n, float) and math.isnan(n) for n in numbers):
        return math.nan
    if take == "min":
        return min(numbers)
    if take == "max":
        return max(numbers)
    return _sum_or_mean(numbers, take)


def _sum_or_mean(numbers: list[int | float], take: Take) -> MetricValue:
    """Return the sum or the mean: exact for ints, rounded once for floats."""
    try:
        if all(isinstance(n, int) for n in numbers):
            total: int | float = sum(numbers)
        else:
            total = math.fsum(numbers)
        return total / len(numbers) if take == "mean" else total
    except (OverflowError, ValueError) as error:  # beyond a float's range, or Inf and -Inf
        return Missing(f"TAKE {take} has no answer: {error}")


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run left behind: streams, folder, ``$ZEN_METRICS``, and the metrics of its place."""

    stdout: Log = field(default_factory=Log)
    stderr: Log = field(default_factory=Log)
    folder: str | Path | None = None
    reported: bytes = b""
    usage: Mapping[str, MetricValue] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files by their former path, if they are no longer in one folder."""

    def text(self, source: str) -> SearchedOutput:
        """Return the text of *source*: ``stdout``, ``stderr``, or a file of the folder."""
        if source == "stdout":
            return SearchedOutput(source, self.stdout)
        if source == "stderr":
            return SearchedOutput(source, self.stderr)
        name = "/".join(part for part in source.split("/") if part not in ("", "."))
        folder, path = self.folder, source
        if name in self.files:
            folder, path = self.files[name].parent, self.files[name].name
        elif self.files:
            return SearchedOutput(source, Log(), f"{source} is not there")
        if folder is None:
            return SearchedOutput(
                source, Log(), f"{source} cannot be read here: there is no folder"
            )
        try:
            content = read_inside(Path(folder), path)
        except OutsideError as error:
            return SearchedOutput(source, Log(), str(error))
        return SearchedOutput(source, Log(content, b"", len(content)))


@dataclass(frozen=True, slots=True)
class SearchedOutput:
    """The bytes that metrics are searched in, their source, and why there are none."""

    source: str
    log: Log
    fault: str = ""

    @property
    def lost(self) -> int:
        """How many bytes in the middle were not kept."""
        return self.log.size - len(self.log.head) - len(self.log.tail)

    def __str__(self) -> str:
        """Return ``stdout (3 lines)``, as in the reason of a metric that was not found."""
        if self.lost > 0:
            kept = len(self.log.head) + len(self.log.tail)
            return f"{self.source} ({self.log.size} bytes, of which {kept} were kept)"
        content = self.log.head + self.log.tail
        if not content:
            return f"{self.source} (empty)"
        lines = content.count(b"\n") + (not content.endswith(b"\n"))
        return f"{self.source} ({lines} line{'s' if lines > 1 else ''})"


class Inapplicable(Missing):
    """A metric whose WHEN does not hold at this point: it is NULL, and nothing has failed."""


class NotNumber(Missing):
    """A metric whose value is a text, and that an objective takes as a number."""


class AbsentError(Exception):
    """The values were not found; the message says why and where."""


class NoValuesError(AbsentError):
    """The source exists and contains no value, so the count of values is 0."""


class MetricFinder(Protocol):
    """Finds the values of one metric in a text, in order; AbsentError if there are none."""

    def find(self, text: SearchedOutput) -> list[Value]: ...


_MOST_MATCHES = 10_000
"""Matches in one output whose captured texts are checked."""
_MOST_OUTPUTS = 100
"""Outputs of one recipe that are searched for numbers that a pattern cuts."""


def _ascii(letter: bytes) -> str:
    return letter.decode("ascii", "ignore").strip("\r\n")


def _is_one_number(whole: bytes) -> bool:
    text = whole.decode("utf-8", "replace")
    return not isinstance(parse_value(whole), str) or bool(number_hint(text) or clock_hint(text))


def metric_finder(metric: Metric) -> MetricFinder | None:
    """Return the finder of *metric*; None for a metric that is reported or computed."""
    if metric.regex is not None:
        return RegexFinder(metric)
    if metric.json is not None:
        return JsonFinder(metric.json, _reader(metric))
    if metric.column is not None:
        return CsvFinder(metric.column, metric.rows, _reader(metric))
    if metric.size:
        return SizeFinder()
    return None


class RegexFinder:
    """Finds what a pattern captures: the group with the metric's name, group 1, or the match.

    ``^`` and ``$`` match at the bounds of a line, as they do in MATCH clauses.
    """

    def __init__(self, metric: Metric) -> None:
        self._shown = metric.regex or ""
        pattern = compile_bytes_pattern("(?m)" + self._shown)
        self._iterate = pattern.finditer
        named = pattern.groupindex.get(metric.name.encode())
        self._group: int = named or (1 if pattern.groups else 0)
        self._take = metric.take
        self._read = _reader(metric)
        self._anchored = "^" in self._shown or "$" in self._shown

    def find(self, text: SearchedOutput) -> list[Value]:
        log = text.log
        matches: Iterable[bytes]
        if text.lost > 0:
            matches = self._outer(text)
        else:
            matches = self._matches(log.head + log.tail)
            if self._take == "first":
                matches = islice(matches, 1)
        try:
            values = [self._read(raw) for raw in matches]
        except SlowPatternError as error:
            raise AbsentError(str(error)) from None
        if values:
            return values
        raise NoValuesError(f"`{self._shown}` matched nothing in {text}")

    def cut_number(self, content: bytes) -> tuple[str, str, str] | None:
        """Return the value of the metric, the longer number of which it is a part, and the letter
        before that.

        None if there is no such value, or if the pattern itself matches the rest of the number.
        """
        if self._anchored:
            content = content.replace(b"\r\n", b"\n")
        matches: Iterable[Match] = (
            match
            for match in islice(self._iterate(content), _MOST_MATCHES)
            if match.group(self._group) is not None
        )
        if self._take == "first":
            matches = islice(matches, 1)
        elif self._take == "last":
            matches = deque(matches, maxlen=1)
        cuts = (self._longer_number(content, match) for match in matches)
        return next((cut for cut in cuts if cut is not None), None)

    def _longer_number(self, content: bytes, match: Match) -> tuple[str, str, str] | None:
        start, end = match.span(self._group)
        # What the pattern matches next to the group is not cut off, unless a wildcard matches it.
        is_open = start == match.start() or is_behind_wildcard(self._shown)
        bounds = longer_number(content, start, end, before=is_open, behind=end == match.end())
        if bounds is None:
            return None
        whole, before = content[slice(*bounds)], content[max(bounds[0] - 1, 0) : bounds[0]]
        if not _is_one_number(whole):
            return None
        return (
            content[start:end].decode("latin-1"),
            whole.decode("utf-8", "replace"),
            _ascii(before),
        )

    def matches_in_lines(self, content: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield for each match what stands before it in its line, and what the group matched."""
        for match in self._iterate(content):
            if (raw := match.group(self._group)) is not None:
                yield content[content.rfind(b"\n", 0, match.start()) + 1 : match.start()], raw

    def _matches(self, content: bytes) -> Iterator[bytes]:
        """Return what the group matched, in order; matches without the group are skipped."""
        if self._anchored:  # `$` matches before a line's end
            content = content.replace(b"\r\n", b"\n")
        raws = (match.group(self._group) for match in self._iterate(content))
        return (raw for raw in raws if raw is not None)

    def _outer(self, text: SearchedOutput) -> list[bytes]:
        """Return the first match in the head, or the last in the tail: the middle was not kept."""
        matches: list[bytes] = []
        if self._take == "first":
            head, *_ = text.log.head.rpartition(b"\n")
            # A line that was cut off has no end that `$` may match.
            matches = list(self._matches(head if self._anchored else text.log.head))
        elif self._take == "last":
            tail = text.log.tail.partition(b"\n")[2]
            matches = list(self._matches(tail if self._anchored else text.log.tail))
        if matches:
            return matches
        raise AbsentError(
            f"TAKE {self._take} of `{self._shown}` needs what was not kept of {text}: "
            "write it to a file"
        )


class PartialNumberCheck:
    """Looks for metrics whose patterns capture only a part of a number, such as 1 of 1,234."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._finders = [(m, RegexFinder(m)) for m in metrics if m.regex and m.take != "count"]

    def see(self, evidence: Evidence) -> dict[str, str]:
        """Return a warning for each such metric in *evidence*, by name; once for each metric."""
        finders, self._finders = self._finders, []
        remarks: dict[str, str] = {}
        for metric, finder in finders:
            text = evidence.text(metric.source)
            try:
                cut = finder.cut_number(text.log.head + text.log.tail) if text.lost <= 0 else None
            except SlowPatternError:
                continue
            if cut is None:
                self._finders.append((metric, finder))
            else:
                part, whole, letter = cut
                hint = _hint_for_cut(metric, whole, letter)
                remarks[metric.name] = f"{metric.name} is {part}, a part of {whole!r}: {hint}"
        return remarks


def _hint_for_cut(metric: Metric, whole: str, letter: str) -> str:
    """Return the hint for a pattern that captures all of the number *whole* behind *letter*."""
    if hint := clock_hint(whole):
        return hint
    pattern, clause = metric.regex or "", ""
    digits, sign = whole.lstrip("+-"), "-?" if whole.startswith("-") else ""
    if digits.isdecimal():
        group = rf"({sign}\d+)"
    elif not isinstance(parse_value(whole.encode()), str):
        group = r"([-+.\deEdD]*\d)" if "d" in whole.lower() else r"([-+.\deE]*\d)"
    else:
        signs = "".join(sorted({c for c in digits if not c.isalnum() and c not in "+-"}))
        exponent = "(?:[eE][-+]?\\d+)?" if "e" in digits.lower() else ""
        group = rf"({sign}[\d{signs}]*\d{exponent})"
        clause = "" if metric.thousands or metric.decimal else f", and {number_hint(whole)}"
    return f"write {with_group(pattern, group, letter)}{clause}"


class SizeFinder:
    """Finds the size of a text in bytes, including bytes that were not kept."""

    def find(self, text: SearchedOutput) -> list[Value]:
        return [text.log.size]


def _whole(text: SearchedOutput) -> str:
    if text.lost > 0:
        raise AbsentError(f"the middle of {text} is needed: write it to a file")
    return (text.log.head + text.log.tail).decode("utf-8-sig", "surrogateescape")


class JsonFinder:
    """Finds the values at a path of a JSON document, or of each line that is a document."""

    def __init__(self, path: str, read: Callable[[bytes], Value] = parse_value) -> None:
        """*read* parses values that are texts in JSON."""
        self._path = path
        self._read = read
        self._steps = json_steps(path)

    def find(self, text: SearchedOutput) -> list[Value]:
        documents = _documents(_whole(text))
        if not documents:
            raise AbsentError(f"there is no JSON in {text}")
        reached = [node for document in documents for node in _walk(document, self._steps)]
        if not reached:
            # `[*]` and conditions may select nothing: then the count of values is 0.
            is_choice = any(
                step is EVERY or isinstance(step, JsonFilterSelector) for step in self._steps
            )
            absent = NoValuesError if is_choice else AbsentError
            raise absent(f"{self._path} leads nowhere in {text}")
        for node in reached:
            if isinstance(node, dict | list):
                if isinstance(node, dict):
                    kind, hint = "an object", f"{self._path}.NAME is a member"
                else:
                    kind = "a list"
                    hint = f"{self._path}[0] is its first member, {self._path}[*] are all"
                raise AbsentError(f"{self._path} is {kind} in {text}, not a value; {hint}")
        if self._read is parse_value:  # a text in quotes is meant as one
            return reached
        return [
            self._read(node.encode("utf-8", "surrogateescape")) if isinstance(node, str) else node
            for node in reached
        ]


def _documents(content: str) -> list[Any]:
    try:
        return [read_json(content)]
    except ValueError:
        lines = [line for line in content.splitlines() if line.lstrip()[:1] in ("{", "[")]
    return [document for line in lines for document in _one(line)]


def _one(line: str) -> Iterator[Any]:
    try:
        yield read_json(line)
    except ValueError:
        return  # a line of text that begins with a bracket


def read_json(content: str) -> Any:
    """Parse JSON with numbers as in ``parse_value``; ValueError if invalid or nested too deeply."""

    def number(digits: str) -> Value:
        return parse_value(digits.encode())

    try:
        return json.loads(content, parse_int=number, parse_float=number)
    except RecursionError:
        raise ValueError("too deep") from None


def _walk(node: Any, steps: tuple[JsonStep, ...]) -> Iterator[Any]:
    if not steps:
        yield node
        return
    for below in _children(node, steps[0]):
        yield from _walk(below, steps[1:])


def _children(node: Any, step: JsonStep) -> Iterator[Any]:
    if step is EVERY:
        yield from _members(node)
    elif isinstance(step, JsonFilterSelector):
        yield from (member for member in _members(node) if _passes(member, step))
    elif isinstance(step, int):
        if isinstance(node, list) and -len(node) <= step < len(node):
            yield node[step]
    elif isinstance(node, dict) and step in node:
        yield node[step]


def _members(node: Any) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _passes(member: Any, condition: JsonFilterSelector) -> bool:
    reached = _walk(member, condition.path)
    if not condition.operator:
        return next(reached, _NOWHERE) is not _NOWHERE
    return any(condition.accepts(value) for value in reached)


_NOWHERE = object()


class CsvFinder:
    """Finds the cells of a column, by its name in the header or its number: ``3`` or ``c3``.

    *rows* is a condition on the columns, by their names or as ``c1``, ``c2``, ...
    """

    def __init__(
        self,
        column: str,
        rows: Expression | None = None,
        read: Callable[[bytes], Value] = parse_value,
    ) -> None:
        self._column = column
        self._rows = rows
        self._read = read

    def find(self, text: SearchedOutput) -> list[Value]:
        rows = _TableRows(_whole(text))
        if not rows.top:
            raise NoValuesError(f"there is no row in {text}")
        at, first = self._locate(rows, text)
        cells = [row[at].strip() for row in self._selected(rows, first, text) if at < len(row)]
        values = [self._read(cell.encode("utf-8", "surrogateescape")) for cell in cells if cell]
        if not values:
            where = f" where {self._rows.text}" if self._rows is not None else ""
            raise NoValuesError(f"column {self._column} holds nothing{where} in {text}")
        return values

    def _selected(self, rows: _TableRows, first: int, text: SearchedOutput) -> Iterator[list[str]]:
        """Return the rows for which the condition is true, not those for which it is NULL."""
        if self._rows is None:
            return islice(rows, first, None)
        top = rows.top[0]
        header = {cell.strip(): at for at, cell in reversed(list(enumerate(top)))}
        numbered = {f"c{at + 1}": at for at in range(max(map(len, rows)))}
        # A name in the header takes precedence over a column's number.
        positions = {**numbered, **(header if first else {})}
        for name in self._rows.names - positions.keys():
            shown = _first_names(top) if first else f"c1 to c{len(numbered)}"
            raise AbsentError(f"no column is named {name} in {text}: there is {shown}")
        columns = {name: positions[name] for name in self._rows.names}
        return (row for row in islice(rows, first, None) if self._holds(row, columns))

    def _holds(self, row: list[str], columns: Mapping[str, int]) -> bool:
        assert self._rows is not None
        cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
        values = {
            name: parse_value(cell.encode("utf-8", "surrogateescape")) if cell else None
            for name, cell in cells.items()
        }
        try:
            return self._rows.value(values) is True
        except ExpressionError:  # such as a text where a number is compared
            return False

    def _locate(self, rows: _TableRows, text: SearchedOutput) -> tuple[int, int]:
        """Return the column's index, and the first row with values."""
        header = [cell.strip() for cell in rows.top[0]]
        number = self._column.removeprefix("c")
        if self._column in header and not self._column.isdecimal():
            return header.index(self._column), 1
        if not number.isdecimal() or number == "0":
            shown = _first_names(header)
            raise AbsentError(f"no column is named {self._column} in {text}: there is {shown}")
        at = int(number) - 1
        if at >= max(map(len, rows)):
            raise AbsentError(f"there is no column {self._column} in {text}")
        return at, int(self._is_titled(rows.top, at))

    def _is_titled(self, top: list[list[str]], at: int) -> bool:
        """Return whether the first row is a header: a text above a number in some column."""

        def text_over_number(column: int) -> bool:
            cells = [row[column].strip() for row in top if column < len(row)]
            kinds = [self._is_text(cell) for cell in cells if cell]
            return len(cells) == 2 and kinds == [True, False]

        return text_over_number(at) or any(map(text_over_number, range(len(top[0]))))

    def _is_text(self, cell: str) -> bool:
        return isinstance(self._read(cell.encode("utf-8", "surrogateescape")), str)


def _first_names(header: list[str]) -> str:
    return ", ".join(cell.strip() for cell in header[:8]) + (", ..." if len(header) > 8 else "")


class _TableRows:
    """The rows that are not empty, parsed on each pass: a list would take many times the memory.

    The separator is the first of , ; tab and | that the first row contains.
    """

    def __init__(self, content: str) -> None:
        self._content = content
        first = next(self._lines(), "")
        self._separator = next((s for s in ",;\t|" if s in first), None)
        self.top = list(islice(self, 2))
        """The first two rows: possibly a header, and the row below it."""

    def __iter__(self) -> Iterator[list[str]]:
        if self._separator is None:
            lines = self._lines()
            yield from map(str.split, islice(lines, 1))
            yield from (line.split() for line in lines if not _is_remark(line))
            return
        try:
            yield from csv.reader(self._lines(), delimiter=self._separator)
        except csv.Error as error:
            raise AbsentError(f"this is not CSV: {error}") from None

    def _lines(self) -> Iterator[str]:
        lines = (line for line in io.StringIO(self._content, newline=None) if line.strip())
        for first in islice(lines, 1):
            # `# n time`: a header that plotters skip
            yield first.lstrip().removeprefix("#").lstrip() if _is_remark(first) else first
        yield from lines


def _is_remark(line: str) -> bool:
    return line.lstrip().startswith("#")


METRICS = "ZEN_METRICS"
"""The environment variable that names the file to which a program appends ``{"name": value}``.

Undeclared names become metrics too; names of parameters and of MEASURED are ignored.
"""


def measure(
    recipe: Recipe, values: Mapping[str, Value], evidence: Evidence
) -> dict[str, MetricValue]:
    """Return all metrics of one run; for many runs of one recipe a `MetricReader` is faster."""
    return MetricReader(recipe).measure(values, evidence)


class MetricReader:
    """Measures the runs of one recipe: patterns are compiled and formulas are sorted once."""

    def __init__(self, recipe: Recipe) -> None:
        self._metrics = recipe.metrics
        plain = [m for m in recipe.metrics if m.formula is None]
        self._finders: list[tuple[Metric, MetricFinder | None]] = [
            (m, metric_finder(m)) for m in plain
        ]
        self._derived = _sorted(recipe.metrics)
        self._needed = {m.name for m in recipe.metrics if not m.optional}
        self._verified = recipe.verified
        self._numbers = recipe.numbers
        self._cuts: PartialNumberCheck | None = None
        self._outputs = 0

    def cut_numbers(self, evidence: Evidence) -> dict[str, str]:
        """Return what `PartialNumberCheck` finds in one of the first outputs, by metric."""
        if self._outputs >= _MOST_OUTPUTS:
            return {}
        self._outputs += 1
        if self._cuts is None:
            self._cuts = PartialNumberCheck(self._metrics)
        return self._cuts.see(evidence)

    def measure(self, values: Mapping[str, Value], evidence: Evidence) -> dict[str, MetricValue]:
        """Return every metric by name: measured by the place, found, reported or computed."""
        metrics: dict[str, MetricValue] = dict(evidence.usage)
        reported, fault = _reported(evidence.reported) if evidence.reported else ({}, "")
        texts: dict[str, SearchedOutput] = {}
        for metric, finder in self._finders:
            reported_values = reported.get(metric.name)
            if metric.when is not None and not _applies(metric.when, values):
                metrics[metric.name] = Inapplicable(f"{MEASURED_WHEN}{metric.when.text}")
            elif metric.observed and (reported_values is None or not is_regional(metric)):
                metrics.setdefault(metric.name, Missing("nothing observed it there"))
            elif reported_values is not None:
                metrics[metric.name] = take_value(reported_values, metric.take)
            elif finder is None:
                metrics[metric.name] = Missing(f"${METRICS} does not hold it{fault}")
            else:
                metrics[metric.name] = _measured(metric, finder, texts, evidence)
        for name, reported_values in reported.items():
            # A program may echo its parameters; these are not metrics.
            if name not in metrics and name not in values:
                metrics[name] = take_value(reported_values, "last")
        for metric in self._derived:
            if metric.when is not None and not _applies(metric.when, values):
                metrics[metric.name] = Inapplicable(f"{MEASURED_WHEN}{metric.when.text}")
            else:
                metrics[metric.name] = _computed(metric, values, metrics)
        return self.without_texts(values, metrics)

    def without_texts(
        self, values: Mapping[str, Value], metrics: dict[str, MetricValue]
    ) -> dict[str, MetricValue]:
        """Put a `NotNumber` into *metrics* for each text that an objective takes as a number."""
        texts = self._texts_for_numbers(values, metrics) if self._numbers else ()
        reasons = {name: self._reason(name, text, metrics) for name, text in texts}
        metrics.update((name, NotNumber(reason)) for name, reason in reasons.items())
        return metrics

    def _reason(self, name: str, text: str, metrics: Mapping[str, MetricValue]) -> str:
        """Return why the metric *name* is not a number; + in a formula joins texts."""
        formulas = {metric.name: metric.formula for metric in self._derived}
        names, parts = [name], dict[str, str]()
        while names:
            formula = formulas.get(part := names.pop(0))
            if formula is not None:
                names.extend(sorted(formula.names & metrics.keys()))
            elif part != name and isinstance(measured := metrics[part], str):
                parts[part] = measured
        if not parts:
            return describe_text(text)
        causes = (f"{part} is {describe_text(measured)}" for part, measured in parts.items())
        return f"the text {_shown(text)}, made of texts: {'; '.join(causes)}"

    def restored(
        self, values: Mapping[str, Value], metrics: Mapping[str, MetricValue]
    ) -> dict[str, MetricValue]:
        """Return recorded *metrics* as `measure` returned them, with `Inapplicable` ones."""
        conditions = {m.name: m.when for m in self._metrics if m.when is not None}
        return {
            name: Inapplicable(value.why)
            if isinstance(value, Missing)
            and (when := conditions.get(name)) is not None
            and not _applies(when, values)
            else value
            for name, value in metrics.items()
        }

    def lacking(self, metrics: Mapping[str, MetricValue]) -> str:
        """Return why metrics are not complete, or nothing.

        ``metric missing: gflops`` if a metric that is needed at this point is missing, ``not a
        number: gflops`` if its value is a text.
        """
        missing = {name for name, value in metrics.items() if isinstance(value, Missing)}
        lacks = [n for n in self._needed & missing if not isinstance(metrics[n], Inapplicable)]
        texts = sorted(name for name in missing if isinstance(metrics[name], NotNumber))
        if texts:
            return f"{NOT_NUMBERS}{', '.join(texts)}"
        if not lacks:
            return ""
        derived = {metric.name for metric in self._derived}
        roots = [name for name in lacks if name not in derived] or lacks
        return f"{MISSING}{', '.join(sorted(roots))}"

    def _texts_for_numbers(
        self, values: Mapping[str, Value], metrics: Mapping[str, MetricValue]
    ) -> Sequence[tuple[str, str]]:
        """Return the metrics that are texts and leave an objective without a value."""
        texts = {name: value for name, value in metrics.items() if isinstance(value, str)}
        names = set[str]()
        for expression in self._numbers:
            own = sorted(texts.keys() & expression.names)
            if own and not _is_number(_evaluated(expression, values, metrics)):
                # Others may be texts that are compared with texts: status == "converged".
                alone = [n for n in own if _is_number(_with_ones(expression, values, metrics, [n]))]
                every = _is_number(_with_ones(expression, values, metrics, own))
                names.update(alone or (own if every else ()))
        return [(name, texts[name]) for name in sorted(names)]

    def unverified(self, values: Mapping[str, Value], metrics: Mapping[str, MetricValue]) -> str:
        """Return ``VERIFY error <= 1e-6`` if that is false or unknown; else nothing."""
        for expression in self._verified:
            value = _evaluated(expression, values, metrics)
            if isinstance(value, Missing):
                return f"VERIFY {expression.text}: {value.why}"
            if value is not True:
                return f"VERIFY {expression.text}"
        return ""


def is_regional(metric: Metric) -> bool:
    """Return whether the program itself measures *metric*, in a region."""
    return metric.observed.startswith("region ")


class MetricReaderCache:
    """One `MetricReader` for each recipe, found by `id`: comparing recipes is slow."""

    def __init__(self) -> None:
        self._readers: dict[int, tuple[Recipe, MetricReader]] = {}

    def of(self, recipe: Recipe) -> MetricReader:
        """Return the reader of *recipe*, and make it at the first call."""
        entry = self._readers.get(id(recipe))
        if entry is None:
            entry = self._readers[id(recipe)] = (recipe, MetricReader(recipe))
        return entry[1]


def _measured(
    metric: Metric, finder: MetricFinder, texts: dict[str, SearchedOutput], evidence: Evidence
) -> MetricValue:
    text = texts.get(metric.source)
    if text is None:
        text = texts[metric.source] = evidence.text(metric.source)
    if text.fault:
        return Missing(text.fault)
    try:
        values = finder.find(text)
    except AbsentError as error:
        is_count = metric.take == "count" and isinstance(error, NoValuesError)
        return 0 if is_count else Missing(str(error))
    if metric.thousands or metric.decimal:
        odd = next((value for value in values if isinstance(value, str)), None)
        if odd is not None:
            return Missing(f"{_shown(odd)} is not a number {_signs(metric)}")
    value = take_value(values, metric.take)
    if metric.column and isinstance(value, Missing) and any(type(v) is str for v in values):
        return Missing(f"{value.why}; select rows with WHERE")
    return value


def _signs(metric: Metric) -> str:
    signs = {"THOUSANDS": metric.thousands, "DECIMAL": metric.decimal}
    return f"with {' '.join(f'{keyword} {sign!r}' for keyword, sign in signs.items() if sign)}"


def _with_ones(
    expression: Expression,
    values: Mapping[str, Value],
    metrics: Mapping[str, MetricValue],
    names: Iterable[str],
) -> MetricValue:
    """Return the value that *expression* would have if each of *names* were 1."""
    return _evaluated(expression, values, {**metrics, **dict.fromkeys(names, 1)})


def _is_number(value: MetricValue) -> bool:
    return isinstance(value, int | float)


def _reported(lines: bytes) -> tuple[dict[str, list[Value]], str]:
    """Return the values in the JSON lines of ``$ZEN_METRICS`` by name, and the first error."""
    values: dict[str, list[Value]] = {}
    fault = ""
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = read_json(line.decode("utf-8", "surrogateescape"))
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            fault = fault or f"; its line {number} is not a JSON object"
            continue
        for name, value in entry.items():
            if name not in MEASURED:
                values.setdefault(name, []).extend(_reported_values(value))
    return {name: entry for name, entry in values.items() if entry}, fault


def _reported_values(value: Any) -> list[Value]:
    """Return the values in a reported one: itself, or the members of a list; not objects."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if not isinstance(item, dict | list)]


def _computed(
    metric: Metric, values: Mapping[str, Value], metrics: Mapping[str, MetricValue]
) -> MetricValue:
    assert metric.formula is not None
    return _evaluated(metric.formula, values, metrics)


def _evaluated(
    formula: Expression, values: Mapping[str, Value], metrics: Mapping[str, MetricValue]
) -> MetricValue:
    """Return the value of *formula*, or `Missing` with the reason."""
    inputs: dict[str, Value] = {}
    for name in formula.names:
        part = metrics[name] if name in metrics else values.get(name)
        if isinstance(part, Missing) and name in formula.optional_names:
            part = None
        if isinstance(part, Missing):
            return type(part)(f"it needs {name}: {part.why}")
        if isinstance(part, Series):
            return Missing(f"it needs {name}, which is a series (TAKE all), not a value")
        inputs[name] = part
    try:
        value = value_at(formula, inputs, point=values)
    except ExpressionError as error:
        measured = sorted(inputs.keys() & metrics.keys())
        hints = ((n, number_hint(inputs[n]) or clock_hint(inputs[n])) for n in measured)
        causes = [
            error.diagnostics[0].message,
            *(f"{name}: {hint}" for name, hint in hints if hint),
        ]
        return Missing("; ".join(causes))
    return Missing(f"{formula.text} is NULL here") if value is None else value


def _applies(when: Expression, values: Mapping[str, Value]) -> bool:
    """Return whether WHEN is true at this point; a condition without a value is false."""
    try:
        return value_at(when, values, point=values) is True
    except ExpressionError:
        return False


def _sorted(metrics: tuple[Metric, ...]) -> list[Metric]:
    """Return the derived metrics in an order in which each comes after its inputs."""
    derived = {m.name: m for m in metrics if m.formula is not None}
    graph = {
        name: sorted(m.formula.names & derived.keys()) for name, m in derived.items() if m.formula
    }
    try:
        return [derived[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        cycle = [str(name) for name in reversed(error.args[1])]
        raise InputError(
            f"metrics are computed from each other: {' -> '.join(cycle)}",
            place=derived[cycle[0]].place,
            hint="one of them must be found, not computed",
        ) from None
