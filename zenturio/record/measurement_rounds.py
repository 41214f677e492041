"""Rounds of measurement of a version: when and by whom results were measured again.

A version has one round until somebody begins another; only then it has rows here, the first round
included. What is measured belongs to the newest round. A round that was begun stays open until a
run that measures it has come to its end, which its driver notes as an event.
"""

from __future__ import annotations

from zenturio.record import codec, event_log
from zenturio.record.database import Transaction
from zenturio.record.entities import MeasurementRound
from zenturio.record.studies import StudyVersion

KIND = "round"
"""Of the events that rounds leave."""
_COLUMNS = ("version", "number", "began", "person", "reason", "seed")


def rounds_of(transaction: Transaction, version: StudyVersion) -> tuple[MeasurementRound, ...]:
    """Return the rounds of *version*, the first one first."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT number, began, person, reason FROM rounds WHERE version = {mark} ORDER BY number",
        (version.id,),
    )
    if not rows:
        return (_first(transaction, version),)
    newest = int(rows[-1][0])
    is_open = newest > 1 and not _has_ended(transaction, version, newest)
    return tuple(
        MeasurementRound(
            int(number), began, codec.unescape(person), codec.unescape(reason),
            int(number) == newest and is_open,
        )
        for number, began, person, reason in rows
    )  # fmt: skip


def begin_round(transaction: Transaction, version: StudyVersion, person: str, reason: str) -> int:
    """Return the number of the open round of *version*; of a new one, if none is open."""
    earlier = rounds_of(transaction, version)
    if earlier[-1].is_open:
        return earlier[-1].number
    number = earlier[-1].number + 1
    begun = MeasurementRound(number, transaction.now, person, reason)
    transaction.insert_new(
        "rounds",
        _COLUMNS,
        [
            (version.id, r.number, r.began, codec.escape(r.person), codec.escape(r.reason), None)
            for r in (*earlier, begun)
        ],
    )  # fmt: skip
    event_log.add_event(transaction, version.id, KIND, f"round {number} begun")
    return number


def end_round(transaction: Transaction, version: StudyVersion, number: int) -> None:
    """Note that all of a round has been measured; nothing is noted of one that is not open."""
    newest = rounds_of(transaction, version)[-1]
    if newest.number == number and newest.is_open:
        event_log.add_event(transaction, version.id, KIND, _ended(number))


def _ended(number: int) -> str:
    return f"round {number} ended"


def _has_ended(transaction: Transaction, version: StudyVersion, number: int) -> bool:
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT 1 FROM events WHERE version = {mark} AND kind = {mark} AND text = {mark} LIMIT 1",
        (version.id, KIND, codec.escape(_ended(number))),
    )
    return bool(rows)


def _first(transaction: Transaction, version: StudyVersion) -> MeasurementRound:
    """Return the first round of a version, which has no row before a second one begins."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT person FROM leases WHERE version = {mark} ORDER BY id LIMIT 1", (version.id,)
    )
    return MeasurementRound(1, version.created, codec.unescape(rows[0][0]) if rows else "")
