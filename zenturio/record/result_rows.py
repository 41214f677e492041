"""Rows of results: written with logs, artifacts, conditions and counters, and read back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zenturio.experiment.experiment import (
    WRITING,
    Artifact,
    Kinds,
    Log,
    MachineKind,
    MetricValue,
    Outcome,
    ProgramIdentity,
)
from zenturio.record import codec, entities, studies, study_transaction
from zenturio.record.artifact_store import in_store
from zenturio.record.database import Transaction
from zenturio.record.entities import (
    EXPERIMENT_STATES,
    AttemptLogs,
    ExperimentRecord,
    ExperimentState,
    KeyedResults,
    RecordPosition,
    ResultCount,
    ResultRunPosition,
)
from zenturio.record.field_layout import FieldLayout, Role, SlotReader, SlotValues, columns_of_rows
from zenturio.record.study_transaction import StudyTransaction

# Stored recipes: the parts that make the digests of a version, each stored once

MANY_RESULTS = 10_000
"""Results of a version from which on it pays to read their keys: a tenth of a second."""
_BATCH = 8192


class ResultIdentity(NamedTuple):
    """How a result is named: by its digest, and by its recipe and the key of its point."""

    digest: str
    key: bytes
    document: str
    """Of the recipe."""


def result_identities(context: StudyTransaction, most: int) -> tuple[list[ResultIdentity], int]:
    """Return the names of some results of a version, and how many have no recipe.

    Copies are left out: they ran with the definition of another study.
    """
    transaction, mark = context.transaction, context.transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT r.digest, r.key, p.document FROM results r JOIN recipes p ON p.id = r.recipe"
        f" WHERE r.version = {mark} AND r.key IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM copies c WHERE c.result = r.id)"
        f" ORDER BY r.digest LIMIT {most}",
        (context.version.id,),
    )
    ((without,),) = transaction.sql(
        f"SELECT count(*) FROM results WHERE version = {mark} AND recipe IS NULL",
        (context.version.id,),
    )
    return [ResultIdentity(bytes(d).hex(), bytes(key), text) for d, key, text in rows], int(without)


def recipe_number(context: StudyTransaction, program: ProgramIdentity | None) -> int | None:
    """Return the number of a program's recipe in this version; the first use writes it down."""
    if program is None:
        return None
    name = context.version.id, program.digest + program.writing
    number = context.cache.recipes.get(name) or context.new_recipes.get(name)
    if number is None:
        # Another driver may have joined in: then there are two of the same, which does no harm.
        is_own = context.version.id in context.cache.own_versions
        numbers = [] if is_own else _recipes(context, program)
        number = numbers[0] if numbers else _add_recipe(context, program, program.document())
        context.new_recipes[name] = number
    return number


def _add_recipe(context: StudyTransaction, program: ProgramIdentity, document: str) -> int:
    """Write down a recipe; *document* is an object, whose brace the head has."""
    mark = context.transaction.dialect.mark
    ((number,),) = context.transaction.sql(
        "INSERT INTO recipes (version, format, document)"
        f" VALUES ({mark}, {mark}, {mark}) RETURNING id",
        (context.version.id, program.format, f"{_head(program)}{document[1:]}"),
    )
    return int(number)


def _head(program: ProgramIdentity) -> str:
    """Return what the document of a program's recipe begins with."""
    return f'{{"digest": "{program.digest}", '


def _recipes(context: StudyTransaction, program: ProgramIdentity) -> list[int]:
    """Return the numbers of a program's recipe in this version: two drivers may have added one."""
    transaction, mark = context.transaction, context.transaction.dialect.mark
    head = _head(program)
    rows = transaction.sql(
        f"SELECT id, document FROM recipes WHERE version = {mark}"
        f" AND substr(document, 1, {len(head)}) = {mark} ORDER BY id",
        (context.version.id, head),
    )
    name = f'"{WRITING}": '
    part = name + json.dumps(program.writing)
    return [
        int(number)
        for number, document in rows
        if (part in document if program.writing else name not in document)
    ]


_CAUSE = (
    "CASE WHEN e.status = 'ok' THEN ''"
    " WHEN e.cause IS NULL OR e.cause = '' THEN e.status ELSE e.cause END"
)


def keyed_results(
    context: StudyTransaction,
    program: ProgramIdentity,
    kinds: Kinds,
    round_: int | None,
    names: Collection[str],
) -> KeyedResults | None:
    """Return the results of *program* by the keys of their points: see `Repository`."""
    import numpy as np  # noqa: PLC0415 - takes a tenth of a second

    transaction, version = context.transaction, context.version.id
    reader = SlotReader([f for f in context.layout.own_fields if f.field.name in names])
    query = f"SELECT coalesce(sum(count), 0) FROM counters WHERE version = {version}"
    ((count,),) = transaction.sql(query)
    recipes = _recipes(context, program) if count >= MANY_RESULTS else []
    if not recipes or reader.chunks:
        return None
    condition = "e.newest = 1" if round_ is None else f"e.round = {int(round_)}"
    if kinds is not None:
        counting = sorted(study_transaction.numbers_of(transaction, kinds))
        condition += f" AND e.machine IN ({', '.join(map(str, counting))})"
    columns = ", ".join([_CAUSE, "e.remarks", *[f"e.{slot}" for slot in reader.slots]])
    facts: list[tuple[Any, ...]] = []
    keys: list[bytes] = []
    causes: dict[str, int] = {"": 0}
    codes: list[int] = []
    values: dict[Role, dict[str, list[Any]]] = {"parameter": {}, "metric": {}}
    for rows in transaction.batches(
        f"SELECT e.key, e.id, e.machine, e.started, {columns} FROM results e"
        f" WHERE e.version = {version} AND e.key IS NOT NULL"
        f" AND e.recipe IN ({', '.join(map(str, recipes))}) AND {condition}",
        _BATCH,
    ):
        key, number, machine, began, reasons, remarks, *slots = zip(*rows, strict=True)
        keys.append(b"".join(map(bytes, key)))
        facts.append(tuple(map(np.array, (number, machine, began))))
        codes += [causes.setdefault(reason, len(causes)) for reason in reasons]
        with codec.decoding():
            for role, fields in values.items():
                for name, column in reader.columns(role, remarks, slots, ()).items():
                    fields.setdefault(name, []).extend(column)
    if not keys:
        return None
    numbers, kinds_of, started = map(np.concatenate, zip(*facts, strict=True))
    halves = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64).reshape(-1, 2)
    # As in `find_outcomes`: what is known to be of these machines, and of that the newest.
    by_number = study_transaction.machines_of(transaction, np.unique(kinds_of).tolist())
    chosen = [n for n, kind in by_number.items() if entities.is_of(kind, kinds)]
    return KeyedResults(
        (halves[:, 0].copy(), halves[:, 1].copy()),
        numbers + (np.isin(kinds_of, chosen).astype(np.int64) << 62),
        started,
        np.array(codes, np.int32),
        [codec.unescape(cause) for cause in causes],
        values["parameter"],
        values["metric"],
    )


# Logs, artifacts and counters of results

_LOG = (
    "attempt", "stdout_head", "stdout_tail", "stdout_size", "stderr_head", "stderr_tail",
    "stderr_size",
)  # fmt: skip
_ARTIFACT = ("attempt", "path", "number", "mode", "size", "content")


def keep(transaction: Transaction, attempts: Iterable[tuple[int, Outcome]]) -> None:
    """Insert logs and artifacts of attempts, by the attempts' ids."""
    attempts = list(attempts)
    logs = []
    for number, outcome in attempts:
        out, err = outcome.stdout, outcome.stderr
        if out.size or err.size or out.head or err.head:
            logs.append((number, out.head, out.tail, out.size, err.head, err.tail, err.size))
    transaction.insert("logs", _LOG, logs)
    keep_artifacts(transaction, ((n, o.artifacts) for n, o in attempts if o.artifacts))


def keep_artifacts(
    transaction: Transaction, attempts: Iterable[tuple[int, tuple[Artifact, ...]]]
) -> None:
    """Write down which files attempts left, and where these lie."""
    rows, new_contents = [], []
    contents: dict[bytes, tuple[bytes, int, str | None]] = {}
    for number, files in attempts:
        for place, file in enumerate(files):
            digest = bytes.fromhex(file.sha256)
            rows.append((number, codec.escape(file.path), place, file.mode, file.size, digest))
            where = str(file.kept)
            if where == in_store(file.mode):
                new_contents.append(digest)
                contents[digest] = (digest, file.size, None)
            else:
                contents.setdefault(digest, (digest, file.size, codec.escape(where)))
    transaction.insert_new(
        "contents", ("digest", "size", "foreign_path"), [contents[k] for k in sorted(contents)]
    )
    # What was known elsewhere is in the store now.
    transaction.among_sql(
        "UPDATE contents SET foreign_path = NULL WHERE foreign_path IS NOT NULL AND {among}",
        "digest",
        sorted(set(new_contents)),
    )
    transaction.insert("artifacts", _ARTIFACT, rows)


def logs_of(transaction: Transaction, attempt: int) -> AttemptLogs:
    """Return the logs of an attempt."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT {', '.join(_LOG[1:])} FROM logs WHERE attempt = {mark}", (attempt,)
    )
    for out_head, out_tail, out_size, err_head, err_tail, err_size in rows:
        out = Log(bytes(out_head), bytes(out_tail), out_size)
        return AttemptLogs(out, Log(bytes(err_head), bytes(err_tail), err_size))
    return AttemptLogs()


def artifacts_of(
    transaction: Transaction, attempt: int, first: int = 0, most: int | None = None
) -> tuple[Artifact, ...]:
    """Return the files that an attempt left, from number *first* on, at most *most*."""
    mark = transaction.dialect.mark
    # Databases count them with 63 bits.
    limit, offset = 2**63 - 1 if most is None else most, min(first, 2**63 - 1)
    rows = transaction.sql(
        "SELECT a.path, a.size, a.content, c.foreign_path, a.mode FROM"
        f" (SELECT * FROM artifacts WHERE attempt = {mark}"
        f" ORDER BY number LIMIT {limit} OFFSET {offset}) a"
        " JOIN contents c ON c.digest = a.content ORDER BY a.number",
        (attempt,),
    )
    return tuple(artifact_of(*row) for row in rows)


def artifact_of(path: str, size: int, content: bytes, kept: str | None, mode: int) -> Artifact:
    """Return the artifact of a row; the store knows the path of its file."""
    where = in_store(mode) if kept is None else codec.unescape(kept)
    return Artifact(codec.unescape(path), size, bytes(content).hex(), Path(where), mode)


FIRST_ROUND = 1
"""The round of all that is measured once."""


class CounterChanges:
    """Changes of the counters, collected during a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._changes: Counter[tuple[int, int, int, str]] = Counter()

    def add(self, version: int, machine: int, round_: int, status: str, count: int = 1) -> None:
        """So many more results of a version, a kind of machine, a round and a status."""
        self._changes[version, machine, round_, status] += count

    def write(self) -> None:
        """Last in a transaction: drivers of a study wait for each other here, and only here."""
        mark = self._transaction.dialect.mark
        rows = [(*key, count) for key, count in sorted(self._changes.items()) if count]
        self._transaction.sql_many(
            "INSERT INTO counters (version, machine, round, status, count)"
            f" VALUES ({', '.join([mark] * 5)})"
            " ON CONFLICT (version, machine, round, status)"
            " DO UPDATE SET count = counters.count + excluded.count",
            rows,
        )
        self._changes.clear()


# Results

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
    """A result to write."""

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


def write_results(
    context: StudyTransaction, new: Sequence[NewResult], *, files: bool = True
) -> None:
    """Add results to a version, with logs, artifacts and conditions, and counts them.

    Without *files* these are another attempt's: the rows are copies.
    """
    transaction, version = context.transaction, context.version.id
    outcomes = [row.outcome for row in new]
    hosts = study_transaction.host_numbers(context, outcomes)
    columns = columns_of_rows([row.values for row in new], [o.metrics for o in outcomes])
    spread = context.spread_columns(columns, len(new))
    facts = [
        (
            row.number, version, codec.digest_key(o.digest), row.position, row.repeat, row.round,
            machine, 1, o.status, o.attempt, row.lease, host, o.started, o.ended, o.exit,
            codec.escape(o.cause) if o.cause else None, remark,
            recipe_number(context, row.program), row.key or None,
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
        study_transaction.confirm_machines(context, (machine for machine, _ in hosts))
        keep(transaction, zip(numbers, outcomes, strict=True))
        conditions = ((n, o.conditions) for n, o in zip(numbers, outcomes, strict=True))
        study_transaction.keep_conditions(transaction, conditions)
    refresh_newest(context, [outcome.digest for outcome in outcomes])
    tally = CounterChanges(transaction)
    for row, (machine, _) in zip(new, hosts, strict=True):
        tally.add(version, machine, row.round, row.outcome.status)
    tally.write()


def refresh_newest(context: StudyTransaction, digests: Iterable[str]) -> None:
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
        for key in ((bytes(digest), machine), (bytes(digest), study_transaction.UNKNOWN_MACHINE)):
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


def _write_chunks(transaction: Transaction, numbers: Sequence[int], spread: SlotValues) -> None:
    chunks = [(numbers[row], chunk, doc) for row, chunk, doc in spread.chunks]
    transaction.insert("chunks", ("result", "chunk", "doc"), chunks)


def _warn_of_dropped_values(
    context: StudyTransaction, outcomes: Sequence[Outcome], spread: SlotValues
) -> None:
    """Warn of values that belong to no field that the study can have."""
    for row, count in spread.dropped.items():
        text = f"{count:,} metrics or parameters were not kept: the study has too many names"
        key = codec.digest_key(outcomes[row].digest)
        studies.add_event(context.transaction, context.version.id, "warning", text, key)


def rewrite_results(
    context: StudyTransaction, numbers: Sequence[int], points: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
) -> None:  # fmt: skip
    """Replace status, cause and values of results, by their numbers."""
    transaction = context.transaction
    metrics = [outcome.metrics for outcome in outcomes]
    spread = context.spread_columns(columns_of_rows(points, metrics), len(outcomes))
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
    chunks = chunks_of(transaction, reader.chunks, [row[0] for row in rows])
    kinds = study_transaction.machines_of(transaction, {row[11] for row in rows})
    with codec.decoding():
        return [_read(transaction, layout, row, chunks.get(row[0], {}), kinds) for row in rows]


def chunks_of(
    transaction: Transaction, chunks: Sequence[int], numbers: Sequence[int]
) -> dict[int, dict[int, Any]]:
    """Return the chunks of results, by their numbers; nothing if no *chunks* are asked for."""
    chunks_by_result: dict[int, dict[int, Any]] = {}
    if chunks:
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
    hex_digest = bytes(digest).hex()
    outcome = Outcome(
        hex_digest, status, codec.unescape(cause), metrics, attempt, codec.unescape(host), started,
        ended, exit_code, machine=kinds.get(machine),
    )  # fmt: skip
    key = RecordPosition(transaction.dialect.index(position), repeat, number)
    values = reader.values(remarks, slots, chunks)
    record = ExperimentRecord(key, hex_digest, status, values, outcome, round_, bool(newest))
    return StoredResult(record, machine, round_, lease)


def remove_results(context: StudyTransaction, rows: Iterable[StoredResult]) -> None:
    """Remove results of a version, and uncount them; what hangs on their attempts stays."""
    rows = list(rows)
    numbers = [row.number for row in rows]
    for table, column in (("chunks", "result"), ("aliases", "result"), ("results", "id")):
        context.transaction.among_sql(f"DELETE FROM {table} WHERE {{among}}", column, numbers)
    refresh_newest(context, [row.record.digest for row in rows])
    if numbers:
        record_edit(context, numbers)
    tally = CounterChanges(context.transaction)
    for row in rows:
        tally.add(context.version.id, row.machine, row.round, row.outcome.status, -1)
    tally.write()


def record_edit(context: StudyTransaction, numbers: Sequence[int]) -> None:
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


_LAST = (
    "SELECT status, count(*) FROM results e WHERE version = {mark}{among} AND NOT EXISTS"
    " (SELECT 1 FROM results o WHERE o.digest = e.digest AND o.version = e.version"
    " AND o.id > e.id) GROUP BY status"
)
"""Experiments by the status of the result that was recorded last."""
_CLAIMED = (
    "FROM claims WHERE lease IN (SELECT id FROM leases WHERE version = {mark} AND ended IS NULL)"
)


def count_states(transaction: Transaction, name: str) -> dict[ExperimentState, int]:
    """Return how many experiments of a study are in each state.

    One that runs is counted as running, whatever results it has; of any other one the last result
    tells.
    """
    version = studies.get_version(transaction, name).id
    rows = _counters(transaction, version)
    state_counts = Counter[ExperimentState]()
    if len({(machine, number) for machine, number, *_ in rows}) > 1:
        # Counters count results, and an experiment may have several of them here.
        state_counts.update(_by_status(transaction, _LAST.replace("{among}", ""), version))
    else:
        state_counts.update({status: count for *_, status, count in rows})
    query = f"SELECT 'running', count(*) {_CLAIMED}"
    state_counts.update(_by_status(transaction, query, version))
    if state_counts["running"]:
        again = _LAST.replace("{among}", f" AND digest IN (SELECT digest {_CLAIMED})")
        state_counts.subtract(_by_status(transaction, again, version))
    return {state: state_counts[state] for state in EXPERIMENT_STATES}


def _by_status(transaction: Transaction, query: str, version: int) -> dict[ExperimentState, int]:
    mark = transaction.dialect.mark
    rows = transaction.sql(query.replace("{mark}", mark), (version,) * query.count("{mark}"))
    return {status: int(count) for status, count in rows}


def count_results(transaction: Transaction, name: str) -> tuple[ResultCount, ...]:
    """Return how many results a study has, by kind of machine, round and status."""
    rows = _counters(transaction, studies.get_version(transaction, name).id)
    kinds = study_transaction.machines_of(transaction, {machine for machine, *_ in rows})
    return tuple(
        ResultCount(kinds.get(machine), number, status, count)
        for machine, number, status, count in rows
    )


def placed_runs(transaction: Transaction, name: str, order: str) -> tuple[ResultRunPosition, ...]:
    """Return the results of a study that a run in this order recorded, by their turns."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        "SELECT e.round, e.machine, e.repeat, c.run_block, c.run_turn"
        " FROM results e JOIN conditions c ON c.attempt = e.id"
        f" WHERE e.version = {mark} AND c.run_order = {mark} ORDER BY c.run_turn, e.id",
        (studies.get_version(transaction, name).id, order),
    )
    kinds = study_transaction.machines_of(transaction, {machine for _, machine, *_ in rows})
    return tuple(
        ResultRunPosition(number, kinds.get(machine), repeat, block or 0, turn or 0)
        for number, machine, repeat, block, turn in rows
    )


def _counters(
    transaction: Transaction, version: int
) -> list[tuple[int, int, ExperimentState, int]]:
    """Kind of machine, round, status, and how many results."""
    rows = transaction.sql(
        "SELECT machine, round, status, count FROM counters"
        f" WHERE version = {transaction.dialect.mark} AND count <> 0"
        " ORDER BY machine, round, status",
        (version,),
    )
    return [(int(machine), int(number), status, int(n)) for machine, number, status, n in rows]
