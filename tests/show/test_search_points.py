"""What a study visited, and in which order."""

import math
from hashlib import blake2b

import pytest

from zenturio.errors import ExpressionError, InputError
from zenturio.experiment.experiment import Experiment, Outcome, Recipe
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.show.charts.column_charts import chart
from zenturio.show.charts.search_charts import search_points
from zenturio.show.python_api import Study
from zenturio.study.best_points import best

PARAMETERS = (Field("n", "int", "cells"), Field("block-size", "int"), Field("status", "str"))
GOALS = ({"direction": "minimize", "expression": "time"},)


@pytest.fixture
def repository(tmp_path):
    found = open_repository(tmp_path / "zenturio.db")
    yield found
    found.close()


def fill(repository, name, rows, goals=GOALS):
    """A study of *rows*: n, repeat, when it was begun, and its time; none if it failed."""
    definition = StudyDefinition(PARAMETERS, (Field("time", None, "s"),), goals)
    repository.open(name, definition)
    lease = repository.acquire_lease(name, DriverProcess.current(), seconds=600)
    results = []
    for n, repeat, begun, time in rows:
        digest = blake2b(repr((name, n, repeat)).encode(), digest_size=16).hexdigest()
        values = {"n": n, "block-size": 2 * n, "status": f"s{n % 2}"}
        experiment = Experiment(digest, n, repeat, values, (), (), {}, None, Recipe())
        status = "ok" if time is not None else "failed"
        measured = {} if time is None else {"time": time}
        outcome = Outcome(digest, status, "", measured, 1, "kofel", begun, begun + 1)
        results.append((experiment, outcome))
    repository.add_results(name, lease.number, results)
    repository.release_lease(lease)


ROWS = [(5, 1, 10.0, 4.0), (5, 2, 11.0, 6.0), (2, 1, 12.0, None), (2, 2, 13.0, None),
        (9, 1, 8.0, 7.0), (9, 2, 30.0, None)]  # fmt: skip


def test_points_are_numbered_as_they_were_begun_and_are_worth_what_their_repeats_are(repository):
    fill(repository, "one", ROWS)
    table = search_points(repository, ["one"])
    assert list(table["n"]) == [9, 5, 2]
    assert list(table["visit"]) == [1, 2, 3]
    assert list(table["time"])[:2] == [7.0, 5.0]
    assert math.isnan(table["time"][2])
    assert table.attrs["goals"] == ["minimize time"]
    assert table.attrs["units"]["time"] == "s"
    assert (table.attrs["of"], table.attrs["noun"]) == (3, "points")


def test_a_front_is_that_of_the_best_points_where_some_repeats_are_slow(repository):
    goals = (
        {"direction": "minimize", "expression": "time"},
        {"direction": "maximize", "expression": "n"},
    )
    times = {1: (1.0, 1.1, 9.0), 2: (2.0, 2.1, 2.2), 3: (4.0, 4.1, 4.2), 4: (3.0, 3.1, 30.0)}
    rows = [
        (n, repeat, 10.0 * n + repeat, time)
        for n, repeats in times.items()
        for repeat, time in enumerate(repeats, 1)
    ]
    fill(repository, "one", rows, goals)
    ranking = best(repository, "one", 10)
    assert {point.values["n"] for point in ranking.points} == {1, 2, 4}  # by means 2, 3 and 4
    table = search_points(repository, ["one"])
    assert dict(zip(table["n"], table["time"], strict=True)) == {1: 1.1, 2: 2.1, 3: 4.1, 4: 3.1}
    drawn = chart(table, "pareto")
    assert "of repeats: median time, mean n" in repr(drawn)
    front = drawn.panels[0].marks[-1]
    assert sorted(front.x) == [point.scores["time"] for point in ranking.points]
    alone = search_points(repository, ["one"], y="time / 1")
    assert alone["time / 1"][0] == pytest.approx(11.1 / 3)  # no unit, and so a mean as in `best`
    assert alone.attrs["of_repeats"] == "mean of repeats"
    assert best(repository, "one", 1, "MINIMIZE time / 1").points[0].values["n"] == 2


def test_repeats_can_stand_apart_and_keep_the_number_of_their_point(repository):
    fill(repository, "one", ROWS)
    table = search_points(repository, ["one"], apart=True)
    assert list(table["n"]) == [9, 5, 5, 2, 2, 9]
    assert list(table["visit"]) == [1, 2, 2, 3, 3, 1]
    assert (table.attrs["runs"], table.attrs["of"]) == (["repeat"], 6)


def test_a_parameter_may_have_the_name_of_a_fact(repository):
    fill(repository, "one", ROWS)
    assert list(search_points(repository, ["one"])["status"]) == ["s1", "s1", "s0"]


def test_another_objective_is_a_column_by_its_text(repository):
    fill(repository, "one", ROWS)
    table = search_points(repository, ["one"], objective="MAXIMIZE max(time, 6) / n, MINIMIZE n")
    assert table.attrs["goals"] == ["maximize max(time, 6) / n", "minimize n"]
    assert list(table["max(time, 6) / n"])[:2] == [7 / 9, (6 / 5 + 6 / 5) / 2]
    assert list(table["n"][:2]) == [9, 5]


def test_a_formula_that_has_no_value_at_a_point_is_worth_nothing_there(repository):
    fill(repository, "one", ROWS)
    table = search_points(repository, ["one"], objective="MINIMIZE 1 / (n - 9)")
    assert math.isnan(table["1 / (n - 9)"][0])
    assert table["1 / (n - 9)"][1] == -0.25


def test_a_y_keeps_the_direction_of_the_study_and_may_be_any_column(repository):
    fill(repository, "one", ROWS)
    assert search_points(repository, ["one"], y="time").attrs["goals"] == ["minimize time"]
    assert search_points(repository, ["one"], y="n").attrs["goals"] == ["n"]
    assert search_points(repository, ["one"], y="block-size").attrs["goals"] == ["block-size"]
    with pytest.raises(ExpressionError, match="did you mean 'time'"):
        search_points(repository, ["one"], y="tim")


def test_a_condition_leaves_out_visits(repository):
    fill(repository, "one", ROWS)
    table = search_points(repository, ["one"], where="n > 4")
    assert list(table["n"]) == [9, 5]


def test_several_studies_stand_in_one_table(repository):
    fill(repository, "one", ROWS)
    fill(repository, "two", [(1, 1, 5.0, 3.0)])
    table = search_points(repository, ["one", "two"])
    assert list(table["study"]) == ["one"] * 3 + ["two"]
    assert table.attrs["of"] == 4
    drawn = chart(table, "convergence")
    assert drawn.title == "one, two: least time so far"
    assert "median of 2 runs" in drawn.note


def test_studies_with_different_objectives_need_a_common_one(repository):
    fill(repository, "one", ROWS)
    fill(repository, "two", ROWS, ({"direction": "maximize", "expression": "time"},))
    with pytest.raises(InputError, match="have different objectives"):
        search_points(repository, ["one", "two"])
    assert len(search_points(repository, ["one", "two"], objective="MINIMIZE time")) == 6


@pytest.mark.parametrize("rows", [[], [(1, 1, 2.0, None)]])
def test_a_study_without_a_single_number_has_nothing_to_draw(repository, rows):
    fill(repository, "one", rows)
    with pytest.raises(InputError, match="nothing to draw"):
        chart(search_points(repository, ["one"]), "convergence")


def test_a_study_in_python_draws_its_objective(repository):
    fill(repository, "one", ROWS)
    study = Study("one", repository)
    assert study.plot("convergence").title == "one: least time so far"
    assert study.plot("slice", objective="MAXIMIZE n").title == "one: n by block-size"
    assert study.plot("parallel", y="time").counts == "2 of 3 points"
    with pytest.raises(InputError, match="contradict each other"):
        study.plot("slice", y="n", objective="MAXIMIZE n")
