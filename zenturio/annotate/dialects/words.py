"""Quotes texts for languages whose values are words."""

from __future__ import annotations

import re
import shlex

_CMAKE_BARE = re.compile(r"[A-Za-z0-9_./+:@%=,-]+")


def shell(text: str) -> str:
    """One word for any POSIX shell."""
    return shlex.quote(text)


def make(text: str) -> str:
    """``$`` and ``#`` do not keep their meaning in a makefile."""
    return text.replace("$", "$$").replace("#", r"\#")


def cmake(text: str) -> str:
    """One argument of a CMake command."""
    return text if _CMAKE_BARE.fullmatch(text) else _double(text)


def docker(text: str) -> str:
    """One word of an ENV instruction."""
    return text if _CMAKE_BARE.fullmatch(text) else _double(text)


def tcl(text: str) -> str:
    """One word of Tcl; quoting in braces would fail for texts with odd braces."""
    if _CMAKE_BARE.fullmatch(text):
        return text
    return '"' + re.sub(r'([\\"$\[\]{}])', r"\\\1", text) + '"'


def batch(text: str) -> str:
    """Within ``set "n=..."`` only the percent sign keeps a meaning."""
    return text.replace("%", "%%")


def fish(text: str) -> str:
    """One word of fish, where a backslash means something within single quotes."""
    if _CMAKE_BARE.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double(text: str) -> str:
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'
