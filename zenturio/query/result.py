"""What a query found: a small table that knows where it came from."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from zenturio.expression import text_of

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 6
"""Of a real number that needs no more to be told from others."""

SHOWN = 50
"""Rows that a notebook shows."""


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
    total: int = 0
    """How many experiments the study has."""
    noun: str = "experiments"
    """What is counted: results, where an experiment may have several."""
    notes: tuple[str, ...] = ()
    """What a reader should know: metrics that are missing somewhere."""
    sql: str = ""
    """The query as somebody pastes it into a tool of the database."""

    @property
    def summary(self) -> str:
        """``20 of 240 rows, from 240 of 250 experiments``"""
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
        """The rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def frame(self) -> pd.DataFrame:
        """The rows as a table of pandas; units are in its ``attrs``."""
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
        said = html.escape("; ".join([shown + self.summary, *self.notes]))
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table><p>{said}</p>"


def display_rows(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The values of a table for people: different numbers of a column are different texts."""
    columns = (_column(values) for values in zip(*rows, strict=True))
    return [list(row) for row in zip(*columns, strict=True)] if rows else []


def _column(values: Sequence[Any]) -> list[str]:
    """Numbers with six digits, or more where a neighbour in size looks the same with fewer."""
    texts = [display_value(value) for value in values]
    numbers = sorted({v for v in values if _is_number(v)})
    longer: dict[float, str] = {}
    for low, high in pairwise(numbers):
        # What was written longer for its other neighbour may still be equal to this one.
        if longer.get(low, display_value(low)) == display_value(high):
            pairs = ((f"{low:.{d}g}", f"{high:.{d}g}") for d in range(DIGITS + 1, 17))
            exact = repr(low), repr(high)
            one, other = next((pair for pair in pairs if pair[0] != pair[1]), exact)
            longer[low], longer[high] = max(longer.get(low, ""), one, key=len), other
    if not longer:
        return texts
    return [
        longer.get(value, text) if isinstance(value, float) else text
        for value, text in zip(values, texts, strict=True)
    ]


def _is_number(value: Any) -> bool:
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
