"""Chance that is the same on every machine: a counter, well mixed (SplitMix64)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(0xBF58476D1CE4E5B9)
_TWO = np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT = 2.0**-53


def stream(seed: int) -> Any:
    """The state of the chance that *seed* begins."""
    return np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64)


@njit(cache=True)
def draw(state: Any) -> Any:
    """64 bits."""
    state[0] += _GAMMA
    bits = state[0]
    bits = (bits ^ (bits >> _30)) * _ONE
    bits = (bits ^ (bits >> _27)) * _TWO
    return bits ^ (bits >> _31)


@njit(cache=True)
def unit(state: Any) -> Any:
    """A number from 0 to below 1."""
    return (draw(state) >> _11) * _UNIT


@njit(cache=True)
def below(state: Any, size: Any) -> Any:
    """A whole number from 0 to below *size*."""
    return min(np.int64(unit(state) * size), size - 1)
