"""Who drives which study, in SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, select, update

from zenturio.record import complaints, naming, studies
from zenturio.record.database import Transaction
from zenturio.record.driver import Driver
from zenturio.record.events import note
from zenturio.record.facts import Lease, Study
from zenturio.record.schema import experiments, leases
from zenturio.record.tally import Tally, members

_FACTS = tuple(
    leases.c[name]
    for name in ("id", "host", "pid", "since", "until", "seconds", "study", "born", "token")
)
_OPEN = select(*_FACTS).where(leases.c.ended.is_(None))
_OF_STUDY = _OPEN.where(leases.c.study == bindparam("of_study")).order_by(leases.c.id)
_OWN = _OF_STUDY.where(leases.c.token == bindparam("of_token"))
_NUMBERED = _OF_STUDY.where(leases.c.id == bindparam("number"))
_LENGTHEN = (
    update(leases).where(leases.c.id == bindparam("number")).values(until=bindparam("to_until"))
)
_END = (
    update(leases)
    .where(leases.c.id == bindparam("number"), leases.c.ended.is_(None))
    .values(ended=bindparam("to_ended"))
)
_HELD = select(
    experiments.c.id,
    experiments.c.attempt,
    experiments.c.driver,
    experiments.c.host,
    experiments.c.started,
    experiments.c.study,
).where(experiments.c.driver == bindparam("of_driver"), experiments.c.state == "running")
_GIVE_BACK = (
    update(experiments)
    .where(experiments.c.driver == bindparam("of_driver"), experiments.c.state == "running")
    .values(state="waiting")
)
_COLUMNS = ("study", "token", "host", "pid", "born", "since", "until", "seconds")
_STALE = (
    "experiment", "number", "driver", "host", "started", "ended", "state", "cause",
)  # fmt: skip


def archive(transaction: Transaction, study: Study) -> Study | None:
    """The study under another name; none if its name is no longer its own."""
    known = {each.name: each for each in studies.all_studies(transaction)}
    if study.name not in known or known[study.name].created != study.created:
        return None
    for lease in living(transaction, study.name):
        raise complaints.still_driven(lease)
    return studies.rename(transaction, study, naming.archived(study.name, known))


def take(transaction: Transaction, name: str, driver: Driver, join: bool, seconds: float) -> Lease:
    """A lease on the study; ConflictError while another driver has it and we do not *join*."""
    _, study, _ = studies.one(transaction, name)
    own = transaction.row(_OWN, of_study=study, of_token=driver.token)
    if own is not None:
        return lengthen(transaction, _lease(name, own))
    for lease in living(transaction, name):
        if not join:
            raise complaints.driven(lease)
    now = transaction.now
    facts = (study, driver.token, driver.host, driver.pid, driver.born, now, now + seconds, seconds)
    transaction.insert("leases", _COLUMNS, [facts])
    ((number, *_),) = transaction.rows(_OWN, of_study=study, of_token=driver.token)
    note(transaction, study, "driver", f"lease {number}: process {driver.pid} on {driver.host}")
    return Lease(number, name, driver.host, driver.pid, now, now + seconds, seconds, driver.born)


def lengthen(transaction: Transaction, lease: Lease) -> Lease:
    """The lease, from now on again; ConflictError if it has ended."""
    current = held(transaction, lease.study, lease.number)
    until = transaction.now + current.seconds
    transaction.run(_LENGTHEN, number=lease.number, to_until=until)
    return held(transaction, lease.study, lease.number)


def held(transaction: Transaction, name: str, number: int) -> Lease:
    """The lease of that number; ConflictError if it has ended."""
    _, study, _ = studies.one(transaction, name)
    row = transaction.row(_NUMBERED, of_study=study, number=number)
    if row is None:
        raise complaints.superseded(name, number)
    return _lease(name, row)


def give_back(transaction: Transaction, lease: Lease) -> None:
    """Ends the lease, if it has not ended yet."""
    _, study, _ = studies.one(transaction, lease.study)
    if transaction.row(_NUMBERED, of_study=study, number=lease.number) is not None:
        _retire(transaction, study, lease.number, "left")


def unended(transaction: Transaction, name: str) -> tuple[Lease, ...]:
    _, study, _ = studies.one(transaction, name)
    return tuple(_lease(name, row) for row in transaction.rows(_OF_STUDY, of_study=study))


def living(transaction: Transaction, name: str) -> list[Lease]:
    """The leases of drivers that are alive; those of others end here."""
    _, study, _ = studies.one(transaction, name)
    rows = transaction.rows(_OF_STUDY, of_study=study)
    return [_lease(name, row) for row in rows if _alive_or_retired(transaction, row)]


def relieve(transaction: Transaction, numbers: Iterable[int]) -> bool:
    """Ends those of the leases whose drivers are gone; whether there were any."""
    rows = transaction.among(_OPEN, leases.c.id, numbers)
    alive = [_alive_or_retired(transaction, row) for row in rows]
    return not all(alive)


def _alive_or_retired(transaction: Transaction, row: tuple[Any, ...]) -> bool:
    number, host, pid, _, until, _, study, born, token = row
    alive = until > transaction.now and not Driver(host, pid, born, token).gone()
    if not alive:
        _retire(transaction, study, number, "superseded")
    return alive


def _retire(transaction: Transaction, study: int, number: int, why: str) -> None:
    """Ends a lease; what its driver had claimed is stale and waits again."""
    now = transaction.now
    transaction.run(_END, number=number, to_ended=now)
    note(transaction, study, "driver", f"lease {number}: {why}")
    claimed = transaction.rows(_HELD, of_driver=number)
    transaction.run(_GIVE_BACK, of_driver=number)
    transaction.insert("attempts", _STALE, [(*facts, now, "stale", why) for *facts, _ in claimed])
    tally = Tally(transaction)
    for having in members(transaction, {row[0]: row[-1] for row in claimed}).values():
        tally.move(having, "running", "waiting")
    tally.write()
    for experiment, attempt, *_ in claimed:
        note(transaction, study, "stale", f"attempt {attempt}: driver {why}", experiment)


def _lease(name: str, row: tuple[Any, ...]) -> Lease:
    number, host, pid, since, until, seconds, _, born, _ = row
    return Lease(number, name, host, pid, since, until, seconds, born)
