"""A project that is moved or copied goes on in its new place, and harms nothing in the old one."""

import hashlib
import shutil

import pytest

from show.portal.running_portal import served
from tests.cli.conftest import zen
from zenturio.show.portal.state import PortalSettings
from zenturio.study.overview import opened_repository

PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 1:3 }
#ZEN$ RUN "python3 small.py" TIMEOUT 30s
#ZEN$ OUTPUT "out/*.txt"
#ZEN$ METRIC total FROM "out/a.txt" REGEX "total (\\d+)"
import os
os.mkdir("out")
open("out/a.txt", "w").write(f"total {n * 10}, half {n * 5}")
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "small.py").write_text(PROGRAM)
    zen("run", "small.py", "-j", 1, cwd=folder)
    return folder


def _files(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("zenturio.db-")
    }


def test_a_copy_shows_extracts_and_is_pruned_and_the_original_keeps_every_byte(project, tmp_path):
    copy, before = tmp_path / "copy", _files(project)
    shutil.copytree(project, copy)
    with opened_repository(str(copy / ".zenturio" / "zenturio.db")) as repository:
        digest = next(repository.records("small")).digest
    (kept,) = zen("show", digest, "--json", cwd=copy).facts["artifacts"]
    assert kept["kept"].startswith(str(copy))
    anew = PROGRAM.replace(
        "#ZEN$ OUT", '#ZEN$ METRIC half FROM "out/a.txt" REGEX "half (\\d+)"\n#ZEN$ OUT'
    )
    (copy / "small.py").write_text(anew)
    zen("extract", "small", cwd=copy)
    facts = zen("results", "small", "--json", cwd=copy).facts
    at = [facts["columns"].index(name) for name in ("total", "half")]
    assert sorted([row[i] for i in at] for row in facts["rows"]) == [[10, 5], [20, 10], [30, 15]]
    zen("db", "check", "--artifacts", cwd=copy)
    assert "3 kept files" in zen("prune", "small", "--yes", cwd=copy).out
    assert not [name for name in _files(copy) if "/objects/" in name]
    assert _files(project) == before
    zen("db", "check", "--artifacts", cwd=project)


def test_a_moved_project_serves_the_files_and_runs_nothing_again(project, tmp_path, monkeypatch):
    moved = tmp_path / "moved"
    shutil.move(project, moved)
    summary = zen("run", "small.py", "--json", cwd=moved).facts
    assert (summary["known"], summary["ok"]) == (3, 0)
    with opened_repository(str(moved / ".zenturio" / "zenturio.db")) as repository:
        digest = next(repository.records("small")).digest
    monkeypatch.chdir(moved)
    with served(PortalSettings(None, moved)) as portal:
        assert portal.get(f"/experiment/{digest}/file/0").content.startswith(b"total ")
