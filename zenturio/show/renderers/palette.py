"""Colours that colour-blind readers can tell apart, on white, in print and on a dark page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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


# The dark theme: a figure of plotly with colours that read on a dark page

BACKGROUND = "#161d24"
DARK_INK = "#e6ebf0"
DARK_GRID = "#2c3742"
DARK_PALE = "#6b7885"
CONTRAST = 4.0
"""Least contrast of a line against the background (WCAG asks for 3)."""

_REPLACED = {
    "white": BACKGROUND, INK: DARK_INK, PALE: DARK_PALE, RING: "#ff6f61",
    "#000000": "#f2f5f8", GREY: GREY, REST: GREY,
}  # fmt: skip
_HEX = re.compile(r"(#[0-9a-f]{6})([0-9a-f]{2})?")
_AREA_KEYS = ("colorscale",)
"""Scales whose colours fill areas stay as they are: their dark end is not a line."""
_TRANSPARENT = "rgba(0,0,0,0)"


def dark_figure(figure: Mapping[str, Any]) -> dict[str, Any]:
    """Return *figure*, as plotly has it in JSON, for a dark page."""
    layout = dict(figure["layout"])
    layout.pop("template", None)
    has_areas = any(trace["type"] in ("heatmap", "surface") for trace in figure["data"])
    dark_layout = _with_dark_colours(layout, has_areas)
    dark_layout["template"] = {"layout": _template()}
    return {
        "data": [_with_dark_colours(trace, has_areas) for trace in figure["data"]],
        "layout": dark_layout,
    }


def _template() -> dict[str, Any]:
    axis = {
        "gridcolor": DARK_GRID, "zerolinecolor": DARK_GRID, "linecolor": DARK_GRID,
        "automargin": True,
        "title": {"standoff": 15}, "ticks": "",
    }  # fmt: skip
    space_axis = {**axis, "backgroundcolor": _TRANSPARENT, "showbackground": False, "gridwidth": 2}
    return {
        "paper_bgcolor": _TRANSPARENT,
        "plot_bgcolor": _TRANSPARENT,
        "font": {"color": DARK_INK},
        "xaxis": axis,
        "yaxis": axis,
        "scene": {"xaxis": space_axis, "yaxis": space_axis, "zaxis": space_axis},
        "hoverlabel": {"align": "left"},
        # Without it, buttons are dark grey on the dark page.
        "modebar": {"bgcolor": _TRANSPARENT, "color": DARK_PALE, "activecolor": DARK_INK},
        "colorway": list(map(lighten, DISTINCT)),
    }


def _with_dark_colours(value: Any, has_areas: bool) -> Any:
    """Return *value* with every colour in it replaced."""
    match value:
        case dict():
            return {
                key: part
                if has_areas and key in _AREA_KEYS
                else _with_dark_colours(part, has_areas)
                for key, part in value.items()
            }
        case list() | tuple():
            # Long lists of numbers hold no colours: they are not copied.
            has_texts = any(isinstance(part, str | dict | list | tuple) for part in value)
            return [_with_dark_colours(part, has_areas) for part in value] if has_texts else value
        case str():
            if value in _REPLACED:
                return _REPLACED[value]
            match = _HEX.fullmatch(value)
            return lighten(match[1]) + (match[2] or "") if match else value
        case _:
            return value


def lighten(colour: str) -> str:
    """Return *colour*, mixed with white until it stands out from the background."""
    if colour in _REPLACED:
        return _REPLACED[colour]
    for step in range(20):
        mixed = _mix_with_white(colour, step / 20)
        if contrast(mixed) >= CONTRAST:
            return mixed
    return DARK_INK


def _mix_with_white(colour: str, share: float) -> str:
    components = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in components)


def contrast(colour: str) -> float:
    """Return the contrast of *colour* against the background, as WCAG 2 defines it."""
    return (_luminance(colour) + 0.05) / (_luminance(BACKGROUND) + 0.05)


def _luminance(colour: str) -> float:
    def linear(part: float) -> float:
        return float(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)

    red, green, blue = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
