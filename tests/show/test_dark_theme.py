"""Figures for dark pages: every line can be seen, and nothing else changes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from show.frames import frame
from zenturio.show.charts.column_charts import chart
from zenturio.show.renderers import palette
from zenturio.show.renderers.palette import BACKGROUND, CONTRAST, contrast, dark_figure, lighten
from zenturio.show.renderers.plotly import plotly_figure

COLOURS = st.from_regex(re.compile(r"\A#[0-9a-f]{6}\Z"))


@given(COLOURS)
def test_every_colour_stands_out_from_the_dark(colour):
    if colour == palette.PALE:
        return  # what stands behind may be faint
    assert contrast(lighten(colour)) >= CONTRAST


@given(COLOURS)
def test_what_stands_out_already_is_left_as_it_is(colour):
    if contrast(colour) >= CONTRAST and colour not in ("#8a9199", "#a6a6a6", palette.PALE):
        assert lighten(colour) == colour


def test_the_colours_of_names_stay_apart():
    assert len({lighten(colour) for colour in palette.DISTINCT}) == len(palette.DISTINCT)


@pytest.mark.parametrize("kind", ["line", "scatter", "heatmap"])
def test_the_picture_is_the_same_by_night(kind):
    wishes = {"x": "n", "y": "wtime", "colour": "threads"}
    if kind == "heatmap":
        wishes = {"x": "n", "y": "threads", "z": "wtime"}
    light = plotly_figure(chart(frame(), kind, **wishes)).to_dict()
    found = dark_figure(light)
    assert [trace["type"] for trace in found["data"]] == [trace["type"] for trace in light["data"]]
    for before, after in zip(light["data"], found["data"], strict=True):
        assert {"x", "y"} <= after.keys()
        assert list(after["x"]) == list(before["x"])
    if kind == "heatmap":
        scale = light["layout"]["coloraxis"]["colorscale"]
        assert found["layout"]["coloraxis"]["colorscale"] == scale
    assert found["layout"]["template"]["layout"]["font"]["color"] != palette.INK
    buttons = found["layout"]["template"]["layout"]["modebar"]
    assert all(contrast(buttons[part]) >= 3 for part in ("color", "activecolor"))
    assert BACKGROUND not in str(found["layout"]["title"])
