"""What must hold in a repository, whatever was killed: the laws, as queries that find nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import column, func, select, table
from sqlalchemy.sql.expression import TableClause

from zenturio.record import studies
from zenturio.record.database import Database, Transaction
from zenturio.record.facts import RECORDED, STATES, Study
from zenturio.record.layout import Layout
from zenturio.record.schema import artifacts, attempts, experiments, leases, logs, shares

_ALL = select(experiments.c.id)
_OPEN_LEASES = select(leases.c.id).where(leases.c.ended.is_(None))
_RECORDED = experiments.c.state.in_([*RECORDED])

_LAWS = {
    "experiments in a state that there is not": select(func.count()).where(
        experiments.c.state.not_in([*STATES])
    ),
    "claims of drivers that have no lease": select(func.count()).where(
        experiments.c.state == "running", experiments.c.driver.not_in(_OPEN_LEASES)
    ),
    "outcomes without an attempt": select(func.count()).where(
        _RECORDED, (experiments.c.attempt < 1) | experiments.c.driver.is_(None)
    ),
    "shares of experiments that are not there": select(func.count()).where(
        shares.c.experiment.not_in(_ALL)
    ),
    **{
        f"{name} of experiments that are not there": select(func.count()).where(
            owned.c.experiment.not_in(_ALL)
        )
        for name, owned in (("attempts", attempts), ("logs", logs), ("artifacts", artifacts))
    },
}


def inspect(database: Database) -> list[str]:
    """Everything that is wrong, in words."""
    return database.read(lambda transaction: list(_found(transaction)))


def _found(transaction: Transaction) -> Iterator[str]:
    for (said,) in transaction.sql(transaction.flavour.self_check):
        if said != "ok":
            yield str(said)
    for law, statement in _LAWS.items():
        ((count,),) = transaction.literally(statement)
        if count:
            yield f"{count} {law}"
    for study in studies.all_studies(transaction):
        yield from _of_study(transaction, study)


def _of_study(transaction: Transaction, study: Study) -> Iterator[str]:
    layout = studies.read_layout(transaction, study.name)
    views = {name for (name,) in transaction.sql(transaction.flavour.views)}
    for view in {study.view, study.view_all} - views:
        yield f"study {study.name!r} has lost its view {view!r}"
    yield from _rows(transaction, layout)
    counted = studies.counts(transaction, study.name)
    values = _values(layout)
    states = (
        select(experiments.c.state, func.count())
        .join(values, values.c.experiment == experiments.c.id)
        .group_by(experiments.c.state)
    )
    found: dict[str, int] = dict(transaction.literally(states))
    for state in STATES:
        if counted[state] != found.get(state, 0):
            yield (
                f"study {study.name!r} counts {counted[state]} experiments as {state}"
                f" and has {found.get(state, 0)}"
            )


def _rows(transaction: Transaction, layout: Layout) -> Iterator[str]:
    """Each experiment of the study has its row, and each row its experiment."""
    values = _values(layout)
    numbers = select(values.c.experiment)
    own = select(experiments.c.id).where(experiments.c.study == layout.study)
    shared = select(shares.c.experiment).where(shares.c.study == layout.study)
    for what, statement in {
        "experiments without a row": select(func.count()).where(
            experiments.c.study == layout.study, experiments.c.id.not_in(numbers)
        ),
        "shared experiments without a row": select(func.count()).where(
            shares.c.study == layout.study, shares.c.experiment.not_in(numbers)
        ),
        "rows without an experiment": select(func.count()).where(
            values.c.experiment.not_in(own), values.c.experiment.not_in(shared)
        ),
    }.items():
        ((count,),) = transaction.literally(statement)
        if count:
            yield f"study {layout.name!r} has {count} {what}"


def _values(layout: Layout) -> TableClause:
    return table(layout.table, column("experiment"))
