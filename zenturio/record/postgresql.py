"""The PostgreSQL dialect: connections, bulk statements, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, quote, unquote

from zenturio.errors import Diagnostic, PlaceError, RecordError, ZenError
from zenturio.install_hint import extra_hint
from zenturio.record.codec import Form
from zenturio.record.database import ConnectionPool, Cursor

if TYPE_CHECKING:
    from sqlalchemy import Engine

_URL = re.compile(
    r"postgres(?:ql)?(?:\+\w+)?://"
    r"(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<ipv6>[^/?\]]+)\]|(?P<host>[^/:?]*))(?::(?P<port>\d*))?"
    r"(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?"
)
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


@dataclass(frozen=True, slots=True)
class ServerURL:
    """A URL of a database on a server, as libpq has it."""

    user: str = ""
    password: str | None = None
    host: str = ""
    port: str = ""
    database: str = ""
    query: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str) -> ServerURL:
        """Return the parts of *text*; ValueError if that is no such URL."""
        match = _URL.fullmatch(text)
        if match is None:
            raise ValueError("no URL of PostgreSQL")
        part = {name: unquote(word or "") for name, word in match.groupdict().items()}
        return ServerURL(
            part["user"],
            part["password"] if match["password"] is not None else None,
            part["host"] or part["ipv6"],
            part["port"],
            part["database"],
            tuple(parse_qsl(match["query"] or "", keep_blank_values=True)),
        )

    def value(self, name: str) -> str:
        """Return a value of the query; several as libpq lists them."""
        return ",".join(value for key, value in self.query if key == name)

    def arguments(self) -> dict[str, str]:
        """Return what a connection takes."""
        named = {"user": self.user, "host": self.host, "port": self.port, "dbname": self.database}
        arguments = {name: value for name, value in named.items() if value}
        return arguments | {name: self.value(name) for name, _ in self.query}

    @property
    def text(self) -> str:
        user = quote(self.user, safe=" +")
        login = f"{user}:{quote(self.password, safe=' +*')}" if self.password is not None else user
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(self.query))
        return (
            f"postgresql://{login}{'@' if login else ''}{host}{':' if self.port else ''}{self.port}"
            f"{'/' if self.database or query else ''}{quote(self.database, safe='')}"
            f"{'?' if query else ''}{query}"
        )


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
    end_brief: Sequence[str] = ()
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

    def __init__(self, url: ServerURL, wait: float) -> None:
        secrets = {name: url.value(name) for name in _SECRETS if url.value(name)}
        if url.password:
            secrets["password"] = url.password
        self._secrets = secrets
        self.secrets = tuple(self._secrets.values())
        # What is secret goes to the driver beside the URL: nobody who shows that shows it.
        plain = tuple((name, value) for name, value in url.query if name not in _SECRETS)
        self._url = replace(url, password=None, query=plain)
        self.wait = wait
        self.location = replace(self._url, password="***" if self._secrets else None).text

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (_psycopg().Error,)

    def connections(self) -> ConnectionPool:
        return ConnectionPool(self.connect, is_idle=_is_idle)

    def connect(self) -> Any:
        """Return a new connection, which commits by itself: we say BEGIN ourselves."""
        return _psycopg().connect(
            autocommit=True,
            **{
                **self._url.arguments(),
                "application_name": "zenturio",
                "connect_timeout": "10",
                **self._asked(),
                **self._secrets,
            },
        )

    def engine(self) -> Engine:
        from sqlalchemy import create_engine  # noqa: PLC0415 - most commands do without

        return create_engine(
            self._url.text.replace("postgresql:", "postgresql+psycopg:", 1),
            creator=self.connect,
            max_overflow=-1,
            paramstyle="format",
            isolation_level="AUTOCOMMIT",
        )

    def within(self, schema: str) -> PostgreSQL:
        """Return the same server, with another schema for everything."""
        name = '"' + schema.replace('"', '""') + '"'
        options = f"{self._options} -c search_path={_escaped(name)}".strip()
        others = (pair for pair in self._url.query if pair[0] != "options")
        query = (*others, ("options", options), *self._secrets.items())
        return PostgreSQL(replace(self._url, query=query), self.wait)

    def as_user(self, user: str, password: str) -> PostgreSQL:
        """Return the same server and database, with another login."""
        return PostgreSQL(replace(self._url, user=user, password=password), self.wait)

    def login_rule(self) -> str:
        """Return the line of pg_hba.conf that lets this login in by its password."""
        host = self._url.host or self._url.value("host")
        is_local = not host or host.startswith("/")
        line = f"{'local' if is_local else 'host'} {self._url.database} {self._url.user}"
        return f"{line} scram-sha-256" if is_local else f"{line} samenet scram-sha-256"

    @property
    def _options(self) -> str:
        return " ".join(value for name, value in self._url.query if name == "options")

    def _asked(self) -> dict[str, str]:
        return {"options": f"{self._options} -c lock_timeout={round(self.wait * 1000)}".strip()}

    def missing(self) -> bool:
        return False

    def prepare(self) -> None:
        """Do nothing: the administrator creates the database."""

    def settle(self, connection: Any) -> None:
        """Do nothing: a server manages its own files."""

    def limit_cache(self, kib: int) -> None:
        """Do nothing: a server has its own memory."""

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
        columns = {f"c{i}": list(column) for i, column in enumerate(zip(*rows, strict=True))}
        # Values show the type of their array; a column without any is a NULL, which fits all types.
        filled = {c: values for c, values in columns.items() if any(v is not None for v in values)}
        heads = ", ".join(c if c in filled else "NULL" for c in columns)
        arrays = ", ".join(f"%s::{_array_type(values)}" for values in filled.values())
        source = (
            f"unnest({arrays}) AS u({', '.join(filled)})" if filled else "generate_series(1, %s)"
        )
        parameters: list[Any] = [*filled.values()] or [len(rows)]
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {heads} FROM {source}"
            " ON CONFLICT DO NOTHING",
            parameters,
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

    def read_clock(self, cursor: Cursor) -> float:
        cursor.execute(f"SELECT {self.now}")
        ((now,),) = cursor.fetchall()
        return float(now)

    def conflicts(self, error: Exception) -> bool:
        errors = _psycopg().errors
        # Of two that create the schema, one finds a key of the catalogue or a table of the other.
        return isinstance(error, errors.UniqueViolation | errors.DuplicateTable)

    def refuses(self, error: Exception) -> bool:
        """Return whether the server is there and does not let this user in."""
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
        password = self._secrets.get("password")
        return self._url.text, {} if password is None else {"PGPASSWORD": password}

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


def _array_type(values: Sequence[Any]) -> str:
    """Return the type of an array of these values, which any column for them takes by assignment.

    Those of the tables would do as well; to know them loads SQLAlchemy.
    """
    kinds = {type(value) for value in values}
    if bytes in kinds:
        return "bytea[]"
    if str in kinds:
        return "text[]"
    if float in kinds:
        return "double precision[]"
    is_big = any(value is not None and not -(2**63) <= value < 2**63 for value in values)
    return "numeric[]" if is_big else "bigint[]"


def _is_idle(connection: Any) -> bool:
    """Return whether a connection is in no transaction; an error if it is broken."""
    return bool(connection.info.transaction_status == _psycopg().pq.TransactionStatus.IDLE)


def _psycopg() -> Any:
    try:
        import psycopg  # noqa: PLC0415 - an extra: only those who use it have it
    except ImportError as error:
        raise PlaceError(
            "PostgreSQL needs psycopg, which is not installed", hint=extra_hint("postgresql")
        ) from error
    return psycopg
