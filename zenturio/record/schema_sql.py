"""The schema as SQL: what makes it in an empty database, and what an administrator reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from zenturio.record.schema import tables_of
from zenturio.record.schema_names import DialectName


def dialect(name: DialectName) -> Any:
    """Return how SQLAlchemy writes for that kind of database."""
    made: Any = sqlite.dialect if name == "sqlite" else postgresql.dialect
    return made()


def create_statements(name: DialectName) -> Iterator[str]:
    """Create every table, each followed by its indexes."""
    spoken = dialect(name)
    for table in tables_of(name):
        yield str(CreateTable(table).compile(dialect=spoken)).strip()
        for index in sorted(table.indexes, key=lambda item: str(item.name)):
            yield str(CreateIndex(index).compile(dialect=spoken)).strip()


def schema_script(name: DialectName) -> str:
    """Return all of it as a script, as it stands in ``db/``."""
    lines = (line.rstrip() for text in create_statements(name) for line in f"{text};\n".split("\n"))
    return "\n".join(lines)
