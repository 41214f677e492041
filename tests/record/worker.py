"""Drives a study until it is done, as a process of its own: python worker.py URL COUNT BATCH.

Prints a line for each claim and each outcome that was accepted.
"""

import sys
from dataclasses import replace

from zenturio.experiment.experiment import Log
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome

STUDY = "oracle"
DEFINITION = StudyDefinition((Field("n", "int"),), (Field("time", how="stdout"),))


def result(of, attempt=1):
    """What running an experiment gives: the same, whoever runs it."""
    measured = {"time": of.index / 7, "big": 2**70 + of.index, "odd": float("nan")}
    done = outcome(of, metrics=measured, attempt=attempt)
    return replace(done, stdout=Log(b"\0%d" % of.index, b"", 2))


def drive(url: str, count: int, batch: int) -> None:
    repository = open_repository(url)
    experiments = [experiment(i) for i in range(count)]
    by_digest = {e.digest: e for e in experiments}
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current(), join=True)
    done = set(repository.cached(STUDY, experiments))
    while len(done) < count:
        waiting = [e for e in experiments if e.digest not in done]
        claims = {}
        for start in range(0, len(waiting), batch):
            claims = repository.claim(STUDY, lease.number, waiting[start : start + batch])
            if claims:
                break
        for digest, number in claims.items():
            print("claim", digest, number, flush=True)
        outcomes = [result(by_digest[digest], number) for digest, number in claims.items()]
        accepted = repository.record(STUDY, lease.number, outcomes)
        for digest in accepted:
            print("accepted", digest, flush=True)
        done |= repository.find_outcomes(list(by_digest)).keys()
    repository.release_lease(lease)
    repository.close()


if __name__ == "__main__":
    drive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
