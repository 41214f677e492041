"""Where results come from."""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from needs import needs
from zenturio.experiment.provenance import (
    describe_host,
    git_state,
    host_values,
    provenance,
    tool_version,
)
from zenturio.system.machine import cpu_mhz, cpu_model, system_name, usable_cores, usable_memory


def _git(folder, *words):
    who = ["-c", "user.name=n", "-c", "user.email=e@e"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    needs("git")
    _git(tmp_path, "init", "-b", "main")
    (tmp_path / "a.c").write_text("int a;")
    _git(tmp_path, "add", "a.c")
    _git(tmp_path, "commit", "-m", "begin")
    return tmp_path


def test_a_clean_commit_is_named(repository):
    found = git_state(repository)
    assert len(found["commit"]) == 40
    assert (found["branch"], found["dirty"]) == ("main", False)


def test_an_edited_file_makes_it_dirty_and_a_new_one_does_not(repository):
    (repository / "new").write_text("")
    assert git_state(repository)["dirty"] is False
    (repository / "a.c").write_text("int b;")
    assert git_state(repository)["dirty"] is True


def test_a_branch_that_follows_another_is_named(repository, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    _git(clone, "clone", str(repository), ".")
    assert git_state(clone) == git_state(repository)


def test_before_the_first_commit_there_is_none(tmp_path):
    needs("git")
    _git(tmp_path, "init", "-b", "main")
    assert git_state(tmp_path) == {"commit": None, "branch": "main", "dirty": False}


def test_outside_of_a_repository_there_is_nothing_to_say(tmp_path):
    assert git_state(tmp_path) is None
    assert git_state(tmp_path / "not there") is None


def test_without_git_there_is_nothing_to_say(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path) is None


def test_only_what_is_on_the_list_is_taken_from_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hush@host/db")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    found = provenance()
    assert found["environment"]["OMP_NUM_THREADS"] == "4"
    assert "hush" not in json.dumps(found)


def test_all_of_it_is_json_and_the_time_is_utc_now():
    found = json.loads(json.dumps(provenance()))
    when = datetime.fromisoformat(found["time"])
    assert when.utcoffset() == timedelta(0)
    assert abs(datetime.now(when.tzinfo) - when) < timedelta(minutes=1)


def test_the_host_is_described():
    found = describe_host()
    assert found["cores"] == usable_cores() >= 1
    assert found["memory"] == usable_memory() > 2**20
    assert all(found[name] for name in ("name", "cpu", "arch", "os", "kernel"))


HOSTILE = """
[core]
    fsmonitor = {mark} fsmonitor
    hooksPath = {hooks}
    pager = {mark} pager
    sshCommand = {mark} ssh
[diff]
    external = {mark} diff
[status]
    submoduleSummary = true
[filter "one"]
    clean = {mark} clean
    smudge = {mark} smudge
[filter "a.dotted name"]
    process = {mark} process
    required = true
[include]
    path = more
[extensions]
    partialClone = origin
[remote "origin"]
    url = "ext::{mark} ext"
    uploadpack = {mark} uploadpack
    promisor = true
[protocol "ext"]
    allow = always
"""


@pytest.fixture
def hostile(repository, tmp_path_factory):
    """A repository that was received; the files that its commands leave where they are run."""
    traces = tmp_path_factory.mktemp("traces")
    mark, hooks = traces / "mark.sh", traces / "hooks"
    mark.write_text(f'#!/bin/sh\n: > "{traces}/ran-$1"\ncat\n')
    hooks.mkdir()
    hook = hooks / "post-index-change"
    hook.write_text(f'#!/bin/sh\n: > "{traces}/ran-hook"\n')
    for each in (mark, hook):
        each.chmod(0o755)
    for name in ("b.c", "d.c"):
        (repository / name).write_text("1\n")
    attributes = '*.c filter=one diff=x\nb.c filter=two\nd.c "filter=a.dotted name"\n'
    (repository / ".gitattributes").write_text(attributes)
    _git(repository, "add", ".")
    _git(repository, "commit", "-m", "more")
    config = repository / ".git" / "config"
    config.write_text(config.read_text() + HOSTILE.format(mark=mark, hooks=hooks))
    (repository / ".git" / "more").write_text(f'[filter "two"]\n clean = {mark} included\n')
    for name in ("a.c", "b.c", "d.c"):  # of the same size, so that Git has to read them
        (repository / name).write_text((repository / name).read_text().replace("1", "2"))
        os.utime(repository / name, (1, 1))
    return repository, lambda: sorted(path.name for path in traces.glob("ran-*"))


def test_what_the_configuration_of_a_received_repository_names_is_not_executed(hostile):
    repository, ran = hostile
    assert git_state(repository)["dirty"] is True
    assert ran() == []


def test_a_received_clone_that_lacks_objects_fetches_nothing(hostile):
    repository, ran = hostile
    found = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=repository, capture_output=True, text=True
    )
    tree = found.stdout.strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    git_state(repository)
    assert [name for name in ran() if name != "ran-fsmonitor"] == []


def test_plain_git_does_execute_it_so_that_these_tests_can_fail(hostile):
    repository, ran = hostile
    subprocess.run(["git", "status"], cwd=repository, capture_output=True)
    assert {"ran-fsmonitor", "ran-clean", "ran-included"} <= set(ran())


def test_a_folder_that_looks_like_a_bare_repository_is_not_one(hostile, tmp_path_factory):
    repository, ran = hostile
    folder = tmp_path_factory.mktemp("received")
    shutil.copytree(repository / ".git", folder, dirs_exist_ok=True)
    assert git_state(folder) is None
    assert ran() == []


def test_filters_of_the_user_still_count(repository, tmp_path_factory, monkeypatch):
    own = tmp_path_factory.mktemp("home") / "gitconfig"
    own.write_text('[filter "lower"]\n clean = tr A-Z a-z\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    (repository / ".gitattributes").write_text("*.c filter=lower\n")
    _git(repository, "add", ".")
    _git(repository, "commit", "-m", "more")
    (repository / "a.c").write_text("INT A;")
    os.utime(repository / "a.c", (1, 1))
    assert git_state(repository)["dirty"] is False


def test_of_a_filter_that_cannot_be_switched_off_nothing_is_asked(hostile):
    repository, ran = hostile
    config = repository / ".git" / "config"
    config.write_text(config.read_text().replace("a.dotted name", "a=b"))
    assert git_state(repository) is None
    assert ran() == []


def test_the_state_of_the_folder_is_told_or_that_of_the_present_one(repository, monkeypatch):
    commit = git_state(repository)["commit"]
    monkeypatch.chdir(repository.parent)
    assert provenance(repository)["git"]["commit"] == commit
    assert provenance()["git"] is None
    monkeypatch.chdir(repository)
    assert provenance()["git"]["commit"] == commit


def test_the_command_is_that_which_was_called(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/zen", "run"])
    assert provenance()["command"] == "zen"
    monkeypatch.setattr(sys, "argv", [])
    assert provenance()["command"] == ""


def test_the_cores_are_those_that_this_process_may_use(monkeypatch):
    allowed = {0: {0, 2, 5}}
    monkeypatch.setattr(os, "sched_getaffinity", allowed.__getitem__, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, expected in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert usable_cores() == expected


def test_the_version_of_the_tool_is_that_which_is_installed(monkeypatch):
    assert tool_version() == importlib.metadata.version("zenturio")

    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert tool_version() == "not installed"


def test_the_processor_and_its_rate_are_read_where_the_system_has_them(tmp_path):
    info, cpus = tmp_path / "cpuinfo", tmp_path / "cpu"

    def read():
        return cpu_model(str(tmp_path)), cpu_mhz.__wrapped__(str(tmp_path), cpus)

    assert read() == (platform.processor(), None)
    info.write_text("flags : x\n")
    assert read() == (platform.processor(), None)
    info.write_text("processor : 0\nmodel name : EPYC 7\ncpu MHz : 2450.5\nmodel name : other\n")
    assert read() == ("EPYC 7", 2450.5)
    highest = cpus / "cpu0/cpufreq/cpuinfo_max_freq"
    highest.parent.mkdir(parents=True)
    highest.write_text("3500000\n")
    assert read() == ("EPYC 7", 3500.0)


def test_the_system_is_named_as_its_distribution_names_it(monkeypatch, tmp_path):
    release = tmp_path / "os-release"
    monkeypatch.setattr(platform, "platform", lambda terse: f"terse={terse}")
    assert system_name(release) == "terse=True"
    release.write_text("ID=debian\n")
    assert system_name(release) == "terse=True"
    release.write_text('ID=debian\nPRETTY_NAME="Debian 12"\n')
    assert system_name(release) == "Debian 12"


def test_the_load_of_this_machine_is_that_of_the_last_minute(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 2.5, 3.5))
    assert host_values()["load"] == 1.5
    monkeypatch.delattr(os, "getloadavg")
    assert host_values()["load"] is None
