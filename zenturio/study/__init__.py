"""Studies: which points, in what order, on which place, remembered where."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zenturio.study.choose import Chosen, choose

if TYPE_CHECKING:
    from zenturio.study.here import (
        Here,
        choose_any_machine,
        choose_keep,
        choose_only,
        choose_place,
        plan_here,
        run_here,
    )
    from zenturio.study.progress import Failures, Found, Plan, Progress, Summary
    from zenturio.study.run import Settings
    from zenturio.study.session import Session

_HOMES = {
    "here": (
        "Here",
        "choose_any_machine",
        "choose_keep",
        "choose_only",
        "choose_place",
        "plan_here",
        "run_here",
    ),
    "progress": ("Failures", "Found", "Plan", "Progress", "Summary"),
    "run": ("Settings",),
    "session": ("Session",),
}

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
    "choose_any_machine",
    "choose_keep",
    "choose_only",
    "choose_place",
    "plan_here",
    "run_here",
]


def __getattr__(name: str) -> Any:
    """Loads a module when something of it is asked for: who looks at a study runs nothing."""
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
