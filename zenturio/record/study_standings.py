"""How far each study is: its counts, drivers, rounds and last event."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from zenturio.record import codec, leases, result_rows, studies, study_transaction
from zenturio.record.database import Transaction
from zenturio.record.entities import (
    EXPERIMENT_STATES,
    MeasurementRound,
    ResultCount,
    StudyStanding,
)

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
