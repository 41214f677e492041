"""Compiled inner loops: functions of bare arrays and numbers (Numba).

They are refused without Numba instead of run a hundred times slower: a plan that takes seconds
would take minutes.
"""

from importlib.util import find_spec

import zenturio.search.kernels  # noqa: F401 - it chooses the folder of compiled code
from zenturio.errors import PlaceError
from zenturio.install_hint import extra_hint

if find_spec("numba") is None:
    raise PlaceError(
        "planning of workflows needs Numba, which is not installed", hint=extra_hint("schedule")
    )
