"""Limits of containers: by files as kernels write them, and by a real group of control where one can be made."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from zenturio.system.machine import CGROUPS, usable_cores, usable_memory

GIGABYTE = 2**30


@pytest.fixture
def tree(tmp_path):
    def write(membership: str, **files: str) -> tuple[Path, Path]:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(path.name.replace("_", ".", 1)).write_text(content + "\n")
        (tmp_path / "cgroup").mkdir(exist_ok=True)
        (tmp_path / "self").write_text(membership)
        return tmp_path / "cgroup", tmp_path / "self"

    return write


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def test_without_limits_it_is_the_machine(tree):
    where = tree("0::/\n", cpu_max="max 100000", memory_max="max")
    assert usable_cores(*where) == 8
    assert usable_memory(*where) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(("quota", "cores"), [("50000", 1), ("150000", 2), ("400000", 4)])
def test_a_quota_of_version_2_counts_at_the_process_s_own_path(tree, quota, cores):
    assert usable_cores(*tree("0::/user/job\n", user__job__cpu_max=f"{quota} 100000")) == cores


def test_the_smallest_limit_on_the_way_up_counts(tree):
    where = tree("0::/a/b\n", a__cpu_max="200000 100000", a__b__cpu_max="300000 100000")
    assert usable_cores(*where) == 2


def test_a_path_of_the_host_is_the_root_within_a_container(tree):
    where = tree("0::/docker/4f1e\n", cpu_max="100000 100000", memory_max=str(GIGABYTE))
    assert usable_cores(*where) == 1
    assert usable_memory(*where) == GIGABYTE


def test_version_1_has_a_hierarchy_for_each_controller(tree):
    groups = "4:memory:/job\n3:cpu,cpuacct:/job\n"
    where = tree(
        groups,
        memory__job__memory_limit_in_bytes=str(GIGABYTE),
        **{
            "cpu,cpuacct__job__cpu_cfs_quota_us": "200000",
            "cpu,cpuacct__job__cpu_cfs_period_us": "100000",
        },
    )
    assert usable_cores(*where) == 2
    assert usable_memory(*where) == GIGABYTE


def test_what_is_no_number_is_no_limit(tree):
    assert usable_cores(*tree("nonsense\n0\n", cpu_max="much")) == 8


def test_half_a_cpu_of_a_real_group_is_one_slot():
    group = CGROUPS / "cpu" / f"zenturio-test-{os.getpid()}"
    quota = "cpu.cfs_quota_us"
    if not (CGROUPS / "cpu" / "cpu.cfs_period_us").exists() and not (CGROUPS / "cpu").is_dir():
        group, quota = CGROUPS / group.name, "cpu.max"
    try:
        group.mkdir()
        (group / quota).write_text("50000")
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no group of control can be made here: {error.strerror}")
    code = "from zenturio.system.machine import usable_cores; print(usable_cores())"
    join = f'echo $$ > {group}/cgroup.procs; exec "$0" -c "$1"'
    try:
        done = subprocess.run(
            ["sh", "-c", join, sys.executable, code], capture_output=True, text=True, check=True
        )
        assert done.stdout == "1\n"
    finally:
        group.rmdir()
