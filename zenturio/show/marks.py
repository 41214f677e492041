"""What stands inside the axes of an image, by kind of chart; drawn with matplotlib.

A drawer returns what a colour scale can be made from, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from zenturio.show import palette
from zenturio.show.chart import Axis, Chart, Panel, Series, brief


def _colour(series: Series, chart: Chart) -> str:
    return palette.colour(series.rank, len(chart.levels), ordered=chart.ordered)


def _bars(series: Series) -> np.ndarray | None:
    """Lengths of the error bars downwards and upwards."""
    if not series.low:
        return None
    y = np.array(series.y)
    ends = np.array([y - series.low, np.array(series.high) - y])
    return np.asarray(np.nan_to_num(ends))


def _numbered(axis: Axis, values: tuple[Any, ...]) -> np.ndarray:
    """Places on an axis: numbers as they are, texts by their order."""
    if axis.categories is None:
        return np.array(values, dtype=float)
    places = {text: i for i, text in enumerate(axis.categories)}
    return np.array([places[value] for value in values], dtype=float)


def _name_categories(axes: Axes, axis: Axis) -> None:
    if axis.categories is not None:
        name_ticks(axes, axis.categories)


def name_ticks(axes: Axes, names: Sequence[str], first: float = 0.0) -> None:
    """Texts under the x axis from *first* on: slanted where they would touch, then fewer."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = figure.get_figwidth() * axes.get_subplotspec().get_position(figure).width  # type: ignore[union-attr]
    texts = [brief(name, 28) for name in names]
    longest = max(map(len, texts))
    slanted = longest > 4 and (longest + 2) * len(texts) > inches * 12
    room = inches * 5 if slanted else inches * 12 / (longest + 1)
    every = max(1, math.ceil(len(texts) / room))
    axes.set_xticks(np.arange(0, len(texts), every) + first, texts[::every])
    if slanted:
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def lines(axes: Axes, panel: Panel, chart: Chart) -> None:
    for series in panel.series:
        every = -(-len(series.x) // palette.MARKED)
        axes.errorbar(
            _numbered(chart.x, series.x),
            series.y,
            yerr=_bars(series),
            color=_colour(series, chart),
            linestyle=palette.dash(series.rank, ordered=chart.ordered),
            marker=palette.marker(series.rank) if every == 1 or chart.levels else "",
            markevery=every,  # marks then only tell the lines apart
            elinewidth=1,
            label=series.name,
        )
    _name_categories(axes, chart.x)


def bars(axes: Axes, panel: Panel, chart: Chart) -> None:
    count = max(len(chart.levels), 1)
    width = 0.8 / count
    for series in panel.series:
        offset = (series.rank - (count - 1) / 2) * width
        axes.bar(
            _numbered(chart.x, series.x) + offset,
            series.y,
            width * 0.94,
            yerr=_bars(series),
            color=_colour(series, chart),
            hatch=("", "///", "...", "xxx")[0 if chart.ordered else series.rank // 7 % 4],
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 1, "ecolor": palette.INK},
            label=series.name,
        )
    axes.grid(visible=False, axis="x")
    _name_categories(axes, chart.x)


def points(axes: Axes, panel: Panel, chart: Chart) -> Any:
    shaded = None
    many = sum(len(series.x) for series in panel.series) > 500
    for series in panel.series:
        style: dict[str, Any] = {
            "s": 9 if many else 24,
            "alpha": 0.6 if many else 0.85,
            "linewidths": 0,
        }
        x = _numbered(chart.x, series.x)
        if series.shades:
            ends = _ends(chart)
            shaded = axes.scatter(
                x,
                series.y,
                c=series.shades,
                cmap=scale(palette.BRIGHTEST),
                vmin=ends[0],
                vmax=ends[1],
                **style,
            )
        else:
            marker = palette.marker(series.rank)
            colour = _colour(series, chart)
            axes.scatter(x, series.y, color=colour, marker=marker, label=series.name, **style)
    _name_categories(axes, chart.x)
    return shaded


def _ends(chart: Chart) -> tuple[float, float]:
    """The colour scale is the same in every panel."""
    shades = [shade for p in chart.panels for series in p.series for shade in series.shades]
    return min(shades), max(shades)


def scale(brightest: float = 1.0) -> LinearSegmentedColormap:
    """The palette's scale; up to *brightest* where it stands as thin marks on white."""
    colours = [palette.shade(brightest * i / 16) for i in range(17)]
    return LinearSegmentedColormap.from_list("scale", colours)


def boxes(axes: Axes, panel: Panel, chart: Chart) -> None:
    count = max(len(chart.levels), 1)
    width = 0.8 / count
    for series in panel.series:
        colour = _colour(series, chart)
        offset = (series.rank - (count - 1) / 2) * width
        axes.boxplot(
            series.samples,
            positions=_numbered(chart.x, series.x) + offset,
            widths=width * 0.8,
            patch_artist=True,
            showmeans=True,
            manage_ticks=False,
            boxprops={"facecolor": colour + "40", "edgecolor": colour, "linewidth": 1.2},
            medianprops={"color": palette.INK, "linewidth": 1.6},
            meanprops={
                "marker": "D",
                "markersize": 4.5,
                "markerfacecolor": palette.INK,
                "markeredgecolor": "white",
            },
            whiskerprops={"color": colour, "linewidth": 1.2},
            capprops={"color": colour, "linewidth": 1.2},
            flierprops={"marker": "o", "markersize": 3, "markeredgecolor": colour},
        )
        if series.name:
            axes.fill_between([], [], facecolor=colour + "40", edgecolor=colour, label=series.name)
    axes.grid(visible=False, axis="x")
    _name_categories(axes, chart.x)
    axes.set_xlim(-0.6, len(chart.x.categories or ()) - 0.4)


def slices(axes: Axes, panel: Panel, chart: Chart) -> None:
    (series,) = panel.series
    colours = palette.slices(series.x, chart.x.categories or ())
    total = sum(series.y)
    labels = [
        f"{brief(name, 24)}\n{value / total:.1%}"
        for name, value in zip(series.x, series.y, strict=True)
    ]
    axes.pie(
        series.y,
        labels=labels,
        colors=list(colours),
        startangle=90,
        counterclock=False,
        wedgeprops={"edgecolor": "white", "linewidth": 1.2},
        textprops={"fontsize": 9},
    )
    unit = f" {chart.y.unit}" if chart.y.unit else ""
    axes.set_xlabel(f"{chart.y.name}: {total:.4g}{unit} in all by {chart.x.label}")
