"""Claims in SQL: the right of one driver to run one experiment.

A claim is a row, and the unique index on digest, round and target decides whose it is: no lock is
taken and no driver waits for another one. Its number becomes the number of the attempt, on which
logs, artifacts and conditions hang. The commit that records the outcome deletes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zenturio.experiment.experiment import SUCCEEDED, Experiment, Kinds, ProgramIdentity
from zenturio.record import acceptance_rules, codec, leases, machines
from zenturio.record.database import Transaction
from zenturio.record.leases import LeaseRow
from zenturio.record.study_context import GrantedClaim, StudyContext

_log = logging.getLogger(__name__)

COLUMNS = (
    "id", "digest", "round", "target", "version", "lease", "attempt", "host", "started",
    "position", "repeat", "point",
)  # fmt: skip
ANY_MACHINE = 0
"""The target of a claim on an experiment that runs once, on whatever machine."""


class ClaimRow(NamedTuple):
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

    def values(self, context: StudyContext) -> Mapping[str, Any]:
        """Return the point, as this process claimed it or as the row has it."""
        granted = self._granted(context)
        return codec.load_values(self.point) if granted is None else granted.values

    def named(self, context: StudyContext) -> tuple[ProgramIdentity | None, bytes]:
        """Return program and key of the point; neither after a restart, for no row has them."""
        granted = self._granted(context)
        return (None, b"") if granted is None else (granted.program, granted.key)

    def _granted(self, context: StudyContext) -> GrantedClaim | None:
        granted = context.cache.granted.get((self.lease, bytes(self.digest).hex()))
        return granted if granted is not None and granted.number == self.id else None


def claim(
    context: StudyContext,
    lease: LeaseRow,
    experiments: Sequence[Experiment],
    kinds: Kinds = None,
    round_: int | None = None,
) -> dict[str, int]:
    """Return those of *experiments* that the driver may run, each with its attempt's number.

    The order of the statements makes it right: a driver that records deletes its claim and adds
    the result in one commit. So once our claim stands, reading the results afterwards sees every
    outcome that was recorded before it.
    """
    transaction = context.transaction
    by_key = {codec.digest_key(experiment.digest): experiment for experiment in experiments}
    _insert(context, lease, by_key, round_)
    holders = _holders(transaction, by_key)
    other_leases = {holder.lease for holder in holders} - {lease.number}
    # Whether other drivers are alive is asked only where they stand in the way.
    if other_leases and leases.end_leases_of_dead_drivers(transaction, other_leases):
        _insert(context, lease, by_key, round_)
        holders = _holders(transaction, by_key)
    ours = [holder for holder in holders if holder.lease == lease.number]
    # A claim whose answer was lost may be of the round before this one: the first one stays.
    own_claims = {holder.digest: holder for holder in reversed(ours)}
    superfluous = [holder.id for holder in ours if own_claims[holder.digest] is not holder]
    results = results_of(transaction, own_claims)
    finished = {result.digest for result in usable_results(context, results, kinds, round_)}
    # An experiment runs once at a time: not in two rounds, or in the rounds of two studies.
    claimed_elsewhere = {holder.digest for holder in holders if holder.lease != lease.number}
    superfluous += [
        own_claims.pop(key).id for key in (finished | claimed_elsewhere) & own_claims.keys()
    ]
    # Claims come before this look at the results, so some are for what is finished: undo these.
    transaction.among_sql("DELETE FROM claims WHERE {among}", "id", superfluous)
    numbers = _number(transaction, own_claims, results)
    transaction.log(
        _log, "lease %d: %d of %d experiments claimed", lease.number, len(own_claims), len(by_key)
    )
    granted = {}
    for key, experiment in by_key.items():
        if key in own_claims:
            place = transaction.dialect.position(experiment.index), experiment.repeat
            context.new_granted[lease.number, experiment.digest] = GrantedClaim(
                own_claims[key].id,
                numbers[key],
                *place,
                experiment.values,
                experiment.program,
                experiment.key,
                own_claims[key].round,
            )
            granted[experiment.digest] = numbers[key]
    return granted


class _Holder(NamedTuple):
    """The lease that has claimed an experiment, and the attempt that it is."""

    digest: bytes
    id: int
    lease: int
    attempt: int
    round: int


def _insert(
    context: StudyContext,
    lease: LeaseRow,
    experiments: Mapping[bytes, Experiment],
    round_: int | None,
) -> None:
    """Claim what no driver holds, in the order of digests, so that no two drivers deadlock."""
    transaction = context.transaction
    position, host = transaction.dialect.position, codec.escape(lease.host)
    rows = [
        (
            key, round_ or context.version.round, ANY_MACHINE, context.version.id, lease.number,
            1, host, transaction.now, position(experiment.index), experiment.repeat,
            codec.dump_values(experiment.values),
        )
        for key, experiment in sorted(experiments.items(), key=lambda item: item[0])
    ]  # fmt: skip
    transaction.insert_new("claims", COLUMNS[1:], rows)


def _holders(transaction: Transaction, keys: Iterable[bytes]) -> list[_Holder]:
    """Return the claims on these experiments, in whichever round."""
    rows = transaction.among_sql(
        "SELECT digest, id, lease, attempt, round FROM claims"
        f" WHERE target = {ANY_MACHINE} AND {{among}}",
        "digest",
        sorted(keys),
    )
    holders = [_Holder(bytes(digest), *row) for digest, *row in rows]
    return sorted(holders, key=lambda holder: holder.id)


# Which results stand for an experiment


class ResultSummary(NamedTuple):
    """What decides whether a result may be used."""

    digest: bytes
    version: int
    id: int
    machine: int
    status: str
    attempt: int
    lease: int
    round: int
    is_newest: bool

    @property
    def rank(self) -> acceptance_rules.Rank:
        return acceptance_rules.result_rank(self.status, self.attempt, self.id)


def results_of(transaction: Transaction, keys: Iterable[bytes]) -> list[ResultSummary]:
    """Return the results that experiments have, in whichever version."""
    rows = transaction.among_sql(
        "SELECT digest, version, id, machine, status, attempt, lease, round, newest = 1"
        " FROM results WHERE {among}",
        "digest",
        sorted(keys),
    )
    return [ResultSummary(bytes(digest), *row) for digest, *row in rows]


def results_for_machine(
    transaction: Transaction, results: Sequence[ResultSummary], kinds: Kinds
) -> Sequence[ResultSummary]:
    """Return those of *results* that count for some kinds of machine; all, if none are named."""
    if not results or kinds is None:
        return results
    machine_numbers = machines.numbers_of(transaction, kinds)
    return [result for result in results if result.machine in machine_numbers]


def usable_results(
    context: StudyContext,
    results: Sequence[ResultSummary],
    kinds: Kinds = None,
    round_: int | None = None,
) -> list[ResultSummary]:
    """Return those of *results* that stand for their experiment in the version of *context*.

    They count as cached there, and nobody is granted a claim on the experiment. They are: the
    version's own; those of other versions that are ok; and those that are not, unless this
    version has set that attempt aside, or a later one: what it has refused, it does not get back
    from others. Results of other kinds of machine than *kinds* are none of them; with a round,
    only those are that the version itself measured in it.
    """
    transaction, version = context.transaction, context.version.id
    results = results_for_machine(transaction, results, kinds)
    if round_ is not None:
        return [r for r in results if (r.version, r.round) == (version, round_)]
    results = [result for result in results if result.is_newest]
    # Only failures of other versions can have been refused: mostly there are none to look up.
    doubtful = {r.digest for r in results if r.version != version and r.status not in SUCCEEDED}
    refused = _refused(transaction, version, doubtful)
    return [
        result
        for result in results
        if result.version == version
        or result.status in SUCCEEDED
        or result.attempt > refused.get((result.digest, result.machine), 0)
    ]


def _refused(
    transaction: Transaction, version: int, keys: Iterable[bytes]
) -> dict[tuple[bytes, int], int]:
    """Return the last attempt that a version has set aside, by digest and kind of machine."""
    mark = transaction.dialect.mark
    rows = transaction.among_sql(
        f"SELECT digest, machine, max(number) FROM attempts WHERE version = {mark}"
        " AND state NOT IN ('stale', 'superseded') AND {among} GROUP BY digest, machine",
        "digest",
        sorted(keys),
        (version,),
    )
    return {(bytes(digest), machine): number for digest, machine, number in rows}


def _number(
    transaction: Transaction, own_claims: Mapping[bytes, _Holder], results: Iterable[ResultSummary]
) -> dict[bytes, int]:
    """Give each claim the number of its attempt: one more than all before it, wherever made."""
    last = last_attempts(transaction, own_claims, results)
    numbers = {key: max(holder.attempt, last.get(key, 0) + 1) for key, holder in own_claims.items()}
    mark = transaction.dialect.mark
    transaction.sql_many(
        f"UPDATE claims SET attempt = {mark} WHERE id = {mark}",
        [
            (numbers[key], holder.id)
            for key, holder in own_claims.items()
            if numbers[key] != holder.attempt
        ],
    )
    return numbers


def last_attempts(
    transaction: Transaction, keys: Iterable[bytes], results: Iterable[ResultSummary]
) -> dict[bytes, int]:
    """Return the highest number of an attempt at each experiment; *results* are all it has."""
    rows = transaction.among_sql(
        "SELECT digest, max(number) FROM attempts WHERE {among} GROUP BY digest",
        "digest",
        sorted(keys),
    )
    last = {bytes(digest): int(number) for digest, number in rows}
    for result in results:
        last[result.digest] = max(result.attempt, last.get(result.digest, 0))
    return last


def delete_claims(
    transaction: Transaction, lease: int, keys: Iterable[bytes]
) -> dict[bytes, ClaimRow]:
    """Delete the claims of a lease on these digests; return what they were.

    That the row is still there is what makes an outcome the accepted one: of two transactions
    that delete it, one gets the row.
    """
    mark = transaction.dialect.mark
    rows = transaction.among_sql(
        f"DELETE FROM claims WHERE lease = {mark} AND {{among}} RETURNING {', '.join(COLUMNS)}",
        "digest",
        sorted(keys),
        (lease,),
    )
    return {bytes(row[1]): ClaimRow(*row) for row in rows}


def restore_claims(transaction: Transaction, claims: Iterable[ClaimRow]) -> None:
    """Insert claims again that were deleted, and whose outcome did not come."""
    transaction.insert("claims", COLUMNS, list(claims))
