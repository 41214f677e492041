"""Compiled inner loops: functions of bare arrays and numbers (Numba)."""

import zenturio.search.kernels  # noqa: F401 - it chooses the folder of compiled code
