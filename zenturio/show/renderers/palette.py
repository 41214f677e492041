"""Colours that colour-blind readers can tell apart, dark enough on white and in print."""

from __future__ import annotations

from collections.abc import Sequence

from zenturio.show.chart import OTHERS, Chart

INK = "#1a1a1a"
FAINT = "#5c5c5c"
GRID = "#e4e4e4"
PALE = "#b4bcc4"
"""The background of the data: dominated points, the lines of a graph."""
RING = "#d00000"
"""The ring around the best point, visible on any colour of the scale."""
GREY = "#8a9199"
"""Levels that have no colour of their own."""
REST = "#a6a6a6"
"""The slice of a pie that holds the small shares."""

DISTINCT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The colours of Okabe and Ito without the yellow, which vanishes on white."""

SCALE = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30",
         "#fde725")  # fmt: skip
"""Viridis: even steps of lightness, the same for every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""By their names in matplotlib; every colour has its own."""

MOST_MARKERS = 40
"""Markers on a line; more of them would hide it."""

DASHES = ("solid", "dashed", "dotted", "dashdot")
"""What tells colours apart that are used again."""

BRIGHTEST = 0.88
"""How far up the scale the colour of a line or a point on white may be."""


def level_colour(chart: Chart, rank: int) -> str:
    """Return the colour of the *rank*-th level of *chart*."""
    if rank < len(chart.levels) and chart.levels[rank] == OTHERS:
        return GREY
    return colour(rank, len(chart.levels), ordered=chart.ordered)


def colour(rank: int, count: int, *, ordered: bool) -> str:
    """Return the colour of the *rank*-th of *count* series; along the scale if *ordered*."""
    if not ordered or count < 2:
        return DISTINCT[rank % len(DISTINCT)]
    return shade(BRIGHTEST * rank / (count - 1))


def dash(rank: int, *, ordered: bool) -> str:
    """Return the dash of the *rank*-th series: another one each time the colours start again."""
    return DASHES[0 if ordered else rank // len(DISTINCT) % len(DASHES)]


def marker(rank: int) -> str:
    """Return the marker of the *rank*-th series."""
    return MARKERS[rank % len(MARKERS)]


def slice_colours(names: Sequence[str], categories: Sequence[str]) -> tuple[str, ...]:
    """Return the colours of a pie's slices.

    A category keeps its colour in every panel, if there are enough colours; the rest is grey.
    """
    coloured = list(categories if len(categories) <= len(DISTINCT) else names)
    return tuple(
        DISTINCT[coloured.index(name) % len(DISTINCT)] if name in categories else REST
        for name in names
    )


def shade(at: float) -> str:
    """Return the colour of the scale at 0 to 1, mixed from its neighbours."""
    place = min(max(at, 0.0), 1.0) * (len(SCALE) - 1)
    below = min(int(place), len(SCALE) - 2)
    share = place - below
    pairs = zip(_components(SCALE[below]), _components(SCALE[below + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def is_dark(text: str) -> bool:
    """Return whether white letters read better on the colour than black ones."""
    red, green, blue = (component / 255 for component in _components(text))
    luminance: float = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return luminance < 0.18


def _components(text: str) -> Sequence[int]:
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]
