"""A report: words in Markdown, and charts by their addresses between them.

A chart stands in a line of its own as an image does, ``![what it shows](/chart?study=matmul)``:
its address is the one that the portal shows. Other images are not fetched.
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
from zenturio.show.charts.chart_query import View
from zenturio.show.charts.schedule_query import PlanView, scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it.token import Token

    from zenturio.record import Repository
    from zenturio.show.chart import Chart
    from zenturio.show.scene import Scene

Style = Literal["title", "heading", "text", "item", "code", "quote"]
MOST = 262_144
"""Bytes of a report."""
PICTURES = ("/chart", "/schedule")
_NAME = re.compile(r"\w[\w -]{0,63}")


@dataclass(frozen=True, slots=True)
class Words:
    """Text between pictures."""

    html: str
    """Nothing in it is executed or fetched, whatever was written."""
    lines: tuple[tuple[Style, str], ...]
    """Without its marks: for paper."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart or a schedule by its address."""

    said: str
    target: str

    def drawn(
        self, repository: Repository, folder: Path, *, slow: bool = False
    ) -> Sequence[Chart | Scene]:
        """What it shows now; several metrics are several charts."""
        parts = urlsplit(self.target)
        pairs = parse_qsl(parts.query)
        if parts.path == "/schedule":
            return [scene(PlanView.of(pairs), folder, slow=slow)]
        return [each.chart for each in View.of(pairs).drawn(repository)]


@dataclass(frozen=True)
class Report:
    """A report as it was written."""

    title: str
    blocks: tuple[Words | Picture, ...]


def read(text: str, title: str = "") -> Report:
    """The report that *text* is; a first heading is its title."""
    if len(text.encode()) > MOST:
        raise InputError(f"a report of more than {MOST:,} bytes", hint="make two of it")
    tokens = _MARKDOWN.parse(text)
    heads = (tokens[i + 1].content for i, each in enumerate(tokens) if each.type == "heading_open")
    return Report(next(heads, title) or title, tuple(_blocks(tokens)))


def may_be_named(name: str) -> bool:
    """Whether a report may be called so: it is the name of a file."""
    return _NAME.fullmatch(name) is not None


def named(name: str) -> str:
    """*name*, if a report may be called so."""
    if not may_be_named(name):
        raise InputError(
            f"no report can be called {name!r}",
            hint="letters, digits, spaces, - and _; up to 64 of them",
        )
    return name


def line(said: str, target: str) -> str:
    """The line of a report that shows a picture."""
    words = re.sub(r"[\[\]\\]", " ", " ".join(said.split()))
    return f"![{words}](<{target.replace('<', '%3C').replace('>', '%3E')}>)"


def _plain_image(_self: Any, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    """Of an image that is no chart what it shows: nothing is fetched."""
    from html import escape  # noqa: PLC0415

    return f"<em>{escape(tokens[at].content)}</em>"


def _made() -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False}).enable("table")
    found.add_render_rule("image", _plain_image)
    return found


_MARKDOWN = _made()


def _blocks(tokens: Sequence[Token]) -> Iterator[Words | Picture]:
    """Words and pictures by turns."""
    held: list[Token] = []
    at = 0
    while at < len(tokens):
        found = _pictures(tokens[at : at + 3])
        if not found:
            held.append(tokens[at])
            at += 1
            continue
        if held:
            yield _words(held)
            held = []
        yield from found
        at += 3
    if held:
        yield _words(held)


def _pictures(tokens: Sequence[Token]) -> list[Picture]:
    """The pictures of a paragraph at the top that holds nothing else."""
    if [each.type for each in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
        return []
    if tokens[0].level:
        return []
    found = []
    for child in tokens[1].children or ():
        if child.type == "softbreak" or (child.type == "text" and not child.content.strip()):
            continue
        target = str(child.attrs.get("src", ""))
        if child.type != "image" or urlsplit(target).path not in PICTURES:
            return []
        found.append(Picture(child.content, target))
    return found


def _words(tokens: list[Token]) -> Words:
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return Words(str(html), tuple(_lines(tokens)))


def _lines(tokens: Sequence[Token]) -> Iterator[tuple[Style, str]]:
    """What is written, line by line, and how it is meant."""
    style: Style = "text"
    openers: dict[str, Callable[[Token], Style]] = {
        "heading_open": lambda each: "title" if each.tag == "h1" else "heading",
        "list_item_open": lambda _: "item",
        "blockquote_open": lambda _: "quote",
    }
    cells: list[str] | None = None
    for each in tokens:
        if each.type in openers:
            style = openers[each.type](each)
        elif each.type == "tr_open":
            cells = []
        elif each.type == "tr_close" and cells is not None:
            yield "code", "  ".join(cells)
            cells = None
        elif each.type == "inline" and cells is not None:
            cells.append(f"{_plain(each):<14}")
        elif each.type == "inline":
            yield style, _plain(each)
            style = "text"
        elif each.type in ("fence", "code_block"):
            for row in each.content.rstrip("\n").split("\n"):
                yield "code", row


def _plain(inline: Token) -> str:
    """Text without its marks."""
    found = []
    for child in inline.children or ():
        if child.type in ("softbreak", "hardbreak"):
            found.append(" ")
        elif child.type in ("text", "code_inline", "image", "html_inline"):
            found.append(child.content)
    return "".join(found)
