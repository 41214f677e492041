"""Drivers that die while their jobs run on a cluster: what runs goes on, and is found again."""

import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from slurm import cluster, slurm
from study import oracle
from zenturio.testing.executor import until

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


def empties(slurm) -> None:
    """What left its outcome ends a moment later."""
    until(lambda: not queued(slurm))


def begun(slurm, study, count):
    ran = study.folder / "flaky" / "ran"
    until(lambda: ran.is_dir() and len(list(ran.iterdir())) >= count)


def test_what_runs_outlives_its_driver_and_is_run_once(on_slurm, slurm):
    study = on_slurm(6, seconds=3)
    driver = study.start("jobs=8")
    begun(slurm, study, 6)
    driver.kill()
    driver.communicate()
    assert len(running(slurm)) == 6
    assert oracle.faults_after_resume(study) == []
    assert set(runs(study).values()) == {1}
    empties(slurm)


@pytest.mark.parametrize(
    "failpoint", [pytest.param("batch.submitting:1", marks=pytest.mark.slow), "batch.submitted:1"]
)
def test_a_driver_that_dies_while_it_submits_is_resumed(on_slurm, slurm, failpoint):
    study = on_slurm(5, seconds=0)
    driver = study.start("jobs=8", ZENTURIO_FAILPOINT=failpoint)
    driver.communicate()
    assert driver.returncode == -signal.SIGKILL
    assert oracle.faults_after_resume(study) == []
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
        out, _ = driver.communicate()
        kept += oracle.told(out)
        assert study.states().get("ok", 0) >= kept
    assert oracle.faults_after_resume(study) == []
    assert set(runs(study).values()) == {1}
    empties(slurm)


@pytest.mark.slow
@pytest.mark.parametrize("pilots", ["auto", "always"])
def test_a_driver_that_is_killed_while_pilots_run_its_experiments_is_resumed(
    on_slurm, slurm, pilots
):
    study = on_slurm(400, seconds=0.1)
    more = f'pilots = "{pilots}"\npilot_jobs = 2\npilot_cores = 2\npilot_memory = "500MB"\n'
    (study.folder / "zenturio.toml").write_text(PLACES.replace("jobs = 8", "jobs = 40") + more)
    moment, kept = random.Random(1), 0
    for _ in range(2):
        driver = study.start("jobs=40")
        oracle.wait_for(driver, "ok", 40)
        time.sleep(moment.uniform(0, 5))
        driver.kill()
        out, _ = driver.communicate()
        kept += max(oracle.told(out), 40)
        assert study.states().get("ok", 0) >= kept
    assert oracle.faults_after_resume(study) == []
    empties(slurm)


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
    assert oracle.faults(study) == []
    assert set(runs(study).values()) == {1}


@pytest.mark.slow
def test_ctrl_c_takes_back_what_waits_and_lets_run_what_runs(on_slurm, slurm):
    study = on_slurm(30, seconds=2)
    driver = study.zen()
    begun(slurm, study, 8)
    driver.send_signal(signal.SIGINT)
    oracle.finished(driver, 130)
    empties(slurm)
    assert study.states()["running"] == 0
    assert study.states()["ok"] >= 6
    assert set(runs(study).values()) == {1}


def zen(study, *words, code=0) -> str:
    """What a command says in the project."""
    done = subprocess.run(
        [sys.executable, "-c", oracle.ZEN, *words], cwd=study.folder, env=study.environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_a_lost_study_is_looked_at_and_gone_on_with_by_its_name(on_slurm, slurm):
    study = on_slurm(6, seconds=4)
    driver = study.zen("-j", "4")
    begun(slurm, study, 4)
    driver.kill()
    driver.communicate()
    told = zen(study, "status", "study", "--db", study.url)
    assert sum(map(int, re.findall(r"(\d+) (?:running|ended)\b", told.partition("at ")[2]))) == 4
    assert f"no driver is running; to resume: zen attach study --db {study.url}" in told
    assert "6 ok" in zen(study, "attach", "study", "--db", study.url)
    assert set(runs(study).values()) == {1}
    assert oracle.faults(study) == []


@pytest.mark.slow
def test_what_a_lost_driver_left_in_the_queue_is_cancelled(on_slurm, slurm):
    study = on_slurm(6, seconds=60)
    driver = study.zen()
    begun(slurm, study, 6)
    driver.kill()
    driver.communicate()
    assert len(queued(slurm)) == 6
    told = zen(study, "cancel", "study", "--db", study.url)
    assert told == "study: 6 queued experiments of a dead driver were cancelled\n"
    until(lambda: not queued(slurm) and not oracle.alive(study.folder, 0.0))
    # A job that is killed may write a last line beside; the next driver sweeps that.
    assert not list((study.folder / ".zenturio" / "places").glob("slurm/session-*/parcels/*"))
    assert "attach" in zen(study, "status", "study", "--db", study.url)


def test_a_setup_that_fails_ends_the_run_and_nothing_is_recorded(on_slurm):
    study = on_slurm(4, seconds=0)
    (study.folder / "zenturio.toml").write_text(PLACES + 'setup = "no-such-module load gcc"\n')
    words = ("run", "study.sh", "--on", "cluster", "--db", study.url)
    done = subprocess.run(
        [sys.executable, "-c", oracle.ZEN, *words], cwd=study.folder, env=study.environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "the setup of the place failed on n" in done.stderr
    assert "no-such-module: command not found" in done.stderr
    assert not any(study.states().get(state) for state in ("ok", "failed", "timeout"))


def test_a_dry_run_shows_the_script_of_the_jobs(on_slurm):
    study = on_slurm(4)
    told = zen(study, "run", "study.sh", "--on", "cluster", "--dry-run", "--db", study.url)
    assert "4 points, 4 experiments" in told
    assert "#SBATCH --array=1-4\n" in told
    assert "#SBATCH --time=2\n" in told
    assert not (study.folder / ".zenturio" / "places").exists()


@pytest.mark.slow
def test_the_place_is_checked_with_a_probe(on_slurm, slurm):
    study = on_slurm(1)
    told = zen(study, "places", "check", "cluster")
    assert "WRONG" not in told
    (study.folder / "zenturio.toml").write_text(PLACES + 'partition = "nowhere"\n')
    assert "the partition nowhere has no node" in zen(study, "places", "check", "cluster", code=4)
