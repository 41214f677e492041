"""Scenes for browsers: plotly figures to look around in."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from zenturio.show import palette
from zenturio.show.chart import brief
from zenturio.show.plain import TEMPLATE, Figure, said, trace
from zenturio.show.scene import Scene, colour_of

ROW = 22
"""Pixels of a row, while there are few."""
TALL = 900
_HIDDEN = {"visible": False}


def scene_figure(scene: Scene) -> Figure:
    """The scene as a figure to zoom in."""
    title = "<br>".join(map(said, textwrap.wrap(" ".join(scene.title.split()), 75)))
    note = "<br>".join(map(said, textwrap.wrap(scene.note, 130)))
    layout = {
        "template": TEMPLATE,
        "title": {"text": f"<b>{title}</b><br><sup>{note}</sup>", "x": 0.01, "xanchor": "left"},
        "font": {"size": 14, "color": palette.INK},
        "height": min(TALL, max(420, 190 + ROW * len(scene.rows))) if scene.rows else 640,
        "margin": {"l": 70, "r": 30, "t": 100, "b": 70},
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "showlegend": scene.legend,
        "uniformtext": {"mode": "hide", "minsize": 8},
        "dragmode": "pan" if scene.dots else "zoom",
    }
    sides = _sides(scene) if scene.rows else {"xaxis": _HIDDEN, "yaxis": _HIDDEN}
    return {"data": _boxes(scene) if scene.rows else _dots(scene), "layout": layout | sides}


def _sides(scene: Scene) -> dict[str, Any]:
    """The axes of boxes on rows."""
    count = len(scene.rows)
    every = -(-count * 14 // (TALL - 190))
    texts = [said(brief(name, 28)) for name in scene.rows[::every]]
    ticks = {"tickvals": list(range(0, count, every)), "ticktext": texts}
    title = {"text": said(scene.row)}
    return {
        "xaxis": {"title": {"text": said(scene.x.label)}, "rangemode": "tozero"},
        "yaxis": {"range": [count - 0.5, -0.5], "title": title, "showgrid": False, **ticks},
    }


def _boxes(scene: Scene) -> list[Any]:
    traces = []
    for level, name in enumerate(scene.levels):
        for faint in (False, True):
            chosen = [b for b in scene.boxes if b.level == level and b.faint is faint]
            if not chosen:
                continue
            colour = palette.PALE if faint else colour_of(scene, level)
            rows = [_row(scene, b.first, b.last) for b in chosen]
            told = [
                f"{said(b.name)}<br>{said(where)}<br>{said(b.told)}"
                for b, where in zip(chosen, rows, strict=True)
            ]
            traces.append(
                trace(
                    "bar",
                    orientation="h",
                    base=[b.left for b in chosen],
                    x=[b.right - b.left for b in chosen],
                    y=[(b.first + b.last) / 2 for b in chosen],
                    width=[b.last - b.first + 0.86 for b in chosen],
                    name=said(brief(name)) + (" (lost)" if faint else ""),
                    marker={"color": colour, "line": {"width": 0.5, "color": "white"}},
                    text=[said(b.name) for b in chosen] if scene.labelled else None,
                    textposition="inside" if scene.labelled else "none",
                    insidetextanchor="middle",
                    hovertext=told,
                    hoverinfo="text",
                )
            )
    return traces


def _row(scene: Scene, first: int, last: int) -> str:
    return scene.rows[first] if first == last else f"{scene.rows[first]} to {scene.rows[last]}"


def _dots(scene: Scene) -> list[Any]:
    gap = math.nan
    traces: list[Any] = [
        trace(
            "scattergl",
            x=[x for a, _, b, _ in scene.lines for x in (a, b, gap)],
            y=[y for _, a, _, b in scene.lines for y in (a, b, gap)],
            mode="lines",
            line={"color": palette.PALE, "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    ]
    size = 12 if len(scene.dots) <= 300 else 5
    for level, name in enumerate(scene.levels):
        chosen = [dot for dot in scene.dots if dot.level == level]
        traces.append(
            trace(
                "scattergl",
                x=[dot.x for dot in chosen],
                y=[dot.y for dot in chosen],
                mode="markers+text" if scene.labelled else "markers",
                text=[said(brief(dot.name, 16)) for dot in chosen],
                textposition="top center",
                textfont={"size": 11},
                marker={"color": colour_of(scene, level), "size": size},
                name=said(brief(name)),
                hovertext=[f"{said(dot.name)}<br>{said(dot.told)}" for dot in chosen],
                hoverinfo="text",
            )
        )
    return traces
