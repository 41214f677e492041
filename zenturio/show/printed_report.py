"""Reports as PNG, SVG and PDF, by matplotlib and without a browser."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import matplotlib as mpl
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure, FigureBase
from matplotlib.layout_engine import ConstrainedLayoutEngine

from zenturio.errors import InputError
from zenturio.show import palette
from zenturio.show.chart import Chart
from zenturio.show.drawing import STYLE, paint, size_of
from zenturio.show.painted import paint_scene, scene_size
from zenturio.show.report import Style
from zenturio.show.scene import Scene

WIDE, HIGH = 8.27, 11.69
"""Inches: A4."""
MARGIN = 0.45
TEXT = WIDE - 2 * MARGIN
GAP = 0.3
"""Inches around a picture."""
TALLEST = 150.0
"""Inches of a picture of a whole report."""
LONGEST = 3_000
"""Characters of a paragraph that stay on one page."""

Lines = Sequence[tuple[Style, str]]
Block = Lines | Chart | Scene


@dataclass(frozen=True, slots=True)
class _Look:
    """How lines of a style are set."""

    size: float
    weight: str = "normal"
    before: float = 0.0
    """Inches above it."""
    indent: float = 0.0
    mark: str = ""
    family: str = "DejaVu Sans"
    letter: float = 0.55
    """How wide a letter is, of its height, on the average."""


_LOOKS: dict[Style, _Look] = {
    "title": _Look(17, "bold", 0.05, letter=0.66),
    "heading": _Look(13, "bold", 0.12, letter=0.64),
    "text": _Look(10, before=0.07),
    "item": _Look(10, before=0.03, indent=0.22, mark="•"),
    "quote": _Look(10, before=0.07, indent=0.25),
    "code": _Look(8.5, indent=0.15, family="DejaVu Sans Mono", letter=0.61),
}


def printed(blocks: Sequence[Block], kind: str) -> bytes:
    """The *blocks* one below the other: an image of them all, or pages of A4 in a PDF."""
    target = io.BytesIO()
    with mpl.rc_context(cast("Any", STYLE)):
        if kind == "pdf":
            with PdfPages(target, metadata={"CreationDate": None}) as pages:
                for page in _pages(blocks):
                    pages.savefig(_figure(page, high=HIGH))
        else:
            metadata = {"svg": {"Date": None}}.get(kind)
            _figure(blocks).savefig(target, format=kind, dpi=150, metadata=metadata)
    return target.getvalue()


def _pages(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """As many blocks as have room, page by page; words are parted between their lines."""
    page: list[Block] = []
    left = HIGH - 2 * MARGIN
    for block in (part for whole in blocks for part in _parts(whole)):
        needed = _height(block)
        if page and needed > left:
            yield page
            page, left = [], HIGH - 2 * MARGIN
        last = page[-1] if page else None
        if isinstance(block, Chart | Scene) or last is None or isinstance(last, Chart | Scene):
            page.append(block)
        else:
            page[-1] = [*last, *block]
        left -= needed
    if page:
        yield page


def _parts(block: Block) -> list[Block]:
    if isinstance(block, Chart | Scene):
        return [block]
    return [
        [(style, part)] for style, text in block for part in textwrap.wrap(text, LONGEST) or [""]
    ]


def _figure(blocks: Sequence[Block], high: float = 0.0) -> Figure:
    """Each block in a figure of its own inside the whole, as high as it needs to be."""
    heights = [_height(block) for block in blocks]
    whole = high or sum(heights) + 2 * MARGIN
    if whole > TALLEST:
        raise InputError(
            f"a picture of {whole:.0f} inches is more than can be drawn in one piece",
            hint="write a .pdf, which has pages, or an .html file",
        )
    figure = Figure(figsize=(WIDE, whole), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    rest = max(whole - sum(heights) - 2 * MARGIN, 0.0) + MARGIN
    for block, height, inside in zip(
        blocks, heights, _places(figure, [MARGIN, *heights, rest]), strict=True
    ):
        if isinstance(block, Chart):
            paint(inside, block, TEXT)
        elif isinstance(block, Scene):
            paint_scene(inside, block, TEXT, height)
        else:
            _write(inside, block, height)
    return figure


def _places(figure: Figure, rows: Sequence[float]) -> list[FigureBase]:
    """The middle of each row but the first and the last."""
    columns = [MARGIN, TEXT, MARGIN]
    found: Any = figure.subfigures(
        len(rows), 3, height_ratios=rows, width_ratios=columns, hspace=0, wspace=0
    )
    return [middle for _, middle, _ in found[1:-1]]


def _height(block: Block) -> float:
    """Inches; a picture that is wider than the page is made lower with it, but not much."""
    if isinstance(block, Chart):
        return min(size_of(block)[1], HIGH - 2 * MARGIN) + GAP
    if isinstance(block, Scene):
        return min(scene_size(block)[1], HIGH - 2 * MARGIN) + GAP
    return sum(_LOOKS[style].before + len(rows) * _step(style) for style, rows in _set(block))


def _step(style: Style) -> float:
    return _LOOKS[style].size * 1.4 / 72


def _set(lines: Lines) -> Iterator[tuple[Style, list[str]]]:
    """Lines as wide as the page."""
    for style, text in lines:
        look = _LOOKS[style]
        room = TEXT - look.indent
        letters = int(room * 72 / (look.size * look.letter))
        yield style, textwrap.wrap(text, letters, drop_whitespace=style != "code") or [""]


def _write(inside: FigureBase, lines: Lines, height: float) -> None:
    """The words in a figure that is so high."""
    at = 0.0
    for style, rows in _set(lines):
        look = _LOOKS[style]
        at += look.before
        for number, row in enumerate(rows):
            up = 1 - (at + _step(style) * 0.75) / height
            font: dict[str, Any] = {"fontsize": look.size, "fontweight": look.weight,
                                    "family": look.family, "color": palette.INK}  # fmt: skip
            inside.text(look.indent / TEXT, up, row, va="baseline", **font)
            if look.mark and not number:
                inside.text(0.05 / TEXT, up, look.mark, va="baseline", **font)
            at += _step(style)
