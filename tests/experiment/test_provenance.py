"""Where results come from."""

import json
import subprocess
from datetime import datetime, timedelta

import pytest

from needs import needs
from zenturio.experiment.provenance import cores, git, host, memory, provenance


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
    found = git(repository)
    assert len(found["commit"]) == 40
    assert (found["branch"], found["dirty"]) == ("main", False)


def test_an_edited_file_makes_it_dirty_and_a_new_one_does_not(repository):
    (repository / "new").write_text("")
    assert git(repository)["dirty"] is False
    (repository / "a.c").write_text("int b;")
    assert git(repository)["dirty"] is True


def test_before_the_first_commit_there_is_none(tmp_path):
    needs("git")
    _git(tmp_path, "init", "-b", "main")
    assert git(tmp_path) == {"commit": None, "branch": "main", "dirty": False}


def test_outside_of_a_repository_there_is_nothing_to_say(tmp_path):
    assert git(tmp_path) is None
    assert git(tmp_path / "not there") is None


def test_without_git_there_is_nothing_to_say(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git(tmp_path) is None


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
    found = host()
    assert found["cores"] == cores() >= 1
    assert found["memory"] == memory() > 2**20
    assert all(found[name] for name in ("name", "cpu", "arch", "os", "kernel"))
