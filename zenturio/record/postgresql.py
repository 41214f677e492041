"""The PostgreSQL dialect: connections, bulk statements, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import DBAPIError

from zenturio.errors import Diagnostic, PlaceError, RecordError, ZenError
from zenturio.install_hint import extra_hint
from zenturio.record.codec import Form
from zenturio.record.database import Cursor
from zenturio.record.schema import metadata

_FEW = 20
"""Up to so many rows, COPY costs more than it saves."""
_SECRETS = ("password", "sslpassword")
_TELLING = 8
"""Characters of a password that is hidden anywhere: a shorter one may also be a part of a word, and
is hidden only where a password stands, as in a URL or in quotes."""
# While it connects, libpq has no code of an error, only the server's text.
_TOO_MANY = re.compile("too many (clients|connections)|remaining connection slots are reserved")
_REFUSED = re.compile(
    "FATAL: +(password authentication failed|.* authentication failed for user|no pg_hba.conf entry"
    "|(database|role) .* does not exist|role .* is not permitted to log in"
    "|permission denied for database)|no password supplied"
)
"""A server that is there and answers so does not change its mind while we wait."""
_NUMERIC = Form.REAL | Form.INTEGER | Form.BIG


class PostgreSQL:
    """A server; the dialect of several hosts."""

    name: Literal["sqlite", "postgresql"] = "postgresql"
    mark = "%s"
    row_lock = " FOR UPDATE"
    # A heartbeat's UPDATE does not wait for it, and who takes the lease over does.
    lease_lock = " FOR KEY SHARE OF l"
    begin_write: Sequence[str] = ("BEGIN",)
    # Claims of a server that went down may be lost: who records them claims them again.
    begin_brief: Sequence[str] = ("BEGIN; SET LOCAL synchronous_commit = off",)
    begin_read: Sequence[str] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    views = "SELECT viewname FROM pg_views WHERE schemaname = current_schema()"
    view_texts = (
        "SELECT format('%I.%I', schemaname, viewname), definition FROM pg_views"
        " WHERE schemaname IN (current_schema(), CASE WHEN current_schema()"
        " IN ('public', 'zenturio') THEN 'studies' ELSE current_schema() || '_studies' END)"
    )
    self_check = "SELECT 'ok'"
    now = "extract(epoch FROM clock_timestamp())::double precision"
    session_user = "session_user::text"  # current_user would be who SET ROLE names

    def __init__(self, url: URL, wait: float) -> None:
        secrets = {name: url.query[name] for name in _SECRETS if name in url.query}
        if url.password:
            secrets["password"] = url.password
        self._secrets = {name: word for name, word in secrets.items() if isinstance(word, str)}
        self.secrets = tuple(self._secrets.values())
        # What is secret goes to the driver beside the URL: nobody who shows that shows it.
        plain = url.difference_update_query(_SECRETS).set(drivername="postgresql+psycopg")
        self._url = plain._replace(password=None)  # set() would keep the password
        self.wait = wait
        self.location = self._url.set(
            drivername="postgresql", password="***" if self._secrets else None
        ).render_as_string(hide_password=True)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (DBAPIError, _psycopg().Error)

    def connections(self) -> Engine:
        return self.engine()

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
                hint=extra_hint("postgresql"),
            ) from error

    def within(self, schema: str) -> PostgreSQL:
        """Return the same server, with another schema for everything."""
        name = '"' + schema.replace('"', '""') + '"'
        server_options = self._url.query.get("options", "")
        options = server_options if isinstance(server_options, str) else " ".join(server_options)
        url = self._url.update_query_dict({
            "options": f"{options} -c search_path={_escaped(name)}".strip(), **self._secrets,
        })  # fmt: skip
        return PostgreSQL(url.set(drivername="postgresql"), self.wait)

    def as_user(self, user: str, password: str) -> PostgreSQL:
        """Return the same server and database, with another login."""
        url = self._url.set(drivername="postgresql", username=user, password=password)
        return PostgreSQL(url, self.wait)

    def login_rule(self) -> str:
        """Return the line of pg_hba.conf that lets this login in by its password."""
        user, host = self._url.username, self._url.host or self._url.query.get("host", "")
        is_local = not host or str(host).startswith("/")
        line = f"{'local' if is_local else 'host'} {self._url.database} {user}"
        return f"{line} scram-sha-256" if is_local else f"{line} samenet scram-sha-256"

    def _asked(self) -> dict[str, str]:
        server_options = self._url.query.get("options", "")
        options = server_options if isinstance(server_options, str) else " ".join(server_options)
        return {"options": f"{options} -c lock_timeout={round(self.wait * 1000)}".strip()}

    def missing(self) -> bool:
        return False

    def prepare(self) -> None:
        """The database itself is its administrator's to create."""

    def settle(self) -> None:
        """A server keeps its files itself."""

    def limit_cache(self, kib: int) -> None:
        """A server has its own memory."""

    def warnings(self) -> tuple[Diagnostic, ...]:
        return ()

    def insert(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        column_list = ", ".join(names)
        if len(rows) <= _FEW:
            marks = ", ".join(["%s"] * len(names))
            cursor.executemany(f"INSERT INTO {table} ({column_list}) VALUES ({marks})", rows)
            return
        with cursor.copy(f"COPY {table} ({column_list}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def insert_new(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        kinds = metadata.tables[table].c
        arrays = ", ".join(f"%s::{kinds[name].type.compile(_dialect())}[]" for name in names)
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT * FROM unnest({arrays})"
            " ON CONFLICT DO NOTHING",
            [list(column) for column in zip(*rows, strict=True)],
        )

    def draw(self, cursor: Cursor, count: int) -> list[int]:
        cursor.execute("SELECT nextval('claims_id_seq') FROM generate_series(1, %s)", (count,))
        return [number for (number,) in cursor.fetchall()]

    def parts(self, keys: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        if keys:
            yield 1, {"keys": list(keys)}

    def among_sql(self, column: str, shape: int) -> str:  # noqa: ARG002
        return f"{column} = ANY(%s)"

    def position(self, index: int) -> int:
        return index

    def index(self, position: Any) -> int:
        return int(position)

    def index_sql(self, column: str) -> str:
        return column

    def hex_sql(self, column: str) -> str:
        return f"encode({column}, 'hex')"

    def holds_sql(self, column: str, kind: str) -> str:
        if kind == "bytes":
            return f"position(%s::bytea in {column}) > 0"
        return f"strpos({column}::text, %s) > 0"

    def remark_sql(self, remarks: str, key: str, part: str) -> str:
        return f"({remarks}::json -> {key} ->> '{part}')"

    def chunk_sql(self, result: str, chunk: int, at: int) -> str:
        rows = f"FROM chunks c WHERE c.result = {result} AND c.chunk = {chunk}"
        return f"(SELECT c.doc ->> {at} {rows})"

    def value_sql(self, forms: Form, sql: Mapping[str, str]) -> tuple[str, str]:
        if not forms:
            return "NULL::double precision", "none"
        if forms == Form.TRUTH:
            return _either(sql, {"i": "{} <> 0", "chunk": "({})::boolean"}), "boolean"
        if not forms & ~(_NUMERIC | Form.TRUTH):
            return _number_sql(forms, sql)
        only_truths = bool(forms & Form.TRUTH) and not forms & Form.INTEGER
        truths = "({} <> 0)::text" if only_truths else ""
        written = {"int": "", "series": "", "t": "", "r": "({})::text"}
        return _either(sql, {**written, "i": truths or "({})::text", "chunk": ""}), "text"

    def conflicts(self, error: Exception) -> bool:
        errors = _psycopg().errors
        # Of two that create the schema, one finds a key of the catalogue or a table of the other.
        return isinstance(error, errors.UniqueViolation | errors.DuplicateTable)

    def refuses(self, error: Exception) -> bool:
        """Whether the server is there and does not let this user in."""
        return _REFUSED.search(str(error)) is not None

    def lost(self, error: Exception) -> bool:
        psycopg = _psycopg()
        if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DiskFull):
            return False
        if self.refuses(error):
            return False
        shutdown = psycopg.errors.AdminShutdown | psycopg.errors.CrashShutdown
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | shutdown)

    def hide(self, text: str) -> str:
        """Return *text* without passwords."""
        for word in self._secrets.values():
            for spelling in {word, quote(word, safe="")}:
                text = re.sub(_password_pattern(spelling), "***", text)
        return text

    def for_programs(self) -> tuple[str, dict[str, str]]:
        """Return the URL for PostgreSQL's programs, and its secrets for their environment."""
        plain = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        variables = {"password": "PGPASSWORD"}
        return plain, {variables[n]: word for n, word in self._secrets.items() if n in variables}

    def explain(self, error: Exception) -> ZenError:
        message = self.hide(" ".join(str(error).split()))
        psycopg = _psycopg()
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return RecordError(
                f"{self.location} has been locked for {self.wait:g} seconds by another writer",
                hint="wait until it is done or stop it (pg_stat_activity names it);"
                " ZENTURIO_DB_WAIT=SECONDS waits longer",
            )
        denied = psycopg.errors.InsufficientPrivilege | psycopg.errors.InvalidSchemaName
        if isinstance(error, denied):
            return RecordError(
                f"{self.location}: {message}",
                hint="its administrator can give you the right: `zen db grant --owner ROLE --writer"
                " YOU`",
            )
        if isinstance(error, psycopg.errors.DiskFull):
            return RecordError(
                f"the disk of {self.location} is full: {message}",
                hint="make room there and run again: what was recorded is kept",
            )
        if _TOO_MANY.search(message):
            return RecordError(
                f"{self.location} accepts no more connections: {message}",
                hint="wait until other programs end (pg_stat_activity names them), or let the"
                " administrator raise max_connections or the limit of the role",
            )
        if refused := _REFUSED.search(message):
            return RecordError(
                f"{self.location} refuses the login: {message[refused.start() :]}",
                hint="are user, password (~/.pgpass) and database right, and may the user log in?",
            )
        if self.lost(error):
            return RecordError(
                f"no connection to {self.location}: {message}",
                hint="is the server running, and are host, port, user and password right?",
            )
        return RecordError(f"{self.location}: {message}")


def _password_pattern(password: str) -> str:
    """Return a pattern of *password* that matches no letters of other words."""
    pattern = re.escape(password)
    if len(password) >= _TELLING:
        return pattern
    return rf"(?<=[:='\"]){pattern}(?=[@&'\"\s]|$)"


def _escaped(text: str) -> str:
    """Return *text* as a part of the server's options, where blanks tell these apart."""
    return text.replace("\\", "\\\\").replace(" ", "\\ ")


def _number_sql(forms: Form, sql: Mapping[str, str]) -> tuple[str, str]:
    """Return a field whose values are all numbers, or truths among them."""
    if Form.REAL in forms:
        real = "({})::double precision"
        return _either(sql, {"r": "", "i": real, "chunk": real}), "double precision"
    if Form.BIG in forms:  # what stands in `r` is only near it
        digits = "({})::numeric"
        return _either(sql, {"int": digits, "i": digits, "chunk": digits}), "numeric"
    return _either(sql, {"i": "", "chunk": "({})::bigint"}), "bigint"


def _either(sql: Mapping[str, str], templates: Mapping[str, str]) -> str:
    """Return the first of the parts that there are which is not NULL."""
    parts = [
        (templates[part] or "{}").replace("{}", sql[part]) for part in templates if part in sql
    ]
    return f"coalesce({', '.join(parts)})" if len(parts) > 1 else (parts or ["NULL"])[0]


def _dialect() -> Any:
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - only who uses it needs it

    return postgresql.dialect()  # type: ignore[no-untyped-call]


def _psycopg() -> Any:
    import psycopg  # noqa: PLC0415 - an extra: only those who use it have it

    return psycopg
