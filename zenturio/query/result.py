"""What a query found: a small table that knows where it came from."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zenturio.expression import text_of

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 50
"""Rows that a notebook shows."""


@dataclass(frozen=True)
class Result:
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
        return f"{rows}, from {self.experiments:,} of {self.total:,} experiments"

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
            "<tr>" + "".join(f"<td>{html.escape(cell(value))}</td>" for value in row) + "</tr>"
            for row in self.rows[:SHOWN]
        )
        shown = f"{min(SHOWN, len(self.rows)):,} shown of " if len(self.rows) > SHOWN else ""
        said = html.escape("; ".join([shown + self.summary, *self.notes]))
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table><p>{said}</p>"


def cell(value: Any) -> str:
    """A value in a table for people: six digits of a real number or more, nothing for NULL."""
    if isinstance(value, float):
        # Times since 1970 and sizes in bytes are read as whole numbers.
        return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
    return text_of(value) if isinstance(value, bool | int | str | None) else str(value)
