"""Charts in the characters of a terminal: bars, and lines and points in a field of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from zenturio.errors import InputError
from zenturio.show.chart import (
    Bars,
    Chart,
    ChartAxis,
    Line,
    Points,
    log_ticks,
    shorten,
    tick_text,
)

WIDTH, HEIGHT = 64, 16
"""Cells of the field of lines and points."""
BAR_WIDTH = 40
SYMBOLS = "●○■□▲△◆◇▼▽★☆"
"""One for each series; more could not be told apart."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NOT_DRAWN = ("bars: ", "band: ")
"""Notes about error bars and bands, which have no place among characters."""
_HINT = "write a page or an image: -o FILE.html, -o FILE.png"


def render_text(chart: Chart) -> list[str]:
    """Return the lines of *chart*; raise InputError if its marks need more than characters."""
    points = [mark for mark in chart.marks() if isinstance(mark, Points) and mark.low]
    if points and len(points) == len(list(chart.marks())):
        # Of intervals the text is worth more than the place: each has a line of its own.
        notes = [part for part in chart.note.split("; ") if not part.startswith(_NOT_DRAWN)]
        return [chart.title, *_interval_lines(chart), "", "; ".join(notes)]
    if len(chart.panels) > 1:
        raise InputError(
            f"a {chart.kind} chart of several panels cannot be drawn in a terminal", hint=_HINT
        )
    marks = chart.panels[0].marks
    if all(isinstance(mark, Bars) for mark in marks):
        bars = [mark for mark in marks if isinstance(mark, Bars)]
        body = _bar_lines(chart, bars)
        if any(mark.low for mark in bars):
            chart = replace(chart, note=chart.note.replace("bars: ", "in brackets: "))
    elif all(isinstance(mark, Line | Points) for mark in marks):
        body = _field_lines(chart, [mark for mark in marks if isinstance(mark, Line | Points)])
    else:
        raise InputError(f"a {chart.kind} chart cannot be drawn in a terminal", hint=_HINT)
    notes = [part for part in chart.note.split("; ") if not part.startswith(_NOT_DRAWN)]
    return [chart.title, "", *body, "", "; ".join(notes)]


def text_bars(
    names: Sequence[str], values: Sequence[float], *, unit: str = "", width: int = 40
) -> list[str]:
    """Return a line for each name: its bar, in eighths of a character, and its value.

    The longest bar has *width* characters. Bars start at 0; negative values have none.
    """
    longest = max(values, default=0.0) or 1.0
    name_width = max(map(len, names), default=0)
    lines = []
    for name, value in zip(names, values, strict=True):
        eighths = round(max(value, 0.0) / longest * width * 8)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        lines.append(f"{name:>{name_width}}  {bar} {value:.4g} {unit}".rstrip())
    return lines


def _bar_lines(chart: Chart, marks: Sequence[Bars]) -> list[str]:
    """Return a bar for each name; negative values have no bar, only their number."""
    lines: list[str] = []
    # The frames around lying bars repeat their categories.
    marks = [mark for mark in marks if mark.role != "front"]
    if not any(mark.y for mark in marks):
        return ["nothing to draw: no bar has a value"]
    longest = max(value for mark in marks for value in mark.y)
    name_width = max(len(shorten(str(name), 28)) for mark in marks for name in mark.x)
    for mark in marks:
        if mark.name and not mark.is_lying:
            lines += ["", f"{chart.colour.name if chart.colour else ''} {mark.name}".strip()]
        if mark.role == "faint":
            lines += ["", "may be due to chance:"]
        names = [f"{shorten(str(name), 28):>{name_width}}" for name in mark.x]
        width = round(BAR_WIDTH * (max(0.0, *mark.y) / longest)) if longest else BAR_WIDTH
        axis = chart.x if mark.is_lying else chart.y
        bars = text_bars(names, mark.y, unit=axis.unit, width=width)
        ends = zip(mark.low, mark.high, strict=True) if mark.low else [()] * len(bars)
        lines += [
            f"{bar} [{pair[0]:.4g}, {pair[1]:.4g}]" if pair and math.isfinite(pair[0]) else bar
            for bar, pair in zip(bars, ends, strict=True)
        ]
    return lines[1:] if lines and not lines[0] else lines


def _interval_lines(chart: Chart) -> list[str]:
    """Return a line for each point of each panel: its place, its interval, and both as numbers."""
    marks = [mark for mark in chart.marks() if isinstance(mark, Points)]
    ends = [end for mark in marks for part in (mark.low, mark.high, mark.y) for end in part]
    scale = _Scale.of(chart.y, ends, BAR_WIDTH)
    names = [
        _x_names(panel.x or chart.x, mark)
        for panel in chart.panels
        for mark in panel.marks
        if isinstance(mark, Points)
    ]
    width = max(len(name) for group in names for name in group)
    lines: list[str] = []
    for panel, mark, labels in zip(chart.panels, marks, names, strict=True):
        lines += ["", panel.x.label if panel.x else panel.title]
        for label, y, low, high in zip(labels, mark.y, mark.low, mark.high, strict=True):
            first, place, last = (scale.cell(value) for value in (low, y, high))
            cells = [" "] * first + ["─"] * (last - first + 1) + [" "] * (BAR_WIDTH - last - 1)
            cells[place] = "●"
            numbers = f"{y:.4g} [{low:.4g}, {high:.4g}]"
            lines.append(f"{label:>{width}} ┤{''.join(cells)}  {numbers}")
    return lines


def _x_names(axis: ChartAxis, mark: Line | Points) -> list[str]:
    """Return what stands for each point's x: its category, or its number."""
    if axis.categories is None:
        return [tick_text(float(f"{x:.4g}")) for x in mark.x]
    return [shorten(axis.categories[round(x)] if axis.is_spread else x, 28) for x in mark.x]


def _field_lines(chart: Chart, marks: Sequence[Line | Points]) -> list[str]:
    """Return symbols in a field of cells, with the ends of the axes beside it."""
    if len(marks) > len(SYMBOLS):
        raise InputError(
            f"the series of this {chart.kind} chart cannot be told apart in a terminal",
            hint=_HINT,
        )
    if chart.x.categories is not None:
        return [*_category_lines(chart, marks), *_legend_lines(chart, marks)]
    x = _Scale.of(chart.x, (value for mark in marks for value in mark.x), WIDTH)
    y = _Scale.of(chart.y, (value for mark in marks for value in mark.y), HEIGHT)
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    for symbol, mark in _with_symbols(marks):
        for across, up in _cells_of(mark):
            cells[HEIGHT - 1 - y.cell(up)][x.cell(across)] = symbol
    ends = dict(zip((0, HEIGHT - 1), _end_texts(y.low, y.high), strict=True))
    texts = ends | {cell: text for cell, text in _inner_ticks(chart.y, y) if 1 < cell < HEIGHT - 2}
    width = max(map(len, texts.values()))
    lines = [f"{_axis_name(chart.y):>{width}}"]
    lines += [
        f"{texts.get(HEIGHT - 1 - row, ''):>{width}} ┤{''.join(row_cells)}".rstrip()
        for row, row_cells in enumerate(cells)
    ]
    return [*lines, *_axis_lines(chart.x, x, width), *_legend_lines(chart, marks)]


def _category_lines(chart: Chart, marks: Sequence[Line | Points]) -> list[str]:
    """Return a row for each category, in which the values stand from left to right."""
    scale = _Scale.of(chart.y, (value for mark in marks for value in mark.y), WIDTH)
    categories = chart.x.categories or ()
    rows = {name: [" "] * WIDTH for name in categories}
    for symbol, mark in _with_symbols(marks):
        for x, value in zip(mark.x, mark.y, strict=True):
            rows[categories[round(x)] if chart.x.is_spread else x][scale.cell(value)] = symbol
    names = [shorten(name, 28) for name in categories]
    width = max(map(len, names))
    pairs = zip(names, rows.values(), strict=True)
    lines = [f"{name:>{width}} ┤{''.join(cells)}".rstrip() for name, cells in pairs]
    return [*lines, *_axis_lines(chart.y, scale, width)]


def _axis_lines(axis: ChartAxis, scale: _Scale, width: int) -> list[str]:
    """Return the axis below a field, behind *width* characters: its ticks, and its name."""
    low, high = _end_texts(scale.low, scale.high)
    line, texts = ["─"] * WIDTH, [*low.ljust(WIDTH - len(high)), *high]
    last, end = len(low), WIDTH - len(high)
    for cell, text in _inner_ticks(axis, scale):
        start = cell - len(text) // 2
        if last + 2 <= start and start + len(text) + 2 <= end:
            line[cell] = "┬"
            texts[start : start + len(text)] = text
            last = start + len(text)
    name = shorten(_axis_name(axis), WIDTH)
    below = f"{'':>{width}}  "
    axis_line = f"{'':>{width}} └{''.join(line)}"
    return [axis_line, below + "".join(texts), f"{below}{name:^{WIDTH}}".rstrip()]


def _axis_name(axis: ChartAxis) -> str:
    return axis.label_with_direction + (", logarithmic" if axis.log else "")


def _inner_ticks(axis: ChartAxis, scale: _Scale) -> Iterator[tuple[int, str]]:
    """Yield the cell and the text of ticks between the ends, upwards, each text once."""
    low, high = scale.low, scale.high
    if not low < high:
        return
    ticks: Sequence[float] = axis.ticks
    if not ticks:
        ticks = log_ticks(low, high) if axis.log else _round_ticks(low, high)
    for tick in ticks:
        if low < tick < high:
            yield scale.cell(tick), tick_text(float(f"{tick:.4g}"))


def _round_ticks(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten, about four of them."""
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / 4)) if math.isfinite(span) and span / 4 else 0.0
    if step == 0.0:  # the ends are too far apart, or too near, for a number between them
        return []
    step *= next(factor for factor in (1, 2, 5, 10) if span / (factor * step) <= 5)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _legend_lines(chart: Chart, marks: Sequence[Line | Points]) -> list[str]:
    if not chart.has_legend or not chart.colour:
        return []
    legend = {mark.name: f"{s} {shorten(mark.name, 24)}" for s, mark in _with_symbols(marks)}
    names = "  ".join(legend[name] for name in chart.levels if name in legend)
    return [f"{chart.colour.name}: {names}" if chart.colour.name else names]


def _end_texts(low: float, high: float) -> tuple[str, str]:
    """Return both ends of an axis with four digits, or as many as tell them apart."""
    digits = next((n for n in range(4, 17) if f"{low:.{n}g}" != f"{high:.{n}g}"), 4)
    if digits == 4:
        return tick_text(float(f"{low:.4g}")), tick_text(float(f"{high:.4g}"))
    return f"{low:.{digits}g}", f"{high:.{digits}g}"


def _with_symbols(marks: Sequence[Line | Points]) -> Iterator[tuple[str, Line | Points]]:
    symbols = iter(SYMBOLS)
    for mark in marks:
        yield ("·" if mark.role == "faint" else next(symbols)), mark


def _cells_of(mark: Line | Points) -> Iterator[tuple[float, float]]:
    """Yield where symbols stand: at the points, and along a stepped line."""
    pairs = list(zip(mark.x, mark.y, strict=True))
    if not (isinstance(mark, Line) and mark.is_stepped):
        yield from pairs
        return
    for (x, y), (next_x, next_y) in zip(pairs, [*pairs[1:], pairs[-1]], strict=True):
        for i in range(WIDTH + 1):
            yield x + (next_x - x) * i / WIDTH, y
        for i in range(HEIGHT + 1):
            yield next_x, y + (next_y - y) * i / HEIGHT


@dataclass(frozen=True)
class _Scale:
    """Which of a number of cells a value falls into."""

    low: float
    high: float
    cells: int
    log: bool

    @staticmethod
    def of(axis: ChartAxis, values: Iterable[float], cells: int) -> _Scale:
        finite = [value for value in values if math.isfinite(value)]
        return _Scale(min(finite), max(finite), cells, axis.log)

    def cell(self, value: float) -> int:
        ends = (self.low, self.high, value)
        low, high, at = (math.log(end) if self.log else end for end in ends)
        share = (at - low) / (high - low) if high > low else 0.5
        return min(max(round(share * (self.cells - 1)), 0), self.cells - 1)
