"""Charts for papers: figures of matplotlib, the same bytes for the same chart."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure, FigureBase
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, Formatter, MaxNLocator, NullFormatter, NullLocator

from zenturio.show.chart import (
    Bars,
    Boxes,
    Chart,
    ChartAxis,
    Line,
    Nodes,
    Panel,
    Points,
    Rectangle,
    Rectangles,
    Segments,
    Strands,
    Surface,
    Tiles,
    Wedges,
    bar_labels,
    columns_for,
    has_room_for_ticks,
    log_ticks,
    shorten,
    strand_ticks,
    tick_text,
    tick_texts,
)
from zenturio.show.renderers import palette

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
    "axes.formatter.useoffset": False,  # a tick says its whole number
    "axes.formatter.limits": (-4, 9),
    "svg.fonttype": "path",
    "svg.hashsalt": "zenturio",  # the same chart gives the same bytes
    "pdf.fonttype": 42,
}

ROWS_WIDTH = 9.0
"""Inches, as all that follow: a chart of rows or a graph, without its legend."""
ROWS_LEGEND_WIDTH = 1.5
TALLEST_ROWS = 9.0
GRAPH_HEIGHT = 5.4
LETTER_WIDTH = 0.065
"""Of a letter in a rectangle."""
SHORTEST_TITLE_LINE = 20
"""Letters of a line of the title, however little room there is."""
MANY_POINTS = 500
"""Beyond this, points are small and translucent, so that others show through."""
MOST_VECTOR_POINTS = 5_000
"""Beyond this, points are a bitmap inside the file: so many circles are slow to display."""
CROWDED_FRONT = 100
"""Beyond this, points of a front have no edges: they would hide each other."""
FEW_STEPS = 40
MOST_TILES_WITH_TEXT = 12
"""A heatmap with at most so many rows and columns shows its numbers."""
MOST_ROW_NAMES = 60
"""Named rows of a heatmap; of more rows, every second, third ... is named."""
FEW_AXES = 10
"""More parallel axes than this have less room each, and slanted names."""
MANY_STRANDS = 200
MANY_STRAND_PLACES = 25
FEW_NODES = 300
FEW_SEGMENTS = 600
"""Lines that are as dark as they can be; the more there are, the fainter each is."""
LONGEST_RECTANGLE_NAME = 20


def draw(chart: Chart) -> Figure:
    """Return the figure of *chart*."""
    size = figure_size(chart)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    paint(figure, chart, *size)
    return figure


def paint(figure: FigureBase, chart: Chart, width: float, height: float) -> None:
    """Draw *chart* into *figure*, which is *width* by *height* inches."""
    count = len(chart.panels)
    columns = columns_for(count)
    solid = {"projection": "3d"} if chart.frame == "space" else {}
    all_axes: list[Axes] = []
    shaded = None
    for number, panel in enumerate(chart.panels):
        shared: dict[str, Any] = {}
        if all_axes and chart.frame == "plane":
            first = all_axes[0]
            shared = {"sharex": None if panel.x else first, "sharey": None if panel.y else first}
        axes = figure.add_subplot(-(-count // columns), columns, number + 1, **solid, **shared)
        all_axes.append(axes)
        for mark in panel.marks:
            shaded = _DRAWERS[type(mark)](axes, mark, panel, chart, height) or shaded
        axes.set_title(shorten(panel.title), loc="left")
    if chart.frame == "plane" and not chart.x.is_hidden:
        for number, axes in enumerate(all_axes):
            is_left, is_bottom = number % columns == 0, number + columns >= count
            _label_axes(axes, chart, chart.panels[number], left=is_left, bottom=is_bottom)
    _draw_legend(figure, all_axes, chart, shaded)
    _draw_caption(figure, chart, width)


def figure_size(chart: Chart) -> tuple[float, float]:
    """Return inches: a single panel is a column and a half of a paper, several are smaller."""
    if chart.y.is_hidden or chart.y.is_spread:
        rows = len(chart.y.categories or ())
        height = min(TALLEST_ROWS, max(2.6, 1.3 + 0.24 * rows)) if rows else GRAPH_HEIGHT
        return ROWS_WIDTH + _legend_width(chart), height
    columns = columns_for(len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    wide, high = (6.2, 4.2) if columns * rows == 1 else (3.6, 3.0) if rows < 4 else (3.0, 2.4)
    if columns == 1:
        wide = min(max(wide, 0.26 * len(chart.x.categories or ())), 14)
    if rows == 1:
        high = min(max(high, 0.22 * len(chart.y.categories or ())), 12)
    strands = next((mark for mark in chart.marks() if isinstance(mark, Strands)), None)
    if strands:
        axes = len(strands.axes)
        wide = max(wide, (1.5 if axes <= FEW_AXES else 0.85) * axes)
        high = high if axes <= FEW_AXES else 5.4
    return columns * wide + _legend_width(chart), rows * high + 0.8


# Axes, legend and caption


class _TickFormatter(Formatter):
    """Write ticks as the other renderers write them."""

    def __call__(self, value: float, _: int | None = None) -> str:
        return tick_text(value)

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        return tick_texts(values)


def _label_axes(axes: Axes, chart: Chart, panel: Panel, *, left: bool, bottom: bool) -> None:
    """Name the axes of the outer panels, and put ticks where the values are."""
    if bottom or panel.x:
        axes.set_xlabel((panel.x or chart.x).title_of_panel(len(chart.panels)))
    if left:
        axes.set_ylabel(chart.y.title_of_panel(len(chart.panels)))
    axes.tick_params(
        labelleft=left or panel.y is not None, labelbottom=bottom or panel.x is not None
    )
    _scale_axis(axes, "x", panel.x or chart.x, len(chart.panels))
    _scale_axis(axes, "y", panel.y or chart.y, len(chart.panels))


def _scale_axis(axes: Axes, letter: Literal["x", "y"], axis: ChartAxis, panels: int) -> None:
    if axis.categories is not None:
        return
    side = axes.xaxis if letter == "x" else axes.yaxis
    if axis.log:
        (axes.set_xscale if letter == "x" else axes.set_yscale)("log")
        side.set_major_locator(FixedLocator(log_ticks(*side.get_view_interval())))
        side.set_minor_formatter(NullFormatter())
    if axis.log or axis.ticks:
        side.set_major_formatter(_TickFormatter())
    if has_room_for_ticks(axis, panels):
        side.set_major_locator(FixedLocator(axis.ticks))
        side.set_minor_locator(NullLocator())
    elif axis.is_whole and not axis.log:
        side.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))


_LABEL = "="
"""Before each name: matplotlib leaves out those that are empty or begin with ``_``."""


def _draw_legend(figure: FigureBase, all_axes: list[Axes], chart: Chart, shaded: Any) -> None:
    """Draw the legend or the colour scale, to the right of all panels."""
    if shaded is not None:
        _draw_colour_scale(figure, all_axes, chart, shaded)
        return
    if not chart.has_legend or chart.colour is None:
        return
    handles: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label.removeprefix(_LABEL), handle)
    for level in _drawn_levels(chart):
        handles[chart.levels[level]] = Patch(color=palette.level_colour(chart, level))
    shown = [level for level in chart.levels if level in handles]
    figure.legend(
        [handles[level] for level in shown],
        [shorten(level) for level in shown],
        loc="outside right upper",
        title=shorten(chart.colour.label) or None,
        alignment="left",
    )


def _drawn_levels(chart: Chart) -> list[int]:
    """Return the levels of rectangles and nodes: these have no handle for the legend."""
    items = [i for m in chart.marks() if isinstance(m, Rectangles | Nodes) for i in m.items]
    return sorted({item.level for item in items})


def _draw_colour_scale(figure: FigureBase, all_axes: list[Axes], chart: Chart, shaded: Any) -> None:
    is_solid = chart.frame == "space"
    rows = math.ceil(len(all_axes) / columns_for(len(all_axes)))
    bar = figure.colorbar(
        shaded, ax=all_axes, pad=0.08 if is_solid else 0.02, shrink=0.7 if is_solid else 1.0,
        aspect=20 * rows,
    )  # fmt: skip
    meaning = chart.z or chart.colour
    bar.set_label(meaning.label_with_direction if meaning else "")
    if bar.solids is not None:
        bar.solids.set_alpha(1)
    bar.outline.set_visible(False)
    is_log = meaning is not None and meaning.log
    # In space the logarithms themselves are drawn: matplotlib has no logarithmic axes there.
    is_power = is_log and is_solid
    if is_log:
        low, high = (10**end for end in bar.ax.get_ylim()) if is_solid else bar.ax.get_ylim()
        ticks = log_ticks(low, high)
        bar.set_ticks([math.log10(tick) for tick in ticks] if is_solid else ticks)
        bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(lambda value, _: tick_text(10**value if is_power else value))


def _draw_caption(figure: FigureBase, chart: Chart, width: float) -> None:
    room = max(int((width - _legend_width(chart)) * 9.5), SHORTEST_TITLE_LINE)
    title = "\n".join(textwrap.wrap(" ".join(chart.title.split()), room))
    note = "\n".join(textwrap.wrap(chart.note, int(width * 16)))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=palette.FAINT)


def _legend_width(chart: Chart) -> float:
    """Return the inches that the legend or the colour scale takes."""
    if chart.has_legend and chart.colour:
        if chart.y.is_hidden or chart.y.is_spread:
            return ROWS_LEGEND_WIDTH
        names = [shorten(level) for level in chart.levels]
        return 0.7 + 0.075 * max(len(shorten(chart.colour.label)) - 4, *map(len, names))
    return 1.0 if chart.z or chart.ordered else 0.0


# Marks: a function for each. It returns what a colour scale can be made from, or None.


def _positions(axis: ChartAxis, values: tuple[Any, ...]) -> np.ndarray:
    """Return places on an axis: numbers as they are, texts by their order."""
    if axis.categories is None or axis.is_spread:
        return np.array(values, dtype=float)
    places = {text: i for i, text in enumerate(axis.categories)}
    return np.array([places[value] for value in values], dtype=float)


def _error_lengths(mark: Line | Bars | Points) -> np.ndarray | None:
    """Return the lengths of the error bars downwards and upwards; NaN draws none.

    A length of 0 would be drawn: as an interval of equal values. A mean may lie outside of the
    middle 95% of what it is the mean of; the bar then begins at the mean.
    """
    if not mark.low:
        return None
    y = np.array(mark.y)
    lengths = np.array([y - mark.low, np.array(mark.high) - y])
    return np.where(np.isfinite(lengths).all(axis=0), np.maximum(lengths, 0.0), np.nan)


def _name_categories(axes: Axes, axis: ChartAxis) -> None:
    if axis.categories is not None and not axis.is_spread:
        _name_x_ticks(axes, axis.categories)


def _name_x_ticks(axes: Axes, names: Sequence[str], first: float = 0.0) -> None:
    """Put *names* below the x axis; where they would touch they are slanted, and then fewer."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = figure.get_figwidth() * axes.get_subplotspec().get_position(figure).width  # type: ignore[union-attr]
    texts = [shorten(name, 28) for name in names]
    longest = max(map(len, texts))
    is_slanted = longest > 4 and (longest + 2) * len(texts) > inches * 12
    room = inches * 5 if is_slanted else inches * 12 / (longest + 1)
    every = max(1, math.ceil(len(texts) / room))
    axes.set_xticks(np.arange(0, len(texts), every) + first, texts[::every])
    if is_slanted:
        _slant(axes, 35)


def _slant(axes: Axes, degrees: int) -> None:
    axes.tick_params(axis="x", rotation=degrees)
    for label in axes.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")


def _colour_map(brightest: float = 1.0) -> LinearSegmentedColormap:
    """Return the palette's scale; up to *brightest* where thin marks stand on white."""
    colours = [palette.shade(brightest * i / 16) for i in range(17)]
    return LinearSegmentedColormap.from_list("scale", colours)


def _line(axes: Axes, mark: Line, panel: Panel, chart: Chart, _height: float) -> None:
    if mark.is_stepped:
        _stepped_line(axes, mark, panel, chart)
        return
    every = -(-len(mark.x) // palette.MOST_MARKERS)
    axes.errorbar(
        _positions(chart.x, mark.x),
        mark.y,
        yerr=_error_lengths(mark),
        color=palette.level_colour(chart, mark.rank),
        linestyle=palette.dash(mark.rank, ordered=chart.ordered),
        marker=palette.marker(mark.rank) if every == 1 or chart.levels else "",
        markevery=every,  # markers then only tell the lines apart
        elinewidth=1,
        label=_LABEL + mark.name,
    )
    _name_categories(axes, chart.x)


def _stepped_line(axes: Axes, mark: Line, panel: Panel, chart: Chart) -> None:
    colour = palette.level_colour(chart, mark.rank)
    if mark.low:
        axes.fill_between(
            mark.x, mark.low, mark.high, step="post", color=colour, alpha=0.18, linewidth=0
        )
    has_markers = len(mark.x) <= FEW_STEPS and len(panel.marks) == 1
    axes.plot(
        mark.x,
        mark.y,
        drawstyle="steps-post",
        color=colour,
        linestyle=palette.dash(mark.rank, ordered=chart.ordered),
        marker="o" if has_markers else None,
        markersize=3.5,
        # The last point only says how long the search went on.
        markevery=list(range(len(mark.x) - 1)) or None,
        label=_LABEL + mark.name,
    )
    if not chart.x.log:
        last = max(line.x[-1] for line in panel.marks if isinstance(line, Line))
        axes.set_xlim(-0.02 * last, 1.03 * last)


def _bars(axes: Axes, mark: Bars, panel: Panel, chart: Chart, _height: float) -> None:
    if mark.is_lying:
        _lying_bars(axes, mark, panel, chart)
        return
    count = max(len(chart.levels), 1)
    width = 0.8 / count
    hatches = ("", "///", "...", "xxx")
    hatch = hatches[0 if chart.ordered else mark.rank // len(palette.DISTINCT) % len(hatches)]
    axes.bar(
        _positions(chart.x, mark.x) + (mark.rank - (count - 1) / 2) * width,
        mark.y,
        width * 0.94,
        yerr=_error_lengths(mark),
        color=palette.level_colour(chart, mark.rank),
        hatch=hatch,
        edgecolor="white",
        linewidth=0,
        error_kw={"elinewidth": 1, "ecolor": palette.INK},
        label=_LABEL + mark.name,
    )
    axes.grid(visible=False, axis="x")
    _name_categories(axes, chart.x)


def _lying_bars(axes: Axes, mark: Bars, panel: Panel, chart: Chart) -> None:
    names = chart.y.categories or ()
    places = {name: len(names) - 1 - i for i, name in enumerate(names)}  # the first is on top
    styles: dict[str, dict[str, Any]] = {
        "front": {"color": "none", "edgecolor": palette.DISTINCT[0], "linewidth": 1.0},
        "plain": {"color": palette.DISTINCT[0]},
        "faint": {"color": palette.PALE},
    }
    thickness = 0.72 if mark.role == "front" else 0.5
    heights = [places[name] for name in mark.x]
    axes.barh(heights, mark.y, thickness, label=_LABEL + mark.name, **styles[mark.role])
    if mark is not panel.marks[-1]:
        return
    # With the last of the bars that overlap come the labels, behind the longest of them.
    ends = dict.fromkeys(names, 0.0)
    for bars in (bars for bars in panel.marks if isinstance(bars, Bars)):
        for name, value in zip(bars.x, bars.y, strict=True):
            ends[name] = max(ends[name], value)
    for name, text in bar_labels(panel).items():
        place = (max(ends[name], 0.0), places[name])
        axes.annotate(text, place, (4, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.set_yticks(list(places.values()), [shorten(name, 28) for name in places])
    axes.set(ylim=(-0.6, len(names) - 0.4), xlim=(min(0.0, *ends.values()), chart.x.ends[1] * 1.15))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def _points(axes: Axes, mark: Points, panel: Panel, chart: Chart, _height: float) -> Any:
    axis = panel.x or chart.x
    x = _positions(axis, mark.x)
    if mark.role == "best":
        axes.scatter(
            x, mark.y, s=60, facecolors="none", edgecolors=palette.RING, linewidths=1.4, zorder=3
        )
        return None
    is_many = len(mark.x) > MANY_POINTS
    drawn = sum(len(points.x) for points in chart.marks() if isinstance(points, Points))
    style: dict[str, Any] = {
        "s": 7 if is_many else 22,
        "alpha": 0.5 if is_many else 0.85,
        "linewidths": 0,
        "rasterized": drawn > MOST_VECTOR_POINTS and len(mark.x) > 1,
    }
    if mark.role == "front":
        edge = 0.6 if len(mark.x) <= CROWDED_FRONT else 0.0
        style |= {"s": 34 if edge else 10, "alpha": 1.0, "zorder": 3, "linewidths": edge}
        style |= {"edgecolors": palette.INK if mark.shades else "white"}
    shaded = None
    if mark.shades:
        low, high = _shade_range(chart)
        if mark.role == "faint":
            style["alpha"] = 0.25
        shaded = axes.scatter(
            x, mark.y, c=mark.shades, cmap=_colour_map(palette.BRIGHTEST), vmin=low, vmax=high,
            **style,
        )  # fmt: skip
    else:
        colour = {"front": palette.DISTINCT[1], "faint": palette.PALE}.get(
            mark.role, palette.level_colour(chart, mark.rank)
        )
        if mark.is_joined:
            axes.plot(x, mark.y, color=colour, drawstyle="steps-post", linewidth=1.3)
        if mark.low:
            lengths = _error_lengths(mark)
            axes.errorbar(x, mark.y, yerr=lengths, color=colour, linestyle="", elinewidth=1)
        marker = palette.marker(mark.rank) if mark.role == "plain" else "o"
        axes.scatter(x, mark.y, color=colour, marker=marker, label=_LABEL + mark.name, **style)
    _name_categories(axes, axis)
    if axis.is_spread:
        _name_spread_ticks(axes, axis)
    return shaded


def _shade_range(chart: Chart) -> tuple[float, float]:
    """Return the ends of the colour scale, the same in every panel."""
    shades = list(chart.shades())
    return min(shades), max(shades)


def _name_spread_ticks(axes: Axes, axis: ChartAxis) -> None:
    names = axis.categories or ()
    every = -(-len(names) // 8)
    shown = names[::every]
    axes.set_xticks(np.arange(0, len(names), every), [shorten(name, 12) for name in shown])
    axes.set_xlim(-0.6, len(names) - 0.4)
    if sum(min(len(name), 12) + 2 for name in shown) > 34:
        _slant(axes, 30)


def _boxes(axes: Axes, mark: Boxes, _panel: Panel, chart: Chart, _height: float) -> None:
    count = max(len(chart.levels), 1)
    width = 0.8 / count
    colour = palette.level_colour(chart, mark.rank)
    beside = (mark.rank - (count - 1) / 2) * width
    boxes, dots = dict(mark.boxes), list(mark.dots)
    places = _positions(chart.x, tuple(x for x, _ in dots)) + beside
    axes.plot(places, [value for _, value in dots], "o", markersize=5, color=colour)
    if boxes:
        axes.boxplot(
            list(boxes.values()),
            positions=_positions(chart.x, tuple(boxes)) + beside,
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
    if mark.name:  # a box plot has no handle for the legend
        axes.fill_between(
            [], [], facecolor=colour + "40", edgecolor=colour, label=_LABEL + mark.name
        )
    axes.grid(visible=False, axis="x")
    _name_categories(axes, chart.x)
    axes.set_xlim(-0.6, len(chart.x.categories or ()) - 0.4)


def _wedges(axes: Axes, mark: Wedges, _panel: Panel, chart: Chart, _height: float) -> None:
    total = sum(mark.y)
    labels = [
        f"{shorten(name, 24)}\n{value / total:.1%}"
        for name, value in zip(mark.x, mark.y, strict=True)
    ]
    axes.pie(
        mark.y,
        labels=labels,
        colors=list(palette.slice_colours(mark.x, chart.x.categories or ())),
        startangle=90,
        counterclock=False,
        wedgeprops={"edgecolor": "white", "linewidth": 1.2},
        textprops={"fontsize": 9},
    )
    unit = f" {chart.y.unit}" if chart.y.unit else ""
    axes.set_xlabel(f"{chart.y.name}: {total:.4g}{unit} in total, by {chart.x.label}")


def _tiles(axes: Axes, mark: Tiles, _panel: Panel, chart: Chart, _height: float) -> Any:
    values = np.array(mark.z, dtype=float)
    norm = (LogNorm if chart.z and chart.z.log else Normalize)(*_shade_range(chart))
    mesh = axes.pcolormesh(values, cmap=_colour_map(), norm=norm, edgecolors="white", linewidth=0.6)
    axes.grid(visible=False)
    _name_x_ticks(axes, mark.x, 0.5)
    every = math.ceil(len(mark.y) / MOST_ROW_NAMES)
    names = [shorten(text, 28) for text in mark.y]
    axes.set_yticks(np.arange(0, len(names), every) + 0.5, names[::every])
    axes.tick_params(length=0)
    if max(values.shape) <= MOST_TILES_WITH_TEXT:
        _write_tile_values(axes, values, norm)
    return mesh


def _write_tile_values(axes: Axes, values: np.ndarray, norm: Any) -> None:
    for (row, column), value in np.ndenumerate(values):
        if not math.isnan(value):
            is_dark = palette.is_dark(palette.shade(float(norm(value))))
            ink = "white" if is_dark else palette.INK
            place = (column + 0.5, row + 0.5)
            axes.annotate(f"{value:.3g}", place, ha="center", va="center", color=ink, fontsize=8)


def _surface(axes: Any, mark: Surface, _panel: Panel, chart: Chart, _height: float) -> Any:
    """Draw logarithms in place of logarithmic axes, which matplotlib does not have in space."""
    assert chart.z is not None
    parts = ((chart.x, mark.x), (chart.y, mark.y), (chart.z, mark.z))
    x, y, z = (
        np.log10(np.array(values, dtype=float)) if axis.log else np.array(values, dtype=float)
        for axis, values in parts
    )
    surface = axes.plot_surface(
        *np.meshgrid(x, y), z, cmap=_colour_map(), rcount=200, ccount=200, edgecolor="white",
        linewidth=0.3, antialiased=True,
    )  # fmt: skip
    axes.view_init(elev=26, azim=-130)
    for letter, axis in (("x", chart.x), ("y", chart.y), ("z", chart.z)):
        getattr(axes, f"set_{letter}label")(axis.label, labelpad=6)
        ticks = list(axis.ticks) if 0 < len(axis.ticks) <= 8 else []
        if axis.log and not ticks:
            ticks = log_ticks(*axis.ends)
        if ticks:
            places = np.log10(ticks) if axis.log else ticks
            getattr(axes, f"set_{letter}ticks")(places, tick_texts(ticks))
    return surface


def _strands(axes: Axes, mark: Strands, _panel: Panel, _chart: Chart, _height: float) -> Any:
    """Scale every axis to the same height; its ends, or its texts, stand beside it."""
    heights = np.array(
        [_strand_heights(axis, c) for axis, c in zip(mark.axes, mark.columns, strict=True)]
    )
    places = np.arange(len(mark.axes), dtype=float)
    is_many = len(mark.shades) > MANY_STRANDS
    if is_many:
        heights = np.array([_spread_heights(axis_heights) for axis_heights in heights])
    order = np.argsort(mark.shades, kind="stable")
    order = order[::-1] if mark.lowest_on_top else order
    paths = [np.column_stack([places, heights[:, line]]) for line in order]
    alpha = np.full(len(order), 0.35 if is_many else 0.7)
    if mark.strong:
        alpha[:] = 0.1
        alpha[-mark.strong :] = 0.9
    lines = LineCollection(
        paths,
        cmap=_colour_map(palette.BRIGHTEST),
        alpha=alpha,
        linewidth=0.7 if is_many else 1.1,
    )
    lines.set_array(np.array(mark.shades)[order])
    axes.add_collection(lines)
    axes.set(xlim=(-0.15, len(places) - 0.6), ylim=(-0.05, 1.05), yticks=[])
    axes.set_xticks(places, [shorten(axis.label, 20) for axis in mark.axes])
    axes.tick_params(axis="x", length=0, pad=10)
    if len(places) > FEW_AXES:
        axes.tick_params(axis="x", pad=4)
        _slant(axes, 35)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for place, axis, column in zip(places, mark.axes, mark.columns, strict=True):
        axes.axvline(place, 0.03, 0.97, color=palette.INK, linewidth=0.9)
        _label_strand_axis(axes, place, axis, column, 8 if len(places) > FEW_AXES else 14)
    lines.autoscale_None()
    # A mappable of its own: the scale beside the chart is not as faint as its lines.
    return ScalarMappable(norm=lines.norm, cmap=lines.cmap)


def _strand_heights(axis: ChartAxis, column: tuple[float, ...]) -> np.ndarray:
    values, ends = np.array(column), np.array([min(column), max(column)])
    if axis.log:
        values, ends = np.log(values), np.log(ends)
    low, high = (0.0, len(axis.categories) - 1.0) if axis.categories else ends
    return (values - low) / (high - low) if high > low else np.full(len(values), 0.5)


def _spread_heights(heights: np.ndarray) -> np.ndarray:
    """Move lines through the same few places apart, as widely as there is room."""
    places = np.unique(heights)
    if len(places) > MANY_STRAND_PLACES:
        return heights
    step = np.diff(places).min() if len(places) > 1 else 0.2
    # Multiples of an irrational number, modulo 1, fill an interval evenly.
    offsets = np.arange(len(heights)) * math.sqrt(2) % 1 - 0.5
    spread: np.ndarray = heights + offsets * min(step, 0.2) * 0.4
    return spread


def _label_strand_axis(
    axes: Axes, place: float, axis: ChartAxis, column: tuple[float, ...], longest: int
) -> None:
    if axis.categories:
        last = max(len(axis.categories) - 1, 1)
        labels = {shorten(text, longest): i / last for i, text in enumerate(axis.categories)}
    else:
        ticks = strand_ticks(column, log=axis.log)
        heights = _strand_heights(axis, tuple(ticks))
        labels = dict(zip((f"{tick:.4g}" for tick in ticks), heights, strict=True))
    box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8}
    for text, height in labels.items():
        axes.text(place + 0.03, height, text, fontsize=8, va="center", bbox=box)


def _rectangles(axes: Axes, mark: Rectangles, _panel: Panel, chart: Chart, height: float) -> None:
    rows = chart.y.categories or ()
    # Edges between many thin rectangles would hide the rectangles themselves.
    edge = 0.4 if len(rows) <= 60 or mark.is_labelled else 0.0
    for level in range(len(chart.levels)):
        for is_faint in (False, True):
            items = [r for r in mark.items if r.level == level and r.is_faint is is_faint]
            if not items:
                continue
            colour = palette.level_colour(chart, level)
            axes.add_collection(
                PolyCollection(
                    [_corners(item) for item in items],
                    facecolors=palette.PALE if is_faint else colour,
                    edgecolors=colour if is_faint else "white",
                    linewidths=edge,
                )
            )
    longest = chart.x.ends[1] or 1.0
    axes.set_xlim(0, longest * 1.01)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    every = max(1, -(-len(rows) // int((height - 1.2) / 0.17)))
    axes.set_yticks(range(0, len(rows), every), [shorten(name, 28) for name in rows[::every]])
    axes.grid(visible=False, axis="y")
    if mark.is_labelled:
        _name_rectangles(axes, mark, chart, longest)


def _corners(item: Rectangle) -> list[tuple[float, float]]:
    top, bottom = item.first - 0.43, item.last + 0.43
    return [(item.left, top), (item.right, top), (item.right, bottom), (item.left, bottom)]


def _name_rectangles(axes: Axes, mark: Rectangles, chart: Chart, longest: float) -> None:
    """Write names into the rectangles that have room for them."""
    for item in mark.items:
        room = (item.right - item.left) / longest * (ROWS_WIDTH - 1.2) / LETTER_WIDTH
        text = shorten(item.name, LONGEST_RECTANGLE_NAME)
        if room < len(text):
            continue
        is_light = item.is_faint or not palette.is_dark(palette.level_colour(chart, item.level))
        axes.text(
            (item.left + item.right) / 2, (item.first + item.last) / 2, text,
            ha="center", va="center", fontsize=7, color=palette.INK if is_light else "white",
        )  # fmt: skip


def _segments(axes: Axes, mark: Segments, _panel: Panel, chart: Chart, _height: float) -> None:
    lines = np.array(mark.lines, dtype=float).reshape(-1, 2, 2)
    nodes = sum(len(nodes.items) for nodes in chart.marks() if isinstance(nodes, Nodes))
    alpha, width = 0.9, 0.7
    if nodes > FEW_NODES:
        alpha, width = float(np.clip(FEW_SEGMENTS / max(len(lines), 1), 0.06, 0.35)), 0.3
    axes.add_collection(
        LineCollection(list(lines), colors=palette.PALE, zorder=1, linewidths=width, alpha=alpha)
    )


def _nodes(axes: Axes, mark: Nodes, _panel: Panel, chart: Chart, _height: float) -> None:
    size = 42 if len(mark.items) <= FEW_NODES else 6
    for level in range(len(chart.levels)):
        nodes = [node for node in mark.items if node.level == level]
        axes.scatter(
            [node.x for node in nodes], [node.y for node in nodes], s=size,
            color=palette.level_colour(chart, level), zorder=2, linewidths=0,
        )  # fmt: skip
    if mark.is_labelled:
        for node in mark.items:
            axes.annotate(
                shorten(node.name, 16), (node.x, node.y), xytext=(0, 5.5),
                textcoords="offset points", ha="center", fontsize=7, color=palette.INK,
            )  # fmt: skip
    axes.margins(0.06)
    axes.axis("off")


_DRAWERS: dict[type, Callable[[Any, Any, Panel, Chart, float], Any]] = {
    Bars: _bars,
    Boxes: _boxes,
    Line: _line,
    Nodes: _nodes,
    Points: _points,
    Rectangles: _rectangles,
    Segments: _segments,
    Strands: _strands,
    Surface: _surface,
    Tiles: _tiles,
    Wedges: _wedges,
}
