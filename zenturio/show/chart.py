"""A chart as plain values: panels with marks and axes, apart from what draws them.

A kind of chart is a function that returns a `Chart`. Renderers have a function for each mark and
know no kinds, so that a new kind works in browsers, papers and terminals at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar

Role = Literal["plain", "faint", "front", "best"]
"""What a mark is for: the data, its background, a Pareto front, the best point."""

Errors = Literal["interval", "std", "none"]
"""Error bars: the 95 % interval of the mean (Student) or the median, the deviation, or none."""

LONGEST_TEXT = 42
"""Characters of a text in a chart; a longer one is cut in its middle."""
LONGEST_PANEL_TEXT = 26
"""Characters of the title of an axis where there are several panels."""
MOST_LEVELS = 7
"""Levels that have a colour of their own; the rarer ones share one."""
OTHERS = "others"
BOX_VALUES = 5
"""Values that a box has at least: quartiles of fewer say less than the values."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """What is measured along a direction, in colour or by panel."""

    name: str
    unit: str = ""
    log: bool = False
    categories: tuple[str, ...] | None = None
    """The texts along the axis in their order; None for an axis of numbers."""
    ticks: tuple[float, ...] = ()
    """The values, where there are few: ticks stand at them. Empty where any ticks will do."""
    ends: tuple[float, float] = (0.0, 0.0)
    """The least and the greatest number."""
    better: Literal["", "lower", "higher"] = ""
    is_reversed: bool = False
    """Whether the first category is on top."""
    is_spread: bool = False
    """Whether positions are numbers around those of the categories, 0, 1, ..., not their texts."""
    is_hidden: bool = False
    is_whole: bool = False
    """Whether all numbers are whole: no tick stands between two of them."""

    @property
    def label(self) -> str:
        """``wtime (s)``"""
        return f"{shorten(self.name)} ({self.unit})" if self.unit else shorten(self.name)

    @property
    def label_with_direction(self) -> str:
        """``← wtime (s)``: the label with an arrow towards the better values."""
        return self.title_of_panel(1)

    def title_of_panel(self, panels: int) -> str:
        """Return the label with its direction, short enough for one of so many panels."""
        name = shorten(self.name, LONGEST_TEXT if panels == 1 else LONGEST_PANEL_TEXT)
        label = f"{name} ({self.unit})" if self.unit else name
        before, after = {"lower": ("← ", ""), "higher": ("", " →")}.get(self.better, ("", ""))
        return f"{before}{label}{after}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, with error bars or a band around it."""

    name: str
    """Its text in the legend; empty without a legend."""
    rank: int
    """Which of the chart's colours it has, the same in every panel."""
    x: tuple[Any, ...]
    """Numbers, or texts among the axis' categories."""
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Lower ends of error bars or band, NaN where there is none; empty without any."""
    high: tuple[float, ...] = ()
    is_stepped: bool = False
    """Whether it keeps its height up to the next point; low and high are then a band."""
    role: Role = "plain"


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars from 0, side by side with those of other ranks; or lying, one over the other."""

    name: str
    rank: int
    x: tuple[Any, ...]
    """The categories."""
    y: tuple[float, ...]
    """The lengths."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    role: Role = "plain"
    is_lying: bool = False
    """Whether the categories stand along the y axis."""


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one colour, or coloured along a scale."""

    name: str
    rank: int
    x: tuple[Any, ...]
    y: tuple[float, ...]
    shades: tuple[float, ...] = ()
    """A number for each point, where colour is a scale instead of a legend."""
    role: Role = "plain"
    is_joined: bool = False
    """Whether a stepped line goes through them, as along the edge of a Pareto front."""
    low: tuple[float, ...] = ()
    """Lower ends of an interval of each point's y; empty without any."""
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Boxes:
    """A box plot at each category."""

    name: str
    rank: int
    x: tuple[str, ...]
    samples: tuple[tuple[float, ...], ...]
    """All values at each category."""

    @property
    def boxes(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield the categories that have enough values for quartiles, with these."""
        return ((x, s) for x, s in zip(self.x, self.samples, strict=True) if len(s) >= BOX_VALUES)

    @property
    def dots(self) -> Iterator[tuple[str, float]]:
        """Yield the values of the other categories, each with its category."""
        samples = zip(self.x, self.samples, strict=True)
        return ((x, value) for x, s in samples if len(s) < BOX_VALUES for value in s)

    role: Role = "plain"


@dataclass(frozen=True, slots=True)
class Wedges:
    """Shares of a pie."""

    x: tuple[str, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tiles:
    """A coloured tile for each pair: ``z[row][column]`` belongs to ``y[row]`` and ``x[column]``."""

    x: tuple[Any, ...]
    y: tuple[Any, ...]
    z: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Surface:
    """The same values as heights in space."""

    x: tuple[Any, ...]
    y: tuple[Any, ...]
    z: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Strands:
    """Lines across parallel axes: a number for each axis and line, and one for its colour."""

    axes: tuple[ChartAxis, ...]
    columns: tuple[tuple[float, ...], ...]
    """By axis; on an axis of categories the number of the category, from 0."""
    shades: tuple[float, ...]
    lowest_on_top: bool = False
    strong: int = 0
    """How many of those on top stand out, if there are many."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """From *left* to *right*, on the rows from *first* to *last*."""

    left: float
    right: float
    first: int
    last: int
    level: int
    """Which of the chart's levels it belongs to."""
    name: str
    tooltip: str = ""
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Rectangles on the rows of a spread y axis."""

    items: tuple[Rectangle, ...]
    is_labelled: bool = True
    """Whether names stand in the rectangles that have room for them."""


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex of a graph."""

    x: float
    y: float
    level: int
    name: str
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The vertices of a graph."""

    items: tuple[Node, ...]
    is_labelled: bool = True


@dataclass(frozen=True, slots=True)
class Segments:
    """Straight lines, each from x, y to x, y: the edges of a graph."""

    lines: tuple[tuple[float, float, float, float], ...]


Mark = (
    Line | Bars | Points | Boxes | Wedges | Tiles | Surface | Strands
    | Rectangles | Nodes | Segments
)  # fmt: skip
Frame = Literal["plane", "circle", "strands", "space"]
"""What the marks of a panel stand in: two axes, a pie, parallel axes, or three axes."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small charts side by side, or the only one."""

    title: str = ""
    marks: tuple[Mark, ...] = ()
    x: ChartAxis | None = None
    """Its own x axis, where each panel has another one."""
    y: ChartAxis | None = None
    """Its own y axis, where scales are not to be compared."""


@dataclass(frozen=True)
class Chart:
    """A chart, ready to be drawn."""

    kind: str
    title: str
    note: str
    """How it was made: aggregate, error bars, and how many rows of how many are in it."""
    x: ChartAxis
    y: ChartAxis
    panels: tuple[Panel, ...]
    z: ChartAxis | None = None
    colour: ChartAxis | None = None
    """What the colours stand for."""
    ordered: bool = False
    """Whether the colours' values are numbers, so that shades run from low to high."""
    levels: tuple[str, ...] = ()
    """The texts of the legend in their order; empty without one."""

    @property
    def counts(self) -> str:
        """How many of how many are shown: the end of the note."""
        return self.note.rpartition("; ")[2]

    @property
    def frame(self) -> Frame:
        """What the marks stand in; the same in all panels."""
        frames: dict[type, Frame] = {Wedges: "circle", Strands: "strands", Surface: "space"}
        return next((frames[type(mark)] for mark in self.marks() if type(mark) in frames), "plane")

    @property
    def has_legend(self) -> bool:
        return self.colour is not None and any(self.levels)

    def marks(self) -> Iterator[Mark]:
        """Yield the marks of all panels."""
        for panel in self.panels:
            yield from panel.marks

    @property
    def rectangles(self) -> tuple[Rectangle, ...]:
        return tuple(r for mark in self.marks() if isinstance(mark, Rectangles) for r in mark.items)

    def shades(self) -> Iterator[float]:
        """Yield all finite numbers that are shown as colours along a scale."""
        for mark in self.marks():
            match mark:
                case Points() | Strands():
                    shades: Iterable[float] = mark.shades
                case Tiles() | Surface():
                    shades = (value for row in mark.z for value in row)
                case _:
                    continue
            yield from filter(math.isfinite, shades)


def common_levels(names: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
    """Return the levels of *names*, and the number of each name's level.

    The most frequent names have levels of their own; the others share the last one.
    """
    by_count = [name for name, _ in Counter(names).most_common()]
    common = set(by_count if len(by_count) <= MOST_LEVELS else by_count[: MOST_LEVELS - 1])
    # In the order of appearance, though the most frequent ones were chosen.
    levels = [name for name in dict.fromkeys(names) if name in common]
    number = {name: i for i, name in enumerate(levels)}
    if len(levels) < len(by_count):
        levels.append(OTHERS)
    return tuple(levels), [number.get(name, len(levels) - 1) for name in names]


def shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return *text* on one line, without its middle if it is too long."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    half = (longest - 1) // 2
    # The middle goes: names of a series often differ at their ends.
    return f"{line[: longest - 1 - half]}…{line[-half:]}"


def columns_for(panels: int) -> int:
    """Return how many panels stand side by side."""
    if panels <= 3:
        return panels
    return 2 if panels == 4 else min(4, math.ceil(math.sqrt(panels)))


def every_nth(items: Sequence[Item], most: int) -> list[Item]:
    """Return up to *most* of *items*, evenly spaced: labels that touch cannot be read."""
    return list(items[:: max(1, math.ceil(len(items) / most))])


def bar_labels(panel: Panel) -> dict[str, str]:
    """Return the text at the end of each lying bar: its length, and that of the frame around it."""
    labels: dict[str, str] = {}
    bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
    for mark in sorted(bars, key=lambda mark: mark.role == "front"):
        for name, value in zip(mark.x, mark.y, strict=True):
            text = f"{abs(value) if round(value, 1) == 0 else value:.1f}"  # no "-0.0"
            labels[name] = f"{labels[name]} ({text})" if mark.role == "front" else text
    return labels


def has_room_for_ticks(axis: ChartAxis, panels: int) -> bool:
    """Return whether the labels of ticks at the axis' own values would not overlap."""
    share = 1 / 16 if panels == 1 else 1 / 7
    places = [math.log(tick) for tick in axis.ticks] if axis.log else list(axis.ticks)
    gaps = [b - a for a, b in pairwise(places)]
    return bool(places) and all(gap > (places[-1] - places[0]) * share for gap in gaps)


def is_geometric(values: Sequence[float]) -> bool:
    """Return whether distinct ascending *values* are far more even on a logarithmic axis."""
    if len(values) < 3 or values[0] <= 0:
        return False
    plain = [b - a for a, b in pairwise(values)]
    log = [math.log(b / a) for a, b in pairwise(values)]
    # Both: 1, 2, 3 is even on either axis, and stays on a linear one.
    return max(log) / min(log) < 2.5 and max(plain) / min(plain) > 4


def strand_ticks(column: Sequence[float], *, log: bool = False) -> list[float]:
    """Return the ticks of a parallel axis: all of few values that have room, else about five."""
    distinct = sorted(set(column))
    low, high = distinct[0], distinct[-1]
    places = [math.log(value) for value in distinct] if log else distinct
    room = (places[-1] - places[0]) * 0.05
    if len(distinct) <= 12 and all(b - a >= room for a, b in pairwise(places)):
        return distinct
    if log:
        return [
            low,
            *(tick for tick in log_ticks(low, high) if low * 1.5 < tick < high / 1.5),
            high,
        ]
    between = [low + (high - low) * i / 4 for i in range(5)]
    if all(value == int(value) for value in distinct):
        return sorted({float(round(value)) for value in between})
    return between


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis: powers of ten, and others where those are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    span = math.log10(high / low)
    near, far = (1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5, 7)
    steps = near if span < 0.8 else far if span < 1.2 else (1, 2, 5) if span < 2.2 else (1,)
    every = max(1, (last - first) // 8)
    ticks = [digit * 10.0**power for power in range(first, last + 1, every) for digit in steps]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def tick_text(value: float) -> str:
    """Return a number as it stands at a tick: plain, or a power of ten where that is long."""
    # Not by a logarithm and a division: those of the smallest numbers are wrong.
    digits, _, exponent = f"{value:.3e}".partition("e")
    size = int(exponent)
    if -4 <= size < 6:
        return f"{value:.6g}"
    factor = f"{float(digits):.4g}"
    return _power_of_ten(size) if factor == "1" else f"{factor}·{_power_of_ten(size)}"


def tick_texts(values: Iterable[float]) -> list[str]:
    """Return the texts of one axis; all powers of ten look alike if one has to be a power."""
    values = list(values)
    texts = [tick_text(value) for value in values]
    sizes = [round(math.log10(value)) if value > 0 else 0 for value in values]
    tens = all(math.isclose(value, 10.0**size) for value, size in zip(values, sizes, strict=True))
    long = any(text.startswith("10") and not text.isdecimal() for text in texts)
    return [_power_of_ten(size) for size in sizes] if tens and long else texts


def _power_of_ten(size: int) -> str:
    return "10" + str(size).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
