"""Studies: which points, in what order, on which place, remembered where."""

from zenturio.study.choose import Chosen, choose
from zenturio.study.here import Here, choose_keep, choose_only, plan_here, run_here
from zenturio.study.progress import Failures, Found, Plan, Progress, Summary
from zenturio.study.run import Settings
from zenturio.study.session import Session

__all__ = [
    "Chosen",
    "Failures",
    "Found",
    "Here",
    "Plan",
    "Progress",
    "Session",
    "Settings",
    "Summary",
    "choose",
    "choose_keep",
    "choose_only",
    "plan_here",
    "run_here",
]
