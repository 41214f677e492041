"""What differs between SQLite and PostgreSQL; all other code uses this protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from zenturio.errors import Diagnostic, ZenError
from zenturio.record.codec import Form
from zenturio.record.connection_pool import Connections

if TYPE_CHECKING:
    from sqlalchemy import Engine

Cursor = Any
"""A cursor as PEP 249 has it."""
Position = int | str
"""An experiment's index as the database orders it."""


class DatabaseDialect(Protocol):
    """One kind of database."""

    name: Literal["sqlite", "postgresql"]
    location: str
    """Where it is, without a password."""
    mark: str
    """What stands for a parameter in SQL."""
    row_lock: str
    """Suffix of a SELECT: keeps others from changing these rows until the transaction ends."""
    lease_lock: str
    """Suffix of a SELECT of leases ``l``: others may renew, not end them."""
    creation_lock: str
    """Lets one at a time make the tables; nothing where writers are alone anyway."""
    begin_write: Sequence[str]
    """Begins a transaction that writes; its commit is on the disk when it returns."""
    begin_brief: Sequence[str]
    """Begins one that writes what only living drivers need: who kills it by cutting the power
    kills them too."""
    begin_read: Sequence[str]
    """Begins a transaction that sees one moment."""
    tables: str
    """Names all tables."""
    views: str
    """Names all views."""
    view_texts: str
    """The views of this program, as a statement names them, and what each is."""
    self_check: str
    """What the database finds wrong with itself, or ``ok``."""
    now: str
    """An expression: seconds since 1970 by the database's clock."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What statements and connecting raise."""
        ...

    def connections(self) -> Connections:
        """Return connections; nothing is opened yet."""
        ...

    def engine(self) -> Engine:
        """Return the same as an engine of SQLAlchemy."""
        ...

    def missing(self) -> bool:
        """Return whether there is no database yet, and nothing to be read."""
        ...

    def prepare(self) -> None:
        """Make room for a new database, a folder for its file."""
        ...

    def settle(self) -> None:
        """The database is ours: connections from now on may change how its file is kept."""
        ...

    def limit_cache(self, kib: int) -> None:
        """Let new connections keep so much of the database in memory."""
        ...

    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return what a user should know about this place."""
        ...

    def insert(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add many rows, the fastest way there is."""
        ...

    def insert_new(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add those of many rows that no unique index refuses."""
        ...

    def draw(self, cursor: Cursor, count: int) -> list[int]:
        """Return numbers of attempts, as claims draw them."""
        ...

    def parts(self, keys: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Parameters for the condition that a column is one of *keys*, in parts, with their shapes.

        Conditions of the same shape are the same SQL.
        """
        ...

    def among_sql(self, column: str, shape: int) -> str:
        """Return the condition itself."""
        ...

    def position(self, index: int) -> Position:
        """Return how an index of any size is written."""
        ...

    def index(self, position: Any) -> int:
        """Return what ``position`` was given."""
        ...

    def index_sql(self, column: str) -> str:
        """Return the index in a view."""
        ...

    def hex_sql(self, column: str) -> str:
        """Bytes as lower case digits in a view."""
        ...

    def holds_sql(self, column: str, kind: Literal["text", "bytes", "json"]) -> str:
        """That a column has a mark's text or bytes somewhere inside."""
        ...

    def remark_sql(self, remarks: str, key: str, part: str) -> str:
        """That *part* of a remark, as a text in a view; NULL where it has none."""
        ...

    def chunk_sql(self, result: str, chunk: int, at: int) -> str:
        """Return a value beyond the slots, in a view; PostgreSQL has it as text."""
        ...

    def value_sql(self, forms: Form, sql: Mapping[str, str]) -> tuple[str, str]:
        """Return the value of a field in a view, and its type.

        ``bigint``, ``numeric``, ``double precision``, ``text``, ``boolean``; or ``none`` where it
        is not known yet.

        *sql*: what its slots hold by their letter, its ``chunk``, and of its remarks ``int`` and
        ``series``; only what there is.
        """
        ...

    def conflicts(self, error: Exception) -> bool:
        """Return whether a unique index refused a row."""
        ...

    def lost(self, error: Exception) -> bool:
        """Return whether the connection broke: the same transaction may succeed on a new one."""
        ...

    def explain(self, error: Exception) -> ZenError:
        """Return the error as one of ours, with a hint."""
        ...
