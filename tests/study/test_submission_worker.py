"""What a service knows of a submission before it runs, and whose turn it is."""

import os
import socket
from pathlib import Path

import pytest

from record.reference import ReferenceRepository
from study.places import Held
from zenturio.record import StudySubmission
from zenturio.study.driver.progress import FailureGroup, RunSummary
from zenturio.study.driver.slot_pool import OwnerDemand, SlotPool
from zenturio.study.service import study_service
from zenturio.study.service.slot_policy import StudyLoad, UserShare, _seconds_ahead
from zenturio.study.service.study_service import StudyService, SubmissionWorker, _words
from zenturio.study.service.submitted_program import SubmittedFolders
from zenturio.system.processes import process_birth


def worker(number=1, user="alice", submitted=100.0, **progress):
    submission = StudySubmission(
        number, f"token{number}", user, f"study{number}", {}, submitted, progress=progress
    )
    pool = SlotPool(Held(2))
    folders = SubmittedFolders(Path("/nonexistent"))  # nothing is run here
    return SubmissionWorker(submission, ReferenceRepository(), "local", pool, folders)


def test_a_submission_that_never_ran_is_one_experiment_of_unknown_length():
    fresh = worker()
    assert fresh.load() == StudyLoad(100.0, 1, 0, (), None)
    assert fresh.load((1.5, 2.5)).running == (1.5, 2.5)
    assert (fresh.begun, fresh.waits, fresh.wants_slots, fresh.over) == (False,) * 4
    assert fresh.slot_seconds == 0


@pytest.mark.parametrize(("done", "unfinished"), [(3, 2), (5, 0), (7, 0)])
def test_what_ran_in_an_earlier_service_counts(done, unfinished, monkeypatch):
    monkeypatch.setattr(study_service, "time", lambda: 160.0)
    resumed = worker(total=5, done=done, spent=6.0, ran=3)
    assert resumed.load() == StudyLoad(100.0, 5, unfinished, (), 2.0)
    alone, still = 3 * 2.0, (2.0 if unfinished else 0.0)
    assert resumed.facts(2.0) == {
        "total": 5, "done": done, "lent": 0, "place": "local", "studies": ["study1"],
        "pid": os.getpid(), "host": socket.gethostname(), "born": process_birth(os.getpid()),
        "spent": 6.0, "ran": 3,
        "alone": alone, "slowdown": round((60.0 + still) / alone, 3),
    }  # fmt: skip


def test_a_submission_that_has_ended_waits_for_nothing():
    ended = worker()
    ended.end = "done"
    assert ended.waits
    assert ended.over


def served(*workers):
    service = StudyService(ReferenceRepository(), {"local": Held(2)}, "fcfs")
    service._workers.update({member.number: member for member in workers})
    return service


def test_a_slot_goes_to_the_user_who_had_least_and_to_nobody_else():
    service = served(worker(1, "alice", spent=50.0, ran=5), worker(2, "bob", submitted=200.0))
    alice, bob = OwnerDemand(((9.0, 2),), 1), OwnerDemand((), 1)
    assert service._choose("local", [1, 2], {1: alice, 2: bob}) == 2
    assert service._choose("local", [1], {1: alice, 2: bob}) is None, "it is bob's turn"
    assert service._choose("local", [1], {1: alice}) == 1
    assert service._choose("local", ["search", 1], {}) is None
    assert service._choose("local", ["search", "tuning"], {}) == "search"


def test_what_a_user_has_of_a_place_is_summed_over_studies():
    service = served(worker(1, "alice"), worker(2, "alice", 50.0), worker(3, "bob", 10.0))
    service._spent["local", "alice"] = 4.0
    service._spent["elsewhere", "alice"] = 100.0
    demands = {
        1: OwnerDemand(((3.0, 2), (1.0, 1)), 0), 2: OwnerDemand((), 2), 3: OwnerDemand((), 0),
    }  # fmt: skip
    loads, users = service._loads("local", demands)
    assert {number: load.running for number, load in loads.items()} == {1: (3.0, 1.0), 2: (), 3: ()}
    assert (users["alice"].slots, users["alice"].wanted, users["alice"].arrival) == (3, 2, 50.0)
    assert users["alice"].spent == pytest.approx(4.0 + 3.0 * 2 + 3.0 * 1, rel=0.5)
    assert (users["bob"].slots, users["bob"].wanted, users["bob"].arrival) == (0, 0, float("inf"))
    assert service._loads("elsewhere", demands) == ({}, {})


def naive_end(running, unfinished, free, mean):
    """When the last one ends if each goes to the slot that is free first."""
    ends, slots = [mean - passed for passed in running], sorted(free)
    for _ in range(unfinished - len(running)):
        ends.append(slots.pop(0) + mean)
        slots = sorted([*slots, ends[-1]])
    return max(ends, default=0.0)


@pytest.mark.parametrize("free", [[0.0], [0.0, 0.0], [2.0, 1.0], [0.0, 3.0, 12.0]])
@pytest.mark.parametrize("unfinished", [0, 1, 2, 4, 7, 30])
@pytest.mark.parametrize("running", [(), (4.0,), (1.0, 3.0)])
def test_a_study_ends_when_its_last_experiment_would(running, unfinished, free):
    unfinished += len(running)
    expected = naive_end(running, unfinished, free, 5.0)
    assert _seconds_ahead(StudyLoad(0.0, 9, unfinished, running), 5.0, free) == expected


class Queue:
    """A service of three places, its queue, and what it said."""

    def __init__(self, monkeypatch, **options):
        self.now, self.said, self.writes = 1000.0, [], 0
        monkeypatch.setattr(study_service, "monotonic", lambda: self.now)
        self.repository = ReferenceRepository()
        report = self.repository.report_progress

        def counted(number, facts):
            self.writes += 1
            report(number, facts)

        self.repository.report_progress = counted
        places = {"small": Held(2), "large": Held(6), "other": Held(3)}
        self.service = StudyService(
            self.repository, places, "fcfs", self.said.append, shares={"eva": UserShare(active=2)},
            **options,
        )  # fmt: skip

    def work(self, user, place="small", *, begun=True, **progress):
        """A submission that this service has begun, without running anything."""
        count = len(self.repository.submissions()) + 1
        submission = self.repository.submit(f"t{count}", user, f"s{count}", {})
        self.repository.update_submission(submission.number, "running")
        self.repository.report_progress(submission.number, progress)
        (submission,) = [s for s in self.standing() if s.number == submission.number]
        made = SubmissionWorker(
            submission, self.repository, place, self.service._pools[place], self.service._folders
        )
        made._runs += ["a driver"] * begun
        self.service._workers[submission.number] = made
        return made

    def standing(self):
        return self.repository.submissions()

    def turns(self):
        return {s.number: (s.turn, s.cause) for s in self.standing()}


@pytest.fixture
def queue(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Queue(monkeypatch)


def test_how_each_study_ended_is_written_down_and_the_others_go_on(queue):
    done, failed, later, stopped, going = (queue.work("eva", total=5, done=4) for _ in range(5))
    done.end, failed.end, later.end, stopped.end = "done", "failed", "later", "stopped"
    failed.cause, later.cause = "no program", "another driver\nof jan"
    done._allotments = [type("Share", (), {"spent": 7.5, "ended": 3, "waiting": ()})]
    queue.service._reported = {done.number: 1, going.number: 2}
    queue.service._settle()
    assert queue.turns() == {
        done.number: ("done", ""),
        failed.number: ("failed", "no program"),
        later.number: ("running", ""),
        stopped.number: ("running", ""),
        going.number: ("running", ""),
    }
    assert queue.said == [
        "1: s1 of eva is done",
        "2: s2 of eva is failed: no program",
        "3: s3 of eva waits: another driver\nof jan",
        "4: s4 of eva was stopped",
    ]
    assert queue.standing()[0].progress["spent"] == 7.5
    assert queue.service._workers == {going.number: going}
    assert queue.service._reported == {going.number: 2}
    assert queue.service._spent["small", "eva"] == 7.5
    assert queue.service._retry_at == {later.number: 1000.0 + study_service.LATER}
    assert queue.service._retry_cause == {later.number: "another driver"}
    # What waits for somebody else says so once, however often it is tried.
    queue.service._workers[later.number] = later
    queue.now += 20.0
    queue.service._settle()
    assert len(queue.said) == 4
    assert queue.service._retry_at == {later.number: 1020.0 + study_service.LATER}


def test_a_service_that_ends_hands_back_what_is_not_over(queue):
    going, ended, waiting = (
        queue.work("eva", total=9),
        queue.work("jan"),
        queue.work("ada", begun=False),
    )
    ended.end = "done"
    queue.service._hand_back()
    assert [turn for turn, _ in queue.turns().values()] == ["waiting", "done", "waiting"]
    facts = [s.progress for s in queue.standing()]
    assert (facts[0]["lent"], facts[0]["total"], facts[2]) == (0, 9, {})
    assert list(queue.service._workers) == [going.number, waiting.number]


def test_a_study_that_was_cancelled_is_stopped_and_the_others_go_on(queue):
    cancelled, going = queue.work("eva", begun=False), queue.work("jan", begun=False)
    queue.repository.update_submission(cancelled.number, "cancelled")
    queue.service.look()
    assert (cancelled._stopped, going._stopped) == (True, False)


@pytest.mark.parametrize("others_write", [False, True])
def test_why_a_submission_has_not_begun_is_recorded_once(queue, monkeypatch, others_write):
    eva, jan, ada = (queue.repository.submit(u, u, u, {}) for u in ("eva", "jan", "ada"))
    for _ in range(2):
        queue.work("eva", begun=False)
    queue.service._retry_cause[ada.number] = "locked"
    monkeypatch.setattr(
        type(queue.repository), "may_others_write", lambda _self: others_write, raising=False
    )
    for _ in range(2):
        writes = queue.writes
        for submission in queue.service._checked([*queue.standing()[:3]]):
            queue.service._report_pending_reason(submission)
    assert queue.writes == writes, "the second time changes nothing"
    reasons = {s.number: s.progress["waits_for"] for s in queue.standing()[:3]}
    if others_write:  # nobody signed them
        again = "to submit it again: who submitted it was not checked"
        assert reasons == {s.number: f"{s.user} {again}" for s in (eva, jan, ada)}
        assert [s.verified for s in queue.standing()[:3]] == [False] * 3
    else:
        assert reasons == {
            eva.number: "another study of eva to end: 2 at a time",
            jan.number: f"a study to end: {study_service.ACTIVE} at a time",
            ada.number: "another try: locked",
        }


def test_a_study_without_a_place_goes_to_where_it_has_most_slots(queue):
    chosen = []
    for _ in range(5):
        chosen.append(queue.service._roomiest())
        queue.work("eva", chosen[-1])
    # Slots for each study: 6 alone, then 3 (the first of equals), 3, 2, 2.
    assert chosen == ["large", "large", "other", "small", "large"]


def test_where_studies_stand_is_written_when_it_changed(queue):
    one, two = queue.work("eva", total=5), queue.work("jan", total=7)
    queue.work("ada", begun=False)
    before = queue.writes
    queue.service._report()
    queue.service._report()
    assert queue.writes == before + 2
    two._done = 3
    queue.service._report()
    assert queue.writes == before + 3
    assert [s.progress.get("done") for s in queue.standing()] == [0, 3, None]
    one._allotments = [type("Share", (), {"spent": 0.0, "ended": 0, "waiting": ["an experiment"]})]
    queue.service._report()
    assert queue.standing()[0].progress["waits_for"] == "a slot: eva has 0 of 2"
    assert "waits_for" not in queue.standing()[1].progress


def test_what_came_of_a_study_is_told_with_its_stages():
    group = FailureGroup("exit 1", 2, "0" * 32, {})
    stage = RunSummary("a", 5, 0, 3, 2, 0, 1.0, failures=(group,))
    last = RunSummary("b", 9, 0, 4, 1, 4, 1.0, before=(stage,),
                      failures=(FailureGroup("timeout", 1, "1" * 32, {}),))  # fmt: skip
    assert _words(last) == "2 x exit 1, 1 x timeout, 4 were not run"
    assert _words(RunSummary("c", 1, 0, 1, 0, 0, 1.0)) == ""
