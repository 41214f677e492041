"""Places that keep what came out until they hear that it is recorded, and that speak."""

from collections import deque
from dataclasses import replace

import pytest

from record.reference import ReferenceRepository
from study.places import Drivers, Held, Scrambled, good
from zenturio.experiment import Step
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.study.driver import study_driver
from zenturio.study.driver.experiment_source import PointsInOrder
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.testing.repository import experiment, outcome


class Lasting(Scrambled):
    """Keeps what it was told to forget, with what was recorded then; and has something to say."""

    def __init__(self, repository, result=good):
        super().__init__(result)
        self.forgotten = []
        self.remarks = deque(["one", "two"])
        self._repository = repository

    def forget(self, digest):
        states = [attempt.state for attempt in self._repository.attempts(digest)]
        self.forgotten.append((digest, states[-1]))


@pytest.fixture
def repository():
    found = ReferenceRepository()
    found.open("s", StudyDefinition((Field("n", "int"),), (Field("value"),)))
    return found


def ready(repository, place, given, **options):
    lease = repository.acquire_lease("s", DriverProcess.current())
    return StudyDriver(
        "s", lease, repository, place, PointsInOrder(iter(given), len(given)), **options
    )


def test_a_place_forgets_what_is_recorded_and_not_before(repository):
    given = [experiment(n) for n in range(30)]
    with Lasting(repository) as place:
        assert ready(repository, place, given).drive().ok == 30
    assert sorted(place.forgotten) == sorted((e.digest, "ok") for e in given)


def test_a_failed_try_is_forgotten_before_the_next_is_submitted(repository):
    given = [replace(experiment(0), steps=(Step("false", retry=1),))]
    tried = []

    def result(of):
        tried.append(list(place.forgotten))
        return good(of) if len(tried) > 1 else replace(outcome(of, "failed"), cause="exit 1")

    with Lasting(repository, result) as place:
        assert ready(repository, place, given).drive().ok == 1
    digest = given[0].digest
    assert tried == [[], [(digest, "failed")]]
    assert place.forgotten == [(digest, "failed"), (digest, "ok")]


def test_what_a_place_says_is_heard_once(repository):
    heard = []
    with Lasting(repository) as place:
        ready(
            repository, place, [experiment(0)], listener=lambda p: heard.extend(p.remarks)
        ).drive()
    assert heard == ["one", "two"]


def test_one_that_is_not_wanted_is_recorded_as_cancelled_and_not_tried_again(
    repository, tmp_path, monkeypatch
):
    monkeypatch.setattr(study_driver, "CANCEL_POLL", 0.01)
    monkeypatch.setattr(study_driver, "ELSEWHERE", 0.01)
    given = [replace(experiment(n), steps=(Step("true", retry=3),)) for n in range(3)]
    place, cancel_requests = Held(2), CancelRequests(tmp_path)
    driven = ready(repository, place, given)
    driven.watch(cancel_requests)
    running, waiting = given[0].digest, given[2].digest
    with Drivers() as drivers:
        done = drivers.submit(driven)
        cancel_requests.ask(running)
        cancel_requests.ask(waiting)
        while cancel_requests.asked(running) or cancel_requests.asked(waiting):
            pass
        place.end(given[1].digest)
        summary = done.result()
    assert (summary.ok, summary.failed) == (1, 2)
    assert repository.count_states("s")["cancelled"] == 2
    assert [a.state for a in repository.attempts(waiting)] == ["cancelled"]
