"""Compiled inner loops: functions of bare arrays and numbers (Numba)."""
