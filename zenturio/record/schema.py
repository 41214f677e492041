"""The tables that every repository in SQL has, whatever its studies are.

Each study has one more, ``values_N`` (see ``layout``), with a column for each parameter and metric,
and two views of it. Those come and go with studies; migrations concern what stands here.

The accepted or running attempt of an experiment is part of its row, so that an experiment
which succeeds at once costs one row here and one in its study; ``attempts`` holds all others.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

REVISIONS = ("0001", "0002", "0003")
"""Every revision of the schema, oldest first; the last one is what stands here."""

metadata = MetaData()


def _number() -> TypeEngine[int]:
    """64 bits; in SQLite the word INTEGER, which alone makes a primary key the row's number."""
    return BigInteger().with_variant(Integer(), "sqlite")


def _key(name: str = "id") -> Column[int]:
    return Column(name, _number(), primary_key=True, autoincrement=True)


def _part(name: str, kind: TypeEngine[Any] | None = None) -> Column[Any]:
    """A part of a primary key of several columns."""
    return Column(name, kind or _number(), primary_key=True, autoincrement=False)


studies = Table(
    "studies",
    metadata,
    _key(),
    Column("name", Text, nullable=False, unique=True),
    Column("view", Text, nullable=False, unique=True),
    Column("view_all", Text, nullable=False, unique=True),
    Column("created", Double, nullable=False),
    # Grows with every change of the fields, so that others see theirs are out of date.
    Column("revision", Integer, nullable=False),
    # Of a study that went, no other gets the number: whoever remembers it would be misled.
    sqlite_autoincrement=True,
)

definitions = Table(
    "definitions",
    metadata,
    _key(),
    Column("study", _number(), nullable=False, index=True),
    Column("at", Double, nullable=False),
    Column("document", Text, nullable=False),
)

sources = Table(
    "sources",
    metadata,
    _part("definition"),
    _part("path", Text()),
    Column("sha256", LargeBinary, nullable=False),
)

contents = Table(
    "contents",
    metadata,
    _part("sha256", LargeBinary()),
    Column("content", LargeBinary, nullable=False),
)

fields = Table(
    "fields",
    metadata,
    _part("study"),
    _part("position", Integer()),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text),
    Column("unit", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("how", Text, nullable=False),
    # Which forms of values there are so far: bits of layout.Form.
    Column("forms", SmallInteger, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    _key(),
    Column("study", _number(), nullable=False, index=True),
    Column("token", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", _number(), nullable=False),
    Column("born", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("ended", Double),
    sqlite_autoincrement=True,
)

hosts = Table("hosts", metadata, _key(), Column("name", Text, nullable=False, unique=True))

experiments = Table(
    "experiments",
    metadata,
    _key(),
    Column("digest", LargeBinary, nullable=False, unique=True),
    # The study that added it first, or that has it since that one went.
    Column("study", _number(), nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("driver", _number()),
    Column("host", _number()),
    Column("started", Double),
    Column("ended", Double),
    Column("exit", Integer),
    Column("cause", Text),
)

running = Index(
    "experiments_running",
    experiments.c.driver,
    sqlite_where=experiments.c.state == "running",
)
"""For PostgreSQL the same is said beside it: here it would load that dialect for SQLite too."""

shares = Table(
    "shares",
    metadata,
    _part("experiment"),
    _part("study"),
)

attempts = Table(
    "attempts",
    metadata,
    _part("experiment"),
    _part("number", Integer()),
    _part("driver"),
    Column("state", Text, nullable=False),
    Column("host", _number()),
    Column("started", Double),
    Column("ended", Double),
    Column("exit", Integer),
    Column("cause", Text),
    Column("metrics", Text),
)

logs = Table(
    "logs",
    metadata,
    _key(),
    Column("experiment", _number(), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("driver", _number(), nullable=False),
    *(
        Column(f"{stream}_{part}", kind, nullable=False)
        for stream in ("stdout", "stderr")
        for part, kind in (("head", LargeBinary()), ("tail", LargeBinary()), ("size", _number()))
    ),
)

artifacts = Table(
    "artifacts",
    metadata,
    _key(),
    Column("experiment", _number(), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("driver", _number(), nullable=False),
    Column("path", Text, nullable=False),
    Column("size", _number(), nullable=False),
    Column("sha256", Text, nullable=False),
    Column("kept", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    _key(),
    Column("study", _number(), nullable=False, index=True),
    Column("experiment", _number(), index=True),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
)

submissions = Table(
    "submissions",
    metadata,
    _key(),
    Column("token", Text, nullable=False, unique=True),
    Column("person", Text, nullable=False),
    Column("study", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("submitted", Double, nullable=False),
    Column("turn", Text, nullable=False),
    Column("begun", Double),
    Column("ended", Double),
    Column("cause", Text, nullable=False),
    Column("progress", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""What a service is to run. A study is named, not numbered: it need not be there yet."""

counters = Table(
    "counters",
    metadata,
    _part("study"),
    _part("state", Text()),
    Column("count", _number(), nullable=False),
)
