"""Facts of the machine that ran an attempt: collected there, carried by the outcome."""

import os
import platform
import subprocess
import time
from pathlib import Path

import pytest

from zenturio.execute import run_conditions
from zenturio.execute.experiment_codec import pack_experiment, pack_outcome, unpack_outcome
from zenturio.execute.local import Local
from zenturio.execute.machines import (
    check_machine_facts,
    machine_parts_from_json,
    machine_parts_to_json,
)
from zenturio.execute.wire import MalformedError
from zenturio.execute.worker import run_packed
from zenturio.experiment import Outcome
from zenturio.experiment.experiment import HostConditions, HostDetails, MachineKind
from zenturio.system.machine import GpuClock, MachineLoad, bound_cpus, machine_facts, physical_cores
from zenturio.testing.executor import experiment, outcome


def here():
    facts = machine_facts()
    return (
        MachineKind(facts["cpu"], facts["cores"], tuple(facts["accelerators"])),
        HostDetails(
            platform.node(),
            f"{platform.system()} {platform.release()}",
            facts["memory"],
            facts["unmeasured"],
        ),
    )


def test_an_outcome_tells_the_machine_that_ran_it_and_its_load(tmp_path):
    with Local(tmp_path / "zen", 1) as place:
        for command in ("true", "exit 3", "kill -9 $$"):
            found = outcome(place, experiment(command))
            assert (found.machine, found.host_details) == here()
            assert found.conditions.load_start >= 0
            assert found.conditions.load_end >= 0
        broken = outcome(place, experiment("true", builds=("exit 2",)))
        assert (broken.machine, broken.conditions) == (here()[0], None)


def test_a_worker_sends_them_along(tmp_path):
    what = experiment("true")
    found = unpack_outcome(
        run_packed(pack_experiment(what), tmp_path), what.digest, tmp_path / "outputs"
    )
    assert (found.machine, found.host_details) == here()
    assert found.conditions.load_start >= 0


def test_facts_are_of_the_machine_and_as_they_are_checked():
    facts = machine_facts()
    check_machine_facts(facts, "facts")
    assert facts["memory"] > 2**20
    assert 0 <= facts["cores"] <= os.cpu_count()
    for name in facts:
        with pytest.raises(MalformedError):
            check_machine_facts({**facts, name: None}, "facts")


def test_threads_of_one_core_are_counted_once(tmp_path):
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert physical_cores(tmp_path) == 2


def test_all_that_may_be_known_comes_out_as_it_went_in(tmp_path):
    gone = Outcome(
        "ab" * 16, "ok",
        machine=MachineKind("EPYC", 64, ("H100", "H100"), "module load gcc/13"),
        host_details=HostDetails("n1", "Linux 6.1", 2**38, "host_mhz: no cpufreq"),
        conditions=HostConditions(0.5, None, 3e3, celsius_end=60.5, slots=4, governor="performance",
                              other={"fans": 3, "quiet": True, "note": None}),
    )  # fmt: skip
    assert unpack_outcome(pack_outcome(gone), gone.digest, tmp_path) == gone
    none = machine_parts_from_json(machine_parts_to_json(Outcome("ab" * 16, "ok")))
    assert set(none.values()) == {None}


def _machine(folder, **files):
    """Files of /proc and /sys as a kernel writes them."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _load(folder, busy, stalled):
    _machine(
        folder,
        loadavg=f"0.50 0.40 0.30 {busy}/300 4711\n",
        stat=f"cpu  {busy * 100} 0 50 1000 10 0 0 {busy * 10} 0 0\ncpu0 1 2 3\n",
        pressure__cpu=f"some avg10=1.00 avg60=1.00 avg300=1.00 total={stalled}\nfull avg10=0\n",
        pressure__memory="some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
    )


def test_what_varied_is_the_difference_of_two_samples(tmp_path):
    cpu = f"devices__system__cpu__cpu{min(os.sched_getaffinity(0))}__cpufreq__scaling"
    frequency = {f"{cpu}_cur_freq": "2400500\n", f"{cpu}_governor": "powersave\n"}
    _machine(tmp_path / "sys", **frequency)
    _machine(
        tmp_path / "sys", class__thermal__zone0__type="acpitz\n", class__thermal__zone0__temp="1"
    )
    _machine(tmp_path / "sys", class__thermal__zone1__type="x86_pkg_temp\n",
             class__thermal__zone1__temp="54500\n")  # fmt: skip
    _load(tmp_path / "proc", 3, 1_000_000)
    machine = MachineLoad(str(tmp_path / "proc"), str(tmp_path / "sys"))
    before = machine.sample()
    _load(tmp_path / "proc", 5, 1_250_000)
    after = machine._read(before.at + 0.5)  # half a second later
    found = run_conditions.run_load(before, after, 0.5, 0.125)
    assert found == {
        "mhz_start": 2400.5, "mhz_end": 2400.5, "celsius_start": 54.5, "celsius_end": 54.5,
        "steal": 20 / 220, "pressure": 0.5, "memory_pressure": 0.0,
        "others_ctime": 200 / os.sysconf("SC_CLK_TCK") - 0.5, "runnable": 2, "run_delay": 0.125,
        "throttled": None, "governor": "powersave", "gpu_mhz_start": None, "gpu_mhz_end": None,
    }  # fmt: skip


def test_what_a_machine_does_not_tell_is_null(tmp_path):
    machine = MachineLoad(str(tmp_path), str(tmp_path))
    before = machine.sample()
    after = machine._read(before.at + 1)
    found = run_conditions.run_load(before, after, 0.5, None)
    assert set(found.values()) == {None}


def test_files_that_say_something_else_are_no_error(tmp_path):
    _machine(tmp_path, loadavg="up 3 days\n", stat="cpu  a b c\n", pressure__cpu="\n")
    machine = MachineLoad(str(tmp_path), str(tmp_path))
    assert set(machine.sample()[1:]) == {None}


def test_one_sample_stands_for_runs_of_a_few_milliseconds(tmp_path):
    _load(tmp_path, 3, 1_000_000)
    machine = MachineLoad(str(tmp_path), str(tmp_path))
    machine._last = before = machine._read(time.monotonic() + 60)  # not older than the limit
    assert machine.sample() is before
    found = run_conditions.run_load(before, machine.sample(), 0.5, 0.1)
    assert (found["pressure"], found["steal"], found["others_ctime"]) == (None, None, None)
    assert (found["runnable"], found["run_delay"]) == (2, 0.1)


def test_an_attempt_says_what_the_machine_did(tmp_path):
    with Local(tmp_path, jobs=2, pin=True) as place:
        found = outcome(place, experiment("sleep 0.05; true", "true"))
    said = found.conditions
    assert (said.slots, said.slots_start, said.slots_end, said.cpus) == (2, 1, 1, 1)
    assert int(said.pinned) in os.sched_getaffinity(0)
    assert said.runnable >= 0
    assert said.run_delay >= 0
    assert 0 <= said.steal <= 1
    assert said.others_ctime >= 0
    if Path("/proc/pressure/cpu").exists():
        assert 0 <= said.pressure <= 1


def test_the_slots_in_use_are_those_of_the_start_and_the_end(tmp_path):
    with Local(tmp_path, jobs=3) as place:
        mark = tmp_path / "mark"
        first = place.submit(experiment(f"until test -e {mark}; do sleep 0.01; done; sleep 0.3"))
        second = place.submit(experiment(f"touch {mark}"))
        found = [task.result().conditions for task in (first, second)]
    assert [(said.slots_start, said.slots_end) for said in found] == [(1, 1), (2, 2)]


def test_bound_processors_are_written_as_ranges():
    assert bound_cpus([8, 0, 2, 1]) == "0-2,8"
    assert bound_cpus([5]) == "5"
    mine = os.sched_getaffinity(0)
    is_free = len(mine) >= os.cpu_count()
    assert (bound_cpus(None) is None) == is_free


def test_the_frequency_is_that_of_the_processor_a_run_is_bound_to(tmp_path):
    _load(tmp_path / "proc", 3, 1_000_000)
    for cpu, hertz in ((0, 1_000_000), (7, 3_000_000)):
        _machine(
            tmp_path / "sys",
            **{f"devices__system__cpu__cpu{cpu}__cpufreq__scaling_cur_freq": f"{hertz}\n"},
        )
    machine = MachineLoad(str(tmp_path / "proc"), str(tmp_path / "sys"))
    assert [machine.sample(cpu).mhz for cpu in (0, 7, 7, 0)] == [1000, 3000, 3000, 1000]
    machine.close()


def test_columns_without_values_come_with_the_reason(tmp_path):
    _load(tmp_path / "proc", 3, 1_000_000)
    machine = MachineLoad(str(tmp_path / "proc"), str(tmp_path / "sys"))
    cpu = min(os.sched_getaffinity(0))
    said = machine.unmeasured()
    machine.close()
    assert f"host_mhz, host_governor: no {tmp_path}/sys/devices/system/cpu/cpu{cpu}/cpufreq" in said
    assert "host_celsius: no sensor" in said
    assert "host_gpu_mhz: no GPU" in said
    assert "host_pressure" not in said


def test_the_clock_of_a_gpu_is_read_from_files(tmp_path):
    _machine(tmp_path, class__drm__card1__device__hwmon__hwmon3__freq1_input="1800000000\n")
    _machine(tmp_path, class__drm__card0__gt__gt0__rps_act_freq_mhz="350\n")
    clock = GpuClock(str(tmp_path), str(tmp_path))
    assert (clock.read(), clock.missing) == (1800.0, "")


NVML = """
int nvmlInit_v2(void) { return %d; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **device) { *device = (void *)(at + 1L); return 0; }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) {
    *mhz = 900 * (unsigned)(long)device;
    return kind != 1;
}
"""
"""The functions of NVIDIA's library that are called: no machine of the tests has a GPU of theirs."""


@pytest.mark.parametrize("answer", [0, 9])
def test_the_clock_of_a_gpu_is_asked_of_its_library(tmp_path, answer):
    (tmp_path / "nvml.c").write_text(NVML % answer)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    clock = GpuClock(str(tmp_path), str(tmp_path), str(library))
    if answer:
        assert clock.read() is None
        assert clock.missing == "libnvidia-ml.so.1: nvmlInit_v2 answers 9"
    else:
        assert (clock.read(), clock.missing) == (1800.0, "")


def test_a_driver_without_its_library_is_a_reason(tmp_path):
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    assert "libnvidia-ml.so.1" in GpuClock(str(tmp_path), str(tmp_path), "/nowhere.so").missing
    assert "too long" in GpuClock(str(tmp_path), str(tmp_path), "").missing


def test_reading_the_clock_takes_a_hundredth_of_the_time_at_most(tmp_path):
    _machine(tmp_path, class__drm__card0__gt__gt0__rps_act_freq_mhz="350\n")
    clock = GpuClock(str(tmp_path), str(tmp_path))
    clock._next = time.monotonic() + 60  # a reading took 0.6 s
    assert clock.read() is None
