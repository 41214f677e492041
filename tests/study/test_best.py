"""The best points say of how many repeats their scores are made."""

import math
import statistics
from dataclasses import replace

import pytest

from record.reference import ReferenceRepository
from tests.query.conftest import fill
from zenturio.errors import ExpressionError, InputError
from zenturio.query import results
from zenturio.query.aggregates import exact_aggregate
from zenturio.query.statistics import student
from zenturio.query.study_table import numbers_where
from zenturio.record.open import open_repository
from zenturio.show.python_api import Study
from zenturio.study.best_points import MEAN, MEDIAN, NonNumericScores, RepeatAggregate, best


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
        "row 1 counts 1 of 3 repeats: 1 did not succeed and 1 has no number for the objective",
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


def test_a_study_without_parameters_has_one_point(repository):
    for each in (repository, ReferenceRepository()):
        fill(each, "s", {}, {"y": "real"}, [{"repeat": 1, "y": 2.0}, {"repeat": 2, "y": 4.0}])
        (point,) = best(each, "s", 9, "MAXIMIZE y").points
        assert (dict(point.values), point.scores["y"], point.used) == ({}, 3.0, 2)


def test_results_whose_metric_is_a_text_are_counted(repository):
    rows = [{"n": n, "index": n, "y": text} for n, text in enumerate(("high", "low", "low"), 1)]
    for each in (repository, ReferenceRepository()):
        fill(each, "s", {"n": "int"}, {"y": "str"}, rows)
        found = best(each, "s", 9, "MAXIMIZE y")
        assert (found.points, found.texts) == ((), NonNumericScores(3, "y", "high"))


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
    found = best(repository, "s", 9, "MAXIMIZE y", aggregate=MEDIAN)
    assert [(each.values["n"], each.scores["y"]) for each in found.points] == [(1, 9.0), (2, 5.0)]
    # Three repeats have no interval of a median, so that no point can be ranked by it.
    lower = RepeatAggregate("median_low", exact_aggregate("median_low"))
    assert not best(repository, "s", 9, "MAXIMIZE y", aggregate=lower).points


def test_times_are_ranked_by_their_median_and_its_interval(repository):
    values = {
        1: [5.0, 5.1, 5.2, 5.3, 5.4, 90.0],
        2: [6.0, 6.1, 6.2, 6.3, 6.4, 6.5],
        3: [7.0] * 3,
        4: [5.05, 5.15, 5.25, 5.35, 5.45, 5.55, 5.65, 5.75, 5.85],
    }
    rows = [row for n, each in values.items() for row in repeats(n, each)]
    fill(repository, "s", {"n": "int"}, {"y": "real ms"}, rows)
    found = best(repository, "s", 9, "MINIMIZE y")
    assert found.words == "minimize y (median of repeats)"
    table = results(repository, "s", by=["n"], aggregates=["median", "median_low", "median_high"])
    shown = {
        row["n"]: (row["median(y)"], row["median_low(y)"], row["median_high(y)"])
        for row in table.dicts()
    }
    intervals, alike = found.certainty(student)
    ranked = [(point.values["n"], point.scores["y"]) for point in found.points]
    assert ranked == [(1, 5.25), (4, 5.45), (2, 6.25), (3, 7.0)]
    for (n, score), interval in zip(ranked, intervals, strict=True):
        assert (score, *(interval or (None, None))) == shown[n]
    # What has too few repeats for an interval may be anywhere; point 1 reaches up to 90.
    assert alike == [True, True, True, True]
    assert found.points[0].deviations == {}
    by_mean = best(repository, "s", 9, "MINIMIZE y", aggregate=MEAN)
    assert [point.values["n"] for point in by_mean.points] == [4, 2, 3, 1]
    assert by_mean.points[0].deviations == {"y": pytest.approx(statistics.stdev(values[4]))}
    assert by_mean.noise is not None


def test_each_of_several_goals_has_its_own_aggregate(repository):
    rows = [row | {"z": row["y"]} for row in repeats(1, [1.0, 2.0, 6.0])]
    fill(repository, "s", {"n": "int"}, {"y": "real s", "z": "real J"}, rows)
    (point,) = best(repository, "s", 1, "MINIMIZE y, MINIMIZE z").points
    assert point.scores == {"y": 2.0, "z": 3.0}
    assert list(point.deviations) == ["z"]
    # A time in an expression is ranked by the mean, as nobody knows the unit.
    (point,) = best(repository, "s", 1, "MINIMIZE y * 1").points
    assert point.scores == {"y * 1": 3.0}


def test_a_median_of_few_repeats_has_no_interval(repository):
    fill(repository, "s", {"n": "int"}, {"y": "real s"}, repeats(1, [1.0, 2.0]) + repeats(2, [5.0]))
    found = best(repository, "s", 2, "MINIMIZE y")
    assert found.certainty(student) == ([None, None], [])
    assert found.lacks_repeats
    assert not best(repository, "s", 2, "MINIMIZE y", aggregate=MEAN).lacks_repeats


def test_the_best_point_with_one_usable_repeat_has_no_interval_either(repository):
    rows = [*repeats(1, [1.0, math.nan]), *repeats(2, [5.0] * 7)]
    fill(repository, "s", {"n": "int"}, {"y": "real s"}, rows)
    found = best(repository, "s", 2, "MINIMIZE y")
    assert found.certainty(student) == ([None, (5.0, 5.0)], [])
    assert found.lacks_repeats
    fill(repository, "r", {"n": "int"}, {"y": "real s"}, [*repeats(1, [1.0]), *rows[2:]])
    assert best(repository, "r", 1, "MINIMIZE y").lacks_repeats  # others have repeats
    fill(repository, "t", {"n": "int"}, {"y": "real s"}, repeats(1, [1.0]))
    assert not best(repository, "t", 2, "MINIMIZE y").lacks_repeats


@pytest.mark.parametrize("name", ["sum", "count"])
def test_a_point_without_a_score_is_no_best_one_by_any_aggregate(repository, name):
    rows = [*repeats(1, ["failed", math.nan]), *repeats(2, [3.0, 4.0])]
    fill(repository, "s", {"n": "int"}, {"y": "real"}, rows)
    by = RepeatAggregate(name, exact_aggregate(name))
    assert [p.values["n"] for p in best(repository, "s", 9, "MINIMIZE y", aggregate=by).points] == [
        2
    ]


@pytest.mark.parametrize("objective", ["(y)", "`y`"])
def test_a_time_in_parentheses_or_quotes_is_a_time(repository, objective):
    fill(repository, "s", {"n": "int"}, {"y": "real s"}, repeats(1, [1.0, 2.0, 9.0]))
    assert best(repository, "s", 1, f"MINIMIZE {objective}").points[0].scores == {objective: 2.0}


def test_a_frame_of_the_best_points_has_parameters_of_any_name(repository, tmp_path):
    rows = [row | {"used": 7, "interval": 0.5} for row in repeats(1, [1.0, 2.0, 9.0])]
    parameters = {"n": "int", "used": "int", "interval": "real"}
    fill(repository, "s", parameters, {"y": "real s"}, rows)
    study = Study("s", str(tmp_path / "zenturio.db"))
    (row,) = study.best(1, "MINIMIZE y").to_dict("records")
    assert (row["used"], row["interval"], row["y"]) == (7, 0.5, 2.0)
    assert (row["used_"], row["interval_"], row["tried"]) == (3, None, 3)
    with pytest.raises(InputError, match="the 0 best points"):
        study.best(0, "MINIMIZE y")


def test_the_best_of_the_rows_that_meet_a_condition(repository, tmp_path):
    rows = [*repeats(1, [1.0, 9.0]), *repeats(2, [4.0, 5.0]), *repeats(3, ["failed", 6.0])]
    fill(repository, "s", {"n": "int"}, {"y": "real"}, rows)
    study = Study("s", str(tmp_path / "zenturio.db"))
    for where, expected in (
        ("n > 1", {2: 4.5, 3: 6.0}),
        ("y > 4", {1: 9.0, 2: 5.0, 3: 6.0}),
        ("n > 3", {}),
    ):
        found = study.best(9, "MINIMIZE y", where=where)
        assert {row["n"]: row["y"] for row in found.to_dict("records")} == expected
    assert numbers_where(repository, "s", None) is None
    with pytest.raises(ExpressionError, match="unknown name 'm'"):
        study.best(9, "MINIMIZE y", where="m > 1")


def test_a_metric_that_may_be_missing_has_a_substitute(repository):
    rows = [*repeats(1, [7.0]), *repeats(2, [None])]
    fill(repository, "s", {"n": "int"}, {"y": "real"}, rows)
    found = best(repository, "s", 9, "MINIMIZE coalesce(y, 5 * n)").points
    assert [(p.values["n"], *p.scores.values()) for p in found] == [(1, 7.0), (2, 10.0)]
