"""The other end of a place that is elsewhere: a parcel is run, and dies with who asked for it."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from threading import Timer

import pytest

from zenturio.errors import PlaceError
from zenturio.execute import worker
from zenturio.execute.experiment_codec import pack_experiment, unpack_experiments, unpack_outcome
from zenturio.execute.local_runner import RunnerSettings
from zenturio.experiment import INCOMING, Outcome, Recipe, Step
from zenturio.testing.executor import experiment, gflops, long, running, until

SOON = RunnerSettings(grace=0.3)


def run(what, folder, **ways):
    return unpack_outcome(
        worker.run_packed(pack_experiment(what), folder, settings=SOON, **ways),
        what.digest,
        folder / INCOMING,
    )


def started(what, folder: Path, *words: str, parent: str = "") -> subprocess.Popen:
    (folder / "parcel").write_bytes(pack_experiment(what))
    command = [sys.executable, "-m", "zenturio.execute.worker", "parcel", "outcome", *words]
    if parent:
        command = [sys.executable, "-c", parent, *command]
    return subprocess.Popen(command, cwd=folder)


def result(folder: Path):
    (experiment,) = unpack_experiments((folder / "parcel").read_bytes())
    return unpack_outcome((folder / "outcome").read_bytes(), experiment.digest, folder / INCOMING)


def test_a_parcel_is_run_and_measured(tmp_path):
    what = experiment("./p", files={"p": b"#!/bin/sh\necho GFLOPS=7"}, recipe=gflops())
    found = run(what, tmp_path)
    assert (found.digest, found.status, found.metrics["gflops"]) == (what.digest, "ok", 7)
    assert found.stdout.head == b"GFLOPS=7\n"


def test_a_job_loads_no_more_than_it_needs():
    """Each is a Python that starts: NumPy and the language would take twice as long as the rest."""
    heavy = ["numpy", "zenturio.space", "zenturio.expression", "zenturio.annotate.scan"]
    ask = f"import sys, zenturio.execute.worker; print(sys.modules.keys() & {heavy})"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_it_may_use_the_cpus_that_it_asks_for(tmp_path):
    assert run(experiment(Step("true", cpus=5)), tmp_path).status == "ok"


def test_what_the_machine_cannot_do_is_told_to_who_asked(tmp_path):
    with pytest.raises(PlaceError, match="of memory"):
        run(experiment(Step("true", memory=2**60)), tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match="file"):
        run(experiment("true"), tmp_path / "file" / "folder")


@pytest.mark.parametrize("shared", [True, False])
def test_artifacts_are_named_or_sent(tmp_path, shared):
    what = experiment("echo 1 > a", recipe=Recipe(outputs=("a",)))
    data = worker.run_packed(pack_experiment(what), tmp_path, shared=shared)
    home = tmp_path / (INCOMING if shared else "back")
    (one,) = unpack_outcome(data, what.digest, home).artifacts
    assert one.kept.is_relative_to(home)
    assert one.kept.read_bytes() == b"1\n"


def test_workers_of_a_session_try_a_build_that_fails_once(tmp_path):
    build = (f"echo tried >> {tmp_path}/log; echo broken >&2; exit 2",)
    found = [
        run(experiment("./p", builds=build), tmp_path / "zen", session=session)
        for session in ("one", "one", "two")
    ]
    assert {(o.cause, o.exit, o.stderr.head) for o in found} == {
        ("build failed: exit 2: broken", 2, b"broken\n")
    }
    assert (tmp_path / "log").read_text() == "tried\n" * 2


def test_a_job_writes_its_outcome(tmp_path):
    assert started(experiment("echo here"), tmp_path).wait() == 0
    assert result(tmp_path).stdout.head == b"here\n"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_job_that_has_an_outcome_does_nothing(tmp_path):
    (tmp_path / "outcome").write_text("there already")
    assert started(experiment(f"touch {tmp_path}/again"), tmp_path).wait() == 0
    assert (tmp_path / "outcome").read_text() == "there already"
    assert not (tmp_path / "again").exists()


def test_a_job_that_is_asked_to_end_cancels_its_experiment(tmp_path):
    with started(experiment(f"sleep {long('96.1')} & sleep {long('96.1')}"), tmp_path) as job:
        until(lambda: len(running(long("96.1"))) == 2)
        job.terminate()
    assert result(tmp_path).status == "cancelled"
    assert not running(long("96.1"))


def test_nothing_survives_a_job_that_is_killed(tmp_path):
    with started(
        experiment(f"setsid sleep {long('96.2')} & trap '' TERM; sleep {long('96.2')}"), tmp_path
    ) as job:
        until(lambda: len(running(long("96.2"))) == 2)
        job.kill()
    until(lambda: not running(long("96.2")))
    assert not (tmp_path / "outcome").exists()


PARENT = "import subprocess, sys; subprocess.run(sys.argv[1:])"


def test_a_job_dies_with_its_parent(tmp_path):
    with started(experiment(f"sleep {long('96.3')}"), tmp_path, parent=PARENT) as parent:
        until(lambda: running(long("96.3")))
        parent.kill()
    until((tmp_path / "outcome").exists)
    assert result(tmp_path).status == "cancelled"
    assert not running(long("96.3"))


def test_a_job_that_is_to_stay_outlives_its_parent(tmp_path):
    what = experiment("while ! test -e $GO; do sleep 0.01; done", environment={"GO": "96.4"})
    with started(what, tmp_path, "--stay", parent=PARENT) as parent:
        until(lambda: list((tmp_path / "work").glob(f"*/{what.digest}")))
        parent.kill()
    (folder,) = (tmp_path / "work").glob(f"*/{what.digest}")
    (folder / "96.4").touch()
    until((tmp_path / "outcome").exists)
    assert result(tmp_path).status == "ok"


def test_signals_are_whose_they_were_behind_a_run(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    run(experiment("true"), tmp_path)
    assert signal.getsignal(signal.SIGTERM) is before
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_ended_just_before_its_job_was_told_to_end_does_not_count(number):
    """Its parts get the signal one after the other: the shell around one goes on, and ends well."""
    ended = Future()
    ended.set_result(Outcome("0" * 32, "ok"))
    late = Timer(0.05, os.kill, (os.getpid(), number))
    late.start()
    assert worker._wait_for_outcome(ended, 60).status == "cancelled"
    late.join()


def test_what_ended_in_peace_counts():
    ended = Future()
    ended.set_result(Outcome("0" * 32, "ok"))
    assert worker._wait_for_outcome(ended, 0.02).status == "ok"
