"""Scenes for papers, by matplotlib."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure, FigureBase
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from zenturio.show import palette
from zenturio.show.chart import brief
from zenturio.show.scene import Box, Scene, colour_of

WIDE = 9.0
"""Inches of a scene, and about the most that it is high."""
HIGH = 9.0
LETTER = 0.065
"""Inches that a letter in a box takes."""
FEW = 600
"""Lines that are as dark as they can be; the more there are, the fainter each is."""
LONG = 20
"""Letters of a longer name that are shown."""


def draw_scene(scene: Scene) -> Figure:
    """The scene as a figure for a file."""
    size = scene_size(scene)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    paint_scene(figure, scene, *size)
    return figure


def scene_size(scene: Scene) -> tuple[float, float]:
    """Inches."""
    high = min(HIGH, max(2.6, 1.3 + 0.24 * len(scene.rows))) if scene.rows else 5.4
    return WIDE + (1.5 if scene.legend else 0.0), high


def paint_scene(figure: FigureBase, scene: Scene, wide: float, high: float) -> None:
    """The scene in so many inches."""
    axes = figure.add_subplot()
    if scene.rows:
        _boxes(axes, scene, high)
    else:
        _dots(axes, scene)
    if scene.legend:
        used = sorted({b.level for b in scene.boxes} | {dot.level for dot in scene.dots})
        handles = [Patch(color=colour_of(scene, at), label=brief(scene.levels[at])) for at in used]
        figure.legend(handles=handles, loc="outside right upper", alignment="left")
    title = "\n".join(
        textwrap.wrap(" ".join(scene.title.split()), int((wide - 1.5 * scene.legend) * 9.5))
    )
    note = "\n".join(textwrap.wrap(scene.note, int(wide * 16)))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=palette.FAINT)


def _boxes(axes: Axes, scene: Scene, high: float) -> None:
    count = len(scene.rows)
    edge = 0.4 if count <= 60 or scene.labelled else 0.0  # or they hide what they part
    for level in range(len(scene.levels)):
        for faint in (False, True):
            chosen = [b for b in scene.boxes if b.level == level and b.faint is faint]
            if not chosen:
                continue
            colour = palette.PALE if faint else colour_of(scene, level)
            outline = colour_of(scene, level) if faint else "white"
            corners = [_corners(box) for box in chosen]
            axes.add_collection(
                PolyCollection(corners, facecolors=colour, edgecolors=outline, linewidths=edge)
            )
    longest = scene.x.ends[1] or 1.0
    axes.set_xlim(0, longest * 1.01)
    axes.set_ylim(count - 0.5, -0.5)
    every = max(1, -(-count // int((high - 1.2) / 0.17)))
    axes.set_yticks(range(0, count, every), [brief(name, 28) for name in scene.rows[::every]])
    axes.set_xlabel(scene.x.label)
    axes.set_ylabel(scene.row)
    axes.grid(visible=False, axis="y")
    if scene.labelled:
        _name(axes, scene, longest)


def _corners(box: Box) -> list[tuple[float, float]]:
    top, low = box.first - 0.43, box.last + 0.43
    return [(box.left, top), (box.right, top), (box.right, low), (box.left, low)]


def _name(axes: Axes, scene: Scene, longest: float) -> None:
    """Names in boxes, where these have room."""
    for box in scene.boxes:
        room = (box.right - box.left) / longest * (WIDE - 1.2) / LETTER
        text = brief(box.name, LONG)
        if room < len(text):
            continue
        pale = box.faint or not palette.dark(colour_of(scene, box.level))
        axes.text(
            (box.left + box.right) / 2, (box.first + box.last) / 2, text,
            ha="center", va="center", fontsize=7, color=palette.INK if pale else "white",
        )  # fmt: skip


def _dots(axes: Axes, scene: Scene) -> None:
    few = len(scene.dots) <= 300
    lines = np.array(scene.lines, dtype=float).reshape(-1, 2, 2)
    alpha = 0.9 if few else float(np.clip(FEW / max(len(lines), 1), 0.06, 0.35))
    thin: dict[str, Any] = {"linewidths": 0.7 if few else 0.3, "alpha": alpha}
    axes.add_collection(LineCollection(list(lines), colors=palette.PALE, zorder=1, **thin))
    for level in range(len(scene.levels)):
        chosen = [dot for dot in scene.dots if dot.level == level]
        axes.scatter(
            [dot.x for dot in chosen], [dot.y for dot in chosen],
            s=42 if few else 6, color=colour_of(scene, level), zorder=2, linewidths=0,
        )  # fmt: skip
    if scene.labelled:
        for dot in scene.dots:
            axes.annotate(
                brief(dot.name, 16), (dot.x, dot.y), xytext=(0, 5.5), textcoords="offset points",
                ha="center", fontsize=7, color=palette.INK,
            )  # fmt: skip
    axes.margins(0.06)
    axes.axis("off")
