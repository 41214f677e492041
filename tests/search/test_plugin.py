"""The example of an engine in a package of its own, installed as its users would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "engine-plugin"

PROGRAM = """
import json
import zenturio as zen
from zenturio.search import describe, names

description = describe("golden")
search = zen.search(
    zen.Space(n=zen.span(1, 1000)), lambda p: abs(p["n"] - 321), engine="golden", jobs=2
)
best = zen.search(zen.Space(n=zen.span(1, 7)), lambda p: p["n"], "maximize", "golden", share=0.7)
try:
    zen.search(zen.Space(a=[1, 2], b=[1, 2]), lambda p: 1.0, engine="golden")
except zen.ZenError as error:
    refused = str(error)
print(json.dumps({
    "listed": "golden" in names(), "about": description.about,
    "settings": [setting.name for setting in description.settings], "best": dict(search.best.point),
    "count": search.count, "largest": dict(best.best.point), "refused": refused,
}))
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    target = tmp_path_factory.mktemp("plugin")
    python = Path(sys.executable)
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--offline"]
    subprocess.run(
        [python.parent / "uv", *install, "--python", python, "--target", target, EXAMPLE],
        check=True,
        capture_output=True,
    )
    tests = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests"],
        env={"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    done = subprocess.run(
        [python, "-c", PROGRAM],
        env={"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    return {**json.loads(done.stdout), "tests": tests.stdout}


def test_the_engine_is_found_by_its_entry_point(report):
    assert report["listed"]
    assert report["settings"] == ["share"]
    assert report["about"].startswith("Golden section search")


def test_it_finds_the_valley_in_few_trials(report):
    assert report["best"] == {"n": 321}
    assert report["count"] < 25
    assert report["largest"] == {"n": 7}


def test_it_says_what_it_is_not_for(report):
    assert "golden is for one parameter" in report["refused"]


def test_it_keeps_the_promises_of_all_engines(report):
    assert " passed" in report["tests"], report["tests"]
    assert "failed" not in report["tests"], report["tests"]
