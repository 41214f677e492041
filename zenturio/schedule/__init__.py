"""Workflows on machines: models, formats, simulators, and the algorithms that plan them."""

from zenturio.schedule.cluster import Cluster
from zenturio.schedule.curve import Curve
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.plan import Plan, check, faults
from zenturio.schedule.platform import Link, Machine, Platform, Step, identical
from zenturio.schedule.problem import Problem
from zenturio.schedule.transfers import merged
from zenturio.schedule.workflow import Links, Task, Workflow

__all__ = [
    "Cluster",
    "Curve",
    "Link",
    "Links",
    "Machine",
    "MoldablePlan",
    "MoldableProblem",
    "Plan",
    "Platform",
    "Problem",
    "Step",
    "Task",
    "Workflow",
    "check",
    "faults",
    "identical",
    "merged",
]
