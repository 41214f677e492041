"""Checks of a repository: its invariants, stored values, and the files of its artifacts.

SQLite keeps any value in any column, so the rows of a file that others made are not what its
tables say. Reading checks nothing (it would cost more than the reading itself); ``zen db check``
looks for such values, and so does an error that only they explain.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from sqlalchemy import Column, Double, Float, LargeBinary, Text
from sqlalchemy.sql.type_api import TypeEngine

from zenturio.errors import Diagnostic, ZenError
from zenturio.log_setup import work_progress
from zenturio.record import schema, studies
from zenturio.record.artifact_store import ArtifactStore, has_content
from zenturio.record.codec import Form, unescape
from zenturio.record.database import Database, Transaction, opened_databases
from zenturio.record.entities import OUTCOME_STATES
from zenturio.record.field_layout import FieldLocation
from zenturio.record.result_rows import artifact_of
from zenturio.record.sqlite import SQLite

_LATEST = 253402300800
"""Seconds since 1970 at the end of the year 9999: no time is later."""
_LARGEST_INTEGER = 2**53
_PART = 100_000
"""Rows that are looked at in one statement, so that progress is shown."""
_LARGEST_TEXT = 64_000_000
"""Characters or bytes of a value."""
_TIMES = frozenset({"at", "began", "begun", "born", "created", "ended", "opened", "since",
                    "started", "submitted", "until"})  # fmt: skip
_DIGESTS = {
    ("results", "digest"),
    ("attempts", "digest"),
    ("claims", "digest"),
    ("aliases", "digest"),
    ("artifacts", "content"),
    ("sources", "content"),
    ("contents", "digest"),
}
_JSON = {("versions", "members"), ("definitions", "document"), ("recipes", "document"),
         ("chunks", "doc"), ("results", "remarks"), ("attempts", "metrics"),
         ("machines", "accelerators")}  # fmt: skip
_DOMAINS = {
    ("fields", "role"): "{} IN ('parameter', 'metric')",
    ("fields", "forms"): "{} BETWEEN 0 AND 63",
    ("fields", "place"): "{} NOT GLOB '*[^bcv:,0-9]*'",
}
_POSITION = (
    "(typeof({0}) = 'integer' OR {0} GLOB '[0-9][0-9][0-9][0-9][0-9][0-9]:*'"
    " AND length({0}) > 7 AND substr({0}, 8) NOT GLOB '*[^0-9-]*')"
)
_FORM_KINDS = {
    Form.REAL: "real",
    Form.BIG: "real",
    Form.INTEGER: "integer",
    Form.TRUTH: "integer",
    Form.TEXT: "text",
}
# The length of a number is that of its text, which takes long to write: so numbers come first.
_SHORT = "(typeof({0}) IN ('integer', 'real') OR length({0}) <= " + f"{_LARGEST_TEXT})"
_SLOT = f"(typeof({{0}}) <> 'blob' AND {_SHORT})"
_SLOT_GROUP = 8
"""Slots of which a row that has none of them is looked at once."""


def foreign_values(
    transaction: Transaction, most: int = 20, step: Callable[[int], None] = lambda _rows: None
) -> list[str]:
    """Return what is wrong with values of a SQLite file, in words; at most so many."""
    messages: list[str] = []
    for table in schema.tables_of("sqlite"):
        # All columns in one pass, some rows at a time; only where a value is wrong, one by one.
        if all(_is_sound(transaction, table.name, table.columns, step)):
            continue
        for column in table.columns:
            if len(messages) >= most:
                return messages
            messages += _of_column(transaction, table.name, column)
    return messages


def _is_sound(
    transaction: Transaction,
    table: str,
    columns: Iterable[Column[object]],
    step: Callable[[int], None],
) -> Iterator[bool]:
    """Whether all values are such that a program of ours may have written them, part by part."""
    met = " AND ".join(_grouped_conditions(table, [*columns]))
    ((last,),) = transaction.sql(f"SELECT max(rowid) FROM {table}")  # both at once read all rows
    ((first,),) = transaction.sql(f"SELECT min(rowid) FROM {table}")
    while first is not None:
        end = min(first + _PART - 1, last)
        among = f"rowid BETWEEN {first} AND {end}"
        query = f"SELECT 1 FROM {table} NOT INDEXED WHERE {among} AND NOT ({met}) LIMIT 1"
        yield not transaction.sql(query)
        step(end - first + 1)
        # Numbers may lie far apart in a file that was changed: the gap is not walked through.
        ((first,),) = transaction.sql(f"SELECT min(rowid) FROM {table} WHERE rowid > {end}")


def _grouped_conditions(table: str, columns: Sequence[Column[object]]) -> Iterator[str]:
    """Return the conditions on a row, in groups: most rows leave most slots empty."""
    slots = [column for column in columns if _is_slot(table, column.name)]
    for column in columns:
        if column not in slots:
            yield _condition(table, column)
    for group in (slots[at : at + _SLOT_GROUP] for at in range(0, len(slots), _SLOT_GROUP)):
        names = ", ".join(column.name for column in group)
        met = " AND ".join(_condition(table, column) for column in group)
        yield f"(coalesce({names}, NULL) IS NULL OR {met})"


def _condition(table: str, column: Column[object]) -> str:
    """Return the conditions on a row, in groups: most slots of most rows are empty."""
    conditions = " AND ".join(_conditions(table, column))
    return f'("{column.name}" IS NULL OR {conditions})' if column.nullable else f"({conditions})"


def foreign_slots(transaction: Transaction) -> Iterator[str]:
    """Values in slots that are of no form that their field ever had, in words.

    For a file without ``foreign_values``.
    """
    tests: dict[int, list[tuple[str, str, str]]] = {}
    for study, name, text, number in transaction.sql(
        "SELECT study, name, place, forms FROM fields ORDER BY study, number"
    ):
        try:
            place, forms = FieldLocation.parse(text), Form(number)
        except (ZenError, ValueError):
            yield f"the place of the field {name!r} is none: {text[:40]!r}"
            continue
        kinds = {kind for form, kind in _FORM_KINDS.items() if form in forms}
        listed = ", ".join(map(repr, sorted(kinds | {"null"})))
        tests.setdefault(study, []).extend(
            (name, slot, f"typeof({slot}) NOT IN ({listed})") for slot in place.slots
        )
    for study, slots in tests.items():
        rows = "FROM results WHERE version IN (SELECT id FROM versions WHERE study = ?)"
        is_wrong = " OR ".join(test for *_, test in slots) or "0"
        if not transaction.sql(f"SELECT 1 {rows} AND ({is_wrong}) LIMIT 1", (study,)):
            continue
        heads = ", ".join(f"coalesce(sum({test}), 0)" for *_, test in slots)
        ((*counts,),) = transaction.sql(f"SELECT {heads} {rows}", (study,))
        for (name, slot, _), count in zip(slots, counts, strict=True):
            if count:
                yield f"{count} values of the field {name!r} ({slot}) are of no type that it has"


def _of_column(transaction: Transaction, table: str, column: Column[object]) -> Iterator[str]:
    name = f'"{column.name}"'
    rows: Sequence[Sequence[object]] = transaction.sql(
        f"SELECT typeof({name}), count(*) FROM {table} NOT INDEXED"
        f" WHERE NOT {_condition(table, column)} GROUP BY 1"
    )
    for kind, count in rows:
        yield f"{count} values of {table}.{column.name} are no such value ({kind})"


def _conditions(table: str, column: Column[object]) -> Iterator[str]:
    """Return the conditions on each value of a column."""
    name = f'"{column.name}"'
    key = (table, column.name)
    kinds = _kinds(column.type, table, column.name)
    if not kinds:
        yield _SLOT.format(name)
        return
    yield f"typeof({name}) IN ({', '.join(map(repr, kinds))})"
    if "text" in kinds or "blob" in kinds:
        yield _SHORT.format(name) if len(kinds) > 1 else f"length({name}) <= {_LARGEST_TEXT}"
    if column.name in _TIMES and "real" in kinds:
        yield f"{name} BETWEEN 0 AND {_LATEST}"
    elif kinds == ("integer",):
        yield f"{name} BETWEEN -{_LARGEST_INTEGER} AND {_LARGEST_INTEGER}"
    if key in _DIGESTS:
        yield f"length({name}) IN (16, 32)"
    if key in _JSON:
        yield f"json_valid({name})"
    if column.name == "position":
        yield _POSITION.format(name)
    if key in _DOMAINS:
        yield _DOMAINS[key].format(name)


def _kinds(kind: TypeEngine[object], table: str, name: str) -> tuple[str, ...]:
    """Return the types that SQLite may give a value; none where any number or text will do."""
    if _is_slot(table, name):
        return ()
    if name == "position":  # beyond 63 bits it is written as a text
        return "integer", "text"
    if isinstance(kind, Text):
        return ("text",)
    if isinstance(kind, LargeBinary):
        return ("blob",)
    if isinstance(kind, Float | Double):
        return "real", "integer"
    return ("integer",)


def _is_slot(table: str, name: str) -> bool:
    return table == "results" and name[:1] == "v" and name[1:].isdigit()


_STATES = ", ".join(f"'{state}'" for state in sorted(OUTCOME_STATES))
_MISSING = "NOT EXISTS (SELECT 1 FROM {table} o WHERE o.{column} = t.{own})"


def _lost(table: str, reference: str, *targets: tuple[str, str]) -> str:
    """Return a query that counts rows of *table* whose *reference* no target column holds."""
    nowhere = " AND ".join(
        _MISSING.format(table=target, column=column, own=reference) for target, column in targets
    )
    return f"SELECT count(*) FROM {table} t WHERE {nowhere}"


_TRIED = (("results", "id"), ("attempts", "id"), ("claims", "id"), ("copies", "source"))

_LAWS = {
    "results in an unknown state": (
        f"SELECT count(*) FROM results WHERE status NOT IN ({_STATES})"
    ),
    "results without an attempt": "SELECT count(*) FROM results WHERE attempt < 1",
    "results whose mark as the newest contradicts their rounds": (
        "SELECT count(*) FROM results t WHERE (newest = 1) = EXISTS (SELECT 1 FROM results o"
        " WHERE o.digest = t.digest AND o.version = t.version AND o.round > t.round"
        " AND (o.machine = t.machine OR t.machine = 0))"
    ),
    "results of rounds that do not exist": (
        "SELECT count(*) FROM results t WHERE round > 1 AND NOT EXISTS"
        " (SELECT 1 FROM rounds o WHERE o.version = t.version AND o.number = t.round)"
    ),
    "claims of drivers that have no lease": (
        "SELECT count(*) FROM claims t WHERE NOT EXISTS"
        " (SELECT 1 FROM leases o WHERE o.id = t.lease AND o.ended IS NULL)"
    ),
    # What other versions or kinds of machine have measured may be claimed: `leases.usable_results`.
    "claims on experiments that their driver has recorded": (
        "SELECT count(*) FROM claims t WHERE EXISTS (SELECT 1 FROM results o WHERE"
        " o.digest = t.digest AND o.round = t.round AND o.version = t.version"
        " AND o.lease = t.lease AND o.attempt = t.attempt)"
    ),
    "duplicate numbers of attempts": (
        "SELECT count(*) FROM attempts t WHERE EXISTS (SELECT 1 FROM results o WHERE o.id = t.id)"
        " OR EXISTS (SELECT 1 FROM claims o WHERE o.id = t.id)"
    ),
    **{
        f"{table} of versions that are not there": (
            f"{_lost(table, 'version', ('versions', 'id'))} AND t.version <> {studies.NO_VERSION}"
        )
        for table in (
            "results", "claims", "attempts", "leases", "definitions", "recipes", "events",
            "counters", "edits", "rounds",
        )
    },
    "versions of studies that are not there": _lost("versions", "study", ("studies", "id")),
    "fields of studies that are not there": _lost("fields", "study", ("studies", "id")),
    "studies whose present version is not there": (
        "SELECT count(*) FROM studies t WHERE current > 0 AND NOT EXISTS"
        " (SELECT 1 FROM versions o WHERE o.id = t.current AND o.study = t.id)"
    ),
    "chunks of results that are not there": _lost("chunks", "result", ("results", "id")),
    "copies that are not there": _lost("copies", "result", ("results", "id"), ("attempts", "id")),
    "aliases of results that are not there": _lost("aliases", "result", ("results", "id")),
    **{
        f"{table} of attempts that are not there": _lost(table, "attempt", *_TRIED)
        for table in ("logs", "artifacts", "conditions")
    },
    "artifacts whose content is not known": _lost("artifacts", "content", ("contents", "digest")),
    "sources whose content is not known": _lost("sources", "content", ("contents", "digest")),
    "sources of definitions that are not there": _lost(
        "sources", "definition", ("definitions", "id")
    ),
    "results of hosts that are not known": _lost("results", "host", ("hosts", "id")),
    "results of machines that are not known": (
        f"{_lost('results', 'machine', ('machines', 'id'))} AND t.machine <> 0"
    ),
}  # fmt: skip

_COUNTED = "SELECT version, machine, round, status, count FROM counters WHERE count <> 0"
_COUNT = "SELECT version, machine, round, status, count(*) FROM results GROUP BY 1, 2, 3, 4"


Step = Callable[[int, int], None]
"""Told how much of how much is done, counted in rows that are read."""


def check_consistency(database: Database, step: Step = lambda _done, _total: None) -> list[str]:
    """Return everything that is wrong, in words.

    Each row is read a fixed number of times, by index or in the order of its table: the time grows
    with the rows. A KeyboardInterrupt ends it between two parts, or within a statement.
    """
    return database.read(lambda transaction: list(_found(transaction, step)))


def _found(transaction: Transaction, step: Step) -> Iterator[str]:
    with transaction.interruptible():
        yield from _findings(transaction, _Work(step, _rows_of_tables(transaction)))


class _Work:
    """How far a check is: each statement counts as the rows of the table that it reads."""

    def __init__(self, step: Step, rows: Mapping[str, int]) -> None:
        self._step = step
        self._rows = rows
        self._done = 0
        laws = sum(self.rows_read(statement) for statement in _LAWS.values())
        self._total = max(3 * sum(rows.values()) + 2 * rows.get("results", 0) + laws, 1)

    @property
    def all_rows(self) -> int:
        return sum(self._rows.values())

    def rows_read(self, statement: str) -> int:
        """Return the rows of the table that a law is about."""
        return self._rows.get(statement.split(" FROM ", 1)[1].split(maxsplit=1)[0], 0)

    def add(self, rows: int) -> None:
        self._done = min(self._done + rows, self._total)
        self._step(self._done, self._total)


def _rows_of_tables(transaction: Transaction) -> dict[str, int]:
    """About how many rows each table has."""
    if transaction.dialect.name == "postgresql":
        query = (
            "SELECT relname, greatest(reltuples, 0)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return {name: int(count) for name, count in transaction.sql(query)}
    rows = {}
    for table in schema.tables_of("sqlite"):
        query = f"SELECT coalesce(max(rowid), 0) FROM {table.name}"
        ((rows[table.name],),) = transaction.sql(query)
    return rows


def _findings(transaction: Transaction, work: _Work) -> Iterator[str]:
    for (message,) in transaction.sql(transaction.dialect.self_check):
        if message != "ok":
            yield str(message)
    work.add(2 * work.all_rows)
    if transaction.dialect.name == "sqlite":
        if foreign := foreign_values(transaction, step=work.add):
            yield from foreign
            return  # what follows reads these values
        yield from foreign_slots(transaction)
    for law, statement in _LAWS.items():
        ((count,),) = transaction.sql(statement)
        if count:
            yield f"{count} {law}"
        work.add(work.rows_read(statement))
    yield from _counters(transaction)
    yield from _places(transaction)


def _counters(transaction: Transaction) -> Iterator[str]:
    """Counters agree with what they count."""
    names = {version.id: version.name for version in studies.all_versions(transaction)}
    counted = Counter({tuple(row[:4]): int(row[4]) for row in transaction.sql(_COUNTED)})
    counts = Counter({tuple(row[:4]): int(row[4]) for row in transaction.sql(_COUNT)})
    for key in sorted(counted.keys() | counts.keys()):
        if counted[key] != counts[key]:
            name, status = names.get(key[0], key[0]), key[3]
            stored, actual = counted[key], counts[key]
            yield f"study {name!r} counts {stored} experiments as {status} and has {actual}"


def _places(transaction: Transaction) -> Iterator[str]:
    """Check that no two fields of a study share a place."""
    fields_at: Counter[tuple[int, str]] = Counter()
    for study, text in transaction.sql("SELECT study, place FROM fields"):
        place = FieldLocation.parse(text)
        fields_at.update((study, slot) for slot in place.slots)
        if place.chunk is not None:
            fields_at[study, f"c{place.chunk}"] += 1
    for (study, place_name), count in fields_at.items():
        if count > 1:
            yield f"{count} fields of study number {study} stand at {place_name}"


MOST = 20
"""So many diagnostics are made one by one; further ones are counted."""
_BATCH = 10_000
# As a float: the sum of damaged sizes may be beyond an integer.
_TOTALS = "SELECT count(*), coalesce(sum(CAST(size AS DOUBLE PRECISION)), 0) FROM artifacts"
_FILE_BYTES = 2**15
"""Opening a file takes as long as reading so many bytes."""
_NEXT = (
    "SELECT a.attempt, a.path, coalesce(r.digest, t.digest), a.size, a.content, c.foreign_path,"
    " a.mode FROM artifacts a JOIN contents c ON c.digest = a.content"
    " LEFT JOIN results r ON r.id = a.attempt LEFT JOIN attempts t ON t.id = a.attempt"
    f" WHERE (a.attempt, a.path) > ({{mark}}, {{mark}}) ORDER BY a.attempt, a.path LIMIT {_BATCH}"
)


def check_artifacts(database: Database, store: ArtifactStore, *, contents: bool) -> Iterator[str]:
    """Return the errors in the files, as messages; with *contents* each is read and hashed."""
    wrong = done = 0
    label = "reading artifacts" if contents else "checking artifacts"
    report = work_progress.get()
    ((count, size),) = database.read(partial(Transaction.sql, text=_TOTALS))
    total = int(size) + count * _FILE_BYTES if contents else count
    intact: set[bytes] = set()  # contents of the store that were read: each is read once

    def step(more: int) -> None:
        report(label, min(done + more, total), total)

    for digest, path, place, size, content, is_stored in _all(database, store):
        must_read = contents and content not in intact
        fault = _fault(place, size, content.hex(), step if must_read else None)
        done += size + _FILE_BYTES if contents else 1
        step(0)
        if not fault:
            if must_read and is_stored:
                intact.add(content)
            continue
        wrong += 1
        if wrong <= MOST:
            yield f"experiment {digest[:12]} left {path}, {fault}: {place}"
    if wrong > MOST:
        yield f"{wrong - MOST:,} more artifacts are missing or have changed"


def _all(
    database: Database, store: ArtifactStore
) -> Iterator[tuple[str, str, str, int, bytes, bool]]:
    """Yield experiment, path, file, size and content of each artifact, and if the store has it."""
    text = _NEXT.format(mark=database.dialect.mark)
    last: tuple[int, str] = (0, "")
    while rows := database.read(partial(Transaction.sql, text=text, parameters=last)):
        for attempt, path, key, size, content, foreign, mode in rows:
            last, digest = (attempt, path), bytes(key or b"").hex()
            if not (
                isinstance(path, str) and isinstance(size, int) and isinstance(foreign, str | None)
            ):
                continue  # a damaged value, which the check of the rows names
            if foreign is None:
                place = store.path_of(content, None)
            else:
                kept = store.located(artifact_of(path, size, content, foreign, mode), digest)
                place = str(kept.kept)
            yield digest, unescape(path), place, size, bytes(content), foreign is None


def _fault(path: str, size: int, sha256: str, step: Callable[[int], None] | None = None) -> str:
    """Return what is wrong with a file; with *step*, which hears the progress, read its content."""
    try:
        file_stat = os.lstat(path)
    except OSError as error:
        return f"which is not there ({error.strerror})"
    if not stat.S_ISREG(file_stat.st_mode):
        return "which is no longer a file"
    if file_stat.st_size != size:
        return f"which has {file_stat.st_size:,} bytes, and had {size:,}"
    if step and not has_content(path, size, sha256, step):
        return "whose content has changed"
    return ""


def damage_of_opened_files() -> tuple[Diagnostic, ...]:
    """Return what is wrong with the values of the files that were opened; nothing if all is well.

    Reading rows checks no types, so what fails on a value that no program of ours can have
    written fails anywhere. The check is made when that has happened.
    """
    diagnostics: list[Diagnostic] = []
    hint = "`zen db check` lists the damage; `zen db salvage` saves all readable data"
    for dialect in {
        database.dialect.location: database.dialect for database in opened_databases()
    }.values():
        if not isinstance(dialect, SQLite):
            continue
        database = Database(dialect, 0)
        try:
            messages = database.read(_messages)
            diagnostics += [
                Diagnostic(f"{dialect.location} is damaged: {message}", hint=hint)
                for message in messages
            ]
        except ZenError as error:
            diagnostics += error.diagnostics
        finally:
            database.close()
    return tuple(diagnostics)


def _messages(transaction: Transaction) -> list[str]:
    return foreign_values(transaction, most=3) or list(islice(foreign_slots(transaction), 3))
