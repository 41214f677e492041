"""What users of a service say to it, and what they see: they meet in the repository's queue."""

from __future__ import annotations

import hmac
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from time import monotonic, sleep
from typing import Any, get_args

from zenturio import trust
from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.files import FileLock, is_locked, lock_holder
from zenturio.record import DriverProcess, Lease, Repository, StudySubmission, SubmissionState
from zenturio.record.repository import not_your_submission
from zenturio.study.service.submitted_program import collect_program
from zenturio.study.study_request import StudyRequest

LOCK = "serve.lock"
PATIENCE = 30.0
"""Seconds that a service has to stop a study."""
LOOK = 0.1


@dataclass(frozen=True)
class PreparedSubmission:
    """A study whose files were read and understood: what is put into the queue."""

    study: str
    facts: Mapping[str, Any]
    """The request as JSON, with the program."""
    files: Mapping[str, bytes]
    """Contents by SHA-256."""


def prepare_submission(request: StudyRequest, repository: Repository) -> PreparedSubmission:
    """Read the files of *request*; InputError where it cannot be run or cannot travel."""
    paths = tuple(str(Path(path).absolute()) for path in request.paths)
    absolute = replace(request, paths=paths)
    session = absolute.session(repository)
    program, files = collect_program(absolute, session.application)
    facts = {**absolute.facts(), "program": program.facts(), "contents": program.contents}
    return PreparedSubmission(session.study, facts, files)


def submit_study(
    repository: Repository, request: StudyRequest, user: str, token: str = ""
) -> StudySubmission:
    """Put a study into the queue with its files, once these have been read and understood.

    What waits or runs already is not asked for twice; another one of that name is a ConflictError.
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
    """Put what was prepared into the queue; *is_checked* says that *user* is who submits it.

    A checked user is not held up by rows that anybody may have written.
    """
    study, facts = prepared.study, prepared.facts
    project = facts.get("project", "")
    others_write = repository.may_others_write()
    for submission in repository.submissions(("waiting", "running")):
        if submission.study != study or submission.request.get("project", "") != project:
            continue
        # Until the service looks at a row, it may claim to be verified: only a signature proves it.
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
    """Return a new token of a submission, by which this user's processes recognise it."""
    nonce = secrets.token_hex(16)
    return f"{nonce}.{_signature(nonce, user, study, facts)}"


def is_signed(submission: StudySubmission) -> bool:
    """Return whether a process of this user entered the submission, and nobody changed it."""
    nonce, _, signature = submission.token.partition(".")
    expected = _signature(nonce, submission.user, submission.study, submission.request)
    return hmac.compare_digest(signature.encode(), expected.encode())


def _signature(nonce: str, user: str, study: str, facts: Mapping[str, Any]) -> str:
    text = json.dumps([nonce, user, study, facts], sort_keys=True)
    return blake2b(text.encode(), key=trust.user_key(), digest_size=16).hexdigest()


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


def service_has_exited(submission: StudySubmission) -> bool:
    """Return whether the service that was to run a submission has certainly ended.

    One that was killed leaves it running in the queue, until the next service finds it there.
    """
    facts = submission.progress
    return (
        submission.turn == "running"
        and DriverProcess(
            str(facts.get("host", "")), int(facts.get("pid", 0)), str(facts.get("born", "")), ""
        ).has_exited()
    )


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

    With another *name*, the only one of what is called so. Nobody but the account of the service
    can hold the lock, and so keep it from starting.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    try:
        lock = FileLock.try_acquire(path)
    except PermissionError as error:
        lock = None
        if not is_locked(path):
            raise PlaceError(
                f"{path} belongs to {path.owner()}, who ran a service here before",
                hint=f"start the service as {path.owner()}; or remove the file while none runs",
            ) from error
    if lock is None:
        raise ConflictError(
            f"another service runs here already: process {lock_holder(path)}",
            hint="zen submit sends it studies; to change the policy, stop it first",
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


# The state of a service as Prometheus reads it: the text format, version 0.0.4

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STANDING = ("waiting", "running")
_Labels = tuple[tuple[str, str], ...]


def metrics_text(repository: Repository, *, is_served: bool) -> str:
    """Return the metrics of the queue: submissions by state, and what each user has of it."""
    submissions = repository.submissions()
    turns = Counter(submission.turn for submission in submissions)
    lines = [
        *_metric("zenturio_service_up", "gauge", "Whether a service looks at the queue.",
                 {(): int(is_served)}),
        *_metric("zenturio_submissions", "gauge", "Submissions by state.",
                 {(("state", state),): turns[state] for state in get_args(SubmissionState)}),
    ]  # fmt: skip
    users = sorted({submission.user for submission in submissions})
    for name, kind, text, fact in (
        ("zenturio_slots_in_use", "gauge", "Slots that a user has now.", "lent"),
        ("zenturio_experiments_done_total", "counter", "Experiments of a user with a result.",
         "done"),
        ("zenturio_slot_seconds_total", "counter", "Seconds in slots of a user's experiments.",
         "spent"),
    ):  # fmt: skip
        values: dict[_Labels, float] = {
            (("user", user),): _total(submissions, user, fact) for user in users
        }
        lines += _metric(name, kind, text, values)
    left: dict[_Labels, float] = {
        (("user", user),): _experiments_left(submissions, user) for user in users
    }
    lines += _metric(
        "zenturio_experiments_left", "gauge", "Experiments of standing submissions.", left
    )
    return "\n".join(lines) + "\n"


def _total(submissions: Iterable[StudySubmission], user: str, fact: str) -> float:
    return sum(
        float(submission.progress.get(fact, 0))
        for submission in submissions
        if submission.user == user and (fact != "lent" or submission.turn == "running")
    )


def _experiments_left(submissions: Iterable[StudySubmission], user: str) -> float:
    standing = [s.progress for s in submissions if s.user == user and s.turn in _STANDING]
    return sum(float(facts.get("total", 0)) - float(facts.get("done", 0)) for facts in standing)


def _metric(name: str, kind: str, text: str, values: Mapping[_Labels, float]) -> list[str]:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in values.items():
        shown = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels)
        lines.append(f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}")
    return lines


def _escaped(text: str) -> str:
    """Return the value of a label as it is written between quotes."""
    text = text.encode(errors="replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
