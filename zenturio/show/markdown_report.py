"""A report: text in Markdown, and charts by their addresses between it.

A chart is a line of its own, written as an image, ``![what it shows](/chart?study=matmul)``: its
address is the one that the portal shows. Other images are not fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from markdown_it import MarkdownIt

from zenturio.errors import InputError
from zenturio.show.charts.chart_query import ChartQuery, ScheduleQuery, schedule_chart
from zenturio.show.charts.study_charts import draw_charts

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it.token import Token

    from zenturio.record import Repository
    from zenturio.show.chart import Chart

Style = Literal["title", "heading", "text", "item", "code", "quote"]
MOST_BYTES = 262_144
"""Of a report."""
CHART_PATHS = ("/chart", "/schedule")
_REPORT_NAME = re.compile(r"\w[\w -]{0,63}")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text between charts."""

    html: str
    """Nothing in it is executed or fetched, whatever was written."""
    lines: tuple[tuple[Style, str], ...]
    """Without markup, for paper."""


@dataclass(frozen=True, slots=True)
class ChartBlock:
    """A chart or a schedule by its address."""

    caption: str
    target: str

    def draw(self, repository: Repository, folder: Path, *, slow: bool = False) -> Sequence[Chart]:
        """Return the charts as of now; several metrics are several charts."""
        parts = urlsplit(self.target)
        pairs = parse_qsl(parts.query)
        if parts.path == "/schedule":
            return [schedule_chart(ScheduleQuery.from_address(pairs), folder, slow=slow)]
        results = draw_charts(repository, ChartQuery.from_address(pairs))
        return [result.chart for result in results]


@dataclass(frozen=True)
class Report:
    """A report as it was written."""

    title: str
    blocks: tuple[TextBlock | ChartBlock, ...]


def parse_report(text: str, title: str = "") -> Report:
    """Return the report in *text*; its first heading is the title, or else *title*.

    Raise InputError if it is too long.
    """
    if len(text.encode()) > MOST_BYTES:
        raise InputError(
            f"the report is longer than {MOST_BYTES:,} bytes", hint="split it into two"
        )
    tokens = _MARKDOWN.parse(text)
    headings = (tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open")
    return Report(next(headings, title) or title, tuple(_blocks(tokens)))


def is_valid_name(name: str) -> bool:
    """Return whether a report may have this name: it is also the name of a file."""
    return _REPORT_NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Return *name*; raise InputError if a report must not have it."""
    if not is_valid_name(name):
        raise InputError(
            f"{name!r} cannot be the name of a report",
            hint="letters, digits, spaces, - and _; up to 64 of them",
        )
    return name


def chart_line(caption: str, target: str) -> str:
    """Return the line of a report that shows the chart at the address *target*."""
    # Brackets would end the caption, and angle brackets the address below.
    words = re.sub(r"[\[\]\\]", " ", " ".join(caption.split()))
    return f"![{words}](<{target.replace('<', '%3C').replace('>', '%3E')}>)"


def _render_image(_self: Any, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    """Return the caption of an image that is not a chart: nothing is fetched."""
    from html import escape  # noqa: PLC0415

    return f"<em>{escape(tokens[at].content)}</em>"


def _markdown_parser() -> MarkdownIt:
    # HTML in a report is shown as text: it may come from somebody else.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("image", _render_image)
    return parser


_MARKDOWN = _markdown_parser()


def _blocks(tokens: Sequence[Token]) -> Iterator[TextBlock | ChartBlock]:
    """Yield text and charts in turn."""
    text: list[Token] = []
    at = 0
    while at < len(tokens):
        charts = _chart_blocks(tokens[at : at + 3])
        if not charts:
            text.append(tokens[at])
            at += 1
            continue
        if text:
            yield _text_block(text)
            text = []
        yield from charts
        at += 3  # the tokens of the paragraph
    if text:
        yield _text_block(text)


def _chart_blocks(tokens: Sequence[Token]) -> list[ChartBlock]:
    """Return the charts of a top-level paragraph that contains nothing else."""
    if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
        return []
    # Within a list or a quote an image stays text.
    if tokens[0].level:
        return []
    charts = []
    for child in tokens[1].children or ():
        if child.type == "softbreak" or (child.type == "text" and not child.content.strip()):
            continue
        target = str(child.attrs.get("src", ""))
        if child.type != "image" or urlsplit(target).path not in CHART_PATHS:
            return []
        charts.append(ChartBlock(child.content, target))
    return charts


def _text_block(tokens: list[Token]) -> TextBlock:
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return TextBlock(str(html), tuple(_text_lines(tokens)))


def _text_lines(tokens: Sequence[Token]) -> Iterator[tuple[Style, str]]:
    """Yield the text line by line, with its style."""
    style: Style = "text"
    openers: dict[str, Callable[[Token], Style]] = {
        "heading_open": lambda token: "title" if token.tag == "h1" else "heading",
        "list_item_open": lambda _: "item",
        "blockquote_open": lambda _: "quote",
    }
    cells: list[str] | None = None  # of the row of a table, while in one
    for token in tokens:
        if token.type in openers:
            style = openers[token.type](token)
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close" and cells is not None:
            yield "code", "  ".join(cells)
            cells = None
        elif token.type == "inline" and cells is not None:
            cells.append(f"{_plain_text(token):<14}")
        elif token.type == "inline":
            yield style, _plain_text(token)
            style = "text"
        elif token.type in ("fence", "code_block"):
            for row in token.content.rstrip("\n").split("\n"):
                yield "code", row


def _plain_text(inline: Token) -> str:
    """Return the text without markup."""
    texts = []
    for child in inline.children or ():
        if child.type in ("softbreak", "hardbreak"):
            texts.append(" ")
        elif child.type in ("text", "code_inline", "image", "html_inline"):
            texts.append(child.content)
    return "".join(texts)
