"""Leases: which process drives which study, and for how long, in SQL.

A driver renews its lease while it runs. A lease ends when the driver releases it, when it runs out
by the database's clock, or when its process on this host has exited; what it had claimed becomes
stale then. No lease is believed to reach further than its own length. ``ended`` decides, not
``until``: a lease that has run out still counts until somebody takes the study over, so a driver
that was suspended for a while loses nothing if nobody came.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from time import time
from typing import Any, Literal, NamedTuple

from zenturio import trust
from zenturio.record import codec, repository, studies
from zenturio.record.database import Transaction
from zenturio.record.entities import DriverProcess, Lease, StudyInfo
from zenturio.record.studies import StudyVersion, add_event

CLOCK_TOLERANCE = 1.0
"""Seconds by which clocks may differ without a correction of times."""
_log = logging.getLogger(__name__)

_FACTS = "l.id, l.version, l.token, l.host, l.pid, l.born, l.since, l.until, l.seconds, l.ended"
_COLUMNS = ("version", "token", "host", "pid", "born", "person", "since", "until", "seconds")
_STALE = (
    "id", "digest", "version", "round", "machine", "number", "lease", "state", "host", "started",
    "ended", "cause", "position", "repeat", "point",
)  # fmt: skip


LONGEST_LEASE_SECONDS = 3600.0
"""No lease is longer, whatever its row says: drivers renew theirs three times within it."""

LeaseEnd = Literal["left", "superseded"]
"""How a lease ended, as attempts that became stale by it have it in their cause."""
END_DESCRIPTIONS: dict[LeaseEnd, str] = {
    "left": "released by its driver",
    "superseded": "its driver was lost",
}


class LeaseRow(NamedTuple):
    """A lease as it is stored."""

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
        """Return when the lease ends if it was renewed just now."""
        return now + min(self.seconds, LONGEST_LEASE_SECONDS)


def lock_lease(
    transaction: Transaction, name: str, number: int, *, ended: bool = False
) -> tuple[LeaseRow, StudyVersion]:
    """Return the lease with that number and its study; lock it until the transaction ends.

    ConflictError if it has ended, unless *ended* ones will do, or is for another study.
    """
    dialect = transaction.dialect
    asked = time()
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
    transaction.clock_offset = measured_offset(now, asked, time())
    row, version = LeaseRow(*facts[:10]), StudyVersion(*facts[10:])
    if name not in (version.name, version.fixed_name):
        studies.get_version(transaction, name)
        raise repository.lease_superseded(name, number)
    if row.ended is not None and not ended:
        raise repository.lease_superseded(name, number)
    return row, version


def measured_offset(server: float, asked: float, answered: float) -> float:
    """Return by how much a server's clock is ahead of this one, which read *asked* and *answered*.

    0 where the answer took so long that the clocks may agree.
    """
    offset = server - (asked + answered) / 2
    return offset if abs(offset) > abs(answered - asked) / 2 + CLOCK_TOLERANCE else 0.0


def archive(transaction: Transaction, study: StudyInfo) -> StudyInfo | None:
    """Return the study under another name; none if its name is no longer its own."""
    version = studies.find_version(transaction, study.name, locked=True)
    if version is None or version.created != study.created or version.current != version.id:
        return None
    for lease in end_dead_leases(transaction, version):
        raise repository.driver_prevents_change(lease)
    return studies.archive(transaction, version).study_facts


def acquire(
    transaction: Transaction, name: str, driver: DriverProcess, join: bool, seconds: float
) -> Lease:
    """Return a lease on the study; ConflictError while another driver has it, unless we *join*.

    The driver that asks again gets the lease that it has: its first answer may have been lost.
    """
    version = _locked(transaction, name)
    rows = _open(transaction, version)
    for row in rows:
        if row.token == driver.token:
            return renew(transaction, row.lease(name))
    # Also when we join: the claims of dead drivers are given out again as soon as possible.
    for lease in _end_dead(transaction, version, rows):
        if not join:
            raise repository.study_has_driver(lease)
    now, seconds = transaction.now, min(seconds, LONGEST_LEASE_SECONDS)
    facts = (version.id, driver.token, driver.host, driver.pid, driver.born, person())
    marks = ", ".join([transaction.dialect.mark] * len(_COLUMNS))
    ((number,),) = transaction.sql(
        f"INSERT INTO leases ({', '.join(_COLUMNS)}) VALUES ({marks}) RETURNING id",
        (*facts, now, now + seconds, seconds),
    )
    text = f"lease {number}: process {driver.pid} on {driver.host}"
    add_event(transaction, version.id, "driver", text)
    transaction.log(
        _log, "study %s: lease %d acquired for %g s by process %d on %s", name, number, seconds,
        driver.pid, driver.host, level=logging.INFO,
    )  # fmt: skip
    return Lease(number, name, driver.host, driver.pid, now, now + seconds, seconds, driver.born)


def person() -> str:
    """Return the name of the user who runs this process, as it is stored."""
    return codec.escape(trust.user_name(os.getuid()))


def _locked(transaction: Transaction, name: str) -> StudyVersion:
    """Return the version of that name, locked: two drivers acquire leases one after the other."""
    version = studies.get_version(transaction, name)
    dialect = transaction.dialect
    if dialect.row_lock:
        lock = f"SELECT id FROM versions WHERE id = {dialect.mark}{dialect.row_lock}"
        transaction.sql(lock, (version.id,))
    return version


def renew(transaction: Transaction, lease: Lease) -> Lease:
    """Return the lease, valid from now on again; ConflictError if it has ended."""
    # Even if *until* has passed: as long as no driver has ended the lease, nothing is lost.
    row, version = lock_lease(transaction, lease.study, lease.number)
    # Not by `seconds` alone: a forged row would keep every other driver out for as long.
    until = row.latest_end(transaction.now)
    mark = transaction.dialect.mark
    transaction.sql(f"UPDATE leases SET until = {mark} WHERE id = {mark}", (until, row.number))
    transaction.log(_log, "study %s: lease %d renewed", version.name, row.number)
    return row._replace(until=until).lease(version.name)


def release(transaction: Transaction, lease: Lease) -> None:
    """End the lease, unless it has ended; its claims become stale."""
    _end_lease(transaction, lease.number, "left")


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
    """End the leases of drivers that are gone; return those of drivers that are alive."""
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
    """See to it that no lease on the study reaches further than its own length from now."""
    _shorten(transaction, _open(transaction, studies.get_version(transaction, name)))


def _shorten(transaction: Transaction, rows: Iterable[LeaseRow]) -> None:
    """Let leases that reach too far, by a wrong clock or a forged row, run out in time.

    They are not ended: a living driver, whose clock is ahead, renews its lease before that.
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
    """End those of the leases whose drivers are gone; return whether there were any."""
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
    # No driver will ever run what is claimed for a lease that has ended, or is not there.
    orphaned = numbers - {row.number for row in unended}
    for number in sorted(orphaned):
        _make_claims_stale(transaction, number, "superseded")
    return bool(dead or orphaned)


def _end_lease(transaction: Transaction, number: int, why: LeaseEnd) -> None:
    """End a lease, unless it has ended; its claims become stale attempts."""
    dialect = transaction.dialect
    mark = dialect.mark
    # Before its row changes: a claim or a record of that driver that is on its way ends first.
    lock = f"{dialect.row_lock} OF l" if dialect.row_lock else ""
    query = f"SELECT {_FACTS} FROM leases l WHERE l.id = {mark} AND l.ended IS NULL{lock}"
    rows = transaction.sql(query, (number,))
    if not rows or (why == "superseded" and LeaseRow(*rows[0]).alive(transaction.now)):
        return  # another process ended it first, or its driver has renewed it
    transaction.sql(
        f"UPDATE leases SET ended = {mark} WHERE id = {mark}", (transaction.now, number)
    )
    add_event(
        transaction,
        LeaseRow(*rows[0]).version,
        "driver",
        f"lease {number}: {END_DESCRIPTIONS[why]}",
    )
    transaction.log(_log, "lease %d ended: %s", number, END_DESCRIPTIONS[why], level=logging.INFO)
    _make_claims_stale(transaction, number, why)


def _make_claims_stale(transaction: Transaction, number: int, why: LeaseEnd) -> None:
    """Note the claims of a lease as stale attempts."""
    mark = transaction.dialect.mark
    claims = transaction.sql(
        "SELECT id, digest, version, round, target, attempt, lease, host, started, position,"
        f" repeat, point FROM claims WHERE lease = {mark} ORDER BY id",
        (number,),
    )
    if not claims:
        return
    # Claims name their host as a text, for they are short-lived; attempts refer to its row.
    hosts = _hosts(transaction, {claim[7] for claim in claims})
    now = transaction.now
    rows = [
        (*claim[:7], "stale", hosts[claim[7]], claim[8], now, why, *claim[9:]) for claim in claims
    ]
    transaction.insert("attempts", _STALE, rows)
    transaction.sql(f"DELETE FROM claims WHERE lease = {mark}", (number,))
    transaction.log(_log, "lease %d: %d claims are stale", number, len(claims), level=logging.INFO)
    events = [
        (claim[2], claim[1], now, "stale", f"attempt {claim[5]}: driver {why}") for claim in claims
    ]
    transaction.insert("events", ("version", "digest", "at", "kind", "text"), events)


def _hosts(transaction: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of hosts of which nothing but the name is known."""
    unique_names: Sequence[str] = sorted(set(names))
    rows: list[Any] = [(name, 0, "", 0) for name in unique_names]
    transaction.insert_new("hosts", ("name", "machine", "kernel", "memory"), rows)
    numbered = transaction.among_sql(
        "SELECT name, id FROM hosts WHERE machine = 0 AND kernel = '' AND memory = 0 AND {among}",
        "name",
        unique_names,
    )
    return {str(name): int(number) for name, number in numbered}
