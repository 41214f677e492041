"""A chart becomes a file; its name says of which kind."""

from __future__ import annotations

from pathlib import Path

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.output_files import write_output
from zenturio.show.chart import Chart
from zenturio.show.images import FORMATS, image
from zenturio.show.scene import Scene


def save(chart: Chart | Scene, path: str | Path, *, dpi: int = 200) -> Path:
    """Write *chart* to *path*: ``.html`` for browsers, ``.png``, ``.svg`` or ``.pdf`` for papers.

    The file appears whole or not at all.
    """
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in ("html", *FORMATS):
        known = [f".{name}" for name in ("html", *FORMATS)]
        raise InputError(
            f"{target.name!r} does not end as a picture does",
            hint=did_you_mean(target.suffix, known),
        )
    try:
        write_output(target, [content(chart, kind, dpi=dpi)])
    except OSError as error:
        raise PlaceError(f"cannot write {target}: {error.strerror}") from error
    return target


def content(chart: Chart | Scene, kind: str, *, dpi: int = 200) -> bytes:
    """*chart* as a file of a *kind*: ``html``, or one of images."""
    if kind != "html":
        return image(chart, kind, dpi=dpi)
    from zenturio.show.interactive import page  # noqa: PLC0415 - plotly loads slowly

    return page(chart).encode()
