"""Who may run what, in SQL: a claim is a row, and the unique index decides whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zenturio.experiment.experiment import Experiment
from zenturio.experiment.machine import Machine
from zenturio.record import codec, leases, machines
from zenturio.record.database import Transaction
from zenturio.record.desk import Desk, Granted
from zenturio.record.leases import Row as LeaseRow
from zenturio.record.tally import ROUND

COLUMNS = (
    "id", "digest", "round", "target", "version", "lease", "attempt", "host", "started",
    "position", "repeat", "point",
)  # fmt: skip
ANY_MACHINE = 0
"""The target of a claim on an experiment that runs once, on whatever machine."""


class Claim(NamedTuple):
    """A claim as it is stored."""

    id: int
    digest: bytes
    round: int
    target: int
    version: int
    lease: int
    attempt: int
    host: str
    started: float
    position: Any
    repeat: int
    point: str | None

    def values(self, desk: Desk) -> Mapping[str, Any]:
        """The point: as this process gave it, or as it was written down."""
        known = desk.memory.granted.get((self.lease, bytes(self.digest).hex()))
        if known is not None and known.number == self.id:
            return known.values
        return codec.load(self.point)


def claim(
    desk: Desk,
    lease: LeaseRow,
    experiments: Sequence[Experiment],
    kind: Machine | None = None,
) -> dict[str, int]:
    """Which of *experiments* the driver may run, and each one's attempt.

    The order is what makes it right: whoever records deletes its claim and adds the result in one
    commit, so once our claim stands, a look at the results sees what was there before it. Results
    of other kinds of machine than *kind* do not stand in its way.
    """
    wanted = {experiment.digest: experiment for experiment in experiments}
    keys = {codec.key(digest): digest for digest in wanted}
    _ask(desk, lease, keys, wanted)
    held = _held(desk.transaction, keys)
    others = {row.lease for row in held.values()} - {lease.number}
    if others and leases.relieve(desk.transaction, others):
        _ask(desk, lease, keys, wanted)
        held = _held(desk.transaction, keys)
    mine = {key: row for key, row in held.items() if row.lease == lease.number}
    mine, past = _without_results(desk.transaction, mine, kind)
    attempts = _numbered(desk.transaction, mine, past)
    position = desk.transaction.flavour.position
    granted = {}
    for digest, experiment in wanted.items():
        key = codec.key(digest)
        if key in mine:
            number, point = attempts[key], experiment.values
            place = position(experiment.index), experiment.repeat
            desk.new_granted[lease.number, digest] = Granted(mine[key].id, number, *place, point)
            granted[digest] = number
    return granted


class _Held(NamedTuple):
    id: int
    lease: int
    attempt: int


def _ask(
    desk: Desk, lease: LeaseRow, keys: Mapping[bytes, str], wanted: Mapping[str, Experiment]
) -> None:
    """Claims what nobody holds; in the order of the digests, so that no two wait in a ring."""
    transaction = desk.transaction
    position, host = transaction.flavour.position, codec.escape(lease.host)
    rows = []
    for key in sorted(keys):
        experiment = wanted[keys[key]]
        rows.append((
            key, ROUND, ANY_MACHINE, desk.version.id, lease.number, 1, host, transaction.now,
            position(experiment.index), experiment.repeat, codec.dump(experiment.values),
        ))  # fmt: skip
    transaction.insert_new("claims", COLUMNS[1:], rows)


def _held(transaction: Transaction, keys: Iterable[bytes]) -> dict[bytes, _Held]:
    """Who has claimed which."""
    rows = transaction.among_sql(
        f"SELECT digest, id, lease, attempt FROM claims"
        f" WHERE round = {ROUND} AND target = {ANY_MACHINE} AND {{among}}",
        "digest",
        sorted(keys),
    )
    return {bytes(digest): _Held(*row) for digest, *row in rows}


def _without_results(
    transaction: Transaction, mine: Mapping[bytes, _Held], kind: Machine | None
) -> tuple[dict[bytes, _Held], dict[bytes, int]]:
    """Those of our claims that nobody has recorded; the others are given back.

    And the number of the last attempt of those that another kind of machine has a result of.
    """
    there = accepted_attempts(transaction, sorted(mine))
    counting = machines.numbers_of(transaction, kind) if there and kind is not None else None
    known = {key for key, machine, _ in there if counting is None or machine in counting}
    transaction.among_sql("DELETE FROM claims WHERE {among}", "id", [mine[key].id for key in known])
    past: dict[bytes, int] = {}
    for key, _, attempt in there:
        past[key] = max(attempt, past.get(key, 0))
    return {key: row for key, row in mine.items() if key not in known}, past


def accepted_attempts(
    transaction: Transaction, keys: Sequence[bytes]
) -> list[tuple[bytes, int, int]]:
    """Of each result of experiments: which one's, its kind of machine, and its attempt."""
    rows = transaction.among_sql(
        f"SELECT digest, machine, attempt FROM results WHERE round = {ROUND} AND {{among}}",
        "digest",
        keys,
    )
    return [(bytes(digest), machine, attempt) for digest, machine, attempt in rows]


def _numbered(
    transaction: Transaction, mine: Mapping[bytes, _Held], accepted: Mapping[bytes, int]
) -> dict[bytes, int]:
    """The number of the attempt of each claim: one more than all before it."""
    past = past_attempts(transaction, mine)
    numbers = {
        key: max(row.attempt, past.get(key, 0) + 1, accepted.get(key, 0) + 1)
        for key, row in mine.items()
    }
    mark = transaction.flavour.mark
    transaction.sql_many(
        f"UPDATE claims SET attempt = {mark} WHERE id = {mark}",
        [(numbers[key], row.id) for key, row in mine.items() if numbers[key] != row.attempt],
    )
    return numbers


def past_attempts(transaction: Transaction, keys: Iterable[bytes]) -> dict[bytes, int]:
    """The number of the last attempt that was not accepted, of those that had any."""
    rows = transaction.among_sql(
        "SELECT digest, max(number) FROM attempts WHERE {among} GROUP BY digest",
        "digest",
        sorted(keys),
    )
    return {bytes(digest): number for digest, number in rows}


def take(transaction: Transaction, lease: int, keys: Iterable[bytes]) -> dict[bytes, Claim]:
    """Ends the claims of a lease on these digests; what they were."""
    mark = transaction.flavour.mark
    rows = transaction.among_sql(
        f"DELETE FROM claims WHERE lease = {mark} AND {{among}} RETURNING {', '.join(COLUMNS)}",
        "digest",
        sorted(keys),
        (lease,),
    )
    return {bytes(row[1]): Claim(*row) for row in rows}


def put_back(transaction: Transaction, claims: Iterable[Claim]) -> None:
    """Claims that were taken, and are not over."""
    transaction.insert("claims", COLUMNS, list(claims))
