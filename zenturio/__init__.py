"""Parameter studies: text with holes becomes a space of points; run them, remember, learn.

>>> import zenturio as zen
>>> zen.Space(n=zen.geometric(128, 1024), threads=[1, 2, 4]).where("n * threads <= 2048").size
11

A public name is loaded from its room when it is first asked for, so importing this costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.errors import ZenError
    from zenturio.space import (
        Parameter,
        Point,
        Space,
        Zip,
        derived,
        geometric,
        linear,
        logarithmic,
        loguniform,
        parameter,
        span,
        uniform,
    )

__all__ = [
    "Parameter",
    "Point",
    "Space",
    "ZenError",
    "Zip",
    "derived",
    "geometric",
    "linear",
    "logarithmic",
    "loguniform",
    "parameter",
    "span",
    "uniform",
]

_ROOMS = {"ZenError": "errors", **dict.fromkeys(set(__all__) - {"ZenError"}, "space")}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
