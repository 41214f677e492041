"""Contract tests of repositories: the submissions of a service."""

from __future__ import annotations

from hashlib import sha256

import pytest

from zenturio.errors import NotFoundError
from zenturio.record.repository import Repository

REQUEST = {"path": "/lab/größe.c", "options": {"limit": 3, "only": ["missing"], "nul": "a\0b"}}


class Queue:
    def test_submissions_wait_in_their_order(self, repository: Repository) -> None:
        for token, user in (("x", "alice"), ("y", "bob\0"), ("z", "Größe")):
            repository.submit(token, user, "s", REQUEST)
        submissions = repository.submissions()
        assert [submission.user for submission in submissions] == ["alice", "bob\0", "Größe"]
        assert [submission.turn for submission in submissions] == ["waiting"] * 3
        assert submissions[0].number < submissions[1].number < submissions[2].number
        assert submissions[0].submitted <= submissions[1].submitted <= submissions[2].submitted
        assert all(s.request == REQUEST and s.study == "s" for s in submissions)

    def test_a_repeated_token_submits_once(self, repository: Repository) -> None:
        first = repository.submit("x", "alice", "s", REQUEST)
        # A client that got no answer submits again with the same token.
        assert repository.submit("x", "alice", "s", REQUEST) == first
        repository.update_submission(first.number, "running")
        assert repository.submit("x", "alice", "s", REQUEST).turn == "running"
        assert len(repository.submissions()) == 1

    def test_a_submission_records_when_it_began_and_ended(self, repository: Repository) -> None:
        number = repository.submit("x", "alice", "s", REQUEST).number
        begun = repository.update_submission(number, "running")
        assert begun.turn == "running"
        assert begun.begun is not None
        assert begun.begun >= begun.submitted
        assert begun.ended is None
        again = repository.update_submission(number, "running")
        assert again.begun == begun.begun
        failed = repository.update_submission(number, "failed", "exit 3\0 of 2")
        assert (failed.turn, failed.cause, failed.begun) == ("failed", "exit 3\0 of 2", begun.begun)
        assert failed.ended is not None
        assert failed.ended >= begun.begun
        assert repository.submissions() == (failed,)

    def test_a_finished_submission_does_not_change(self, repository: Repository) -> None:
        number = repository.submit("x", "alice", "s", REQUEST).number
        cancelled = repository.update_submission(number, "cancelled", "by bob")
        assert repository.update_submission(number, "done") == cancelled
        assert repository.update_submission(number, "cancelled", "by alice") == cancelled
        assert cancelled.begun is None

    def test_submissions_may_be_filtered_by_turn(self, repository: Repository) -> None:
        waiting, running, finished = (repository.submit(t, "a", "s", {}).number for t in "xyz")
        repository.update_submission(running, "running")
        repository.update_submission(finished, "done")
        active = repository.submissions(["waiting", "running"])
        assert [submission.number for submission in active] == [waiting, running]
        assert repository.submissions([]) == ()

    def test_a_service_reports_the_progress_of_a_submission(self, repository: Repository) -> None:
        number = repository.submit("x", "a", "s", {}).number
        repository.report_progress(number, {"ok": 3, "mean": 0.25, "left": None})
        (submission,) = repository.submissions()
        assert submission.progress == {"ok": 3, "mean": 0.25, "left": None}
        repository.report_progress(number + 1, {})

    def test_an_unknown_submission_is_an_error(self, repository: Repository) -> None:
        with pytest.raises(NotFoundError, match="has no submission 7"):
            repository.update_submission(7, "done")

    def test_submitted_files_stay_until_the_submission_is_over(
        self, repository: Repository
    ) -> None:
        body = b"sleep 1\0\n"
        name = sha256(body).hexdigest()
        # A request is somebody's own text: what names no file in it is passed over.
        request = {"contents": [name, 7, "ab", "-" * 64]}
        first, second = (
            repository.submit(token, "a", "s", request, {name: body}).number for token in "xy"
        )
        assert repository.submitted_content(name) == body
        repository.update_submission(first, "cancelled")
        assert repository.submitted_content(name) == body
        repository.update_submission(second, "done")
        with pytest.raises(NotFoundError, match="is missing"):
            repository.submitted_content(name)

    def test_a_submission_tells_whether_its_user_was_checked(self, repository: Repository) -> None:
        number = repository.submit("x", "a", "s", {}).number
        checked = repository.submit("y", "a", "s", {}, verified=True)
        assert checked.verified
        assert not repository.submissions()[0].verified
        repository.set_verified(number, verified=True)
        assert repository.submissions()[0].verified

    def test_a_change_of_one_submission_leaves_the_others_as_they_were(
        self, repository: Repository
    ) -> None:
        number = [repository.submit(token, token, "s", {}).number for token in "xyz"][1]
        for change in (
            lambda: repository.report_progress(number, {"ok": 1}),
            lambda: repository.set_verified(number, verified=True),
            lambda: repository.update_submission(number, "running"),
            lambda: repository.update_submission(number, "failed", "exit 3"),
        ):
            before = repository.submissions()
            change()
            after = repository.submissions()
            assert (after[0], after[2]) == (before[0], before[2])
            assert after[1] != before[1]
