"""Each transition of a lease and of an attempt is logged, once it is committed."""

import logging
import re

import pytest

from record.worker import DEFINITION, STUDY
from zenturio.errors import ConflictError
from zenturio.record import DriverProcess
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome


def lines(caplog):
    """What was logged, without numbers and digests."""
    return [re.sub(r"[0-9a-f]{32}", "D", record.getMessage()) for record in caplog.records]


def test_what_becomes_of_a_lease_and_its_attempts_is_logged(tmp_path, caplog):
    repository = open_repository(tmp_path / "a.db")
    repository.open(STUDY, DEFINITION)
    one = experiment(1)
    with caplog.at_level(logging.DEBUG, "zenturio.record"):
        first = repository.acquire_lease(STUDY, DriverProcess("elsewhere", 7, "then"), seconds=0)
        repository.renew_lease(first)
        repository.claim(STUDY, first.number, [one])
        second = repository.acquire_lease(STUDY, DriverProcess.current())
        attempts = repository.claim(STUDY, second.number, [one])
        done = outcome(one, attempt=attempts[one.digest])
        repository.record(STUDY, second.number, [done])
        repository.record(STUDY, second.number, [done])
        repository.record(STUDY, first.number, [outcome(one, attempt=1)])
        repository.release_lease(second)
    repository.close()
    assert lines(caplog) == [
        f"study {STUDY}: lease 1 acquired for 0 s by process 7 on elsewhere",
        f"study {STUDY}: lease 1 renewed",
        "lease 1: 1 of 1 experiments claimed",
        "lease 1 ended: its driver was lost",
        "lease 1: 1 claims are stale",
        f"study {STUDY}: lease 2 acquired for 60 s by process {second.pid} on {second.host}",
        "lease 2: 1 of 1 experiments claimed",
        "attempt 2 of D: ok, accepted",
        "D was accepted before",
        "attempt 1 of D is superseded: it came after lease 1 had lost its claim",
        "lease 2 ended: released by its driver",
    ]


def test_what_a_transaction_undoes_is_not_logged(tmp_path, caplog):
    repository = open_repository(tmp_path / "a.db")
    repository.open(STUDY, DEFINITION)
    repository.acquire_lease(STUDY, DriverProcess.current())
    with caplog.at_level(logging.DEBUG, "zenturio.record"), pytest.raises(ConflictError):
        repository.acquire_lease(STUDY, DriverProcess.current())
    repository.close()
    assert lines(caplog) == []
