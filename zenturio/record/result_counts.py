"""How many experiments and results a study has, in SQL."""

from __future__ import annotations

from collections import Counter

from zenturio.record import machines, studies
from zenturio.record.database import Transaction
from zenturio.record.entities import EXPERIMENT_STATES, ExperimentState, ResultCount

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
    kinds = machines.machines_of(transaction, {machine for machine, *_ in rows})
    return tuple(
        ResultCount(kinds.get(machine), number, status, count)
        for machine, number, status, count in rows
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
