"""
What every column of ``zen results`` promises, as tests: a plug-in's tests inherit them.

::

    class TestSpeedup(ColumnContract):
        def column(self) -> Column:
            return Speedup()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.query import Column


class ColumnContract:
    """Say which column it is, and what it reads if that is not numbers."""

    def column(self) -> Column:
        """Return a new column."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """Rows as a study may have them: with values for all that the column needs."""
        return [dict.fromkeys(self.column().needs, value) for value in (4.0, 1, 0.5, -2, 0)]

    def _values(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        column = self.column()
        return column.values({name: [row[name] for row in rows] for name in column.needs})

    def test_what_it_needs_are_names(self) -> None:
        needs = self.column().needs
        assert not isinstance(needs, str)
        assert all(isinstance(name, str) and name for name in needs)
        assert isinstance(self.column().unit, str)

    def test_each_row_has_one_value_that_a_table_can_show(self) -> None:
        values = self._values(self.rows())
        assert len(values) == len(self.rows())
        assert all(isinstance(value, bool | int | float | str | None) for value in values)

    def test_no_rows_have_no_values(self) -> None:
        assert list(self._values([])) == []

    def test_what_was_not_measured_is_no_error(self) -> None:
        missing = dict.fromkeys(self.column().needs)
        assert len(self._values([*self.rows(), missing])) == len(self.rows()) + 1
        assert len(self._values([missing])) == 1

    def test_the_same_rows_have_the_same_values(self) -> None:
        assert list(self._values(self.rows())) == list(self._values(self.rows()))

    def test_what_it_reads_is_not_changed(self) -> None:
        column, rows = self.column(), self.rows()
        columns = {name: [row[name] for row in rows] for name in column.needs}
        before = {name: list(values) for name, values in columns.items()}
        column.values(columns)
        assert columns == before
