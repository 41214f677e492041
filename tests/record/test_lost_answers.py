"""What was committed and not heard of, and what was heard of and undone: nothing is lost or doubled."""

from contextlib import closing
from dataclasses import replace

import pytest

from record import oracle
from record.worker import DEFINITION, STUDY, result
from zenturio.experiment import MachineKind
from zenturio.record import DriverProcess, database, maintenance
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment


class _Deaf:
    """Breaks the connection behind every n-th commit, once the database has made it."""

    def __init__(self, repository, every):
        self.heard = 0
        self.lost = 0
        self._every = every
        self._error = repository.engine.dialect.loaded_dbapi.OperationalError

    def __call__(self):
        self.heard += 1
        if self.heard % self._every == 0:
            self.lost += 1
            raise self._error("the connection was lost behind COMMIT")


@pytest.mark.parametrize("every", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_what_was_not_heard_of_is_said_again(url, monkeypatch, every):
    repository = open_repository(url)
    deaf = _Deaf(repository, every)
    monkeypatch.setattr(type(repository._database.dialect), "lost", lambda self, error: True)
    monkeypatch.setattr(database, "COMMITTED", deaf)
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    experiments = [experiment(i) for i in range(12)]
    for start in range(0, 12, 3):
        batch = experiments[start : start + 3]
        assert repository.cached(STUDY, batch) == frozenset()
        claims = repository.claim(STUDY, lease.number, batch)
        assert claims == dict.fromkeys((e.digest for e in batch), 1)
        first = [result(e) for e in batch[:1]]
        assert repository.record(STUDY, lease.number, first) == {batch[0].digest}
    assert repository.count_states(STUDY)["running"] == 8
    known = [e for e in experiments if repository.attempts(e.digest)[0].state == "running"]
    assert repository.record(STUDY, lease.number, [result(e) for e in known])
    late = [(experiment(i), result(experiment(i))) for i in range(12, 15)]
    assert repository.add_results(STUDY, lease.number, late) == {e.digest for e, _ in late}
    repository.release_lease(lease)
    repository.close()
    assert deaf.lost > 5
    monkeypatch.undo()
    oracle.holds(url, 15)


@pytest.fixture
def repository(url):
    with closing(open_repository(url)) as repository:
        for name in ("first", STUDY, "last"):
            repository.open(name, DEFINITION)
        yield repository


def driver(repository, study=STUDY):
    return repository.acquire_lease(study, DriverProcess.current(), join=True).number


def sql(repository, statement):
    return repository._database.write(lambda transaction: transaction.sql(statement))


def states(repository, of, study=STUDY):
    """The state in the study, and those of all attempts."""
    records = {r.digest: r.state for r in repository.records(study)}
    attempts = repository.attempts(of.digest)
    return records.get(of.digest, "missing"), sorted((a.number, a.state) for a in attempts)


def test_a_claim_that_a_power_failure_undid_is_recorded_unless_somebody_else_has_the_experiment(
    repository,
):
    """Claims are committed without waiting for the disk: they may be gone while their driver lives."""
    first, other, last = driver(repository), driver(repository), driver(repository, "last")
    free, taken, done, failed, elsewhere, older, aside, again, never = map(experiment, range(9))
    repository.claim(STUDY, first, [again])
    repository.record(STUDY, first, [result(again)])
    ours = [free, taken, done, failed, elsewhere, older, aside]
    assert repository.claim(STUDY, first, ours).keys() == {e.digest for e in ours}
    round_ = repository.begin_round(STUDY)
    assert repository.claim(STUDY, first, [again], round_=round_) == {again.digest: 2}
    repository.record(STUDY, first, [replace(result(aside), status="failed")], final=False)
    sql(repository, "DELETE FROM claims")
    repository.claim(STUDY, other, [taken])
    machine = MachineKind("EPYC", 64)
    theirs = [
        (done, result(done)), (failed, replace(result(failed), status="failed")),
        (elsewhere, replace(result(elsewhere), machine=machine)),
    ]  # fmt: skip
    assert len(repository.add_results("last", last, theirs)) == 3
    before = [repr(list(repository.records(study))) for study in ("first", "last")]
    outcomes = [*map(result, [free, taken, done, failed, elsewhere, never]), result(older, 2)]
    outcomes += [replace(result(aside), status="failed"), result(again, 2)]
    accepted = {e.digest for e in (free, elsewhere, again)}
    assert repository.record(STUDY, first, outcomes) == accepted
    assert repository.record(STUDY, first, outcomes) == accepted
    assert [repr(list(repository.records(study))) for study in ("first", "last")] == before
    assert states(repository, free) == ("ok", [(1, "ok")])
    assert states(repository, taken) == ("running", [(1, "running"), (1, "superseded")])
    assert states(repository, done) == ("missing", [(1, "ok"), (1, "superseded")])
    assert states(repository, failed) == ("missing", [(1, "failed"), (1, "superseded")])
    assert states(repository, elsewhere) == ("ok", [(1, "ok"), (1, "ok")])
    assert states(repository, older) == ("missing", [(2, "superseded")])
    assert states(repository, aside) == ("missing", [(1, "failed")])
    assert states(repository, again) == ("ok", [(1, "ok"), (2, "ok")])
    assert states(repository, never) == ("missing", [(1, "superseded")])
    record = repository.experiment_record(STUDY, free.digest)
    assert (record.index, record.repeat, record.values) == (0, 1, {"n": 0})
    assert repository.experiment_record(STUDY, again.digest).round == round_
    assert repository.record(STUDY, other, [result(taken)]) == {taken.digest}
    assert maintenance.check_repository(repository.location) == ()


def test_a_driver_whose_lease_has_ended_lost_its_claims_to_whoever_ended_it(repository):
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    repository.claim(STUDY, lease.number, [experiment(0)])
    sql(repository, "DELETE FROM claims")
    repository.release_lease(lease)
    assert repository.record(STUDY, lease.number, [result(experiment(0))]) == frozenset()
    assert states(repository, experiment(0)) == ("missing", [(1, "superseded")])


def test_a_result_that_came_without_a_claim_beside_one_is_the_one_that_counts(repository):
    """A driver of functions adds results without claims, at the same moment as another one claims."""
    first, other = driver(repository), driver(repository)
    both, free, kept = map(experiment, range(3))
    repository.claim(STUDY, first, [both, free, kept])
    names = "id, digest, round, target, version, lease, attempt, host, started, position, repeat"
    sql(repository, f"CREATE TABLE aside AS SELECT {names}, point FROM claims")
    sql(repository, "DELETE FROM claims")
    repository.add_results(STUDY, other, [(both, result(both))])
    sql(repository, f"INSERT INTO claims ({names}, point) SELECT {names}, point FROM aside")
    sql(repository, "DROP TABLE aside")
    outcomes = [result(both), result(free)]
    assert repository.record(STUDY, first, outcomes) == {free.digest}
    assert states(repository, both) == ("ok", [(1, "ok"), (1, "superseded")])
    assert states(repository, free) == ("ok", [(1, "ok")])
    assert states(repository, kept) == ("running", [(1, "running")])
    assert repository.record(STUDY, first, [result(kept)]) == {kept.digest}
    assert maintenance.check_repository(repository.location) == ()
