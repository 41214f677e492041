"""The tables of a repository in SQL: 26, for any number of studies.

An experiment that a driver runs is a row of ``claims``, which is small; the commit that records it
deletes that row and adds one to ``results``, which is only ever added to. The id that the claim
was given is the attempt's: logs, artifacts and conditions hang on it and never move.

Values stand in slots, columns that all studies share; ``fields`` says which slot a parameter or a
metric of a study has, and what is beyond the slots stands in ``chunks``. There are no foreign keys:
they cost on every commit, and ``zen db check`` looks at all references at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    JSON,
    REAL,
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine, UserDefinedType

from zenturio.record.sql_names import SLOT_NAMES, DialectName

metadata = MetaData()
"""All tables, ``results`` without its slots: ``tables_of`` adds these."""


class _Untyped(UserDefinedType[Any]):
    """A column of SQLite without a type: it holds what it is given, as it was given."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return ""


def _number() -> TypeEngine[int]:
    """64 bits; in SQLite the word INTEGER, which alone makes a primary key the row's number."""
    return BigInteger().with_variant(Integer(), "sqlite")


def _position() -> TypeEngine[Any]:
    """Return an index of any size; in SQLite without affinity, for one beyond 63 bits is a text."""
    return Numeric().with_variant(LargeBinary(), "sqlite")


def _key(name: str = "id") -> Column[int]:
    return Column(name, _number(), primary_key=True, autoincrement=True)


def _part(name: str, kind: TypeEngine[Any] | None = None) -> Column[Any]:
    """Return a primary key that is not drawn, or a part of one."""
    return Column(name, kind or _number(), primary_key=True, autoincrement=False)


def _needed(name: str, kind: TypeEngine[Any] | None = None) -> Column[Any]:
    return Column(name, kind or _number(), nullable=False)


projects = Table(
    "projects",
    metadata,
    _key(),
    Column("uuid", Text, nullable=False, unique=True),
    _needed("owner", Text()),
    _needed("name", Text()),
    _needed("created", Double()),
    UniqueConstraint("owner", "name"),
)

studies = Table(
    "studies",
    metadata,
    _key(),
    _needed("project"),
    _needed("name", Text()),
    # What its view is called; stored, so that it is never computed twice.
    Column("sql_name", Text, nullable=False, unique=True),
    # The version that NAME means; none while every version is archived. Below 0: none, either, and
    # the version of this number was pruned. No number comes twice, so the row outlives the last.
    Column("current", _number()),
    # Grows with every change of the fields, so that others see theirs are out of date.
    _needed("revision", Integer()),
    # The revision that the view in the database shows; NULL where there is none.
    Column("view_revision", Integer),
    _needed("opened", Double()),
    _needed("pinned", SmallInteger()),
    UniqueConstraint("project", "name"),
    sqlite_autoincrement=True,  # a number that went is not drawn again
)

versions = Table(
    "versions",
    metadata,
    _key(),
    _needed("study"),
    _needed("number", Integer()),
    _needed("created", Double()),
    # Changes of rows in place so far: see `edits`.
    _needed("edits"),
    # JSON: which of the study's fields this version has, by number, and what measures each.
    _needed("members", Text()),
    UniqueConstraint("study", "number"),
    sqlite_autoincrement=True,  # a number that went is not drawn again
)
"""What ``NAME@number`` means."""

definitions = Table(
    "definitions",
    metadata,
    _key(),
    _needed("version"),
    _needed("at", Double()),
    # Repeats the fields, for salvage.
    _needed("document", Text()),
    Index("definitions_version", "version", "id"),
)

sources = Table(
    "sources",
    metadata,
    _part("definition"),
    _part("path", Text()),
    _needed("mode", Integer()),
    _needed("content", LargeBinary()),
)

contents = Table(
    "contents",
    metadata,
    _part("digest", LargeBinary()),
    _needed("size"),
    # NULL: an object of the store, or the file at `foreign_path`, which is read and never removed.
    Column("body", LargeBinary),
    Column("foreign_path", Text),
)
"""By SHA-256: files of definitions, and what attempts left."""

recipes = Table(
    "recipes",
    metadata,
    _key(),
    _needed("version"),
    _needed("format", Integer()),
    _needed("document", Text()),
    Index("recipes_version", "version"),
)
"""The parts of the digests of a version."""

fields = Table(
    "fields",
    metadata,
    _part("study"),
    _part("number", Integer()),
    _needed("role", Text()),
    _needed("name", Text()),
    _needed("sql_name", Text()),
    # Where its values stand: see `field_layout.FieldLocation`.
    _needed("place", Text()),
    # Which forms of values there are so far: bits of `codec.Form`.
    _needed("forms", SmallInteger()),
    Column("type", Text),
    _needed("unit", Text()),
    _needed("kind", Text()),
    _needed("exact", SmallInteger()),
    UniqueConstraint("study", "role", "name"),
)
"""Of a study's name: all its versions share places and names."""

machines = Table(
    "machines",
    metadata,
    _key(),
    Column("digest", LargeBinary, nullable=False, unique=True),
    # All of it in words, as views show it.
    _needed("label", Text()),
    _needed("cpu", Text()),
    _needed("cores", Integer()),
    # JSON: a list of texts.
    _needed("accelerators", Text()),
    _needed("setup", Text()),
    # Whether it is only supposed: rows of before are their driver's kind.
    _needed("assumed", SmallInteger()),
)
"""Kinds of machine; 0 means an unknown one."""

hosts = Table(
    "hosts",
    metadata,
    _key(),
    _needed("name", Text()),
    _needed("machine"),
    _needed("kernel", Text()),
    # Bytes; 0 where nobody told.
    _needed("memory"),
    # Which conditions it does not tell, and why.
    Column("unmeasured", Text),
    UniqueConstraint("name", "machine", "kernel", "memory"),
)

leases = Table(
    "leases",
    metadata,
    _key(),
    _needed("version"),
    _needed("token", Text()),
    _needed("host", Text()),
    _needed("pid"),
    _needed("born", Text()),
    _needed("person", Text()),
    _needed("since", Double()),
    _needed("until", Double()),
    _needed("seconds", Double()),
    Column("ended", Double),
    Index("leases_version", "version"),
    sqlite_autoincrement=True,  # a number that went is not drawn again
)

claims = Table(
    "claims",
    metadata,
    _key(),
    _needed("digest", LargeBinary()),
    _needed("round", Integer()),
    # 0, or the kind of machine that it is to be run on, too.
    _needed("target"),
    _needed("version"),
    _needed("lease"),
    _needed("attempt", Integer()),
    _needed("host", Text()),
    _needed("started", Double()),
    _needed("position", _position()),
    _needed("repeat", Integer()),
    # JSON: the values of the parameters, as the codec writes them.
    Column("point", Text),
    UniqueConstraint("digest", "round", "target"),
    Index("claims_lease", "lease"),
    sqlite_autoincrement=True,  # a number that went is not drawn again
)
"""Which driver holds a claim on which experiment. A number that was drawn here is that of the
attempt for ever.
"""

results = Table(
    "results",
    metadata,
    _part("id"),
    _needed("version"),
    Column("recipe", _number()),
    _needed("digest", LargeBinary()),
    _needed("position", _position()),
    _needed("repeat", Integer()),
    _needed("round", Integer()),
    _needed("machine"),
    _needed("newest", SmallInteger()),
    _needed("status", Text()),
    _needed("attempt", Integer()),
    _needed("lease"),
    _needed("host"),
    _needed("started", Double()),
    _needed("ended", Double()),
    Column("exit", Integer),
    Column("cause", Text),
    # JSON by field: what no slot holds, and why a metric is missing.
    Column("remarks", Text),
    UniqueConstraint("digest", "version", "round", "machine"),
    Index("results_order", "version", "position", "repeat", "id"),
    Index("results_version", "version"),
)
"""One row for each accepted attempt; behind these columns come the slots, and KEY."""

chunks = Table(
    "chunks",
    metadata,
    _part("result"),
    _part("chunk", Integer()),
    # As it was written: JSONB would drop the sign of zero and the point of 1e22.
    _needed("doc", Text().with_variant(JSON(), "postgresql")),
)
"""Values of fields beyond the slots: JSON arrays of `field_layout.CHUNK`."""

attempts = Table(
    "attempts",
    metadata,
    _part("id"),
    _needed("digest", LargeBinary()),
    _needed("version"),
    _needed("round", Integer()),
    _needed("machine"),
    _needed("number", Integer()),
    _needed("lease"),
    _needed("state", Text()),
    _needed("host"),
    Column("started", Double),
    Column("ended", Double),
    Column("exit", Integer),
    Column("cause", Text),
    _needed("position", _position()),
    _needed("repeat", Integer()),
    Column("point", Text),
    Column("metrics", Text),
    Index("attempts_digest", "digest"),
    Index("attempts_version", "version"),
)
"""All that were not accepted: stale, superseded, tried again, set aside."""

conditions = Table(
    "conditions",
    metadata,
    _part("attempt"),
    *(
        Column(name, REAL)
        for name in (
            "load_start", "load_end", "mhz_start", "mhz_end", "celsius_start", "celsius_end",
            "steal", "pressure",
        )
    ),
    Column("slots", Integer),
    Column("cpus", Integer),
    Column("governor", Text),
    # JSON: what else is known.
    Column("other", Text),
    # Where the experiment stood in the order of its run: see `experiment.RunPosition`.
    Column("run_order", Text),
    Column("run_block", BigInteger),
    Column("run_turn", BigInteger),
    Column("runnable", BigInteger),
    *(Column(name, REAL) for name in ("run_delay", "others_ctime", "memory_pressure")),
    Column("throttled", BigInteger),
    Column("slots_start", Integer),
    Column("slots_end", Integer),
    Column("pinned", Text),
    *(Column(name, REAL) for name in ("gpu_mhz_start", "gpu_mhz_end")),
)  # fmt: skip

logs = Table(
    "logs",
    metadata,
    _part("attempt"),
    *(
        Column(f"{stream}_{part}", kind, nullable=False)
        for stream in ("stdout", "stderr")
        for part, kind in (("head", LargeBinary()), ("tail", LargeBinary()), ("size", _number()))
    ),
)

artifacts = Table(
    "artifacts",
    metadata,
    _part("attempt"),
    _part("path", Text()),
    # Its place in the list that the attempt gave.
    _needed("number", Integer()),
    _needed("mode", Integer()),
    _needed("size"),
    _needed("content", LargeBinary()),
    Index("artifacts_content", "content"),
)

copies = Table(
    "copies",
    metadata,
    _part("result"),
    _needed("source"),
    _needed("kind", Text()),
    _needed("person", Text()),
    _needed("at", Double()),
    _needed("note", Text()),
    Index("copies_source", "source"),
)
"""Results that were measured elsewhere: by another study, or another version of this one."""

aliases = Table(
    "aliases",
    metadata,
    _part("digest", LargeBinary()),
    _part("result"),
    _needed("kind", Text()),
)
"""Digests by which results were known before."""

rounds = Table(
    "rounds",
    metadata,
    _part("version"),
    _part("number", Integer()),
    _needed("began", Double()),
    _needed("person", Text()),
    _needed("reason", Text()),
    Column("seed", Text),
)

counters = Table(
    "counters",
    metadata,
    _part("version"),
    _part("machine"),
    _part("round", Integer()),
    _part("status", Text()),
    _needed("count"),
)
"""How many results there are: counting a million rows takes too long."""

edits = Table(
    "edits",
    metadata,
    _part("version"),
    _part("number"),
    _needed("first"),
    _needed("last"),
)
"""Which results were changed in place, by ranges of their numbers: caches read these again."""

events = Table(
    "events",
    metadata,
    _key(),
    _needed("version"),
    Column("digest", LargeBinary),
    _needed("at", Double()),
    _needed("kind", Text()),
    _needed("text", Text()),
    Index("events_version", "version"),
    Index("events_digest", "digest"),
)

submissions = Table(
    "submissions",
    metadata,
    _key(),
    Column("token", Text, nullable=False, unique=True),
    _needed("person", Text()),
    _needed("verified", SmallInteger()),
    _needed("study", Text()),
    _needed("request", Text()),
    _needed("submitted", Double()),
    _needed("turn", Text()),
    Column("begun", Double),
    Column("ended", Double),
    _needed("cause", Text()),
    _needed("progress", Text()),
    sqlite_autoincrement=True,  # a number that went is not drawn again
)
"""What a service is to run. A study is named, not numbered: it need not be there yet."""

upgrade_steps = Table(
    "upgrade",
    metadata,
    _part("step", Text()),
    _needed("done"),
    _needed("at", Double()),
)
"""How far an upgrade into this database came."""

_SLOT_TYPES: dict[str, TypeEngine[Any]] = {
    "v": _Untyped(), "i": BigInteger(), "r": Double(), "t": Text(),
}  # fmt: skip
"""The types of slots by the letter that their names begin with."""

KEY = "key"
"""The last column of ``results``: with ``recipe`` it names an experiment as the digest does. Both
are NULL where files of others enter the digest, as in stages, and for results of before."""


ADDED_COLUMNS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "0005": (("results", (KEY,)),),
    "0006": (("conditions", ("run_order", "run_block", "run_turn")),),
    "0007": (
        (
            "conditions",
            ("runnable", "run_delay", "others_ctime", "memory_pressure", "throttled"),
        ),
    ),
    "0008": (
        ("hosts", ("unmeasured",)),
        (
            "conditions",
            ("slots_start", "slots_end", "pinned", "gpu_mhz_start", "gpu_mhz_end"),
        ),
    ),
}
"""The columns that a revision added to the tables of the one before."""


def tables_of(dialect: DialectName) -> list[Table]:
    """Return every table as a database of that kind has it, ``results`` with its slots."""
    copy = MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(copy)
    for name in SLOT_NAMES[dialect]:
        copy.tables["results"].append_column(Column(name, _SLOT_TYPES[name[0]]))
    copy.tables["results"].append_column(Column(KEY, LargeBinary))
    return list(copy.sorted_tables)


def dialect(name: DialectName) -> Any:
    """Return the dialect of SQLAlchemy for that kind of database."""
    dialect_class: Any = sqlite.dialect if name == "sqlite" else postgresql.dialect
    return dialect_class()


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
