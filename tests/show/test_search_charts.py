"""The pictures of a search: what they show, of how much, and what they refuse."""

import io
import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.show.search_tables import runs, searched
from zenturio.errors import InputError
from zenturio.show.chart import bar_labels, is_geometric, strand_ticks
from zenturio.show.charts.column_charts import chart
from zenturio.show.charts.search_charts import ChartObjective, pareto_front
from zenturio.show.renderers import palette
from zenturio.show.renderers.plotly import plotly_figure
from zenturio.show.report_store import image

KINDS = ("convergence", "dependence", "importance", "slice", "pareto", "parallel")
SCORES = st.lists(st.integers(-5, 5) | st.just(math.nan), min_size=1, max_size=12)


def line(table, **wishes):
    return chart(table, "convergence", **wishes).panels[0].marks[0]


def after(series, visit):
    """The height of a line of steps at a place."""
    found = [y for x, y in zip(series.x, series.y, strict=True) if x <= visit]
    return found[-1] if found else None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameters", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_every_kind_becomes_an_image_with_ink_on_white(kind, parameters):
    drawn = chart(searched(points=100 * parameters, parameters=parameters), kind)
    picture = Image.open(io.BytesIO(image(drawn, "png", dpi=50))).convert("L")
    assert picture.getpixel((0, 0)) == 255
    dark = sum(picture.histogram()[:160])
    assert 0.001 < dark / (picture.width * picture.height) < 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_becomes_a_figure_for_browsers(kind):
    drawn = chart(searched(), kind)
    figure = json.loads(plotly_figure(drawn).to_json())
    assert figure["data"]
    assert drawn.counts in figure["layout"]["title"]["text"].replace("<br>", " ")  # long notes wrap
    assert not any(trace["type"].endswith("gl") for trace in figure["data"])


@pytest.mark.parametrize(
    "kind", ["convergence", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS[1:])]
)
def test_the_same_search_gives_the_same_bytes(kind):
    assert image(chart(searched(), kind), "svg") == image(chart(searched(), kind), "svg")


def test_the_best_so_far_falls_in_steps_to_the_end_of_the_search():
    series = line(runs({"a": [5, 7, 3, 4, 3, 1, 2]}))
    assert (series.x, series.y) == ((1, 3, 6, 7), (5, 3, 1, 1))
    greatest = line(runs({"a": [5, 7, 3, 9, 2]}, "maximize"))
    assert (greatest.x, greatest.y) == ((1, 2, 4, 5), (5, 7, 9, 9))


def test_failures_are_visits_and_are_never_the_best():
    drawn = chart(runs({"a": [math.nan, math.nan, 4, math.inf, 6, math.nan]}), "convergence")
    series = drawn.panels[0].marks[0]
    assert (series.x, series.y) == ((3, 6), (4, 4))
    assert drawn.note == "2 of 6 points"


@given(SCORES, st.sampled_from(["minimize", "maximize"]))
def test_a_line_of_one_run_is_the_running_best(scores, direction):
    known = [score for score in scores if not math.isnan(score)]
    if not known:
        with pytest.raises(InputError, match="nothing to draw"):
            line(runs({"a": scores}, direction))
        return
    series = line(runs({"a": scores}, direction))
    best = max if direction == "maximize" else min
    for visit in range(1, len(scores) + 1):
        seen = [score for score in scores[:visit] if not math.isnan(score)]
        assert after(series, visit) == (best(seen) if seen else None)


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=2, max_size=6))
def test_of_several_runs_the_median_is_drawn_between_the_quartiles(searches):
    series = line(runs(dict(enumerate(searches))))
    for visit in range(1, max(map(len, searches)) + 1):
        best = [min(scores[:visit]) for scores in searches]
        assert after(series, visit) == pytest.approx(statistics.median(best))
    assert all(a <= y <= b for a, y, b in zip(series.low, series.y, series.high, strict=True))


def test_a_search_that_ended_keeps_its_best_and_one_without_a_number_counts_as_the_worst():
    table = runs({"a": [4], "b": [math.nan, math.nan, 2], "c": [6, 5]})
    series = line(table)
    assert [after(series, visit) for visit in (1, 2, 3)] == [6, 5, 4]
    assert chart(table, "convergence").note == "median of 3 runs; band: quartiles; 4 of 6 points"


def test_runs_can_be_lines_of_their_own():
    drawn = chart(runs({"a": [3, 1], "b": [2]}), "convergence", colour="run")
    assert drawn.levels == ("a", "b")
    assert [series.y for series in drawn.panels[0].marks] == [(3, 1), (2,)]
    assert "median" not in drawn.note


def test_a_line_needs_to_know_what_is_good():
    with pytest.raises(InputError, match="'loss' has no direction") as caught:
        chart(searched(), "convergence", y="loss")
    assert "MINIMIZE loss" in str(caught.value)
    assert chart(searched(), "convergence", goals=("maximize loss",)).title.endswith(
        "greatest loss so far"
    )


LOSSES = st.integers(0, 6)


@given(st.integers(2, 3).flatmap(lambda n: st.lists(st.tuples(*[LOSSES] * n), min_size=1)))
def test_a_front_is_what_nothing_is_better_than(rows):
    found = [rows[i] for i in pareto_front(np.array(rows, dtype=float))]
    naive = [
        row
        for row in rows
        if not any(o != row and all(a <= b for a, b in zip(o, row, strict=True)) for o in rows)
    ]
    assert found == sorted(naive)
    assert found == sorted(found)


def test_a_front_of_two_goals_is_joined_and_the_others_stand_behind():
    table = searched()
    drawn = chart(table, "pareto")
    behind, best = drawn.panels[0].marks
    assert (behind.role, best.role) == ("faint", "front")
    assert len(behind.x) + len(best.x) == len(table)
    assert list(best.x) == sorted(best.x)
    assert list(best.y) == sorted(best.y, reverse=True)
    assert f"{len(best.x)} on the front" in drawn.note
    assert (drawn.x.label_with_direction, drawn.y.label_with_direction) == (
        "← wtime (s)",
        "← energy (J)",
    )
    assert (
        "greatest energy"
        in chart(table, "pareto", goals=("minimize wtime", "maximize energy")).title
    )
    trace = plotly_figure(drawn).data[1]
    assert (trace.mode, trace.line.shape) == ("lines+markers", "hv")


def test_a_third_goal_is_a_colour():
    goals = ("minimize wtime", "minimize energy", "maximize loss")
    drawn = chart(searched(), "pareto", goals=goals)
    assert drawn.colour.label_with_direction == "loss →"
    assert drawn.levels == ()
    assert all(len(series.shades) == len(series.x) for series in drawn.panels[0].marks)


def test_points_that_lack_a_goal_are_in_no_front():
    table = searched()
    table.loc[:49, "energy"] = math.nan
    drawn = chart(table, "pareto")
    assert drawn.counts == "150 of 200 points"
    assert sum(len(series.x) for series in drawn.panels[0].marks) == 150


def test_a_front_is_never_thinned_out_and_what_is_behind_it_says_so():
    table = searched(points=50_000)
    behind, best = chart(table, "pareto").panels[0].marks
    assert len(behind.x) <= 20_000
    losses = table[["wtime", "energy"]].to_numpy()
    assert len(best.x) == len(pareto_front(losses))
    assert f"{len(behind.x):,} of {50_000 - len(best.x):,} others" in chart(table, "pareto").note


def test_a_slice_has_a_panel_for_each_parameter_and_colours_by_visit():
    table = searched()
    drawn = chart(table, "slice")
    assert [panel.x.name for panel in drawn.panels] == table.attrs["parameters"]
    dots, ring = drawn.panels[0].marks
    assert list(dots.x) == list(table["p0"])
    assert list(dots.shades) == list(range(1, 201))
    assert ring.role == "best"
    assert ring.y == (table["wtime"].min(),)
    assert drawn.colour.label == "order of visit"
    assert drawn.y.label_with_direction == "← wtime (s)"


def test_texts_are_spread_around_their_place_in_a_slice():
    panel = chart(searched(), "slice", axes=("solver",)).panels[0]
    assert set(panel.x.categories) == {"cg", "gmres", "jacobi"}
    table = searched()
    for place, name in zip(panel.marks[0].x, table["solver"], strict=True):
        assert abs(place - panel.x.categories.index(name)) <= 0.25


def test_an_inactive_parameter_has_no_point_in_its_panel():
    table = searched()
    table["p1"] = table["p1"].astype("Int64").mask(table["solver"] == "cg")
    panels = chart(table, "slice").panels
    assert len(panels[1].marks[0].x) == (table["solver"] != "cg").sum()
    assert len(panels[0].marks[0].x) == len(table)


def test_slices_of_very_many_points_are_thinned_out_and_the_best_stays():
    table = searched(points=100_000, parameters=18)
    drawn = chart(table, "slice")
    dots, ring = drawn.panels[0].marks
    assert len(dots.x) <= 24_000 / 20 + 1
    assert ring.y == (table["wtime"].min(),)
    assert "points drawn, one of every" in drawn.note


def test_more_parameters_than_can_be_looked_at_are_to_be_named():
    table = searched(parameters=30)
    with pytest.raises(InputError, match="32 parameters vary") as caught:
        chart(table, "slice")
    assert "--axes" in str(caught.value)
    assert len(chart(table, "slice", axes=("p3", "p7")).panels) == 2


def test_sets_that_grow_by_a_factor_have_logarithmic_axes():
    panels = {panel.x.name: panel.x for panel in chart(searched(), "slice").panels}
    assert panels["block"].log
    assert not panels["p0"].log
    strands = chart(searched(), "parallel").panels[0].marks[0]
    assert {axis.name for axis in strands.axes if axis.log} == {"block"}
    assert not is_geometric([1, 2])
    assert not is_geometric([0, 1, 10, 100])
    assert is_geometric([1, 10, 100])
    assert strand_ticks([8, 16, 512], log=True) == [8, 16, 512]
    assert strand_ticks([float(2**i) for i in range(30)], log=True)[0] == 1


def test_parallel_axes_keep_the_best_among_very_many_lines():
    table = searched(points=30_000)
    drawn = chart(table, "parallel")
    strands = drawn.panels[0].marks[0]
    best = sorted(table["wtime"])[:40]
    assert set(best) <= set(strands.shades)
    assert len(strands.shades) <= 2_040
    assert (strands.lowest_on_top, strands.strong) == (True, 40)
    assert "2,000 lines drawn, one of every 15; including the best 40" in drawn.note


def test_too_few_points_for_the_model_of_importance_are_no_chart():
    with pytest.raises(InputError, match="not enough data to tell which parameters") as caught:
        chart(searched(points=20), "importance")
    assert "terms of the model apart" in caught.value.diagnostics[0].hint


def test_bars_of_importance_are_shares_of_the_variance_the_greatest_on_top():
    drawn = chart(searched(points=2_000), "importance")
    assert drawn.y.categories[:2] == ("p0", "solver")
    bars = {
        series.role: dict(zip(series.x, series.y, strict=True)) for series in drawn.panels[0].marks
    }
    assert bars["plain"]["p0"] > bars["plain"]["solver"] > 5
    assert set(bars["plain"]) | set(bars["faint"]) == set(drawn.y.categories)
    assert 90 < sum(bars["plain"].values()) <= 100
    assert bar_labels(drawn.panels[0])["p0"] == f"{bars['plain']['p0']:.1f}"


@pytest.mark.parametrize(
    ("kind", "wishes", "message"),
    [
        ("pareto", {"y": "wtime"}, "needs two or three objectives, not 1"),
        ("pareto", {"goals": ("minimize wtime", "loss")}, "'loss' has no direction"),
        ("pareto", {"goals": ("minimize wtme", "maximize loss")}, "no column 'wtme'"),
        ("slice", {"goals": ("minimize solver",)}, "'solver' holds text"),
        ("slice", {"colour": "p0"}, "slice chart has no colour to choose"),
        ("convergence", {"facet": "p0"}, "has no facets"),
        ("slice", {"axes": ("p9",)}, "no column 'p9'"),
    ],
)
def test_what_cannot_be_drawn_says_why(kind, wishes, message):
    with pytest.raises(InputError, match=message):
        chart(searched(), kind, **wishes)


def test_a_search_without_an_objective_says_how_to_name_one():
    table = searched()
    table.attrs["goals"] = []
    with pytest.raises(InputError, match="needs an objective") as caught:
        chart(table, "convergence")
    assert "MINIMIZE" in str(caught.value)


def test_a_goal_is_read_with_its_direction():
    assert ChartObjective.of("MAXIMIZE a + b") == ChartObjective("a + b", "maximize")
    assert ChartObjective.of("minimize") == ChartObjective("minimize")
    assert ChartObjective.of("height + x") == ChartObjective("height + x")


def test_what_stands_behind_is_paler_than_what_is_looked_at():
    def lightness(text):
        return sum(int(text[i : i + 2], 16) for i in (1, 3, 5))

    assert lightness(palette.PALE) > max(map(lightness, palette.DISTINCT[:2]))


def test_the_line_stands_in_the_legend_and_its_band_does_not():
    table = runs({"a": [3, 1], "b": [2, 2], "c": [5, 4]}).assign(engine="ga")
    figure = plotly_figure(chart(table, "convergence", colour="engine"))
    shown = [trace for trace in figure.data if trace.showlegend]
    assert [trace.line.width for trace in shown] == [2]
    assert [trace.fill for trace in figure.data] == [None, None, "tonexty"]
