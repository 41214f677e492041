"""Figures for dark pages: every line can be seen, and nothing else changes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from show.frames import frame
from zenturio.show import palette
from zenturio.show.charts.column_charts import chart
from zenturio.show.interactive import plotly_figure
from zenturio.show.night import CONTRAST, GROUND, _contrast, lifted, night

COLOURS = st.from_regex(re.compile(r"\A#[0-9a-f]{6}\Z"))


@given(COLOURS)
def test_every_colour_stands_out_from_the_dark(colour):
    if colour == palette.PALE:
        return  # what stands behind may be faint
    assert _contrast(lifted(colour)) >= CONTRAST


@given(COLOURS)
def test_what_stands_out_already_is_left_as_it_is(colour):
    if _contrast(colour) >= CONTRAST and colour not in ("#8a9199", "#a6a6a6", palette.PALE):
        assert lifted(colour) == colour


def test_the_colours_of_names_stay_apart():
    assert len({lifted(colour) for colour in palette.DISTINCT}) == len(palette.DISTINCT)


@pytest.mark.parametrize("kind", ["line", "scatter", "heatmap"])
def test_the_picture_is_the_same_by_night(kind):
    wishes = {"x": "n", "y": "wtime", "colour": "threads"}
    if kind == "heatmap":
        wishes = {"x": "n", "y": "threads", "z": "wtime"}
    day = plotly_figure(chart(frame(), kind, **wishes)).to_dict()
    found = night(day)
    assert [trace["type"] for trace in found["data"]] == [trace["type"] for trace in day["data"]]
    for before, after in zip(day["data"], found["data"], strict=True):
        assert {"x", "y"} <= after.keys()
        assert list(after["x"]) == list(before["x"])
    if kind == "heatmap":
        scale = day["layout"]["coloraxis"]["colorscale"]
        assert found["layout"]["coloraxis"]["colorscale"] == scale
    assert found["layout"]["template"]["layout"]["font"]["color"] != palette.INK
    assert GROUND not in str(found["layout"]["title"])
