"""Leases of drivers on studies, and their claims on experiments.

A driver renews its lease while it runs. A lease ends when the driver releases it, when it expires
by the database's clock, or when its process on this host has exited; its claims then become stale
attempts. No lease is believed to reach further than its own length. ``ended`` decides, not
``until``: a lease that has run out still counts until somebody takes the study over, so a driver
that was suspended for a while loses nothing if nobody came.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from time import time
from typing import Any, Literal, NamedTuple

from zenturio import trust
from zenturio.experiment.experiment import SUCCEEDED, Experiment, Kinds, ProgramIdentity
from zenturio.record import codec, entities, repository, studies, study_transaction
from zenturio.record.database import Transaction
from zenturio.record.entities import DriverProcess, Lease, StudyInfo
from zenturio.record.studies import StudyVersion, add_event
from zenturio.record.study_transaction import GrantedClaim, StudyTransaction

_log = logging.getLogger(__name__)

CLOCK_TOLERANCE = 1.0
"""Seconds by which clocks may differ before times are corrected."""

_FACTS = "l.id, l.version, l.token, l.host, l.pid, l.born, l.since, l.until, l.seconds, l.ended"
_COLUMNS = ("version", "token", "host", "pid", "born", "person", "since", "until", "seconds")
_STALE = (
    "id", "digest", "version", "round", "machine", "number", "lease", "state", "host", "started",
    "ended", "cause", "position", "repeat", "point",
)  # fmt: skip


LONGEST_LEASE_SECONDS = 3600.0
"""The longest lease, even if its row has a later end: drivers renew theirs three times in it."""

LeaseEnd = Literal["left", "superseded"]
"""How a lease ended, as in the cause of the attempts that became stale."""
END_DESCRIPTIONS: dict[LeaseEnd, str] = {
    "left": "released by its driver",
    "superseded": "its driver was lost",
}


class LeaseRow(NamedTuple):
    """A lease as a row of the database."""

    number: int
    version: int
    token: str
    host: str
    pid: int
    born: str
    since: float
    until: float
    seconds: float
    ended: float | None

    def lease(self, name: str) -> Lease:
        return Lease(
            self.number, name, self.host, self.pid, self.since, self.until, self.seconds, self.born
        )

    def alive(self, now: float) -> bool:
        return (
            self.until > now
            and not DriverProcess(self.host, self.pid, self.born, self.token).has_exited()
        )

    def latest_end(self, now: float) -> float:
        """Return the end of the lease if it had been renewed just now."""
        return now + min(self.seconds, LONGEST_LEASE_SECONDS)


def lock_lease(
    transaction: Transaction, name: str, number: int, *, ended: bool = False
) -> tuple[LeaseRow, StudyVersion]:
    """Return the lease with that number and its study; lock it until the transaction ends.

    ConflictError if it has ended, unless *ended* ones will do, or is for another study.
    """
    dialect = transaction.dialect
    began = time()
    rows = transaction.sql(
        f"SELECT {_FACTS}, {studies.version_columns(transaction)}, {dialect.now}"
        f" FROM leases l CROSS JOIN {studies.JOINED} WHERE v.id = l.version"
        f" AND l.id = {dialect.mark}{dialect.lease_lock}",
        (number,),
    )
    if not rows:
        studies.get_version(transaction, name)
        raise repository.lease_superseded(name, number)
    *facts, now = rows[0]
    transaction.now = now
    transaction.clock_offset = measured_offset(now, began, time())
    row, version = LeaseRow(*facts[:10]), StudyVersion(*facts[10:])
    if name not in (version.name, version.fixed_name):
        studies.get_version(transaction, name)
        raise repository.lease_superseded(name, number)
    if row.ended is not None and not ended:
        raise repository.lease_superseded(name, number)
    return row, version


def measured_offset(server: float, asked: float, answered: float) -> float:
    """Return by how much a server's clock is ahead of this one, which read *asked* and *answered*.

    0 if the reply took so long that the clocks may agree.
    """
    offset = server - (asked + answered) / 2
    return offset if abs(offset) > abs(answered - asked) / 2 + CLOCK_TOLERANCE else 0.0


def archive(transaction: Transaction, study: StudyInfo) -> StudyInfo | None:
    """Return the study under its archived name; None if it has lost its name already."""
    version = studies.find_version(transaction, study.name, locked=True)
    if version is None or version.created != study.created or version.current != version.id:
        return None
    for lease in end_dead_leases(transaction, version):
        raise repository.driver_prevents_change(lease)
    return studies.archive(transaction, version).study_facts


def acquire(
    transaction: Transaction, name: str, driver: DriverProcess, join: bool, seconds: float
) -> tuple[Lease, StudyVersion]:
    """Return a lease on the study; ConflictError while another driver has it, unless we *join*.

    A driver that repeats the call gets the lease that it has: the first reply may have been lost.
    """
    version = _locked(transaction, name)
    now, seconds = transaction.now, min(seconds, LONGEST_LEASE_SECONDS)
    facts = (version.id, driver.token, driver.host, driver.pid, driver.born, person())
    values = (*facts, now, now + seconds, seconds)
    # Usually no other lease is open, and one statement is enough; otherwise look at the others.
    numbers = _insert_lease(transaction, values, alone=True)
    if not numbers:
        rows = _open(transaction, version)
        for row in rows:
            if row.token == driver.token:
                return renew(transaction, row.lease(name)), version
        # Also when joining: claims of dead drivers are released as early as possible.
        for lease in _end_dead(transaction, version, rows):
            if not join:
                raise repository.study_has_driver(lease)
        numbers = _insert_lease(transaction, values, alone=False)
    (number,) = numbers
    text = f"lease {number}: process {driver.pid} on {driver.host}"
    add_event(transaction, version.id, "driver", text)
    transaction.log(
        _log, "study %s: lease %d acquired for %g s by process %d on %s", name, number, seconds,
        driver.pid, driver.host, level=logging.INFO,
    )  # fmt: skip
    lease = Lease(number, name, driver.host, driver.pid, now, now + seconds, seconds, driver.born)
    return lease, version


def _insert_lease(transaction: Transaction, values: Sequence[Any], *, alone: bool) -> list[int]:
    """Add a lease and return its number; if *alone*, only where no other lease is open."""
    mark = transaction.dialect.mark
    condition = f"NOT EXISTS (SELECT 1 FROM leases WHERE version = {mark} AND ended IS NULL)"
    rows = transaction.sql(
        f"INSERT INTO leases ({', '.join(_COLUMNS)}) SELECT {', '.join([mark] * len(_COLUMNS))}"
        f" WHERE {condition if alone else 'true'} RETURNING id",
        (*values, values[0]) if alone else values,
    )
    return [number for (number,) in rows]


def person() -> str:
    """Return the name of this process's user as it is stored."""
    return codec.escape(trust.user_name(os.getuid()))


def _locked(transaction: Transaction, name: str) -> StudyVersion:
    """Return the version of that name, locked, so that drivers acquire leases one at a time."""
    version = studies.get_version(transaction, name)
    dialect = transaction.dialect
    if dialect.row_lock:
        lock = f"SELECT id FROM versions WHERE id = {dialect.mark}{dialect.row_lock}"
        transaction.sql(lock, (version.id,))
    return version


def renew(transaction: Transaction, lease: Lease) -> Lease:
    """Return the lease, extended from now on; ConflictError if it has ended."""
    # Even if *until* has passed: as long as no driver has ended the lease, nothing is lost.
    row, version = lock_lease(transaction, lease.study, lease.number)
    # Not by `seconds` alone: a forged row would keep every other driver out for as long.
    until = row.latest_end(transaction.now)
    mark = transaction.dialect.mark
    transaction.sql(f"UPDATE leases SET until = {mark} WHERE id = {mark}", (until, row.number))
    transaction.log(_log, "study %s: lease %d renewed", version.name, row.number)
    return row._replace(until=until).lease(version.name)


def release(transaction: Transaction, lease: Lease) -> StudyVersion | None:
    """End the lease, unless it has ended; its claims become stale.

    Return the version of the study that it was on; none if it had ended.
    """
    return _end_lease(transaction, lease.number, "left")


def open_leases(transaction: Transaction, name: str) -> tuple[Lease, ...]:
    """Return the leases on the study that have not ended, oldest first."""
    version = studies.get_version(transaction, name)
    return tuple(row.lease(name) for row in _open(transaction, version))


def open_leases_of(
    transaction: Transaction, versions: Collection[int]
) -> dict[int, list[LeaseRow]]:
    """Return the leases of these versions that have not ended, oldest first."""
    query = f"SELECT {_FACTS} FROM leases l WHERE l.ended IS NULL AND {{among}} ORDER BY l.id"
    rows: dict[int, list[LeaseRow]] = {}
    for row in map(LeaseRow._make, transaction.among_sql(query, "l.version", sorted(versions))):
        rows.setdefault(row.version, []).append(row)
    return rows


def _open(transaction: Transaction, version: StudyVersion) -> list[LeaseRow]:
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT {_FACTS} FROM leases l WHERE l.version = {mark} AND l.ended IS NULL ORDER BY l.id",
        (version.id,),
    )
    return [LeaseRow(*row) for row in rows]


def end_dead_leases(transaction: Transaction, version: StudyVersion) -> list[Lease]:
    """End the leases of dead drivers; return those of living ones."""
    return _end_dead(transaction, version, _open(transaction, version))


def _end_dead(
    transaction: Transaction, version: StudyVersion, rows: Sequence[LeaseRow]
) -> list[Lease]:
    """Do the same with the leases *rows*, which are all that have not ended."""
    now = transaction.now
    for row in rows:
        if not row.alive(now):
            _end_lease(transaction, row.number, "superseded")
    _shorten(transaction, rows)
    return [row.lease(version.name) for row in rows if row.alive(now)]


def shorten_leases(transaction: Transaction, name: str) -> None:
    """Limit all leases on the study to their own length from now."""
    _shorten(transaction, _open(transaction, studies.get_version(transaction, name)))


def _shorten(transaction: Transaction, rows: Iterable[LeaseRow]) -> None:
    """Shorten leases that end too late because of a wrong clock or a forged row.

    They are not ended: a living driver, whose clock is ahead, renews its lease in time.
    """
    mark, now = transaction.dialect.mark, transaction.now
    for row in rows:
        end = row.latest_end(now)
        if row.until > end:
            query = f"UPDATE leases SET until = {mark} WHERE id = {mark} AND until > {mark}"
            transaction.sql(query, (end, row.number, end))
            transaction.log(
                _log, "lease %d reached further than its length: it ends in %g s, unless renewed",
                row.number, end - now, level=logging.WARNING,
            )  # fmt: skip


def refuse_drivers(transaction: Transaction, versions: Iterable[StudyVersion]) -> None:
    """Raise ConflictError if one of *versions* has a driver; keep new ones out until the commit."""
    dialect = transaction.dialect
    # Locked in the order of their numbers, so that no two transactions wait for each other.
    for version in sorted(versions, key=lambda version: version.id):
        if dialect.row_lock:
            lock = f"SELECT id FROM versions WHERE id = {dialect.mark}{dialect.row_lock}"
            transaction.sql(lock, (version.id,))
        for lease in end_dead_leases(transaction, version):
            raise repository.driver_prevents_change(lease)


def end_leases_of_dead_drivers(transaction: Transaction, numbers: Iterable[int]) -> bool:
    """End those of the leases whose drivers are dead; return whether there were any."""
    numbers = set(numbers)
    rows = transaction.among_sql(
        f"SELECT {_FACTS} FROM leases l WHERE l.ended IS NULL AND {{among}}",
        "l.id",
        sorted(numbers),
    )
    unended = sorted(LeaseRow(*facts) for facts in rows)
    _shorten(transaction, unended)
    dead = {row.number for row in unended if not row.alive(transaction.now)}
    for number in sorted(dead):
        _end_lease(transaction, number, "superseded")
    # No driver will run a claim of a lease that has ended or does not exist.
    orphaned = numbers - {row.number for row in unended}
    for number in sorted(orphaned):
        _make_claims_stale(transaction, number, "superseded")
    return bool(dead or orphaned)


def _end_lease(transaction: Transaction, number: int, why: LeaseEnd) -> StudyVersion | None:
    """End a lease, unless it has ended; its claims become stale attempts.

    Return the version of the study that it was on; none if it is not ended here.
    """
    dialect = transaction.dialect
    mark = dialect.mark
    # Lock the row before the change, so that a pending claim or commit of that driver ends first.
    lock = f"{dialect.row_lock} OF l" if dialect.row_lock else ""
    rows = transaction.sql(
        f"SELECT {_FACTS}, {studies.version_columns(transaction)}"
        f" FROM leases l CROSS JOIN {studies.JOINED} WHERE v.id = l.version"
        f" AND l.id = {mark} AND l.ended IS NULL{lock}",
        (number,),
    )
    if not rows:
        return None  # another process ended it first
    lease, version = LeaseRow(*rows[0][:10]), StudyVersion(*rows[0][10:])
    if why == "superseded" and lease.alive(transaction.now):
        return None  # its driver has renewed it
    transaction.sql(
        f"UPDATE leases SET ended = {mark} WHERE id = {mark}", (transaction.now, number)
    )
    add_event(transaction, version.id, "driver", f"lease {number}: {END_DESCRIPTIONS[why]}")
    transaction.log(_log, "lease %d ended: %s", number, END_DESCRIPTIONS[why], level=logging.INFO)
    _make_claims_stale(transaction, number, why)
    return version


def _make_claims_stale(transaction: Transaction, number: int, why: LeaseEnd) -> None:
    """Record the claims of a lease as stale attempts."""
    mark = transaction.dialect.mark
    claims = sorted(
        transaction.sql(
            f"DELETE FROM claims WHERE lease = {mark} RETURNING id, digest, version, round, target,"
            " attempt, lease, host, started, position, repeat, point",
            (number,),
        )
    )
    if not claims:
        return
    # Claims are short-lived and name their host as a text; attempts refer to a row of hosts.
    hosts = _hosts(transaction, {claim[7] for claim in claims})
    now = transaction.now
    rows = [
        (*claim[:7], "stale", hosts[claim[7]], claim[8], now, why, *claim[9:]) for claim in claims
    ]
    transaction.insert("attempts", _STALE, rows)
    transaction.log(_log, "lease %d: %d claims are stale", number, len(claims), level=logging.INFO)
    events = [
        (claim[2], claim[1], now, "stale", f"attempt {claim[5]}: driver {why}") for claim in claims
    ]
    transaction.insert("events", ("version", "digest", "at", "kind", "text"), events)


def _hosts(transaction: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of hosts of which only the names are known."""
    unique_names: Sequence[str] = sorted(set(names))
    rows: list[Any] = [(name, 0, "", 0) for name in unique_names]
    transaction.insert_new("hosts", ("name", "machine", "kernel", "memory"), rows)
    numbered = transaction.among_sql(
        "SELECT name, id FROM hosts WHERE machine = 0 AND kernel = '' AND memory = 0 AND {among}",
        "name",
        unique_names,
    )
    return {str(name): int(number) for name, number in numbered}


# Claims: the right of one driver to run one experiment
#
# A claim is a row, and the unique index on digest, round and target decides whose it is: no lock is
# taken and no driver waits for another one. Its number becomes the number of the attempt, on which
# logs, artifacts and conditions hang. The commit that records the outcome deletes it.

COLUMNS = (
    "id", "digest", "round", "target", "version", "lease", "attempt", "host", "started",
    "position", "repeat", "point",
)  # fmt: skip
ANY_MACHINE = 0
"""The target of a claim on an experiment that runs once, on any machine."""


class ClaimRow(NamedTuple):
    """A claim as a row of the database."""

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

    def values(self, context: StudyTransaction) -> Mapping[str, Any]:
        """Return the point, as this process claimed it or as the row has it."""
        granted = self._granted(context)
        return codec.load_values(self.point) if granted is None else granted.values

    def named(self, context: StudyTransaction) -> tuple[ProgramIdentity | None, bytes]:
        """Return program and key of the point; neither after a restart, for no row has them."""
        granted = self._granted(context)
        return (None, b"") if granted is None else (granted.program, granted.key)

    def _granted(self, context: StudyTransaction) -> GrantedClaim | None:
        granted = context.cache.granted.get((self.lease, bytes(self.digest).hex()))
        return granted if granted is not None and granted.number == self.id else None


def claim(
    context: StudyTransaction,
    lease: LeaseRow,
    experiments: Sequence[Experiment],
    kinds: Kinds = None,
    round_: int | None = None,
) -> dict[str, int]:
    """Return those of *experiments* that the driver may run, each with its attempt's number.

    The order of the statements makes it right: a driver that records deletes its claim and adds
    the result in one commit. So once our claim stands, reading the results afterwards sees every
    outcome that was recorded before it. Attempts are read by the same statement: what is set aside
    meanwhile is seen as the one or the other, and no number is given again.
    """
    transaction = context.transaction
    by_key = {codec.digest_key(experiment.digest): experiment for experiment in experiments}
    _insert(context, lease, by_key, round_)
    holders, results = _holders_and_results(transaction, by_key)
    other_leases = {holder.lease for holder in holders} - {lease.number}
    # Other drivers are checked only if they hold claims that are needed.
    if other_leases and end_leases_of_dead_drivers(transaction, other_leases):
        _insert(context, lease, by_key, round_)
        holders, results = _holders_and_results(transaction, by_key)
    ours = [holder for holder in holders if holder.lease == lease.number]
    # A claim whose reply was lost may belong to the round before this one: the first one counts.
    own_claims = {holder.digest: holder for holder in reversed(ours)}
    superfluous = [holder.id for holder in ours if own_claims[holder.digest] is not holder]
    finished = {result.digest for result in usable_results(context, results, kinds, round_)}
    # An experiment runs once at a time: not in two rounds, or in the rounds of two studies.
    claimed_elsewhere = {holder.digest for holder in holders if holder.lease != lease.number}
    superfluous += [
        own_claims.pop(key).id for key in (finished | claimed_elsewhere) & own_claims.keys()
    ]
    # The claims were inserted before the results were read, so some are for finished experiments.
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
    last_attempt: int
    """The highest number of the attempts without a result; 0 if there are none."""


def _insert(
    context: StudyTransaction,
    lease: LeaseRow,
    experiments: Mapping[bytes, Experiment],
    round_: int | None,
) -> None:
    """Claim unclaimed experiments in the order of digests, so that no two drivers deadlock."""
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


def _holders_and_results(
    transaction: Transaction, keys: Iterable[bytes]
) -> tuple[list[_Holder], list[ResultSummary]]:
    """Return the claims on these experiments, in any round, and the results that they have.

    Results of an experiment without a claim are left out: another driver has just finished it.
    """
    rows = transaction.among_sql(
        "SELECT c.digest, c.id, c.lease, c.attempt, c.round,"
        " (SELECT coalesce(max(a.number), 0) FROM attempts a WHERE a.digest = c.digest),"
        f" {_RESULT_SUMMARY} FROM claims c LEFT JOIN results r ON r.digest = c.digest"
        f" WHERE c.target = {ANY_MACHINE} AND {{among}}",
        "c.digest",
        sorted(keys),
    )
    holders, results = set(), {}
    for digest, *row in rows:
        key, (holder, summary) = bytes(digest), (row[:5], row[5:])
        holders.add(_Holder(key, *holder))
        result = ResultSummary(key, *summary)
        if result.id is not None:  # none of the digest: the join leaves all columns empty
            results[result.id] = result
    return sorted(holders, key=lambda holder: holder.id), list(results.values())


# Which result represents an experiment


_RESULT_SUMMARY = "r.version, r.id, r.machine, r.status, r.attempt, r.lease, r.round, r.newest = 1"


class ResultSummary(NamedTuple):
    """The facts that decide whether a result may be reused."""

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
    def rank(self) -> entities.Rank:
        return entities.result_rank(self.status, self.attempt, self.id)


def results_of(transaction: Transaction, keys: Iterable[bytes]) -> list[ResultSummary]:
    """Return the results of experiments, in any version."""
    rows = transaction.among_sql(
        f"SELECT r.digest, {_RESULT_SUMMARY} FROM results r WHERE {{among}}",
        "r.digest",
        sorted(keys),
    )
    return [ResultSummary(bytes(digest), *row) for digest, *row in rows]


def results_for_machine(
    transaction: Transaction, results: Sequence[ResultSummary], kinds: Kinds
) -> Sequence[ResultSummary]:
    """Return those of *results* that are valid for *kinds* of machine; None: all."""
    if not results or kinds is None:
        return results
    machine_numbers = study_transaction.numbers_of(transaction, kinds)
    return [result for result in results if result.machine in machine_numbers]


def usable_results(
    context: StudyTransaction,
    results: Sequence[ResultSummary],
    kinds: Kinds = None,
    round_: int | None = None,
) -> list[ResultSummary]:
    """Return those of *results* that represent their experiment in the version of *context*.

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
    # Only failures of other versions can be refused: usually there are none to look up.
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
    """Give each claim the number of its attempt: one more than all before, of any version."""
    last = {key: holder.last_attempt for key, holder in own_claims.items()}
    for result in results:
        if result.digest in last:
            last[result.digest] = max(result.attempt, last[result.digest])
    numbers = {key: max(holder.attempt, last[key] + 1) for key, holder in own_claims.items()}
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
    """Delete the claims of a lease on these digests, and return them.

    An outcome is accepted only if the row still exists: of two transactions that delete it, one
    gets the row.
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
    """Insert deleted claims again whose outcomes were not stored."""
    transaction.insert("claims", COLUMNS, list(claims))
