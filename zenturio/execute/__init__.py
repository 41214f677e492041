"""Where experiments run; launchers, which must start quickly, import modules of this room alone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenturio.execute.executor import Executor
    from zenturio.execute.inline import Inline
    from zenturio.execute.local import Local
    from zenturio.execute.running import Settings
    from zenturio.execute.simulate import Simulate

_FROM = {
    "Executor": "executor",
    "Inline": "inline",
    "Local": "local",
    "Settings": "running",
    "Simulate": "simulate",
}

__all__ = ["Executor", "Inline", "Local", "Settings", "Simulate"]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
