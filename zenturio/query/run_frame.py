"""The runs of a large study as a comparison reads them: by the columnar copy, text as categories.

Who ran where and when is no part of the copy: it is read from the database in one pass, and put
beside the copy's rows by their numbers. Nothing of a run is an object of Python here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zenturio.query.aggregates import count_origins
from zenturio.query.catalog import StudyColumn
from zenturio.query.copied_table import CopiedTable
from zenturio.query.study_table import StudyTable, TableQuery, condition_of, open_table
from zenturio.record import Repository, codec, column_copy
from zenturio.record.column_copy import Array, NotInCopyError
from zenturio.record.entities import RowChoice

_FEW = {
    "machine": "e.machine", "host": "e.host", "host_governor": "c.governor",
    "host_slots": "c.slots", "host_cpus": "c.cpus", "run_order": "c.run_order",
}  # fmt: skip
"""Facts of few values, and where these stand."""
_MANY = {
    "host_load": "c.load_start", "started": "e.started", "ended": "e.ended",
    "run_block": "c.run_block", "run_turn": "c.run_turn",
}  # fmt: skip
_OF_BLOCKS = frozenset({"run_order", "started", "ended", "run_block", "run_turn"})
"""Facts that say which runs were next to each other."""


def run_frame(
    repository: Repository,
    study: str,
    metric: str,
    *,
    where: Any,
    rows: RowChoice,
    outside: bool,
    is_paired: bool,
    parameters: Collection[str] = (),
) -> pd.DataFrame | None:
    """Return the runs of a large study with *metric*, as `study_frame` has them with everything.

    Only these *parameters*, if some are named; which runs were next to each other only if it
    *is_paired* with runs of the same study. None for a study that is small, or where the copy lacks
    something.
    """
    if sum(count.count for count in repository.count_results(study)) < column_copy.COPY_ROWS:
        return None
    query = TableQuery(
        study, condition_of(where), metrics=(metric,), rows=rows, succeeded=False, outside=outside
    )
    with open_table(repository, query) as answers:
        try:
            table = answers.copied()
            if table is None:
                return None
            skipped = frozenset[str]() if is_paired else _OF_BLOCKS
            return _frame(answers, table, metric, parameters, skipped)
        except NotInCopyError:
            return None


def _frame(
    answers: StudyTable,
    table: CopiedTable,
    metric: str,
    names: Collection[str],
    skipped: Collection[str],
) -> pd.DataFrame:
    catalog = answers.catalog
    facts = {fact: column.name for fact, column in catalog.facts.items()}
    chosen = [column for column in catalog.parameters if not names or column.name in names]
    order = table.in_space
    columns: dict[str, Any] = {c.name: _categories(table, c, order) for c in chosen}
    measured = catalog.column(metric)
    columns[measured.name] = table.reals(measured)[order]
    columns[facts["status"]] = _categories(table, catalog.facts["status"], order)
    for fact in ("round", "repeat"):
        columns[facts[fact]] = table.reals(catalog.facts[fact])[order]
    for fact, values in _attempt_facts(answers, table.row_numbers[order], skipped).items():
        columns[facts[fact]] = values
    frame = pd.DataFrame(columns, copy=False)
    frame.attrs = {
        "study": answers.query.study,
        "units": {c.name: c.unit for c in (*catalog.parameters, measured) if c.unit},
        "parameters": [column.name for column in catalog.parameters],
        "left_out": len(answers.without),
        "facts": facts,
        **count_origins(answers.reader, catalog, answers.statement).attrs(),
    }
    return frame


def _categories(table: CopiedTable, column: StudyColumn, order: Array) -> pd.Categorical:
    codes, values = table.cells(column)
    present = [value for value in values if value is not None]
    # The number of NULL comes last, if there is one.
    numbers = np.where(codes < len(present), codes, -1)[order]
    return _categorical(numbers, present)


def _attempt_facts(answers: StudyTable, numbers: Array, skipped: Collection[str]) -> dict[str, Any]:
    """Return what the copy lacks of the results of these *numbers*."""
    few, many = (
        {fact: column for fact, column in facts.items() if fact not in skipped}
        for facts in (_FEW, _MANY)
    )
    text = (
        f"SELECT e.id, {', '.join([*few.values(), *many.values()])} FROM results e"  # noqa: S608 - names and a number
        " LEFT JOIN copies k ON k.result = e.id"
        " LEFT JOIN conditions c ON c.attempt = coalesce(k.source, e.id)"
        f" WHERE e.version = {answers.catalog.version}"
    )
    ids: list[Array] = []
    numbered: dict[str, dict[Any, int]] = {fact: {} for fact in few}
    columns: dict[str, list[Array]] = {fact: [] for fact in (*few, *many)}
    for rows in answers.reader.batches(text):
        number, *cells = zip(*rows, strict=True)
        ids.append(np.array(number, dtype=np.int64))
        for (fact, parts), values in zip(columns.items(), cells, strict=True):
            if (codes := numbered.get(fact)) is None:
                parts.append(np.array(values, dtype=np.float64))
            elif len(distinct := set(values)) == 1:  # mostly: a study runs on one machine
                code = codes.setdefault(distinct.pop(), len(codes))
                parts.append(np.full(len(values), code, dtype=np.int32))
            else:
                parts.append(np.array([codes.setdefault(v, len(codes)) for v in values], np.int32))
    places = _places(np.concatenate(ids), numbers)
    facts: dict[str, Any] = {f: np.concatenate(parts)[places] for f, parts in columns.items()}
    for fact, codes in numbered.items():
        texts = _labels(answers, fact, list(codes))
        present = [text for text in dict.fromkeys(texts) if text is not None]
        renumbered = np.array([-1 if t is None else present.index(t) for t in texts])
        facts[fact] = _categorical(renumbered[facts[fact]], present)
    return facts


def _categorical(codes: Array, values: Sequence[Any]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, pd.Index(values, dtype=object))


def _labels(answers: StudyTable, fact: str, values: Sequence[Any]) -> list[Any]:
    """Return what the values of a fact are called: machines and hosts are numbers of rows."""
    table = {"machine": ("machines", "label"), "host": ("hosts", "name")}.get(fact)
    if table is None:
        return [codec.unescape(value) if isinstance(value, str) else value for value in values]
    name, column = table
    rows = answers.reader.fetch(f"SELECT id, {column} FROM {name}")  # noqa: S608 - names
    names = {int(number): codec.unescape(text) for number, text in rows}
    return [names.get(value) for value in values]


def _places(ids: Array, numbers: Array) -> Array:
    """Return where each of *numbers* stands in *ids*."""
    order = np.argsort(ids, kind="stable")
    places: Array = order[np.searchsorted(ids, numbers, sorter=order).clip(max=len(ids) - 1)]
    if not np.array_equal(ids[places], numbers):
        raise NotInCopyError("rows of another moment")
    return places
