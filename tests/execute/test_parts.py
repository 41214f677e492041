"""The parts of the local place by themselves."""

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.annotate.commands import fill_command
from zenturio.execute import spawn
from zenturio.execute.file_staging import InputCache
from zenturio.execute.folder_files import matching_files
from zenturio.execute.hosts.connection import packed_agent
from zenturio.execute.launch_request import plain_words
from zenturio.execute.launcher_client import CpuPool
from zenturio.execute.local_runner import judge_exit, judge_run, judge_steps
from zenturio.execute.spawn import CapturedStream
from zenturio.experiment import ExperimentFile, Log, Step
from zenturio.experiment.identity import content_digest
from zenturio.system import processes
from zenturio.testing.executor import until

# Words


@pytest.mark.parametrize(
    ("command", "split"),
    [
        ("./matmul 128 -O3", ["./matmul", "128", "-O3"]),
        ("  ./a\tb  ", ["./a", "b"]),
        (
            "./a 'two words' \"three 'quoted' words\" ''",
            ["./a", "two words", "three 'quoted' words", ""],
        ),
        ("./a --n=3 x@y:%5^", ["./a", "--n=3", "x@y:%5^"]),
        ("./a 'a'\"'\"'b;$(id)'", ["./a", "a'b;$(id)"]),
        ("./a grün", None),
        ("./a > out", None),
        ("./a | ./b", None),
        ("./a; ./b", None),
        ("./a & ./b", None),
        ("./a *.txt", None),
        ("./a $HOME", None),
        ('./a "$HOME"', None),
        ("./a `id`", None),
        ("./a ~", None),
        ("./a {1,2}", None),
        ("./a # no", None),
        ("./a \\n", None),
        ("./a 'open", None),
        ("N=3 ./a", None),
        ("cd sub", None),
        ("exit 3", None),
        ("echo hi", None),
        ("test -e a", None),
        ("", None),
        ("  ", None),
        ("a\nb", None),
    ],
)
def test_plain_words_need_no_shell(command, split):
    assert plain_words(command) == split


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(st.text(alphabet="ab1 \t'\"=./-,$`\\;&|*?~#!{}()<>\n", max_size=12))
def test_what_is_split_is_split_as_a_shell_splits_it(text):
    split = plain_words(f"./a {text}")
    if split is not None:
        script = f"show() {{ for w; do printf '%s\\0' \"$w\"; done; }}; show {text}"
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True)
        assert done.stdout.decode().split("\0")[:-1] == split[1:]


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_value_is_one_word_with_and_without_a_shell(text):
    command = fill_command("./a {v} end", {"v": text})
    split = plain_words(command)
    assert split is None or split == ["./a", text, "end"]
    assert shlex.split(command) == ["./a", text, "end"]


# Verdicts


@pytest.mark.parametrize(
    ("status", "shell", "verdict"),
    [
        (0, False, ("ok", "")),
        (3, False, ("failed", "exit 3")),
        (-9, False, ("failed", "killed by SIGKILL")),
        (-11, True, ("failed", "killed by SIGSEGV")),
        (-40, False, ("failed", "killed by signal 40")),
        (139, True, ("failed", "exit 139 (SIGSEGV)")),
        (139, False, ("failed", "exit 139")),
        (255, True, ("failed", "exit 255")),
    ],
)
def test_an_exit_status_has_a_name(status, shell, verdict):
    assert judge_exit(status, shell=shell) == verdict


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("timeout", ("timeout", "timeout after 90 s")),
        ("cancelled", ("cancelled", "cancelled")),
        ("memory", ("failed", "more than 1000 B of memory")),
        ("processes", ("failed", "too many processes")),
        ("unstartable", ("failed", "cannot start: Argument list too long")),
    ],
)
def test_a_run_that_was_stopped_says_why(stop, expected):
    facts = {"stop": stop, "why": "Argument list too long", "status": -9}
    assert (
        judge_run(facts, Step("a", timeout=90.0, memory=1000), shell=False, stderr=Log())
        == expected
    )


def test_the_cause_says_which_of_several_commands_failed():
    steps = [Step("a"), Step("b", timeout=2.0), Step("c")]
    facts = {"stop": "", "status": 3, "step": 1}
    said = Log(b"no such mesh\n")
    assert judge_steps(facts, steps[:2], (), said)[1] == "exit 3 in RUN 2 of 2: no such mesh"
    assert judge_steps(facts, steps, ("VERIFY x",), said)[1].startswith("exit 3 in RUN 2 of 2")
    assert judge_steps(facts | {"stop": "timeout"}, steps, (), said) == (
        "timeout",
        "timeout after 2 s in RUN 2 of 3",
    )
    # One command needs no number, and a VERIFY is named by its directive.
    assert judge_steps(facts | {"step": 0}, steps[:1], (), said)[1] == "exit 3: no such mesh"
    verified = judge_steps(facts | {"step": 2}, steps, ("VERIFY x",), said)
    assert verified == ("wrong", "VERIFY x: exit 3: no such mesh")


# Streams


def test_a_stream_is_shown_from_its_beginning_and_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(spawn, "LIVE_LOG_BYTES", 20)
    path = tmp_path / "a.stdout"
    stream = CapturedStream(4, 4)
    stream.show(str(path))
    assert not path.exists()
    for chunk, seen in ((b"one ", b""), (b"two ", b"one two "), (b"x" * 40, b"one two ")):
        os.write(stream.write, chunk)
        stream.drain()
        if chunk == b"two ":
            stream.show(str(path))
        assert (path.read_bytes() if path.exists() else b"") == seen
    stream.close()
    assert not path.exists()


def test_a_stream_that_cannot_be_shown_is_kept_all_the_same(tmp_path):
    stream = CapturedStream(4, 4)
    os.write(stream.write, b"one")
    stream.drain()
    stream.show(str(tmp_path / "none" / "a.stdout"))
    os.write(stream.write, b" two")
    stream.drain()
    assert stream.kept() == (b"one ", b"two")
    stream.close()


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(0, 30), st.integers(1, 30))
def test_a_stream_keeps_its_head_and_its_tail(chunks, head, tail):
    stream = CapturedStream(head, tail)
    for chunk in chunks:
        os.write(stream.write, chunk)
        if chunk:
            assert stream.drain()
    stream.close_write()
    assert not stream.drain()
    stream.close()
    whole = b"".join(chunks)
    kept_head, kept_tail = stream.kept()
    assert stream.size == len(whole)
    assert kept_head == whole[:head]
    assert kept_tail == whole[head:][-tail:]


def test_what_is_held_of_a_stream_is_bounded():
    stream = CapturedStream(1000, 1000)
    for _ in range(1000):
        os.write(stream.write, b"x" * 60_000)
        stream.drain()
    assert sum(map(len, stream._tail)) < 1000 + 2 * 2**16
    stream.close()


def test_the_rest_is_read_though_somebody_holds_the_pipe():
    stream = CapturedStream(100, 100)
    os.write(stream.write, b"rest")
    stream.rest()
    assert stream.kept() == (b"rest", b"")
    stream.close()


# Outputs


@pytest.fixture
def folder(tmp_path):
    for path in ("a.dat", "b.txt", ".hidden.dat", "out/c.dat", "out/deep/d.dat", "other/e.dat"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "link.dat").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to("/etc")
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "paths"),
    [
        (["*.dat"], ["a.dat"]),
        (["out/*.dat"], ["out/c.dat"]),
        (["**/*.dat"], ["a.dat", "other/e.dat", "out/c.dat", "out/deep/d.dat"]),
        (["out/**"], ["out/c.dat", "out/deep/d.dat"]),
        (["*/c.dat"], ["out/c.dat"]),
        (["out"], []),
        ([".*.dat"], [".hidden.dat"]),
        (["?.[a-d]*"], ["a.dat"]),
        (["a.dat", "./a.dat", "*.txt"], ["a.dat", "b.txt"]),
        (["up/passwd", "up/*", "link.dat"], []),
        (["missing", ""], []),
    ],
)
def test_patterns_find_plain_files(folder, patterns, paths):
    assert matching_files(str(folder), patterns) == paths


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("**/" * 40 + "*.dat", ["a.dat", "deep.dat"]),
        ("**/*/" * 25 + "*.dat", ["deep.dat"]),
        ("*/**/" * 200 + "*.dat", []),
        ("[" * 40_000, []),
        ("[" * 20_000 + "/" + "[a" * 20_000, []),
    ],
)
def test_a_pattern_lists_each_folder_at_most_once(tmp_path, monkeypatch, pattern, paths):
    deep = tmp_path / "/".join("d" * 30)
    deep.mkdir(parents=True)
    (tmp_path / "a.dat").touch()
    (deep / "deep.dat").touch()
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    assert [Path(path).name for path in matching_files(str(tmp_path), [pattern])] == paths
    assert len(listed) == len(set(listed))


# CPUs


def test_cpus_are_handed_out_once():
    cpus = CpuPool()
    assert sorted(cpus.every) == sorted(os.sched_getaffinity(0))
    one = [cpus.take(1) for _ in cpus.every]
    assert [cpu for each in one for cpu in each] == cpus.every
    assert cpus.take(1) == []
    for each in one:
        cpus.give_back(each)
    assert cpus.take(len(cpus.every) + 1) == []
    assert cpus.take(len(cpus.every)) == cpus.every


def topology(folder, siblings, isolated=""):
    """The files of a machine with these lists of threads that share a core."""
    cpus = folder
    cpus.mkdir(exist_ok=True)
    for cpu, threads in siblings.items():
        (cpus / f"cpu{cpu}/topology").mkdir(parents=True)
        (cpus / f"cpu{cpu}/topology/thread_siblings_list").write_text(f"{threads}\n")
    (cpus / "isolated").write_text(f"{isolated}\n")
    return folder


def test_whole_cores_are_handed_out_before_their_second_threads(tmp_path):
    system = topology(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    cpus = CpuPool(range(4), system)
    assert [cpus.take(1) for _ in range(4)] == [[0], [1], [2], [3]]
    neighbours = CpuPool(
        range(4), topology(tmp_path / "b", {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})
    )
    assert neighbours.every == [0, 2, 1, 3]
    taken = neighbours.take(2)
    assert taken == [0, 2]
    neighbours.give_back(taken)
    assert neighbours.take(4) == [0, 2, 1, 3]
    assert "there are 2, with 4 threads (SMT), whose second ones are used last" in cpus.description


def test_isolated_processors_come_first_and_siblings_that_may_not_be_used_do_not_count(tmp_path):
    system = topology(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, isolated="1,3")
    assert CpuPool(range(4), system).every == [1, 3, 0, 2]
    cpus = CpuPool([0, 3], system)
    assert cpus.every == [3, 0]
    assert "there are 2, and no SMT siblings" in cpus.description
    assert cpus.description.endswith("1 isolated processors are used first")
    assert CpuPool([0, 1], tmp_path / "absent").every == [0, 1]


# Processes


def test_processes_are_found_by_what_their_environment_holds():
    mark = f"ZEN_TEST={os.getpid()}/"
    with subprocess.Popen(["sleep", "99.2"], env={"A": "1", "ZEN_TEST": f"{os.getpid()}/x"}) as one:
        # The kernel lets the parent go on before the new environment can be read.
        until(lambda: one.pid in list(processes.marked_processes(mark.encode())))
        assert one.pid not in list(processes.marked_processes(b"EN_TEST="))
        processes.kill_marked(mark.encode())
        assert one.wait() == -9


def test_descendants_are_found_in_their_order():
    command = "sleep 99.3 & exec sh -c 'sleep 99.3 & wait'"
    with subprocess.Popen(["sh", "-c", command]) as one:
        while len(found_below := processes.descendants(one.pid)) < 2:
            pass
        assert set(found_below) == set(processes.children(one.pid))
        assert one.pid in processes.descendants(os.getpid())
        processes.kill_trees(lambda: [one.pid])
    assert processes.descendants(one.pid) == []


STARTED_BY_A_STARTER_THAT_IS_KILLED = """
import os, sys
from zenturio.system.processes import adopt_orphans
from zenturio.execute.spawn import Spawner
adopt_orphans()
starter, command = sys.argv[1:]
step = {"command": command, "words": None, "data": 0}
pid, exact = Spawner(dict(os.environb), 1, 2).start(step, starter)
os.waitpid(pid, 0)
print(exact)
"""


def test_a_command_that_kills_what_starts_it_is_started_once(tmp_path):
    """As ``kill -9 $PPID`` may: $PPID is setsid(1) for a moment."""
    starter = tmp_path / "setsid"
    starter.write_text('#!/bin/sh\nshift 2\n"$@" &\nwait\n')
    starter.chmod(0o755)
    command = f"echo begun >> {tmp_path}/log; kill -9 $PPID"
    words = [sys.executable, "-c", STARTED_BY_A_STARTER_THAT_IS_KILLED, str(starter), command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert (tmp_path / "log").read_text() == "begun\n"


def test_a_copy_that_others_may_read_already_is_not_replaced(tmp_path):
    original = tmp_path / "large"
    original.write_bytes(b"x" * 3_000_000)
    filed = ExperimentFile(
        "in/large", 0o644, None, original, content_digest(original.read_bytes()).hex()
    )
    many = [InputCache(tmp_path / "inputs") for _ in range(4)]  # as many processes have them
    barrier = Barrier(16)

    def share(number):
        barrier.wait()
        return many[number % 4].shared(filed)

    with ThreadPoolExecutor(16) as pool:
        copies = list(pool.map(share, range(16)))
    assert len({(copy.path, copy.path.stat().st_ino) for copy in copies}) == 1
    assert not any(copy.is_spoilt() for copy in copies)
    assert [path.name for path in (tmp_path / "inputs").iterdir()] == [filed.digest]


def test_what_is_shipped_to_hosts_starts_without_the_package(tmp_path):
    agent = tmp_path / "agent.zip"
    agent.write_bytes(packed_agent())
    words = [sys.executable, "-I", "-S", str(agent), str(tmp_path), "owner"]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"zenturio agent" in ran.stdout + ran.stderr
    assert b"Error" not in ran.stderr
