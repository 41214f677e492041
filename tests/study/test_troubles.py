"""A repository that fails now and then, a study that goes on and on: nothing lost, nothing grows."""

import gc
import re
import time
import tracemalloc
from concurrent.futures import Future
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from record.reference import ReferenceRepository
from study.places import Drivers, Held, Scrambled, good
from study.test_run import DEFINITION, experiments, often, repository, until
from unprivileged import unprivileged
from zenturio.errors import RecordError
from zenturio.experiment import Log, MachineKind, Step
from zenturio.record import DriverProcess
from zenturio.record.entities import CachedResults
from zenturio.study.driver import experiment_states, study_driver, study_records
from zenturio.study.driver.experiment_source import PointsInOrder
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.driver.study_records import UnrecordedOutcomes
from zenturio.testing.repository import experiment, outcome

__all__ = ["often", "repository"]

TOUCHED = ("add", "claim", "record", "find", "reopen", "beat")


class Troubled:
    """A repository whose calls fail where *troubles* says so: before they did it, or behind."""

    def __init__(self, repository, troubles):
        self.repository = repository
        self.troubles = troubles
        self.calls = 0

    def __getattr__(self, name):
        call = getattr(self.repository, name)
        if name not in TOUCHED:
            return call

        def troubled(*arguments, **options):
            self.calls += 1
            trouble = self.troubles(name, self.calls)
            if trouble == "before":
                raise RecordError(f"{name} failed")
            found = call(*arguments, **options)
            if trouble == "behind":
                raise RecordError(f"the answer of {name} was lost")
            return found

        return troubled


def drive(repository, place, planned):
    lease = repository.acquire_lease("s", DriverProcess.current())
    try:
        return StudyDriver(
            "s", lease, repository, place, PointsInOrder(iter(planned), len(planned))
        ).drive()
    finally:
        repository.release_lease(lease)


@settings(deadline=None, max_examples=settings.default.max_examples * 40 // 100)
@given(
    st.dictionaries(st.integers(1, 30), st.sampled_from(["before", "behind"]), max_size=12),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_whatever_call_fails_each_point_has_one_result(troubles, slots, seed):
    repository = ReferenceRepository()
    repository.open("s", DEFINITION)
    planned = experiments(12, steps=(Step("x", retry=1),))
    troubled = Troubled(repository, lambda _name, n: troubles.get(n))
    fails = {each.digest for each in planned if each.index % 3 == 0}

    def result(of):
        if of.digest in fails:
            fails.remove(of.digest)
            return outcome(of, "failed")
        return good(of)

    acknowledged = set()
    small = mock.patch.object(experiment_states, "LOOK_UPS", 4)
    with small, Scrambled(result, slots=slots + 1, seed=seed) as place:
        for _ in range(len(troubles) + 1):
            try:
                assert drive(troubled, place, planned).unfinished == 0
                break
            except RecordError:
                found = repository.find_outcomes([e.digest for e in planned]).keys()
                assert acknowledged <= found
                acknowledged |= found
        else:
            pytest.fail("it never ended")
    assert repository.count_states("s")["ok"] == 12
    for each in planned:
        assert [a.state for a in repository.attempts(each.digest)].count("ok") == 1


def drive_keeping(repository, place, planned, home, messages=None):
    """Drive as `drive` does, with a folder for what cannot be recorded."""
    lease = repository.acquire_lease("s", DriverProcess.current(), join=True)
    kept = UnrecordedOutcomes(home, "here", "s")
    heard = [] if messages is None else messages
    source = PointsInOrder(iter(planned), len(planned))
    return StudyDriver(
        "s", lease, repository, place, source, unrecorded=kept,
        listener=lambda progress: heard.extend(progress.remarks),
    ).drive()  # fmt: skip


def test_outcomes_that_cannot_be_recorded_are_kept_and_recorded_by_the_next_run(tmp_path):
    repository = ReferenceRepository()
    repository.open("s", DEFINITION)
    planned = experiments(6)
    ran = []

    def result(of):
        ran.append(of.digest)
        return good(of)

    broken = Troubled(repository, lambda name, _n: "before" if name == "record" else None)
    messages = []
    with Scrambled(result, slots=2) as place, pytest.raises(RecordError):
        drive_keeping(broken, place, planned, tmp_path, messages)
    first = list(ran)
    assert first
    assert any(re.search("outcomes? could not be recorded", words) for words in messages)
    for lease in repository.leases("s"):
        repository.release_lease(lease)
    with Scrambled(result, slots=2) as place:
        assert drive_keeping(repository, place, planned, tmp_path).ok == 6
    assert sorted(ran) == sorted(e.digest for e in planned)  # none of them twice
    assert len(UnrecordedOutcomes(tmp_path, "here", "s")) == 0
    assert list((tmp_path / "unrecorded").iterdir()) == []
    outcomes = repository.find_outcomes([e.digest for e in planned])
    assert all(outcomes[e.digest].metrics == good(e).metrics for e in planned)


def test_what_was_kept_is_not_used_for_another_round_machine_study_or_if_it_is_damaged(tmp_path):
    (each,) = experiments(1)
    kept = UnrecordedOutcomes(tmp_path, "here", "s")
    assert kept.keep([good(each), replace(good(each), status="cancelled")]) == 1
    assert UnrecordedOutcomes(tmp_path, "here", "s").find(each.digest, None) == good(each)
    for other in (("there", "s"), ("here", "t"), ("here", "s", 2)):
        assert UnrecordedOutcomes(tmp_path, *other).find(each.digest, None) is None
    assert kept.find(each.digest, frozenset({MachineKind("another", 4)})) is None
    (path,) = tmp_path.rglob("*.outcome")
    content = path.read_bytes()
    path.write_bytes(content[:-3] + b"xyz")
    assert kept.find(each.digest, None) is None
    intact = tmp_path / "intact"
    intact.write_bytes(content)
    path.unlink()
    path.symlink_to(intact)
    assert kept.find(each.digest, None) is None


def test_outcomes_that_another_user_keeps_for_himself_are_left_alone(tmp_path):
    (each,) = experiments(1)
    assert UnrecordedOutcomes(tmp_path, "here", "s").keep([good(each)]) == 1
    (tmp_path / "unrecorded").chmod(0)
    with unprivileged():
        assert UnrecordedOutcomes(tmp_path, "here", "s").find(each.digest, None) is None
    (tmp_path / "unrecorded").chmod(0o700)
    assert UnrecordedOutcomes(tmp_path, "here", "s").find(each.digest, None) == good(each)


def test_outcomes_that_cannot_be_kept_either_are_announced_as_lost(tmp_path):
    repository = ReferenceRepository()
    repository.open("s", DEFINITION)
    broken = Troubled(repository, lambda name, _n: "before" if name == "record" else None)
    messages = []
    (tmp_path / "unrecorded").write_text("no folder")
    with Scrambled(slots=2) as place, pytest.raises(RecordError):
        drive_keeping(broken, place, experiments(6), tmp_path, messages)
    assert any(re.search("outcomes? could neither be recorded", words) for words in messages)
    assert not any("the next run records" in words for words in messages)


def test_no_outcome_is_lost_while_the_repository_is_away_for_a_while(repository):
    """Long experiments end while nothing can be recorded: all is recorded when it is back."""
    away = [False]
    troubled = Troubled(repository, lambda _n, _c: "before" if away[0] else None)
    planned = experiments(6)
    place = Held(slots=3)
    lease = repository.acquire_lease("s", DriverProcess.current())
    with Drivers() as pool:
        done = pool.submit(
            StudyDriver("s", lease, troubled, place, PointsInOrder(iter(planned), 6))
        )
        until(lambda: len(place.begun) == 3)
        away[0] = True
        for digest in list(place.begun)[:2]:
            place.end(digest)
        calls = troubled.calls
        until(lambda: troubled.calls > calls + 2)
        assert not done.done()
        assert repository.count_states("s")["ok"] == 0
        away[0] = False
        while not done.done():
            for digest in list(place.begun):
                place.end(digest)
            time.sleep(0.001)
        assert done.result().ok == 6
    assert all([a.state for a in repository.attempts(e.digest)] == ["ok"] for e in planned)


def test_a_repository_that_stays_away_ends_the_run_when_nothing_runs_any_more(repository):
    planned = experiments(400)
    enough = [False]

    def trouble(name, _calls):
        enough[0] |= repository.count_states("s")["ok"] >= 100
        return "before" if enough[0] and name == "record" else None

    troubled = Troubled(repository, trouble)
    with Scrambled(slots=2) as place:
        with pytest.raises(RecordError, match="record failed"):
            drive(troubled, place, planned)
        kept = repository.count_states("s")["ok"]
        assert 100 <= kept < 400
        assert repository.count_states("s")["running"] == 0
        ran = len(place.ran)
        drive(repository, place, planned)
        assert len(place.ran) - ran == 400 - kept


def test_retries_whose_claim_failed_are_claimed_again_and_recorded_once(repository):
    planned = experiments(1, steps=(Step("x", retry=1),))
    claims = []

    def trouble(name, _calls):
        claims.extend([name] * (name == "claim"))
        return "behind" if name == "claim" and len(claims) == 2 else None

    place = Scrambled(lambda e: outcome(e, "failed") if len(place.ran) < 2 else good(e))
    with place:
        with pytest.raises(RecordError):
            drive(Troubled(repository, trouble), place, planned)
        assert drive(repository, place, planned).ok == 1
    states = [a.state for a in repository.attempts(planned[0].digest)]
    assert states == ["failed", "stale", "ok"]


def test_large_logs_are_committed_before_they_fill_the_memory(repository, monkeypatch):
    monkeypatch.setattr(study_records, "WAIT", 60.0)
    monkeypatch.setattr(study_records, "WEIGHT", 5000)
    groups = []
    record = repository.record

    def watched(study, driver, outcomes, **options):
        groups.append(len(outcomes))
        return record(study, driver, outcomes, **options)

    repository.record = watched
    heavy = Log(b"x" * 1000, b"", 1000)
    with Scrambled(lambda e: replace(good(e), stdout=heavy), slots=20) as place:
        drive(repository, place, experiments(100))
    assert sum(groups) == 100
    assert max(groups) == 5


class Forgetful:
    """Accepts everything and remembers nothing: what grows, grows in the driver."""

    def look_up(self, _study, experiments, _kind=None, _round=None):
        for _ in experiments:
            pass
        return CachedResults(frozenset(), {})

    def claim(self, _study, _driver, experiments, _kind=None, _round=None):
        return {experiment.digest: 1 for experiment in experiments}

    def record(self, _study, _driver, outcomes, *, final=True):
        return frozenset(each.digest for each in outcomes)


class Instant:
    """Ends everything at once."""

    slots = 2

    def submit(self, given):
        future = Future()
        future.set_result(good(given))
        return future


@pytest.mark.slow
def test_a_long_study_of_cheap_experiments_needs_no_more_memory_than_a_short_one():
    class Lease:
        number, seconds = 1, 600.0

    held = []

    def endless(count):
        for n in range(count):
            if n in (5_000, 19_000):
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
            yield experiment(n)

    tracemalloc.start(1)
    try:
        driver = StudyDriver(
            "s", Lease(), Forgetful(), Instant(), PointsInOrder(endless(20_000), 20_000)
        )
        summary = driver.drive()
    finally:
        tracemalloc.stop()
    assert summary.ok == 20_000
    early, late = held
    # A batch that is on its way holds up to a megabyte; 14,000 experiments would hold far more.
    assert late < early + 2_000_000, f"{early} B held after 5,000 experiments, {late} after 19,000"


def test_experiments_that_others_hold_are_not_heaped_up(repository, monkeypatch):
    """Two drivers go through one long study side by side: what the other has run is let go."""
    monkeypatch.setattr(experiment_states, "LOOK_UPS", 50)
    planned = experiments(1500)
    other = repository.acquire_lease("s", DriverProcess.current())
    most = [0]
    claim = repository.claim

    def contested(study, driver, wanted, _kind=None, _round=None):
        """The other driver is quicker with every second one."""
        if driver != other.number:
            theirs = repository.find_outcomes([e.digest for e in wanted], "s")
            mine = [e for e in wanted if e.digest not in theirs]
            won = claim(study, other.number, mine[::2])
            repository.record(
                study, other.number,
                [replace(outcome(e), attempt=won[e.digest]) for e in planned if e.digest in won],
            )  # fmt: skip
        return claim(study, driver, wanted)

    repository.claim = contested
    lease = repository.acquire_lease("s", DriverProcess.current(), join=True)

    def watch(_progress):
        most[0] = max(most[0], len(driver._states.elsewhere))

    with Scrambled() as place:
        driver = StudyDriver(
            "s", lease, repository, place, PointsInOrder(iter(planned), 1500), listener=watch
        )
        monkeypatch.setattr(study_driver, "ELSEWHERE", 0.0)
        summary = driver.drive()
    assert summary.ok + summary.cached == 1500
    assert most[0] < 400


def test_an_outcome_that_is_never_given_ends_the_run(repository):
    planned = experiments(3)
    with Scrambled(good) as place:
        drive(repository, place, planned)
        find, repository.find_outcomes = repository.find_outcomes, lambda *_: {}
        try:
            with pytest.raises(RecordError, match="does not return it"):
                drive(repository, place, planned)
        finally:
            repository.find_outcomes = find
    assert len(place.ran) == 3


def test_claims_that_are_refused_for_no_other_driver_end_the_run(repository):
    """Nobody else is alive who could ever give it an outcome: waiting would have no end."""
    repository.claim = lambda *_: {}
    with Scrambled(good) as place, pytest.raises(RecordError, match="no other driver is alive"):
        drive(repository, place, experiments(2))
    assert place.ran == []


def test_claims_that_another_driver_holds_are_waited_for(repository):
    planned = experiments(2)
    other = repository.acquire_lease("s", DriverProcess.current())
    repository.claim("s", other.number, planned)
    refused, progress = [], []
    claim = repository.claim

    def counted(*arguments):
        refused.append(arguments)
        if len(refused) == 2 * experiment_states.REFUSALS:
            repository.release_lease(other)
        return claim(*arguments)

    repository.claim = counted
    lease = repository.acquire_lease("s", DriverProcess.current(), join=True)
    with Scrambled(good) as place:
        source = PointsInOrder(iter(planned), 2)
        driver = StudyDriver("s", lease, repository, place, source, listener=progress.append)
        assert driver.drive().ok == 2
    (remark,) = [remark for step in progress for remark in step.remarks]
    assert f"process {other.pid} on {other.host} (study s)" in remark


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_driver_that_ends_after_its_last_refusal_is_no_contradiction(repository, is_recorded):
    planned = experiments(2)
    other = repository.acquire_lease("s", DriverProcess.current())
    attempts = repository.claim("s", other.number, planned)
    claim, refused = repository.claim, []

    def claim_and_end(*arguments):
        granted = claim(*arguments)
        refused.append(arguments)
        if len(refused) == experiment_states.REFUSALS:
            if is_recorded:
                outcomes = [outcome(e, attempt=attempts[e.digest]) for e in planned]
                repository.record("s", other.number, outcomes)
            repository.release_lease(other)
        return granted

    repository.claim = claim_and_end
    lease = repository.acquire_lease("s", DriverProcess.current(), join=True)
    with Scrambled(good) as place:
        driver = StudyDriver("s", lease, repository, place, PointsInOrder(iter(planned), 2))
        summary = driver.drive()
    assert (summary.cached, summary.ok) == ((2, 0) if is_recorded else (0, 2))
