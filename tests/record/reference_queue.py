"""What a service is to run, in dicts: the reference."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from zenturio.errors import NotFoundError
from zenturio.record import repository
from zenturio.record.entities import StudySubmission, SubmissionState
from zenturio.record.submission_queue import with_state


class ReferenceQueue:
    """The queue of a repository in memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._submitted: dict[int, StudySubmission] = {}
        self._files: dict[str, bytes] = {}

    def submit(
        self,
        token: str,
        user: str,
        study: str,
        request: Mapping[str, Any],
        files: Mapping[str, bytes] = MappingProxyType({}),
        *,
        verified: bool = False,
    ) -> StudySubmission:
        with self._lock:
            for submission in self._submitted.values():
                if submission.token == token:
                    return submission
            number = len(self._submitted) + 1
            plain = json.loads(json.dumps(request))
            new_submission = StudySubmission(
                number, token, user, study, plain, self._clock(), verified=verified
            )
            self._submitted[number] = new_submission
            self._files |= files
            return new_submission

    def submissions(
        self, turns: Iterable[SubmissionState] | None = None
    ) -> tuple[StudySubmission, ...]:
        states = None if turns is None else frozenset(turns)
        with self._lock:
            submissions = tuple(self._submitted.values())
        return tuple(
            submission for submission in submissions if states is None or submission.turn in states
        )

    def update_submission(
        self, number: int, turn: SubmissionState, cause: str = ""
    ) -> StudySubmission:
        with self._lock:
            if number not in self._submitted:
                raise repository.no_submission(number)
            submission = with_state(self._submitted[number], turn, cause, self._clock())
            self._submitted[number] = submission
            return submission

    def submitted_content(self, sha256: str) -> bytes:
        needed = {
            name
            for submission in self.submissions(("waiting", "running"))
            for name in submission.request.get("contents", ())
        }
        if sha256 not in self._files or sha256 not in needed:
            raise NotFoundError(f"a submitted file is missing in the database: {sha256[:12]}")
        return self._files[sha256]

    def set_verified(self, number: int, *, verified: bool) -> None:
        with self._lock:
            self._submitted[number] = replace(self._submitted[number], verified=verified)

    def may_others_write(self) -> bool:
        return False

    def report_progress(self, number: int, progress: Mapping[str, Any]) -> None:
        with self._lock:
            if number in self._submitted:
                plain = json.loads(json.dumps(progress))
                self._submitted[number] = replace(self._submitted[number], progress=plain)
