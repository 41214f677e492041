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
from zenturio.show.chart import Chart
from zenturio.show.markdown_report import Style
from zenturio.show.renderers import palette
from zenturio.show.renderers.matplotlib import STYLE, figure_size, paint

PAGE_WIDTH, PAGE_HEIGHT = 8.27, 11.69
"""Inches: A4."""
MARGIN = 0.45
TEXT_WIDTH = PAGE_WIDTH - 2 * MARGIN
CHART_GAP = 0.3
"""Inches around a chart."""
TALLEST_IMAGE = 150.0
"""Inches of a whole report in one image."""
LONGEST_PARAGRAPH = 3_000
"""Characters of a paragraph that stay on one page."""

Lines = Sequence[tuple[Style, str]]
Block = Lines | Chart


@dataclass(frozen=True, slots=True)
class _TextStyle:
    size: float
    """In points."""
    weight: str = "normal"
    space_before: float = 0.0
    """Inches."""
    indent: float = 0.0
    bullet: str = ""
    family: str = "DejaVu Sans"
    letter_width: float = 0.55
    """Of an average letter, as a share of its height."""


_TEXT_STYLES: dict[Style, _TextStyle] = {
    "title": _TextStyle(17, "bold", 0.05, letter_width=0.66),
    "heading": _TextStyle(13, "bold", 0.12, letter_width=0.64),
    "text": _TextStyle(10, space_before=0.07),
    "item": _TextStyle(10, space_before=0.03, indent=0.22, bullet="•"),
    "quote": _TextStyle(10, space_before=0.07, indent=0.25),
    "code": _TextStyle(8.5, indent=0.15, family="DejaVu Sans Mono", letter_width=0.61),
}


def print_report(blocks: Sequence[Block], file_format: str) -> bytes:
    """Return the *blocks* below each other: one image of all, or the A4 pages of a PDF.

    Raise InputError if an image would be too tall.
    """
    target = io.BytesIO()
    with mpl.rc_context(cast("Any", STYLE)):
        if file_format == "pdf":
            # Without dates the same report is the same bytes.
            with PdfPages(target, metadata={"CreationDate": None}) as pages:
                for page in _pages(blocks):
                    pages.savefig(_figure(page, page_height=PAGE_HEIGHT))
        else:
            metadata = {"svg": {"Date": None}}.get(file_format)
            _figure(blocks).savefig(target, format=file_format, dpi=150, metadata=metadata)
    return target.getvalue()


def _pages(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield as many blocks as have room, page by page; text is split between its lines."""
    page: list[Block] = []
    room = PAGE_HEIGHT - 2 * MARGIN
    for block in (part for whole in blocks for part in _split_block(whole)):
        height = _height(block)
        if page and height > room:
            yield page
            page, room = [], PAGE_HEIGHT - 2 * MARGIN
        last = page[-1] if page else None
        if isinstance(block, Chart) or last is None or isinstance(last, Chart):
            page.append(block)
        else:
            page[-1] = [*last, *block]
        room -= height
    if page:
        yield page


def _split_block(block: Block) -> list[Block]:
    if isinstance(block, Chart):
        return [block]
    return [
        [(style, part)]
        for style, text in block
        for part in textwrap.wrap(text, LONGEST_PARAGRAPH) or [""]
    ]


def _figure(blocks: Sequence[Block], page_height: float = 0.0) -> Figure:
    """Return a figure with a subfigure for each block, as high as the block or as a page."""
    heights = [_height(block) for block in blocks]
    height = page_height or sum(heights) + 2 * MARGIN
    if height > TALLEST_IMAGE:
        raise InputError(
            f"an image of {height:.0f} inches is too tall",
            hint="write a .pdf, which has pages, or an .html file",
        )
    engine = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = Figure(figsize=(PAGE_WIDTH, height), layout=engine)
    rest = max(height - sum(heights) - 2 * MARGIN, 0.0) + MARGIN
    subfigures = _subfigures(figure, [MARGIN, *heights, rest])
    for block, block_height, subfigure in zip(blocks, heights, subfigures, strict=True):
        if isinstance(block, Chart):
            paint(subfigure, block, TEXT_WIDTH, block_height)
        else:
            _draw_text(subfigure, block, block_height)
    return figure


def _subfigures(figure: Figure, rows: Sequence[float]) -> list[FigureBase]:
    """Return the middle of each row but the first and the last, which are margins."""
    columns = [MARGIN, TEXT_WIDTH, MARGIN]
    subfigures: Any = figure.subfigures(
        len(rows), 3, height_ratios=rows, width_ratios=columns, hspace=0, wspace=0
    )
    return [middle for _, middle, _ in subfigures[1:-1]]


def _height(block: Block) -> float:
    """Return inches; a chart that is taller than the page is made lower."""
    if isinstance(block, Chart):
        return min(figure_size(block)[1], PAGE_HEIGHT - 2 * MARGIN) + CHART_GAP
    return sum(
        _TEXT_STYLES[style].space_before + len(rows) * _line_height(style)
        for style, rows in _wrap_lines(block)
    )


def _line_height(style: Style) -> float:
    return _TEXT_STYLES[style].size * 1.4 / 72


def _wrap_lines(lines: Lines) -> Iterator[tuple[Style, list[str]]]:
    """Yield lines wrapped to the width of the page."""
    for name, text in lines:
        style = _TEXT_STYLES[name]
        room = TEXT_WIDTH - style.indent
        letters = int(room * 72 / (style.size * style.letter_width))
        yield name, textwrap.wrap(text, letters, drop_whitespace=name != "code") or [""]


def _draw_text(subfigure: FigureBase, lines: Lines, height: float) -> None:
    """Write *lines* into a subfigure of *height* inches."""
    top = 0.0
    for name, rows in _wrap_lines(lines):
        style = _TEXT_STYLES[name]
        font: dict[str, Any] = {"fontsize": style.size, "fontweight": style.weight,
                                "family": style.family, "color": palette.INK}  # fmt: skip
        top += style.space_before
        for number, row in enumerate(rows):
            y = 1 - (top + _line_height(name) * 0.75) / height
            subfigure.text(style.indent / TEXT_WIDTH, y, row, va="baseline", **font)
            if style.bullet and not number:
                subfigure.text(0.05 / TEXT_WIDTH, y, style.bullet, va="baseline", **font)
            top += _line_height(name)
