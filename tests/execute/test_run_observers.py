"""What OBSERVE measures: a value, or the reason why there is none."""

import errno
import re
import shutil
import subprocess
import sys

import pytest

from zenturio.annotate.counter_events import EVENTS, counter_event, counter_metric
from zenturio.annotate.model import Metric
from zenturio.execute import resource_monitors
from zenturio.execute.local import Local
from zenturio.execute.resource_monitors import (
    SHARED,
    EnergyObserver,
    GpuObserver,
    RunObservers,
    counter_fault,
    gpu_readings,
)
from zenturio.experiment import Missing, Recipe
from zenturio.testing.executor import experiment, outcome, until


def zones(folder, **names):
    """Write zones as powercap has them: name, microjoules, and where the counter wraps."""
    for zone, (name, joules) in names.items():
        path = folder / zone.replace("_", ":")
        path.mkdir(exist_ok=True)
        (path / "name").write_text(f"{name}\n")
        (path / "energy_uj").write_text(f"{joules}\n")
        (path / "max_energy_range_uj").write_text("1000000000\n")


def test_energy_is_the_sum_of_the_packages_and_wraps(tmp_path):
    zones(tmp_path, rapl_0=("package-0", 999_000_000), rapl_1=("package-1", 5), rapl_2=("core", 7))
    observer = EnergyObserver(str(tmp_path))
    observer.begin()
    zones(tmp_path, rapl_0=("package-0", 1_000_000), rapl_1=("package-1", 3_000_005))
    observer.sample()
    zones(tmp_path, rapl_1=("package-1", 4_000_005))
    assert observer.end() == {
        "energy": pytest.approx(2 + 4),
        "energy_dram": "this machine does not report the energy of its memory",
    }


def test_energy_that_is_the_whole_machines_is_of_no_single_experiment(tmp_path):
    zones(tmp_path, rapl_0=("package-0", 1))
    observer = EnergyObserver(str(tmp_path), shared=True)
    observer.begin()
    assert observer.end()["energy"] == SHARED


def test_energy_of_a_zone_that_cannot_be_read_is_no_part_of_a_sum(tmp_path):
    zones(tmp_path, rapl_0=("package-0", 1), rapl_1=("package-1", 1))
    observer = EnergyObserver(str(tmp_path))
    observer.begin()
    (tmp_path / "rapl:1" / "energy_uj").unlink()
    assert "rapl:1/energy_uj cannot be read (No such file" in observer.end()["energy"]


def test_a_counter_that_holds_no_number_is_a_reason_and_no_crash(tmp_path):
    zones(tmp_path, rapl_0=("package-0", 1))
    (tmp_path / "rapl:0" / "energy_uj").write_text("")
    observer = EnergyObserver(str(tmp_path))
    observer.begin()
    assert "it holds no number" in observer.end()["energy"]


def test_the_second_path_to_the_counters_does_not_count_twice(tmp_path):
    zones(tmp_path, rapl_0=("package-0", 0))
    shutil.copytree(tmp_path / "rapl:0", tmp_path / "intel-rapl-mmio:0")
    observer = EnergyObserver(str(tmp_path))
    observer.begin()
    for zone in tmp_path.iterdir():
        (zone / "energy_uj").write_text("2000000")
    assert observer.end()["energy"] == pytest.approx(2)


def test_a_counter_that_is_refused_says_why(tmp_path):
    (tmp_path / "paranoid").write_text("3\n")
    paranoid, pmu = str(tmp_path / "paranoid"), str(tmp_path / "devices")
    assert counter_fault("cycles", errno.EACCES, pmu, paranoid) == (
        "perf_event_paranoid is 3: sysctl kernel.perf_event_paranoid=2 lets users count"
    )
    (tmp_path / "paranoid").write_text("-1\n")
    assert "container" in counter_fault("cycles", errno.EPERM, pmu, paranoid)
    assert "it is virtual" in counter_fault("cycles", errno.ENOENT, pmu, paranoid)
    (tmp_path / "devices" / "cpu_core").mkdir(parents=True)
    assert counter_fault("cycles", errno.ENOENT, pmu) == "this processor does not count cycles"
    assert "perf list" in counter_fault("LLC-stores", errno.EINVAL, pmu)
    assert counter_fault("cycles", errno.ENOSYS) == "this system has no perf_event_open"


def test_events_have_the_numbers_of_the_kernel_and_names_that_formulas_can_use():
    assert counter_event("LLC-load-misses")[:2] == (3, 2 | 0 << 8 | 1 << 16)
    assert counter_event("dTLB-prefetch-misses")[:2] == (3, 3 | 2 << 8 | 1 << 16)
    assert counter_event("r01c2")[:2] == (4, 0x1C2)
    assert counter_event("instruction") is None
    metrics = {counter_metric(name) for name in EVENTS}
    assert len(metrics) == len(EVENTS)
    assert all(re.fullmatch(r"[a-z]\w*", metric) for metric in metrics)


GPUS = """\
0, GPU-a, 100.0, 50, 1000, 1200
1, GPU-b, 200.0, 100, 3000, 1400
0, GPU-a, 300.0, 100, 500, 1400
1, GPU-b, [N/A], 0, 2000, 1400
"""


def test_gpus_are_added_up_and_those_that_the_run_cannot_see_do_not_count():
    assert gpu_readings(GPUS, 2.0) == {
        "gpu_energy": (200 + 200) * 2.0,
        "gpu_utilization": (0.75 + 0.5) / 2,
        "gpu_memory": 4000 * 2**20,
        "gpu_mhz": (1300 + 1400) / 2,
    }
    assert gpu_readings(GPUS, 2.0, ["GPU-b"])["gpu_energy"] == 400.0
    assert gpu_readings(GPUS, 2.0, ["1"])["gpu_memory"] == 3000 * 2**20
    assert gpu_readings("", 2.0)["gpu_mhz"] == "nvidia-smi: it reported no GPU of the run"
    assert gpu_readings("No devices were found\n", 1)["gpu_mhz"] == (
        "nvidia-smi: No devices were found"
    )
    silent = GPUS.replace("1200", "[N/A]").replace("1400", "[N/A]")
    assert gpu_readings(silent, 1)["gpu_mhz"] == "nvidia-smi says [N/A]"


def test_the_tool_that_watches_a_gpu_prints_until_the_run_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tool, asked = tmp_path / "nvidia-smi", tmp_path / "asked"
    line = "echo 0, GPU-a, 50, 100, 10, 900"
    tool.write_text(f'#!/bin/sh\n{line}\necho "$@" > asked\nwhile {line}; do sleep 0.01; done\n')
    tool.chmod(0o755)
    observer = GpuObserver(str(tool))
    observer.begin()
    assert observer.own_process
    until(lambda: asked.exists() and "--loop-ms=100" in asked.read_text())
    readings = observer.end()
    assert (readings["gpu_memory"], readings["gpu_mhz"]) == (10 * 2**20, 900)
    assert readings["gpu_energy"] > 0
    assert observer.own_process == 0


def observed(*metrics):
    return Recipe(tuple(Metric(n, optional=True, observed=o) for n, o in metrics))


TOUCH = "b = bytearray(40 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1"


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_faults_are_counted_as_perf_counts_them(tmp_path):
    program = f"import os\nif os.fork() == 0:\n {TOUCH.replace(chr(10), chr(10) + ' ')}\n os._exit(0)\nos.wait()"
    (tmp_path / "touch.py").write_text(program)
    words = [sys.executable, "-S", "-E", str(tmp_path / "touch.py")]
    perf = subprocess.run(
        ["perf", "stat", "-x,", "-e", "page-faults", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = int(perf.stderr.split(",")[0])
    recipe = observed(("page_faults", "perf page-faults"), ("task_clock", "perf task-clock"))
    with Local(tmp_path, 1) as place:
        metrics = outcome(place, experiment(" ".join(words), recipe=recipe)).metrics
    assert metrics["page_faults"] == pytest.approx(expected, rel=0.03)
    assert expected > 10_000
    # The clock of the tasks is their processor time, which rusage tells as well.
    assert metrics["task_clock"] == pytest.approx(metrics["ctime"], rel=0.5, abs=0.05)


def test_a_run_that_is_not_observed_opens_nothing(tmp_path):
    with Local(tmp_path, 1) as place:
        result = outcome(place, experiment("ls /proc/self/fd | wc -l"))
        plain = int(result.stdout.head)
        recipe = observed(("cycles", "perf page-faults"), ("memory_peak", "memory"))
        assert (
            int(outcome(place, experiment("ls /proc/self/fd | wc -l", recipe=recipe)).stdout.head)
            == plain
        )


def test_what_verifies_a_result_is_not_observed(tmp_path):
    (tmp_path / "touch.py").write_text(TOUCH)
    touch = f"{sys.executable} -S -E {tmp_path / 'touch.py'}"
    metrics = tuple(
        Metric(n, optional=True, observed=o)
        for n, o in (("page_faults", "perf page-faults"), ("memory_peak", "memory"))
    )
    recipe = Recipe(metrics, verifiers=(f'VERIFY "{touch}"',))
    with Local(tmp_path, 1) as place:
        result = outcome(place, experiment("sleep 0.05", touch, recipe=recipe))
    assert result.status == "ok"
    assert result.metrics["page_faults"] < 5000
    assert result.metrics["memory_peak"] < 10e6


def test_a_run_shorter_than_the_first_look_has_no_memory_and_says_so():
    observers = RunObservers({"memory_peak": "memory"}, shared=False, environment={})
    observers.begin()
    observers.end()
    assert "before its memory was first read" in observers.readings["memory_peak"]


def test_a_command_that_cannot_be_started_was_not_observed(tmp_path):
    with Local(tmp_path, 1) as place:
        result = outcome(
            place, experiment("/nowhere/none", recipe=observed(("page_faults", "perf page-faults")))
        )
    assert result.status == "failed"
    assert isinstance(result.metrics["page_faults"], Missing | int)


def test_counters_of_users_see_user_mode_where_the_kernel_is_refused(monkeypatch, tmp_path):
    opened = resource_monitors.open_counter

    def refusing(event, flags=0):
        if not flags:
            raise PermissionError(errno.EACCES, "no")
        return opened(event, flags)

    monkeypatch.setattr(resource_monitors, "open_counter", refusing)
    observers = RunObservers({"page_faults": "perf page-faults"}, shared=False, environment={})
    observers.begin()
    subprocess.run(["true"], check=True)
    observers.end()
    assert observers.user_mode
    assert observers.readings["page_faults"] > 0
