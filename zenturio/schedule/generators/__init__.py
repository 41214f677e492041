"""Workflows made by rule and seed: those of the papers, random ones, and traces scaled up."""

from zenturio.schedule.generators.generator import (
    GeneratorDescription,
    WorkflowGenerator,
    count_of,
    describe,
    generate,
    instance_of,
    names,
)
from zenturio.schedule.testbeds import grid_2005
from zenturio.search.settings import pairs

__all__ = [
    "GeneratorDescription",
    "WorkflowGenerator",
    "count_of",
    "describe",
    "generate",
    "grid_2005",
    "instance_of",
    "names",
    "pairs",
]
