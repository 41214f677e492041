"""What a chart says: which values stand where, and what its small print admits."""

import json
import math
import statistics

import numpy as np
import pandas as pd
import pytest

from tests.show.frames import frame
from zenturio.errors import InputError
from zenturio.show.chart import Points
from zenturio.show.charts.column_charts import chart
from zenturio.show.renderers import matplotlib, plotly


def test_a_point_is_the_mean_of_its_repeats_and_its_bar_their_interval():
    table = frame(threads=(2,), sizes=(128, 256))
    (panel,) = chart(table, "line", x="n", y="wtime", aggregate="mean").panels
    (series,) = panel.marks
    repeats = list(table[table["n"] == 128]["wtime"])
    half = 2.77645 * statistics.stdev(repeats) / math.sqrt(5)
    assert series.x == (128.0, 256.0)
    assert series.y[0] == pytest.approx(statistics.mean(repeats))
    assert series.low[0] == pytest.approx(statistics.mean(repeats) - half, rel=1e-5)
    assert series.high[0] == pytest.approx(statistics.mean(repeats) + half, rel=1e-5)


def test_error_bars_can_be_the_deviation_of_the_sample():
    table = frame(threads=(2,), sizes=(128, 256))
    drawn = chart(table, "bar", x="n", y="wtime", errors="std")
    repeats = list(table[table["n"] == 128]["wtime"])
    series = drawn.panels[0].marks[0]
    assert series.high[0] - series.y[0] == pytest.approx(statistics.stdev(repeats))
    assert "bars: standard deviation" in drawn.note


def test_the_small_print_counts_what_is_drawn_of_all():
    table = frame()
    table.loc[3:10, "wtime"] = math.nan
    drawn = chart(table, "line", x="n", y="wtime", colour="threads")
    assert drawn.note == (
        "median of 3 to 5 repeats; no bars: the 95 % interval of the median needs 6 values; "
        "37 of 52 experiments"
    )
    drawn = chart(table, "line", x="n", y="wtime", colour="threads", aggregate="mean")
    assert drawn.note == (
        "mean of 3 to 5 repeats; bars: 95 % interval of the mean; 37 of 52 experiments"
    )
    table = frame(repeats=7)
    table.loc[1:2, "wtime"] = math.nan
    drawn = chart(table, "line", x="n", y="wtime", colour="threads")
    assert "bars: 95 % interval of the median, where 6 values are; " in drawn.note


def test_parameters_that_are_not_shown_are_named_and_are_no_repeats():
    drawn = chart(frame(), "line", x="n", y="wtime")
    assert drawn.note == (
        "median of 15 values that differ in threads: no interval; 45 of 52 experiments"
    )
    assert drawn.panels[0].marks[0].low == ()
    for options in ({"kind": "pie"}, {"errors": "none"}, {"aggregate": "max"}):
        drawn = chart(frame(), **({"kind": "line", "x": "n", "y": "wtime"} | options))
        assert " of 15 values that differ in threads; " in drawn.note


def test_single_values_are_not_called_a_mean():
    drawn = chart(frame(repeats=1), "line", x="n", y="wtime", colour="threads")
    assert drawn.title == "matmul: wtime over n, by threads"
    assert drawn.note == "9 of 16 experiments"


@pytest.mark.parametrize(
    ("aggregate", "reduce", "title"),
    [
        ("median", np.median, "median wtime"),
        ("min", min, "least wtime"),
        ("max", max, "greatest wtime"),
        ("sum", sum, "total wtime"),
        ("std", statistics.stdev, "standard deviation of wtime"),
        ("count", len, "number of experiments over n"),
    ],
)
def test_other_aggregates_are_drawn_without_bars(aggregate, reduce, title):
    table = frame(threads=(2,), sizes=(128,))
    drawn = chart(table, "bar", x="n", y="wtime", aggregate=aggregate)
    series = drawn.panels[0].marks[0]
    assert series.y[0] == pytest.approx(reduce(list(table["wtime"])))
    assert series.low == ()
    assert title in drawn.title


def test_axes_carry_units_and_counts_have_none():
    assert chart(frame(), "line", x="n", y="wtime").y.label == "wtime (s)"
    assert chart(frame(), "bar", x="n", y="wtime", aggregate="count").y.label == "experiments"


def test_numbers_are_ordered_and_texts_stand_as_they_come():
    table = frame(threads=(4, 1, 2), solvers=("gmres", "cg"))
    by_number = chart(table, "line", x="n", y="wtime", colour="threads", facet="solver")
    assert by_number.levels == ("1", "2", "4")
    assert by_number.ordered
    assert [panel.title for panel in by_number.panels] == ["solver = gmres", "solver = cg"]
    by_text = chart(table, "bar", x="threads", y="wtime", colour="solver")
    assert by_text.levels == ("gmres", "cg")
    empty = chart(frame(solvers=("", "cg")), "line", x="n", y="wtime", colour="solver")
    assert empty.levels == ('""', "cg") == tuple(mark.name for mark in empty.panels[0].marks)
    assert not by_text.ordered
    assert by_text.x.categories == ("1", "2", "4")


def test_a_colour_is_the_same_in_every_panel():
    table = frame(solvers=("cg", "gmres"))
    table = table[~((table["solver"] == "cg") & (table["threads"] == 1))]
    panels = chart(table, "line", x="n", y="wtime", colour="threads", facet="solver").panels
    ranks = {panel.title: {each.name: each.rank for each in panel.marks} for panel in panels}
    assert ranks == {
        "solver = cg": {"2": 1, "4": 2},
        "solver = gmres": {"1": 0, "2": 1, "4": 2},
    }


def test_an_inactive_parameter_is_a_level_of_its_own():
    table = pd.DataFrame({"n": [1, 2, 1, 2], "solver": ["cg", "cg", None, None], "y": [1, 2, 3, 4]})
    drawn = chart(table, "line", x="n", y="y", colour="solver")
    assert drawn.levels == ("cg", "(none)")
    assert [series.y for series in drawn.panels[0].marks] == [(1.0, 2.0), (3.0, 4.0)]


def test_nullable_columns_are_drawn_without_their_gaps():
    table = pd.DataFrame(
        {"n": pd.array([1, 2, None], dtype="Int64"), "y": pd.array([1.5, 2.5, 3.5])}
    )
    drawn = chart(table, "line", x="n", y="y")
    assert drawn.panels[0].marks[0].x == (1.0, 2.0)
    assert drawn.note == "2 of 3 experiments, 1 has no n"


def test_infinite_values_are_left_out_and_counted():
    table = pd.DataFrame({"n": [1, 2, 3], "y": [1.0, math.inf, 3.0]})
    assert chart(table, "line", x="n", y="y").note == "2 of 3 experiments"


def test_a_heatmap_has_a_value_for_each_pair_and_gaps_elsewhere():
    table = frame(repeats=2)
    table = table[~((table["n"] == 256) & (table["threads"] == 1))]
    drawn = chart(table, "heatmap", x="threads", y="n", z="wtime")
    grid = drawn.panels[0].marks[0]
    assert (grid.x, grid.y) == (("1", "2", "4"), ("128", "256", "512"))
    assert math.isnan(grid.z[1][0])
    chosen = table[(table["n"] == 512) & (table["threads"] == 4)]["wtime"]
    assert grid.z[2][2] == pytest.approx(chosen.mean())


def test_a_surface_stands_on_numbers():
    grid = chart(frame(), "surface", x="threads", y="n", z="wtime").panels[0].marks[0]
    assert (grid.x, grid.y) == ((1.0, 2.0, 4.0), (128.0, 256.0, 512.0))


def test_a_pie_puts_small_shares_together_and_says_how_many():
    table = pd.DataFrame({"name": list("abcdefghij"), "y": range(1, 11)})
    series = chart(table, "pie", x="name", y="y", aggregate="sum").panels[0].marks[0]
    assert series.x == ("d", "e", "f", "g", "h", "i", "j", "3 others")
    assert series.y == (4, 5, 6, 7, 8, 9, 10, 6)


def test_boxes_hold_all_values():
    table = frame(threads=(2,), sizes=(128, 256))
    series = chart(table, "box", x="n", y="wtime").panels[0].marks[0]
    assert series.x == ("128", "256")
    assert sorted(series.samples[0]) == sorted(table[table["n"] == 128]["wtime"])


def test_a_scatter_of_many_colours_gets_a_scale():
    table = frame(threads=tuple(range(1, 13)))
    drawn = chart(table, "scatter", x="n", y="wtime", colour="threads")
    assert drawn.levels == ()
    assert set(drawn.panels[0].marks[0].shades) == set(range(1, 13))


def test_very_many_points_are_thinned_out_and_that_is_said():
    table = pd.DataFrame({"x": np.arange(50_000), "y": np.arange(50_000) % 7})
    drawn = chart(table, "scatter", x="x", y="y")
    assert len(drawn.panels[0].marks[0].x) == 16_667
    assert "16,667 points drawn, one of every 3" in drawn.note


def test_parallel_axes_are_the_parameters_that_vary_and_then_the_metric():
    strands = chart(frame(solvers=("cg",)), "parallel", y="gflops").panels[0].marks[0]
    assert [axis.label for axis in strands.axes] == ["n", "threads", "gflops (GFLOP/s)"]
    assert len(strands.columns[0]) == 45
    with_text = chart(frame(), "parallel", y="wtime", axes=("solver",)).panels[0].marks[0]
    assert with_text.axes[0].categories == ("cg",)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("lines", {"x": "n", "y": "wtime"}, "there is no chart kind 'lines'"),
        ("line", {"x": "N", "y": "wtime"}, "no column 'N'"),
        ("line", {"x": "n"}, "a line chart needs a column for its y"),
        ("heatmap", {"x": "n", "y": "threads"}, "needs a column for its z"),
        ("line", {"x": "n", "y": "solver"}, "'solver' holds text"),
        ("line", {"x": "n", "y": "wtime", "aggregate": "avg"}, "no aggregate is named 'avg'"),
        ("line", {"x": "n", "y": "wtime", "log": "q"}, "there is no axis 'q'"),
        ("bar", {"x": "n", "y": "wtime", "log": "x"}, "cannot be logarithmic"),
        (
            "line",
            {"x": "n", "y": "wtime", "aggregate": "min", "errors": "std"},
            "need the aggregate mean",
        ),
        ("line", {"x": "n", "y": "wtime", "colour": "gflops"}, "45 values; a chart can show 20"),
        ("line", {"x": "n", "y": "zero", "log": "y"}, "'zero', which goes down to 0"),
        ("pie", {"x": "n", "y": "loss", "aggregate": "sum"}, "values must not be negative"),
        ("pie", {"x": "n", "y": "wtime", "colour": "solver"}, "the colours of a pie"),
        ("heatmap", {"x": "n", "y": "threads", "z": "wtime", "colour": "n"}, "are its z"),
        ("surface", {"x": "n", "y": "one", "z": "wtime"}, "two values of x and of y"),
        ("parallel", {"y": "wtime", "facet": "n"}, "a parallel chart has no facets"),
        ("line", {"x": "n", "y": "void"}, "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_says_why(kind, options, message):
    table = frame()
    table = table.assign(zero=0.0, loss=-1.0, one=1, void=math.nan)
    with pytest.raises(InputError, match=message):
        chart(table, kind, **options)


def test_groups_without_a_number_are_left_out_and_counted():
    table = frame(threads=(2,), sizes=(128, 256))
    table = table[(table["n"] == 128) | (table["repeat"] == 1)]  # one value has no deviation
    drawn = chart(table, "bar", x="n", y="wtime", aggregate="std")
    assert drawn.panels[0].marks[0].x == ("128",)
    assert drawn.note.startswith("no standard deviation of wtime for 1 of 2 groups; ")
    with pytest.raises(InputError, match="the standard deviation of wtime is nowhere a number"):
        chart(table[table["repeat"] == 1], "line", x="n", y="wtime", aggregate="std")


def test_what_is_too_large_for_an_axis_has_no_place_on_it():
    table = frame(threads=(2,), sizes=(128, 256))
    table.loc[0, "wtime"] = 1.7e308
    drawn = chart(table, "scatter", x="n", y="wtime")
    assert drawn.y.ends[1] < 1
    assert drawn.note.endswith("9 of 17 experiments")
    drawn = chart(table, "bar", x="n", y="wtime")  # the median has one
    assert drawn.panels[0].marks[0].x == ("128", "256")
    assert drawn.note.endswith("10 of 17 experiments")
    table.loc[0, "wtime"] = 1e200  # its square is infinite
    drawn = chart(table, "bar", x="n", y="wtime", aggregate="var")
    assert drawn.panels[0].marks[0].x == ("256",)


def test_an_interval_that_is_too_large_for_an_axis_is_not_drawn():
    table = frame(threads=(2,), sizes=(128, 256), repeats=7)
    table.loc[0, "wtime"] = 1.7e308
    mark = chart(table, "line", x="n", y="wtime").panels[0].marks[0]
    assert [math.isnan(high) for high in mark.high] == [True, False]
    assert max(mark.y) < 1


def test_a_value_outside_of_its_interval_has_a_bar_on_one_side():
    mark = Points("", 0, x=(1, 2), y=(3.5, 0.5), low=(1.0, 1.0), high=(2.0, 4.0))
    assert matplotlib._error_lengths(mark).tolist() == [[2.5, 0.0], [0.0, 3.5]]


@pytest.mark.parametrize("kind", ["bar", "line"])
def test_a_group_without_an_interval_has_no_error_bar_but_one_of_equal_values_has(kind):
    table = frame(threads=(2,), sizes=(128, 256), repeats=7)
    table.loc[table["n"] == 256, "wtime"] = 1.0
    table = table[(table["n"] == 256) | (table["repeat"] < 4)]
    drawn = chart(table, kind, x="n", y="wtime")
    mark = drawn.panels[0].marks[0]
    assert [math.isnan(low) for low in mark.low] == [True, False]
    lengths = matplotlib._error_lengths(mark)
    assert np.array_equal(lengths, [[math.nan, 0.0]] * 2, equal_nan=True)
    (trace,) = plotly.chart_figure(drawn)["data"]
    # Plotly takes null for 0, and draws the ends of a bar of no length.
    assert trace["error_y"]["array"] == ["none", 0.0]
    json.dumps(trace["error_y"], allow_nan=False)
