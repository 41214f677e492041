"""Experiments in SQL: their rows, one for all studies and one in each; and who has a claim."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, null, select, update

from zenturio.experiment.experiment import Experiment, Measure
from zenturio.record import codec, complaints, leases, rules, studies
from zenturio.record.database import Transaction
from zenturio.record.facts import RECORDED, State
from zenturio.record.layout import OTHER, Layout, Role, Spread, spread
from zenturio.record.schema import experiments, hosts, shares
from zenturio.record.sharing import shared_metrics
from zenturio.record.tally import Tally, members

_ENTRIES = select(
    experiments.c.id,
    experiments.c.digest,
    experiments.c.study,
    experiments.c.state,
    experiments.c.attempt,
    experiments.c.driver,
)
_LAST = select(func.coalesce(func.max(experiments.c.id), 0))
_SHARED_WITH = select(shares.c.experiment).where(shares.c.study == bindparam("of_study"))
_HOSTS = select(hosts.c.name, hosts.c.id)
_CLAIM = (
    update(experiments)
    .where(experiments.c.id == bindparam("of_id"))
    .values(
        state="running",
        attempt=bindparam("to_attempt"),
        driver=bindparam("to_driver"),
        host=bindparam("to_host"),
        started=bindparam("to_started"),
        ended=null(),
        exit=null(),
        cause=null(),
    )
)


class Entry(NamedTuple):
    """An experiment as all studies know it."""

    id: int
    digest: bytes
    study: int
    state: State
    attempt: int
    driver: int | None

    @property
    def standing(self) -> rules.Standing:
        return rules.Standing(self.state, self.attempt, self.driver)


@dataclass
class Desk:
    """Where one transaction works on one study."""

    transaction: Transaction
    layout: Layout

    @property
    def study(self) -> int:
        return self.layout.study

    def spread(self, role: Role, rows: Sequence[Mapping[str, Any]]) -> Spread:
        """The values of *rows* by column; the study's table has these columns then."""
        exact = self.transaction.flavour.exact_reals
        found = spread(self.layout, role, rows, exact_reals=exact)
        self.layout = studies.widen(self.transaction, self.layout, found.layout)
        return found

    def beside(self, study: int) -> Desk:
        """The same transaction at another study."""
        name = studies.name_of(self.transaction, study)
        return Desk(self.transaction, studies.read_layout(self.transaction, name))


def entries(transaction: Transaction, digests: Iterable[str]) -> dict[str, Entry]:
    """The experiments among *digests* that are known."""
    by_key = {codec.key(digest): digest for digest in digests}
    # In order, so that what is looked up together lies together.
    rows = transaction.among(_ENTRIES, experiments.c.digest, sorted(by_key))
    return {by_key[row[1]]: Entry(*row) for row in rows}


def required(desk: Desk, digests: Collection[str]) -> dict[str, Entry]:
    """The experiments of those *digests*; NotFoundError unless this study has them all."""
    found = entries(desk.transaction, digests)
    foreign = [entry.id for entry in found.values() if entry.study != desk.study]
    shared = _shared(desk, foreign)
    missing = [
        digest
        for digest in digests
        if (entry := found.get(digest)) is None
        or (entry.study != desk.study and entry.id not in shared)
    ]
    if missing:
        raise complaints.no_experiment(missing, desk.layout.name)
    return found


def _shared(desk: Desk, numbers: Collection[int]) -> set[int]:
    """Those of the experiments of other studies that this one has, too."""
    rows = desk.transaction.among(_SHARED_WITH, shares.c.experiment, numbers, of_study=desk.study)
    return {number for (number,) in rows}


def host_numbers(transaction: Transaction, names: Iterable[str]) -> dict[str, int]:
    """The number of each host; new ones get one."""
    wanted = dict.fromkeys(names)
    found: dict[str, int] = dict(transaction.among(_HOSTS, hosts.c.name, wanted))
    new = [(name,) for name in wanted if name not in found]
    if new:
        transaction.insert("hosts", ("name",), new)
        found |= dict(transaction.among(_HOSTS, hosts.c.name, [name for (name,) in new]))
    return found


def first_free(transaction: Transaction) -> int:
    """The number of the next experiment; nobody else writes meanwhile."""
    ((last,),) = transaction.rows(_LAST)
    return int(last) + 1


def add(desk: Desk, given: Iterable[Experiment]) -> frozenset[str]:
    """Makes the experiments rows of the study; the digests of those that have an outcome."""
    wanted = {experiment.digest: experiment for experiment in given}
    found = entries(desk.transaction, wanted)
    _create(desk, [e for digest, e in wanted.items() if digest not in found])
    join(desk, wanted, found)
    return frozenset(digest for digest, entry in found.items() if entry.state in RECORDED)


def _create(desk: Desk, new: Sequence[Experiment]) -> None:
    """Experiments that nobody knew."""
    start = first_free(desk.transaction)
    numbers = range(start, start + len(new))
    rows = [
        (number, codec.key(experiment.digest), desk.study, "waiting", 0)
        for number, experiment in zip(numbers, new, strict=True)
    ]
    desk.transaction.insert("experiments", ("id", "digest", "study", "state", "attempt"), rows)
    write_values(desk, numbers, new)
    tally = Tally(desk.transaction)
    tally.add(desk.study, "waiting", len(new))
    tally.write()


def join(desk: Desk, wanted: Mapping[str, Experiment], found: Mapping[str, Entry]) -> None:
    """Gives the study a row for what others have; outcomes come along."""
    foreign = {d: entry for d, entry in found.items() if entry.study != desk.study}
    shared = _shared(desk, [entry.id for entry in foreign.values()])
    new = {d: entry for d, entry in foreign.items() if entry.id not in shared}
    if not new:
        return
    numbers = [entry.id for entry in new.values()]
    write_values(desk, numbers, [wanted[digest] for digest in new])
    desk.transaction.insert("shares", ("experiment", "study"), [(n, desk.study) for n in numbers])
    tally = Tally(desk.transaction)
    homes: dict[int, list[int]] = {}
    for entry in new.values():
        tally.add(desk.study, entry.state)
        if entry.state in RECORDED:
            homes.setdefault(entry.study, []).append(entry.id)
    tally.write()
    for home, recorded in homes.items():
        take_over(desk, desk.beside(home), recorded)


def write_values(
    desk: Desk,
    numbers: Sequence[int],
    given: Sequence[Experiment],
    metrics: Sequence[Mapping[str, Measure]] = (),
) -> None:
    """Rows of the study: the points and, where they are known already, the metrics."""
    if not given:
        return
    values = dict(desk.spread("parameter", [experiment.values for experiment in given]).columns)
    if metrics:
        values |= desk.spread("metric", metrics).columns
    position = desk.transaction.flavour.position
    desk.transaction.insert(
        desk.layout.table,
        ("experiment", "position", "repeat", *values),
        list(
            zip(
                numbers,
                [position(experiment.index) for experiment in given],
                [experiment.repeat for experiment in given],
                *values.values(),
                strict=True,
            )
        ),
    )


def write_metrics(
    desk: Desk, numbers: Sequence[int], metrics: Sequence[Mapping[str, Measure]]
) -> None:
    """Metrics of rows that have none yet."""
    columns = desk.spread("metric", metrics).columns
    if columns:
        mark = desk.transaction.flavour.mark
        changes = ", ".join(f"{name} = {mark}" for name in columns)
        desk.transaction.sql_many(
            f"UPDATE {desk.layout.table} SET {changes} WHERE experiment = {mark}",  # noqa: S608
            list(zip(*columns.values(), numbers, strict=True)),
        )


def clear_metrics(desk: Desk, numbers: Iterable[int]) -> None:
    """Takes the metrics of rows away."""
    slots = desk.layout.by_role["metric"].values()
    names = [OTHER["metric"], *(name for slot in slots for name in slot.columns.values())]
    changes = ", ".join(f"{name} = NULL" for name in names)
    mark = desk.transaction.flavour.mark
    desk.transaction.sql_many(
        f"UPDATE {desk.layout.table} SET {changes} WHERE experiment = {mark}",  # noqa: S608
        [(number,) for number in numbers],
    )


def read_metrics(desk: Desk, numbers: Iterable[int]) -> dict[int, dict[str, Measure]]:
    """The metrics of rows of the study."""
    reader = desk.layout.reader
    rows = desk.transaction.among(reader.statement, reader.experiment, numbers)
    return {number: reader.metrics(row) for number, *row in rows}


def take_over(desk: Desk, source: Desk, numbers: Iterable[int]) -> None:
    """Gives the study the metrics that *source* has of experiments."""
    found = read_metrics(source, numbers)
    theirs, ours = source.layout, desk.layout.ways
    shared = [shared_metrics(m, theirs.name, theirs.ways, ours) for m in found.values()]
    write_metrics(desk, list(found), shared)


def claim(desk: Desk, driver: int, digests: Sequence[str]) -> dict[str, int]:
    """Which of *digests* the driver may run, and each one's attempt."""
    transaction = desk.transaction
    lease = leases.held(transaction, desk.layout.name, driver)
    found = required(desk, digests)
    held = {entry.driver for entry in found.values() if entry.state == "running"}
    if leases.relieve(transaction, [n for n in held if n is not None and n != driver]):
        found = entries(transaction, digests)
    granted = {
        digest: number
        for digest in dict.fromkeys(digests)
        if (number := rules.grant(found[digest].standing, driver)) is not None
    }
    new = [found[digest] for digest in granted if found[digest].state == "waiting"]
    host = host_numbers(transaction, [lease.host])[lease.host]
    transaction.many(
        _CLAIM,
        ("of_id", "to_attempt", "to_driver", "to_host", "to_started"),
        [(e.id, e.attempt + 1, driver, host, transaction.now) for e in new],
    )
    tally = Tally(transaction)
    for having in members(transaction, {entry.id: entry.study for entry in new}).values():
        tally.move(having, "waiting", "running")
    tally.write()
    return granted
