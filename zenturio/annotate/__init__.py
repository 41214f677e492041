"""Text with holes: directives in comments are read, and filled in for each point.

>>> from zenturio.annotate import Filler, scan
>>> application = scan("matmul.c")  # doctest: +SKIP
>>> Filler(application).files(application.space.point(0))  # doctest: +SKIP
"""

from zenturio.annotate.commands import fill_command
from zenturio.annotate.dialects import Dialect, dialect_of
from zenturio.annotate.fill import Filled, Filler
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
from zenturio.annotate.paths import IGNORE
from zenturio.annotate.scan import scan
from zenturio.annotate.source import Source

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
