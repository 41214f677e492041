"""Studies: which points, in what order, on which place, remembered where."""

from zenturio.study.choose import Chosen, choose
from zenturio.study.progress import Failures, Found, Plan, Progress, Summary
from zenturio.study.session import Session

__all__ = [
    "Chosen",
    "Failures",
    "Found",
    "Plan",
    "Progress",
    "Session",
    "Summary",
    "choose",
]
