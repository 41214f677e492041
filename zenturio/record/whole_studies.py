"""Whole studies: how far each one is, and deletion of a version."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from zenturio.record import (
    codec,
    leases,
    repository,
    result_rows,
    studies,
    study_transaction,
    submission_queue,
)
from zenturio.record.database import Transaction
from zenturio.record.entities import (
    EXPERIMENT_STATES,
    MeasurementRound,
    ResultCount,
    StudyDeletion,
    StudyStanding,
)
from zenturio.record.studies import NO_VERSION, StudyVersion

_NAMED = 3
"""Studies that are looked for by their names; of more, all are read."""


def standings(transaction: Transaction, names: Collection[str] | None) -> list[StudyStanding]:
    """Return where studies stand, all or those of these names, in the order of their creation.

    Only studies that run, or have results of several rounds or kinds of machine, are looked at one
    by one.
    """
    if names is not None and len(names) <= _NAMED:
        named = (studies.find_version(transaction, name) for name in names)
        versions = sorted({v for v in named if v is not None}, key=lambda version: version.id)
    else:
        versions = studies.all_versions(transaction)
        versions = [v for v in versions if names is None or v.name in names]
    numbers = sorted(version.id for version in versions)
    counters = _by_version(
        transaction,
        "SELECT version, machine, round, status, count FROM counters WHERE count <> 0 AND {among}"
        " ORDER BY machine, round, status",
        numbers,
    )
    kinds = study_transaction.machines_of(
        transaction, {int(row[0]) for rows in counters.values() for row in rows}
    )
    open_leases = leases.open_leases_of(transaction, numbers)
    first_people: dict[int, str] = _pairs(
        transaction.among_sql(
            "SELECT version, person FROM leases WHERE id IN"
            " (SELECT min(id) FROM leases WHERE {among} GROUP BY version)",
            "version",
            numbers,
        )
    )
    claimed = {lease for rows in open_leases.values() for lease in (row.number for row in rows)}
    running: dict[int, int] = _pairs(
        transaction.among_sql(
            "SELECT lease, count(*) FROM claims WHERE {among} GROUP BY lease",
            "lease",
            sorted(claimed),
        )
    )
    rounds = studies.rounds_of_versions(transaction, numbers)
    documents: dict[int, str] = _pairs(
        transaction.among_sql(
            "SELECT version, document FROM definitions WHERE id IN"
            " (SELECT max(id) FROM definitions WHERE {among} GROUP BY version)",
            "version",
            numbers,
        )
    )
    last_events: dict[int, float] = _pairs(
        transaction.among_sql(
            "SELECT version, at FROM events WHERE id IN"
            " (SELECT max(id) FROM events WHERE {among} GROUP BY version)",
            "version",
            numbers,
        )
    )
    standings = []
    for version in versions:
        rows = [(int(m), int(r), status, int(n)) for m, r, status, n in counters[version.id]]
        its_leases = open_leases.get(version.id, [])
        if len({row[:2] for row in rows}) > 1 or any(row.number in running for row in its_leases):
            counts = result_rows.count_states(transaction, version.name)
        else:
            counted = Counter({status: count for *_, status, count in rows})
            counts = {state: counted[state] for state in EXPERIMENT_STATES}
        first = MeasurementRound(1, version.created, codec.unescape(first_people.get(version.id)))
        standings.append(
            StudyStanding(
                version.study_facts,
                counts,
                tuple(ResultCount(kinds.get(m), r, status, n) for m, r, status, n in rows),
                tuple(row.lease(version.name) for row in its_leases),
                rounds.get(version.id, (first,)),
                *studies.notes_and_sources_of(documents.get(version.id)),
                last_events.get(version.id, version.created),
            )
        )
    return standings


def _pairs(rows: list[tuple[Any, ...]]) -> dict[int, Any]:
    return {int(key): value for key, value in rows}


def _by_version(
    transaction: Transaction, template: str, numbers: Collection[int]
) -> dict[int, list[tuple[Any, ...]]]:
    """Return rows by the version that stands first in each."""
    rows: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for version, *cells in transaction.among_sql(template, "version", sorted(numbers)):
        rows[version].append(tuple(cells))
    return rows


# Deletion of a version, with everything that no other version needs

# Of the version `{v}`. Logs and artifacts of a result go unless a copy elsewhere leads to them.
_RESULTS = "SELECT id FROM results WHERE version = {v}"
_SET_ASIDE = "SELECT id FROM attempts WHERE version = {v}"
_COPIES = f"(result IN ({_RESULTS}) OR result IN ({_SET_ASIDE}))"
_ELSEWHERE = f"SELECT source FROM copies WHERE NOT {_COPIES}"
_ATTEMPTS = f"SELECT id FROM attempts WHERE version = {{v}} AND id NOT IN ({_ELSEWHERE})"
_GONE = (
    f"SELECT id FROM results WHERE version = {{v}} AND id NOT IN ({_ELSEWHERE})"
    f" UNION {_ATTEMPTS}"
    # Of one that went before: this version's copy was the last that led to it.
    f" UNION SELECT source FROM copies WHERE {_COPIES} AND source NOT IN"
    f" ({_ELSEWHERE}) AND source NOT IN (SELECT id FROM results WHERE version <> {{v}})"
    # A result may have been set aside where it was measured.
    " AND source NOT IN (SELECT id FROM attempts WHERE version <> {v})"
)
_SHARED = (
    "SELECT count(*) FROM results e WHERE version = {v} AND EXISTS"
    " (SELECT 1 FROM results o WHERE o.digest = e.digest AND o.version <> {v})"
)
_TRIED = (
    "SELECT count(*) FROM results e WHERE version = {v} AND NOT EXISTS"
    " (SELECT 1 FROM results o WHERE o.digest = e.digest AND o.version <> {v})"
)
_PAST = (
    "SELECT count(*) FROM attempts WHERE version = {v} AND id NOT IN (SELECT result FROM copies)"
)
# A driver that died leaves claims: deletion makes them stale attempts first, a preview does not.
_CLAIMED = "SELECT count(*) FROM claims WHERE version = {v}"
_PARTS = ("stdout_head", "stdout_tail", "stderr_head", "stderr_tail")
_LOG_BYTES = (
    f"SELECT coalesce(sum({' + '.join(f'length({part})' for part in _PARTS)}), 0)"
    f" FROM logs WHERE attempt IN ({_GONE})"
)
_KEPT = (
    "SELECT DISTINCT c.digest, c.foreign_path FROM artifacts a JOIN contents c"
    f" ON c.digest = a.content WHERE a.attempt IN ({_GONE}) AND a.content NOT IN"
    f" (SELECT content FROM artifacts WHERE attempt NOT IN ({_GONE}))"
)
# Of each experiment that others share the last attempt stays, so that its number never comes
# again: a row of no version, without anything that the experiment said.
_SHARED_BY_OTHERS = (
    "(EXISTS (SELECT 1 FROM results o WHERE o.digest = e.digest AND o.version <> {v})"
    " OR EXISTS (SELECT 1 FROM attempts o"
    f" WHERE o.digest = e.digest AND o.version NOT IN ({{v}}, {NO_VERSION})))"
)
_IS_LAST = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} o WHERE o.digest = e.digest AND (o.{number} > e.{{number}}"
    f" OR (o.{number} = e.{{number}} AND (o.version <> {{v}} OR o.id > e.id))))"
    for table, number in (("results", "attempt"), ("attempts", "number"))
)
_FACTS = "round, machine, lease, host, started, ended, exit, position, repeat"
_KEEP_RESULT = (
    f"INSERT INTO attempts (id, digest, version, number, state, {_FACTS})"
    f" SELECT id, digest, {NO_VERSION}, attempt, status, {_FACTS} FROM results e"
    f" WHERE version = {{v}} AND {_SHARED_BY_OTHERS}"
    f" AND {_IS_LAST.replace('{number}', 'attempt')}"
)
_KEEP_ATTEMPT = (
    f"UPDATE attempts AS e SET version = {NO_VERSION}, cause = NULL, point = NULL,"
    f" metrics = NULL WHERE version = {{v}} AND {_SHARED_BY_OTHERS}"
    f" AND {_IS_LAST.replace('{number}', 'number')}"
)
_FORGET_LAST = (
    f"DELETE FROM attempts AS e WHERE version = {NO_VERSION} AND (NOT {_SHARED_BY_OTHERS}"
    " OR EXISTS (SELECT 1 FROM results o"
    " WHERE o.digest = e.digest AND o.version <> {v} AND o.attempt >= e.number)"
    " OR EXISTS (SELECT 1 FROM attempts o"
    " WHERE o.digest = e.digest AND o.version <> {v} AND o.number >= e.number AND o.id <> e.id))"
)
_DELETE = (
    *(
        f"DELETE FROM {table} WHERE attempt IN ({_GONE})"
        for table in ("logs", "artifacts", "conditions")
    ),
    f"DELETE FROM chunks WHERE result IN ({_RESULTS})",
    f"DELETE FROM aliases WHERE result IN ({_RESULTS})",
    f"DELETE FROM copies WHERE {_COPIES}",
    _KEEP_RESULT,
    _KEEP_ATTEMPT,
    _FORGET_LAST,
    *(
        f"DELETE FROM {table} WHERE version = {{v}}"
        for table in (
            "results", "attempts", "claims", "counters", "edits", "rounds", "recipes", "events",
        )
    ),
    "DELETE FROM sources WHERE definition IN (SELECT id FROM definitions WHERE version = {v})",
    *(f"DELETE FROM {table} WHERE version = {{v}}" for table in ("definitions", "leases")),
)  # fmt: skip


Locate = Callable[[bytes, str | None], str]
"""Takes a content and, if its file is in no store, the path of that; returns where it is."""


def contents_in_use(transaction: Transaction, sha256: Sequence[str]) -> frozenset[str]:
    """Return those of these contents that artifacts have."""
    rows = transaction.among_sql(
        "SELECT DISTINCT content FROM artifacts WHERE {among}",
        "content",
        [bytes.fromhex(content) for content in sha256],
    )
    return frozenset(bytes(content).hex() for (content,) in rows)


def preview_deletion(transaction: Transaction, name: str, locate: Locate) -> StudyDeletion:
    """Return what would go with the version of that name."""
    with transaction.interruptible():
        return _burden(transaction, studies.get_version(transaction, name), name, locate)


def _burden(
    transaction: Transaction, version: StudyVersion, name: str, locate: Locate
) -> StudyDeletion:
    def number(statement: str) -> int:
        ((count,),) = transaction.sql(statement.replace("{v}", str(version.id)))
        return int(count)

    alone, shared = number(_TRIED), number(_SHARED)
    artifacts = transaction.sql(_KEPT.replace("{v}", str(version.id)))
    files = {locate(content, path) for content, path in artifacts}
    past = number(_PAST) + number(_CLAIMED)
    return StudyDeletion(
        name, alone, shared, alone + past, number(_LOG_BYTES), tuple(sorted(files))
    )


def delete_study(transaction: Transaction, name: str, locate: Locate) -> StudyDeletion:
    """Take the version of that name away; ConflictError while it has a driver."""
    version = studies.get_version(transaction, name, locked=True)
    for lease in leases.end_dead_leases(transaction, version):
        raise repository.driver_prevents_change(lease)
    with transaction.interruptible():
        removal = _burden(transaction, version, name, locate)
        _run(transaction, version.id, _DELETE)
    submission_queue.remove_unneeded_contents(transaction)
    studies.forget_version(transaction, version)
    return removal


def _run(transaction: Transaction, version: int, statements: Iterable[str]) -> None:
    for statement in statements:
        transaction.sql(statement.replace("{v}", str(version)))
