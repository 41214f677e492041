"""The ways to find a metric's values: by regular expression, by JSON path, in a CSV column."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from zenturio.annotate.metric_patterns import EVERY, json_steps
from zenturio.annotate.model import Metric
from zenturio.experiment.evidence import EvidenceText
from zenturio.experiment.reading import parse_value

if TYPE_CHECKING:
    from zenturio.expression import Value


class AbsentError(Exception):
    """The values are not there; says why and where they were looked for."""


class MetricFinder(Protocol):
    """Finds the values of one metric in a text, in their order; AbsentError where there is none."""

    def find(self, text: EvidenceText) -> list[Value]: ...


def metric_finder(metric: Metric) -> MetricFinder | None:
    """The way in which *metric* is found; none for those that programs report or formulas make."""
    if metric.regex is not None:
        return RegexFinder(metric)
    if metric.json is not None:
        return JsonFinder(metric.json)
    if metric.column is not None:
        return CsvFinder(metric.column)
    return None


class RegexFinder:
    """Group 1, the whole match if there is no group, or the group with the metric's name."""

    def __init__(self, metric: Metric) -> None:
        import re2  # noqa: PLC0415 - loaded only where a pattern is used

        self._shown = metric.regex or ""
        options: Any = re2.Options()
        if self._shown.isascii():  # bytes that are no UTF-8 match like any others
            options.encoding = re2.Options.Encoding.LATIN1
        pattern: Any = re2.compile(self._shown.encode(), options)
        self._search = pattern.search
        self._iterate = pattern.finditer
        named = pattern.groupindex.get(metric.name.encode())
        self._group: int = named or (1 if pattern.groups else 0)
        self._take = metric.take

    def find(self, text: EvidenceText) -> list[Value]:
        log = text.log
        if text.lost > 0:
            found = self._outer(text)
        elif self._take == "first":
            match = self._search(log.head + log.tail)
            found = [match.group(self._group)] if match else []
        else:
            group = self._group
            found = [match.group(group) for match in self._iterate(log.head + log.tail)]
        values = [parse_value(raw) for raw in found if raw is not None]
        if values:
            return values
        if self._take == "count":
            return values
        raise AbsentError(f"`{self._shown}` matched nothing in {text}")

    def _outer(self, text: EvidenceText) -> list[bytes | None]:
        """The first match in the head, or the last in the tail: the middle could hold others."""
        log = text.log
        if self._take == "first":
            match = self._search(log.head)
            if match:
                return [match.group(self._group)]
        elif self._take == "last":
            matches = list(self._iterate(log.tail))
            if matches:
                return [matches[-1].group(self._group)]
        raise AbsentError(
            f"TAKE {self._take} of `{self._shown}` needs what was not kept of {text}: "
            "write it to a file"
        )


def _whole(text: EvidenceText) -> str:
    if text.lost > 0:
        raise AbsentError(f"the middle of {text} is needed: write it to a file")
    return (text.log.head + text.log.tail).decode("utf-8-sig", "surrogateescape")


class JsonFinder:
    """A path through one JSON document, or through each line that is one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._steps = json_steps(path)

    def find(self, text: EvidenceText) -> list[Value]:
        documents = _documents(_whole(text))
        if not documents:
            raise AbsentError(f"there is no JSON in {text}")
        reached = [node for document in documents for node in _walk(document, self._steps)]
        if not reached:
            raise AbsentError(f"{self._path} leads nowhere in {text}")
        for node in reached:
            if isinstance(node, dict | list):
                kind = "an object" if isinstance(node, dict) else "a list"
                raise AbsentError(f"{self._path} is {kind} in {text}, not a value")
        return reached


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
    """JSON with numbers as ``parse_value`` reads them; ValueError where it is none or too deep."""

    def number(digits: str) -> Value:
        return parse_value(digits.encode())

    try:
        return json.loads(content, parse_int=number, parse_float=number)
    except RecursionError:
        raise ValueError("too deep") from None


def _walk(node: Any, steps: tuple[str | int | None, ...]) -> Iterator[Any]:
    if not steps:
        yield node
        return
    step, *rest = steps
    for below in _children(node, step):
        yield from _walk(below, tuple(rest))


def _children(node: Any, step: str | int | None) -> Iterator[Any]:
    if step is EVERY:
        yield from (
            node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        )
    elif isinstance(step, int):
        if isinstance(node, list) and -len(node) <= step < len(node):
            yield node[step]
    elif isinstance(node, dict) and step in node:
        yield node[step]


class CsvFinder:
    """The cells of a column, by the name in the header or by its number from 1."""

    def __init__(self, column: str) -> None:
        self._column = column

    def find(self, text: EvidenceText) -> list[Value]:
        rows = _rows(_whole(text))
        if not rows:
            raise AbsentError(f"there is no row in {text}")
        at, first = self._locate(rows, text)
        cells = [row[at].strip() for row in rows[first:] if at < len(row)]
        values = [parse_value(cell.encode("utf-8", "surrogateescape")) for cell in cells if cell]
        if not values:
            raise AbsentError(f"column {self._column} holds nothing in {text}")
        return values

    def _locate(self, rows: list[list[str]], text: EvidenceText) -> tuple[int, int]:
        """The column's index, and the row where its values begin."""
        header = [cell.strip() for cell in rows[0]]
        if not self._column.isdecimal() or self._column == "0":
            if self._column in header:
                return header.index(self._column), 1
            shown = ", ".join(header[:8]) + (", ..." if len(header) > 8 else "")
            raise AbsentError(f"no column is named {self._column} in {text}: there is {shown}")
        at = int(self._column) - 1
        if at >= max(map(len, rows)):
            raise AbsentError(f"there is no column {self._column} in {text}")
        return at, int(_titled(rows, at))


def _titled(rows: list[list[str]], at: int) -> bool:
    """Whether the first row is a header: words stand over numbers, in this column or another."""

    def text_over_number(column: int) -> bool:
        cells = [row[column].strip() for row in rows[:2] if column < len(row)]
        return len(cells) == 2 and _is_text(cells[0]) and bool(cells[1]) and not _is_text(cells[1])

    return text_over_number(at) or any(map(text_over_number, range(len(rows[0]))))


def _is_text(cell: str) -> bool:
    return isinstance(parse_value(cell.encode("utf-8", "surrogateescape")), str) and cell != ""


def _rows(content: str) -> list[list[str]]:
    """The rows that hold something; the separator is what the first one has of , ; tab and |."""
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        return []
    if lines[0].lstrip().startswith("#"):  # `# n time`: a header that plotters skip
        lines[0] = lines[0].lstrip().removeprefix("#").lstrip()
    separator = next((s for s in ",;\t|" if s in lines[0]), None)
    if separator is None:
        return [line.split() for line in lines]
    try:
        return list(csv.reader(io.StringIO("\n".join(lines), newline=""), delimiter=separator))
    except csv.Error as error:
        raise AbsentError(f"this is no CSV: {error}") from None
