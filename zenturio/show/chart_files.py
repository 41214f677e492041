"""Charts as files: HTML for browsers; PNG, SVG and PDF for papers."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any, Literal, cast, get_args

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.output_files import write_output
from zenturio.show.chart import Chart

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
