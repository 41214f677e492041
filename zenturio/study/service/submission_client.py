"""The client of a service: prepare, sign, submit and cancel submissions in the queue."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from zenturio import trust
from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.record import DriverProcess, Lease, Repository, StudySubmission
from zenturio.record.repository import not_your_submission
from zenturio.study.service.submitted_program import collect_program
from zenturio.study.study_request import StudyRequest

PATIENCE = 30.0
"""Seconds within which a service has to stop a study."""
LOOK = 0.1


@dataclass(frozen=True)
class PreparedSubmission:
    """A study whose files were parsed and checked, ready for the queue."""

    study: str
    facts: Mapping[str, Any]
    """The request as JSON, with the program."""
    files: Mapping[str, bytes]
    """Contents by SHA-256."""


def prepare_submission(request: StudyRequest, repository: Repository) -> PreparedSubmission:
    """Read the files of *request*; InputError if it cannot run, or not in another folder."""
    paths = tuple(str(Path(path).absolute()) for path in request.paths)
    absolute = replace(request, paths=paths)
    session = absolute.session(repository)
    program, files = collect_program(absolute, session.application)
    facts = {**absolute.facts(), "program": program.facts(), "contents": program.contents}
    return PreparedSubmission(session.study, facts, files)


def submit_study(
    repository: Repository, request: StudyRequest, user: str, token: str = ""
) -> StudySubmission:
    """Check a study, and put it into the queue with its files.

    If the same submission waits or runs already, it is returned; ConflictError if another study of
    that name does.
    """
    submitted = replace(request, project=repository.begin_project())
    return enter_submission(repository, prepare_submission(submitted, repository), user, token)


def enter_submission(
    repository: Repository,
    prepared: PreparedSubmission,
    user: str,
    token: str = "",
    *,
    is_checked: bool = False,
) -> StudySubmission:
    """Put a prepared study into the queue; *is_checked*: whether *user* was authenticated.

    Rows that any user could have written do not hinder an authenticated user.
    """
    study, facts = prepared.study, prepared.facts
    project = facts.get("project", "")
    others_write = repository.may_others_write()
    for submission in repository.submissions(("waiting", "running")):
        if submission.study != study or submission.request.get("project", "") != project:
            continue
        # Until the service has seen a row, it may claim anything: only a signature proves the
        # user.
        is_verified = submission.verified and (not others_write or is_signed(submission))
        if is_checked and not is_verified:
            if submission.user == user:
                repository.update_submission(submission.number, "cancelled", "submitted again")
            continue
        if submission.request == facts:
            return submission
        raise ConflictError(
            f"study {study!r} is in the queue already: number {submission.number}, of"
            f" {submission.user}, with other files or options",
            hint="wait until it is over, cancel it, or give yours another name: --name NAME",
        )
    return repository.submit(
        token or signed_token(user, study, facts),
        user,
        study,
        facts,
        prepared.files,
        verified=is_checked or not others_write,
    )


def signed_token(user: str, study: str, facts: Mapping[str, Any]) -> str:
    """Return a new token of a submission with a signature that this user's processes verify."""
    nonce = secrets.token_hex(16)
    return f"{nonce}.{_signature(nonce, user, study, facts)}"


def is_signed(submission: StudySubmission) -> bool:
    """Return whether a process of this user entered the submission, and it is unchanged."""
    nonce, _, signature = submission.token.partition(".")
    expected = _signature(nonce, submission.user, submission.study, submission.request)
    return hmac.compare_digest(signature.encode(), expected.encode())


def _signature(nonce: str, user: str, study: str, facts: Mapping[str, Any]) -> str:
    text = json.dumps([nonce, user, study, facts], sort_keys=True)
    return blake2b(text.encode(), key=trust.user_key(), digest_size=16).hexdigest()


def cancel_submission(
    repository: Repository, number: int, user: str, *, is_admin: bool = False
) -> StudySubmission:
    """Cancel a submission, and wait until nothing of it runs; its results are kept.

    SafetyError unless *user* submitted it or is an administrator.
    """
    for submission in repository.submissions():
        if submission.number == number and submission.user != user and not is_admin:
            raise not_your_submission(submission)
    submission = repository.update_submission(number, "cancelled", f"by {user}")
    service = submission.progress.get("host"), submission.progress.get("pid")
    end = monotonic() + PATIENCE
    while any(
        (lease.host, lease.pid) == service and not lease.driver_has_exited()
        for study in submission.progress.get("studies", ())
        for lease in _drivers(repository.in_project(submission.request.get("project", "")), study)
    ):
        if monotonic() > end:
            raise PlaceError(f"the service, process {service[1]}, does not stop {submission.study}")
        sleep(LOOK)
    return submission


def service_has_exited(submission: StudySubmission) -> bool:
    """Return whether the service that was to run a submission has certainly exited.

    If a service is killed, its submission stays running in the queue until the next service finds
    it.
    """
    facts = submission.progress
    return (
        submission.turn == "running"
        and DriverProcess(
            str(facts.get("host", "")), int(facts.get("pid", 0)), str(facts.get("born", "")), ""
        ).has_exited()
    )


def submissions_of(repository: Repository, study: str) -> tuple[StudySubmission, ...]:
    """Return the waiting and running submissions of *study*, or with *study* as a stage."""
    return tuple(
        submission
        for submission in repository.submissions(("waiting", "running"))
        if study == submission.study or study in submission.progress.get("studies", ())
    )


def _drivers(repository: Repository, study: str) -> tuple[Lease, ...]:
    try:
        return repository.leases(study)
    except NotFoundError:  # never begun
        return ()
