"""Patterns of names of files; with the standard library alone, for it runs on hosts."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache


def name_fits(name: str, pattern: str) -> bool:
    """Return whether *name* matches ``*``, ``?`` and ``[...]`` in *pattern*, as it is written."""
    return bool(_expression(pattern).match(name))


@lru_cache(maxsize=10_000)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(closed_brackets(pattern)))


def closed_brackets(pattern: str) -> str:
    """Return a pattern that matches the same names, in which each bracket that opens is closed.

    Python looks for the end of each one up to the end of the pattern: for thousands of them that
    takes minutes.
    """
    end = pattern.rfind("]") + 1
    return pattern[:end] + pattern[end:].replace("[", "[[]")
