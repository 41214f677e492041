"""Tables of results, their columns, and the formats in which they are exported."""

from __future__ import annotations

import html
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from zenturio import plugins
from zenturio.errors import (
    InputError,
    NotFoundError,
    PlaceError,
    PluginError,
    did_you_mean,
    unknown_name,
)
from zenturio.experiment import Missing
from zenturio.expression import text_of
from zenturio.install_hint import extra_hint
from zenturio.query.catalog import Catalog, StudyColumn, open_snapshot, read_catalog
from zenturio.record import Repository

if TYPE_CHECKING:
    import pandas as pd


DIGITS = 6
"""Of a real number that needs no more to be told from others."""

SHOWN = 50
"""Rows that a notebook shows."""

LONGEST_TEXT = 1000
"""Characters of a value that a table for people shows, such as a series of a million numbers."""


@dataclass(frozen=True)
class ResultTable:
    """Columns and rows, and of how many they are."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    units: Mapping[str, str] = field(default_factory=dict)
    found: int = 0
    """How many rows there are without the limit."""
    experiments: int | None = None
    """How many experiments the rows are made of; none where that is not known."""
    is_estimate: bool = False
    """Whether these two numbers were estimated by a sample, and not counted."""
    total: int = 0
    """How many experiments the study has."""
    noun: str = "experiments"
    """What is counted: results, where an experiment may have several."""
    notes: tuple[str, ...] = ()
    """What a reader should know: metrics that are missing somewhere."""
    sql: str = ""
    """Return the query as text to paste into a tool of the database."""

    @property
    def summary(self) -> str:
        """``20 of 240 rows, from 240 of 250 experiments``"""
        if self.is_estimate:
            return (
                f"{len(self.rows):,} of about {self.found:,} rows, from {self.total:,} {self.noun}"
            )
        rows = f"{len(self.rows):,} of {self.found:,} rows"
        if self.experiments is None:
            return rows
        return f"{rows}, from {self.experiments:,} of {self.total:,} {self.noun}"

    @property
    def heads(self) -> tuple[str, ...]:
        """The columns with their units."""
        units = self.units
        return tuple(f"{n} ({units[n]})" if units.get(n) else n for n in self.columns)

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table of pandas; units are in its ``attrs``."""
        import pandas as pd  # noqa: PLC0415 - loads slowly, and few ask for it

        table = pd.DataFrame(list(self.rows), columns=list(self.columns))
        table.attrs["units"] = dict(self.units)
        return table

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{html.escape(head)}</th>" for head in self.heads)
        lines = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
            for row in display_rows(self.rows[:SHOWN])
        )
        shown = f"{min(SHOWN, len(self.rows)):,} shown of " if len(self.rows) > SHOWN else ""
        caption = html.escape("; ".join([shown + self.summary, *self.notes]))
        return (
            f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table><p>{caption}</p>"
        )


def display_rows(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The values of a table for people: different numbers of a column are different texts."""
    columns = (_column(values) for values in zip(*rows, strict=True))
    return [list(row) for row in zip(*columns, strict=True)] if rows else []


def _column(values: Sequence[Any]) -> list[str]:
    """Numbers with six digits, or more where a neighbour in size looks the same with fewer."""
    texts = [_shortened(display_value(value)) for value in values]
    numbers = sorted({v for v in values if _is_exact_number(v)})
    longer: dict[float, str] = {}
    for _, alike in groupby(numbers, display_value):
        run = list(alike)
        if len(run) > 1:
            longer.update(zip(run, _told_apart(run), strict=True))
    return [
        longer.get(value, text) if isinstance(value, float) else text
        for value, text in zip(values, texts, strict=True)
    ]


def _told_apart(run: Sequence[float]) -> list[str]:
    """Texts of numbers in their order, all with as many digits as the closest two of them need.

    With digits of its own for each pair, a number that is written longer for one neighbour could
    look like the other one, or as if it were beyond it.
    """
    for digits in range(DIGITS + 1, 17):
        texts = [f"{value:.{digits}g}" for value in run]
        if all(low != high for low, high in pairwise(texts)):
            return texts
    return [repr(value) for value in run]


def _shortened(text: str) -> str:
    """Beginning and end of a long text, and how long it is."""
    if len(text) <= LONGEST_TEXT:
        return text
    part = LONGEST_TEXT // 2
    return f"{text[:part]} … {text[-part:]} ({len(text):,} characters)"


def _is_exact_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def display_value(value: Any) -> str:
    """A value by itself: six digits of a real number, all of a whole one, nothing for NULL."""
    if isinstance(value, float):
        # Times since 1970 and sizes in bytes are read as whole numbers.
        whole = 1e6 <= abs(value) < 1e15 or (value.is_integer() and abs(value) < 1e15)
        return f"{value:.0f}" if whole else f"{value:.{DIGITS}g}"
    return text_of(value) if isinstance(value, bool | int | str | None) else str(value)


Format = Literal["csv", "jsonl", "parquet", "markdown", "latex", "table"]
FORMATS: tuple[Format, ...] = get_args(Format)

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins so is a formula to a spreadsheet."""

_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def export(result: ResultTable, format: str, *, spreadsheet: bool = False) -> str | bytes:  # noqa: A002
    """Return *result* in one of the `FORMATS`; bytes for Parquet, text for all others.

    *spreadsheet* is for CSV alone, see `to_csv`; InputError for another format.
    """
    check_spreadsheet(format, spreadsheet=spreadsheet)
    if format == "parquet":
        return to_parquet(result)
    if format == "csv":
        return to_csv(result, spreadsheet=spreadsheet)
    if format not in _WRITERS:
        raise unknown_name("format", format, FORMATS)
    return _WRITERS[format](result)


def format_of_path(path: Path) -> str:
    """Return the format for a file's name."""
    endings = {".md": "markdown", ".tex": "latex", ".txt": "table", ".json": "jsonl"}
    ending = path.suffix.lower()
    name = endings.get(ending, ending.removeprefix("."))
    if name not in FORMATS:
        hint = "one of: " + " ".join(f".{name}" for name in FORMATS)
        raise InputError(f"{path.name!r} does not have the suffix of a table", hint=hint)
    return name


def check_spreadsheet(format: str, *, spreadsheet: bool) -> None:  # noqa: A002
    """InputError if formulas are to be defused in a format that no spreadsheet computes."""
    if spreadsheet and format != "csv":
        raise InputError(
            f"only CSV is written for a spreadsheet, not {format}",
            hint="choose CSV, or leave the option out",
        )


def to_csv(result: ResultTable, *, spreadsheet: bool = False) -> str:
    """Return a line of names and a line for each row, exactly as the values are.

    NULL is empty, an empty text is a pair of quotes, NaN and infinities are their names. For a
    *spreadsheet* an apostrophe stands before each text that it would compute as a formula.
    """
    text = _defused if spreadsheet else str
    lines = [[_csv_cell(text(name)) for name in result.columns]]
    lines += [
        [_csv_cell(text(value) if isinstance(value, str) else value) for value in row]
        for row in result.rows
    ]
    # A blank line would be skipped by who reads it.
    return "".join(f"{','.join(line) or EMPTY}\n" for line in lines)


EMPTY = '""'
_QUOTED = re.compile('[",\r\n]|^$')


def _csv_cell(value: Any) -> str:
    """Return a cell (RFC 4180); Python's own writer leaves a carriage return outside of quotes."""
    text = _text(value)
    if isinstance(value, str) and _QUOTED.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _defused(text: str) -> str:
    harmless = not text.startswith(DANGEROUS) or _NUMBER.fullmatch(text)
    return text if harmless else f"'{text}"


def _text(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return text_of(value) if plain else str(value)


def to_jsonl(result: ResultTable) -> str:
    """Return an object in each line; NaN and infinities are the texts ``NaN``, ``Infinity``,
    ``-Infinity``, for JSON has no such numbers, and null is what was not measured.
    """
    lines = (
        json.dumps({n: json_value(v) for n, v in row.items()}, ensure_ascii=False, allow_nan=False)
        for row in result.dicts()
    )
    return "".join(f"{line}\n" for line in lines)


def json_value(value: Any) -> Any:
    """Return *value* as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def to_markdown(result: ResultTable) -> str:
    """Return a table whose numbers are right-aligned."""
    sides = ["--:" if right else "---" for right in _right(result)]
    lines = [result.heads, sides, *display_rows(result.rows)]
    return "".join(f"| {' | '.join(map(_markdown, line))} |\n" for line in lines)


def _markdown(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return " ".join(text.replace("<", "&lt;").split())


def to_latex(result: ResultTable) -> str:
    """Return a ``tabular`` with the rules of booktabs."""
    sides = "".join("r" if right else "l" for right in _right(result))
    body = [" & ".join(map(_latex, row)) + r" \\" for row in display_rows(result.rows)]
    heads = " & ".join(map(_latex, result.heads)) + r" \\"
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", heads, r"\midrule", *body,
             r"\bottomrule", r"\end{tabular}"]  # fmt: skip
    return "\n".join(lines) + "\n"


_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
})  # fmt: skip


def _latex(text: str) -> str:
    return " ".join(text.translate(_LATEX).split())


def to_table(result: ResultTable) -> str:
    """Columns of plain text, numbers to the right."""
    lines = [
        result.heads,
        *([_one_line(text) for text in row] for row in display_rows(result.rows)),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = _right(result)
    written = (
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, sides, strict=True)
        ).rstrip()
        for line in lines
    )
    return "".join(f"{line}\n" for line in written)


def _one_line(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _right(result: ResultTable) -> Sequence[bool]:
    """Return which columns hold numbers alone."""
    columns = zip(*result.rows, strict=True) if result.rows else ((),) * len(result.columns)
    return [all(_is_number(value) for value in column if value is not None) for column in columns]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_parquet(result: ResultTable) -> bytes:
    """Return a Parquet file; units stand in the metadata of its columns."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise PlaceError(
            "Parquet is written by pyarrow, which is not installed",
            hint=extra_hint("parquet"),
        ) from error
    columns = zip(*result.rows, strict=True) if result.rows else ((),) * len(result.columns)
    arrays = [_array(pa, list(column)) for column in columns]
    # Units travel in the metadata of the fields, where pandas and Arrow keep them.
    fields = [
        pa.field(name, array.type, metadata=_unit(result.units.get(name, "")))
        for name, array in zip(result.columns, arrays, strict=True)
    ]
    target = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), target)
    return target.getvalue()


def _array(pa: Any, values: list[Any]) -> Any:
    """Mixed values, and integers that no column holds, become text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else _text(value) for value in values])


def _unit(text: str) -> dict[str, str] | None:
    return {"unit": text} if text else None


_WRITERS: dict[str, Callable[[ResultTable], str]] = {
    "jsonl": to_jsonl,
    "markdown": to_markdown,
    "latex": to_latex,
    "table": to_table,
}


Part = Sequence[tuple[Any, ...]]


def stream_table(
    columns: Sequence[StudyColumn],
    parts: Iterable[Part],
    format: str,  # noqa: A002
    *,
    spreadsheet: bool = False,
) -> Iterator[bytes]:
    """Return the rows of all *parts*, as ``export`` writes one table; a missing metric is empty."""
    check_spreadsheet(format, spreadsheet=spreadsheet)
    if format not in _PART_WRITERS:
        raise unknown_name("format", format, _PART_WRITERS)
    plain = ([tuple(map(_plain, row)) for row in part] for part in parts)
    if format == "csv":
        return _csv_parts(columns, plain, spreadsheet=spreadsheet)
    return _PART_WRITERS[format](columns, plain)


def _plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value


def _csv_parts(
    columns: Sequence[StudyColumn], parts: Iterable[Part], *, spreadsheet: bool = False
) -> Iterator[bytes]:
    names = tuple(column.name for column in columns)
    heads = to_csv(ResultTable(names, ()), spreadsheet=spreadsheet)
    yield heads.encode()
    for part in parts:
        text = to_csv(ResultTable(names, tuple(part)), spreadsheet=spreadsheet)
        yield text.removeprefix(heads).encode()


def _jsonl_parts(columns: Sequence[StudyColumn], parts: Iterable[Part]) -> Iterator[bytes]:
    names = tuple(column.name for column in columns)
    for part in parts:
        yield to_jsonl(ResultTable(names, tuple(part))).encode()


def _parquet_parts(columns: Sequence[StudyColumn], parts: Iterable[Part]) -> Iterator[bytes]:
    """Yield a group of rows for each part; units stand in the metadata of the columns."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise PlaceError(
            "Parquet is written by pyarrow, which is not installed",
            hint=extra_hint("parquet"),
        ) from error
    kinds = {"int": pa.int64(), "real": pa.float64(), "bool": pa.bool_()}
    types = [
        pa.string()
        if column.wide and column.type == "int"
        else kinds.get(column.type or "", pa.string())
        for column in columns
    ]
    schema = pa.schema([
        pa.field(column.name, kind, metadata={"unit": column.unit} if column.unit else None)
        for column, kind in zip(columns, types, strict=True)
    ])  # fmt: skip
    target = _Sink()
    with pq.ParquetWriter(target, schema) as writer:
        for part in parts:
            cells = list(zip(*part, strict=True)) or [()] * len(columns)
            arrays = [
                pa.array([_fitted(column, value) for value in values], kind)
                for column, kind, values in zip(columns, types, cells, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            yield target.taken()
    yield target.taken()


class _Sink(io.RawIOBase):
    """A file that is only ever written at its end, and taken away from its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] = []
        self._place = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        part = bytes(content)
        self._held.append(part)
        self._place += len(part)
        return len(part)

    def tell(self) -> int:
        return self._place

    def taken(self) -> bytes:
        """What was written since it was asked last."""
        content = b"".join(self._held)
        self._held.clear()
        return content


def _fitted(column: StudyColumn, value: Any) -> Any:
    """Columns of several types, and integers that no column holds, become text."""
    if value is None or column.type == "bool" or (column.type == "int" and not column.wide):
        return value
    if column.type == "real":
        return float(value)
    return text_of(value) if isinstance(value, bool | int | float | str) else str(value)


_PART_WRITERS: dict[str, Callable[[Sequence[StudyColumn], Iterable[Part]], Iterator[bytes]]] = {
    "csv": _csv_parts,
    "jsonl": _jsonl_parts,
    "parquet": _parquet_parts,
}
STREAMED_FORMATS = tuple(_PART_WRITERS)


# Columns of ``zen results``: chosen by name, and computed by plug-ins from other columns

GROUP = "columns"
"""Entry points in ``zenturio.columns`` are classes that make a `Column`, without arguments."""


class Column(Protocol):
    """A column that is computed from others, for all rows of an answer at once."""

    @property
    def needs(self) -> Sequence[str]:
        """The parameters, metrics and facts that it reads."""
        ...

    @property
    def unit(self) -> str:
        """The unit of its values; empty for none."""
        ...

    def values(self, columns: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
        """Return a value for each row from the *columns* that it needs; None where it has none.

        Values are as they were recorded: None where a metric was not measured. All columns have
        one length, which may be 0.
        """
        ...


class Duration:
    """Seconds from the start of an attempt to its end."""

    needs = ("started", "ended")
    unit = "s"

    def values(self, columns: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
        """Return the difference of the times; None for what never started."""
        times = zip(columns["started"], columns["ended"], strict=True)
        return [None if None in (start, end) else end - start for start, end in times]


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column of a plug-in, under the name of its entry point."""

    name: str
    column: Column
    inputs: tuple[StudyColumn, ...]

    @property
    def unit(self) -> str:
        return self.column.unit

    def values(self, inputs: Mapping[StudyColumn, Sequence[Any]], length: int) -> Sequence[Any]:
        """Return its values for *length* rows; PluginError where the plug-in fails."""
        columns = {
            name: inputs[column]
            for name, column in zip(self.column.needs, self.inputs, strict=True)
        }
        try:
            values = list(self.column.values(columns))
        except Exception as error:  # whatever a plug-in raises, its name must be known
            message = f"column {self.name!r} failed: {type(error).__name__}: {error}"
            raise PluginError(message, hint="leave it out, or correct the plug-in") from error
        if len(values) != length:
            raise PluginError(f"column {self.name!r} gave {len(values)} values for {length} rows")
        return values


ChosenColumn = StudyColumn | ComputedColumn


def choose_columns(catalog: Catalog, names: Iterable[str]) -> list[ChosenColumn]:
    """Return the columns of these *names*, in their order; NotFoundError for an unknown one.

    What the study itself has stands before the column of a plug-in with the same name: a plug-in
    that is installed later must not change what a command shows.
    """
    return [_choose_column(catalog, name) for name in dict.fromkeys(names)]


def _choose_column(catalog: Catalog, name: str) -> ChosenColumn:
    if name in catalog.columns:
        return catalog.columns[name]
    installed = plugins.names(GROUP)
    if name not in installed:
        raise NotFoundError(
            f"study {catalog.study!r} has no column {name!r}",
            hint=did_you_mean(name, [*catalog.columns, *installed], in_order=True),
        )
    column: Column = plugins.load(GROUP, name)()
    # A fact keeps its plain name here, even where a parameter took that name in tables.
    inputs = tuple(catalog.facts.get(need) or catalog.column(need) for need in column.needs)
    return ComputedColumn(name, column, inputs)


def study_columns(columns: Iterable[ChosenColumn]) -> list[StudyColumn]:
    """Return the columns to select for *columns*, each once."""
    needed: dict[StudyColumn, None] = {}
    for column in columns:
        inputs = column.inputs if isinstance(column, ComputedColumn) else (column,)
        needed |= dict.fromkeys(inputs)
    return list(needed)


def compute_rows(
    columns: Sequence[ChosenColumn],
    selected: Sequence[StudyColumn],
    rows: Sequence[tuple[Any, ...]],
) -> list[tuple[Any, ...]]:
    """Return a cell for each of *columns* in each row, from *rows* of what was *selected*."""
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(selected)
    inputs: dict[StudyColumn, Sequence[Any]] = dict(zip(selected, cells, strict=True))
    series = [
        column.values(inputs, len(rows)) if isinstance(column, ComputedColumn) else inputs[column]
        for column in columns
    ]
    return list(zip(*series, strict=True)) if series else [()] * len(rows)


def result_columns(repository: Repository, study: str) -> ResultTable:
    """Return the columns that ``results`` can show of *study*: name, kind, type and unit.

    Of a plug-in, the type is what it is computed from. One whose inputs the study lacks is left
    out.
    """
    with open_snapshot(repository) as reader:
        catalog = read_catalog(reader, study)
    rows = [(c.name, str(c.role), str(c.type or ""), c.unit) for c in catalog.columns.values()]
    for name in plugins.names(GROUP):
        if name in catalog.columns:
            continue
        try:
            chosen = _choose_column(catalog, name)
        except NotFoundError:
            continue
        if isinstance(chosen, ComputedColumn):
            inputs = f"from {', '.join(chosen.column.needs)}"
            rows.append((name, "computed", inputs, chosen.column.unit))
    return ResultTable(("column", "kind", "type", "unit"), tuple(rows), found=len(rows))
