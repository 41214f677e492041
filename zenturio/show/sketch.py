"""A chart in the characters of a terminal, for a first look."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from zenturio.errors import InputError
from zenturio.show.chart import Axis, Chart, Kind, Series, brief
from zenturio.show.layout import number
from zenturio.show.terminal import bars

WIDTH, HEIGHT = 64, 16
BAR = 40
_UNDRAWN = ("bars: ", "band: ")
"""What the small print says of what is not drawn in characters."""

MARKS = "●○■□▲△◆◇▼▽★☆"
"""One for each series; more of them would not be told apart."""


def sketch(chart: Chart) -> list[str]:
    """The lines of *chart* in characters; InputError if its kind does not lend itself to that."""
    drawers: dict[Kind, Callable[[Chart], list[str]]] = {
        "bar": _bars, "importance": _bars, "line": _field, "scatter": _field,
        "convergence": _field, "pareto": _field,
    }  # fmt: skip
    drawer = drawers.get(chart.kind)
    if drawer is None or len(chart.panels) > 1:
        what = "chart of several panels" if drawer else f"{chart.kind} chart"
        raise InputError(
            f"a {what} cannot be drawn in a terminal",
            hint="write a page or a picture: -o FILE.html, -o FILE.png",
        )
    said = [part for part in chart.note.split("; ") if not part.startswith(_UNDRAWN)]
    return [chart.title, "", *drawer(chart), "", "; ".join(said)]


def _bars(chart: Chart) -> list[str]:
    """A bar for each name; negative values have none, but their number."""
    lines: list[str] = []
    axis = chart.x if chart.kind == "importance" else chart.y
    drawn = [series for series in chart.panels[0].series if series.role != "front"]
    longest = max(value for series in drawn for value in series.y)
    room = max(len(brief(str(name), 28)) for series in drawn for name in series.x)
    for series in drawn:
        if series.name and chart.kind == "bar":
            lines += ["", f"{chart.colour.name if chart.colour else ''} {series.name}".strip()]
        if series.role == "faint":
            lines += ["", "may be chance:"]
        names = [f"{brief(str(name), 28):>{room}}" for name in series.x]
        width = round(BAR * max(0.0, *series.y) / longest) if longest else BAR
        lines += bars(names, series.y, unit=axis.unit, width=width)
    return lines[1:] if lines and not lines[0] else lines


def _field(chart: Chart) -> list[str]:
    """Marks in a field of cells, with the ends of the axes beside it."""
    series = chart.panels[0].series
    if chart.x.categories is not None or len(series) > len(MARKS):
        raise InputError(
            f"what is in this {chart.kind} chart cannot be told apart in a terminal",
            hint="write a page or a picture: -o FILE.html, -o FILE.png",
        )
    x = _Scale.of(chart.x, (v for s in series for v in s.x), WIDTH)
    y = _Scale.of(chart.y, (v for s in series for v in s.y), HEIGHT)
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    for mark, each in _marked(series):
        for across, up in _places(chart, each):
            cells[HEIGHT - 1 - y.cell(up)][x.cell(across)] = mark
    names = {0: _end(y.high), HEIGHT - 1: _end(y.low)}
    room = max(map(len, names.values()))
    lines = [f"{chart.y.pointed:>{room}}"]
    lines += [
        f"{names.get(at, ''):>{room}} ┤{''.join(row)}".rstrip() for at, row in enumerate(cells)
    ]
    low, high = _end(x.low), _end(x.high)
    lines.append(f"{'':>{room}} └{'─' * WIDTH}")
    between = WIDTH - len(low) - len(high)
    lines.append(f"{'':>{room}}  {low}{brief(chart.x.pointed, between - 2):^{between}}{high}")
    if chart.levels and chart.colour:
        legend = {each.name: f"{mark} {brief(each.name, 24)}" for mark, each in _marked(series)}
        known = "  ".join(legend[name] for name in chart.levels if name in legend)
        lines.append(f"{chart.colour.name}: {known}" if chart.colour.name else known)
    return lines


def _end(value: float) -> str:
    return number(float(f"{value:.4g}"))


def _marked(series: Sequence[Series]) -> Iterator[tuple[str, Series]]:
    marks = iter(MARKS)
    for each in series:
        yield ("·" if each.role == "faint" else next(marks)), each


def _places(chart: Chart, series: Series) -> Iterator[tuple[float, float]]:
    """Where marks belong: the points, and of steps what lies between them."""
    pairs = list(zip(series.x, series.y, strict=True))
    if chart.kind != "convergence":
        yield from pairs
        return
    for (x, y), (end, below) in zip(pairs, [*pairs[1:], pairs[-1]], strict=True):
        for i in range(WIDTH + 1):
            yield x + (end - x) * i / WIDTH, y
        for i in range(HEIGHT + 1):
            yield end, y + (below - y) * i / HEIGHT


class _Scale:
    """Which of some cells a value falls into."""

    def __init__(self, low: float, high: float, cells: int, *, log: bool) -> None:
        self.low, self.high = low, high
        self._log = log
        self._cells = cells

    @staticmethod
    def of(axis: Axis, values: Iterator[float], cells: int) -> _Scale:
        there = [value for value in values if math.isfinite(value)]
        return _Scale(min(there), max(there), cells, log=axis.log)

    def cell(self, value: float) -> int:
        low, high, at = (
            math.log(each) if self._log else each for each in (self.low, self.high, value)
        )
        share = (at - low) / (high - low) if high > low else 0.5
        return min(max(round(share * (self._cells - 1)), 0), self._cells - 1)
