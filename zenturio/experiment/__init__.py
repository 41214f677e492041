"""What would be run, and what came out of it."""

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
