"""A result as text for other programs: CSV, JSON lines, Markdown, LaTeX; and as Parquet."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.expression import text_of
from zenturio.query.result import ResultTable, display_rows

Format = Literal["csv", "jsonl", "parquet", "markdown", "latex", "table"]
FORMATS: tuple[Format, ...] = get_args(Format)

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins so is a formula to a spreadsheet."""

_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def export(result: ResultTable, format: str, *, spreadsheet: bool = False) -> str | bytes:  # noqa: A002
    """*result* in one of the `FORMATS`; bytes for Parquet, text for all others.

    *spreadsheet* is for CSV alone, see `to_csv`; InputError for another format.
    """
    check_spreadsheet(format, spreadsheet=spreadsheet)
    if format == "parquet":
        return to_parquet(result)
    if format == "csv":
        return to_csv(result, spreadsheet=spreadsheet)
    if format not in _WRITERS:
        hint = did_you_mean(format, FORMATS)
        raise InputError(f"no format is called {format!r}", hint=hint)
    return _WRITERS[format](result)


def format_of_path(path: Path) -> str:
    """The format that a file's name asks for."""
    endings = {".md": "markdown", ".tex": "latex", ".txt": "table", ".json": "jsonl"}
    ending = path.suffix.lower()
    found = endings.get(ending, ending.removeprefix("."))
    if found not in FORMATS:
        hint = "one of: " + " ".join(f".{name}" for name in FORMATS)
        raise InputError(f"{path.name!r} does not end as a table does", hint=hint)
    return found


def check_spreadsheet(format: str, *, spreadsheet: bool) -> None:  # noqa: A002
    """InputError if formulas are to be defused in a format that no spreadsheet computes."""
    if spreadsheet and format != "csv":
        raise InputError(
            f"only CSV is written for a spreadsheet, not {format}",
            hint="choose CSV, or leave the option out",
        )


def to_csv(result: ResultTable, *, spreadsheet: bool = False) -> str:
    """A line of names and a line for each row, exactly as the values are.

    NULL is empty, an empty text is a pair of quotes, NaN and infinities are their names. For a
    *spreadsheet* an apostrophe stands before each text that it would compute as a formula.
    """
    text = _defused if spreadsheet else str
    lines = [[_csv(text(name)) for name in result.columns]]
    lines += [
        [_csv(text(value) if isinstance(value, str) else value) for value in row]
        for row in result.rows
    ]
    # A blank line would be skipped by who reads it.
    return "".join(f"{','.join(line) or EMPTY}\n" for line in lines)


EMPTY = '""'
_QUOTED = re.compile('[",\r\n]|^$')


def _csv(value: Any) -> str:
    """A cell (RFC 4180); Python's own writer leaves a carriage return outside of quotes."""
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
    """An object in each line; NaN and infinities are the texts ``NaN``, ``Infinity``,
    ``-Infinity``, for JSON has no such numbers, and null is what was not measured.
    """
    lines = (
        json.dumps({n: json_value(v) for n, v in row.items()}, ensure_ascii=False, allow_nan=False)
        for row in result.dicts()
    )
    return "".join(f"{line}\n" for line in lines)


def json_value(value: Any) -> Any:
    """*value* as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def to_markdown(result: ResultTable) -> str:
    """A table whose numbers stand to the right."""
    sides = ["--:" if right else "---" for right in _right(result)]
    lines = [result.heads, sides, *display_rows(result.rows)]
    return "".join(f"| {' | '.join(map(_markdown, line))} |\n" for line in lines)


def _markdown(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return " ".join(text.replace("<", "&lt;").split())


def to_latex(result: ResultTable) -> str:
    """A ``tabular`` with the rules of booktabs."""
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
    """Which columns hold numbers alone."""
    columns = zip(*result.rows, strict=True) if result.rows else ((),) * len(result.columns)
    return [all(_is_number(value) for value in column if value is not None) for column in columns]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_parquet(result: ResultTable) -> bytes:
    """A Parquet file; units stand in the metadata of its columns."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise PlaceError(
            "Parquet is written by pyarrow, which is not installed",
            hint="pip install 'zenturio[parquet]'",
        ) from error
    columns = zip(*result.rows, strict=True) if result.rows else ((),) * len(result.columns)
    arrays = [_array(pa, list(column)) for column in columns]
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
