"""Drivers that die while their jobs run on a cluster: what runs goes on, and is found again."""

import random
import signal
import time
from dataclasses import replace

import pytest

from slurm import cluster, slurm
from study import oracle

__all__ = ["cluster", "slurm"]

PLACES = """\
[places.cluster]
kind = "slurm"
poll = 0.1
grace = 2.0
jobs = 8
"""
SLEEP = 'test -z "$SLURM_JOB_ID" || sleep'
MARK = 'mkdir -p "$FLAKY/ran"; echo run >> "$FLAKY/ran/$n"; '


@pytest.fixture
def on_slurm(slurm, study):
    """Makes studies of so many experiments, each of which leaves a mark and takes its time."""

    def make(count, seconds=1.0, url=""):
        found = study(count, work=f"{MARK}{SLEEP} {seconds}", url=url)
        (found.folder / "zenturio.toml").write_text(PLACES)
        return replace(found, place="cluster")

    return make


def runs(study) -> dict[int, int]:
    """How often each experiment has run that does not fail the first time."""
    marks = (study.folder / "flaky" / "ran").glob("*")
    return {int(m.name): len(m.read_text().split()) for m in marks if int(m.name) % 7}


def queued(slurm) -> list[str]:
    return slurm.run("squeue", "-h", "-r", "-t", "pending,running", "-o", "%F_%K").split()


def running(slurm) -> list[str]:
    return slurm.run("squeue", "-h", "-r", "-t", "running", "-o", "%F_%K").split()


def begun(slurm, study, count):
    end = time.monotonic() + oracle.PATIENCE
    ran = study.folder / "flaky" / "ran"
    while not ran.is_dir() or len(list(ran.iterdir())) < count:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_runs_outlives_its_driver_and_is_run_once(on_slurm, slurm):
    study = on_slurm(8, seconds=3)
    driver = study.start("jobs=8")
    begun(slurm, study, 8)
    driver.kill()
    driver.communicate()
    assert len(running(slurm)) >= 6
    oracle.holds(study)
    assert set(runs(study).values()) == {1}
    assert queued(slurm) == []


@pytest.mark.parametrize("failpoint", ["slurm.submitting:1", "slurm.submitted:1"])
def test_a_driver_that_dies_while_it_submits_is_resumed(on_slurm, slurm, failpoint):
    study = on_slurm(5, seconds=0)
    driver = study.start("jobs=8", ZENTURIO_FAILPOINT=failpoint)
    driver.communicate(timeout=oracle.PATIENCE)
    assert driver.returncode == -signal.SIGKILL
    oracle.holds(study)
    assert set(runs(study).values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_driver_that_is_killed_at_any_moment_is_resumed(on_slurm, slurm, url, seed):
    study = on_slurm(20, seconds=0.3, url=url)
    moment = random.Random(seed)
    kept = 0
    for _ in range(3):
        driver = study.start("jobs=8")
        oracle.wait_for(driver, "planned")
        time.sleep(moment.uniform(0, 3))
        driver.kill()
        out, _ = driver.communicate(timeout=oracle.PATIENCE)
        kept += oracle.told(out)
        assert study.states().get("ok", 0) >= kept
    oracle.holds(study)
    assert set(runs(study).values()) == {1}
    assert queued(slurm) == []


@pytest.mark.slow
def test_two_drivers_help_each_other_and_one_dies(on_slurm, slurm):
    study = on_slurm(24, seconds=1)
    first = study.start("jobs=4", "join")
    oracle.wait_for(first, "planned")
    second = study.start("jobs=4", "join")
    begun(slurm, study, 6)
    first.kill()
    first.communicate()
    oracle.finished(second)
    oracle.settled(study)
    assert set(runs(study).values()) == {1}


def test_ctrl_c_takes_back_what_waits_and_lets_run_what_runs(on_slurm, slurm):
    study = on_slurm(40, seconds=2)
    driver = study.zen()
    begun(slurm, study, 8)
    time.sleep(0.5)
    driver.send_signal(signal.SIGINT)
    oracle.finished(driver, 130)
    assert queued(slurm) == []
    assert study.states()["running"] == 0
    assert study.states()["ok"] >= 6
    assert set(runs(study).values()) == {1}
