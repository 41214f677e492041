"""The events of studies, in SQL."""

from __future__ import annotations

from zenturio.record import codec, studies
from zenturio.record.database import Transaction
from zenturio.record.entities import REDACTION_EVENT, RepositoryEvent

COLUMNS = ("version", "digest", "at", "kind", "text")


def add_event(
    transaction: Transaction, version: int, kind: str, text: str, digest: bytes | None = None
) -> None:
    """Add an event."""
    facts = (version, digest, transaction.now, codec.escape(kind), codec.escape(text))
    transaction.insert("events", COLUMNS, [facts])


def study_events(
    transaction: Transaction, name: str, digest: str | None
) -> tuple[RepositoryEvent, ...]:
    """Return the events of a study, or those of one experiment in it."""
    version, mark = studies.get_version(transaction, name).id, transaction.dialect.mark
    query = f"SELECT at, kind, text, digest FROM events WHERE version = {mark}"
    if digest is None:
        rows = transaction.sql(f"{query} ORDER BY id", (version,))
    else:
        condition = f"AND digest = {mark} ORDER BY id"
        rows = transaction.sql(f"{query} {condition}", (version, codec.digest_key(digest)))
    return tuple(
        RepositoryEvent(at, codec.unescape(kind), codec.unescape(text), of and bytes(of).hex())
        for at, kind, text, of in rows
    )


def redactions(transaction: Transaction, study: str, digest: str) -> tuple[RepositoryEvent, ...]:
    """Return when the record of an experiment was redacted, or that of its study."""
    version, mark = studies.get_version(transaction, study).id, transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT at, kind, text, digest FROM events WHERE version = {mark} AND kind = {mark}"
        f" AND (digest = {mark} OR digest IS NULL) ORDER BY id",
        (version, REDACTION_EVENT, codec.digest_key(digest)),
    )
    return tuple(
        RepositoryEvent(at, kind, codec.unescape(text), of and bytes(of).hex())
        for at, kind, text, of in rows
    )
