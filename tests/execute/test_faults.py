"""What experiments and the machine do to a place, and what must happen then."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from needs import needs
from parent_process import PARENT
from zenturio.errors import ExpressionError, PlaceError, SafetyError
from zenturio.execute import local_runner
from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.experiment import ExperimentFile, Log, Missing, Recipe, Step
from zenturio.experiment.experiment import link_to
from zenturio.expression import parse
from zenturio.system import processes
from zenturio.testing.executor import experiment, gflops, long, outcome, running, until

SOON = RunnerSettings(grace=0.3)


@pytest.fixture
def zen(tmp_path):
    return tmp_path / "zen"


@pytest.fixture
def place(zen):
    with Local(zen, 2, settings=SOON) as place:
        yield place


def launchers() -> list[int]:
    return [pid for pid in processes.descendants(os.getpid()) if b"launcher" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _compiled(folder: Path, source: str) -> bytes:
    needs("gcc")
    (folder / "p.c").write_text(source)
    subprocess.run(["gcc", "-O1", folder / "p.c", "-o", folder / "p"], check=True)
    return (folder / "p").read_bytes()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("size", [200_000_000, pytest.param(2_000_000_000, marks=pytest.mark.slow)])
def test_a_flood_on_stdout_fills_neither_memory_nor_disk(place, zen, size):
    before = _peak()
    found = outcome(place, experiment(f"head -c {size} /dev/zero; echo end"))
    assert (found.status, found.stdout.size) == ("ok", size + 4)
    assert found.stdout.tail.endswith(b"\0end\n")
    assert len(found.stdout.head) == len(found.stdout.tail) == SOON.log
    assert _peak() - before < 64 * 2**20
    assert sum(f.stat().st_size for f in zen.rglob("*") if f.is_file()) < 2**20


def test_a_report_of_metrics_that_is_too_long_is_a_failure_and_says_so(place, monkeypatch):
    monkeypatch.setattr(local_runner, "LONGEST_REPORT", 1000)
    report = """printf '{"a": %s}\\n' $(seq {}) >> $ZEN_METRICS"""
    short = outcome(place, experiment(report.replace("{}", "90")))
    assert (short.status, short.metrics["a"]) == ("ok", 90)
    long = outcome(place, experiment(report.replace("{}", "150")))
    assert (long.status, long.cause) == (
        "failed",
        "$ZEN_METRICS has 1,000 bytes or more, and is not read",
    )


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_folder_full_of_files_costs_no_memory_and_goes(place, zen, count):
    before = _peak()
    fill = f"mkdir many && cd many && seq {count} | xargs touch && cd .."
    recipe = Recipe(outputs=("kept",), required=("kept",))
    found = outcome(place, experiment(f"{fill}; ls many | wc -l; echo 1 > kept", recipe=recipe))
    assert (found.status, found.stdout.head.split()) == ("ok", [b"%d" % count])
    assert [artifact.path for artifact in found.artifacts] == ["kept"]
    lost = outcome(place, experiment(f"{fill}; echo 2", recipe=recipe))
    assert (lost.status, lost.artifacts) == ("failed", ())
    assert "kept" in lost.cause
    assert _peak() - before < 64 * 2**20
    place.close()  # a folder stays for the next experiment of its kind, until then
    assert sum(path.name.isdigit() for path in zen.rglob("*")) == 0


def test_a_segmentation_fault_is_named_and_leaves_no_core(place, tmp_path):
    program = _compiled(tmp_path, "int main() { *(volatile int *)0 = 1; return 0; }")
    recipe = Recipe(outputs=("core*",))
    found = outcome(place, experiment("./p", files={"p": program}, recipe=recipe))
    assert (found.cause, found.exit, found.artifacts) == ("killed by SIGSEGV", -11, ())


def test_a_fault_behind_a_shell_is_named_too(place, tmp_path):
    program = _compiled(tmp_path, "int main() { *(volatile int *)0 = 1; return 0; }")
    found = outcome(place, experiment("./p; exit $?", files={"p": program}))
    assert found.cause == "exit 139 (SIGSEGV)"


def test_what_allocates_beyond_its_memory_gets_none(place, tmp_path):
    """A third part is refused while two are well below what the watcher of its memory allows."""
    source = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    int main() {
        for (int i = 0; i < 100; i++) {
            char *p = malloc(40 << 20);
            if (!p) { printf("GFLOPS=%d\\n", i); return 0; }
            memset(p, 1, 40 << 20);
        }
        return 1;
    }"""
    program = _compiled(tmp_path, source)
    what = experiment(Step("./p", memory=100 * 2**20), files={"p": program}, recipe=gflops())
    found = outcome(place, what)
    assert found.status == "ok", found
    assert found.metrics["gflops"] == 2
    assert found.metrics["maxrss"] < 130 * 2**20


def test_processes_that_together_hold_too_much_are_killed(place):
    code = f"x = b'1' * 40_000_000\nimport time\ntime.sleep({long('98.1')})"
    each = f'{sys.executable} -c "{code}"'
    command = " & ".join([each] * 4) + " & wait"
    what = experiment(Step(command, memory=100_000_000, timeout=200))
    found = outcome(place, what)
    assert (found.status, found.cause) == ("failed", "more than 100000000 B of memory")
    assert not running(code)


# Both bombs end by themselves at 500 processes: the machine is shared.


def test_a_fork_bomb_is_stopped_before_it_takes_the_machine(zen):
    bomb = f"b() {{ test $1 = 9 || {{ b $(($1+1)) & b $(($1+1)) & }}; sleep {long('98.2')}; }}; b 1"
    with Local(zen, 1, settings=RunnerSettings(processes=40)) as place:
        found = outcome(place, experiment(Step(bomb, timeout=200)))
        assert (found.status, found.cause) == ("failed", "too many processes")
        assert not running(long("98.2"))
        assert outcome(place, experiment("echo on")).status == "ok"


def test_a_fork_bomb_of_sessions_is_stopped_as_well(zen):
    needs("setsid")
    seconds = long("98.3")
    script = f"""#!/bin/sh
    test $1 = 9 && exec sleep {seconds}
    setsid ./b{seconds} $(($1+1)) & setsid ./b{seconds} $(($1+1)) & sleep 0.5
    """
    with Local(zen, 1, settings=RunnerSettings(processes=20)) as place:
        files = {f"b{seconds}": script.encode()}
        found = outcome(place, experiment(Step(f"./b{seconds} 1", timeout=200), files=files))
        assert found.cause == "too many processes"
        assert not running(f"./b{seconds}")
        assert not running(seconds)


def test_what_runs_when_its_launcher_is_killed_runs_again(place, tmp_path):
    count = tmp_path / "count"
    future = place.submit(
        experiment(f"echo >> {count}; test $(wc -l < {count}) = 2 || sleep {long('98.4')}")
    )
    until(lambda: running(long("98.4")))
    (launcher,) = launchers()
    os.kill(launcher, signal.SIGKILL)
    assert future.result().status == "ok"
    assert not running(long("98.4"))


def test_an_experiment_that_kills_its_launcher_each_time_fails(place):
    before = time.time()
    found = outcome(place, experiment(f"{PARENT}; kill -9 $parent; sleep {long('98.5')}"))
    assert before <= found.started <= found.ended <= time.time()
    assert (found.status, found.cause) == ("failed", "launcher lost")
    assert not running(long("98.5"))
    assert outcome(place, experiment("echo on")).status == "ok"


HASTY = RunnerSettings(grace=0.3, stopped=0.2)


@pytest.mark.parametrize("timeout", [None, 2.0])
def test_an_experiment_that_stops_its_launcher_each_time_fails(zen, timeout):
    with Local(zen, 1, settings=HASTY) as place:
        stop = f"{PARENT}; kill -STOP $parent; sleep {long('91.1')}"
        found = outcome(place, experiment(Step(stop, timeout)))
        assert (found.status, found.cause) == ("failed", "launcher lost")
        assert not running(long("91.1"))
        assert outcome(place, experiment("echo on")).stdout.head == b"on\n"


def test_an_experiment_whose_launcher_is_stopped_once_runs_again(zen, tmp_path):
    stop = f"touch {tmp_path}/once; {PARENT}; kill -STOP $parent; sleep 60"
    once = f"test -e {tmp_path}/once || {{ {stop}; }}"
    with Local(zen, 1, settings=HASTY) as place:
        assert outcome(place, experiment(once)).status == "ok"


def test_a_place_whose_launcher_is_stopped_can_be_closed(zen, tmp_path):
    with Local(zen, 1) as place:
        stop = f"{PARENT}; kill -STOP $parent"
        future = place.submit(experiment(f"{stop}; touch {tmp_path}/on; sleep 600"))
        until(lambda: any(processes.is_stopped(pid) for pid in launchers()))
    assert future.result(0).status == "cancelled"
    assert not launchers()


def test_a_launcher_that_is_stopped_for_a_moment_is_left_alone(zen):
    with Local(zen, 1) as place:
        future = place.submit(experiment("sleep 0.3; echo on"))
        until(launchers)
        processes.send_signal(launchers(), signal.SIGSTOP)
        until(lambda: all(processes.is_stopped(pid) for pid in launchers()))
        processes.send_signal(launchers(), signal.SIGCONT)
        assert future.result().stdout.head == b"on\n"


def test_an_experiment_that_is_killed_is_an_outcome(place):
    future = place.submit(experiment(f"exec sleep {long('98.6')}"))
    until(lambda: running(long("98.6")))
    os.kill(running(long("98.6"))[0], signal.SIGKILL)
    assert future.result().cause == "killed by SIGKILL"


DRIVER = """
import sys, time
from pathlib import Path
from zenturio.execute.local import Local
from zenturio.experiment.experiment import link_to
from zenturio.expression import parse
from zenturio.testing.executor import experiment
place = Local(Path(sys.argv[1]), 2)
for _ in range(4):
    place.submit(experiment("(setsid sleep 98.7 &) ; trap '' TERM HUP INT; sleep 98.7; sleep 98.7"))
print("ready", flush=True)
time.sleep(600)
"""


def _driver(zen):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER.replace("98.7", long("98.7")), zen],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: len(running(long("98.7"))) >= 4)
    return driver


def test_nothing_survives_a_driver_that_is_killed(zen):
    with _driver(zen) as driver:
        below = processes.descendants(driver.pid)
        driver.kill()
    until(lambda: not running(long("98.7")))
    until(lambda: not any(_command_line(pid) for pid in below))
    with Local(zen, 1) as place:
        assert outcome(place, experiment("echo on")).status == "ok"
    assert list((zen / "work").iterdir()) == []


def test_what_survives_the_driver_and_its_launchers_goes_when_the_next_one_comes(zen):
    with _driver(zen) as driver:
        below = [
            pid for pid in processes.descendants(driver.pid) if b"launcher" in _command_line(pid)
        ]
        os.kill(driver.pid, signal.SIGSTOP)
        for pid in below:
            os.kill(pid, signal.SIGKILL)
        driver.kill()
    assert running(long("98.7"))
    Local(zen, 1).close()
    assert not running(long("98.7"))


def test_ctrl_c_does_not_reach_experiments(zen):
    with _driver(zen) as driver:
        os.killpg(driver.pid, signal.SIGINT)
        driver.wait()
    until(lambda: not running(long("98.7")))
    assert driver.returncode in (-signal.SIGINT, 130, 1)


def test_nothing_is_left_behind(zen, tmp_path):
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    threads = threading.active_count()
    with Local(zen, 2, settings=SOON) as place:
        commands = ["echo 1", "exit 1", "mkdir -p a/b; touch a/b/c; chmod 0 a", "sleep 98.8 & :"]
        futures = [place.submit(experiment(command)) for command in commands * 3]
        for future in futures:
            future.result()
        assert len(launchers()) <= 2
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert threading.active_count() == threads
    assert launchers() == []
    assert [path for path in zen.rglob("*") if path.name != "work"] == []


@pytest.mark.parametrize(
    ("keep", "kept"), [("always", {"good", "bad"}), ("failed", {"bad"}), ("never", set())]
)
def test_folders_are_kept_where_that_is_wanted(zen, keep, kept):
    each = {"good": experiment("echo > here"), "bad": experiment("echo > here; exit 1")}
    with Local(zen, 2, keep=keep) as place:
        for what in each.values():
            outcome(place, what)
    folders = {path.name: path for path in (zen / "work").iterdir()}
    assert folders.keys() == {each[name].digest for name in kept}
    assert all((folder / "here").exists() for folder in folders.values())


def test_a_folder_that_is_used_again_is_as_good_as_new(place):
    awkward = "touch a .b; mkfifo c; ln -s / d; umask; ls -a | wc -l"
    found = [outcome(place, experiment(awkward)).stdout.head for _ in range(5)]
    assert len(set(found)) == 1


def test_the_same_experiment_twice_at_a_time_has_two_folders(place):
    what = experiment("touch here; sleep 0.2; ls")
    futures = [place.submit(what), place.submit(what)]
    assert [future.result().stdout.head for future in futures] == [b"here\n"] * 2


def test_a_path_that_leads_out_of_the_folder_is_refused(place, tmp_path):
    for path in ("../x", "/etc/x", "a/../../x", ""):
        what = experiment("true")
        what = type(what)(**{**_fields(what), "files": (ExperimentFile(path, 0o644, b""),)})
        with pytest.raises(SafetyError, match="leads out"):
            outcome(place, what)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("name", "text"), [("a", "/etc"), ("a", "../b"), ("in/a", "../../b")])
def test_a_link_that_leads_out_of_the_folder_is_refused(place, name, text):
    bad = replace(experiment("cat a"), files=(link_to(name, text),))
    with pytest.raises(SafetyError, match="leads out"):
        outcome(place, bad)


def _fields(value):
    return {name: getattr(value, name) for name in value.__slots__}


def test_a_metric_is_not_read_through_a_link(place, tmp_path):
    (tmp_path / "secret").write_text("GFLOPS=3")
    found = outcome(
        place, experiment(f"ln -s {tmp_path}/secret r.txt", recipe=gflops(source="r.txt"))
    )
    assert found.cause == "metric missing: gflops"
    assert "symbolic link" in found.metrics["gflops"].why


def test_what_asks_for_more_cpus_than_there_are_slots_runs_alone(place):
    several = [Step("sleep 0.1"), Step("sleep 0.1", cpus=3), Step("sleep 0.1")]
    first, wide, last = [place.submit(experiment(step)) for step in several]
    found = wide.result()
    assert found.status == "ok"
    assert first.result().ended <= found.started + 0.02
    assert found.ended <= last.result().started + 0.02


def test_what_needs_more_memory_than_there_is_is_refused_at_once(place):
    with pytest.raises(PlaceError, match="of memory"):
        outcome(place, experiment(Step("true", memory=2**60)))


def test_an_experiment_of_two_cpus_takes_two_slots(place):
    several = [Step("sleep 0.1", cpus=2), Step("sleep 0.1"), Step("sleep 0.1")] * 2
    spans = [place.submit(experiment(step)) for step in several]
    found = [future.result() for future in spans]
    for wide in (found[0], found[3]):
        others = [o for o in found if o is not wide]
        assert not any(
            o.started < wide.ended - 0.02 and wide.started + 0.02 < o.ended for o in others
        )


def test_a_pinned_experiment_has_cpus_of_its_own(zen):
    cpus = sorted(os.sched_getaffinity(0))
    with Local(zen, len(cpus), pin=True) as place:
        show = f"{sys.executable} -c 'import os; print(*os.sched_getaffinity(0))'; sleep 0.3"
        futures = [place.submit(experiment(show)) for _ in cpus]
        found = sorted(int(future.result().stdout.head) for future in futures)
    assert found == cpus


def test_a_full_disk_is_the_fault_of_the_place(tmp_path):
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=False
        ).returncode
    ):
        pytest.skip("needs the right to mount a small file system")
    try:
        with Local(tmp_path, 1) as place:
            future = place.submit(experiment("true", files={"big": b"x" * 100_000}))
            with pytest.raises(PlaceError, match="No space left"):
                future.result()
            assert outcome(place, experiment("true")).status == "ok"
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_logs_are_whole_when_they_are_short(place):
    assert outcome(place, experiment("echo 1")).stdout == Log(b"1\n", b"", 2)


def test_a_closed_place_takes_nothing(zen):
    place = Local(zen, 1)
    place.close()
    with pytest.raises(PlaceError, match="closed"):
        outcome(place, experiment("true"))


def test_two_drivers_share_a_build(zen, tmp_path):
    build = (f"sleep 0.2; echo built >> {tmp_path}/log; echo > made",)
    with Local(zen, 1) as one, Local(zen, 1) as two:
        futures = [p.submit(experiment("test -e made", builds=build)) for p in (one, two)]
        assert [future.result().status for future in futures] == ["ok", "ok"]
    with Local(zen, 1) as later:
        assert outcome(later, experiment("test -e made", builds=build)).status == "ok"
    assert (tmp_path / "log").read_text() == "built\n"


def test_a_builder_that_was_killed_is_succeeded(zen, tmp_path):
    build = f"echo begun >> {tmp_path}/log; test $(wc -l < {tmp_path}/log) = 2 || sleep 98.9"
    script = DRIVER.replace('experiment("', f'experiment("true", builds=({build!r},)) or ("')
    with subprocess.Popen([sys.executable, "-c", script, zen], stdout=subprocess.PIPE) as driver:
        until(lambda: running("98.9"))
        driver.kill()
    with Local(zen, 1) as place:
        assert outcome(place, experiment("true", builds=(build,))).status == "ok"
    until(lambda: not running("98.9"))


def test_closing_does_not_wait_for_the_build_of_another_driver(zen):
    build = ("sleep 99.1",)
    with Local(zen, 1, settings=SOON) as one:
        first = one.submit(experiment("true", builds=build))
        until(lambda: running("99.1"))
        with Local(zen, 1, settings=SOON) as two:
            second = two.submit(experiment("true", builds=build))
            until(second.running)
        assert second.result().status == "cancelled"
    assert first.result().status == "cancelled"
    assert not running("99.1")


def test_a_large_input_is_shared_and_cannot_be_spoilt_in_silence(zen, tmp_path):
    from zenturio.experiment.identity import content_digest

    content = os.urandom(2**21)
    (tmp_path / "big").write_bytes(content)
    big = ExperimentFile("in/big", 0o644, None, tmp_path / "big", content_digest(content).hex())

    def with_big(command):
        what = experiment(command)
        return type(what)(**{**_fields(what), "files": (big,)})

    with Local(zen, 1) as place:
        assert outcome(place, with_big("wc -c < in/big")).stdout.head == b"2097152\n"
        spoilt = outcome(place, with_big("chmod u+w in/big; echo >> in/big; true"))
        assert (tmp_path / "big").read_bytes() == content
        named = "the large input file in/big was written to; copy it first: cp in/big mine"
        assert spoilt.cause in (named, "")
        assert outcome(place, with_big("wc -c < in/big")).stdout.head == b"2097152\n"


def test_the_size_of_a_small_program_is_its_own(place, tmp_path):
    program = _compiled(tmp_path, "int main() { return 0; }")
    found = outcome(place, experiment("./p", files={"p": program}))
    assert 100_000 < found.metrics["maxrss"] < 4_000_000


def test_the_size_of_the_largest_process_counts(place):
    code = "x = b'1' * 150_000_000"
    found = outcome(place, experiment(f'{sys.executable} -c "{code}"; true'))
    assert 150_000_000 < found.metrics["maxrss"] < 200_000_000


def test_a_size_that_cannot_be_told_from_the_launchers_is_not_invented(zen, tmp_path):
    program = _compiled(tmp_path, "int main() { return 0; }")
    with Local(zen, 2, settings=RunnerSettings(exact=float("inf"))) as place:
        futures = [place.submit(experiment("./p", files={"p": program})) for _ in range(20)]
        sizes = [future.result().metrics["maxrss"] for future in futures]
    assert all(isinstance(size, Missing) or size < 4_000_000 for size in sizes)
    assert isinstance(sizes[-1], Missing)
    assert "smaller than its launcher" in sizes[-1].why


def test_times_are_those_of_the_program(place):
    slept = outcome(place, experiment("sleep 0.2"))
    assert slept.metrics["wtime"] >= 0.2
    assert slept.ended - slept.started >= slept.metrics["wtime"]
    assert slept.metrics["ctime"] < slept.metrics["wtime"] / 2
    code = "import time\nwhile time.process_time() < 0.2: pass"
    worked = outcome(place, experiment(f"{sys.executable} -c '{code}' & wait"))
    assert worked.metrics["ctime"] >= 0.2


def test_a_program_of_one_thread_takes_no_less_time_than_its_processor(place):
    """The clock starts before the program does: else a short one has done its work by then."""
    futures = [place.submit(experiment("/bin/echo")) for _ in range(15)]
    metrics = [future.result().metrics for future in futures]
    assert [m for m in metrics if m["wtime"] < m["ctime"]] == []


@pytest.mark.parametrize(
    "command",
    [
        "echo spoilt > in",
        "rm in; ln {victim} in",
        "rm in; ln -s {victim} in",
        "rm in; mkdir in",
        "rm in; mkfifo in",
        "rm in",
        "chmod 0 in",
        "head -c 100000 /dev/zero > in",
        "chmod 0 .",
    ],
)
def test_whatever_became_of_a_folder_the_next_finds_its_files_and_harms_nobody(
    zen, tmp_path, command
):
    victim = tmp_path / "victim"
    victim.write_text("unharmed")
    with Local(zen, 1) as place:
        first = experiment(command.format(victim=victim), files={"in": b"one", "other": b""})
        outcome(place, first)
        second = outcome(place, experiment("ls; cat in; stat -c %a in", files={"in": b"two"}))
    assert second.stdout.head == b"in\ntwo755\n"
    assert victim.read_text() == "unharmed"


def _requiring(text):
    return Recipe(requires=(parse(text),))


def test_a_machine_that_is_not_as_required_is_refused_with_what_it_is(place):
    with pytest.raises(
        PlaceError, match=r"does not meet REQUIRE host.cores > 10000: host.cores = \d+"
    ):
        outcome(place, experiment("true", recipe=_requiring("host.cores > 10000")))
    with pytest.raises(ExpressionError, match="coores"):
        outcome(place, experiment("true", recipe=_requiring("host.coores > 1")))


def test_a_machine_that_is_as_required_runs_it(place):
    wanted = _requiring("host.memory >= 1MB and host.arch != 'pdp11' and host.load >= 0")
    assert outcome(place, experiment("true", recipe=wanted)).status == "ok"


def test_an_error_of_our_own_leaves_nobody_waiting(zen, monkeypatch):
    from zenturio.execute.local import Dispatcher

    def breaks(self):
        raise RuntimeError("a mistake")

    place = Local(zen, 1)
    monkeypatch.setattr(Dispatcher, "_prepare", breaks)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(RuntimeError, match="a mistake"):
        outcome(place, experiment("sleep 99.4"))
    with pytest.raises(PlaceError, match="closed"):
        outcome(place, experiment("true"))
    place._dispatcher.join()
    assert not running("99.4")
