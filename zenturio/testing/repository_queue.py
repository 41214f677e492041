"""What a repository promises of the studies that a service is to run."""

from __future__ import annotations

import pytest

from zenturio.errors import NotFoundError
from zenturio.record.repository import Repository

REQUEST = {"path": "/lab/größe.c", "options": {"limit": 3, "only": ["missing"], "nul": "a\0b"}}


class Queue:
    def test_what_was_submitted_waits_in_its_order(self, repository: Repository) -> None:
        for token, user in (("x", "alice"), ("y", "bob\0"), ("z", "Größe")):
            repository.submit(token, user, "s", REQUEST)
        submissions = repository.submissions()
        assert [submission.user for submission in submissions] == ["alice", "bob\0", "Größe"]
        assert [submission.turn for submission in submissions] == ["waiting"] * 3
        assert submissions[0].number < submissions[1].number < submissions[2].number
        assert submissions[0].submitted <= submissions[1].submitted <= submissions[2].submitted
        assert all(s.request == REQUEST and s.study == "s" for s in submissions)

    def test_a_submission_whose_answer_was_lost_is_made_once(self, repository: Repository) -> None:
        first = repository.submit("x", "alice", "s", REQUEST)
        assert repository.submit("x", "alice", "s", REQUEST) == first
        repository.update_submission(first.number, "running")
        assert repository.submit("x", "alice", "s", REQUEST).turn == "running"
        assert len(repository.submissions()) == 1

    def test_a_submission_goes_its_way_and_remembers_when(self, repository: Repository) -> None:
        number = repository.submit("x", "alice", "s", REQUEST).number
        begun = repository.update_submission(number, "running")
        assert begun.turn == "running"
        assert begun.begun is not None
        assert begun.begun >= begun.submitted
        assert begun.ended is None
        again = repository.update_submission(number, "running")
        assert again.begun == begun.begun
        over = repository.update_submission(number, "failed", "exit 3\0 of 2")
        assert (over.turn, over.cause, over.begun) == ("failed", "exit 3\0 of 2", begun.begun)
        assert over.ended is not None
        assert over.ended >= begun.begun
        assert repository.submissions() == (over,)

    def test_what_is_over_stays_as_it_is(self, repository: Repository) -> None:
        number = repository.submit("x", "alice", "s", REQUEST).number
        cancelled = repository.update_submission(number, "cancelled", "by bob")
        assert repository.update_submission(number, "done") == cancelled
        assert repository.update_submission(number, "cancelled", "by alice") == cancelled
        assert cancelled.begun is None

    def test_only_what_is_wanted_is_told(self, repository: Repository) -> None:
        one, two, three = (repository.submit(t, "a", "s", {}).number for t in "xyz")
        repository.update_submission(two, "running")
        repository.update_submission(three, "done")
        active = repository.submissions(["waiting", "running"])
        assert [submission.number for submission in active] == [one, two]
        assert repository.submissions([]) == ()

    def test_where_a_submission_stands_is_told_by_its_service(self, repository: Repository) -> None:
        number = repository.submit("x", "a", "s", {}).number
        repository.report_progress(number, {"ok": 3, "mean": 0.25, "left": None})
        (submission,) = repository.submissions()
        assert submission.progress == {"ok": 3, "mean": 0.25, "left": None}
        repository.report_progress(number + 1, {})

    def test_what_is_not_in_the_queue_is_named(self, repository: Repository) -> None:
        with pytest.raises(NotFoundError, match="has no submission 7"):
            repository.update_submission(7, "done")
