"""The schema as SQL: what makes it in an empty database, and what an administrator reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy.schema import CreateIndex, CreateTable

from zenturio.record.schema import DialectName, tables_of


def statements(dialect: Any, name: DialectName) -> Iterator[str]:
    """Creates every table, each followed by its indexes."""
    for table in tables_of(name):
        yield str(CreateTable(table).compile(dialect=dialect)).strip()
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            yield str(CreateIndex(index).compile(dialect=dialect)).strip()


def script(name: DialectName) -> str:
    """All of it as a script, as it stands in ``db/``."""
    from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415 - only scripts need both

    dialects: dict[str, Any] = {"sqlite": sqlite, "postgresql": postgresql}
    made = statements(dialects[name].dialect(), name)
    lines = (line.rstrip() for text in made for line in f"{text};\n".split("\n"))
    return "\n".join(lines)
