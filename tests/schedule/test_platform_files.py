"""Platform files, and logs of clusters as the load of machines."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.schedule.test_formats import DATA
from zenturio.schedule.formats.files import read_platform, write_platform
from zenturio.schedule.formats.swf import SwfJobs, load_steps, read_swf
from zenturio.schedule.model.platform import LoadStep, NetworkLink, Platform, PlatformMachine

GRID = """
name = "grid"

[[machine]]
name = "fast"
count = 12
speed = 3.0
cores = 4
memory = "4GB"
site = "innsbruck"
tags = ["gpu", "big"]
cost = 0.1
load = [[0, 1.0], [3600, 0.5], [7200, 0]]

[[machine]]
name = "slow"
site = "linz"

[[link]]
between = ["innsbruck", "linz"]
bandwidth = "20MB"
latency = "5ms"

[[link]]
between = ["innsbruck"]
bandwidth = 1e9

[default]
bandwidth = 1e6
"""


def test_a_platform_file_says_machines_links_and_what_is_common(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    found = read_platform(str(tmp_path / "grid.toml"))
    assert [each.name for each in found.machines] == [f"fast{i:02}" for i in range(1, 13)] + [
        "slow"
    ]
    assert found.machines[0] == PlatformMachine(
        "fast01", 3.0, 4, 4e9, "innsbruck", frozenset({"gpu", "big"}), 0.1,
        (LoadStep(0, 1), LoadStep(3600, 0.5), LoadStep(7200, 0)),
    )  # fmt: skip
    assert found.machines[-1] == PlatformMachine("slow", site="linz")
    assert found.bandwidth.tolist() == [[1e9, 20e6], [20e6, 1e6]]
    assert found.latency.tolist() == [[0, 0.005], [0.005, 0]]


def test_a_platform_without_a_name_is_named_as_its_file(tmp_path):
    (tmp_path / "grid.toml").write_text("[[machine]]\nname = 'a'\n")
    assert read_platform(str(tmp_path / "grid.toml")).name == "grid"


def test_identical_machines_have_no_file():
    found = read_platform("identical:12")
    assert (len(found), {each.speed for each in found.machines}) == (12, {1.0})


def test_the_grid_of_2005_has_314_machines_at_four_sites():
    found = read_platform("grid-2005")
    speeds = [each.speed for each in found.machines]
    assert (len(found), len(found.sites)) == (314, 4)
    assert (speeds.count(3.0), max(speeds)) == (16, 3.0)
    assert sum(each.speed == 0.7 and each.site == "vienna" for each in found.machines) == 64
    myrinet = found.bandwidth[found.sites.index("vienna"), found.sites.index("vienna")]
    assert myrinet == found.bandwidth.max()


def test_machines_of_a_trace_and_of_a_workflow_are_a_platform(tmp_path):
    assert len(read_platform(str(DATA / "pegasus.json"))) == 1
    (tmp_path / "p.json").write_text('{"machines": [{"name": "m", "count": 3}]}')
    assert [m.name for m in read_platform(str(tmp_path / "p.json")).machines] == ["m1", "m2", "m3"]


words = st.text(st.characters(codec="utf-8"), max_size=5)
steps = st.lists(st.floats(0, 1e9), unique=True, max_size=4).flatmap(
    lambda times: st.tuples(
        *[st.builds(LoadStep, st.just(time), st.floats(0, 1)) for time in sorted(times)]
    )
)
machines = st.builds(
    PlatformMachine, words, st.floats(1e-9, 1e9), st.integers(1, 999), st.floats(1, 1e15) | st.just(np.inf),
    words, st.frozensets(words, max_size=3), st.floats(0, 1e6), steps,
)  # fmt: skip


@settings(
    deadline=None,
    max_examples=settings.default.max_examples * 60 // 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    words,
    st.lists(machines, min_size=1, max_size=5, unique_by=lambda each: each.name),
    st.floats(1e-3, 1e12),
    st.floats(0, 1e3),
)
def test_a_platform_is_what_it_was_when_written_and_read(tmp_path, name, given_, wide, late):
    sites = list(dict.fromkeys(each.site for each in given_))
    links = tuple(NetworkLink(sites[0], site, wide, late) for site in sites)
    platform = Platform(name, tuple(given_), links, NetworkLink("", "", wide * 2, late))
    write_platform(platform, tmp_path / "p.toml")
    found = read_platform(str(tmp_path / "p.toml"))
    assert (found.name, found.machines) == (platform.name, platform.machines)
    assert (found.links, found.default) == (platform.links, platform.default)


LOG = """\
; Version: 2.2
; MaxProcs: 10
; UnixStartTime: 0
1  0 10 100  4 -1 -1  4 200 -1 1 1 1 1 1 -1 -1 -1
2 20 -1  50 -1 -1 -1  6  60 -1 1 1 1 1 1 -1 -1 -1
3 30  0   0  4 -1 -1  4  60 -1 0 1 1 1 1 -1 -1 -1
"""


def test_a_log_says_when_jobs_ran_and_on_how_many_processors(tmp_path):
    (tmp_path / "log.swf").write_text(LOG)
    jobs = read_swf(tmp_path / "log.swf")
    assert (jobs.start.tolist(), jobs.end.tolist()) == ([10, 20], [110, 70])
    assert (jobs.processors.tolist(), jobs.size) == ([4, 6], 10)


def test_a_log_leaves_a_share_and_never_none(tmp_path):
    (tmp_path / "log.swf").write_text(LOG)
    jobs = read_swf(tmp_path / "log.swf")
    assert load_steps(jobs) == (
        LoadStep(0, 1),
        LoadStep(10, 0.6),
        LoadStep(20, 0.1),
        LoadStep(70, 0.6),
        LoadStep(110, 1),
    )
    assert load_steps(jobs, start=30) == (LoadStep(0, 0.1), LoadStep(40, 0.6), LoadStep(80, 1))
    assert load_steps(jobs, size=20)[2] == LoadStep(20, 0.5)


def test_a_machine_of_a_platform_file_can_carry_the_load_of_a_log(tmp_path):
    (tmp_path / "log.swf").write_text(LOG)
    (tmp_path / "grid.toml").write_text("[[machine]]\nname = 'a'\nload = 'log.swf'\n")
    (machine,) = read_platform(str(tmp_path / "grid.toml")).machines
    assert machine.load == load_steps(read_swf(tmp_path / "log.swf"))


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 5)), min_size=1, max_size=8
    )
)
def test_the_share_is_what_counting_the_running_jobs_leaves(rows):
    start, run, processors = (np.array(column) for column in zip(*rows, strict=True))
    jobs = SwfJobs(
        start.astype(float), (start + run).astype(float), processors.astype(np.int64), 16
    )
    found = load_steps(jobs)
    for second in range(80):
        busy = sum(p for s, r, p in rows if s <= second < s + r)
        share = [step.share for step in found if step.time <= second][-1]
        assert share == pytest.approx(max(1 - busy / 16, 1 / 16))
