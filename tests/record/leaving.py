"""Records experiments that leave files, as a process of its own: python leaving.py HOME COUNT BATCH.

Prints a line for each outcome that was accepted. With a BATCH of 0 it stops itself before it
records, with a lease that soon runs out.
"""

import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from zenturio.execute.file_staging import collect_outputs
from zenturio.experiment import INCOMING
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome

STUDY = "leaving"
DEFINITION = StudyDefinition((Field("n", "int"),), (Field("time", how="stdout"),))


def contents(index: int) -> dict[str, bytes]:
    """What an experiment leaves: two of three have the same in one file."""
    return {"a/own": b"%d" % index * 50, "same": b"%d" % (index // 2)}


def left(home: Path, of, attempt: int = 1, files: dict[str, bytes] | None = None):
    """The outcome of an experiment with its files, as an executor hands it over."""
    with tempfile.TemporaryDirectory(dir=home) as folder:
        for path, content in (contents(of.index) if files is None else files).items():
            Path(folder, path).parent.mkdir(exist_ok=True)
            Path(folder, path).write_bytes(content)
        artifacts = collect_outputs(folder, ["**"], home / INCOMING, of.digest, move=True)
    return replace(outcome(of, attempt=attempt, time=of.index / 7), artifacts=artifacts)


def drive(home: Path, count: int, batch: int) -> None:
    home.mkdir(exist_ok=True)
    repository = open_repository(home / "zenturio.db")
    experiments = {e.digest: e for e in map(experiment, range(count))}
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current())
    known = repository.cached(STUDY, list(experiments.values()))
    waiting = [e for digest, e in experiments.items() if digest not in known]
    for start in range(0, len(waiting), batch):
        claims = repository.claim(STUDY, lease.number, waiting[start : start + batch])
        outcomes = [left(home, experiments[digest], n) for digest, n in claims.items()]
        for digest in sorted(repository.record(STUDY, lease.number, outcomes)):
            print("accepted", digest, flush=True)
    repository.release_lease(lease)
    repository.close()


def stop_before_recording(home: Path) -> None:
    """Leaves late files for the first experiment."""
    repository, of = open_repository(home / "zenturio.db"), experiment(0)
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current(), seconds=0.5)
    claims = repository.claim(STUDY, lease.number, [of])
    done = left(home, of, claims[of.digest], {"own": b"late", "same": b"late"})
    os.kill(os.getpid(), signal.SIGSTOP)
    print("accepted", *repository.record(STUDY, lease.number, [done]))


if __name__ == "__main__":
    place, number, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if size:
        drive(place, number, size)
    else:
        stop_before_recording(place)
