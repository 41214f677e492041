"""One driver at one study, with a repository in memory and places in this process."""

import math
import signal
import time
from concurrent.futures import Future
from dataclasses import replace

import pytest

from record.reference import ReferenceRepository
from study.places import Drivers, Held, Scrambled, good
from zenturio.annotate.model import Goal
from zenturio.errors import ConflictError, Interrupted, PlaceError
from zenturio.experiment import Step
from zenturio.experiment.experiment import MachineKind
from zenturio.expression import parse
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.study.driver import experiment_source, experiment_states, study_driver
from zenturio.study.driver.experiment_source import PointsInOrder
from zenturio.study.driver.stop_requests import stop_on_signals
from zenturio.study.driver.study_driver import DriverSettings, StudyDriver
from zenturio.testing.executor import until
from zenturio.testing.repository import experiment, outcome

DEFINITION = StudyDefinition((Field("n", "int"),), (Field("value"),))


@pytest.fixture
def repository():
    found = ReferenceRepository()
    found.open("s", DEFINITION)
    return found


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Other drivers are looked at often: tests do not wait for a second."""
    monkeypatch.setattr(study_driver, "ELSEWHERE", 0.02)
    monkeypatch.setattr(study_driver, "QUIET", 0.02)


def experiments(count, **more):
    return [replace(experiment(n), **more) for n in range(count)]


def ready(repository, place, given, *, join=False, **options):
    lease = repository.acquire_lease("s", DriverProcess.current(), join=join)
    options = {"total": len(given), **options}
    return StudyDriver(
        "s", lease, repository, place, PointsInOrder(iter(given), options.pop("total")), **options
    )


def drive(repository, place, given, **options):
    """Drives to the end, and gives the lease back."""
    study = options.pop("study", "s")
    lease = repository.acquire_lease(
        study, DriverProcess.current(), join=options.pop("join", False)
    )
    try:
        options = {"total": len(given), **options}
        return StudyDriver(
            study,
            lease,
            repository,
            place,
            PointsInOrder(iter(given), options.pop("total")),
            **options,
        ).drive()
    finally:
        repository.release_lease(lease)


def states(repository, digest):
    return [attempt.state for attempt in repository.attempts(digest)]


def failing(times, cause="exit 3"):
    """Experiments that fail so many times, and then succeed."""
    left = {}

    def result(of):
        left[of.digest] = left.get(of.digest, times) - 1
        return replace(outcome(of, "failed"), cause=cause) if left[of.digest] >= 0 else good(of)

    return result


# Once each


@pytest.mark.parametrize("seed", range(5))
def test_each_experiment_is_run_once_whatever_ends_first(repository, seed):
    given = experiments(300)
    with Scrambled(slots=7, seed=seed) as place:
        summary = drive(repository, place, given)
    assert (summary.ok, summary.failed, summary.cached, summary.unfinished) == (300, 0, 0, 0)
    assert sorted(place.ran) == sorted(e.digest for e in given)
    assert place.ran != [e.digest for e in given]
    assert repository.count_states("s")["ok"] == 300
    assert all(states(repository, e.digest) == ["ok"] for e in given)
    assert repository.find_outcomes([given[7].digest])[given[7].digest].metrics == {"value": 7}


def test_what_is_known_is_recalled_and_not_run(repository):
    given = experiments(20)
    with Scrambled(lambda e: good(e) if e.index else outcome(e, "failed")) as place:
        drive(repository, place, given[:12])
        summary = drive(repository, place, given)
    assert (summary.cached, summary.ok, summary.failed) == (12, 8, 0)
    assert [(f.cause, f.count, f.digest) for f in summary.failures] == [
        ("exit 3", 1, given[0].digest)
    ]
    assert len(place.ran) == 20


def test_two_points_that_are_the_same_experiment_run_it_once(repository):
    given = [*experiments(5), *experiments(5)]
    with Scrambled(lambda e: time.sleep(0.01) or good(e)) as place:
        summary = drive(repository, place, given)
    assert (summary.ok, summary.cached, summary.unfinished) == (5, 5, 0)
    assert len(place.ran) == 5


def test_a_run_without_experiments_is_over(repository):
    with Scrambled() as place:
        assert drive(repository, place, []).total == 0


# Failures


@pytest.mark.parametrize(
    ("fails", "allowed", "attempts"),
    [(0, 2, ["ok"]), (1, 2, ["failed", "ok"]), (2, 2, ["failed", "failed", "ok"]),
     (3, 2, ["failed"] * 3), (1, 0, ["failed"])],
)  # fmt: skip
def test_what_fails_is_tried_again_as_often_as_retry_says(repository, fails, allowed, attempts):
    given = experiments(6, steps=(Step("false", retry=allowed),))
    with Scrambled(failing(fails)) as place:
        summary = drive(repository, place, given)
    good_in_the_end = attempts[-1] == "ok"
    assert (summary.ok, summary.failed) == ((6, 0) if good_in_the_end else (0, 6))
    assert all(states(repository, e.digest) == attempts for e in given)


def test_the_setting_of_retry_overrules_the_step(repository):
    given = experiments(1, steps=(Step("false", retry=5),))
    with Scrambled(failing(1)) as place:
        assert drive(repository, place, given, settings=DriverSettings(retry=0)).failed == 1


def test_attempts_that_drivers_lost_are_no_failures(repository):
    """RETRY 1 after two lost drivers: the third attempt fails, and there is a fourth."""
    given = experiments(1, steps=(Step("false", retry=1),))
    for _ in range(2):
        lost = repository.acquire_lease("s", DriverProcess.current())
        repository.claim("s", lost.number, [given[0]])
        repository.release_lease(lost)
    with Scrambled(failing(1)) as place:
        assert drive(repository, place, given).ok == 1
    assert states(repository, given[0].digest) == ["stale", "stale", "failed", "ok"]


def test_failures_are_grouped_by_their_cause_the_most_frequent_first(repository):
    def result(of):
        return good(of) if of.index < 2 else replace(
            outcome(of, "failed"), cause="exit 3" if of.index < 4 else ""
        )  # fmt: skip

    with Scrambled(result, slots=1) as place:
        summary = drive(repository, place, experiments(9))
    assert [(f.cause, f.count) for f in summary.failures] == [("failed", 5), ("exit 3", 2)]
    assert dict(summary.failures[1].values)["n"] in (2, 3)


def test_fail_fast_takes_nothing_more_and_records_what_runs(repository):
    given = experiments(10)
    place = Held(slots=2)
    with Drivers() as pool:
        lease = repository.acquire_lease("s", DriverProcess.current())
        driver = StudyDriver(
            "s",
            lease,
            repository,
            place,
            PointsInOrder(iter(given), 10),
            settings=DriverSettings(fail_fast=True),
        )
        done = pool.submit(driver)
        until(lambda: len(place.begun) == 2)
        first, _ = place.begun
        place.begun.pop(first).set_result(outcome(given[0], "failed"))
        until(lambda: repository.count_states("s")["failed"] == 1)
        place.end_all()
        summary = done.result()
    assert (summary.failed, summary.ok, summary.unfinished) == (1, 1, 8)
    assert not summary.interrupted
    assert repository.count_states("s")["ok"] == 1


def test_fail_fast_stops_at_a_failure_and_at_nothing_else(repository):
    given = experiments(9)
    place = Held(slots=1)
    lease = repository.acquire_lease("s", DriverProcess.current())
    source, settings = PointsInOrder(iter(given), 9), DriverSettings(fail_fast=True)
    driver = StudyDriver("s", lease, repository, place, source, settings=settings)
    with Drivers() as pool:
        done = pool.submit(driver)
        for number, one in enumerate(given):
            until(lambda: place.begun or done.done())
            assert list(place.begun) == [one.digest]
            place.end(one.digest)
            until(lambda ok=number + 1: repository.count_states("s")["ok"] == ok)
        summary = done.result()
    assert (summary.ok, summary.unfinished) == (9, 0)


@pytest.mark.parametrize(
    ("causes", "hosts", "is_one_machine", "stops"),
    [
        (["metric missing: t"], ["a"], False, True),
        (["metric missing: t", "metric missing: d, t"], ["a"], False, True),
        (["metric missing: t", "metric missing: d"], ["a"], False, False),
        (["exit 127: sh: #: lmp: not found"], ["a"], True, True),
        (["exit 127: sh: #: lmp: not found", "exit 126"], ["a", "b"], False, True),
        (["exit 127"], ["a"], False, False),
        (["exit 127", "metric missing: t"], ["a"], True, True),
        (["exit 1"], ["a"], True, True),
        (["build failed: exit 1: no such header"], ["a"], True, True),
        (["build failed: exit 1: no such header"], ["a"], False, False),
        (["build failed: exit 1: flag a", "build failed: exit 1: flag b"], ["a"], True, True),
    ],
)
def test_a_run_stops_if_its_first_experiments_all_fail(causes, hosts, is_one_machine, stops):
    def failed(experiment):
        if len(place.ran) > 20:  # not all of them in the first commit
            until(lambda: repository.count_states("s")["failed"] >= 8)
        cause = causes[experiment.index % len(causes)]
        host = hosts[experiment.index % len(hosts)]
        return replace(outcome(experiment, "failed"), cause=cause, host=host)

    for go_on in (False, True):
        repository = ReferenceRepository()
        repository.open("s", DEFINITION)
        with Scrambled(failed, slots=1) as place:
            if is_one_machine:
                place.machine = MachineKind("here", 4)
            given = experiments(100)
            settings = DriverSettings(go_on=go_on)
            summary = drive(repository, place, given, settings=settings)
        if stops and not go_on:
            assert 8 <= summary.failed < 100
            assert any("stopped, because the first " in r for r in summary.remarks)
        else:
            assert (summary.failed, summary.unfinished) == (100, 0)
        assert not summary.interrupted


def test_one_success_shows_that_the_study_is_not_faulty(repository):
    def at_first(experiment):
        if experiment.index == 0:
            return good(experiment)
        return replace(outcome(experiment, "failed"), cause="metric missing: t")

    with Scrambled(at_first, slots=1) as place:
        drive(repository, place, experiments(1))
        summary = drive(repository, place, experiments(50))  # the success is cached now
    assert (summary.failed, summary.cached) == (49, 1)


# Which ones


def half(repository, count=6):
    """A study whose even experiments failed, and whose last two were never run."""
    given = experiments(count + 2)
    with Scrambled(lambda e: outcome(e, "failed") if e.index % 2 == 0 else good(e)) as place:
        drive(repository, place, given[:count])
    return given


@pytest.mark.parametrize(
    ("only", "ran", "known"),
    [({"missing"}, [6, 7], 6), ({"failed"}, [0, 2, 4], 3), ({"failed", "missing"}, [0, 2, 4, 6, 7], 3)],
)  # fmt: skip
def test_only_those_in_the_wanted_state_are_run(repository, only, ran, known):
    given = half(repository)
    with Scrambled() as place:
        summary = drive(repository, place, given, only=frozenset(only))
    assert sorted(place.ran) == sorted(given[n].digest for n in ran)
    assert (summary.cached, summary.ok) == (known, len(ran))
    assert summary.unfinished == len(given) - known - len(ran)


def test_failed_ones_that_wait_again_since_a_run_was_stopped_are_still_failed_ones(repository):
    given = half(repository)
    place = Held(slots=1)
    stopped = ready(repository, place, given, only=frozenset({"failed"}))
    with Drivers() as pool:
        done = pool.submit(stopped)
        until(lambda: place.begun)
        stopped.stop()
        place.end_all()
        assert done.result().ok == 1
    for lease in repository.leases("s"):
        repository.release_lease(lease)
    assert repository.count_states("s")["failed"] == 0
    with Scrambled() as again:
        drive(repository, again, given, only=frozenset({"failed"}))
    assert len(again.ran) == 2
    assert sum(repository.count_states("s").values()) == len(given) - 2


def test_what_one_study_runs_again_stays_failed_in_another_until_that_one_asks(repository):
    given = half(repository)[:6]
    for study in ("t", "u"):
        repository.open(study, DEFINITION)
        repository.cached(study, given)
    only = frozenset({"failed"})
    with Scrambled() as place:
        drive(repository, place, given, only=only)
    assert len(place.ran) == 3
    assert [repository.count_states(study)["failed"] for study in ("s", "t", "u")] == [0, 3, 3]
    with Scrambled() as place:
        drive(repository, place, given, only=only, study="t")
    assert place.ran == []
    assert [repository.count_states(study)["failed"] for study in ("s", "t", "u")] == [0, 0, 3]


# Stopping


def test_a_stop_takes_back_what_waits_and_records_what_runs(repository):
    given = experiments(10)
    place = Held(slots=2)
    stopped = ready(repository, place, given)
    with Drivers() as pool:
        done = pool.submit(stopped)
        until(lambda: repository.count_states("s")["running"] == 4)
        running = list(place.begun)
        stopped.stop()
        until(lambda: all(future.cancelled() for future in place._waiting))
        assert not done.done()
        place.end_all()
        summary = done.result()
    assert (summary.ok, summary.unfinished, summary.interrupted) == (2, 8, True)
    assert repository.find_outcomes([e.digest for e in given]).keys() == set(running)


def test_a_second_stop_kills_what_runs(repository):
    given = experiments(10)
    place = Held(slots=2)
    lease = repository.acquire_lease("s", DriverProcess.current())
    stopped = StudyDriver("s", lease, repository, place, PointsInOrder(iter(given), 10))
    with Drivers() as pool:
        done = pool.submit(stopped)
        until(lambda: len(place.begun) == 2)
        killed = list(place.begun.values())
        stopped.stop()
        stopped.stop()
        with pytest.raises(Interrupted, match="killed"):
            done.result()
    assert all(future.result().status == "cancelled" for future in killed)
    assert repository.find_outcomes([e.digest for e in given]) == {}
    repository.release_lease(lease)
    assert repository.count_states("s")["running"] == 0


def test_what_fails_while_a_run_is_stopped_has_its_retries_left(repository):
    given = experiments(1, steps=(Step("false", retry=1),))
    place = Held(slots=1)
    stopped = ready(repository, place, given)
    with Drivers() as pool:
        done = pool.submit(stopped)
        until(lambda: place.begun)
        stopped.stop()
        place.end(given[0].digest, outcome(given[0], "failed"))
        assert done.result().unfinished == 1
    assert sum(repository.count_states("s").values()) == 0
    assert states(repository, given[0].digest) == ["failed"]


def test_signals_that_are_ignored_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        heard = []
        with stop_on_signals(lambda: heard.append(1)):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
            assert heard == [1]
            signal.raise_signal(signal.SIGTERM)
            assert heard == [1, 1, 1]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Several drivers


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 1e9

    def __call__(self):
        return self.now


def until_it_waits(progress):
    """Until a driver has said that others have what it wants."""
    until(
        lambda: any("waiting for experiments that other" in r for p in progress for r in p.remarks)
    )


@pytest.mark.parametrize("batch", [1, 2048])
def test_what_another_driver_holds_is_waited_for(repository, monkeypatch, batch):
    monkeypatch.setattr(experiment_states, "LOOK_UPS", batch)
    given = experiments(4)
    other = repository.acquire_lease("s", DriverProcess.current())
    held = repository.claim("s", other.number, given[:2])
    with Drivers() as pool, Scrambled() as place:
        progress = []
        joined = ready(repository, place, given, join=True, listener=progress.append)
        done = pool.submit(joined)
        until_it_waits(progress)
        assert len(place.ran) == 2
        assert not done.done()
        results = [replace(good(e), attempt=held[e.digest]) for e in given[:2]]
        repository.record("s", other.number, results)
        summary = done.result()
    assert (summary.ok, summary.cached, summary.unfinished) == (2, 2, 0)
    assert len(place.ran) == 2


def test_what_a_lost_driver_held_is_taken_over():
    clock = Clock()
    repository = ReferenceRepository(clock)
    repository.open("s", DEFINITION)
    given = experiments(4)
    other = repository.acquire_lease("s", DriverProcess.current(), seconds=60)
    repository.claim("s", other.number, given[:2])
    with Drivers() as pool, Scrambled() as place:
        lease = repository.acquire_lease("s", DriverProcess.current(), join=True, seconds=1e6)
        done = pool.submit(
            StudyDriver("s", lease, repository, place, PointsInOrder(iter(given), 4))
        )
        until(lambda: len(place.ran) == 2)
        clock.now += 61
        summary = done.result()
    assert summary.ok == 4
    assert states(repository, given[0].digest) == ["stale", "ok"]


def test_what_another_driver_took_while_it_failed_here_is_waited_for(repository):
    """Between setting an attempt aside and claiming it again there is a moment for others."""
    given = experiments(1, steps=(Step("false", retry=1),))
    other = repository.acquire_lease("s", DriverProcess.current())
    taken = {}

    class Quick(ReferenceRepository):
        def record(self, study, driver, outcomes, *, final=True):
            found = repository.record(study, driver, outcomes, final=final)
            if not final:
                taken.update(repository.claim(study, other.number, given))
            return found

        def __getattribute__(self, name):
            own = name == "record" or name.startswith("__")
            return object.__getattribute__(self, name) if own else getattr(repository, name)

    with Drivers() as pool, Scrambled(failing(1)) as place:
        lease = repository.acquire_lease("s", DriverProcess.current(), join=True)
        progress, source = [], PointsInOrder(iter(given), 1)
        driver = StudyDriver("s", lease, Quick(), place, source, listener=progress.append)
        done = pool.submit(driver)
        until_it_waits(progress)
        assert taken
        assert not done.done()
        repository.record("s", other.number, [replace(good(given[0]), attempt=2)])
        summary = done.result()
    assert (summary.cached, summary.ok, summary.failed) == (1, 0, 0)


def test_a_superseded_driver_ends_with_a_conflict_and_its_results_do_not_count():
    clock = Clock()
    repository = ReferenceRepository(clock)
    repository.open("s", DEFINITION)
    given = experiments(4)
    place = Held(slots=2)
    with Drivers() as pool:
        lease = repository.acquire_lease("s", DriverProcess.current(), seconds=0.3)
        done = pool.submit(
            StudyDriver("s", lease, repository, place, PointsInOrder(iter(given), 4))
        )
        until(lambda: len(place.begun) == 2)
        late = list(place.begun)
        clock.now += 10
        other = repository.acquire_lease("s", DriverProcess.current())
        won = repository.claim("s", other.number, [e for e in given if e.digest in late])
        repository.record(
            "s", other.number, [replace(good(e), attempt=won[e.digest]) for e in given[:2]]
        )
        place.end(late[0])
        with pytest.raises(ConflictError):
            done.result()
    assert states(repository, late[0]) == ["superseded", "ok"]
    assert states(repository, late[1]) == ["stale", "ok"]


def test_a_result_that_came_too_late_is_not_counted():
    """Before the heart has noticed: the lease is over, and another driver has the experiment."""
    clock = Clock()
    repository = ReferenceRepository(clock)
    repository.open("s", DEFINITION)
    given = experiments(1)
    place = Held(slots=1)
    told = []
    with Drivers() as pool:
        lease = repository.acquire_lease("s", DriverProcess.current(), seconds=60)
        late = StudyDriver(
            "s", lease, repository, place, PointsInOrder(iter(given), 1), listener=told.append
        )
        done = pool.submit(late)
        until(lambda: place.begun)
        clock.now += 61
        other = repository.acquire_lease("s", DriverProcess.current())
        repository.claim("s", other.number, given)
        place.end(given[0].digest)
        with pytest.raises(ConflictError):
            done.result()
    assert told
    assert all(progress.ok == 0 for progress in told)


def test_the_heart_beats_while_an_experiment_keeps_the_driver_busy(repository):
    """A function in this process blocks the driver's thread for longer than the lease."""
    refused = []

    class Busy:
        slots = 1

        def submit(self, submitted):
            until(lambda: time.time() > lease.until)
            with pytest.raises(ConflictError) as caught:
                repository.acquire_lease("s", DriverProcess.current())
            refused.append(caught)
            future = Future()
            future.set_result(good(submitted))
            return future

    lease = repository.acquire_lease("s", DriverProcess.current(), seconds=0.3)
    StudyDriver("s", lease, repository, Busy(), PointsInOrder(iter(experiments(1)), 1)).drive()
    assert len(refused) == 1


# Places that fail


def test_an_experiment_that_its_place_gave_back_is_handed_out_again(repository):
    given = experiments(20)
    lost = set()

    def result(of):
        if of.index % 3 == 0 and of.digest not in lost:
            lost.add(of.digest)
            return outcome(of, "cancelled")
        return good(of)

    with Scrambled(result) as place:
        summary = drive(repository, place, given)
    assert summary.ok == 20
    assert len(place.ran) == 27
    assert states(repository, given[0].digest) == ["ok"]


def test_a_place_that_loses_an_experiment_again_and_again_ends_the_run(repository):
    lost = pytest.raises(PlaceError, match="came back 3 times without an outcome")
    with Scrambled(lambda e: outcome(e, "cancelled")) as place, lost:
        drive(repository, place, experiments(3))
    assert len(place.ran) < 10
    assert sum(repository.count_states("s").values()) == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PlaceError("no room"), "no room"),
        (OSError(24, "Too many open files", "/x"), "/x: Too many"),
    ],
)
def test_what_ended_before_a_place_failed_is_recorded(repository, error, said):
    def result(of):
        if of.index == 7:
            raise error
        return good(of)

    with Scrambled(result, slots=4) as place, pytest.raises(PlaceError, match=said):
        drive(repository, place, experiments(1000))
    counts = repository.count_states("s")
    assert counts["ok"] == len(place.ran) - 1
    assert counts["running"] == 0


def test_what_still_runs_when_a_place_fails_is_killed_before_the_claims_go_back(repository):
    place = Held(slots=2)
    given = experiments(4)
    with Drivers() as pool:
        done = pool.submit(ready(repository, place, given))
        until(lambda: len(place.begun) == 2)
        _, other = place.begun.values()
        place.begun[given[0].digest].set_exception(PlaceError("gone"))
        with pytest.raises(PlaceError, match="gone"):
            done.result()
    assert other.result().status == "cancelled"


# What is told


def test_progress_adds_up_and_ends_with_all(repository):
    told = []
    with Scrambled(failing(0)) as place:
        drive(repository, place, experiments(10))
        drive(repository, place, experiments(200), listener=told.append)
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert all(p.total == 200 and p.cached == 10 and p.failed == 0 for p in told)
    assert all(0 <= p.running <= 200 - p.done + 1 for p in told)
    last = told[-1]
    assert (last.done, last.ok, last.running) == (200, 190, 0)
    assert last.seconds_left == 0


def test_what_waits_for_a_slot_is_not_told_to_run(repository):
    given, told = experiments(10), []
    place = Held(slots=2)
    lease = repository.acquire_lease("s", DriverProcess.current())
    run = StudyDriver(
        "s", lease, repository, place, PointsInOrder(iter(given), 10), listener=told.append
    )
    with Drivers() as pool:
        done = pool.submit(run)
        until(lambda: repository.count_states("s")["running"] == 4 and told)
        run.stop()
        place.end_all()
        done.result()
    repository.release_lease(lease)
    assert max(progress.running for progress in told) == 2


def test_a_listener_that_has_gone_does_not_end_the_study(repository):
    def gone(_progress):
        raise BrokenPipeError

    with Scrambled() as place:
        assert drive(repository, place, experiments(5), listener=gone).ok == 5


@pytest.mark.parametrize(("direction", "best"), [("minimize", 1), ("maximize", 8)])
def test_the_best_is_the_best_number_whatever_ended_when(repository, direction, best):
    odd = {0: math.nan, 9: math.inf, 3: -math.inf}
    told = []

    def result(of):
        return outcome(of, value=odd.get(of.index, of.index))

    goals = (Goal(direction, parse("value * 2 + n")),)
    with Scrambled(result) as place:
        for given in (experiments(4), experiments(10)):
            summary = drive(repository, place, given, goals=goals, listener=told.append)
    assert summary.best.value == best * 3
    assert dict(summary.best.at) == {"n": best}
    assert told[-1].best == summary.best


def test_experiments_that_ask_for_more_cpus_than_there_are_slots_are_counted(repository):
    given = [
        *experiments(2, steps=(Step("true", cpus=2), Step("true"))),
        *[replace(e, steps=(Step("true", cpus=3),)) for e in experiments(5)[2:]],
    ]
    with Scrambled(slots=2) as place:
        assert drive(repository, place, given).alone == 3


def test_making_experiments_does_not_keep_what_ended_from_being_recorded(repository, monkeypatch):
    """A space whose points are hard to find: what is known of them is run meanwhile."""
    monkeypatch.setattr(experiment_source, "SPELL", 0.0)

    def slowly():
        for number, each in enumerate(experiments(6)):
            yield each
            until(lambda at=number: repository.count_states("s")["ok"] >= at - 2)

    with Scrambled() as place:
        lease = repository.acquire_lease("s", DriverProcess.current())
        assert (
            StudyDriver("s", lease, repository, place, PointsInOrder(slowly(), 6)).drive().ok == 6
        )


# Searches


class Generations:
    """Hands out a few at a time, and the next ones when all of these have landed."""

    total = 12
    expecting = False
    ahead = 0

    def __init__(self, size=3):
        self._size = size
        self._given = experiments(self.total)
        self._out = set()
        self.asked = 0
        self.largest = 0

    @property
    def over(self):
        return not self._given

    def __iter__(self):
        self.asked += 1
        if not self._out:
            now, self._given = self._given[: self._size], self._given[self._size :]
            self._out = {e.digest for e in now}
            self.largest = max(self.largest, len(now))
            yield from now

    def complete(self, of, _outcome):
        self._out.remove(of.digest)


def searched(repository, place, source, **options):
    lease = repository.acquire_lease("s", DriverProcess.current())
    return StudyDriver("s", lease, repository, place, source, **options).drive()


def test_a_search_gets_each_outcome_before_it_is_asked_for_more(repository):
    source = Generations()
    with Scrambled() as place:
        assert searched(repository, place, source).ok == 12
    assert source.over
    assert not source._out


def test_a_driver_that_waits_for_a_generation_to_end_does_not_spin(repository):
    source = Generations()
    with Scrambled(lambda e: time.sleep(0.1) or good(e), slots=8) as place:
        assert searched(repository, place, source).ok == 12
    assert source.asked < 60


def test_a_search_goes_on_where_outcomes_are_known(repository):
    with Scrambled() as place:
        drive(repository, place, experiments(8))
        summary = searched(repository, place, Generations())
    assert (summary.cached, summary.ok) == (8, 4)


def test_a_search_that_waits_for_what_is_left_out_ends(repository):
    """Only the failed ones are wanted, and there are none."""
    with Scrambled() as place:
        summary = searched(repository, place, Generations(), only=frozenset({"failed"}))
    assert (summary.ok, place.ran) == (0, [])
