"""What stands inside the axes of an image: charts of a value over pairs, or of all columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize

from zenturio.show import palette
from zenturio.show.chart import Axis, Chart, Panel, brief
from zenturio.show.layout import decades, marks, numbers
from zenturio.show.marks import name_ticks, scale

TILES_WITH_TEXT = 12
"""A heatmap with at most so many rows and columns says its numbers."""

FEW_AXES = 10
"""Of more parallel axes than this each has less room, and the names are slanted."""

MANY_LINES = 200
MANY_PLACES = 25

MOST_NAMES = 60
"""Of the rows of a heatmap; of more of them every second, third ... is named."""


def tiles(axes: Axes, panel: Panel, chart: Chart) -> Any:
    grid = panel.grid
    assert grid is not None
    assert chart.z is not None
    values = np.array(grid.z, dtype=float)
    norm = _norm(chart)
    mesh = axes.pcolormesh(values, cmap=scale(), norm=norm, edgecolors="white", linewidth=0.6)
    axes.grid(visible=False)
    name_ticks(axes, grid.x, 0.5)
    every = math.ceil(len(grid.y) / MOST_NAMES)
    names = [brief(text, 28) for text in grid.y]
    axes.set_yticks(np.arange(0, len(names), every) + 0.5, names[::every])
    axes.tick_params(length=0)
    if max(values.shape) <= TILES_WITH_TEXT:
        _say_values(axes, values, norm)
    return mesh


def _norm(chart: Chart) -> Any:
    values = [v for p in chart.panels if p.grid for row in p.grid.z for v in row]
    there = [value for value in values if not math.isnan(value)]
    return (LogNorm if chart.z and chart.z.log else Normalize)(min(there), max(there))


def _say_values(axes: Axes, values: np.ndarray, norm: Any) -> None:
    for (row, column), value in np.ndenumerate(values):
        if not math.isnan(value):
            ink = "white" if palette.dark(palette.shade(float(norm(value)))) else palette.INK
            place = (column + 0.5, row + 0.5)
            axes.annotate(f"{value:.3g}", place, ha="center", va="center", color=ink, fontsize=8)


def surface(axes: Any, panel: Panel, chart: Chart) -> Any:
    """Logarithms are taken beforehand: matplotlib has no logarithmic axes in space."""
    grid = panel.grid
    assert grid is not None
    assert chart.z is not None
    parts = ((chart.x, grid.x), (chart.y, grid.y), (chart.z, grid.z))
    x, y, z = (
        np.log10(np.array(values, dtype=float)) if axis.log else np.array(values, dtype=float)
        for axis, values in parts
    )
    drawn = axes.plot_surface(
        *np.meshgrid(x, y), z, cmap=scale(), rcount=200, ccount=200, edgecolor="white",
        linewidth=0.3, antialiased=True,
    )  # fmt: skip
    axes.view_init(elev=26, azim=-130)
    axes.set_xlabel(chart.x.label, labelpad=6)
    axes.set_ylabel(chart.y.label, labelpad=6)
    axes.set_zlabel(chart.z.label, labelpad=6)
    for side, axis in (("x", chart.x), ("y", chart.y), ("z", chart.z)):
        _space_ticks(axes, side, axis)
    return drawn


def _space_ticks(axes: Any, side: str, axis: Axis) -> None:
    ticks = list(axis.ticks) if 0 < len(axis.ticks) <= 8 else []
    if axis.log and not ticks:
        ticks = decades(*axis.ends)
    if ticks:
        places = np.log10(ticks) if axis.log else ticks
        getattr(axes, f"set_{side}ticks")(places, numbers(ticks))


def strands(axes: Axes, panel: Panel, chart: Chart) -> Any:  # noqa: ARG001 - as its siblings
    """Every axis is scaled to the same height; its ends, or its texts, stand beside it."""
    found = panel.strands
    assert found is not None
    heights = np.array(
        [_heights(axis, c) for axis, c in zip(found.axes, found.columns, strict=True)]
    )
    places = np.arange(len(found.axes), dtype=float)
    many = len(found.shades) > MANY_LINES
    if many:
        heights = np.array([_spread(each) for each in heights])
    order = np.argsort(found.shades, kind="stable")
    order = order[::-1] if found.lowest_on_top else order
    paths = [np.column_stack([places, heights[:, line]]) for line in order]
    strength = np.full(len(order), 0.35 if many else 0.7)
    if found.strong:
        strength[:] = 0.1
        strength[-found.strong :] = 0.9
    drawn = LineCollection(
        paths, cmap=scale(palette.BRIGHTEST), alpha=strength, linewidth=0.7 if many else 1.1
    )
    drawn.set_array(np.array(found.shades)[order])
    axes.add_collection(drawn)
    axes.set(xlim=(-0.15, len(places) - 0.6), ylim=(-0.05, 1.05), yticks=[])
    axes.set_xticks(places, [brief(axis.label, 20) for axis in found.axes])
    axes.tick_params(axis="x", length=0, pad=10)
    if len(places) > FEW_AXES:
        axes.tick_params(axis="x", rotation=35, pad=4)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for place, axis, column in zip(places, found.axes, found.columns, strict=True):
        axes.axvline(place, 0.03, 0.97, color=palette.INK, linewidth=0.9)
        _mark_axis(axes, place, axis, column, 8 if len(places) > FEW_AXES else 14)
    return _opaque(drawn)


def _heights(axis: Axis, column: tuple[float, ...]) -> np.ndarray:
    values, ends = np.array(column), np.array([min(column), max(column)])
    if axis.log:
        values, ends = np.log(values), np.log(ends)
    low, high = (0.0, len(axis.categories) - 1.0) if axis.categories else ends
    return (values - low) / (high - low) if high > low else np.full(len(values), 0.5)


def _spread(heights: np.ndarray) -> np.ndarray:
    """Many lines through few places lie side by side there, as widely as there is room."""
    places = np.unique(heights)
    if len(places) > MANY_PLACES:
        return heights
    step = np.diff(places).min() if len(places) > 1 else 0.2
    aside = np.arange(len(heights)) * math.sqrt(2) % 1 - 0.5
    spread: np.ndarray = heights + aside * min(step, 0.2) * 0.4
    return spread


def _mark_axis(
    axes: Axes, place: float, axis: Axis, column: tuple[float, ...], longest: int
) -> None:
    if axis.categories:
        last = max(len(axis.categories) - 1, 1)
        named = {brief(text, longest): i / last for i, text in enumerate(axis.categories)}
    else:
        values = marks(column, log=axis.log)
        named = dict(zip((f"{v:.4g}" for v in values), _heights(axis, tuple(values)), strict=True))
    box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8}
    for text, height in named.items():
        axes.text(place + 0.03, height, text, fontsize=8, va="center", bbox=box)


def _opaque(drawn: Any) -> Any:
    """The scale beside the picture is not as faint as its lines."""
    drawn.autoscale_None()
    return ScalarMappable(norm=drawn.norm, cmap=drawn.cmap)
