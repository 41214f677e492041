"""Columns of ``zen results``: chosen by name, and computed by plug-ins from other columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zenturio import plugins
from zenturio.errors import NotFoundError, PluginError, did_you_mean
from zenturio.query.catalog import Catalog, StudyColumn, open_snapshot, read_catalog
from zenturio.query.result_table import ResultTable
from zenturio.record import Repository

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
            hint=did_you_mean(name, [*catalog.columns, *installed]),
        )
    column: Column = plugins.load(GROUP, name)()
    # A fact keeps its plain name here, even where a parameter took that name in tables.
    inputs = tuple(catalog.facts.get(need) or catalog.column(need) for need in column.needs)
    return ComputedColumn(name, column, inputs)


def study_columns(columns: Iterable[ChosenColumn]) -> list[StudyColumn]:
    """Return what is to be selected for *columns*, each once."""
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
