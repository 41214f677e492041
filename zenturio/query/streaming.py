"""A table of any length as CSV, JSON lines or Parquet, part by part: never all of it is held."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.experiment import Missing
from zenturio.expression import text_of
from zenturio.query.catalog import StudyColumn
from zenturio.query.exporting import check_spreadsheet, to_csv, to_jsonl
from zenturio.query.result import ResultTable

Part = Sequence[tuple[Any, ...]]


def stream_table(
    columns: Sequence[StudyColumn],
    parts: Iterable[Part],
    format: str,  # noqa: A002
    *,
    spreadsheet: bool = False,
) -> Iterator[bytes]:
    """The rows of all *parts*, as ``export`` writes one table; a missing metric is empty."""
    check_spreadsheet(format, spreadsheet=spreadsheet)
    if format not in _WRITERS:
        hint = did_you_mean(format, _WRITERS)
        raise InputError(f"no format is called {format!r}", hint=hint)
    plain = ([tuple(map(_plain, row)) for row in part] for part in parts)
    if format == "csv":
        return _csv(columns, plain, spreadsheet=spreadsheet)
    return _WRITERS[format](columns, plain)


def _plain(value: Any) -> Any:
    return None if isinstance(value, Missing) else value


def _csv(
    columns: Sequence[StudyColumn], parts: Iterable[Part], *, spreadsheet: bool = False
) -> Iterator[bytes]:
    names = tuple(column.name for column in columns)
    heads = to_csv(ResultTable(names, ()), spreadsheet=spreadsheet)
    yield heads.encode()
    for part in parts:
        text = to_csv(ResultTable(names, tuple(part)), spreadsheet=spreadsheet)
        yield text.removeprefix(heads).encode()


def _jsonl(columns: Sequence[StudyColumn], parts: Iterable[Part]) -> Iterator[bytes]:
    names = tuple(column.name for column in columns)
    for part in parts:
        yield to_jsonl(ResultTable(names, tuple(part))).encode()


def _parquet(columns: Sequence[StudyColumn], parts: Iterable[Part]) -> Iterator[bytes]:
    """A group of rows for each part; units stand in the metadata of the columns."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise PlaceError(
            "Parquet is written by pyarrow, which is not installed",
            hint="pip install 'zenturio[parquet]'",
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
        found = b"".join(self._held)
        self._held.clear()
        return found


def _fitted(column: StudyColumn, value: Any) -> Any:
    """Columns of several types, and integers that no column holds, become text."""
    if value is None or column.type == "bool" or (column.type == "int" and not column.wide):
        return value
    if column.type == "real":
        return float(value)
    return text_of(value) if isinstance(value, bool | int | float | str) else str(value)


_WRITERS: dict[str, Callable[[Sequence[StudyColumn], Iterable[Part]], Iterator[bytes]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
STREAMED_FORMATS = tuple(_WRITERS)
