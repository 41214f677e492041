"""Random numbers that are the same on every machine: SplitMix64 (Steele, Lea, Flood 2014).

Not NumPy's generators, whose streams may change between versions, and which compiled code cannot
share with Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.search.kernels.optional_numba import HAS_NUMBA, njit

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(0xBF58476D1CE4E5B9)
_TWO = np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT = 2.0**-53


def stream(seed: int) -> Any:
    """Return the state of a generator that begins with *seed*."""
    return np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64)


def _draw_compiled(state: Any) -> Any:
    """Advance the state, and return 64 random bits."""
    state[0] += _GAMMA
    bits = state[0]
    bits = (bits ^ (bits >> _30)) * _ONE
    bits = (bits ^ (bits >> _27)) * _TWO
    return bits ^ (bits >> _31)


def draw_interpreted(state: Any) -> Any:
    """Return the same bits without Numba: NumPy warns of the overflows that are meant here."""
    with np.errstate(over="ignore"):
        return _draw_compiled(state)


draw: Any = njit(cache=True)(_draw_compiled) if HAS_NUMBA else draw_interpreted


@njit(cache=True)
def unit(state: Any) -> Any:
    """Return a random number from 0 to below 1."""
    # 53 bits are what a double holds: every multiple of 2**-53 is equally likely.
    return (draw(state) >> _11) * _UNIT


@njit(cache=True)
def below(state: Any, size: Any) -> Any:
    """Return a random integer from 0 to below *size*."""
    # For sizes near 2**53 and beyond, the product may be rounded up to *size* itself.
    return min(np.int64(unit(state) * size), size - 1)
