"""What users of a service say to it, and what they see: they meet in the repository's queue."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.files import FileLock, is_locked, lock_holder
from zenturio.record import Lease, Repository, StudySubmission
from zenturio.record.repository import not_your_submission
from zenturio.study.service.submitted_program import collect_program
from zenturio.study.study_request import StudyRequest

LOCK = "serve.lock"
PATIENCE = 30.0
"""Seconds that a service has to stop a study."""
LOOK = 0.1


def submit_study(
    repository: Repository, request: StudyRequest, user: str, token: str = ""
) -> StudySubmission:
    """Put a study into the queue with its files, once these have been read and understood.

    What waits or runs already is not asked for twice; another one of that name is a ConflictError.
    """
    paths = tuple(str(Path(path).absolute()) for path in request.paths)
    whole = replace(request, paths=paths, project=repository.begin_project())
    session = whole.session(repository)
    program, files = collect_program(whole, session.application)
    facts = {**whole.facts(), "program": program.facts(), "contents": program.contents}
    return enter_submission(repository, user, session.study, facts, files, token)


def enter_submission(
    repository: Repository,
    user: str,
    study: str,
    facts: Mapping[str, Any],
    files: Mapping[str, bytes],
    token: str = "",
) -> StudySubmission:
    """Put what `submit_study` made of a request into the queue."""
    project = facts.get("project", "")
    for submission in repository.submissions(("waiting", "running")):
        if submission.study != study or submission.request.get("project", "") != project:
            continue
        if submission.request == facts:
            return submission
        raise ConflictError(
            f"study {study!r} is in the queue already, with other files or options: number"
            f" {submission.number}, of {submission.user}",
            hint="wait until it is over, cancel it, or give yours another name: --name NAME",
        )
    return repository.submit(token or secrets.token_hex(16), user, study, facts, files)


def cancel_submission(
    repository: Repository, number: int, user: str, *, is_admin: bool = False
) -> StudySubmission:
    """Take a study off the queue, and wait until nothing of it runs; what is recorded stays.

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


def submissions_of(repository: Repository, study: str) -> tuple[StudySubmission, ...]:
    """Return what waits or runs and is *study*, or has it as a stage."""
    return tuple(
        submission
        for submission in repository.submissions(("waiting", "running"))
        if study == submission.study or study in submission.progress.get("studies", ())
    )


def _drivers(repository: Repository, study: str) -> tuple[Lease, ...]:
    try:
        return repository.leases(study)
    except NotFoundError:  # it was never begun
        return ()


@contextmanager
def locked_alone(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Yield the only service of the project whose ``.zenturio`` is *folder*; else a ConflictError.

    With another *name*, the only one of what is called so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock.try_acquire(folder / name, mode=0o644)
    if lock is None:
        raise ConflictError(
            f"another service runs here already: process {lock_holder(folder / name)}",
            hint="zen submit hands it studies; to have another policy, stop it first",
        )
    with lock:
        lock.write_pid()
        yield


@contextmanager
def locked_repository(repository: Repository) -> Iterator[None]:
    """The only service of a database, wherever its project is; a server's are not told apart."""
    place = Path(repository.location)
    if not place.is_file():
        yield
        return
    with locked_alone(place.parent, f"{place.name}.{LOCK}"):
        yield


def is_served(folder: Path) -> bool:
    """Return whether a service looks at the queue of that project, on this machine."""
    return is_locked(folder / LOCK)
