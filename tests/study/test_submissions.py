"""What the queue takes in: nothing twice, nothing that contradicts, and nothing that was forged."""

from contextlib import closing
from dataclasses import replace

import pytest

from zenturio.errors import ConflictError, SafetyError
from zenturio.record import DriverProcess, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.study.service import submission_client
from zenturio.study.service.submission_client import (
    PreparedSubmission,
    cancel_submission,
    enter_submission,
    is_signed,
    submissions_of,
)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(submission_client, "LOOK", 0.001)
    with closing(open_repository(tmp_path / "a.db")) as repository:
        yield repository


def prepared(study="s", project="p", **facts):
    return PreparedSubmission(study, {"project": project, **facts}, {})


def entered(repository, *, user="eva", checked=False, token="", **facts):
    return enter_submission(repository, prepared(**facts), user, token, is_checked=checked)


def test_what_waits_or_runs_is_not_asked_for_twice(repository):
    first = entered(repository, jobs=1)
    assert (first.user, first.study, first.turn, first.verified) == ("eva", "s", "waiting", True)
    assert entered(repository, jobs=1).number == first.number
    repository.update_submission(first.number, "running", "")
    assert entered(repository, user="jan", jobs=1).number == first.number
    with pytest.raises(ConflictError, match=f"number {first.number}, of eva"):
        entered(repository, jobs=2)
    # Another study, another project's of that name, and what is over are in nobody's way.
    others = [entered(repository, study="t", jobs=2), entered(repository, project="q", jobs=2)]
    repository.update_submission(first.number, "ended", "")
    again = entered(repository, jobs=2)
    assert len({first.number, again.number, *(other.number for other in others)}) == 4


def test_rows_that_anybody_may_have_written_hold_up_no_checked_user(repository):
    forged = repository.submit("x", "jan", "s", {"project": "p"}, {}, verified=False)
    own = repository.submit("y", "eva", "s", {"project": "p"}, {}, verified=False)
    new = entered(repository, checked=True, jobs=2)
    turns = {s.number: (s.turn, s.cause) for s in repository.submissions()}
    assert turns == {
        forged.number: ("waiting", ""),
        own.number: ("cancelled", "submitted again"),
        new.number: ("waiting", ""),
    }
    with pytest.raises(ConflictError):
        entered(repository, checked=True, jobs=3)  # the new one was checked


def test_a_submission_is_signed_by_whose_processes_entered_it(repository):
    submission = entered(repository, jobs=1)
    assert is_signed(submission)
    for change in (
        {"user": "jan"}, {"study": "t"}, {"request": {**submission.request, "jobs": 2}},
        {"token": "x" + submission.token}, {"token": submission.token[:-1]}, {"token": ""},
    ):  # fmt: skip
        assert not is_signed(replace(submission, **change)), change
    assert entered(repository, study="t", token="mine").token == "mine"
    assert entered(repository, study="u").token != entered(repository, study="v").token


def test_only_who_submitted_a_study_or_an_administrator_cancels_it(repository):
    numbers = [entered(repository, study=study).number for study in "abc"]
    with pytest.raises(SafetyError):
        cancel_submission(repository, numbers[0], "jan")
    assert cancel_submission(repository, numbers[0], "eva").cause == "by eva"
    done = cancel_submission(repository, numbers[1], "root", is_admin=True)
    assert (done.turn, done.cause) == ("cancelled", "by root")
    assert [s.turn for s in repository.submissions()] == ["cancelled", "cancelled", "waiting"]


def test_a_cancelled_study_is_waited_for_while_its_service_drives_it(repository, monkeypatch):
    monkeypatch.setattr(submission_client, "PATIENCE", 0.0)
    driver = DriverProcess.current()
    repository.open("s", StudyDefinition())
    lease = repository.acquire_lease("s", driver)
    number = entered(repository).number
    progress = {"host": driver.host, "pid": driver.pid, "studies": ["s", "not begun"]}
    repository.report_progress(number, progress)
    assert [s.number for s in submissions_of(repository, "not begun")] == [number]
    assert submissions_of(repository, "other") == ()
    with pytest.raises(Exception, match=f"process {driver.pid}, does not stop s"):
        cancel_submission(repository, number, "eva")
    assert submissions_of(repository, "s") == ()  # it is no longer in the queue
    other = entered(repository, study="t").number
    repository.report_progress(other, {**progress, "pid": driver.pid + 1})
    assert cancel_submission(repository, other, "eva").turn == "cancelled"
    repository.release_lease(lease)
    assert cancel_submission(repository, number, "eva").turn == "cancelled"
