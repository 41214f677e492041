"""What a study has at one moment: its views, their columns, how many results."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from zenturio.errors import (
    ExpressionError,
    InputError,
    NotFoundError,
    Place,
    RecordError,
    did_you_mean,
)
from zenturio.experiment.experiment import UNKNOWN_KIND
from zenturio.expression import Type, Value
from zenturio.query.sql_fragments import (
    DIALECTS,
    Dialect,
    Fragment,
    literal,
    quote_name,
    sql,
    verbatim,
)
from zenturio.query.sql_writer import register_functions
from zenturio.record import EXPERIMENT_STATES, SEED_KIND, Repository, codec
from zenturio.record.codec import Form
from zenturio.record.entities import NEWEST, RowChoice, RowFilter, check_round, machine_named
from zenturio.record.sql_names import with_parts

if TYPE_CHECKING:
    from zenturio.record.database import Connections
    from zenturio.record.field_layout import StoredField


# Statements of one answer must see one moment: SQLite pins its snapshot at the first read of a
# transaction, PostgreSQL only at this isolation level.
_BEGIN: dict[Dialect, str] = {
    "sqlite": "BEGIN",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}

_OUT_OF_RANGE = "22003"
"""SQLSTATE of numbers that are too large, or too small."""
_FETCHED = 5000
"""Rows that are taken from the database at a time."""


class SnapshotReader:
    """Answers questions, all about the same moment."""

    def __init__(self, cursor: Any, dialect: Dialect, repository: Any) -> None:
        self.dialect = dialect
        self.repository = repository
        """Says what the fields of a study are: one in a database."""
        self.views: dict[str, Callable[[str], str]] = {}
        """What the views are that statements may name, for a statement."""
        self._cursor = cursor
        self._place = repository.location

    def rows(self, statement: Fragment) -> list[tuple[Any, ...]]:
        """What *statement* answers."""
        text, values = statement.bound(self.dialect)
        return self.fetch(text, values, statement.place)

    def fetch(
        self, text: str, values: Sequence[Value] = (), place: Place | None = None
    ) -> list[tuple[Any, ...]]:
        """What *text* answers, with *values* at its marks; *place* is of the expression in it."""
        text = self._with_views(text, escaped=bool(values))
        with self._explaining(place):
            self._cursor.execute(text, *([values] if values else []))
            rows: list[tuple[Any, ...]] = self._cursor.fetchall()
        return rows

    def each(self, statement: Fragment) -> Iterator[tuple[Any, ...]]:
        """What *statement* answers, row by row: not all of it is held at once."""
        text, values = statement.bound(self.dialect)
        text = self._with_views(text, escaped=bool(values))
        with self._explaining(statement.place):
            self._cursor.execute(text, *([values] if values else []))
            while rows := self._cursor.fetchmany(_FETCHED):
                yield from rows

    def batches(self, text: str) -> Iterator[list[tuple[Any, ...]]]:
        """What *text* answers, many rows at a time; nothing else is asked meanwhile."""
        with self._explaining(None):
            self._cursor.execute(text)
            while rows := self._cursor.fetchmany(_FETCHED):
                yield rows

    def _with_views(self, text: str, *, escaped: bool) -> str:
        """*text* behind what the views are that it names: the database need not have them."""
        parts = []
        for view, source in self.views.items():
            doubled = escaped and self.dialect == "postgresql"
            written = quote_name(view).replace("%", "%%") if doubled else quote_name(view)
            if written in text:
                rows = source(text)
                rows = rows.replace("%", "%%") if doubled else rows
                # Materialized, the whole study would be copied before a condition or an index could
                # help.
                parts.append(f"{written} AS NOT MATERIALIZED ({rows})")
        return with_parts(text, parts)

    @contextmanager
    def _explaining(self, place: Place | None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not isinstance(error, _driver_errors()):
                raise
            if place is not None and getattr(error, "sqlstate", None) == _OUT_OF_RANGE:
                raise ExpressionError(
                    "for some experiment this exceeds the range of PostgreSQL's numbers: "
                    f"{_message(error)}",
                    place=place,
                    hint="test the operands first, as in x < 1e100 and x * x > 1",
                ) from error
            raise RecordError(f"{self._place}: {_message(error)}") from error


def connections_of(repository: Repository) -> Connections:
    """Return the connections of *repository*; InputError if that keeps its rows in no database."""
    connections: Connections | None = getattr(repository, "connections", None)
    if connections is None:
        raise InputError(
            f"{repository.location} is not a database: nothing can be queried there",
            hint="run with a database: ZENTURIO_DB=path/to/file.db",
        )
    return connections


@contextmanager
def open_snapshot(repository: Repository) -> Iterator[SnapshotReader]:
    """A reader of *repository*; InputError if that keeps its rows in no database."""
    connection = connections_of(repository).raw_connection()
    dialect: Dialect = cast("Any", repository).dialect
    try:
        cursor = connection.cursor()
        if dialect == "sqlite":
            register_functions(connection.driver_connection)
        cursor.execute(_BEGIN[dialect])
        yield SnapshotReader(cursor, dialect, repository)
    finally:
        # The connection may be broken already; closing it must still be tried.
        with suppress(Exception):
            connection.cursor().execute("ROLLBACK")
        connection.close()


def _driver_errors() -> tuple[type[Exception], ...]:
    """What the drivers raise, for those that are loaded."""
    modules = ("sqlite3", "pysqlite3.dbapi2", "psycopg")
    return tuple(sys.modules[name].Error for name in modules if name in sys.modules)


def _message(error: Exception) -> str:
    return " ".join(str(error).split())


ResultCounts = tuple[dict[str, int], RowFilter, frozenset[int], frozenset[int]]
"""Results by status, which ones these are, their kinds of machine, their rounds."""


def count_results(reader: SnapshotReader, version: int, choice: RowChoice) -> ResultCounts:
    """Count the results of *choice*; InputError where no kind of machine or round it names has any.

    The study's counters tell, unless only the newest of several rounds are chosen.
    """
    rows = [
        (status, int(machine), int(number), int(count))
        for status, machine, number, count in reader.fetch(
            "SELECT status, machine, round, count FROM counters"  # noqa: S608 - a number
            f" WHERE version = {version} AND count <> 0"
        )
    ]
    machine = _machine(reader, choice.machine, {row[1] for row in rows}) if choice.machine else None
    check_round(choice.round, {row[2] for row in rows})
    chosen = [row for row in rows if machine in (None, row[1]) and _of_round(choice, row[2])]
    row_filter = RowFilter(machine, choice.round)
    rounds = {row[2] for row in chosen}
    counts: dict[str, int] = dict.fromkeys(EXPERIMENT_STATES, 0)
    # Counters count every result of a round; which of them are the newest only the rows tell.
    if choice.round == "newest" and len(rounds) > 1:
        newest = reader.fetch(
            "SELECT e.status, count(*) FROM results e"  # noqa: S608 - numbers
            f" WHERE e.version = {version}{row_filter.conditions} GROUP BY e.status"
        )
        counts |= {status: int(count) for status, count in newest}
    else:
        for status, _, _, count in chosen:
            counts[status] += count
    return counts, row_filter, frozenset(row[1] for row in chosen), frozenset(rounds)


def _of_round(choice: RowChoice, number: int) -> bool:
    return not isinstance(choice.round, int) or choice.round == number


def _machine(reader: SnapshotReader, text: str, numbers: set[int]) -> int:
    """Return the number of the kind of machine that *text* means, among those with results."""
    listed = ", ".join(map(str, sorted(numbers))) or "0"
    machines = reader.fetch(f"SELECT id, label FROM machines WHERE id IN ({listed})")  # noqa: S608 - numbers
    labels = {codec.unescape(label): int(number) for number, label in machines}
    if 0 in numbers:
        labels[UNKNOWN_KIND] = 0
    return labels[machine_named(text, labels)]


MANY_COLUMNS = 1500
"""Of a study with more fields, a statement asks for those that it names."""

Role = Literal["parameter", "seed", "metric", "fact"]
"""A seed differs run by run of one point: it is shown beside the parameters, and is none."""

ROW = "r"
"""What the view is called in every statement."""

_FACTS: dict[str, Type] = {
    "digest": "str",
    "index": "int",
    "repeat": "int",
    "round": "int",
    "machine": "str",
    "status": "str",
    "cause": "str",
    "host": "str",
    "attempt": "int",
    "started": "real",
    "ended": "real",
    "exit": "int",
    "remarks": "str",
    "host_cpu": "str",
    "host_cores": "int",
    "host_memory": "int",
    "host_kernel": "str",
    "host_load": "real",
    "run_order": "str",
    "run_block": "int",
    "run_turn": "int",
    "host_runnable": "int",
    "host_delay": "real",
    "host_others": "real",
    "host_pressure": "real",
    "host_steal": "real",
    "host_mhz": "real",
    "host_governor": "str",
    "host_slots": "int",
    "host_cpus": "int",
    "host_pinned": "str",
    "host_slots_start": "int",
    "host_slots_end": "int",
    "host_load_end": "real",
    "host_mhz_end": "real",
    "host_celsius": "real",
    "host_celsius_end": "real",
    "host_throttled": "int",
    "host_memory_pressure": "real",
    "host_gpu_mhz": "real",
    "host_gpu_mhz_end": "real",
    "host_unmeasured": "str",
}

DIGITS: dict[Dialect, str] = {
    "sqlite": (
        "(SELECT json_extract(value, '$.int')"  # noqa: S608 - names alone
        f' FROM json_each({ROW}."remarks") WHERE key = {{key}})'
    ),
    "postgresql": f"({ROW}.\"remarks\"::json -> {{key}} ->> 'int')",
}
"""Where the remarks of a row have the digits of an integer, by the key of its field."""
_IS_WIDE = re.compile("-?[0-9]{16,}")
"""Digits of an integer beyond 53 bits; reals as large have an exponent."""
_NAMED = re.compile(rf'(?={ROW}\.("(?:[^"]|"")*"))')
"""Columns that a statement names: looked for at each place, for a text may have half of one."""
_NUMBERS = Form.REAL | Form.INTEGER | Form.BIG
_TYPES: dict[Form, Type] = {Form.TEXT: "str", Form.TRUTH: "bool"}


def hint_without_values(study: str) -> str:
    """Return what to do about a metric that no experiment of *study* has."""
    return (
        f"zen extract {study} finds metrics that were declared after the run; zen show EXPERIMENT"
        " says why one is missing"
    )


@dataclass(frozen=True, slots=True)
class StudyColumn:
    """A column of a study's views."""

    name: str
    """As the user named it."""
    view: str
    """As the view names it, which differs where the database cannot."""
    role: Role
    type: Type | None
    forms: Form
    """What its values are stored as; none while there is no value."""
    unit: str = ""

    @property
    def mixed(self) -> bool:
        """Whether its values are of several kinds, so that a database cannot compute with them."""
        return self.type is None and bool(self.forms)

    @property
    def lacks_values(self) -> bool:
        """Whether it is a metric that no experiment has."""
        return self.role == "metric" and self.type is None and not self.forms

    @property
    def wide(self) -> bool:
        """Whether some of its values are integers beyond 63 bits: SQLite has reals near them."""
        return bool(self.forms & Form.BIG)

    @property
    def number(self) -> bool:
        return self.type in ("int", "real")

    def sql(self) -> str:
        """Return the column in a statement."""
        return f"{ROW}.{quote_name(self.view)}"

    def fragment(self, dialect: Dialect) -> Fragment:
        """Return the column in a computation."""
        if self.role == "metric" and not self.forms:
            return Fragment(("NULL",), self.type, short=True)
        fragment = DIALECTS[dialect].column(self.sql(), self.type)
        is_exact = not self.wide or (dialect == "postgresql" and self.type == "int")
        return fragment if is_exact else replace(fragment, digits=self.digits(dialect))

    def digits(self, dialect: Dialect) -> Fragment:
        """Return the digits of its integers beyond 63 bits, as text; NULL for other values."""
        key = literal(codec.remark_key(self.role, self.name), dialect)
        return Fragment((DIGITS[dialect].replace("{key}", key),), "str", short=True)

    def exact(self, dialect: Dialect) -> Fragment:
        """The column such that different values are different, to group by: see ``value``."""
        if not self.wide or (dialect == "postgresql" and self.type == "int"):
            return Fragment((self.sql(),), self.type)
        plain = self.sql() if dialect == "sqlite" else f"{self.sql()}::text"
        return sql("coalesce({}, {})", self.digits(dialect), verbatim(plain))

    def value(self, stored: Any) -> Any:
        """Return a value that the database gave, as it was recorded.

        RecordError for a text that is no number: SQLite keeps any text in any column.
        """
        if stored is None:
            return None
        if self.type == "bool":
            return bool(stored)
        if isinstance(stored, Decimal):
            return int(stored) if self.type == "int" else float(stored)
        if self.type == "int" and isinstance(stored, float):
            return int(stored) if math.isfinite(stored) else stored
        if self.number and isinstance(stored, str):
            with codec.decoding():
                is_whole = self.type == "int" or _IS_WIDE.fullmatch(stored)
                return int(stored) if is_whole else float(stored)
        return stored


@dataclass(frozen=True)
class Catalog:
    """A study as queries see it."""

    study: str
    view: str
    view_all: str
    columns: Mapping[str, StudyColumn]
    facts: Mapping[str, StudyColumn]
    """What every study has, by the names that are usual: another one holds where it is taken."""
    counts: Mapping[str, int]
    """Results by their status."""
    rows: RowFilter
    """Which results statements see."""
    machines: frozenset[int]
    """The kinds of machine that have such results, by their numbers."""
    rounds: frozenset[int]
    """The rounds that may have such results."""
    version: int = 0
    """The number of the version."""
    fields: tuple[StoredField, ...] = ()
    """Where the values of its columns stand."""

    @property
    def total(self) -> int:
        """All results that statements see."""
        return sum(self.counts.values())

    @property
    def countable(self) -> int:
        """The experiments that can have a result: what runs to warm up has none."""
        return self.total - self.counts["warmup"]

    @property
    def has_several(self) -> bool:
        """Whether an experiment may have several such results."""
        return len(self.machines) > 1 or (self.rows.round == "all" and len(self.rounds) > 1)

    @property
    def noun(self) -> str:
        """What a row is."""
        return "results" if self.has_several else "experiments"

    @cached_property
    def parameters(self) -> tuple[StudyColumn, ...]:
        return tuple(c for c in self.columns.values() if c.role == "parameter")

    @cached_property
    def seeds(self) -> tuple[StudyColumn, ...]:
        return tuple(c for c in self.columns.values() if c.role == "seed")

    @cached_property
    def metrics(self) -> tuple[StudyColumn, ...]:
        return tuple(c for c in self.columns.values() if c.role == "metric")

    def column(self, column: str) -> StudyColumn:
        """Return the column of that name; NotFoundError with the nearest ones."""
        if column not in self.columns:
            raise NotFoundError(
                f"study {self.study!r} has no column {column!r}",
                hint=did_you_mean(column, self.columns, in_order=True),
            )
        return self.columns[column]


def read_catalog(
    reader: SnapshotReader, study: str, choice: RowChoice = NEWEST, names: Collection[str] = ()
) -> Catalog:
    """Return the catalog of *study*; NotFoundError with the nearest names if there is none.

    It sees the results of *choice*; of every round, where the newest are meant and *names*, the
    columns that are asked for, have the round.
    """
    version, layout = reader.repository.version_and_layout(study)
    facts_of = version.study_facts
    columns, facts = _columns(layout.own_fields)
    whole = columns | {fact.name: fact for fact in facts.values() if fact.name not in columns}
    # Who asks for the round wants to compare rounds; the newest alone would always show one.
    if choice.round == "newest" and facts["round"].name in names:
        choice = replace(choice, round="all")
    catalog = Catalog(
        study,
        facts_of.view,
        facts_of.view_all,
        whole,
        facts,
        *count_results(reader, version.id, choice),
        version.id,
        tuple(layout.own_fields),
    )
    for view, larger in ((catalog.view, False), (catalog.view_all, True)):
        reader.views[view] = _source(reader, catalog, larger=larger)
    return catalog


def _source(reader: SnapshotReader, catalog: Catalog, *, larger: bool) -> Callable[[str], str]:
    """What a view is in a statement, which may use more fields than a view has columns."""

    def source(statement: str) -> str:
        names = used_columns(catalog, statement)
        rows: str = reader.repository.rows_sql(
            catalog.study, all_rows=larger, names=names, rows=catalog.rows
        )
        return rows

    return source


def used_columns(catalog: Catalog, statement: str) -> set[str] | None:
    """The columns that a statement names; None where a study has few, so that all will do."""
    recorded = [column for column in catalog.columns.values() if column.role != "fact"]
    if len(recorded) <= MANY_COLUMNS:
        return None
    named = set(_NAMED.findall(statement))
    return {column.view for column in recorded if quote_name(column.view) in named}


def key_names(catalog: Catalog) -> tuple[str, str, str]:
    """What position, repeat and number are called: as no column of the study is."""
    mark = "zen:"
    while any(column.view.startswith(mark) for column in catalog.columns.values()):
        mark += ":"
    return f"{mark}position", f"{mark}repeat", f"{mark}number"


def _columns(
    fields: Iterable[StoredField],
) -> tuple[dict[str, StudyColumn], dict[str, StudyColumn]]:
    """Return the fields in their order, and the facts that every study has."""
    columns: dict[str, StudyColumn] = {}
    for stored in sorted(fields, key=lambda stored_field: stored_field.number):
        field, forms = stored.field, stored.forms
        role = cast("Role", SEED_KIND if field.kind == SEED_KIND else stored.role)
        if field.name not in columns:  # a metric that is reported may be called like a parameter
            columns[field.name] = StudyColumn(
                field.name, stored.sql_name, role, _type(field.type, forms), forms, field.unit
            )
    facts = {}
    for fact, kind in _FACTS.items():
        shown = fact if fact not in columns else f"zen_{fact}"
        facts[fact] = StudyColumn(shown, fact, "fact", kind, Form(0))
    return columns, facts


def _type(declared: str | None, forms: Form) -> Type | None:
    """What all values are; none where they are of several kinds, or of one no slot holds."""
    if not forms:
        return cast("Type | None", declared)
    if not forms & ~_NUMBERS:
        return "real" if Form.REAL in forms else "int"
    return _TYPES.get(forms)
