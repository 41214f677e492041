"""What a service is to run, in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.record import codec, messages
from zenturio.record.database import Transaction
from zenturio.record.facts import Submission, Turn
from zenturio.record.line import moved

_NAMES = (
    "id", "token", "person", "study", "request", "submitted", "turn", "begun", "ended", "cause",
    "progress",
)  # fmt: skip
_ALL = f"SELECT {', '.join(_NAMES)} FROM submissions"


def submit(
    transaction: Transaction, token: str, user: str, study: str, request: Mapping[str, Any]
) -> Submission:
    """Puts a study into the queue, unless it is there under that *token*."""
    by_token = f"{_ALL} WHERE token = {transaction.flavour.mark}"
    known = transaction.sql(by_token, (token,))
    if not known:
        words = (codec.escape(user), codec.escape(study), json.dumps(request))
        row = (token, *words, transaction.now, "waiting", "", "{}", 0)
        names = (
            "token", "person", "study", "request", "submitted", "turn", "cause", "progress",
            "verified",
        )  # fmt: skip
        transaction.insert_new("submissions", names, [row])
        known = transaction.sql(by_token, (token,))
    return _submission(known[0])


def all_of(transaction: Transaction, turns: Sequence[Turn] | None) -> tuple[Submission, ...]:
    """All submissions, or those with one of *turns*, in the order of their numbers."""
    if turns is None:
        rows = transaction.sql(_ALL)
    else:
        rows = transaction.among_sql(f"{_ALL} WHERE {{among}}", "turn", turns)
    return tuple(map(_submission, sorted(rows)))


def settle(transaction: Transaction, number: int, turn: Turn, cause: str) -> Submission:
    """Moves a submission on; one that is over stays as it is."""
    mark = transaction.flavour.mark
    rows = transaction.sql(f"{_ALL} WHERE id = {mark}", (number,))
    if not rows:
        raise messages.no_submission(number)
    found = moved(_submission(rows[0]), turn, cause, transaction.now)
    transaction.sql(
        f"UPDATE submissions SET turn = {mark}, cause = {mark}, begun = {mark}, ended = {mark}"
        f" WHERE id = {mark}",
        (found.turn, codec.escape(found.cause), found.begun, found.ended, number),
    )
    return found


def report(transaction: Transaction, number: int, progress: Mapping[str, Any]) -> None:
    mark = transaction.flavour.mark
    transaction.sql(
        f"UPDATE submissions SET progress = {mark} WHERE id = {mark}",
        (json.dumps(progress), number),
    )


@codec.decoding()
def _submission(row: tuple[Any, ...]) -> Submission:
    number, token, user, study, request, submitted, turn, begun, ended, cause, progress = row
    return Submission(
        number, token, codec.unescape(user), codec.unescape(study), json.loads(request), submitted,
        turn, begun, ended, codec.unescape(cause), json.loads(progress),
    )  # fmt: skip
