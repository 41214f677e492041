"""The whole of an image: panels, axes, what the colours mean, title and small print."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, Formatter, NullFormatter, NullLocator

from zenturio.show import fields, marks, palette, steps
from zenturio.show.chart import Axis, Chart, Kind, Panel, brief
from zenturio.show.layout import apart, columns_of, decades, number, numbers

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.edgecolor": palette.FAINT,
    "axes.labelcolor": palette.INK,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.7,
    "text.color": palette.INK,
    "text.parse_math": False,  # a name with $ in it is a name
    "xtick.color": palette.INK,
    "ytick.color": palette.INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "errorbar.capsize": 2.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "zenturio",  # the same chart gives the same bytes
    "pdf.fonttype": 42,
}

LEAST = 20
"""Letters of a line of the title, however little room there is."""


def draw(chart: Chart) -> Figure:
    """The figure of a chart."""
    size = size_of(chart)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    paint(figure, chart, size[0])
    return figure


def paint(figure: FigureBase, chart: Chart, width: float) -> None:
    """A panel for each facet, one legend or scale, title and small print, *width* inches wide."""
    count = len(chart.panels)
    columns = columns_of(count)
    solid = {"projection": "3d"} if chart.kind == "surface" else {}
    drawers: dict[Kind, Callable[[Axes, Panel, Chart], Any]] = {
        "line": marks.lines, "bar": marks.bars, "scatter": marks.points, "box": marks.boxes,
        "pie": marks.slices, "heatmap": fields.tiles, "surface": fields.surface,
        "parallel": fields.strands, "convergence": steps.steps, "importance": steps.shares,
        "slice": steps.sliced, "pareto": steps.fronts,
    }  # fmt: skip
    all_axes: list[Axes] = []
    shaded = None
    for place, panel in enumerate(chart.panels):
        share = {} if not all_axes or solid or chart.kind in ("pie", "parallel") else {
            "sharex": None if panel.x else all_axes[0], "sharey": all_axes[0]}  # fmt: skip
        axes = figure.add_subplot(-(-count // columns), columns, place + 1, **solid, **share)
        all_axes.append(axes)
        shaded = drawers[chart.kind](axes, panel, chart) or shaded
        axes.set_title(brief(panel.title), loc="left")
    if chart.kind not in ("pie", "parallel", "surface"):
        for place, axes in enumerate(all_axes):
            own = chart.panels[place].x
            _label(axes, chart, own, left=place % columns == 0, bottom=place + columns >= count)
    _explain(figure, all_axes, chart, shaded)
    _caption(figure, chart, width)


def size_of(chart: Chart) -> tuple[float, float]:
    """Inches: a single panel is a column and a half of a paper, more of them are smaller."""
    columns = columns_of(len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    wide, high = (6.2, 4.2) if columns * rows == 1 else (3.6, 3.0) if rows < 4 else (3.0, 2.4)
    for axis, panel in ((chart.x, wide), (chart.y, high)):
        crowded = len(axis.categories or ()) * (0.26 if axis is chart.x else 0.22)
        if axis is chart.x:
            wide = min(max(wide, crowded), 14) if columns == 1 else wide
        else:
            high = min(max(panel, crowded), 12) if rows == 1 else high
    if chart.kind == "parallel" and chart.panels[0].strands:
        axes = len(chart.panels[0].strands.axes)
        wide = max(wide, (1.5 if axes <= fields.FEW_AXES else 0.85) * axes)
        high = high if axes <= fields.FEW_AXES else 5.4
    return columns * wide + _beside(chart), rows * high + 0.8


def _label(axes: Axes, chart: Chart, own: Axis | None, *, left: bool, bottom: bool) -> None:
    """Names of the axes at the outer panels, marks where the values are."""
    if bottom or own:
        axes.set_xlabel((own or chart.x).pointed)
    if left:
        axes.set_ylabel(chart.y.pointed)
    axes.tick_params(labelleft=left, labelbottom=bottom or own is not None)
    _scale(axes, "x", own or chart.x, len(chart.panels))
    _scale(axes, "y", chart.y, len(chart.panels))


class _Marks(Formatter):
    """Writes the marks of an axis as the other kinds of figures write them."""

    def __call__(self, value: float, _: int | None = None) -> str:
        return number(value)

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        return numbers(values)


def _scale(axes: Axes, letter: Literal["x", "y"], axis: Axis, panels: int) -> None:
    side = axes.xaxis if letter == "x" else axes.yaxis
    if axis.categories is not None:
        return
    if axis.log:
        (axes.set_xscale if letter == "x" else axes.set_yscale)("log")
        side.set_major_locator(FixedLocator(decades(*side.get_view_interval())))
        side.set_minor_formatter(NullFormatter())
    if axis.log or axis.ticks:
        side.set_major_formatter(_Marks())
    if apart(axis, panels):
        side.set_major_locator(FixedLocator(axis.ticks))
        side.set_minor_locator(NullLocator())


def _explain(figure: FigureBase, all_axes: list[Axes], chart: Chart, shaded: Any) -> None:
    """What the colours mean: a legend or a scale, to the right of everything."""
    if shaded is not None:
        _explain_scale(figure, all_axes, chart, shaded)
        return
    if not chart.levels or chart.colour is None:
        return
    handles: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    known = [level for level in chart.levels if level in handles]
    figure.legend(
        [handles[level] for level in known],
        [brief(level) for level in known],
        loc="outside right upper",
        title=brief(chart.colour.label),
        alignment="left",
    )


def _explain_scale(figure: FigureBase, all_axes: list[Axes], chart: Chart, shaded: Any) -> None:
    solid = chart.kind == "surface"
    rows = math.ceil(len(all_axes) / columns_of(len(all_axes)))
    bar = figure.colorbar(
        shaded, ax=all_axes, pad=0.08 if solid else 0.02, shrink=0.7 if solid else 1.0,
        aspect=20 * rows,
    )  # fmt: skip
    meant = chart.z or chart.colour
    bar.set_label(meant.pointed if meant else "")
    if bar.solids is not None:
        bar.solids.set_alpha(1)
    bar.outline.set_visible(False)
    log = meant is not None and meant.log
    if log:
        # In space the logarithms themselves are drawn.
        low, high = (10**end for end in bar.ax.get_ylim()) if solid else bar.ax.get_ylim()
        ticks = decades(low, high)
        bar.set_ticks([math.log10(tick) for tick in ticks] if solid else ticks)
        bar.ax.yaxis.set_minor_locator(NullLocator())
    power = log and solid
    bar.ax.yaxis.set_major_formatter(lambda value, _: number(10**value if power else value))


def _caption(figure: FigureBase, chart: Chart, width: float) -> None:
    room = width - _beside(chart)
    title = "\n".join(textwrap.wrap(" ".join(chart.title.split()), max(int(room * 9.5), LEAST)))
    note = "\n".join(textwrap.wrap(chart.note, int(width * 16)))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=palette.FAINT)


def _beside(chart: Chart) -> float:
    """Inches that the legend or the scale takes."""
    if chart.levels and chart.colour:
        names = [brief(level) for level in chart.levels]
        return 0.7 + 0.075 * max(len(brief(chart.colour.label)) - 4, *map(len, names))
    return 1.0 if chart.z or chart.ordered else 0.0
