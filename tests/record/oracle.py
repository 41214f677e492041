"""What must hold after every fault, once the study was resumed."""

import os
from pathlib import Path

from loaded import Program
from record.worker import STUDY, drive, result
from zenturio.record import maintenance
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, same

WORKER = Path(__file__).parent / "worker.py"


def start(url: str, count: int, batch: int, **environment: str) -> Program:
    """A process that drives the study."""
    every = os.environ | {"PYTHONPATH": str(WORKER.parent.parent)} | environment
    return Program(WORKER, url, count, batch, cwd=Path.cwd(), environment=every)


def holds(url: str, count: int) -> None:
    """Each experiment has one accepted result, the right one, and the database is sound."""
    drive(url, count, 10)
    repository = open_repository(url)
    records = list(repository.records(STUDY))
    assert [record.index for record in records] == list(range(count))
    for record in records:
        wanted = result(experiment(record.index))
        assert record.digest == wanted.digest
        assert record.state == "ok"
        assert same(record.outcome.metrics, wanted.metrics)
        states = [attempt.state for attempt in repository.attempts(record.digest)]
        assert states.count("ok") == 1
        assert set(states) <= {"ok", "stale", "superseded"}
        assert repository.logs(record.digest).stdout == wanted.stdout
    assert repository.count_states(STUDY)["ok"] == count
    repository.close()
    assert maintenance.check_repository(url) == ()
