"""Where things stand in a picture, the same in every kind of it."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from zenturio.show.chart import Axis, Panel

Thing = TypeVar("Thing")


def columns_of(panels: int) -> int:
    """How many panels stand side by side."""
    if panels <= 3:
        return panels
    return 2 if panels == 4 else min(4, math.ceil(math.sqrt(panels)))


def apart(axis: Axis, panels: int) -> bool:
    """Whether marks at exactly the axis' values have room."""
    share = 1 / 16 if panels == 1 else 1 / 7
    places = [math.log(tick) for tick in axis.ticks] if axis.log else list(axis.ticks)
    gaps = [b - a for a, b in pairwise(places)]
    return bool(places) and all(gap > (places[-1] - places[0]) * share for gap in gaps)


def some(things: Sequence[Thing], most: int) -> list[Thing]:
    """Up to *most* of *things*, evenly: names that stand closer cannot be read."""
    return list(things[:: max(1, math.ceil(len(things) / most))])


def shares_said(panel: Panel) -> dict[str, str]:
    """What stands beside the bars of importance: the share, and in brackets the whole."""
    said: dict[str, str] = {}
    for series in sorted(panel.series, key=lambda each: each.role == "front"):
        for name, value in zip(series.x, series.y, strict=True):
            text = f"{abs(value) if round(value, 1) == 0 else value:.1f}"
            said[name] = f"{said[name]} ({text})" if series.role == "front" else text
    return said


def geometric(values: Sequence[float]) -> bool:
    """Whether distinct ascending *values* stand far more evenly on a logarithmic axis."""
    if len(values) < 3 or values[0] <= 0:
        return False
    plain = [b - a for a, b in pairwise(values)]
    log = [math.log(b / a) for a, b in pairwise(values)]
    return max(log) / min(log) < 2.5 and max(plain) / min(plain) > 4


def marks(column: Sequence[float], *, log: bool = False) -> list[float]:
    """Where a parallel axis is marked: at all of few values that have room, else at five."""
    distinct = sorted(set(column))
    low, high = distinct[0], distinct[-1]
    places = [math.log(value) for value in distinct] if log else distinct
    room = (places[-1] - places[0]) * 0.05
    if len(distinct) <= 12 and all(b - a >= room for a, b in pairwise(places)):
        return distinct
    if log:
        return [low, *(mark for mark in decades(low, high) if low * 1.5 < mark < high / 1.5), high]
    between = [low + (high - low) * i / 4 for i in range(5)]
    if all(value == int(value) for value in distinct):
        return sorted({float(round(value)) for value in between})
    return between


def number(value: float) -> str:
    """A mark on an axis: plain, or a power of ten where that is long."""
    size = math.floor(math.log10(abs(value)) + 1e-9) if value else 0
    if -4 <= size < 6:
        return f"{value:.6g}"
    times = f"{value / 10.0**size:.4g}"
    return _power(size) if times == "1" else f"{times}·{_power(size)}"


def numbers(values: Iterable[float]) -> list[str]:
    """Marks of one axis: powers of ten are all written alike, if one has to be written as one."""
    values = list(values)
    texts = [number(value) for value in values]
    sizes = [round(math.log10(value)) if value > 0 else 0 for value in values]
    tens = all(math.isclose(value, 10.0**size) for value, size in zip(values, sizes, strict=True))
    long = any(text.startswith("10") and not text.isdecimal() for text in texts)
    return [_power(size) for size in sizes] if tens and long else texts


def _power(size: int) -> str:
    return "10" + str(size).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def decades(low: float, high: float) -> list[float]:
    """Marks of a logarithmic axis: powers of ten, with others between them where they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    span = math.log10(high / low)
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8) if span < 0.8 else (1, 2, 5) if span < 2.2 else (1,)
    every = max(1, (last - first) // 8)
    found = [digit * 10.0**power for power in range(first, last + 1, every) for digit in steps]
    return [mark for mark in found if low * 0.999 <= mark <= high * 1.001]
