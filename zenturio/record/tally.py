"""The counters, kept by whatever changes a state: counting a million rows takes too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import bindparam, select, update

from zenturio.record.database import Transaction
from zenturio.record.facts import State
from zenturio.record.schema import counters, shares

_SHARES = select(shares.c.experiment, shares.c.study)
_ADD = (
    update(counters)
    .where(counters.c.study == bindparam("of_study"), counters.c.state == bindparam("of_state"))
    .values(count=counters.c["count"] + bindparam("more"))
)


def members(transaction: Transaction, homes: Mapping[int, int]) -> dict[int, list[int]]:
    """Which studies have each of the experiments; the one that it belongs to (*homes*) first."""
    found = {experiment: [study] for experiment, study in homes.items()}
    for experiment, study in transaction.among(_SHARES, shares.c.experiment, found):
        found[experiment].append(study)
    return found


class Tally:
    """Changes of the counters, gathered while a transaction goes on."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._changes: Counter[tuple[int, State]] = Counter()

    def add(self, study: int, state: State, count: int = 1) -> None:
        self._changes[study, state] += count

    def move(self, studies: Iterable[int], before: State, after: State) -> None:
        """An experiment of these studies went from one state to another."""
        for study in studies:
            self.add(study, before, -1)
            self.add(study, after)

    def write(self) -> None:
        rows = [(n, study, state) for (study, state), n in sorted(self._changes.items()) if n]
        self._transaction.many(_ADD, ("more", "of_study", "of_state"), rows)
        self._changes.clear()
