"""What a service is to run, in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, select, update

from zenturio.record import codec, messages
from zenturio.record.database import Transaction
from zenturio.record.facts import Submission, Turn
from zenturio.record.line import moved
from zenturio.record.schema import submissions

_NAMES = (
    "id", "token", "person", "study", "request", "submitted", "turn", "begun", "ended", "cause",
    "progress",
)  # fmt: skip
_ALL = select(*(submissions.c[name] for name in _NAMES)).order_by(submissions.c.id)
_BY_TOKEN = _ALL.where(submissions.c.token == bindparam("of_token"))
_BY_NUMBER = _ALL.where(submissions.c.id == bindparam("number"))
_SETTLE = (
    update(submissions)
    .where(submissions.c.id == bindparam("number"))
    .values(
        turn=bindparam("to_turn"), cause=bindparam("to_cause"), begun=bindparam("to_begun"),
        ended=bindparam("to_ended"),
    )
)  # fmt: skip
_REPORT = (
    update(submissions)
    .where(submissions.c.id == bindparam("number"))
    .values(progress=bindparam("to_progress"))
)


def submit(
    transaction: Transaction, token: str, user: str, study: str, request: Mapping[str, Any]
) -> Submission:
    """Puts a study into the queue, unless it is there under that *token*."""
    known = transaction.row(_BY_TOKEN, of_token=token)
    if known is None:
        words = (codec.escape(user), codec.escape(study), json.dumps(request))
        row = (token, *words, transaction.now, "waiting", "", "{}", 0)
        names = (
            "token", "person", "study", "request", "submitted", "turn", "cause", "progress",
            "verified",
        )  # fmt: skip
        transaction.insert_new("submissions", names, [row])
        (known,) = transaction.rows(_BY_TOKEN, of_token=token)
    return _submission(known)


def all_of(transaction: Transaction, turns: Sequence[Turn] | None) -> tuple[Submission, ...]:
    if turns is None:
        return tuple(map(_submission, transaction.rows(_ALL)))
    return tuple(map(_submission, transaction.among(_ALL, submissions.c.turn, turns)))


def settle(transaction: Transaction, number: int, turn: Turn, cause: str) -> Submission:
    """Moves a submission on; one that is over stays as it is."""
    row = transaction.row(_BY_NUMBER, number=number)
    if row is None:
        raise messages.no_submission(number)
    found = moved(_submission(row), turn, cause, transaction.now)
    transaction.run(
        _SETTLE, number=number, to_turn=found.turn, to_cause=codec.escape(found.cause),
        to_begun=found.begun, to_ended=found.ended,
    )  # fmt: skip
    return found


def report(transaction: Transaction, number: int, progress: Mapping[str, Any]) -> None:
    transaction.run(_REPORT, number=number, to_progress=json.dumps(progress))


@codec.decoding()
def _submission(row: tuple[Any, ...]) -> Submission:
    number, token, user, study, request, submitted, turn, begun, ended, cause, progress = row
    return Submission(
        number, token, codec.unescape(user), codec.unescape(study), json.loads(request), submitted,
        turn, begun, ended, codec.unescape(cause), json.loads(progress),
    )  # fmt: skip
