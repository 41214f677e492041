"""What is particular to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import ARRAY, URL, Engine, any_, bindparam, create_engine
from sqlalchemy.sql.elements import ColumnElement

from zenturio.errors import Complaint, PlaceError, RecordError, ZenError
from zenturio.record.codec import Form
from zenturio.record.flavour import Cursor
from zenturio.record.schema import experiments, running

WRITER = 0x7A656E  # "zen"
"""The advisory lock of whoever writes."""
_FEW = 20
"""Up to so many rows, COPY costs more than it saves."""
_SECRETS = ("password", "sslpassword")
running.dialect_kwargs["postgresql_where"] = experiments.c.state == "running"


class PostgreSQL:
    """A server; the flavour of several hosts."""

    name: Literal["sqlite", "postgresql"] = "postgresql"
    mark = "%s"
    exact_reals = True
    types: Mapping[Form | Literal["position", "key"], str] = {
        "position": "NUMERIC",
        "key": "BIGINT PRIMARY KEY",
        Form.REAL: "DOUBLE PRECISION",
        Form.INTEGER: "BIGINT",
        Form.TEXT: "TEXT",
        Form.TRUTH: "BOOLEAN",
    }
    # One writer at a time, as in SQLite: digests belong to all studies, and what a transaction
    # decides by reading holds until it commits.
    begin_write: Sequence[str] = ("BEGIN", f"SELECT pg_advisory_xact_lock({WRITER})")
    begin_brief = begin_write  # a server may go down without its drivers
    begin_read: Sequence[str] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    views = "SELECT viewname FROM pg_views WHERE schemaname = current_schema()"
    self_check = "SELECT 'ok'"
    now = "extract(epoch FROM clock_timestamp())::double precision"

    def __init__(self, url: URL, wait: float) -> None:
        given = {name: url.query[name] for name in _SECRETS if name in url.query}
        if url.password:
            given["password"] = url.password
        self._secrets = {name: word for name, word in given.items() if isinstance(word, str)}
        # What is secret goes to the driver beside the URL: nobody who shows that shows it.
        self._url = url.difference_update_query(_SECRETS).set(
            drivername="postgresql+psycopg", password=None
        )
        self._wait = wait
        self.place = self._url.set(
            drivername="postgresql", password="***" if self._secrets else None
        ).render_as_string(hide_password=True)

    def engine(self) -> Engine:
        try:
            return create_engine(
                self._url,
                max_overflow=-1,
                paramstyle="format",
                isolation_level="AUTOCOMMIT",  # we say BEGIN ourselves
                connect_args={
                    "application_name": "zenturio",
                    "connect_timeout": 10,
                    **self._asked(),
                    **self._secrets,
                },
            )
        except ImportError as error:
            raise PlaceError(
                "PostgreSQL needs psycopg, which is not installed",
                cure="pip install 'zenturio[postgresql]'",
            ) from error

    def _asked(self) -> dict[str, str]:
        given = self._url.query.get("options", "")
        options = given if isinstance(given, str) else " ".join(given)
        return {"options": f"{options} -c lock_timeout={round(self._wait * 1000)}".strip()}

    def missing(self) -> bool:
        return False

    def prepare(self) -> None:
        """The database itself is its administrator's to create."""

    def settle(self) -> None:
        """A server keeps its files itself."""

    def warnings(self) -> tuple[Complaint, ...]:
        return ()

    def insert(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        listed = ", ".join(names)
        if len(rows) <= _FEW:
            marks = ", ".join(["%s"] * len(names))
            cursor.executemany(f"INSERT INTO {table} ({listed}) VALUES ({marks})", rows)  # noqa: S608 - names are ours
            return
        with cursor.copy(f"COPY {table} ({listed}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def parts(self, keys: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        if keys:
            yield 1, {"keys": list(keys)}

    def among(self, column: ColumnElement[Any], shape: int) -> ColumnElement[bool]:  # noqa: ARG002
        return column == any_(bindparam("keys", type_=ARRAY(column.type)))

    def position(self, index: int) -> int:
        return index

    def index(self, position: Any) -> int:
        return int(position)

    def index_sql(self, column: str) -> str:
        return column

    def hex_sql(self, column: str) -> str:
        return f"encode({column}, 'hex')"

    def json_sql(self, column: str, name: str, part: str | None) -> str:
        if part is None:
            return f"({column}::json ->> {name})"
        found = f"({column}::json -> {name})"
        # Only an object has parts: a plain value beside it is none of this form.
        whole = f"CASE json_typeof({found}) WHEN 'object' THEN {found} ->> '{part}' END"
        return f"({whole})::numeric" if part == "int" else f"({whole})"

    def either_sql(self, forms: Form, columns: Mapping[Form, str]) -> str:
        found = {form: sql for form, sql in columns.items() if form & forms}
        texts = Form.TEXT | Form.SERIES | Form.OTHER
        if not found:
            return "NULL::double precision"
        if len(found) == 1:
            return next(iter(found.values()))
        if forms & texts:
            return f"coalesce({', '.join(f'({sql})::text' for sql in found.values())})"
        if Form.TRUTH in found:
            found[Form.TRUTH] = f"({found[Form.TRUTH]})::int"
        return f"coalesce({', '.join(found.values())})"

    def lost(self, error: Exception) -> bool:
        psycopg = _psycopg()
        if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DiskFull):
            return False
        gone = psycopg.errors.AdminShutdown | psycopg.errors.CrashShutdown
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | gone)

    def hide(self, text: str) -> str:
        """*text* without passwords."""
        for word in self._secrets.values():
            text = text.replace(word, "***")
        return text

    def for_programs(self) -> tuple[str, dict[str, str]]:
        """The URL for PostgreSQL's own programs, and what goes into their environment instead."""
        plain = self._url.set(drivername="postgresql").render_as_string()
        named = {"password": "PGPASSWORD"}
        return plain, {named[n]: word for n, word in self._secrets.items() if n in named}

    def explain(self, error: Exception) -> ZenError:
        said = self.hide(" ".join(str(error).split()))
        psycopg = _psycopg()
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return RecordError(
                f"{self.place} has been locked for {self._wait:g} seconds by another writer",
                cure="wait until it is done or stop it (pg_stat_activity names it);"
                " ZENTURIO_DB_WAIT=SECONDS waits longer",
            )
        if isinstance(error, psycopg.errors.DiskFull):
            return RecordError(
                f"the disk of {self.place} is full: {said}",
                cure="make room there and run again: what was recorded is kept",
            )
        if self.lost(error):
            return RecordError(
                f"no connection to {self.place}: {said}",
                cure="is the server running, and are host, port, user and password right?",
            )
        return RecordError(f"{self.place}: {said}")


def _psycopg() -> Any:
    import psycopg  # noqa: PLC0415 - an extra: only those who use it have it

    return psycopg
