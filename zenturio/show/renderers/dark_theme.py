"""The dark theme: a figure of plotly with colours that read on a dark page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from zenturio.show.renderers import palette

BACKGROUND = "#161d24"
INK = "#e6ebf0"
GRID = "#2c3742"
PALE = "#6b7885"
CONTRAST = 4.0
"""Least contrast of a line against the background (WCAG asks for 3)."""

_REPLACED = {
    "white": BACKGROUND, palette.INK: INK, palette.PALE: PALE, palette.RING: "#ff6f61",
    "#000000": "#f2f5f8", palette.GREY: palette.GREY, palette.REST: palette.GREY,
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
        "gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID, "automargin": True,
        "title": {"standoff": 15}, "ticks": "",
    }  # fmt: skip
    space_axis = {**axis, "backgroundcolor": _TRANSPARENT, "showbackground": False, "gridwidth": 2}
    return {
        "paper_bgcolor": _TRANSPARENT,
        "plot_bgcolor": _TRANSPARENT,
        "font": {"color": INK},
        "xaxis": axis,
        "yaxis": axis,
        "scene": {"xaxis": space_axis, "yaxis": space_axis, "zaxis": space_axis},
        "hoverlabel": {"align": "left"},
        "colorway": list(map(lighten, palette.DISTINCT)),
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
    return INK


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
