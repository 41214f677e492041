"""A commit that went through and was not heard of: the same call once more changes nothing."""

import pytest

from record import oracle
from record.worker import DEFINITION, STUDY, result
from zenturio.record import DriverProcess, database
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


@pytest.mark.parametrize("every", [2, 3])
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
