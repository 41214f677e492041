"""Charts and reports as files: Markdown in the folder ``reports``, and what is exported.

Charts in a report are drawn again whenever it is shown or exported.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from zenturio.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    PlaceError,
    SafetyError,
    ZenError,
    did_you_mean,
)
from zenturio.files import replace_whole, write_output
from zenturio.show.chart import Chart
from zenturio.show.markdown_report import (
    MOST_BYTES,
    Report,
    TextBlock,
    chart_line,
    check_name,
    is_valid_name,
    parse_report,
)
from zenturio.show.renderers.plotly import FONT, chart_html

if TYPE_CHECKING:
    from zenturio.record import Repository
    from zenturio.show.markdown_report import Style


FOLDER = "reports"
SUFFIX = ".md"
FORMATS = ("html", "png", "svg", "pdf")
_PAGE_STYLE = f"""
body {{ font: 16px/1.55 {FONT}; color: #17202a; }}
body {{ max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
pre, code {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.9em; }}
pre {{ background: #eef1f4; padding: 0.7rem 1rem; border-radius: 8px; overflow: auto; }}
figure {{ margin: 1.5rem 0; }}
blockquote {{ border-left: 4px solid #d9dee4; margin-left: 0; padding-left: 1rem; color: #55606c; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: 0.3rem 0.8rem; border-bottom: 1px solid #d9dee4; text-align: left; }}
"""


@dataclass(frozen=True)
class ReportStore:
    """The reports of a project."""

    project: Path

    def names(self) -> list[str]:
        """Return the names of all reports, sorted; files with other names are ignored."""
        stems = (path.stem for path in (self.project / FOLDER).glob(f"*{SUFFIX}"))
        return sorted(filter(is_valid_name, stems))

    def text(self, name: str) -> str:
        """Return the text of a report; raise NotFoundError if there is none of that name."""
        path = self._path(name)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InputError(f"{path.name} has more than {MOST_BYTES:,} bytes")
            return path.read_text("utf-8")
        except FileNotFoundError:
            hint = did_you_mean(name, self.names())
            raise NotFoundError(f"there is no report {name!r}", hint=hint) from None
        except (OSError, UnicodeDecodeError) as error:
            raise PlaceError(f"cannot read {path}: {error}") from error

    def save(self, name: str, text: str, known_version: str = "") -> None:
        """Write a report; *known_version* is that of the text it replaces, empty if it is new.

        Raise ConflictError if the report has changed since, and InputError if it is too long.
        """
        version = version_of(self.text(name)) if name in self.names() else ""
        if version != known_version:
            raise ConflictError(
                f"{name!r} was changed in the meantime",
                hint="copy your text, reload the report, and edit it again",
            )
        parse_report(text)
        path = self._path(name)
        try:
            path.parent.mkdir(exist_ok=True)
            replace_whole(path, [text.encode()])
        except OSError as error:
            raise PlaceError(f"cannot write {path}: {error.strerror}") from error

    def add(self, name: str, caption: str, target: str) -> None:
        """Append a chart to a report, which is created if there is none of that name."""
        exists = name in self.names()
        text = self.text(name) if exists else f"# {name}\n"
        known_version = version_of(text) if exists else ""
        self.save(name, f"{text.rstrip()}\n\n{chart_line(caption, target)}\n", known_version)

    def _path(self, name: str) -> Path:
        path = self.project / FOLDER / f"{check_name(name)}{SUFFIX}"
        # The folder may be a symbolic link.
        if not path.resolve().is_relative_to(self.project.resolve()):
            raise SafetyError(f"{path.name} is outside of the project")
        return path


def version_of(text: str) -> str:
    """Return a digest that tells versions of a report apart."""
    return sha256(text.encode()).hexdigest()[:16]


def export_report(
    report: Report,
    file_format: str,
    repository: Repository,
    folder: Path,
    *,
    slow: bool = False,
    on_error: Callable[[str, ZenError], None] | None = None,
) -> bytes:
    """Return the report as one file; in place of a chart that cannot be drawn is its error.

    *on_error* gets the caption and the error of each of these charts. Raise InputError if there is
    no such format.
    """
    if file_format not in FORMATS:
        hint = did_you_mean(file_format, FORMATS)
        raise InputError(f"a report cannot be written as {file_format!r}", hint=hint)
    printed: list[Sequence[tuple[Style, str]] | Chart] = []
    page: list[str | Chart] = []
    for block in report.blocks:
        if isinstance(block, TextBlock):
            printed.append(block.lines)
            page.append(block.html)
            continue
        try:
            charts = block.draw(repository, folder, slow=slow)
        except ZenError as error:
            if on_error is not None:
                on_error(block.caption, error)
            text = _error_block(block.caption, error)
            printed.append(text.lines)
            page.append(text.html)
            continue
        printed += charts
        page += charts
        if block.caption:
            printed.append([("text", block.caption)])
            page.append(f"<p><em>{escape(block.caption)}</em></p>")
    if file_format == "html":
        return html_report(report.title, page).encode()
    from zenturio.show.printed_report import print_report  # noqa: PLC0415 - loads matplotlib

    return print_report(printed, file_format)


def html_report(title: str, blocks: Sequence[str | Chart]) -> str:
    """Return an HTML page that works without a network; texts in *blocks* are HTML already."""
    parts: list[str] = []
    has_script = False
    for block in blocks:
        if isinstance(block, str):
            parts.append(block)
            continue
        # plotly.js comes once, with the first chart.
        parts.append(f"<figure>{chart_html(block, include_script=not has_script)}</figure>")
        has_script = True
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{escape(title)}</title>'
        f"<style>{_PAGE_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _error_block(caption: str, error: ZenError) -> TextBlock:
    """Return the error as a code block, so that nothing in it is taken for markup."""
    text = f"    {caption or 'a chart'} cannot be drawn:\n    {error}".replace("\n", "\n    ")
    (block,) = (block for block in parse_report(text).blocks if isinstance(block, TextBlock))
    return block


# Charts as files: HTML for browsers; PNG, SVG and PDF for papers

ImageFormat = Literal["png", "svg", "pdf"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)


def save(chart: Chart, path: str | Path, *, dpi: int = 200) -> Path:
    """Write *chart* to *path*: ``.html`` for browsers, ``.png``, ``.svg`` or ``.pdf`` for papers.

    The file appears whole or not at all. Raise InputError if the suffix is none of these, and
    PlaceError if the file cannot be written.
    """
    target = Path(path)
    file_format = target.suffix.lower().removeprefix(".")
    formats = ("html", *IMAGE_FORMATS)
    if file_format not in formats:
        hint = did_you_mean(target.suffix, [f".{name}" for name in formats])
        raise InputError(f"{target.name!r} does not have the suffix of a chart file", hint=hint)
    try:
        write_output(target, [chart_bytes(chart, file_format, dpi=dpi)])
    except OSError as error:
        raise PlaceError(f"cannot write {target}: {error.strerror}") from error
    return target


def chart_bytes(chart: Chart, file_format: str, *, dpi: int = 200) -> bytes:
    """Return *chart* as a file: ``html``, or a format of images."""
    if file_format != "html":
        return image(chart, file_format, dpi=dpi)
    from zenturio.show.renderers.plotly import chart_page  # noqa: PLC0415 - not for images

    return chart_page(chart).encode()


def image(chart: Chart, file_format: str = "png", *, dpi: int = 200) -> bytes:
    """Return the bytes of an image, the same for the same chart.

    Raise InputError if there is no such format.
    """
    if file_format not in IMAGE_FORMATS:
        hint = did_you_mean(file_format, IMAGE_FORMATS)
        raise InputError(f"there is no image format {file_format!r}", hint=hint)
    import matplotlib as mpl  # noqa: PLC0415 - loads slowly

    from zenturio.show.renderers.matplotlib import STYLE, draw  # noqa: PLC0415

    # Without dates the same chart gives the same bytes.
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(cast("Any", STYLE)), warnings.catch_warnings():
        # A letter that the font lacks is drawn as an empty box.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        target = io.BytesIO()
        draw(chart).savefig(target, format=file_format, dpi=dpi, metadata=metadata.get(file_format))
    return target.getvalue()
