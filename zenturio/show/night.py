"""A figure for a dark page: the same picture, with colours that read there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from zenturio.show import palette

GROUND = "#161d24"
INK = "#e6ebf0"
GRID = "#2c3742"
PALE = "#6b7885"
CONTRAST = 4.0
"""What a line has against the ground at least (WCAG asks for 3)."""

_FIXED = {
    "white": GROUND, palette.INK: INK, palette.PALE: PALE, palette.RING: "#ff6f61",
    "#000000": "#f2f5f8", "#8a9199": "#8a9199", "#a6a6a6": "#8a9199",
}  # fmt: skip
_HEX = re.compile(r"(#[0-9a-f]{6})([0-9a-f]{2})?")
_AREAS = ("colorscale",)
"""Scales whose colours fill areas stay as they are: their dark end is no line."""
_PAPER = "rgba(0,0,0,0)"


def night(figure: Mapping[str, Any]) -> dict[str, Any]:
    """*figure*, as plotly has it in JSON, for a dark page."""
    layout = dict(figure["layout"])
    layout.pop("template", None)
    filled = any(trace["type"] in ("heatmap", "surface") for trace in figure["data"])
    found = {
        "data": [_lit(trace, filled) for trace in figure["data"]],
        "layout": _lit(layout, filled),
    }
    found["layout"]["template"] = {"layout": _template()}
    return found


def _template() -> dict[str, Any]:
    side = {
        "gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID, "automargin": True,
        "title": {"standoff": 15}, "ticks": "",
    }  # fmt: skip
    space = {**side, "backgroundcolor": _PAPER, "showbackground": False, "gridwidth": 2}
    return {
        "paper_bgcolor": _PAPER,
        "plot_bgcolor": _PAPER,
        "font": {"color": INK},
        "xaxis": side,
        "yaxis": side,
        "scene": {"xaxis": space, "yaxis": space, "zaxis": space},
        "hoverlabel": {"align": "left"},
        "colorway": list(map(lifted, palette.DISTINCT)),
    }


def _lit(value: Any, filled: bool) -> Any:
    """Every colour in *value*, exchanged."""
    match value:
        case dict():
            return {
                key: each if filled and key in _AREAS else _lit(each, filled)
                for key, each in value.items()
            }
        case list() | tuple():
            return [_lit(each, filled) for each in value] if _has_texts(value) else value
        case str():
            found = _HEX.fullmatch(value)
            if value in _FIXED:
                return _FIXED[value]
            return lifted(found[1]) + (found[2] or "") if found else value
        case _:
            return value


def _has_texts(values: Any) -> bool:
    return any(isinstance(each, str | dict | list | tuple) for each in values)


def lifted(colour: str) -> str:
    """*colour*, mixed with white until it stands out from the ground."""
    if colour in _FIXED:
        return _FIXED[colour]
    for step in range(20):
        mixed = _mixed(colour, step / 20)
        if _contrast(mixed) >= CONTRAST:
            return mixed
    return INK


def _mixed(colour: str, white: float) -> str:
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)


def _contrast(colour: str) -> float:
    """Against the ground, as WCAG 2 measures it."""
    return (_luminance(colour) + 0.05) / (_luminance(GROUND) + 0.05)


def _luminance(colour: str) -> float:
    def linear(part: float) -> float:
        return float(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)

    red, green, blue = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
