"""Figures of plotly.js as plain values: a page needs no more, and plotly itself loads slowly."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from zenturio.show.chart import Panel, brief

Figure = dict[str, Any]
"""``data``, a list of traces, and ``layout``."""
Span = list[float]
"""From where to where, as shares of the whole."""

ACROSS = 0.05
"""Between panels side by side."""
_GRID, _SPACE, _INK = "#ebf0f8", "#dfe8f3", "#2a3f5f"
_SIDE = {
    "gridcolor": _GRID, "linecolor": _GRID, "zerolinecolor": _GRID, "zerolinewidth": 2,
    "ticks": "", "title": {"standoff": 15}, "automargin": True,
}  # fmt: skip
_DEPTH = {
    "gridcolor": _SPACE, "linecolor": _GRID, "zerolinecolor": _GRID, "gridwidth": 2, "ticks": "",
    "backgroundcolor": "white", "showbackground": True,
}  # fmt: skip
TEMPLATE: Figure = {
    "layout": {
        "autotypenumbers": "strict",
        "font": {"color": _INK},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "coloraxis": {"colorbar": {"outlinewidth": 0, "ticks": ""}},
        "xaxis": _SIDE,
        "yaxis": _SIDE,
        "scene": {"xaxis": _DEPTH, "yaxis": _DEPTH, "zaxis": _DEPTH},
        "title": {"x": 0.05},
    },
    "data": {
        "bar": [{
            "type": "bar", "error_x": {"color": _INK}, "error_y": {"color": _INK},
            "marker": {"line": {"color": "white", "width": 0.5},
                       "pattern": {"fillmode": "overlay", "size": 10, "solidity": 0.2}},
        }],
        "pie": [{"type": "pie", "automargin": True}],
    },
}  # fmt: skip
"""How a figure looks by day where it does not say so itself."""


def said(text: str) -> str:
    """*text* as plotly shows it to the letter: it would read tags and entities in it."""
    return html.escape(brief(text, 120), quote=False)


def trace(kind: str, **given: Any) -> dict[str, Any]:
    """One trace; what is None is left to plotly.js."""
    return {"type": kind, **{name: value for name, value in given.items() if value is not None}}


def numbered(name: str, place: int) -> str:
    """``xaxis``, ``xaxis2`` ...: as the axes and scenes of panels are called, from 0 on."""
    return f"{name}{place + 1}" if place else name


def spans(count: int, columns: int, between: float) -> list[tuple[Span, Span]]:
    """Where each panel stands across and upwards, row by row; *between* rows there is so much."""
    rows = -(-count // columns)
    width = (1 - ACROSS * (columns - 1)) / columns
    height = (1 - between * (rows - 1)) / rows
    found = []
    for each in range(count):
        left = each % columns * (width + ACROSS)
        top = 1 - each // columns * (height + between)
        found.append(([left, left + width], [max(top - height, 0.0), top]))
    return found


def headings(panels: Sequence[Panel], places: Sequence[tuple[Span, Span]], most: int) -> list[Any]:
    """The titles of panels, as annotations above them; cut at *most* letters."""
    return [
        {
            "text": said(brief(panel.title, most)), "font": {"size": 16}, "showarrow": False,
            "x": sum(across) / 2, "y": upwards[1], "xanchor": "center", "yanchor": "bottom",
            "xref": "paper", "yref": "paper",
        }
        for panel, (across, upwards) in zip(panels, places, strict=True)
        if panel.title
    ]  # fmt: skip


def jsonable(value: Any) -> Any:
    """*value* as JSON holds it: what is no finite number there is a gap."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: jsonable(each) for name, each in value.items()}
        case list() | tuple():
            return [jsonable(each) for each in value]
        case str() | int() | None:
            return value
    return jsonable(value.item())  # a number of NumPy's
