"""Workflows on machines: models, formats, simulators, and the algorithms that plan them."""

from zenturio.schedule.cluster import ClusterQueue
from zenturio.schedule.curve import ScalingCurve
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.plan import Plan, check, faults
from zenturio.schedule.platform import LoadStep, NetworkLink, Platform, PlatformMachine, identical
from zenturio.schedule.problem import Problem
from zenturio.schedule.transfers import merge_transfers
from zenturio.schedule.workflow import Adjacency, Workflow, WorkflowTask

__all__ = [
    "Adjacency",
    "ClusterQueue",
    "LoadStep",
    "MoldablePlan",
    "MoldableProblem",
    "NetworkLink",
    "Plan",
    "Platform",
    "PlatformMachine",
    "Problem",
    "ScalingCurve",
    "Workflow",
    "WorkflowTask",
    "check",
    "faults",
    "identical",
    "merge_transfers",
]
