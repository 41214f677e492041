"""Numba where it is installed; without it, the genetic engine runs as plain Python.

A search that runs programs breeds a few hundred points: Python is quick enough for that, and
Numba is half as large as all that zenturio installs otherwise. Plans of workflows need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba import njit as _njit
except ImportError:
    HAS_NUMBA = False
else:
    HAS_NUMBA = True


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function, or leaves it as it is without Numba."""
    return _njit(**options) if HAS_NUMBA else lambda function: function
