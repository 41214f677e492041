"""The queue of studies that a service is to run, in SQL.

``contents`` of a request lists the files that were submitted with it, by SHA-256. Their bytes stand
in the table of contents until the submission is over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from zenturio.errors import NotFoundError
from zenturio.record import codec, repository, studies
from zenturio.record.database import Transaction
from zenturio.record.entities import FINISHED_SUBMISSION_STATES, StudySubmission, SubmissionState

_NAMES = (
    "id", "token", "person", "study", "request", "submitted", "turn", "begun", "ended", "cause",
    "progress", "verified",
)  # fmt: skip
_ALL = f"SELECT {', '.join(_NAMES)} FROM submissions"


def submit(
    transaction: Transaction,
    token: str,
    user: str,
    study: str,
    request: Mapping[str, Any],
    files: Mapping[str, bytes],
    *,
    verified: bool,
) -> StudySubmission:
    """Put a study and its *files*, by SHA-256, into the queue, unless its *token* is there."""
    by_token = f"{_ALL} WHERE token = {transaction.dialect.mark}"
    present = transaction.sql(by_token, (token,))
    if not present:
        words = (codec.escape(user), codec.escape(study), json.dumps(request))
        row = (token, *words, transaction.now, "waiting", "", "{}", int(verified))
        names = (
            "token", "person", "study", "request", "submitted", "turn", "cause", "progress",
            "verified",
        )  # fmt: skip
        # Of two submissions with one token at a time the unique index lets one in; both get it.
        transaction.insert_new("submissions", names, [row])
        studies.store_contents(
            transaction, {bytes.fromhex(sha): body for sha, body in files.items()}
        )
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
    if not changed:  # the row security of PostgreSQL: see `database_roles`
        raise repository.not_your_submission(moved)
    if moved.turn in FINISHED_SUBMISSION_STATES:
        remove_unneeded_contents(transaction, _contents_of(moved))
    return moved


def set_verified(transaction: Transaction, number: int, *, verified: bool) -> None:
    """Record whether the user of a submission was checked."""
    mark = transaction.dialect.mark
    row = (int(verified), number)
    transaction.sql(f"UPDATE submissions SET verified = {mark} WHERE id = {mark}", row)


def submitted_content(transaction: Transaction, digest: str) -> bytes:
    """Return the file of that SHA-256; NotFoundError if it is not there, or is another one."""
    rows = transaction.sql(
        f"SELECT body FROM contents WHERE digest = {transaction.dialect.mark}",
        (bytes.fromhex(digest),),
    )
    body = rows[0][0] if rows else None
    # Others may write the table, but not what has this digest.
    if body is None or sha256(body).hexdigest() != digest:
        raise NotFoundError(
            f"a submitted file is missing in the database: {digest[:12]}", hint="submit it again"
        )
    return bytes(body)


def pending_contents(transaction: Transaction) -> set[bytes]:
    """Return the digests of the files of all submissions that wait or run."""
    pending = list_submissions(transaction, ("waiting", "running"))
    return {digest for submission in pending for digest in _contents_of(submission)}


def _contents_of(submission: StudySubmission) -> set[bytes]:
    listed = submission.request.get("contents", ())
    texts = listed if isinstance(listed, list) else ()
    return {bytes.fromhex(text) for text in texts if _is_sha256(text)}


def _is_sha256(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and not set(text) - set("0123456789abcdef")


def remove_unneeded_contents(transaction: Transaction, digests: set[bytes] | None = None) -> None:
    """Remove those of *digests*, by default of all contents, that nothing has any more.

    Definitions, artifacts and pending submissions have contents.
    """
    unused = (
        "SELECT digest FROM contents c"
        " WHERE NOT EXISTS (SELECT 1 FROM sources s WHERE s.content = c.digest)"
        " AND NOT EXISTS (SELECT 1 FROM artifacts a WHERE a.content = c.digest)"
    )
    if digests is None:
        rows = transaction.sql(unused)
    else:
        rows = transaction.among_sql(f"{unused} AND {{among}}", "digest", sorted(digests))
    if rows:
        unneeded = {bytes(digest) for (digest,) in rows} - pending_contents(transaction)
        transaction.among_sql("DELETE FROM contents WHERE {among}", "digest", sorted(unneeded))


def report_progress(transaction: Transaction, number: int, progress: Mapping[str, Any]) -> None:
    mark = transaction.dialect.mark
    transaction.sql(
        f"UPDATE submissions SET progress = {mark} WHERE id = {mark}",
        (json.dumps(progress), number),
    )


@codec.decoding()
def _submission(row: tuple[Any, ...]) -> StudySubmission:
    (
        number, token, user, study, request, submitted, turn, begun, ended, cause, progress,
        verified,
    ) = row  # fmt: skip
    return StudySubmission(
        number, token, codec.unescape(user), codec.unescape(study), json.loads(request), submitted,
        turn, begun, ended, codec.unescape(cause), json.loads(progress), bool(verified),
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
