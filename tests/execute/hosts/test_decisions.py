"""Which host, and whether to move: decisions without hosts; and what is shipped to them."""

import ast
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zenturio.errors import InputError, NotFoundError
from zenturio.execute.hosts.attempt_journal import EventLog, HostEvent, read_events
from zenturio.execute.hosts.connection import packed_agent
from zenturio.execute.hosts.host_choice import (
    JobRequirements,
    ProgressProfile,
    best_host,
    load_evaluator,
    load_plugin,
    load_selector,
    worth_moving,
)
from zenturio.execute.hosts.hosts_file import HostsOptions
from zenturio.execute.hosts.prolog_epilog import Staging, fill_host_facts, host_pattern
from zenturio.expression import parse
from zenturio.show.charts.schedule_charts import host_stays, jobs_gantt

SPEEDS = st.floats(0.01, 1000)


def profile(*seconds, of=None, breaches=1):
    found = ProgressProfile(breaches)
    for i, each in enumerate(seconds, 1):
        line = {"iteration": i, "seconds": each} | ({"of": of} if of else {})
        found.update(json.dumps(line) + "\n", i)
    return found


@given(st.lists(st.tuples(SPEEDS, st.integers(0, 4)), max_size=8))
def test_the_best_host_is_the_one_that_a_naive_search_finds(hosts):
    facts = [{"speed": speed, "free": free} for speed, free in hosts]
    found = best_host(JobRequirements(), facts)
    expected = None
    for i, (speed, free) in enumerate(hosts):
        if expected is None or (speed, free) > hosts[expected]:
            expected = i
    assert found == expected


def test_hosts_that_are_not_as_required_are_left_out_and_unknown_facts_are_null():
    wants = JobRequirements(requires=(parse("host.gpus >= 2"),), rank=parse("-host.cost"))
    hosts = [{"cost": 1}, {"cost": 3, "gpus": 4}, {"cost": 2, "gpus": 2}, {"cost": 0, "gpus": 1}]
    assert best_host(wants, hosts, ("gpus", "cost")) == 2
    assert best_host(wants, [{"cost": 1}], ("gpus", "cost")) is None


def test_requirements_may_use_the_values_of_the_point():
    wants = JobRequirements(requires=(parse("host.memory >= n * 1GB"),), values={"n": 2})
    assert best_host(wants, [{"memory": 10**9}, {"memory": 2 * 10**9}]) == 1


def test_a_program_says_anew_what_it_needs():
    wants = JobRequirements(requires=(parse("host.cores >= 4"),), rank=parse("host.speed"))
    more = wants.replaced_by("# second phase\n\nrequire host.memory >= 1GB\nRANK host.memory\n")
    assert [each.text for each in more.requires] == ["host.memory >= 1GB"]
    assert more.rank.text == "host.memory"
    assert wants.replaced_by("").requires == ()
    with pytest.raises(InputError, match="write REQUIRE or RANK"):
        wants.replaced_by("WANT more")


def test_a_contract_is_broken_by_iterations_that_take_longer_than_those_before():
    assert profile(1, 1, 1.4).broken(0.5) is False
    assert profile(1, 1, 1.6).broken(0.5) is True
    assert profile(1.6).broken(0.5) is False  # with what should it be compared?
    assert profile(1, 1, 9).broken(0) is False  # nobody has made one
    assert profile(1, 1, 9, breaches=2).broken(0.5) is False
    assert profile(1, 1, 9, 8, breaches=2).broken(0.5) is True
    assert profile(1, 1, 9, 1, breaches=2).broken(0.5) is False


def test_what_is_usual_does_not_grow_with_a_slowdown_that_stays():
    assert profile(1, 1, 1, 3, 3, 3, 3, 3).usual == 1


def test_odd_lines_of_a_profile_say_nothing():
    found = ProgressProfile()
    found.update('no json\n[1]\n{"seconds": "soon"}\n{"seconds": -1, "of": 0}\n3\n', 9)
    assert (found.seconds, found.iteration, found.left) == ([], 2, None)
    assert found.offset == 9


@given(SPEEDS, SPEEDS, st.floats(0, 100), st.floats(0, 0.9), st.integers(1, 50))
def test_no_job_moves_to_a_host_that_is_not_faster_while_nothing_disturbs_it(
    here, there, move, gain, done
):
    found = profile(*[1.0] * done, of=100)
    if worth_moving(found, here, there, move=move, gain=gain, anew=False):
        assert there > here


@given(st.floats(1, 10), st.floats(0, 5), st.integers(2, 90))
def test_a_move_is_worth_it_if_what_is_left_ends_earlier(ratio, move, done):
    found = profile(*[1.0] * done, of=100)
    left = 100 - done
    for anew, goes in ((False, move + left / ratio), (True, move + 100 / ratio)):
        assume(abs(left - goes) > 1e-9)
        expected = left > goes
        assert worth_moving(found, 1.0, ratio, move=move, gain=0, anew=anew) is expected


def test_nothing_is_known_of_a_job_without_a_profile():
    assert not worth_moving(ProgressProfile(), 1, 100, move=0, gain=0, anew=False)
    assert not worth_moving(profile(1, 1), 1, 100, move=0, gain=0, anew=False)


def test_names_of_facts_are_filled_in_and_quoted():
    facts = {"arch": "x86_64", "name": "a b"}
    assert fill_host_facts("./run.{host.arch} {host.name} {host.none}", facts, quote=True) == (
        "./run.x86_64 'a b' {host.none}"
    )
    assert host_pattern("bin/solver.{host.arch}") == "bin/solver.*"


def test_what_is_shipped_is_the_same_each_time_and_understood_by_python_3_9():
    packed_agent.cache_clear()
    first = packed_agent()
    packed_agent.cache_clear()
    assert packed_agent() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        for name in archive.namelist():
            tree = ast.parse(archive.read(name), feature_version=(3, 9))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zenturio"):
                    module = node.module.replace(".", "/")
                    assert f"{module}.py" in archive.namelist() or module in (
                        "zenturio/execute", "zenturio/execute/hosts", "zenturio/system",
                    )  # fmt: skip


def test_what_is_shipped_needs_nothing_but_the_standard_library(tmp_path):
    (tmp_path / "agent.pyz").write_bytes(packed_agent())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import zenturio.execute.hosts.remote_agent as serve;"
        "assert serve.__file__.startswith(sys.argv[1]);"
        "known = set(sys.stdlib_module_names) | {'zenturio', '__main__'};"
        "print({name.split('.')[0] for name in sys.modules} - known)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, tmp_path / "agent.pyz"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


def events(*told):
    return [HostEvent(float(i), kind, job, host) for i, (kind, job, host) in enumerate(told)]


LIFE = (
    ("up", "", "one"),
    ("submitted", "a" * 32, ""),
    ("submitted", "b" * 32, ""),
    ("prolog", "b" * 32, "two"),
    ("prolog", "a" * 32, "one"),
    ("started", "a" * 32, "one"),
    ("progress", "a" * 32, "one"),
    ("moving", "a" * 32, "one"),
    ("left", "a" * 32, "one"),
    ("prolog", "a" * 32, "two"),
    ("started", "a" * 32, "two"),
    ("ended", "a" * 32, "two"),
)


def test_a_life_is_a_row_of_stays():
    found = [
        (s.host, s.activity, s.start, s.end)
        for s in host_stays(events(*LIFE))
        if s.digest[0] == "a"
    ]
    assert found == [
        ("one", "prolog", 4, 5),
        ("one", "running", 5, 7),
        ("one", "leaving", 7, 8),
        ("two", "prolog", 9, 10),
        ("two", "running", 10, 11),
    ]


def test_jobs_are_drawn_in_the_order_in_which_they_came_and_called_by_their_names():
    scene = jobs_gantt(events(*LIFE), {"a" * 32: "job 0"})
    assert scene.y.categories == ("job 0", "b" * 8)
    assert "2 jobs, 1 move" in scene.note
    assert scene.x.ends == (0.0, 8.0)
    assert [box.name for box in scene.rectangles if not box.is_faint] == ["one", "two"]


def test_events_are_told_again_and_old_ones_make_way(tmp_path):
    folder = tmp_path / "places" / "hosts"
    folder.mkdir(parents=True)
    noted = EventLog(folder, large=10_000)
    for number in range(2500):
        noted.note("progress", f"{number:032}", "one", iteration=number)
    sizes = [path.stat().st_size for path in sorted(folder.iterdir())]
    assert len(sizes) == 2
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"time": 1, "ki')  # of a driver that was killed
    found = read_events(tmp_path)
    assert [event.iteration for event in found] == list(range(1000, 2500))
    assert read_events(tmp_path, [f"{2499:032}"])[0].host == "one"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_events_are_neither_read_from_nor_written_to_what_is_no_plain_file(tmp_path, make):
    folder = tmp_path / "places" / "hosts"
    folder.mkdir(parents=True)
    make(folder / "events.jsonl")
    EventLog(folder).note("up", host="a")
    with pytest.raises(NotFoundError):
        read_events(tmp_path)


def test_events_are_not_written_through_a_link(tmp_path):
    (tmp_path / "victim").write_text("keep me")
    (tmp_path / "events.jsonl").symlink_to(tmp_path / "victim")
    EventLog(tmp_path).note("up", host="a")
    assert (tmp_path / "victim").read_text() == "keep me"


def test_lines_that_are_no_events_are_left_out(tmp_path):
    folder = tmp_path / "places" / "hosts"
    folder.mkdir(parents=True)
    good = '{"time": 1.5, "kind": "up", "host": "a"}'
    wrong = (
        "[" * 10**5,
        "7",
        '{"time": "x", "kind": "up"}',
        '{"time": 1, "kind": "up", "digest": 5}',
    )
    (folder / "events.jsonl").write_text("\n".join([*wrong, good]))
    assert [event.host for event in read_events(tmp_path)] == ["a"]
    assert read_events(tmp_path, ["ab"]) == []


def test_the_modules_of_the_guide_do_what_it_says(tmp_path):
    guide = (Path(__file__).parents[3] / "docs" / "hosts.md").read_text()
    code = guide.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "lab.py").write_text(code.replace("datetime.now().hour", "12"))
    chosen, evaluated = (f"{tmp_path}/lab.py:{name}" for name in ("Nights", "Residual"))
    hosts = [{"tags": "desk", "speed": 9.0}, {"tags": "", "speed": 1.0}]
    assert load_selector(chosen)(JobRequirements(), hosts, ()) == 1
    assert load_selector(chosen)(JobRequirements(), hosts[:1], ()) is None
    found = ProgressProfile()
    found.update("".join(f'{{"residual": {i}}}\n' for i in range(5)), 9)
    assert load_evaluator(evaluated)(found, HostsOptions()) == "the residual grows"
    assert load_evaluator(evaluated)(ProgressProfile(), HostsOptions()) == ""
    assert isinstance(load_plugin(f"{tmp_path}/lab.py:Scratch"), Staging)


def test_lines_of_a_profile_that_make_no_sense_say_nothing():
    profile = ProgressProfile()
    lines = ["[" * 10**5, '{"seconds": ' + "9" * 10**5 + "}", "[1]", "{", '{"seconds": Infinity}']
    profile.update("\n".join(lines), 1)
    profile.update('{"iteration": true, "seconds": "1", "of": 1.5}', 2)
    assert (profile.seconds, profile.iteration, profile.of) == ([], 2, None)
