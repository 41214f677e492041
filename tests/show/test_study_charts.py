"""What is asked of the database comes to the same pictures as the rows themselves."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from postgres import postgres, postgres_ready
from show.portal.example_project import enter
from zenturio.errors import InputError
from zenturio.query import study_frame
from zenturio.query.aggregates import AGGREGATES
from zenturio.record import Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.show.charts import study_charts
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.column_charts import chart
from zenturio.show.charts.study_charts import draw_chart

__all__ = ["postgres", "postgres_ready"]

PARAMETERS = (Field("n", "int", "cells"), Field("solver", "str"), Field("select", "real"))
METRICS = (Field("wtime", "real", "s"), Field("iterations", "int"), Field("said", "str"))


def rows(seed, count=240):
    random = np.random.default_rng(seed)
    for number in range(count):
        n = int(random.choice([64, 128, 256]))
        solver = ("gmres", "cg", "bicg")[int(random.integers(3))]
        values = {"n": n, "solver": solver if number % 11 else None, "select": float(number % 4)}
        wtime = float(random.lognormal()) * n
        wtime = {7: math.inf, 8: math.nan}.get(number % 40, wtime)
        metrics = {"wtime": wtime, "iterations": int(random.integers(1, 9)), "said": solver}
        yield (
            values,
            metrics if number % 9 else {"said": solver},
            ({} if number % 13 else {"status": "failed", "cause": "exit 3"}),
        )


@pytest.fixture(params=["sqlite", "postgresql"])
def repository(request, tmp_path):
    """Two studies of the same parameters."""
    place = tmp_path / "zenturio.db"
    url = place if request.param == "sqlite" else request.getfixturevalue("postgres_ready")
    found = open_repository(url)
    for seed, name in enumerate(("one", "two")):
        enter(found, name, StudyDefinition(PARAMETERS, METRICS), list(rows(seed)))
    yield found
    found.close()


def plain(picture):
    """Everything that is drawn, to be compared but for the last digits."""
    panels = [
        (panel.title, [tuple(getattr(m, f.name) for f in fields(m)) for m in panel.marks])
        for panel in picture.panels
    ]
    axes = [
        (axis.name, axis.unit, axis.log, axis.categories, axis.ticks, axis.ends)
        for axis in (picture.x, picture.y, picture.z, picture.colour) if axis
    ]  # fmt: skip
    return [picture.title, picture.note, picture.levels, picture.ordered, axes, panels]


def same(one, other):
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == pytest.approx(other, rel=1e-9, nan_ok=True)
    return one == other


OPTIONS = [
    ("line", {"x": "n", "y": "wtime"}),
    ("line", {"x": "n", "y": "wtime", "colour": "solver", "facet": "select", "log": "xy"}),
    ("line", {"x": "n", "y": "iterations", "colour": "select", "errors": "std"}),
    ("line", {"x": "wtime", "y": "iterations"}),
    ("bar", {"x": "solver", "y": "wtime", "colour": "n"}),
    ("bar", {"x": "solver", "y": "said", "aggregate": "count"}),
    ("pie", {"x": "solver", "y": "iterations", "aggregate": "sum", "facet": "select"}),
    ("heatmap", {"x": "solver", "y": "n", "z": "wtime"}),
    ("surface", {"x": "select", "y": "n", "z": "wtime", "log": "z"}),
    *(("line", {"x": "n", "y": "wtime", "aggregate": each}) for each in AGGREGATES),
]


@pytest.mark.parametrize(
    "where", [None, pytest.param("n >= 128 and iterations > 2", marks=pytest.mark.slow)]
)
def test_what_the_database_groups_is_drawn_as_its_rows_are(repository, where):
    for kind, options in OPTIONS:
        drawn = draw_chart(
            repository, ChartQuery.of(studies=("one",), kind=kind, where=where, **options)
        ).chart
        twin = chart(study_frame(repository, "one", where=where), kind, **options)
        assert same(plain(drawn), plain(twin)), (kind, options)


def test_times_are_drawn_by_their_median_and_its_interval(repository):
    """One slow run of ten moves neither; the interval is that of the order statistics."""
    times = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 90.0]
    units = (Field("wtime", "real", "s"), Field("rate", "real"))
    runs = [({"n": 1}, {"wtime": time, "rate": time}, {}) for time in times]
    enter(repository, "timed", StudyDefinition((Field("n", "int"),), units), runs)

    def drawn(**options):
        query = ChartQuery.of(studies="timed", x="n", **options)
        found = draw_chart(repository, query).chart
        assert same(plain(found), plain(chart(study_frame(repository, "timed"), **options, x="n")))
        return found, found.panels[0].marks[0]

    time, mark = drawn(y="wtime")
    assert (mark.y, mark.low, mark.high) == ((1.45,), (1.1,), (1.8,))
    assert time.title == "timed: median wtime over n"
    assert time.note.startswith("median of 10 repeats; bars: 95 % interval of the median;")
    for options in ({"y": "rate"}, {"y": "wtime", "aggregate": "mean"}):
        mean, mark = drawn(**options)
        assert mark.y == pytest.approx((10.26,))
        assert "bars: 95 % interval of the mean" in mean.note
    deviation, mark = drawn(y="wtime", errors="std")
    assert "mean of 10 repeats; bars: standard deviation, cut at 0;" in deviation.note
    assert mark.y == pytest.approx((10.26,))


@pytest.mark.parametrize("kind", ["scatter", "box"])
def test_experiments_one_by_one_need_no_other_columns(repository, kind):
    options = {"x": "n", "y": "wtime", "colour": "solver"}
    picture = draw_chart(repository, ChartQuery.of(studies=("one",), kind=kind, **options))
    assert same(plain(picture.chart), plain(chart(study_frame(repository, "one"), kind, **options)))
    assert "select" not in picture.sql


def test_of_very_many_experiments_a_sample_is_drawn_and_that_is_said(repository, monkeypatch):
    monkeypatch.setattr(study_charts, "MOST_ROWS", 50)
    query = ChartQuery.of(studies="one", kind="scatter", x="n", y="wtime")
    picture = draw_chart(repository, query).chart
    count = sum(len(series.x) for panel in picture.panels for series in panel.marks)
    assert 20 < count < 90
    assert "a sample of" in picture.note
    assert "of 221 experiments" in picture.note
    assert draw_chart(repository, query).chart == picture


def test_several_studies_are_told_apart_by_colour(repository):
    for kind in ("line", "scatter", "box", "bar"):
        query = ChartQuery.of(studies=("one", "two"), kind=kind, x="n", y="wtime")
        both = draw_chart(repository, query).chart
        assert both.levels == ("one", "two")
        assert both.title.startswith("one, two: ")
        alone = draw_chart(repository, replace(query, studies=("two",))).chart
        heights = "samples" if kind == "box" else "y"
        second, only = both.panels[0].marks[1], alone.panels[0].marks[0]
        assert getattr(second, heights) == getattr(only, heights)


def test_what_is_left_empty_is_chosen(repository):
    query = draw_chart(repository, ChartQuery.of(studies="one")).query
    assert (query.x, query.y) == ("n", ("wtime",))
    query = draw_chart(repository, ChartQuery.of(studies="one", kind="heatmap")).query
    assert (query.x, query.y, query.z) == ("n", ("solver",), "wtime")


def test_too_many_groups_are_refused_with_what_to_do(repository, monkeypatch):
    monkeypatch.setattr("zenturio.query.frames.MOST_GROUPS", 5)
    with pytest.raises(InputError, match="more than 5 combinations"):
        draw_chart(repository, ChartQuery.of(studies="one", x="n", y="wtime", colour="solver"))


def test_a_text_is_no_height(repository):
    with pytest.raises(InputError, match="'said' holds text"):
        draw_chart(repository, ChartQuery.of(studies="one", x="n", y="said"))


@pytest.mark.parametrize("declared", ["real", None])
def test_a_metric_of_failed_experiments_alone_has_nothing_to_draw(repository, declared):
    failed = [({"n": n, "solver": "cg", "select": 1.0}, {}, {"status": "failed"}) for n in (1, 2)]
    enter(repository, "failed", StudyDefinition(PARAMETERS, (Field("time", declared),)), failed)
    with pytest.raises(InputError, match="nothing to draw: no row has a number for 'time'"):
        draw_chart(repository, ChartQuery.of(studies="failed", x="n", y="time"))
