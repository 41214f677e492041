"""Hints name a command that works for how zenturio was installed."""

import json
import sys
from pathlib import Path

import pytest

from zenturio import install_hint
from zenturio.install_hint import extra_hint, package_hint

ROOT = Path(__file__).parents[1]
FOLDER = ROOT.as_uri()


class Installed:
    def __init__(self, source):
        self.source = source

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.source and json.dumps(self.source)


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, "'zenturio[schedule]'"),
        ({"url": FOLDER, "dir_info": {}}, f"'{ROOT}[schedule]'"),
        ({"url": FOLDER, "dir_info": {"editable": True}}, f"-e '{ROOT}[schedule]'"),
        ({"url": "file:///no/such/folder", "dir_info": {}}, "'zenturio[schedule]'"),
        (
            {"url": "file:///tmp/zenturio-1-py3-none-any.whl", "archive_info": {}},
            "'zenturio[schedule] @ file:///tmp/zenturio-1-py3-none-any.whl'",
        ),
        (
            {"url": "https://host/zenturio", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'zenturio[schedule] @ git+https://host/zenturio@abc'",
        ),
    ],
)
def test_an_extra_comes_from_where_zenturio_came_from(monkeypatch, tmp_path, source, requirement):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(install_hint, "distribution", lambda _: Installed(source))
    assert extra_hint("schedule").endswith(f"pip install {requirement}") or (
        extra_hint("schedule").endswith(f"--python {sys.executable} {requirement}")
    )


def test_in_the_folder_of_the_source_the_hint_is_short(monkeypatch):
    monkeypatch.chdir(ROOT)
    source = {"url": FOLDER, "dir_info": {}}
    monkeypatch.setattr(install_hint, "distribution", lambda _: Installed(source))
    assert extra_hint("schedule").endswith(" '.[schedule]'")


def test_the_pip_of_another_python_is_not_named(monkeypatch, tmp_path):
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(install_hint, "find_spec", lambda _: object())
    assert package_hint("torch") == f"{sys.executable} -m pip install torch"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert package_hint("torch") == "pip install torch"
    monkeypatch.setattr(install_hint, "find_spec", lambda _: None)
    assert package_hint("torch").startswith("uv pip install --python ")
