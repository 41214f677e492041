"""Every kind of chart is drawn in every format; pages need no network, images are reproducible."""

import io
import json
import re
import subprocess
import sys

import pandas as pd
import pytest
from PIL import Image

from tests.show.frames import LONG, frame
from zenturio.errors import InputError, PlaceError
from zenturio.show.chart import (
    has_room_for_ticks,
    log_ticks,
    strand_ticks,
    tick_text,
    tick_texts,
)
from zenturio.show.charts.column_charts import chart
from zenturio.show.renderers import matplotlib, palette
from zenturio.show.renderers.plotly import chart_page as page
from zenturio.show.renderers.plotly import plotly_figure
from zenturio.show.renderers.terminal import text_bars as bars
from zenturio.show.report_store import image, save

OPTIONS = {
    "line": {"x": "n", "y": "wtime", "colour": "threads", "facet": "solver", "log": "xy"},
    "bar": {"x": "n", "y": "wtime", "colour": "solver"},
    "pie": {"x": "solver", "y": "wtime", "aggregate": "sum"},
    "surface": {"x": "n", "y": "threads", "z": "wtime", "log": "xz"},
    "heatmap": {"x": "n", "y": "threads", "z": "wtime", "log": "z", "facet": "solver"},
    "scatter": {"x": "wtime", "y": "gflops", "colour": "solver", "log": "x"},
    "box": {"x": "n", "y": "wtime", "colour": "solver", "facet": "threads"},
    "parallel": {"y": "wtime"},
    "scaling": {"x": "threads", "y": "wtime", "colour": "n", "facet": "solver", "log": "xy"},
}


def drawn(kind):
    return chart(frame(solvers=("cg", LONG)), kind, **OPTIONS[kind])


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_kind_becomes_an_image_with_ink_on_white(kind):
    picture = Image.open(io.BytesIO(image(drawn(kind), "png", dpi=60))).convert("L")
    assert picture.getpixel((0, 0)) == 255
    dark = sum(picture.histogram()[:128])
    assert 0.001 < dark / (picture.width * picture.height) < 0.5


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_kind_becomes_a_figure_for_browsers(kind):
    figure = json.loads(plotly_figure(drawn(kind)).to_json())
    assert figure["data"]
    assert drawn(kind).note in re.sub("<br>", " ", figure["layout"]["title"]["text"])


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_chart_gives_the_same_bytes(kind):
    assert image(drawn("line"), kind) == image(drawn("line"), kind)


def test_twelve_colours_are_told_apart_by_colour_and_dash():
    looks = {
        (palette.colour(i, 12, ordered=False), palette.dash(i, ordered=False)) for i in range(12)
    }
    assert len(looks) == 12
    assert len({palette.colour(i, 12, ordered=True) for i in range(12)}) == 12


@pytest.mark.parametrize(
    ("points", "lines", "marks", "mode"),
    [(40, 1, 40, "lines+markers"), (400, 1, 0, "lines"), (400, 2, 40, "lines")],
)
def test_marks_do_not_hide_a_line_of_many_points(points, lines, marks, mode):
    rows = [(x, x, f"line {i}") for i in range(lines) for x in range(points)]
    table = pd.DataFrame(rows, columns=["x", "y", "name"])
    drawn = chart(table, "line", x="x", y="y", colour="name" if lines > 1 else "")
    assert all(trace.mode == mode for trace in plotly_figure(drawn).data)
    shown = image(drawn, "svg").count(b'style="fill: #0072b2')
    assert shown == marks + (lines > 1)  # the legend shows one, too


def test_a_box_shows_the_mean_and_says_so():
    table = pd.DataFrame({"x": list("aaaaabb"), "y": [1, 1, 1, 1, 6, 2, 3]})
    box = chart(table, "box", x="x", y="y")
    assert box.note.startswith("box: quartiles, median and mean")
    assert plotly_figure(box).data[0].boxmean
    assert image(box, "svg").count(b"fill: #1a1a1a; stroke: #ffffff") == 1


def test_few_values_are_points_and_no_box():
    table = pd.DataFrame({"x": list("aaaaabb"), "y": [1, 1, 1, 1, 6, 2, 3]})
    box, points = plotly_figure(chart(table, "box", x="x", y="y")).data
    assert (set(box.x), set(points.x), points.boxpoints) == ({"a"}, {"b"}, "all")
    few = chart(table[5:], "box", x="x", y="y")
    assert few.note == "points: where there are fewer than 5 values; 2 of 2 experiments"
    assert b"#0072b2" in image(few, "svg")


def test_whole_numbers_have_no_ticks_between_them():
    table = pd.DataFrame({"x": [1, 2, 3], "y": [0, 1, 2]})
    counted = chart(table, x="x", y="y")
    assert plotly_figure(counted).layout.yaxis.dtick == 1
    axes = matplotlib.draw(counted).axes[0]
    assert all(tick == int(tick) for tick in axes.get_yticks())
    table["y"] += 0.5
    halves = chart(table, x="x", y="y")
    assert plotly_figure(halves).layout.yaxis.dtick is None
    assert any(tick != int(tick) for tick in matplotlib.draw(halves).axes[0].get_yticks())


def test_panels_have_y_axes_of_their_own_if_asked():
    table = pd.DataFrame({"x": [1, 2] * 2, "y": [1.5, 2.5, 1000.0, 2000.0], "p": list("aabb")})
    for free, shares in (("", True), ("y", False)):
        panels = chart(table, x="x", y="y", facet="p", free=free)
        low, high = (axes.get_ylim() for axes in matplotlib.draw(panels).axes)
        assert (low == high) == shares
        assert (plotly_figure(panels).layout.yaxis2.matches == "y") == shares
    logarithmic = chart(table, x="x", y="y", facet="p", free="y", log="y")
    assert [panel.y.ends for panel in logarithmic.panels] == [(1.5, 2.5), (1000, 2000)]
    with pytest.raises(InputError, match="cannot have axes 'x'"):
        chart(table, x="x", y="y", facet="p", free="x")


def test_the_interval_of_a_mean_ends_at_0_where_no_value_is_negative():
    table = pd.DataFrame({"x": [1, 1, 2, 2], "y": [0.0, 4.0, 5.0, 5.1]})
    bars = chart(table, x="x", y="y")
    (line,) = bars.panels[0].marks
    assert line.low[0] == 0 < line.low[1]
    assert "interval of the mean, cut at 0;" in bars.note
    table.loc[0, "y"] = -0.5
    (line,) = chart(table, x="x", y="y").panels[0].marks
    assert line.low[0] < 0


@pytest.mark.parametrize(
    ("name", "unit", "most"),
    [("parallel_efficiency", "", 1), ("z", "share", 1), ("z", "%", 100), ("z", "", None)],
)
def test_the_interval_of_a_share_ends_at_the_whole(name, unit, most):
    whole = most or 1
    values = [0.6 * whole, whole, 0.9 * whole, 0.91 * whole]
    table = pd.DataFrame({"x": [1, 1, 2, 2], name: values})
    table.attrs["units"] = {name: unit}
    shares = chart(table, x="x", y=name)
    (line,) = shares.panels[0].marks
    assert (line.high[0] == most) == (most is not None)
    assert line.high[1] < whole
    cut = f", cut at 0 and {most};" if most else ", cut at 0;"
    assert f"interval of the mean{cut}" in shares.note
    table.loc[0, name] = 2 * whole  # an efficiency above 1, as of caches, is one that can be
    (line,) = chart(table, x="x", y=name).panels[0].marks
    assert line.high[0] > 2 * whole


def test_colours_differ_in_lightness_on_a_scale():
    def lightness(text):
        return sum(int(text[i : i + 2], 16) for i in (1, 3, 5))

    steps = [lightness(palette.shade(i / 10)) for i in range(11)]
    assert steps == sorted(steps)
    assert palette.is_dark(palette.shade(0))
    assert not palette.is_dark(palette.shade(1))


def test_a_page_works_without_a_network():
    text = page(drawn("line"))
    head = text.split("plotly.js (strict", 1)[0]
    assert "plotly.js (strict" in text
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)
    assert "http" not in head


def test_names_are_inert_on_a_page():
    text = page(drawn("bar"))
    assert "<b>)" not in text
    assert "&lt;b&gt;" in text or "\\u0026lt;b\\u0026gt;" in text


def test_a_dollar_in_a_name_is_a_dollar():
    table = frame(solvers=("$\\frac{$", "$x$"))
    assert b"<svg" in image(chart(table, "bar", x="n", y="wtime", colour="solver"), "svg")


def test_a_file_is_written_as_its_name_says(tmp_path):
    signatures = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind, start in signatures.items():
        path = save(drawn("line"), tmp_path / f"picture.{kind}")
        assert path.read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == 4


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="suffix of a chart file") as caught:
        save(drawn("line"), tmp_path / "picture.pgn")
    assert "'.png'" in str(caught.value)
    with pytest.raises(InputError, match="there is no image format"):
        image(drawn("line"), "gif")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlaceError, match=r"cannot write .*picture\.svg"):
        save(drawn("line"), tmp_path / "missing" / "picture.svg")


def test_a_notebook_gets_every_form():
    bundle = drawn("line")._repr_mimebundle_(include=None, exclude=None)
    assert bundle["application/vnd.plotly.v1+json"]["data"]
    assert "plotly" in bundle["text/html"]
    assert bundle["text/plain"].startswith("matmul: median wtime over n")


def test_each_name_stands_once_in_the_legend_of_several_panels():
    figure = plotly_figure(drawn("line"))
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(shown) == ["1", "2", "4"]
    assert len(figure.data) == 6


@pytest.mark.parametrize("kind", ["line", "bar", "scatter"])
def test_names_that_matplotlib_would_leave_out_are_in_the_legend_of_images(kind):
    table = frame(solvers=("", "_hidden", "cg"))
    drawn = chart(table, kind, x="n", y="wtime", colour="solver")
    (legend,) = matplotlib.draw(drawn).legends
    assert [text.get_text() for text in legend.get_texts()] == ['""', "_hidden", "cg"]


def test_a_chart_without_a_renderer_loads_nothing_heavy():
    code = (
        "import sys, zenturio.show.chart, zenturio.show.report_store; "
        "print({'plotly', 'matplotlib', 'pandas', 'numpy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.001, "0.001"), (1e-6, "10⁻⁶"), (2e9, "2·10⁹"), (128, "128"), (-3e7, "-3·10⁷")],
)
def test_marks_are_plain_numbers_or_powers_of_ten(value, text):
    assert tick_text(value) == text


def test_powers_of_ten_on_one_axis_are_written_alike():
    assert tick_texts([1000, 10_000, 100_000, 1e6]) == ["10³", "10⁴", "10⁵", "10⁶"]
    assert tick_texts([1e-5, 0.001, 0.1]) == ["10⁻⁵", "10⁻³", "10⁻¹"]
    assert tick_texts([0.01, 1, 100]) == ["0.01", "1", "100"]
    assert tick_texts([5e5, 1e6]) == ["500000", "10⁶"]


def test_logarithmic_marks_are_as_many_as_fit():
    assert log_ticks(0.003, 20) == pytest.approx([0.01, 0.1, 1, 10])
    assert log_ticks(1, 12) == pytest.approx([1, 2, 3, 5, 7, 10])
    assert len(log_ticks(1e-12, 1e12)) <= 10


def test_a_parallel_axis_of_whole_numbers_is_marked_at_whole_numbers():
    assert strand_ticks([1, 2, 4]) == [1, 2, 4]
    assert all(mark == int(mark) for mark in strand_ticks(list(range(0, 100, 3))))
    assert strand_ticks([0.0, 0.001, 1.0]) == [0, 0.25, 0.5, 0.75, 1]


def test_marks_that_would_touch_are_not_forced():
    table = frame(sizes=(128, 130, 1024), solvers=("cg", "gmres"))
    x = chart(table, "line", x="n", y="wtime").x
    assert not has_room_for_ticks(x, 1)
    assert has_room_for_ticks(chart(frame(), "line", x="n", y="wtime").x, 1)


def test_bars_of_blocks_are_as_long_as_their_values():
    assert bars(["1", "16"], [1.0, 4.0], unit="s", width=8) == [
        " 1  ██ 1 s",
        "16  ████████ 4 s",
    ]
    assert bars(["a"], [0.0]) == ["a   0"]
    assert bars([], []) == []


def test_names_of_many_values_are_thinned_so_that_they_can_be_read():
    table = pd.DataFrame([{"x": x, "y": y, "z": x * y} for x in range(100) for y in range(30)])
    layout = plotly_figure(chart(table, "heatmap", x="x", y="y", z="z")).layout
    assert len(layout.xaxis.categoryarray) == 100
    assert list(layout.xaxis.tickvals) == [str(x) for x in range(0, 100, 3)]
    assert list(layout.yaxis.ticktext) == [str(y) for y in range(0, 30, 2)]


def test_a_column_with_a_long_name_leaves_room_for_the_chart():
    table = pd.DataFrame({"x": [1, 2, 1, 2], "y": [1, 2, 3, 4], "a name " * 40: list("aabb")})
    long = table.columns[-1]
    content = image(chart(table, "line", x="x", y="y", colour=long, title=long), "png")
    wide, high = Image.open(io.BytesIO(content)).size
    assert wide < 3 * high
