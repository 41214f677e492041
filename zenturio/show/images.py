"""Charts as files for a paper: PNG, SVG and PDF, by matplotlib and without a browser."""

from __future__ import annotations

import io
import warnings
from typing import Any, Literal, cast, get_args

from zenturio.errors import InputError, PlaceError, did_you_mean
from zenturio.show.chart import Chart
from zenturio.show.scene import Scene

Format = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = get_args(Format)


def image(chart: Chart | Scene, format: str = "png", *, dpi: int = 200) -> bytes:  # noqa: A002
    """The bytes of a picture, the same for the same chart.

    PlaceError says how to install what draws it.
    """
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise InputError(f"no format of images is called {format!r}", hint=hint)
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to load

        from zenturio.show.drawing import STYLE, draw  # noqa: PLC0415 - needs matplotlib
        from zenturio.show.painted import draw_scene  # noqa: PLC0415 - needs matplotlib
    except ImportError as error:
        raise PlaceError(
            "images are drawn by matplotlib, which is not installed",
            hint="pip install 'zenturio[images]'; or write an .html file, which needs nothing",
        ) from error
    dates: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context(cast("Any", STYLE)):
        target = io.BytesIO()
        figure = draw_scene(chart) if isinstance(chart, Scene) else draw(chart)
        with warnings.catch_warnings():  # a letter that the font has not is drawn as a box
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(target, format=format, dpi=dpi, metadata=dates.get(format))
    return target.getvalue()
