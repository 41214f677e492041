"""Text with holes: directives in comments are read, and filled in for each point.

>>> from zenturio.annotate import Filler, scan
>>> application = scan("matmul.c")  # doctest: +SKIP
>>> Filler(application).files(application.space.point(0))  # doctest: +SKIP

A name is loaded when it is first asked for: who only runs experiments needs no more than the model.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.annotate.commands import fill_command
    from zenturio.annotate.dialects import Dialect, dialect_of
    from zenturio.annotate.file_selection import IGNORE
    from zenturio.annotate.filler import Filled, Filler
    from zenturio.annotate.insert import directive, insert
    from zenturio.annotate.jsonpath import json_steps
    from zenturio.annotate.lint import lint
    from zenturio.annotate.model import (
        MEASURED,
        After,
        Annotated,
        Application,
        Command,
        Goal,
        Metric,
        Repeat,
    )
    from zenturio.annotate.scan import scan
    from zenturio.annotate.source import Source

_HOMES = {
    "commands": ("fill_command",),
    "dialects": ("Dialect", "dialect_of"),
    "fill": ("Filled", "Filler"),
    "insert": ("directive", "insert"),
    "jsonpath": ("json_steps",),
    "lint": ("lint",),
    "paths": ("IGNORE",),
    "scan": ("scan",),
    "source": ("Source",),
}
"""Where the names are that do not stand in ``model``."""

__all__ = [
    "IGNORE",
    "MEASURED",
    "After",
    "Annotated",
    "Application",
    "Command",
    "Dialect",
    "Filled",
    "Filler",
    "Goal",
    "Metric",
    "Repeat",
    "Source",
    "dialect_of",
    "directive",
    "fill_command",
    "insert",
    "json_steps",
    "lint",
    "scan",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "model")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


class _Room(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """A function is not hidden by the module of its name, whichever was asked for first."""
        if name in __all__ and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room
