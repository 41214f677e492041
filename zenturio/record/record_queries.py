"""Queries in SQL for outcomes, records, attempts, logs and artifacts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from zenturio.experiment.experiment import Artifact, HostDetails, Kinds, MetricValue, Outcome
from zenturio.record import (
    codec,
    entities,
    leases,
    repository,
    result_rows,
    reused_results,
    studies,
    study_transaction,
)
from zenturio.record.database import Transaction
from zenturio.record.entities import (
    OUTCOME_STATES,
    AttemptLogs,
    AttemptRecord,
    AttemptState,
    ColumnPage,
    ColumnRequest,
    ExperimentRecord,
    ExperimentState,
    RecordPosition,
    RowFilter,
)
from zenturio.record.field_layout import SlotReader
from zenturio.record.study_transaction import RepositoryCache, StudyTransaction

BATCH = 2000
"""How many records are fetched at a time; fewer where each has many chunks."""
_DIGITS = 32


def find_outcomes(
    context: StudyTransaction,
    digests: Sequence[str],
    kinds: Kinds = None,
    round_: int | None = None,
) -> dict[str, Outcome]:
    """Return the accepted outcomes of a version: the newest one of each, or one of *kinds*.

    Or, if a round is named, those of that round.
    """
    keys = sorted(map(codec.digest_key, dict.fromkeys(digests)))
    condition = "AND e.newest = 1" if round_ is None else f"AND e.round = {int(round_)}"
    results = result_rows.read_results(
        context.transaction, context.layout, condition, among=("e.digest", keys)
    )
    if results and kinds is not None:
        counting = study_transaction.numbers_of(context.transaction, kinds)
        results = [row for row in results if row.machine in counting]
    results.sort(key=lambda row: (entities.is_of(row.outcome.machine, kinds), row.number))
    return {row.record.digest: row.outcome for row in results}


def find_outcomes_anywhere(
    transaction: Transaction, cache: RepositoryCache, digests: Sequence[str], kinds: Kinds = None
) -> dict[str, Outcome]:
    """Return accepted outcomes, each from the version whose result comes first.

    Which that is, `entities.result_rank` says.
    With *kinds* only what counts for these kinds of machine.
    """
    keys = sorted(map(codec.digest_key, dict.fromkeys(digests)))
    results = leases.results_for_machine(transaction, leases.results_of(transaction, keys), kinds)
    results = [result for result in results if result.is_newest]
    best: dict[bytes, leases.ResultSummary] = {}
    for result in sorted(results, key=lambda result: result.rank):
        best.setdefault(result.digest, result)
    outcomes: dict[str, Outcome] = {}
    versions = studies.versions_by_id(transaction, {result.version for result in best.values()})
    for version in versions.values():
        numbers = sorted(result.id for result in best.values() if result.version == version.id)
        layout = StudyTransaction.at(transaction, version, cache).layout
        for row in result_rows.read_results(transaction, layout, "", among=("e.id", numbers)):
            outcomes[row.record.digest] = row.outcome
    return outcomes


# Records


def next_results(
    context: StudyTransaction, after: RecordPosition | None, states: Iterable[ExperimentState]
) -> list[ExperimentRecord]:
    """Return the next results behind *after*, a batch of them."""
    dialect = context.transaction.dialect
    statuses, mark = sorted(set(states) & OUTCOME_STATES), dialect.mark
    if not statuses:
        return []
    condition = f"AND e.status IN ({', '.join([mark] * len(statuses))})"
    parameters: list[Any] = list(statuses)
    # A row value compares like the index that orders the rows, so a page begins without a scan.
    if after is not None:
        condition += f" AND (e.position, e.repeat, e.id) > ({mark}, {mark}, {mark})"
        parameters += [dialect.position(after.number), after.repeat, after.row]
    # Rows with many chunks are large: fewer of them at a time.
    most = max(20, BATCH // (1 + len(context.layout.reader.chunks)))
    condition += f" ORDER BY e.position, e.repeat, e.id LIMIT {most}"
    return [
        row.record
        for row in result_rows.read_results(
            context.transaction, context.layout, condition, parameters
        )
    ]


_PAGE = 4000
"""How many results a page of columns has; fewer where each has many chunks."""
_COLUMN_FACTS = "e.position, e.repeat, e.id, e.digest, e.status, e.machine, e.round, e.remarks"
_COLUMN_HEADS = 8


def next_page(
    context: StudyTransaction, request: ColumnRequest, after: RecordPosition | None
) -> tuple[ColumnPage, RecordPosition] | None:
    """Return the next results behind *after*, and the key of the last of them; None at the end."""
    transaction = context.transaction
    dialect, mark = transaction.dialect, transaction.dialect.mark
    names = {"parameter": request.parameters, "metric": request.metrics}
    fields = [f for f in context.layout.own_fields if f.field.name in names[f.role]]
    reader = SlotReader(fields)
    states = sorted(request.states)
    condition = f"e.version = {mark} AND e.status IN ({', '.join([mark] * len(states))})"
    condition += RowFilter(None, request.round).conditions
    values: list[Any] = [context.layout.version, *states]
    if after is not None:
        condition += f" AND (e.position, e.repeat, e.id) > ({mark}, {mark}, {mark})"
        values += [dialect.position(after.number), after.repeat, after.row]
    slots = "".join(f", e.{slot}" for slot in reader.slots)
    most = max(20, _PAGE // (1 + len(reader.chunks)))
    rows = transaction.sql(
        f"SELECT {_COLUMN_FACTS}{slots} FROM results e WHERE {condition}"
        f" ORDER BY e.position, e.repeat, e.id LIMIT {most}",
        values,
    )
    if not rows:
        return None
    # The key of the last row that was read, not of the last one returned: *without* and *only*
    # may take all of a page away.
    position, repeat, number = rows[-1][:3]
    last = RecordPosition(dialect.index(position), repeat, number)
    if request.without:
        keys = set(map(codec.digest_key, request.without))
        rows = [row for row in rows if bytes(row[3]) not in keys]
    if request.only is not None:
        rows = [row for row in rows if row[2] in request.only]
    return _page(context, reader, rows), last


def _page(
    context: StudyTransaction, reader: SlotReader, rows: Iterable[Sequence[Any]]
) -> ColumnPage:
    columns = list(zip(*rows, strict=True)) or [()] * (_COLUMN_HEADS + len(reader.slots))
    _, _, numbers, _, states, kinds, rounds, remarks = columns[:_COLUMN_HEADS]
    by_result = result_rows.chunks_of(context.transaction, reader.chunks, numbers)
    chunks = [by_result.get(number, {}) for number in numbers] if reader.chunks else []
    with codec.decoding():
        parameters, metrics = (
            reader.columns(role, remarks, columns[_COLUMN_HEADS:], chunks)
            for role in ("parameter", "metric")
        )
    kinds_by_number = study_transaction.machines_of(context.transaction, set(kinds))
    return ColumnPage(states, kinds, rounds, parameters, metrics, kinds_by_number)


def unfinished_records(
    context: StudyTransaction, states: Iterable[ExperimentState]
) -> list[ExperimentRecord]:
    """Return experiments that are claimed, and those whose attempts left no outcome."""
    selected = set(states)
    records: list[ExperimentRecord] = []
    if "running" in selected:
        records += _points(context, _RUNNING, "running")
    if "missing" in selected:
        records += _points(context, _MISSING, "missing")
    return sorted(records, key=lambda record: record.key)


_POINT = "position, repeat, id, digest, point"
_RUNNING = (
    f"SELECT {_POINT} FROM claims WHERE version = {{mark}} AND lease IN"
    " (SELECT id FROM leases WHERE version = {mark} AND ended IS NULL)"
)
_MISSING = (
    f"SELECT {_POINT} FROM attempts a WHERE version = {{mark}} AND point IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM results r WHERE r.digest = a.digest AND r.version = {mark})"
    " AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.digest = a.digest) ORDER BY id"
)


def _points(
    context: StudyTransaction, template: str, state: ExperimentState
) -> list[ExperimentRecord]:
    transaction, version = context.transaction, context.version.id
    query = template.replace("{mark}", transaction.dialect.mark)
    rows = transaction.sql(query, [version] * template.count("{mark}"))
    # Of several attempts at an experiment the last one has its point as it is now.
    by_digest = {bytes(row[3]).hex(): row for row in rows}
    return [_point(context, row, state) for row in by_digest.values()]


def _point(
    context: StudyTransaction, row: Sequence[Any], state: ExperimentState
) -> ExperimentRecord:
    position, repeat, number, digest, point = row
    names = [f.field.name for f in context.layout.own_fields if f.role == "parameter"]
    values = dict.fromkeys(names) | codec.load_values(point)
    key = RecordPosition(context.transaction.dialect.index(position), repeat, number)
    return ExperimentRecord(key, bytes(digest).hex(), state, values, None)


def get_record(context: StudyTransaction, digest: str) -> ExperimentRecord:
    """Return the record of one experiment."""
    transaction, mark = context.transaction, context.transaction.dialect.mark
    results = result_rows.read_results(
        transaction, context.layout, "", among=("e.digest", [codec.digest_key(digest)])
    )
    if results:
        return max(results, key=lambda result: (result.record.newest, result.number)).record
    for table, state in (("claims", "running"), ("attempts", "missing")):
        points = transaction.sql(
            f"SELECT {_POINT} FROM {table} WHERE version = {mark} AND digest = {mark}",
            (context.version.id, codec.digest_key(digest)),
        )
        if points:
            # The newest; SQLite would walk through all rows of the version for an ORDER BY id.
            point = max(points, key=lambda row: row[2])
            return _point(context, point, state)  # type: ignore[arg-type] # both are states
    raise repository.no_experiment([digest])


def find_digests(
    transaction: Transaction, prefix: str, limit: int
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return digests that begin with *prefix*, and the names of the studies that have each.

    Who gives a digest of an earlier format gets the one that the experiment has now.
    """
    # All digests with the prefix lie between it filled up with zeros and with fs.
    low, high = (codec.digest_key(prefix.ljust(_DIGITS, filler)) for filler in "0f")
    mark = transaction.dialect.mark
    union = " UNION ".join(
        f"SELECT digest, version FROM {table} WHERE digest BETWEEN {mark} AND {mark}"
        for table in ("results", "claims", "attempts")
    )
    aliased = (
        "SELECT r.digest, r.version FROM aliases a JOIN results r ON r.id = a.result"
        f" WHERE a.digest BETWEEN {mark} AND {mark}"
    )
    rows = transaction.sql(
        f"SELECT digest, version FROM ({union} UNION {aliased}) AS d ORDER BY digest, version"
        f" LIMIT {limit * 16}",
        (low, high) * 4,
    )
    having: dict[str, list[int]] = {}
    for digest, version in rows:
        having.setdefault(bytes(digest).hex(), []).append(version)
    names = studies.versions_by_id(
        transaction, {v for versions in having.values() for v in versions}
    )
    return tuple(
        (digest, tuple(names[version].name for version in versions if version in names))
        for digest, versions in list(having.items())[:limit]
    )


# Attempts


class _Tried(NamedTuple):
    """An attempt, wherever it stands."""

    id: int
    number: int
    lease: int
    state: AttemptState
    host: int | str | None
    started: float | None
    ended: float | None
    cause: str | None
    exit: int | None
    round: int
    metrics: str | None


_COMMON = "started, ended, cause, exit, round"
_RUNS = (
    "SELECT id, attempt, lease, 'running', host, started, NULL, NULL, NULL, round, NULL FROM claims"
)
_TRIED = (
    f"SELECT id, attempt, lease, status, host, {_COMMON}, NULL FROM results",
    f"SELECT id, number, lease, state, host, {_COMMON}, metrics FROM attempts",
    _RUNS,
)


def _tried(transaction: Transaction, digest: str) -> list[tuple[_Tried, bool]]:
    """Return all attempts by number, and of each whether it is the accepted or the running one.

    What several versions have of one attempt, as their result or set aside, is told once.
    """
    key, mark = codec.digest_key(digest), transaction.dialect.mark
    accepted, aside, running = (
        [_Tried(*row) for row in transaction.sql(f"{query} WHERE digest = {mark}", (key,))]
        for query in _TRIED
    )
    roots = reused_results.roots_of(transaction, [attempt.id for attempt in (*accepted, *aside)])
    attempts: dict[int, tuple[_Tried, bool]] = {a.id: (a, True) for a in running}
    for group, is_accepted in ((accepted, True), (aside, False)):
        # Accepted ones come first, so what a version has set aside does not hide that it counts.
        for attempt in sorted(group):
            root = roots.get(attempt.id, attempt.id)
            attempts.setdefault(root, (attempt._replace(id=root), is_accepted))
    if not attempts:
        raise repository.no_experiment([digest])
    return sorted(attempts.values(), key=lambda pair: (pair[0].number, pair[0].lease))


def all_attempts(transaction: Transaction, digest: str) -> tuple[AttemptRecord, ...]:
    """Return every attempt at an experiment, by number."""
    tried = [attempt for attempt, _ in _tried(transaction, digest)]
    hosts = study_transaction.hosts_of(
        transaction, {e.host for e in tried if isinstance(e.host, int)}
    )
    kinds = study_transaction.machines_of(transaction, {host[1] for host in hosts.values()})
    conditions = study_transaction.conditions_of(transaction, [attempt.id for attempt in tried])
    attempts = []
    for attempt in tried:
        measured: Mapping[str, MetricValue] = codec.load_values(attempt.metrics)
        name, kind, kernel, memory, unmeasured = (
            hosts.get(attempt.host, ("", 0, "", 0, ""))
            if isinstance(attempt.host, int)
            else (codec.unescape(attempt.host), 0, "", 0, "")
        )
        attempts.append(
            AttemptRecord(
                attempt.number, attempt.state, attempt.lease, name, attempt.started or 0.0,
                attempt.ended, codec.unescape(attempt.cause), attempt.exit, measured,
                kinds.get(kind),
                HostDetails(name, kernel, memory, unmeasured) if kernel or memory else None,
                conditions.get(attempt.id), attempt.round,
            )
        )  # fmt: skip
    return tuple(attempts)


def _chosen(transaction: Transaction, digest: str, attempt: int | None) -> int | None:
    """Return the id of an attempt; of the accepted or newest one, if no number is given."""
    tried = _tried(transaction, digest)
    chiefs = [candidate for candidate, chief in tried if chief]
    others = [candidate for candidate, chief in tried if not chief]
    if attempt is None:
        accepted = [candidate for candidate in chiefs if candidate.state != "running"]
        # Of equal ones the first: a copy whose row in `copies` was lost has no logs of its own.
        return max(
            accepted or chiefs or others, key=lambda candidate: (candidate.number, candidate.lease)
        ).id
    return next(
        (candidate.id for candidate in (*chiefs, *others) if candidate.number == attempt), None
    )


def logs_of(transaction: Transaction, digest: str, attempt: int | None) -> AttemptLogs:
    number = _chosen(transaction, digest, attempt)
    return AttemptLogs() if number is None else result_rows.logs_of(transaction, number)


def artifacts_of(
    transaction: Transaction, digest: str, attempt: int | None, first: int, most: int | None
) -> tuple[Artifact, ...]:
    number = _chosen(transaction, digest, attempt)
    return () if number is None else result_rows.artifacts_of(transaction, number, first, most)


def contents_in_use(transaction: Transaction, sha256: Sequence[str]) -> frozenset[str]:
    """Return those of these contents that artifacts have."""
    rows = transaction.among_sql(
        "SELECT DISTINCT content FROM artifacts WHERE {among}",
        "content",
        [bytes.fromhex(content) for content in sha256],
    )
    return frozenset(bytes(content).hex() for (content,) in rows)


def artifact_count(transaction: Transaction, digest: str, attempt: int | None) -> int:
    number = _chosen(transaction, digest, attempt)
    query = f"SELECT count(*) FROM artifacts WHERE attempt = {transaction.dialect.mark}"
    return 0 if number is None else int(transaction.sql(query, (number,))[0][0])


def merge_records(
    finished: Iterator[ExperimentRecord], unfinished: Iterable[ExperimentRecord]
) -> Iterator[ExperimentRecord]:
    """Merge two series of records, each in the order of the space, into one in that order."""
    import heapq  # noqa: PLC0415

    return heapq.merge(finished, unfinished, key=lambda record: record.key)
