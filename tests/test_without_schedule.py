"""Scheduling is an application: without its folder and its entry points, everything else works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import zenturio
from entry_points import entry_points_text

PACKAGE = Path(zenturio.__file__).parent
HOME_PAGE = """\
import threading, time, requests
from pathlib import Path
from zenturio.show.portal.server import PortalServer
from zenturio.show.portal.state import PortalSettings

server = PortalServer(PortalSettings(db=".zenturio/zenturio.db", folder=Path.cwd()))
threading.Thread(target=server.run, daemon=True).start()
while not server.is_started:
    time.sleep(0.005)
print(requests.get(server.link(), timeout=60).text)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package without zenturio/schedule, and a project with a study that was run."""
    root = tmp_path_factory.mktemp("without")
    shutil.copytree(PACKAGE, root / "zenturio", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(root / "zenturio" / "schedule")
    metadata = root / "zenturio-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: zenturio\nVersion: 0.1.0\n")
    points = entry_points_text(PACKAGE.parent / "pyproject.toml", without="zenturio.schedule")
    (metadata / "entry_points.txt").write_text(points)
    (root / "project").mkdir()
    zen(root, "init", "shell")
    assert "6 ok" in zen(root, "run", "first.sh")
    return root


def python(root, *words, code=0):
    done = subprocess.run(
        [sys.executable, "-P", *words],
        cwd=root / "project",
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def zen(root, *words, code=0):
    return python(root, "-m", "zenturio", *words, code=code)


def test_the_copy_has_no_scheduling(copy):
    script = "import zenturio, importlib.util as u; print(u.find_spec('zenturio.schedule'))"
    assert python(copy, "-c", script).strip() == "None"


def test_a_study_runs_and_its_results_are_shown(copy):
    assert "lines" in zen(copy, "results", "first")


def test_a_chart_is_drawn(copy):
    zen(copy, "plot", "first", "-o", "chart.svg")
    assert (copy / "project" / "chart.svg").read_text(encoding="utf-8").lstrip().startswith("<")


@pytest.mark.slow
def test_the_home_page_of_the_portal_lists_the_study(copy):
    assert "first" in python(copy, "-c", HOME_PAGE)


def test_the_help_does_not_offer_the_verbs_of_workflows(copy):
    assert "Workflows" not in zen(copy, "--help")
    assert "No such command 'schedule'" in zen(copy, "schedule", "x", code=2)


def test_the_package_itself_offers_them():
    done = subprocess.run(
        [sys.executable, "-m", "zenturio", "--help"], capture_output=True, text=True, check=True
    )
    assert "Workflows" in done.stdout
