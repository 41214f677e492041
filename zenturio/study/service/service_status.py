"""The status of a service: the lock that it holds while it runs, and metrics for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from zenturio.errors import ConflictError, PlaceError
from zenturio.files import FileLock, is_locked, lock_holder
from zenturio.record import Repository, StudySubmission, SubmissionState

LOCK = "serve.lock"


@contextmanager
def locked_alone(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold the lock of the service in *folder*, a ``.zenturio``; ConflictError if it is held.

    *name* selects another lock. Only the account of the service can hold the lock, so no other user
    can keep a service from starting.
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
    """Hold the lock of the service of a database file, whatever its project; none on a server."""
    place = Path(repository.location)
    if not place.is_file():
        yield
        return
    with locked_alone(place.parent, f"{place.name}.{LOCK}"):
        yield


def is_served(folder: Path) -> bool:
    """Return whether a service of the project runs on this machine."""
    return is_locked(folder / LOCK)


# The state of a service in Prometheus' text format, version 0.0.4

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STANDING = ("waiting", "running")
_Labels = tuple[tuple[str, str], ...]


def metrics_text(repository: Repository, *, is_served: bool) -> str:
    """Return the metrics of the queue: submissions by state, and by user."""
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
    """Return the value of a label, escaped for quotes."""
    text = text.encode(errors="replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
