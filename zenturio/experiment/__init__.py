"""What would be run, and what came out of it.

The room itself is callable: ``zen.experiment`` is both this package and the decorator that makes an
experiment of a function, whichever of the two was asked for first.
"""

import sys
from types import ModuleType
from typing import Any

from zenturio.experiment.evidence import Evidence
from zenturio.experiment.experiment import (
    Artifact,
    Build,
    Experiment,
    Filed,
    Log,
    Measure,
    Missing,
    Outcome,
    Recipe,
    Series,
    Status,
    Step,
)
from zenturio.experiment.function import Function
from zenturio.experiment.generate import Generator
from zenturio.experiment.measure import METRICS, Meter

__all__ = [
    "METRICS",
    "Artifact",
    "Build",
    "Evidence",
    "Experiment",
    "Filed",
    "Function",
    "Generator",
    "Log",
    "Measure",
    "Meter",
    "Missing",
    "Outcome",
    "Recipe",
    "Series",
    "Status",
    "Step",
]


class _Room(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from zenturio.experiment.function import experiment  # noqa: PLC0415 - it would hide the room

        return experiment(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
