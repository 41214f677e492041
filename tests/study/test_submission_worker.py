"""What a service knows of a submission before it runs, and whose turn it is."""

import os
import socket
from pathlib import Path

import pytest

from record.reference import ReferenceRepository
from study.places import Held
from zenturio.record import StudySubmission
from zenturio.study.driver.slot_pool import OwnerDemand, SlotPool
from zenturio.study.service import study_service
from zenturio.study.service.slot_policy import StudyLoad, _ahead
from zenturio.study.service.study_service import StudyService, SubmissionWorker
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
    assert _ahead(StudyLoad(0.0, 9, unfinished, running), 5.0, free) == expected
