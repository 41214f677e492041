"""Experiments: their identity, metrics and outcomes.

The room itself is callable: ``zen.experiment`` is both this package and the decorator that makes an
experiment of a function, whichever of the two was asked for first.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.experiment.experiment import (
        INCOMING,
        Artifact,
        Build,
        Experiment,
        ExperimentFile,
        HostConditions,
        HostDetails,
        Log,
        MachineKind,
        MetricValue,
        Missing,
        Outcome,
        Recipe,
        Series,
        Status,
        Step,
    )
    from zenturio.experiment.experiment_generator import ExperimentGenerator
    from zenturio.experiment.function import ExperimentFunction
    from zenturio.experiment.metrics import METRICS, Evidence, MetricReader, MetricReaderCache

_HOMES = {
    "experiment_generator": ("ExperimentGenerator",),
    "function": ("ExperimentFunction",),
    "metrics": ("METRICS", "Evidence", "MetricReader", "MetricReaderCache"),
}
"""Where the names are that do not stand in ``experiment``."""

__all__ = [
    "INCOMING",
    "METRICS",
    "Artifact",
    "Build",
    "Evidence",
    "Experiment",
    "ExperimentFile",
    "ExperimentFunction",
    "ExperimentGenerator",
    "HostConditions",
    "HostDetails",
    "Log",
    "MachineKind",
    "MetricReader",
    "MetricReaderCache",
    "MetricValue",
    "Missing",
    "Outcome",
    "Recipe",
    "Series",
    "Status",
    "Step",
]


def __getattr__(name: str) -> Any:
    """Imports a module on the first access to its names: most need only what is plain values."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "experiment")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from zenturio.experiment.function import experiment  # noqa: PLC0415 - it would hide the package

        return experiment(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
