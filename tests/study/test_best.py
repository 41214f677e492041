"""The best points say how many repeats they are the mean of."""

import math
from dataclasses import replace

import pytest

from record.reference import ReferenceRepository
from tests.query.conftest import fill
from zenturio.errors import InputError
from zenturio.query import results
from zenturio.query.aggregates import exact_aggregate
from zenturio.record.open import open_repository
from zenturio.study.best_points import best


@pytest.fixture
def repository(tmp_path):
    found = open_repository(tmp_path / "zenturio.db")
    yield found
    found.close()


def repeats(n, values):
    """A row for each of *values*; what is a text is a status."""
    return [
        {"n": n, "index": n, "repeat": repeat}
        | ({"status": value} if isinstance(value, str) else {"y": value})
        for repeat, value in enumerate(values, 1)
    ]


def ranked(repository, rows, count=9):
    fill(repository, "s", {"n": "int"}, {"y": "real"}, rows)
    return best(repository, "s", count, "MAXIMIZE y")


def test_repeats_that_are_used_ok_and_tried_are_counted(repository):
    rows = [
        *repeats(1, [9.0, math.nan, "failed", "timeout", math.inf]),
        *repeats(2, [5.0, 7.0, 6.0]),
        *repeats(3, ["failed", "failed"]),
    ]
    found = ranked(repository, rows)
    counts = [
        (each.values["n"], each.scores["y"], each.used, each.ok, each.tried)
        for each in found.points
    ]
    assert counts == [(1, 9.0, 1, 3, 5), (2, 6.0, 3, 3, 3)]
    assert found.of == 3


def test_a_point_with_failures_does_not_win_in_silence(repository):
    found = ranked(repository, [*repeats(1, [9.0, "failed", math.nan]), *repeats(2, [5.0])])
    assert found.notes == (
        "row 1 counts 1 of 3 repeats: 1 did not succeed and 1 have no number for the goal",
    )
    assert ranked(ReferenceRepository(), repeats(1, [1.0, 2.0])).notes == ()


def test_the_mean_is_that_of_results(repository):
    values = {1: [1e200, 1.0, -1e200], 2: [1e308, 1e308], 3: [0.1, 0.2, -0.3], 4: [0.1] * 10}
    found = ranked(repository, [row for n, each in values.items() for row in repeats(n, each)])
    shown = {row["n"]: row["mean(y)"] for row in results(repository, "s", by=["n"]).dicts()}
    assert {each.values["n"]: each.scores["y"] for each in found.points} == pytest.approx(
        shown, rel=1e-12
    )
    assert [each.values["n"] for each in found.points] == [2, 1, 4, 3]


def test_points_of_equal_score_stand_in_the_order_of_the_space(repository):
    rows = [row for n in (3, 1, 2) for row in repeats(n, [1.0])]
    assert [each.values["n"] for each in ranked(repository, rows, 2).points] == [1, 2]


def test_the_objective_of_a_study_is_its_own_unless_another_is_named(repository):
    fill(repository, "s", {"n": "int"}, {"y": "real"}, repeats(1, [3.0]) + repeats(2, [5.0]))
    with pytest.raises(InputError, match="study s has no objective"):
        best(repository, "s", 1)
    goals = (
        {"direction": "maximize", "expression": "y"},
        {"direction": "minimize", "expression": "n"},
    )
    repository.open("s", replace(repository.definition("s"), goals=goals[:1]))
    assert [point.values["n"] for point in best(repository, "s", 1).points] == [2]
    repository.open("s", replace(repository.definition("s"), goals=goals))
    assert sorted(point.values["n"] for point in best(repository, "s", 9).points) == [1, 2]
    assert [p.values["n"] for p in best(repository, "s", 1, "MINIMIZE y").points] == [1]


def test_another_aggregate_of_the_repeats_ranks_the_points(repository):
    # One repeat out of line spoils the mean of the point that is usually better.
    rows = [*repeats(1, [9.0, 9.0, -90.0]), *repeats(2, [5.0, 5.0, 5.0])]
    assert [each.values["n"] for each in ranked(repository, rows).points] == [2, 1]
    found = best(repository, "s", 9, "MAXIMIZE y", reduce=exact_aggregate("median"))
    assert [(each.values["n"], each.scores["y"]) for each in found.points] == [(1, 9.0), (2, 5.0)]
    # Three repeats have no interval of a median, so that no point can be ranked by it.
    assert not best(repository, "s", 9, "MAXIMIZE y", reduce=exact_aggregate("median_low")).points
