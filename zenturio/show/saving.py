"""A chart becomes a file; its name says of which kind."""

from __future__ import annotations

from pathlib import Path

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.files import write_whole
from zenturio.show.charts import Chart
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
            cure=did_you_mean(target.suffix, known),
        )
    content = _page(chart) if kind == "html" else image(chart, kind, dpi=dpi)
    try:
        write_whole(target, [content])
    except OSError as error:
        raise PlaceError(f"cannot write {target}: {error.strerror}") from error
    return target


def _page(chart: Chart | Scene) -> bytes:
    from zenturio.show.interactive import page  # noqa: PLC0415 - plotly loads slowly

    return page(chart).encode()
