"""The queue of studies that a service is to run, in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zenturio.record import codec, repository
from zenturio.record.database import Transaction
from zenturio.record.entities import FINISHED_SUBMISSION_STATES, StudySubmission, SubmissionState

_NAMES = (
    "id", "token", "person", "study", "request", "submitted", "turn", "begun", "ended", "cause",
    "progress",
)  # fmt: skip
_ALL = f"SELECT {', '.join(_NAMES)} FROM submissions"


def submit(
    transaction: Transaction, token: str, user: str, study: str, request: Mapping[str, Any]
) -> StudySubmission:
    """Put a study into the queue, unless it is there under that *token*."""
    by_token = f"{_ALL} WHERE token = {transaction.dialect.mark}"
    present = transaction.sql(by_token, (token,))
    if not present:
        words = (codec.escape(user), codec.escape(study), json.dumps(request))
        row = (token, *words, transaction.now, "waiting", "", "{}", 0)
        names = (
            "token", "person", "study", "request", "submitted", "turn", "cause", "progress",
            "verified",
        )  # fmt: skip
        # Of two submissions with one token at a time the unique index lets one in; both get it.
        transaction.insert_new("submissions", names, [row])
        present = transaction.sql(by_token, (token,))
    return _submission(present[0])


def list_submissions(
    transaction: Transaction, turns: Sequence[SubmissionState] | None
) -> tuple[StudySubmission, ...]:
    """Return all submissions, or those with one of *turns*, in the order of their numbers."""
    if turns is None:
        rows = transaction.sql(_ALL)
    else:
        rows = transaction.among_sql(f"{_ALL} WHERE {{among}}", "turn", turns)
    return tuple(map(_submission, sorted(rows)))


def set_state(
    transaction: Transaction, number: int, turn: SubmissionState, cause: str
) -> StudySubmission:
    """Move a submission on; one that is over stays as it is."""
    mark = transaction.dialect.mark
    rows = transaction.sql(f"{_ALL} WHERE id = {mark}", (number,))
    if not rows:
        raise repository.no_submission(number)
    moved = with_state(_submission(rows[0]), turn, cause, transaction.now)
    changed = transaction.changed(
        f"UPDATE submissions SET turn = {mark}, cause = {mark}, begun = {mark}, ended = {mark}"
        f" WHERE id = {mark}",
        (moved.turn, codec.escape(moved.cause), moved.begun, moved.ended, number),
    )
    if not changed:  # the row security of PostgreSQL: see `team_roles`
        raise repository.not_your_submission(moved)
    return moved


def report_progress(transaction: Transaction, number: int, progress: Mapping[str, Any]) -> None:
    mark = transaction.dialect.mark
    transaction.sql(
        f"UPDATE submissions SET progress = {mark} WHERE id = {mark}",
        (json.dumps(progress), number),
    )


@codec.decoding()
def _submission(row: tuple[Any, ...]) -> StudySubmission:
    number, token, user, study, request, submitted, turn, begun, ended, cause, progress = row
    return StudySubmission(
        number, token, codec.unescape(user), codec.unescape(study), json.loads(request), submitted,
        turn, begun, ended, codec.unescape(cause), json.loads(progress),
    )  # fmt: skip


def with_state(
    submission: StudySubmission, turn: SubmissionState, cause: str, now: float
) -> StudySubmission:
    """Return a submission as it is when it comes to *turn*; one that is over stays as it is."""
    # A service that reports the end and a user who cancels may both come: the first one counts.
    if submission.turn in FINISHED_SUBMISSION_STATES:
        return submission
    begun = now if submission.begun is None and turn == "running" else submission.begun
    return replace(
        submission,
        turn=turn,
        cause=cause,
        begun=begun,
        ended=now if turn in FINISHED_SUBMISSION_STATES else None,
    )
