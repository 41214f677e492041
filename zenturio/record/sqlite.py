"""The SQLite dialect: connections, modes and locks of the file, bulk statements, errors."""

from __future__ import annotations

import importlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from zenturio.errors import Diagnostic, RecordError, ZenError
from zenturio.record.codec import Form
from zenturio.record.database import ConnectionPool, Cursor, not_utf8
from zenturio.system.file_systems import lock_holders, network_file_system

if TYPE_CHECKING:
    from sqlalchemy import Engine


FIXED = (3, 51, 3)
"""Versions before this one may damage a database in WAL mode when two connections write."""
CACHE_KIB = 64 * 1024
CHECKPOINT_PAGES = 32_000
"""A log of up to 128 MB: new digests fall on pages everywhere, which are so written back once for
many commits (an eighth of the time of bulk writing)."""
_GUARDS = (
    # Of a file that others made: its views and indexes call no function that does something,
    # and a page that is damaged is an error, not a read beyond its end.
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
)
_DURABLE = "PRAGMA synchronous = FULL"
"""A confirmed commit is on the disk."""
_LONGEST_LIST = 2048
_KEYS = [f"key_{i}" for i in range(_LONGEST_LIST)]


def sqlite_module() -> ModuleType:
    """Return the module that speaks SQLite: the newer of Python's own and ``pysqlite3``.

    One process must not open a file through both: each would drop the other's locks.
    """
    try:
        newer = importlib.import_module("pysqlite3.dbapi2")
    except ImportError:
        return sqlite3
    if newer.sqlite_version_info > sqlite3.sqlite_version_info:
        return newer
    return sqlite3


def read_only_uri(path: Path) -> str:
    """Return how a file is opened that may be read and not written; empty where it may be written.

    In a folder that may not be written either, nobody can be at work in the file.
    """
    if not path.exists() or (_writable(path) and _writable(path.parent)):
        return ""
    alone = not _writable(path.parent) and not path.with_name(f"{path.name}-wal").exists()
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if alone else ''}"


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


_COPIED_PAGES = 2048
"""Pages that a backup copies between two calls of its progress: 8 MB."""


class SQLite:
    """A file; the dialect of one machine."""

    name: Literal["sqlite", "postgresql"] = "sqlite"
    mark = "?"
    row_lock = lease_lock = ""  # who writes is alone
    begin_read: Sequence[str] = ("BEGIN",)
    begin_write: Sequence[str] = ("BEGIN IMMEDIATE",)
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    views = "SELECT name FROM sqlite_master WHERE type = 'view'"
    view_texts = (
        "SELECT '\"' || replace(name, '\"', '\"\"') || '\"', sql FROM sqlite_master"
        " WHERE type = 'view'"
    )
    self_check = "PRAGMA integrity_check(20)"
    now = "(julianday('now') - 2440587.5) * 86400.0"
    session_user = ""
    secrets: tuple[str, ...] = ()

    def __init__(self, path: Path, wait: float) -> None:
        self.path = path.absolute()
        self.location = str(self.path)
        self._wait = wait
        self._driver = sqlite_module()
        self._network = network_file_system(self.path)
        self._fixed = self._driver.sqlite_version_info >= FIXED
        self._wal = self._fixed and self._network is None
        self._settled = False
        self._cache_kib = CACHE_KIB
        # Claims need not be on the disk: a machine that loses its power loses the drivers that
        # hold them. Without WAL the order of writes needs it.
        brief = ("PRAGMA synchronous = NORMAL", *self.begin_write)
        self.begin_brief: Sequence[str] = brief if self._wal else self.begin_write
        self.end_brief: Sequence[str] = (_DURABLE,) if self._wal else ()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (self._driver.Error,)

    def connections(self) -> ConnectionPool:
        return ConnectionPool(self.connect)

    def engine(self) -> Engine:
        from sqlalchemy import create_engine  # noqa: PLC0415 - most commands do without
        from sqlalchemy.pool import QueuePool  # noqa: PLC0415

        return create_engine(
            "sqlite://",
            module=self._driver,
            creator=self.connect,
            poolclass=QueuePool,
            max_overflow=-1,
        )

    def missing(self) -> bool:
        self._check_files()
        return not self.path.exists() or self.path.stat().st_size == 0

    def prepare_folder(self) -> None:
        """Make the folder of the file."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(
                f"no folder for the database {self.location}: {error.strerror}",
                hint="choose another place with ZENTURIO_DB, or make the folder writable",
            ) from error

    def prepare(self) -> None:
        self.prepare_folder()
        # SQLite's own mode leaves a group out, whatever the umask; its logs take that of the file.
        with suppress(OSError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))

    def settle(self, connection: Any) -> None:
        self._settled = True
        self._set_modes(connection)

    def connect(self) -> Any:
        """Return a connection; until the file is known to be ours, it leaves its modes alone."""
        self._check_files()
        connection = self._driver.connect(
            read_only_uri(self.path) or self.path.as_uri(),
            timeout=self._wait,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            for statement in _GUARDS:
                connection.execute(statement)
            if self._settled:
                self._set_modes(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_files(self) -> None:
        """Raise RecordError if SQLite would read or write anything but an ordinary file here.

        SQLite follows a link beside the database, writes its journal through it, and cuts it off.
        """
        for ending in ("", "-wal", "-shm", "-journal"):
            path = self.path.with_name(self.path.name + ending)
            try:
                status = path.lstat() if ending else path.stat()
            except OSError:
                continue
            if stat.S_ISLNK(status.st_mode) or (ending and status.st_nlink > 1):
                obstacle = "a link to another file"
            elif not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                obstacle = "a pipe or a device"
            else:
                continue
            raise RecordError(
                f"{path} is {obstacle}, which SQLite would read and write",
                hint="remove it if you did not make it",
            )

    def _set_modes(self, connection: Any) -> None:
        if read_only_uri(self.path):
            return
        journal_mode = "wal" if self._wal else "truncate"
        (mode,) = connection.execute(f"PRAGMA journal_mode = {journal_mode}").fetchone()
        if mode == "wal" and not self._wal:
            raise RecordError(
                f"{self.location} is open elsewhere in WAL mode, which is not safe here:"
                f" {self._why_no_wal()}",
                hint="let the other process end, or install pysqlite3 for both",
            )
        connection.execute(f"PRAGMA cache_size = -{self._cache_kib}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(_DURABLE)
        if self._wal:
            self._share_log()

    def _share_log(self) -> None:
        """Give the log and its index the group of the database.

        SQLite gives them its permissions, but the group of who makes them: for the group that the
        database is shared with, these would be the permissions of all others.
        """
        group = self.path.stat().st_gid
        for ending in ("-wal", "-shm"):
            log = self.path.with_name(self.path.name + ending)
            with suppress(OSError):  # another user's, who has done it; or nobody needs it any more
                status = log.lstat()
                if status.st_gid != group and status.st_uid == os.geteuid():
                    os.chown(log, -1, group, follow_symlinks=False)

    def copy(
        self, target: Path, step: Callable[[int, int], None] = lambda _done, _total: None
    ) -> None:
        """Copy the database to *target*, as it is at one moment; *step* is told the pages."""
        source, copy = self.connect(), self._driver.connect(target)
        try:
            # Between its parts others may write, after which a copy begins again: so all of it is
            # one read transaction, whose snapshot stays the same.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchall()
            source.backup(
                copy, pages=_COPIED_PAGES, progress=lambda _, left, all_: step(all_ - left, all_)
            )
        except UnicodeDecodeError as error:  # SQLite's own message holds bytes of a damaged file
            raise not_utf8(self.location) from error
        except self._driver.Error as error:
            raise self.explain(error) from error
        finally:
            copy.close()
            source.close()

    def compact(self) -> bool:
        """Rewrite the file without what was removed; return false while it is being read."""
        connection = self.connect()
        try:
            connection.execute("VACUUM")
            if self._wal:
                ((busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                return not busy
        except self._driver.Error as error:
            if "locked" in str(error) or "busy" in str(error):
                return False
            raise self.explain(error) from error
        finally:
            connection.close()
        return True

    def limit_cache(self, kib: int) -> None:
        self._cache_kib = kib

    def warnings(self) -> tuple[Diagnostic, ...]:
        if self._network is None:
            return ()
        return (
            Diagnostic(
                f"{self.location} lies on a network file system ({self._network}):"
                " no WAL there, so readers and the run wait for each other",
                hint="put the database on a local disk, or use PostgreSQL for several hosts",
                severity="warning",
            ),
        )

    def _why_no_wal(self) -> str:
        if self._network is not None:
            return f"the file system is {self._network}"
        version = self._driver.sqlite_version
        return f"SQLite {version} may damage such a file (fixed in {'.'.join(map(str, FIXED))})"

    def insert(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        marks = ", ".join("?" * len(names))
        cursor.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)

    def insert_new(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        marks = ", ".join("?" * len(names))
        cursor.executemany(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) ON CONFLICT DO NOTHING",
            rows,
        )

    def draw(self, cursor: Cursor, count: int) -> list[int]:
        # The table is SQLite's own: it has a row for each AUTOINCREMENT that was used.
        drawn = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'claims' RETURNING seq"
        rows = cursor.execute(drawn, (count,)).fetchall()
        if not rows:
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('claims', ?)", (count,))
            rows = [(count,)]
        ((last,),) = rows
        return list(range(last - count + 1, last + 1))

    def parts(self, keys: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        for start in range(0, len(keys), _LONGEST_LIST):
            part = keys[start : start + _LONGEST_LIST]
            # Filled up to a power of two with its last key, so that few shapes are prepared.
            shape = 1 << (len(part) - 1).bit_length()
            full = [*part, *[part[-1]] * (shape - len(part))]
            yield shape, dict(zip(_KEYS, full, strict=False))

    def among_sql(self, column: str, shape: int) -> str:
        return f"{column} IN ({', '.join('?' * shape)})"

    def position(self, index: int) -> int | str:
        if -(2**63) <= index < 2**63:
            return index
        return f"{len(str(index)):06d}:{index}"

    def index(self, position: Any) -> int:
        return int(position[7:]) if isinstance(position, str) else int(position)

    def index_sql(self, column: str) -> str:
        return f"CASE typeof({column}) WHEN 'text' THEN substr({column}, 8) ELSE {column} END"

    def hex_sql(self, column: str) -> str:
        return f"lower(hex({column}))"

    def holds_sql(self, column: str, kind: str) -> str:  # noqa: ARG002 - it compares as it is
        return f"instr({column}, ?) > 0"

    def remark_sql(self, remarks: str, key: str, part: str) -> str:
        extract = f"json_extract(value, '$.{part}')"
        return f"(SELECT {extract} FROM json_each({remarks}) WHERE key = {key})"

    def chunk_sql(self, result: str, chunk: int, at: int) -> str:
        rows = f"FROM chunks c WHERE c.result = {result} AND c.chunk = {chunk}"
        return f"(SELECT json_extract(c.doc, '$[{at}]') {rows})"

    def value_sql(self, forms: Form, sql: Mapping[str, str]) -> tuple[str, str]:
        parts = [sql[part] for part in ("v", "chunk", "series") if part in sql]
        value = f"coalesce({', '.join(parts)})" if len(parts) > 1 else (parts or ["NULL"])[0]
        return value, "" if forms else "none"

    def read_clock(self, cursor: Cursor) -> float:  # noqa: ARG002 - SQLite asks the same clock
        return time()

    def conflicts(self, error: Exception) -> bool:
        return isinstance(error, self._driver.IntegrityError)

    def lost(self, error: Exception) -> bool:  # noqa: ARG002 - a file has no line to lose
        return False

    def explain(self, error: Exception) -> ZenError:
        message = str(error)
        match message:
            case s if "locked" in s or "busy" in s:
                return self._locked()
            case s if "disk is full" in s or "disk I/O error" in s:
                return RecordError(
                    f"cannot write to {self.location}: {message}",
                    hint="make room on the disk and run again: what was recorded is kept",
                )
            case s if "malformed" in s or "not a database" in s:
                return RecordError(
                    f"{self.location} is damaged: {message}",
                    hint="`zen db check` lists the damage; `zen db salvage` saves all readable "
                    "data",
                )
            case s if "readonly" in s or "unable to open" in s:
                return RecordError(
                    f"cannot open {self.location} for writing: {message}",
                    hint="may you write to the file and its folder?",
                )
        return RecordError(f"{self.location}: {message}")

    def _locked(self) -> ZenError:
        holders = lock_holders([self.path, Path(f"{self.path}-shm")])
        holders_text = " and ".join(f"process {pid} ({name})" for pid, name in holders)
        return RecordError(
            f"{self.location} has been locked for {self._wait:g} seconds"
            + (f" by {holders_text}" if holders_text else ""),
            hint="wait until it is done or stop it; ZENTURIO_DB_WAIT=SECONDS waits longer",
        )
