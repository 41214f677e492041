"""Counters of results, updated with each change, for counting a million rows takes long."""

from __future__ import annotations

from collections import Counter

from zenturio.record.database import Transaction

FIRST_ROUND = 1
"""The round of all that is measured once."""


class CounterChanges:
    """Changes of the counters, gathered while a transaction goes on."""

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
