"""Signals to a real ``zen run``: it ends as it says, and what is left can be gone on with."""

import signal
import subprocess
import sys
import time

import pytest

from study import oracle

SLOW = 'echo $$ >> "$FLAKY/begun"; sleep 0.2; echo $n >> "$FLAKY/through"'
"""Experiments that take a while, and say when they begin and when they are through."""
LONG = 'echo $$ >> "$FLAKY/begun"; sleep 60; echo $n >> "$FLAKY/through"'
STUBBORN = "trap '' TERM INT HUP; " + LONG


def lines(study, name):
    path = study.folder / "flaky" / name
    return path.read_text().splitlines() if path.exists() else []


def begun(study, process, count=2):
    """Waits until so many experiments have begun."""
    while len(lines(study, "begun")) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_ctrl_c_finishes_what_runs_and_takes_nothing_more(study):
    small = study(12, work=SLOW)
    process = small.zen("--jobs", "2")
    begun(small, process)
    process.send_signal(signal.SIGINT)
    out, err = oracle.finished(process, 130)
    assert len(lines(small, "through")) == len(lines(small, "begun")) < 12, err
    assert small.states()["ok"] == len(lines(small, "through"))
    assert small.states()["running"] == 0
    assert "left: repeat the command to continue" in out
    assert oracle.faults_after_resume(small) == []
    assert len(lines(small, "through")) == 12


def test_ctrl_c_twice_kills_what_runs(study):
    small = study(6, work=STUBBORN)
    process = small.zen("--jobs", "2")
    begun(small, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    assert oracle.alive(small.folder, 0.0)
    process.send_signal(signal.SIGINT)
    _, err = oracle.finished(process, 130)
    assert "its running experiments were killed" in err
    assert oracle.alive(small.folder, 0.0) == []
    assert lines(small, "through") == []
    assert small.states()["running"] == 0
    assert sum(small.states().values()) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_kills_what_runs_at_once(study, number):
    small = study(6, work=LONG)
    process = small.zen("--jobs", "2")
    begun(small, process)
    process.send_signal(number)
    oracle.finished(process, 130)
    assert oracle.alive(small.folder, 0.0) == []
    assert small.states()["running"] == 0
    assert lines(small, "through") == []


def test_a_driver_under_nohup_outlives_its_terminal(study):
    small = study(12, work=SLOW)
    code = "import signal, runpy, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); " + oracle.ZEN
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", "study.sh", "--db", small.url],
        cwd=small.folder,
        env=small.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun(small, process)
    process.send_signal(signal.SIGHUP)
    oracle.finished(process, 0)
    assert oracle.faults(small) == []


def test_a_terminal_that_is_gone_does_not_end_the_study(study):
    """Nobody reads what is written any more."""
    small = study(12, work=SLOW)
    process = small.start()
    oracle.wait_for(process, "planned")
    process.stdout.close()
    process.stderr.close()
    process.wait()
    assert small.states()["ok"] == 12
    assert oracle.faults(small) == []


@pytest.mark.parametrize("delay", [0.05, 0.4, 0.7])
def test_ctrl_c_while_it_starts_leaves_a_study_that_can_be_run(study, delay):
    small = study(10)
    process = small.zen_from_the_start()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    oracle.finished(process, None)
    assert process.returncode in (0, 1, 130, -signal.SIGINT)
    assert oracle.faults_after_resume(small) == []


def test_experiments_that_are_killed_are_tried_again_and_then_failed(study):
    """Who kills an experiment from outside finds it failed, with the signal named."""
    small = study(1, work='echo $$ >> "$FLAKY/begun"; kill -9 $$')
    process = small.zen()
    out, _ = oracle.finished(process, 3)
    assert len(lines(small, "begun")) == 2
    assert "SIGKILL" in out


def test_a_launcher_that_is_killed_costs_no_result(study):
    small = study(12, work=SLOW)
    process = small.zen("--jobs", "2")
    begun(small, process)
    (launcher, *_) = launchers(process.pid)
    subprocess.run(["kill", "-9", str(launcher)], check=True)
    oracle.finished(process, 0)
    assert oracle.faults(small) == []


def launchers(pid):
    from zenturio.system import processes

    return processes.children(pid)
