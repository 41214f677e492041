"""What stands inside the axes of a search's images; drawn with matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from zenturio.show import palette
from zenturio.show.chart import Chart, Panel, Series, brief
from zenturio.show.layout import shares_said
from zenturio.show.marks import scale

MANY = 500
"""Beyond so many, points are small and let others shine through."""
VECTORS = 5_000
"""Beyond so many, points are an image inside the image: files of so many circles are slow."""
FEW_STEPS = 40
CROWDED = 100
"""Beyond so many, points of a front have no edges: they would hide each other."""


def steps(axes: Axes, panel: Panel, chart: Chart) -> None:
    """Lines that stay where they are until something better is found, and their bands."""
    last = max(series.x[-1] for series in panel.series)
    for series in panel.series:
        colour = palette.colour(series.rank, len(chart.levels), ordered=chart.ordered)
        if series.low:
            axes.fill_between(
                series.x, series.low, series.high, step="post", color=colour, alpha=0.18,
                linewidth=0,
            )  # fmt: skip
        few = len(series.x) <= FEW_STEPS and len(panel.series) == 1
        axes.plot(
            series.x,
            series.y,
            drawstyle="steps-post",
            color=colour,
            linestyle=palette.dash(series.rank, ordered=chart.ordered),
            marker="o" if few else None,
            markersize=3.5,
            markevery=list(range(len(series.x) - 1)) or None,
            label=series.name,
        )
    if not chart.x.log:
        axes.set_xlim(-0.02 * last, 1.03 * last)


def shares(axes: Axes, panel: Panel, chart: Chart) -> None:
    """Bars from left to right, the first name on top, with their numbers."""
    names = chart.y.categories or ()
    places = {name: len(names) - 1 - at for at, name in enumerate(names)}
    looks: dict[str, dict[str, Any]] = {
        "front": {"color": "none", "edgecolor": palette.DISTINCT[0], "linewidth": 1.0},
        "plain": {"color": palette.DISTINCT[0]},
        "faint": {"color": palette.PALE},
    }
    ends = dict.fromkeys(names, 0.0)
    for series in panel.series:
        heights = [places[name] for name in series.x]
        thick = 0.72 if series.role == "front" else 0.5
        axes.barh(heights, series.y, thick, label=series.name, **looks[series.role])
        for name, value in zip(series.x, series.y, strict=True):
            ends[name] = max(ends[name], value)
    for name, text in shares_said(panel).items():
        place = (max(ends[name], 0.0), places[name])
        axes.annotate(text, place, (4, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.set_yticks(list(places.values()), [brief(name, 28) for name in places])
    axes.set(ylim=(-0.6, len(names) - 0.4), xlim=(min(0.0, *ends.values()), chart.x.ends[1] * 1.15))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def sliced(axes: Axes, panel: Panel, chart: Chart) -> Any:
    """What came of each value of one parameter; the ring is the best point."""
    assert panel.x is not None
    assert chart.colour is not None
    shaded = None
    for series in panel.series:
        if series.role == "best":
            axes.scatter(
                series.x, series.y, s=60, facecolors="none", edgecolors=palette.RING,
                linewidths=1.4, zorder=3,
            )  # fmt: skip
        else:
            shaded = axes.scatter(
                series.x, series.y, c=series.shades, cmap=scale(palette.BRIGHTEST),
                vmin=chart.colour.ends[0], vmax=chart.colour.ends[1], **_dots(series, chart),
            )  # fmt: skip
    names = panel.x.categories
    if names is not None:
        every = -(-len(names) // 8)
        axes.set_xticks(np.arange(0, len(names), every), [brief(n, 12) for n in names[::every]])
        axes.set_xlim(-0.6, len(names) - 0.4)
        if sum(min(len(name), 12) + 2 for name in names[::every]) > 34:
            axes.tick_params(axis="x", rotation=30)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
    return shaded


def _dots(series: Series, chart: Chart) -> dict[str, Any]:
    drawn = sum(len(each.x) for panel in chart.panels for each in panel.series)
    many = len(series.x) > MANY
    return {
        "s": 7 if many else 20,
        "alpha": 0.5 if many else 0.85,
        "linewidths": 0,
        "rasterized": drawn > VECTORS and len(series.x) > 1,
    }


def fronts(axes: Axes, panel: Panel, chart: Chart) -> Any:
    """Points by their goals; what is on the front is joined by the edge of what it covers."""
    shaded = None
    for series in panel.series:
        on_front = series.role == "front"
        look = _dots(series, chart)
        if on_front:
            edge = 0.6 if len(series.x) <= CROWDED else 0.0
            look |= {"s": 34 if edge else 10, "alpha": 1.0, "zorder": 3}
            look |= {"edgecolors": "white", "linewidths": edge}
        if series.shades:
            assert chart.colour is not None
            shaded = axes.scatter(
                series.x, series.y, c=series.shades, cmap=scale(palette.BRIGHTEST),
                vmin=chart.colour.ends[0], vmax=chart.colour.ends[1],
                **look | ({"edgecolors": palette.INK} if on_front else {"alpha": 0.25}),
            )  # fmt: skip
            continue
        colour = palette.DISTINCT[1] if on_front else palette.PALE
        if on_front:
            axes.plot(series.x, series.y, color=colour, drawstyle="steps-post", linewidth=1.3)
        axes.scatter(series.x, series.y, color=colour, label=series.name, **look)
    return shaded
