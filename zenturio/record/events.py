"""What happened along the way, in SQL."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from zenturio.record import codec, studies
from zenturio.record.database import Transaction
from zenturio.record.facts import Event
from zenturio.record.schema import events, experiments

_OF_STUDY = (
    select(events.c.at, events.c.kind, events.c.text, experiments.c.digest)
    .select_from(events.outerjoin(experiments, experiments.c.id == events.c.experiment))
    .where(events.c.study == bindparam("of_study"))
    .order_by(events.c.id)
)
_OF_ONE = _OF_STUDY.where(experiments.c.digest == bindparam("of_digest"))
_COLUMNS = ("study", "experiment", "at", "kind", "text")


def note(
    transaction: Transaction, study: int, kind: str, text: str, experiment: int | None = None
) -> None:
    """Adds an event."""
    facts = (study, experiment, transaction.now, codec.escape(kind), codec.escape(text))
    transaction.insert("events", _COLUMNS, [facts])


def of_study(transaction: Transaction, name: str, digest: str | None) -> tuple[Event, ...]:
    """The events of a study, or those of one experiment in it."""
    _, study, _ = studies.one(transaction, name)
    if digest is None:
        found = transaction.rows(_OF_STUDY, of_study=study)
    else:
        found = transaction.rows(_OF_ONE, of_study=study, of_digest=codec.key(digest))
    return tuple(
        Event(at, codec.unescape(kind), codec.unescape(text), of and bytes(of).hex())
        for at, kind, text, of in found
    )
