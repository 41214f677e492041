"""Charts of scaling: measured speedups, the law that fits best, and the ideal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from zenturio.errors import InputError
from zenturio.query.scaling import Scaling, ScalingCurve, scaling_curve
from zenturio.show.chart import Chart, ChartAxis, Line, Panel
from zenturio.show.charts.chart_table import ChartTable, has_level, label_of
from zenturio.show.renderers.plotly import NotebookChart

MOST_CURVES = 10
"""Each curve has two colours: one for what was measured, one for its law."""
_STEPS = 96
"""Points of a drawn law."""
IDEAL = "ideal"
_Ends = tuple[tuple[float, ...], tuple[float, ...]]


def scaling_panel(
    title: str, curves: Sequence[ScalingCurve], names: Sequence[str], ranks: dict[str, int]
) -> Panel:
    """Return the speedups of *curves*, each under its name, with their laws and the ideal.

    *ranks* are those of the legend, to which new names are added.
    """
    marks: list[Line] = []

    def add(name: str, x: Iterable[float], y: Iterable[float], ends: _Ends = ((), ())) -> None:
        rank = ranks.setdefault(name, len(ranks))
        marks.append(Line(name, rank, tuple(x), tuple(y), *ends))

    for curve, name in zip(curves, names, strict=True):
        workers = [point.workers for point in curve.points]
        add(name, workers, [point.speedup for point in curve.points], _ends(curve))
        law = curve.models[0]
        if law.name != IDEAL:
            ratios = np.geomspace(1.0, workers[-1] / curve.base, _STEPS)
            heights = law.speedup(ratios)
            add(f"{name}: {law.name}", (ratios * curve.base).tolist(), heights.tolist())
    least = min(curve.base for curve in curves)
    most = max(curve.points[-1].workers for curve in curves)
    if all(curve.base == least for curve in curves):
        add(IDEAL, (least, most), (1.0, most / least))
    return Panel(title, tuple(marks))


def _ends(curve: ScalingCurve) -> _Ends:
    """Return the lower and upper ends of the intervals, NaN where there is none."""
    intervals = [point.speedup_interval for point in curve.points]
    if not any(intervals):
        return (), ()
    return (
        tuple(math.nan if interval is None else interval.low for interval in intervals),
        tuple(math.nan if interval is None else interval.high for interval in intervals),
    )


def speedup_axis(panels: Sequence[Panel], *, log: bool = False) -> ChartAxis:
    """Return the axis of speedups, with all marks of *panels* on it."""
    heights = [
        y for panel in panels for mark in panel.marks if isinstance(mark, Line) for y in mark.y
    ]
    return ChartAxis("speedup", log=log, ends=(min(heights), max(heights)))


def scaling_chart(scaling: Scaling) -> Chart:
    """Return the chart of an analysis, all of its curves in one panel."""
    curves = scaling.curves
    if len(curves) > MOST_CURVES:
        raise InputError(
            f"{len(curves)} curves are too many for a chart; it shows {MOST_CURVES}",
            hint="choose some by --where, or draw them by --by",
        )
    names = [curve.name or "measured" for curve in curves]
    ranks: dict[str, int] = {}
    panel = scaling_panel("", curves, names, ranks)
    workers = sorted({point.workers for curve in curves for point in curve.points})
    x = ChartAxis(scaling.over, ticks=tuple(workers), ends=(workers[0], workers[-1]))
    rows = sum(point.rows for curve in curves for point in curve.points)
    note = "; ".join(
        ["bars: 95 % interval of the speedup", *scaling.notes, f"{rows:,} experiments"]
    )
    title = f"{scaling.study}: {scaling.mode} scaling of {scaling.metric} over {scaling.over}"
    return NotebookChart(
        "scaling", title, note, x, speedup_axis([panel]), (panel,),
        colour=ChartAxis("curve"), levels=tuple(ranks),
    )  # fmt: skip


def chart_of_rows(table: ChartTable) -> Chart:
    """Return strong scaling: x are the workers, y is a time; a curve for each colour."""
    x = table.axis("x")
    if x.categories is not None:
        raise InputError(
            f"{table.query.x!r} is no number of workers", hint="--x threads, or another number"
        )
    table.notes.append("bars: 95 % interval of the speedup")
    panels: list[Panel] = []
    ranks: dict[str, int] = {}
    name = table.query.colour
    for facet in table.split("facet", 16):
        curves, names = [], []
        for colour in table.split("colour", MOST_CURVES):
            parts = table.parts
            chosen = has_level(parts["facet"], facet) & has_level(parts["colour"], colour)
            rows = parts[chosen & (parts["x"] > 0) & (parts["value"] > 0)]
            if len(set(rows["x"])) > 1:
                curves.append(scaling_curve(rows["x"], rows["value"]))
                names.append(f"{name}={label_of(colour)}" if name else "measured")
        if curves:
            title = f"{table.query.facet} = {label_of(facet)}" if table.query.facet else ""
            panels.append(scaling_panel(title, curves, names, ranks))
    if not panels:
        raise InputError(f"no curve has two values of {table.query.x}", hint="--x threads")
    return table.chart(
        panels, x, speedup_axis(panels, log="y" in table.query.log),
        subject=f"speedup of {table.query.metric} over {table.query.x}",
        colour=ChartAxis(name or "curve"), levels=tuple(ranks),
    )  # fmt: skip
