"""Rows of ``results``: written with logs, artifacts and conditions, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zenturio.experiment.experiment import MachineKind, MetricValue, Outcome, ProgramIdentity
from zenturio.record import attempt_files, codec, event_log, machines, stored_recipes
from zenturio.record.counters import CounterChanges
from zenturio.record.database import Transaction
from zenturio.record.entities import ExperimentRecord, RecordKey
from zenturio.record.field_layout import FieldLayout, SlotColumns
from zenturio.record.study_context import StudyContext

_FACTS = (
    "id", "version", "digest", "position", "repeat", "round", "machine", "newest", "status",
    "attempt", "lease", "host", "started", "ended", "exit", "cause", "remarks", "recipe", "key",
)  # fmt: skip
_READ = (
    "e.id, e.position, e.repeat, e.digest, e.status, e.cause, e.attempt, h.name, e.started,"
    " e.ended, e.exit, e.machine, e.round, e.newest, e.lease, e.remarks"
)
_FROM = "FROM results e LEFT JOIN hosts h ON h.id = e.host"
_HEADS = 16


class NewResult(NamedTuple):
    """A result that is to be written."""

    number: int
    position: Any
    repeat: int
    round: int
    values: Mapping[str, Any]
    outcome: Outcome
    lease: int
    program: ProgramIdentity | None = None
    key: bytes = b""
    """Of the point; empty where it is unknown."""


def write_results(context: StudyContext, new: Sequence[NewResult], *, files: bool = True) -> None:
    """Add results to a version, with logs, artifacts and conditions, and counts them.

    Without *files* these are another attempt's: the rows are copies.
    """
    transaction, version = context.transaction, context.version.id
    outcomes = [row.outcome for row in new]
    hosts = machines.host_numbers(context, outcomes)
    spread = context.spread([row.values for row in new], [o.metrics for o in outcomes])
    facts = [
        (
            row.number, version, codec.digest_key(o.digest), row.position, row.repeat, row.round,
            machine, 1, o.status, o.attempt, row.lease, host, o.started, o.ended, o.exit,
            codec.escape(o.cause) if o.cause else None, remark,
            stored_recipes.recipe_number(context, row.program), row.key or None,
        )
        for row, o, (machine, host), remark in zip(
            new, outcomes, hosts, spread.remarks, strict=True
        )
    ]  # fmt: skip
    slots = list(spread.columns)
    rows = facts
    if slots:
        cells = zip(*spread.columns.values(), strict=True)
        rows = [(*fact, *row) for fact, row in zip(facts, cells, strict=True)]
    transaction.insert("results", (*_FACTS, *slots), rows)
    numbers = [row.number for row in new]
    _write_chunks(transaction, numbers, spread)
    _warn_of_dropped_values(context, outcomes, spread)
    if files:
        machines.confirm_machines(context, (machine for machine, _ in hosts))
        attempt_files.keep(transaction, zip(numbers, outcomes, strict=True))
        conditions = ((n, o.conditions) for n, o in zip(numbers, outcomes, strict=True))
        machines.keep_conditions(transaction, conditions)
    refresh_newest(context, [outcome.digest for outcome in outcomes])
    tally = CounterChanges(transaction)
    for row, (machine, _) in zip(new, hosts, strict=True):
        tally.add(version, machine, row.round, row.outcome.status)
    tally.write()


def refresh_newest(context: StudyContext, digests: Iterable[str]) -> None:
    """Mark which results of these experiments no later round has measured on the same machine.

    A result whose machine nobody knows counts for every kind, so a later one of any replaces it.
    """
    transaction, version = context.transaction, context.version
    if version.round == 1:
        return  # all are of one round
    rows = transaction.among_sql(
        f"SELECT id, digest, machine, round, newest FROM results"
        f" WHERE version = {transaction.dialect.mark} AND {{among}}",
        "digest",
        sorted(map(codec.digest_key, set(digests))),
        (version.id,),
    )
    last: dict[tuple[bytes, int], int] = {}
    for _, digest, machine, number, _ in rows:
        for key in ((bytes(digest), machine), (bytes(digest), machines.UNKNOWN_MACHINE)):
            last[key] = max(number, last.get(key, 0))
    changed: dict[int, list[int]] = {0: [], 1: []}
    for row, digest, machine, number, newest in rows:
        now = int(number == last[bytes(digest), machine])
        if now != newest:
            changed[now].append(row)
    for now, numbers in changed.items():
        transaction.among_sql(f"UPDATE results SET newest = {now} WHERE {{among}}", "id", numbers)
    if any(changed.values()):
        record_edit(context, [*changed[0], *changed[1]])


def _write_chunks(transaction: Transaction, numbers: Sequence[int], spread: SlotColumns) -> None:
    chunks = [(numbers[row], chunk, doc) for row, chunk, doc in spread.chunks]
    transaction.insert("chunks", ("result", "chunk", "doc"), chunks)


def _warn_of_dropped_values(
    context: StudyContext, outcomes: Sequence[Outcome], spread: SlotColumns
) -> None:
    """Warn of values that belong to no field that the study can have."""
    for row, count in spread.dropped.items():
        text = f"{count:,} metrics or parameters were not kept: the study has too many names"
        key = codec.digest_key(outcomes[row].digest)
        event_log.add_event(context.transaction, context.version.id, "warning", text, key)


def rewrite_results(
    context: StudyContext, numbers: Sequence[int], points: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
) -> None:  # fmt: skip
    """Replace status, cause and values of results, by their numbers."""
    transaction = context.transaction
    spread = context.spread(points, [outcome.metrics for outcome in outcomes])
    slots = [slot for stored in context.layout.own_fields for slot in stored.place.slots]
    mark = transaction.dialect.mark
    changes = ", ".join(f"{name} = {mark}" for name in ("status", "cause", "remarks", *slots))
    empty = [None] * len(numbers)
    columns = [spread.columns.get(slot, empty) for slot in slots]
    facts = [(o.status, codec.escape(o.cause) if o.cause else None) for o in outcomes]
    transaction.sql_many(
        f"UPDATE results SET {changes} WHERE id = {mark}",
        [
            (*facts[i], spread.remarks[i], *(column[i] for column in columns), number)
            for i, number in enumerate(numbers)
        ],
    )
    transaction.among_sql("DELETE FROM chunks WHERE {among}", "result", numbers)
    _write_chunks(transaction, numbers, spread)
    _warn_of_dropped_values(context, outcomes, spread)


class StoredResult(NamedTuple):
    """A result that was read."""

    record: ExperimentRecord
    machine: int
    """The number of its kind."""
    round: int
    lease: int

    @property
    def number(self) -> int:
        return self.record.key.row

    @property
    def outcome(self) -> Outcome:
        assert self.record.outcome is not None, "it is a result"
        return self.record.outcome


def read_results(
    transaction: Transaction,
    layout: FieldLayout,
    condition: str,
    parameters: Sequence[Any] = (),
    *,
    among: tuple[str, Sequence[Any]] | None = None,
) -> list[StoredResult]:
    """Return results of a version that meet a condition on ``e``, and have one of some keys.

    *among*: the column and the keys. ``ORDER BY`` and ``LIMIT`` may stand behind the condition.
    """
    reader = layout.reader
    slots = "".join(f", e.{slot}" for slot in reader.slots)
    head = f"SELECT {_READ}{slots} {_FROM} WHERE e.version = {transaction.dialect.mark}"
    values = (layout.version, *parameters)
    if among is None:
        rows = transaction.sql(f"{head} {condition}", values)
    else:
        text = f"{head} {condition} AND {{among}}"
        rows = transaction.among_sql(text, among[0], among[1], values)
    chunks = _chunks(transaction, layout, [row[0] for row in rows])
    kinds = machines.machines_of(transaction, {row[11] for row in rows})
    with codec.decoding():
        return [_read(transaction, layout, row, chunks.get(row[0], {}), kinds) for row in rows]


def _chunks(
    transaction: Transaction, layout: FieldLayout, numbers: Sequence[int]
) -> dict[int, dict[int, Any]]:
    """Return the chunks of results, by their numbers."""
    chunks_by_result: dict[int, dict[int, Any]] = {}
    if layout.reader.chunks:
        rows = transaction.among_sql(
            "SELECT result, chunk, doc FROM chunks WHERE {among}", "result", numbers
        )
        with codec.decoding():
            for number, chunk, doc in rows:
                array = json.loads(doc) if isinstance(doc, str) else doc
                chunks_by_result.setdefault(number, {})[chunk] = array
    return chunks_by_result


def _read(
    transaction: Transaction,
    layout: FieldLayout,
    row: Sequence[Any],
    chunks: Mapping[int, Any],
    kinds: Mapping[int, MachineKind],
) -> StoredResult:
    (
        number, position, repeat, digest, status, cause, attempt, host, started, ended, exit_code,
        machine, round_, newest, lease, remarks,
    ) = row[:_HEADS]  # fmt: skip
    slots, reader = row[_HEADS:], layout.reader
    metrics: dict[str, MetricValue] = reader.metrics(remarks, slots, chunks)
    whole = bytes(digest).hex()
    outcome = Outcome(
        whole, status, codec.unescape(cause), metrics, attempt, codec.unescape(host), started,
        ended, exit_code, machine=kinds.get(machine),
    )  # fmt: skip
    key = RecordKey(transaction.dialect.index(position), repeat, number)
    values = reader.values(remarks, slots, chunks)
    record = ExperimentRecord(key, whole, status, values, outcome, round_, bool(newest))
    return StoredResult(record, machine, round_, lease)


def remove_results(context: StudyContext, rows: Iterable[StoredResult]) -> None:
    """Remove results of a version, and uncount them; what hangs on their attempts stays."""
    rows = list(rows)
    numbers = [row.number for row in rows]
    for table, column in (("chunks", "result"), ("aliases", "result"), ("results", "id")):
        context.transaction.among_sql(f"DELETE FROM {table} WHERE {{among}}", column, numbers)
    refresh_newest(context, [row.record.digest for row in rows])
    tally = CounterChanges(context.transaction)
    for row in rows:
        tally.add(context.version.id, row.machine, row.round, row.outcome.status, -1)
    tally.write()


def record_edit(context: StudyContext, numbers: Sequence[int]) -> None:
    """Tell caches which results they have to read again."""
    transaction, version = context.transaction, context.version.id
    mark = transaction.dialect.mark
    transaction.sql(f"UPDATE versions SET edits = edits + 1 WHERE id = {mark}", (version,))
    ((number,),) = transaction.sql(f"SELECT edits FROM versions WHERE id = {mark}", (version,))
    transaction.insert(
        "edits",
        ("version", "number", "first", "last"),
        [(version, number, min(numbers), max(numbers))],
    )
