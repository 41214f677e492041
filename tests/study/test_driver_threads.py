"""What other threads and signals tell a driver: completed futures, commits in time, stops."""

import os
import signal
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from record.reference import ReferenceRepository
from zenturio.errors import ConflictError, PlaceError, SafetyError
from zenturio.experiment import MachineKind
from zenturio.record import DriverProcess, StudyDefinition
from zenturio.study.driver import experiment_states as states
from zenturio.study.driver import study_records
from zenturio.study.driver.experiment_states import (
    Finished,
    Returned,
    StopRequested,
    TrackedExperiment,
)
from zenturio.study.driver.in_flight import ExperimentsAvailable, InFlight
from zenturio.study.driver.stop_requests import UNWANTED, CancelRequests, stop_on_signals
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.driver.study_records import FOLDER, GROUP, GroupCommit, UnrecordedOutcomes
from zenturio.testing.executor import until
from zenturio.testing.experiments import experiment, outcome


class Place:
    """An executor whose futures the test completes."""

    slots = 3

    def __init__(self):
        self.futures = {}

    def submit(self, submitted):
        return self.futures.setdefault(submitted.digest, Future())

    def close(self):
        """Nothing is open."""


class LastingPlace(Place):
    """One with messages, whose outcomes are kept until they are recorded, and that learns."""

    wants = 7

    def __init__(self):
        super().__init__()
        self.remarks = deque(["full", "slow"])
        self.forgotten, self.learnt = [], []

    def forget(self, digest):
        self.forgotten.append(digest)

    def learn(self, seen):
        self.learnt.append(seen)


def tracked(index, attempt=1):
    return TrackedExperiment(experiment(index), attempt=attempt)


@pytest.fixture
def flight():
    place, inbox = Place(), SimpleQueue()
    return InFlight(place, inbox), place, inbox


def test_an_experiment_in_flight_comes_back_with_its_outcome(flight):
    flying, place, inbox = flight
    one, other = tracked(0, attempt=4), tracked(1)
    for each in (one, other):
        flying.submit(each)
    assert (len(flying), flying.slots, flying.wants) == (2, 3, 0)
    place.futures[one.experiment.digest].set_result(outcome(one.experiment, attempt=1))
    assert list(flying.arrivals(9.0)) == [Finished([(one, outcome(one.experiment, attempt=4))])]
    assert inbox.empty()
    assert list(flying.arrivals(-1.0)) == []
    assert (len(flying), flying.is_running) == (1, True)
    flying.cancel(experiment(9).digest)
    flying.cancel(other.experiment.digest)
    flying.request_stop()
    inbox.put(ExperimentsAvailable())
    back, stop = flying.arrivals(9.0)
    assert isinstance(back, Returned)
    assert (back.tracked, stop, inbox.empty()) == (other, StopRequested(), True)
    assert (len(flying), flying.is_running) == (0, False)


def test_an_error_of_the_disk_is_one_of_the_place(flight):
    flying, place, _ = flight
    for error, reason in (
        (OSError(28, "No space left on device", "/work/x"), "/work/x: No space left on device"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ):
        one = tracked(0)
        place.futures.clear()
        flying.submit(one)
        place.futures[one.experiment.digest].set_exception(error)
        with pytest.raises(PlaceError, match=reason) as caught:
            list(flying.arrivals(9.0))
        assert f"experiment {one.experiment.digest[:12]}: " in str(caught.value)
        assert len(flying) == 0


def test_what_waits_is_cancelled_before_what_runs(flight):
    flying, place, _ = flight
    running, waiting = tracked(0), tracked(1)
    for each in (running, waiting):
        flying.submit(each)
    assert place.futures[running.experiment.digest].set_running_or_notify_cancel()
    flying.cancel_queued()
    assert place.futures[waiting.experiment.digest].cancelled()
    assert place.futures[running.experiment.digest].running()


def test_all_are_cancelled_where_a_place_can_do_it(flight):
    flying, place, inbox = flight
    for index in range(3):
        flying.submit(tracked(index))
    flying.cancel_all()
    assert all(future.cancelled() for future in place.futures.values())
    assert inbox.qsize() == 3


def test_a_place_says_each_remark_once_and_is_told_what_was_recorded():
    place = LastingPlace()
    flying = InFlight(place, SimpleQueue())
    assert flying.wants == 7
    assert flying.remarks() == ("full", "slow")
    assert flying.remarks() == ()
    seen = outcome(experiment(0))
    flying.learn(seen)
    flying.forget(seen.digest)
    assert (place.learnt, place.forgotten) == ([seen], [seen.digest])
    plain = InFlight(Place(), SimpleQueue())
    plain.learn(seen)
    plain.forget(seen.digest)
    assert plain.remarks() == ()


# Commits


def pairs(*indices):
    return [(experiment(index), outcome(experiment(index))) for index in indices]


def digests(*indices):
    return {experiment(index).digest for index in indices}


class Written(list):
    """What was committed, group by group; it fails first with each of *faults*."""

    def __init__(self, *faults):
        self.faults = list(faults)

    def __call__(self, group):
        if self.faults:
            raise self.faults.pop()
        self.append(list(group))
        return {result.digest for _, result in group} - digests(2)


def test_outcomes_are_committed_together_and_those_that_were_accepted_are_told_once():
    written = Written()
    commits = GroupCommit(written)
    assert commits.commit() == set()
    for pair in pairs(0, 1, 2):
        commits.add(*pair)
    assert commits.commit() == digests(0, 1)
    assert written == [pairs(0, 1, 2)]
    assert not commits._has_waiting.is_set(), "its thread would go on looking"
    assert commits.commit() == set()
    assert len(written) == 1


def test_outcomes_that_could_not_be_committed_still_wait():
    written = Written(PlaceError("away"))
    commits = GroupCommit(written)
    commits.add(*pairs(0)[0])
    with pytest.raises(PlaceError, match="away"):
        commits.commit()
    commits.add(*pairs(1)[0])
    assert commits.commit() == digests(0, 1)
    assert written == [pairs(0, 1)]


def test_a_commit_is_due_after_a_while(monkeypatch):
    now = [50.0]
    monkeypatch.setattr(study_records, "monotonic", lambda: now[0])
    commits = GroupCommit(Written())
    for passed, is_due in ((0.0, False), (0.09, False), (0.11, True)):
        now[0] = 50.0 + passed
        assert commits.is_due == is_due
    commits.commit()
    assert not commits.is_due


def test_the_thread_commits_while_the_driver_does_not_and_leaves_the_telling_to_it(monkeypatch):
    monkeypatch.setattr(study_records, "COMMIT_WAIT", 0.001)
    monkeypatch.setattr(study_records, "QUIET", 0.001)
    written = Written(PlaceError("away"), PlaceError("still away"))
    with GroupCommit(written) as commits:
        commits.add(*pairs(0)[0])
        until(lambda: written)
        assert written == [pairs(0)]
        until(lambda: not commits._waiting)
        assert commits.commit() == digests(0)
    assert not commits._thread.is_alive()
    commits.add(*pairs(1)[0])
    assert commits.commit() == digests(1)


# How many are submitted


@pytest.mark.parametrize(
    ("submitted", "rate", "wants", "room"),
    [
        (0, 0.0, 0, 8),  # twice the slots
        (7, 0.0, 0, 1),
        (8, 0.0, 0, 0),
        (8, 0.0, 20, 12),  # what the place wants
        (3, 400.0, 0, 97),  # what ends within a quarter of a second
        (75, 400.0, 0, 25),
        (76, 400.0, 0, 0),  # a quarter of it at the least
        (101, 400.0, 0, 0),
        (0, 1e9, 0, GROUP),
    ],
)
def test_as_many_are_submitted_as_there_is_room_for(submitted, rate, wants, room):
    assert rooms(submitted, rate, wants, None) == ([states.PlaceHasRoom(room)] if room else [])


def test_on_a_machine_that_is_to_be_quiet_none_waits_at_the_place():
    assert rooms(3, 400.0, 20, object()) == [states.PlaceHasRoom(1)]
    assert rooms(4, 400.0, 20, object()) == []


def rooms(submitted, rate, wants, quiet_machine):
    """What a driver at a place with four slots asks its states for."""

    class Submitted(list):
        slots = 4

    in_flight = Submitted(range(submitted))
    in_flight.wants = wants
    handled = []
    driver = SimpleNamespace(
        _in_flight=in_flight, _quiet_machine=quiet_machine, _counts=SimpleNamespace(rate=rate),
        _handle=handled.append, _states=SimpleNamespace(is_dry=False),
    )  # fmt: skip
    StudyDriver._fill(driver)
    return handled


# Requests to stop


@pytest.mark.parametrize(
    ("number", "count"), [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 2)]
)
def test_signals_stop_a_run_gently_or_at_once(number, count):
    calls = []
    before = {
        each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    with stop_on_signals(lambda: calls.append(number)):
        os.kill(os.getpid(), number)
        until(lambda: calls)
    assert len(calls) == count
    assert {each: signal.getsignal(each) for each in before} == before


def test_only_the_signals_that_are_meant_are_taken():
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals(lambda: None, (signal.SIGINT,)):
        assert signal.getsignal(signal.SIGTERM) is before
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler


def test_signals_that_are_ignored_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(lambda: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_of_a_service_takes_no_signals():
    handlers = []

    def run():
        with stop_on_signals(lambda: None):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def test_a_request_to_cancel_is_there_until_it_is_taken_back(tmp_path):
    requests = CancelRequests(tmp_path / ".zenturio")
    one, other = experiment(0).digest, experiment(1).digest
    assert requests.unwanted() == []
    requests.take_back(one)
    requests.ask(one)
    requests.ask(other)
    requests.ask(one)
    assert sorted(requests.unwanted()) == sorted([one, other])
    requests.take_back(one)
    assert (requests.asked(one), requests.asked(other)) == (False, True)
    assert (tmp_path / ".zenturio" / UNWANTED / other).stat().st_size == 0


def test_a_request_is_not_written_through_a_link(tmp_path):
    requests = CancelRequests(tmp_path / ".zenturio")
    requests.ask(experiment(1).digest)
    link = tmp_path / ".zenturio" / UNWANTED / experiment(0).digest
    link.symlink_to(tmp_path / "target")
    with pytest.raises(SafetyError):
        requests.ask(experiment(0).digest)
    assert not (tmp_path / "target").exists()


def test_a_lease_is_shared_only_with_a_driver_that_joins():
    repository = ReferenceRepository()
    repository.open("s", StudyDefinition((), ()))
    other = repository.acquire_lease("s", DriverProcess("elsewhere", 1, "x"))
    with pytest.raises(ConflictError), study_records.leased(repository, "s", 60.0):
        pass
    with study_records.leased(repository, "s", 60.0, join=True) as lease:
        assert {each.number for each in repository.leases("s")} == {other.number, lease.number}
    assert [each.number for each in repository.leases("s")] == [other.number]


def test_an_outcome_that_was_not_recorded_is_kept_until_it_is(tmp_path):
    def unrecorded(study="s", round_=None):
        return UnrecordedOutcomes(tmp_path, "a.db", study, round_)

    first, second, cancelled = (outcome(experiment(n)) for n in range(3))
    cancelled = replace(cancelled, status="cancelled")
    assert unrecorded().keep([first, second, cancelled]) == 2
    later = unrecorded()
    assert (len(later), len(unrecorded("t")), len(unrecorded("s", 2))) == (2, 0, 0)
    assert later.find(first.digest, None) == first
    assert later.find(first.digest, frozenset({MachineKind("EPYC", 16)})) is None
    assert later.find(cancelled.digest, None) is None
    later.discard([first.digest, cancelled.digest])
    assert (later.find(first.digest, None), len(unrecorded())) == (None, 1)
    later.discard([second.digest])
    assert list((tmp_path / FOLDER).iterdir()) == []
