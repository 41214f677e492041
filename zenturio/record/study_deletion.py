"""Deletion of a version of a study, with everything that no other version needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zenturio.record import leases, repository, studies, submission_queue
from zenturio.record.database import Transaction
from zenturio.record.entities import StudyDeletion
from zenturio.record.studies import NO_VERSION, StudyVersion

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
