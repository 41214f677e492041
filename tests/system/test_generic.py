"""Local execution on the part for macOS and others: here without /proc, prctl and sessions.

Processes are then known from ps, or, where there is none either, by their groups alone. What a
test looks for is still found by the part for Linux.
"""

import os
import subprocess
import sys
from inspect import ismodule

import pytest

from zenturio.errors import PlaceError
from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.experiment import Step
from zenturio.system import generic, linux, processes
from zenturio.testing.executor import (
    PATIENCE,
    CommandContract,
    experiment,
    gflops,
    long,
    outcome,
    running,
    until,
)

SOON = RunnerSettings(grace=0.2)
NAMES = [
    name for name in vars(linux)
    if name in vars(generic) and not name.startswith("_") and not ismodule(vars(linux)[name])
]  # fmt: skip


def _use_generic_part(monkeypatch):
    monkeypatch.setenv("ZENTURIO_SYSTEM", "generic")  # for launchers
    for name in NAMES:
        monkeypatch.setattr(processes, name, getattr(generic, name))


@pytest.fixture
def with_ps(monkeypatch):
    _use_generic_part(monkeypatch)


@pytest.fixture(params=["ps", "groups alone"])
def either(monkeypatch, tmp_path, request):
    _use_generic_part(monkeypatch)
    if request.param == "groups alone":
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        generic.can_measure_memory.cache_clear()
        assert generic.process_table() is None
    yield
    generic.can_measure_memory.cache_clear()


@pytest.fixture
def place(tmp_path):
    with Local(tmp_path / "zen", 2, settings=SOON) as place:
        yield place


def _sleep(seconds, command="{}"):
    return experiment(Step(command.format(f"/bin/sleep {long(seconds)}"), timeout=0.3))


def test_both_parts_have_the_same_names():
    functions = {
        name for name, value in vars(linux).items()
        if getattr(value, "__module__", "") == linux.__name__ and not name.startswith("_")
    }  # fmt: skip
    assert functions <= set(NAMES)
    assert {"EXACT_STARTER", "LOOK_SECONDS", "MAXRSS_UNIT", "OWN_SESSION"} <= set(NAMES)


def test_a_timeout_leaves_no_child_alive(either, place):
    found = outcome(place, _sleep("96.1", "{0} & trap '' TERM; {0}; {0}"))
    assert found.status == "timeout"
    assert not running(long("96.1"))


def test_a_child_in_the_background_ends_with_its_experiment(either, place):
    found = outcome(
        place, experiment(f"/bin/sleep {long('96.2')} & echo GFLOPS=1", recipe=gflops())
    )
    assert (found.status, found.metrics["gflops"]) == ("ok", 1.0)
    assert not running(long("96.2"))


def test_a_daemon_that_left_its_group_is_found_by_its_environment(with_ps, place):
    daemon = f"setsid sh -c 'trap \"\" TERM; sleep {long('96.3')}' >/dev/null 2>&1 &"
    assert outcome(place, experiment(f"{daemon} sleep 0.1")).status == "ok"
    assert not running(long("96.3"))


def test_cancelling_kills_what_runs(either, place):
    future = place.submit(experiment(f"/bin/sleep {long('96.4')} & /bin/sleep {long('96.4')}"))
    until(lambda: len(running(long("96.4"))) == 2)
    assert future.cancel()
    assert future.result(PATIENCE).status == "cancelled"
    assert not running(long("96.4"))


def test_memory_is_kept_by_what_ps_tells(with_ps, place):
    program = f"{sys.executable} -c 'x = bytearray(10**9); import time; time.sleep({long('96')})'"
    found = outcome(place, experiment(Step(program, memory=200 * 2**20)))
    assert (found.status, running(long("96"))) == ("failed", [])


def test_memory_that_nothing_tells_is_refused_with_the_reason(monkeypatch, tmp_path, place):
    _use_generic_part(monkeypatch)
    monkeypatch.setattr(processes, "can_measure_memory", lambda: False)
    with pytest.raises(PlaceError, match=r"MEMORY cannot be enforced: .* neither libproc nor ps"):
        outcome(place, experiment(Step("true", memory=2**30)))


DRIVER = """
import sys
from pathlib import Path
from inspect import ismodule
from zenturio.execute.local import Local
from zenturio.testing.executor import experiment
place = Local(Path(sys.argv[1]), 1)
place.submit(experiment("/bin/sleep 96.5 & setsid /bin/sleep 96.5 & /bin/sleep 96.5")).result()
"""


def test_nothing_survives_a_driver_that_is_killed(with_ps, tmp_path):
    word = long("96.5")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER.replace("96.5", word), str(tmp_path)]
    ) as driver:
        until(lambda: len(running(word)) == 3)
        driver.kill()
    until(lambda: not running(word))


def test_what_only_linux_tells_is_null(with_ps, place):
    found = outcome(place, experiment(Step("sleep 0.2")))
    assert found.conditions.load_start >= 0
    assert (found.conditions.pressure, found.conditions.run_delay) == (None, None)


def test_a_process_dies_with_its_parent():
    code = (
        "import os, sys, time; from zenturio.system.processes import die_with_parent;"
        f"die_with_parent(); print(os.getpid(), flush=True); time.sleep({long('96')})"
    )
    parent = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
        " stdout=subprocess.PIPE); print(int(p.stdout.readline()), flush=True)"
    )
    environment = {**os.environ, "ZENTURIO_SYSTEM": "generic"}
    told = subprocess.run(
        [sys.executable, "-c", parent, code], env=environment, capture_output=True, check=True
    )
    until(lambda: not processes.exists(int(told.stdout)))


def test_processes_are_told_apart_by_when_they_were_started():
    birth = generic.process_birth(os.getpid())
    assert birth == generic.process_birth(os.getpid())
    with subprocess.Popen(["sleep", long("96.6")]) as one:
        born = generic.process_birth(one.pid)
        assert born.startswith(generic.realm())
        assert one.pid in generic.children(os.getpid())
        assert generic.command_line(one.pid) == f"sleep {long('96.6')}"
        assert generic.running_with(long("96.6")) == [one.pid]
        os.kill(one.pid, 19)
        until(lambda: generic.is_stopped(one.pid))
        one.kill()
    assert generic.process_birth(one.pid) is None


@pytest.mark.slow
class TestWithoutLinux(CommandContract):
    """Every promise of a place that runs commands."""

    @pytest.fixture(autouse=True)
    def part(self, with_ps):
        pass


def test_windows_says_how_zen_is_used_there(tmp_path):
    code = "import sys; sys.platform = 'win32'; from zenturio.cli import main"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert "WSL" in told.stderr
