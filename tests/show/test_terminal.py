"""Charts in the characters of a terminal."""

import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.show.frames import frame
from tests.show.search_tables import runs, searched
from zenturio.errors import InputError
from zenturio.show.charts.column_charts import chart
from zenturio.show.renderers.terminal import render_text

GOLDEN = Path(__file__).parent / "golden"

CHARTS = {
    "convergence": lambda: chart(
        runs({"ga": [9, 7, 7.5, 4, 5, 2, 3, 1.25], "random": [8, 8, 6, 6.5, 5]}),
        "convergence", colour="run",
    ),
    "dependence": lambda: chart(searched(points=60), "dependence"),
    "importance": lambda: chart(searched(points=500), "importance"),
    "pareto": lambda: chart(searched(points=60), "pareto"),
    "bar": lambda: chart(frame(), "bar", x="n", y="wtime", colour="threads", aggregate="mean"),
    "line": lambda: chart(frame(), "line", x="n", y="wtime", colour="threads", log="xy"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_sketch_is_what_it_was(name):
    text = "\n".join(render_text(CHARTS[name]())) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("kind", ["slice", "parallel"])
def test_a_kind_that_needs_a_page_says_so(kind):
    with pytest.raises(
        InputError, match=f"a {kind} chart.* cannot be drawn in a terminal"
    ) as caught:
        render_text(chart(searched(), kind))
    assert "-o FILE.html" in str(caught.value)


def test_several_panels_and_too_many_series_need_a_page_too():
    facets = chart(frame(), "line", x="n", y="wtime", facet="threads")
    with pytest.raises(InputError, match="several panels"):
        render_text(facets)
    many = chart(frame(threads=range(1, 14)), "line", x="n", y="wtime", colour="threads")
    with pytest.raises(InputError, match="cannot be told apart in a terminal"):
        render_text(many)


def test_texts_along_an_axis_are_rows():
    texts = frame(solvers=("cg", "gmres"), repeats=3)
    lines = render_text(chart(texts, "line", x="solver", y="wtime", colour="threads"))
    (low,) = (line for line in lines if line.startswith("   cg ┤"))
    (high,) = (line for line in lines if line.startswith("gmres ┤"))
    assert sorted(low.split("┤")[1].split()) == sorted(high.split("┤")[1].split()) == list("■○●")
    assert low.index("●") < high.index("●")  # gmres takes longer
    assert lines[-3].split(":") == ["threads", " ● 1  ○ 2  ■ 4"]


def test_texts_that_are_shortened_alike_have_a_row_each():
    solvers = [f"{'left' * 6}{number}{'right' * 6}" for number in (1, 2)]
    lines = render_text(chart(frame(solvers=solvers, repeats=3), "line", x="solver", y="wtime"))
    assert sum("●" in line for line in lines) == 2


@pytest.mark.parametrize("ends", [(-1e100, 1e100), (0.0, 5e-324), (1.0, 1 + 2**-52)])
def test_axes_between_any_ends_are_drawn(ends):
    table = pd.DataFrame({"n": [1, 2], "y": ends})
    lines = render_text(chart(table, "scatter", x="n", y="y"))
    assert sum("●" in line for line in lines) == 2


def test_a_single_point_is_drawn_in_the_middle():
    lines = render_text(chart(runs({"a": [3.0]}), "convergence"))
    assert sum("●" in line for line in lines) == 1


def test_bars_say_what_the_brackets_behind_them_are():
    lines = render_text(chart(frame(repeats=7), "bar", x="n", y="wtime", colour="threads"))
    assert "in brackets: 95 % interval of the median" in lines[-1]
    few = render_text(chart(frame(repeats=2), "bar", x="n", y="wtime", colour="threads"))
    assert "brackets" not in few[-1]


def test_a_chart_without_a_bar_says_so():
    drawn = chart(frame(repeats=1), "bar", x="n", y="wtime")
    (panel,) = drawn.panels
    bars = tuple(replace(mark, x=(), y=(), low=(), high=()) for mark in panel.marks)
    empty = replace(drawn, panels=(replace(panel, marks=bars),))
    assert "nothing to draw: no bar has a value" in render_text(empty)


def test_bars_of_very_large_and_of_negative_values_are_drawn():
    table = frame(threads=(2,), sizes=(1, 2, 3), repeats=1)
    table["wtime"] = [1e300, 5e299, -1.3e299]
    shown = render_text(chart(table, "bar", x="n", y="wtime"))[2:5]
    assert [line.count("█") for line in shown] == [40, 20, 0]
    assert shown[2] == "3   -1.3e+299 s"
