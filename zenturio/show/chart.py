"""A chart as plain values: what is drawn, apart from what draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal[
    "line", "bar", "pie", "surface", "heatmap", "scatter", "box", "parallel",
    "convergence", "importance", "slice", "pareto",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)

AIMED = ("parallel", "convergence", "importance", "slice", "pareto")
"""Kinds that show what a study is good for: without a y, its objective."""

Role = Literal["plain", "faint", "front", "best"]
"""What a series is for: what is shown, what stands behind it, a Pareto front, the best point."""

Aggregate = Literal["mean", "median", "min", "max", "sum", "std", "count"]
AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)

Errors = Literal["interval", "std", "none"]
"""Error bars: the 95 % interval of the mean (Student), the sample's deviation, or none."""

LONGEST = 42
"""Texts in a figure are cut in their middle beyond so many characters."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What is measured along a direction, in colour or by panel."""

    name: str
    unit: str = ""
    log: bool = False
    categories: tuple[str, ...] | None = None
    """The texts that stand along the axis in their order; none for an axis of numbers."""
    ticks: tuple[float, ...] = ()
    """Where marks belong: few distinct numbers are shown as they are; empty where any will do."""
    ends: tuple[float, float] = (0.0, 0.0)
    """The least and the greatest number."""
    better: Literal["", "lower", "higher"] = ""

    @property
    def label(self) -> str:
        """``wtime (s)``"""
        return f"{brief(self.name)} ({self.unit})" if self.unit else brief(self.name)

    @property
    def pointed(self) -> str:
        """``← wtime (s)``: the label with an arrow along the axis to where it is better."""
        before, after = {"lower": ("← ", ""), "higher": ("", " →")}.get(self.better, ("", ""))
        return f"{before}{self.label}{after}"


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn in one colour."""

    name: str
    """What the legend says; empty if there is no legend."""
    rank: int
    """Which of the chart's colours it has, the same in every panel."""
    x: tuple[Any, ...]
    """Numbers, or texts among the axis' categories."""
    y: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    """Lower ends of the error bars, NaN where there is none; empty without any."""
    high: tuple[float, ...] = ()
    samples: tuple[tuple[float, ...], ...] = ()
    """All values at each x, for boxes."""
    shades: tuple[float, ...] = ()
    """A number for each point, where colour is a scale instead of a legend."""
    role: Role = "plain"


@dataclass(frozen=True, slots=True)
class Grid:
    """A value for each pair: ``z[row][column]`` belongs to ``y[row]`` and ``x[column]``."""

    x: tuple[Any, ...]
    y: tuple[Any, ...]
    z: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Strands:
    """Lines across parallel axes: a number for each axis and line, and one for its colour."""

    axes: tuple[Axis, ...]
    columns: tuple[tuple[float, ...], ...]
    """By axis; on an axis of categories the number of the category, from 0."""
    shades: tuple[float, ...]
    lowest_on_top: bool = False
    strong: int = 0
    """How many of those on top stand out, if there are many."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small charts side by side, or the only one."""

    title: str = ""
    series: tuple[Series, ...] = ()
    grid: Grid | None = None
    strands: Strands | None = None
    x: Axis | None = None
    """Its own x axis, where each panel has another one."""


@dataclass(frozen=True)
class Chart:
    """Everything that a picture says."""

    kind: Kind
    title: str
    note: str
    """The small print: what was aggregated, what error bars are, how many rows of how many."""
    x: Axis
    y: Axis
    panels: tuple[Panel, ...]
    z: Axis | None = None
    colour: Axis | None = None
    """What the colours stand for."""
    ordered: bool = False
    """Whether the colours' values are numbers, so that shades run from low to high."""
    levels: tuple[str, ...] = ()
    """The texts of the legend in their order; empty without one."""

    @property
    def counted(self) -> str:
        """How many of how many are shown: the end of the small print."""
        return self.note.rpartition("; ")[2]


def brief(text: str, longest: int = LONGEST) -> str:
    """*text* on one line, without its middle if it is too long."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    half = (longest - 1) // 2
    return f"{line[: longest - 1 - half]}…{line[-half:]}"
