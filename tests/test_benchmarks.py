"""Each benchmark starts and comes to its end, at its smallest size."""

import ast
import importlib
import json
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from zenturio.query import study_frame
from zenturio.record import columnar_copy
from zenturio.record.open import open_repository
from zenturio.show.portal.pages import study as study_pages

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALLEST = {
    "application_files": "--sizes 300 600 --parameters 10 20",
    "counts": "",
    "databases": "--runs 4 --drivers 2 --studies 10 --size 2000 --rounds 1",
    "driving": "--runs 4 --rounds 1 --sizes 4",
    "engines": "--seeds 2 --problems smooth tiles-large --trials 12 --here --picture {tmp}/e.png",
    "ga": "--seeds 2",
    "growth": "--counted --sizes 24000,48000,96000 --studies 100,200,400 --copy-from 1",
    "heft": "--quick",
    "identity": "--sizes 3 100 --rounds 1",
    "islands": "--evaluations 400 --islands 3 --exchanges 1",
    "launch": "--runs 4 --rounds 1",
    "long_runs": "--sizes 10 --inline 10 --rounds 1",
    "luck": "--problems tiles-small --seeds 2 --trials 10",
    "layout": "--size 1000 --batch 500 --sqlite {tmp}",
    "moldable": "--seeds 2",
    "online": "--seeds 1 --times 1",
    "places": "--runs 4 --rounds 1 --no-peers",
    "plans": "--only data --seeds 2 --solver-seconds 1 --no-peers",
    "portal": "--size 1000 --trials 0 --tabs 2 --runs 4 --rounds 1",
    "race": "--seeds 2 --trials 8 --repeats 4",
    "results": "--size 1000",
    "scale": "--experiments 1000 --workers 10 --seconds 1 --rows 1000 --runs 64",
    "schedule": "--rounds 1 --tasks 100",
    "schedule_quality": "--only small --most 1",
    "slurm": "--runs 4 --rounds 1",
    "space": "--only dedispersion",
    "ssh": "--commands 4 --rounds 1",
    "start": "--rounds 1",
    "team": "--studies 4 --slots 2 --windows 0.3 --quiet",
    "sweep": "--runs 4 --rounds 1 --peers xargs",
    "verdicts": "--replicates 10 --rounds 0 --tries 1 --no-peers",
    "warm_start": "--seeds 2 --trials 8",
    "whole_commands": "--none",
    "workflows": "--tasks 1000 --rounds 1",
}
"""Options of the smallest run of each; quartiles need two seeds."""
INSTALLS_PEERS = {"ga", "heft", "moldable", "space"}


def has_network():
    try:
        socket.create_connection(("pypi.org", 443), 10).close()
    except OSError:
        return False
    return True


def test_each_benchmark_has_a_smallest_size():
    assert set(SMALLEST) == {path.stem for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_imports_of_the_package_is_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "zenturio":
            module = importlib.import_module(node.module)
            for each in node.names:
                if not hasattr(module, each.name):
                    importlib.import_module(f"{node.module}.{each.name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_at_its_smallest_size(name, tmp_path):
    if name in INSTALLS_PEERS and not has_network():
        pytest.skip("its peers come from PyPI, which cannot be reached")
    options = SMALLEST[name].format(tmp=tmp_path).split()
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *options],
        cwd=FOLDER.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_opening_a_study_and_a_list_grow_as_promised(tmp_path, monkeypatch):
    """Questions whose cost is by the number of studies; `growth` above asks all."""
    monkeypatch.syspath_prepend(str(FOLDER))
    growth = importlib.import_module("growth")
    sizes = [20, 80, 320]
    for size in sizes:
        growth.fill_studies(tmp_path / f"{size}.db", size)
    for question in growth.QUESTIONS:
        if question.by == "studies" and "steps" in question.promises:
            work = []
            for size in sizes:
                with growth.counting() as counts:
                    question.ask(tmp_path / f"{size}.db")
                work.append(dict(counts))
            for what in ("steps", "statements"):
                exponent = growth.exponent(sizes, [count[what] for count in work])
                assert exponent <= question.promises[what] + 0.01, (question.name, what)


def sample_of_100(path):
    with closing(open_repository(path)) as repository:
        return study_frame(repository, "big", most=100)


def test_pages_of_the_portal_and_samples_grow_as_promised(tmp_path, monkeypatch):
    """What reads all results of a large study does so in its copy, and an experiment nothing else."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(columnar_copy, "COPY_ROWS", 1)
    monkeypatch.setattr(columnar_copy, "SEGMENT_ROWS", 512)
    monkeypatch.setattr(study_pages, "SMALL_STUDY", 0)
    growth = importlib.import_module("growth")
    sizes = [512, 4096]
    for size in sizes:
        growth.fill(tmp_path / f"{size}.db", size)
    questions = {q.name: (q.ask, q.promises) for q in growth.QUESTIONS if "portal:" in q.name}
    questions["a sample"] = sample_of_100, {"steps": 0.2, "statements": 0.1}
    for name, (ask, promises) in questions.items():
        work = []
        for size in sizes:
            ask(tmp_path / f"{size}.db")  # makes the copy
            with growth.counting() as counts:
                ask(tmp_path / f"{size}.db")
            work.append(dict(counts))
        for what in promises.keys() - {"copied"}:
            exponent = growth.exponent(sizes, [count[what] for count in work])
            # The last row of each segment of the copy is looked up: a few steps for 512 results.
            assert exponent <= promises[what] + 0.3, (name, what, work)


@pytest.mark.parametrize("name", ["application_files", "growth", "whole_commands"])
def test_the_tables_of_the_page_are_what_the_programs_measured(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    program, growth = importlib.import_module(name), importlib.import_module("growth")
    page = (FOLDER.parent / "docs" / "scale.md").read_text()
    _, text, after = growth.marked(page, program.MARK)
    assert after.startswith("<!-- ")
    assert text == program.table(json.loads(program.KEPT.read_text()))
