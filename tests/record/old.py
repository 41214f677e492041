"""Databases as earlier and later programs made them."""

import json
import math
from pathlib import Path

from zenturio.experiment.experiment import Missing, Series
from zenturio.record.database import Database
from zenturio.record.open import dialect_at
from zenturio.record.schema_version import FILLED_ANEW

_FIXTURE = Path(__file__).with_name("of_0003.json")
"""Written by a program of that revision: its tables, and what it said of them."""


def fixture() -> dict:
    return json.loads(_FIXTURE.read_text())


def make_old(url: str, revision: str = FILLED_ANEW[0], *, empty: bool = True) -> None:
    """A repository of that revision, empty or with all kinds of rows."""
    said, kind = fixture(), dialect_at(url)
    database = Database(kind, 5)
    database.settle()

    def make(transaction) -> None:
        for statement in said[kind.name]:
            words = statement.split()
            if "submissions" in words[2] and revision != "0003":
                continue
            if "values_" in statement and empty:
                continue
            transaction.sql(statement)
        for name, table in said["tables"].items():
            if name == "alembic_version":
                transaction.insert(name, ("version_num",), [(revision,)])
            elif not empty and (name != "submissions" or revision == "0003"):
                rows = [_row(name, table["columns"], row, kind.name) for row in table["rows"]]
                transaction.insert(name, table["columns"], rows)

    database.write(make)
    database.close()


def _row(table: str, columns: list[str], row: list, dialect: str) -> list:
    cells = [decode_cell(cell) for cell in row]
    if dialect == "postgresql" and table.startswith("values_"):
        cells = [
            bool(cell) if name[0] == "b" and cell is not None else cell
            for name, cell in zip(columns, cells, strict=True)
        ]
        cells[1] = int(cells[1][7:]) if isinstance(cells[1], str) else cells[1]
    return cells


def decode_cell(cell):
    """Return a value of a table as it was before it was written as JSON."""
    match cell:
        case {"hex": digits}:
            return bytes.fromhex(digits)
        case {"float": text}:
            return float.fromhex(text)
    return cell


def value(noted):
    """A parameter or a metric as the fixture has it."""
    match noted:
        case {"float": text}:
            return float.fromhex(text) if "0x" in text else float(text)
        case {"int": text}:
            return int(text)
        case {"missing": why}:
            return Missing(why)
        case {"series": values}:
            return Series(tuple(map(value, values)))
    return noted


def same(one, other) -> bool:
    """Whether two values are the same, and of the same type; NaN is itself."""
    if isinstance(one, Series) and isinstance(other, Series):
        return len(one.values) == len(other.values) and all(map(same, one.values, other.values))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


def stamp(url: str, revision: str) -> None:
    """Lets the repository say that it has that revision."""
    database = Database(dialect_at(url), 5)
    database.write(
        lambda transaction: transaction.sql(
            f"UPDATE alembic_version SET version_num = '{revision}'"
        )
    )
    database.close()
