"""Tuning an engine, as somebody types it."""

import os

import pytest

from loaded import Program
from tests.cli.conftest import zen
from zenturio.testing.executor import until

COST = """\
import itertools, os, threading
import zenturio as zen

space = zen.Space(x=range(-20, 21), y=range(-20, 21))
calls = itertools.count(1)

def cost(point):
    if next(calls) > int(os.environ.get("SLOW_AFTER", "1000000000")):
        threading.Event().wait()  # until it is killed
    return (point["x"] - 3) ** 2 + abs(point["y"]) + 1
"""
SWEEP = ("tune", "cost.py:cost", "--settings", "population=4:12:4,elite=0:1", "--budget", 30)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "cost.py").write_text(COST)
    return tmp_path


def test_a_setting_is_recommended_with_its_uncertainty(folder):
    told = zen(*SWEEP, "--repeats", 4, cwd=folder)
    assert "study cost_ga: 6 settings x 4 repeats = 24 searches, each of at most 30" in told.out
    for words in ("recommended: population=", "at 95%", "statistically as good", "matters"):
        assert words in told.out
    facts = zen(*SWEEP, "--repeats", 4, "--json", cwd=folder).facts
    assert (facts["known"], facts["ok"]) == (24, 0)
    best = facts["recommended"]
    assert best["low"] <= best["precision"] <= best["high"]
    assert {each["setting"] for each in facts["importance"]} == {"population", "elite"}


def test_the_study_answers_like_any_other(folder):
    zen(*SWEEP, "--repeats", 4, cwd=folder)
    (best,) = zen("best", "cost_ga", "--json", cwd=folder).facts
    recommended = zen(*SWEEP, "--repeats", 4, "--json", cwd=folder).facts["recommended"]
    assert (best["used"], best["ok"], best["tried"]) == (4, 4, 4)
    assert best["scores"]["precision"] == pytest.approx(recommended["precision"])
    grouped = zen("results", "cost_ga", "--by", "population", "--json", cwd=folder).facts
    assert len(grouped["rows"]) == 3
    counted = zen("sql", "SELECT count(*), max(precision) FROM study_cost_ga", "--json", cwd=folder)
    assert counted.facts["rows"] == [[24, 1.0]]
    again = zen("run", ".zenturio/tune/cost_ga.tune", cwd=folder)
    assert "24 cached" in again.out


@pytest.mark.slow
def test_the_file_of_a_study_makes_the_same_searches_by_itself(folder):
    zen(
        "tune",
        "cost.py:cost",
        "--settings",
        "population=4",
        "--repeats",
        2,
        "--budget",
        30,
        cwd=folder,
    )
    wanted = "SELECT seed, best, first, visited, needed, precision FROM study_cost_ga ORDER BY 1"
    before = zen("sql", wanted, "--json", cwd=folder).facts["rows"]
    zen("run", ".zenturio/tune/cost_ga.tune", "--db", "other.db", cwd=folder)
    assert zen("sql", wanted, "--json", "--db", "other.db", cwd=folder).facts["rows"] == before


def test_a_killed_tuning_goes_on(folder):
    arguments = [*SWEEP, "--repeats", 4, "--json"]
    running = Program(None, *arguments, cwd=folder, environment={**os.environ, "SLOW_AFTER": "200"})

    def kept():
        told = zen("sql", "SELECT count(*) FROM study_cost_ga", "--json", cwd=folder, code=None)
        return told.facts["rows"][0][0] if told.code == 0 else 0

    until(lambda: kept() >= 3 or running.poll() is not None)
    running.kill()
    running.communicate()
    facts = zen(*SWEEP, "--repeats", 4, "--json", cwd=folder).facts
    assert 24 > facts["known"] >= 3
    assert facts["known"] + facts["ok"] == 24


def test_what_cannot_be_tuned_is_told(folder):
    for words, diagnostic in [
        (("tune", "cost.py:cots"), "did you mean 'cost'"),
        (("tune", "nothing"), "no file and no study 'nothing'"),
        (("tune", "cost.py:cost", "--settings", "populaton=3"), "did you mean 'population'"),
        (("tune", "cost.py:cost", "--engine", "random"), "nothing to tune"),
        (("tune", "cost.py:cost", "--engine", "gaa"), "gaa"),
        (("tune", "cost.py:cost", "--budget", "much"), "is not a budget"),
    ]:
        told = zen(*words, cwd=folder, code=2)
        assert diagnostic in told.err, told
