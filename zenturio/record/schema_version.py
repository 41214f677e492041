"""The revision of a database's schema: checked at each opening; old ones are read for an upgrade.

A file that others made must not run code when it is used. A trigger is executed by our own writes,
a generated column or a CHECK by reads and writes of its table, an index of an expression by writes.
Our tables have none of these, so a file whose tables do was not made by zenturio. Views are left
alone: nothing of ours reads one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zenturio.errors import RecordError, ZenError
from zenturio.experiment.experiment import Log, Outcome
from zenturio.failpoints import Failpoint
from zenturio.record import codec
from zenturio.record.database import Database, DatabaseDialect, Row, Transaction
from zenturio.record.entities import Field
from zenturio.record.sql_names import REVISIONS, TABLES

_log = logging.getLogger(__name__)

# Repositories of revisions 0001 to 0003, which had a table of values for each study
#
# What stands here is fixed: it describes what earlier programs wrote. A field had a column for each
# form of its values (``r3``, ``i3``, ``t3``, ``b3`` for the field at position 3) in the order of
# their coming, and JSON for what no column held.

FILLED_ANEW = ("0001", "0002", "0003")
MIGRATING = "-moving"
"""Behind the revision of a repository that is being upgraded: older programs refuse it."""
OLD_TABLES = (
    "alembic_version", "artifacts", "attempts", "contents", "counters", "definitions", "events",
    "experiments", "fields", "hosts", "leases", "logs", "shares", "sources", "studies",
    "submissions",
)  # fmt: skip
"""Beside ``values_N`` for each study."""
RECORDED = ("ok", "failed", "timeout", "cancelled")
_LETTERS = {"r": 1, "i": 2, "t": 4, "b": 8}
"""The forms that have columns, as bits of a field's forms."""
_STATES = ", ".join(f"'{state}'" for state in RECORDED)
_EXPERIMENT = (
    "e.id, e.digest, e.state, e.attempt, e.driver, h.name, e.started, e.ended, e.exit, e.cause"
)
_STREAMS = "stdout_head, stdout_tail, stdout_size, stderr_head, stderr_tail, stderr_size"


@dataclass(frozen=True, slots=True)
class OldField:
    """A field, and its columns by their letters."""

    role: str
    field: Field
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OldStudy:
    """A study as its row says it was."""

    number: int
    name: str
    created: float
    fields: tuple[OldField, ...]


@dataclass(frozen=True, slots=True)
class OldRow:
    """An experiment of a study, with what that study has measured."""

    number: int
    digest: bytes
    state: str
    position: Any
    repeat: int
    driver: int
    values: Mapping[str, Any]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class OldAttempt:
    """An attempt that was not accepted."""

    experiment: int
    digest: bytes
    study: int
    driver: int
    state: str
    outcome: Outcome


def original_revision(revision: str) -> str:
    """Return the revision that a repository had before its upgrade began."""
    return revision.removesuffix(MIGRATING)


class LegacyRepositoryReader:
    """A repository of an earlier revision."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.mark = database.dialect.mark

    def sql(self, text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what *text* answers, with ``?`` for parameters."""
        query = text.replace("?", self.mark)
        return self.database.read(lambda transaction: transaction.sql(query, parameters))

    def among(self, text: str, column: str, keys: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the same with ``{among}``: *column* is one of *keys*."""
        return self.database.read(lambda t: Transaction.among_sql(t, text, column, keys))

    @cached_property
    def studies(self) -> dict[int, OldStudy]:
        """All studies by number."""
        fields: dict[int, list[OldField]] = {}
        for study, at, role, name, kind, unit, how_kind, how, forms in self.sql(
            "SELECT study, position, role, name, type, unit, kind, how, forms FROM fields"
            " ORDER BY study, position"
        ):
            facts = [codec.unescape(text) for text in (unit, how_kind, how)]
            columns = tuple(f"{letter}{at}" for letter, bit in _LETTERS.items() if forms & bit)
            field = Field(codec.unescape(name), kind, *facts)
            fields.setdefault(study, []).append(OldField(role, field, columns))
        rows = self.sql("SELECT id, name, created FROM studies ORDER BY id")
        return {
            number: OldStudy(number, name, created, tuple(fields.get(number, ())))
            for number, name, created in rows
        }

    def last_experiment(self, study: OldStudy | None = None) -> int:
        """Return the largest number of an experiment, of *study* or of all."""
        query = "SELECT coalesce(max(id), 0) FROM experiments"
        if study is None:
            return int(self.sql(query)[0][0])
        return int(self.sql(f"{query} WHERE study = ?", (study.number,))[0][0])

    def results(self, study: OldStudy, after: int, count: int) -> list[OldRow]:
        """Return the next *count* experiments that *study* added first and that have an outcome."""
        condition = f"e.study = ? AND e.id > ? AND e.state IN ({_STATES}) ORDER BY e.id LIMIT ?"
        return self._rows(study, condition, (study.number, after, count))

    def shared(self, study: OldStudy, after: int, count: int) -> list[OldRow]:
        """Return the same for experiments that another study has added first."""
        condition = (
            "e.id IN (SELECT experiment FROM shares WHERE study = ?) AND e.id > ?"
            f" AND e.state IN ({_STATES}) ORDER BY e.id LIMIT ?"
        )
        return self._rows(study, condition, (study.number, after, count))

    def points(self, study: OldStudy, experiments: Sequence[int]) -> dict[int, OldRow]:
        """Return rows of *study* by the experiments' numbers, whatever their state."""
        rows = self.among(f"{self._select(study)} WHERE {{among}}", "e.id", experiments)
        return {row[0]: _row(study, row) for row in rows}

    def _rows(self, study: OldStudy, condition: str, parameters: Sequence[Any]) -> list[OldRow]:
        rows = self.sql(f"{self._select(study)} WHERE {condition}", parameters)
        return [_row(study, row) for row in rows]

    def _select(self, study: OldStudy) -> str:
        columns = [column for field in study.fields for column in field.columns]
        more = "".join(f", v.{column}" for column in columns)
        return (
            f"SELECT {_EXPERIMENT}, v.position, v.repeat, v.other_values, v.other_metrics{more}"
            f" FROM experiments e JOIN values_{study.number} v ON v.experiment = e.id"
            " LEFT JOIN hosts h ON h.id = e.host"
        )

    def attempts(self, after: int, count: int) -> list[OldAttempt]:
        """Return all attempts at the next *count* experiments that have unaccepted ones."""
        rows = self.sql(
            "SELECT a.experiment, e.digest, e.study, a.driver, a.state, a.number, h.name,"
            " a.started, a.ended, a.exit, a.cause, a.metrics FROM attempts a"
            " JOIN experiments e ON e.id = a.experiment LEFT JOIN hosts h ON h.id = a.host"
            " WHERE a.experiment IN (SELECT DISTINCT experiment FROM attempts WHERE experiment > ?"
            " ORDER BY experiment LIMIT ?) ORDER BY a.experiment, a.number, a.driver",
            (after, count),
        )
        return [
            OldAttempt(
                experiment, bytes(digest), study, driver, state,
                _old_outcome((digest, state, number, host, *facts), codec.load_values(metrics)),
            )
            for experiment, digest, study, driver, state, number, host, *facts, metrics in rows
        ]  # fmt: skip

    def running(self) -> list[OldAttempt]:
        """Attempts whose drivers are gone, and which no other driver has taken over."""
        rows = self.sql(
            f"SELECT {_EXPERIMENT}, e.study FROM experiments e LEFT JOIN hosts h ON h.id = e.host"
            " WHERE e.state = 'running' ORDER BY e.id"
        )
        return [
            OldAttempt(
                number, bytes(digest), study, driver, "stale",
                _old_outcome((digest, "stale", attempt, host, *facts), {}),
            )
            for number, digest, _, attempt, driver, host, *facts, study in rows
        ]  # fmt: skip

    def logs(self, experiments: Sequence[int]) -> dict[tuple[int, int, int], tuple[Log, Log]]:
        """Return the logs of attempts, by experiment, number and driver."""
        rows = self.among(
            f"SELECT experiment, attempt, driver, {_STREAMS} FROM logs WHERE {{among}}",
            "experiment",
            experiments,
        )
        return {tuple(row[:3]): (_old_log(row[3:6]), _old_log(row[6:9])) for row in rows}

    def artifacts(
        self, experiments: Sequence[int]
    ) -> dict[tuple[int, int, int], list[tuple[str, int, str, str]]]:
        """Path, size, SHA-256 and place of the files that attempts left, in their order."""
        rows = self.among(
            "SELECT experiment, attempt, driver, id, path, size, sha256, kept FROM artifacts"
            " WHERE {among}",
            "experiment",
            experiments,
        )
        by_attempt: dict[tuple[int, int, int], list[tuple[str, int, str, str]]] = {}
        for experiment, attempt, driver, _, *facts in sorted(rows, key=lambda row: row[3]):
            by_attempt.setdefault((experiment, attempt, driver), []).append(tuple(facts))
        return by_attempt


def _row(study: OldStudy, row: Sequence[Any]) -> OldRow:
    number, digest, state, attempt, driver, host, *facts = row[:10]
    position, repeat, values, metrics, *cells = row[10:]
    read = {"parameter": codec.load_values(values), "metric": codec.load_values(metrics)}
    values_by_role: dict[str, dict[str, Any]] = {"parameter": {}, "metric": {}}
    remaining = iter(cells)
    for stored in study.fields:
        name, cells_of_field = stored.field.name, [(c[0], next(remaining)) for c in stored.columns]
        value = read[stored.role].get(name)
        for letter, cell in cells_of_field if value is None else ():
            if cell is not None:
                value = bool(cell) if letter == "b" else cell
        if value is not None:
            values_by_role[stored.role][name] = value
    outcome = _old_outcome((digest, state, attempt, host, *facts), values_by_role["metric"])
    return OldRow(
        number,
        bytes(digest),
        state,
        position,
        repeat,
        driver or 0,
        values_by_role["parameter"],
        outcome,
    )


def _old_outcome(facts: Sequence[Any], metrics: Mapping[str, Any]) -> Outcome:
    digest, state, attempt, host, started, ended, exit_code, cause = facts
    return Outcome(
        bytes(digest).hex(), state, codec.unescape(cause), metrics, attempt,
        codec.unescape(host), started, ended, exit_code,
    )  # fmt: skip


def _old_log(parts: Sequence[Any]) -> Log:
    head, tail, size = parts
    return Log(bytes(head), bytes(tail), size)


# The revision of a database

_PARTS = (
    "SELECT type, name, tbl_name, substr(sql, 1, 100000) FROM sqlite_master"
    " WHERE type <> 'view' AND sql IS NOT NULL"
)
_GENERATED = re.compile(r"\b(GENERATED|AS|VIRTUAL)\b", re.IGNORECASE)
_CODE_IN_TABLE = re.compile(
    r"\b(CHECK|GENERATED|AS|DEFAULT|COLLATE|REFERENCES|CONFLICT|WITHOUT|VIRTUAL)\b", re.IGNORECASE
)
"""Words of a CREATE TABLE behind which functions, or what others define, may stand."""
_PLAIN_INDEX = re.compile(
    r'CREATE (?:UNIQUE )?INDEX (?:"[^"]*"|\w+) ON (?:"[^"]*"|\w+) \(["\w, ]*\)', re.IGNORECASE
)


def check_schema(
    parts: Iterable[Row], tables: frozenset[str], place: str, *, is_newest: bool
) -> None:
    """Raise RecordError if *tables* of a SQLite file execute something when they are used.

    *parts*: all of the schema. Tables of earlier revisions had references, checks and partial
    indexes.
    """
    code = _CODE_IN_TABLE if is_newest else _GENERATED
    for kind, name, table, text in parts:
        if table not in tables:
            continue
        sql = str(text)
        if kind == "trigger":
            obstacle = f"the trigger {name!r} on the table {table}"
        elif kind == "table" and (match := code.search(sql)):
            obstacle = f"{match[0].upper()} in the table {table}"
        elif is_newest and kind == "index" and not _PLAIN_INDEX.fullmatch(" ".join(sql.split())):
            obstacle = f"an expression in the index {name!r} of the table {table}"
        else:
            continue
        raise RecordError(
            f"{place} was changed by another program: it has {obstacle}",
            hint="remove this from the file if you added it; `zen db salvage` copies only the rows",
        )


FORMER = "digests of format 1"
"""The step of an upgrade that is never over, and the kind of the aliases of its results."""


def mark_upgraded(transaction: Transaction) -> None:
    """Note that results may be there under digests of an earlier format."""
    transaction.insert_new("upgrade", ("step", "done", "at"), [(FORMER, 0, transaction.now)])


CREATED = Failpoint("record.created")

_VERSION_TABLE = "alembic_version"
_OWN_TABLES = TABLES | frozenset(OLD_TABLES) | {_VERSION_TABLE}


def connect(dialect: DatabaseDialect, patience: float) -> Database:
    """Return the database, whose schema is the one that this program knows.

    An empty one gets the schema. RecordError if it has any other one; then nothing is changed.
    """
    is_missing = dialect.missing()
    if is_missing:
        dialect.prepare()
    database = Database(dialect, patience)
    with _closed_on_error(database):
        # Looked at first, and with modes untouched: the file may belong to another program.
        revision = None if is_missing else _checked_revision(database)
        if revision is None:
            if create(database):
                _log.info("created a database at %s", dialect.location)
                return database
            _checked_revision(database)  # of whoever was faster
        else:
            database.settle()
    _log.debug("opened the database at %s", dialect.location)
    return database


def _checked_revision(database: Database) -> str | None:
    """Return the revision of the schema, this program's, or None for an empty database."""
    revision = schema_revision(database)
    if revision not in {None, REVISIONS[-1]}:
        raise _wrong_revision(database.dialect.location, str(revision))
    return revision


@contextmanager
def _closed_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def schema_revision(database: Database) -> str | None:
    """Return the revision of the schema; None for an empty database.

    RecordError if the tables are not those of a repository.
    """
    return database.read(lambda transaction: _version(transaction, database))


def _version(transaction: Transaction, database: Database) -> str | None:
    is_file = transaction.dialect.name == "sqlite"
    parts = transaction.sql(_PARTS) if is_file else []
    names = (
        {name for kind, name, *_ in parts if kind == "table" and not name.startswith("sqlite_")}
        if is_file
        else _tables(transaction)
    )
    revision, former = _read_revision(transaction, names)
    is_newest = revision == REVISIONS[-1]
    check_schema(parts, _OWN_TABLES, database.dialect.location, is_newest=is_newest)
    if revision is None and names - {_VERSION_TABLE}:
        raise RecordError(
            f"{database.dialect.location} is a database, but not one of zenturio's",
            hint="choose another one with ZENTURIO_DB; in PostgreSQL a separate schema is "
            "enough: postgresql://…?options=-csearch_path%3DNAME",
        )
    if is_newest:
        _check_tables(names, database.dialect.location)
        database.has_former_digests = former
    return revision


def _read_revision(transaction: Transaction, tables: set[str]) -> tuple[str | None, bool]:
    """Return the revision that is noted, and whether results have digests of format 1."""
    if _VERSION_TABLE not in tables:
        return None, False
    mark = transaction.dialect.mark
    former = f"EXISTS (SELECT 1 FROM upgrade WHERE step = {mark})"
    query = f"SELECT version_num, {former if 'upgrade' in tables else 'false'}"
    parameters = (FORMER,) if "upgrade" in tables else ()
    rows = transaction.sql(f"{query} FROM {_VERSION_TABLE}", parameters)
    return (str(rows[0][0]), bool(rows[0][1])) if rows else (None, False)


def _check_tables(names: set[str], place: str) -> None:
    """Raise RecordError unless each table is one: a view in its place may never finish."""
    missing = sorted(TABLES - names)
    if missing:
        raise RecordError(
            f"{place} is damaged: it has no table {', '.join(missing)}",
            hint="`zen db salvage` saves what can be read; or restore a copy",
        )


def _tables(transaction: Transaction) -> set[str]:
    return {name for (name,) in transaction.sql(transaction.dialect.tables)}


def _create(transaction: Transaction) -> bool:
    """Create the whole schema; return false if another process has created it meanwhile."""
    # Of two processes at a time the server lets one create the first table; the other one waits
    # for its commit, is refused, and comes here once more. No lock that others could hold.
    if _tables(transaction) - {_VERSION_TABLE}:
        return False
    from zenturio.record import schema  # noqa: PLC0415 - it loads SQLAlchemy, for new databases alone

    for statement in schema.create_statements(transaction.dialect.name):
        transaction.sql(statement)
    CREATED()
    # Earlier versions used Alembic: its table keeps its name, so that they refuse this revision.
    transaction.sql(
        "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    transaction.sql("DELETE FROM alembic_version")
    transaction.insert("alembic_version", ("version_num",), [(REVISIONS[-1],)])
    return True


def _wrong_revision(place: str, present: str) -> ZenError:
    newest = REVISIONS[-1]
    if original_revision(present) in REVISIONS[:-1]:
        begun = " (an upgrade was interrupted)" if present.endswith(MIGRATING) else ""
        revision = f"{original_revision(present)}{begun}"
        return RecordError(
            f"{place} has the schema {revision}, and this program needs {newest}",
            hint="`zen db upgrade` upgrades it and keeps a copy of the old one",
        )
    return RecordError(
        f"{place} has the schema {present}, and this program supports schemas up to {newest}",
        hint="use the zenturio that wrote it, or a newer one; to go back to this one, restore"
        " the copy that the upgrade made",
    )


def upgradable_revision(dialect: DatabaseDialect, patience: float) -> str | None:
    """Return the revision of a database that can be upgraded; RecordError if it cannot."""
    database = Database(dialect, patience)
    with _closed_on_error(database):
        revision = schema_revision(database)
        if revision is not None and original_revision(revision) not in REVISIONS:
            raise _wrong_revision(dialect.location, revision)
    database.close()
    return revision


def create(database: Database) -> bool:
    """Create the tables of this revision in an empty database; return false if it has tables."""
    database.settle()
    return database.write(_create)
