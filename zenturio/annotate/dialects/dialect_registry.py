"""
The built-in dialects, and which of them a file is written in.

An ASSIGN becomes a plain assignment, never a declaration: a file has to work untouched, so its
variables are declared already, and ``let n = 128;`` in Rust or ``n := 128`` in Go would make a new
one that ends with the block around it. Where a language has no assignment, its form of a definition
stands, or none (then SUBSTITUTE is what is left). Texts go in to the letter, so a string of C is
``{ '"abc"' }``; only languages whose values are words (shells, make, CMake, Dockerfiles, batch,
Tcl) get them quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import PurePath

from zenturio import plugins
from zenturio.annotate.dialects import (
    c_family,
    languages,
    markup,
    scripts,
    settings_files,
    simulation_inputs,
)
from zenturio.annotate.dialects.dialect import Dialect
from zenturio.name_patterns import name_fits

UNKNOWN = Dialect(
    "text",
    line=("#", "//", "!", "--", ";", "%", "'", "::", "REM", "dnl"),
    block=(("/*", "*/"), ("(*", "*)"), ("<!--", "-->"), ("{-", "-}")),
    column_one=("C", "c", "*"),
    fragile=("--",),
)
"""Any text file that no row knows: every opener counts, and strings cannot be recognized."""

SIDE = Dialect("zen", (".zen",), line=(*UNKNOWN.line, ""), block=UNKNOWN.block, form=None)
"""Directives beside a file or for a folder; the opener may be left out."""

# The built-in rows do not come in through entry points: there are a hundred of them, and each
# would be looked up, imported and loaded before the first line of a file could be read. A row of
# a plug-in is asked first, so that it can replace a built-in one.
BUILT_IN: tuple[Dialect, ...] = (
    SIDE,
    *c_family.DIALECTS,
    *languages.DIALECTS,
    *scripts.DIALECTS,
    *settings_files.DIALECTS,
    *markup.DIALECTS,
    *simulation_inputs.DIALECTS,
)

# Endings that several languages use: the first line that is not blank decides.
_SHARED: dict[str, tuple[tuple[str, str], ...]] = {
    ".m": ((r"\(\*", "mathematica"), (r"//|/\*|#import|#include|@", "objective-c"), ("", "matlab")),
    ".pl": ((r":-|%|/\*", "prolog"), ("", "perl")),
    ".lp": ((r"[%#{]|\d+ *\{|(?!max:|min:)-?[a-z]\w*\s*(?:\(|\.|:-)", "clingo"), ("", "lp")),
    ".v": ((r"\(\*|Require|From", "coq"), ("", "verilog")),
    ".cl": ((r"[;(]|#\|", "lisp"), ("", "c")),
    ".ts": ((r"<\?xml|<!DOCTYPE TS", "xml"), ("", "javascript")),
    ".inc": ((r"<\?php", "php"), (r"//|/\*|#include|#if|#def", "c++")),
    ".mac": ((r"/\*|.*[$;]\s*$", "maxima"), ("", "geant4")),
    ".gp": ((r"\\\\|/\*", "pari"), ("", "gnuplot")),
    ".inp": ((r"\*\*|\*[A-Za-z]", "abaqus"),),
    ".com": ((r"@?(?i:echo|rem)\b|::", "batch"), ("", "gaussian")),
    ".cmd": ((r"(?i:echo|rem|set|setlocal|if|for|call|cd|start)\b|[@:]", "batch"), ("", "text")),
}
_FIRST_LINES = (
    (r"<\?xml|<svg", "xml"),
    (r"(?i)<!doctype html|<html", "html"),
    (r"<\?php", "php"),
    (r"\\documentclass|\\input|\\begin", "tex"),
    (r"&\w+\s*$|&\w+[ ,]", "namelist"),
    (r"%(?:chk|mem|nproc)", "gaussian"),
)
_TEMPLATES = (".in", ".tmpl", ".tpl", ".template", ".orig")
_MODE = re.compile(r"-\*-\s*(?:mode:\s*)?([\w+#-]+)")
_SHEBANG = re.compile(
    r"#!\s*(?:\S*/)?(?:env(?:\s+-\S+|\s+\w+=\S*)*\s+(?:\S*/)?)?(?P<name>[A-Za-z][\w+-]*?)[\d.]*(?:\s|$)"
)


def dialect_of(path: str | PurePath, first_line: str = "") -> Dialect:
    """Return the dialect of a file, by its name, its extension or its prefix."""
    name = PurePath(path).name
    named = _by_name(name, first_line.lstrip("\ufeff"))
    if named is UNKNOWN and name.endswith(_TEMPLATES):
        named = _by_name(name.rpartition(".")[0], first_line)
    return named


def is_prefixed(name: str) -> bool:
    """Return whether a file is recognised by its prefix, as ``in.melt``, not by its extension."""
    ending = PurePath(name).suffix
    return not any(ending in row.endings for row in known()) and any(
        pattern.endswith(".*") and name_fits(name, pattern)
        for row in known()
        for pattern in row.names
    )


@cache
def known() -> tuple[Dialect, ...]:
    """Return every dialect: those of plug-ins, then the built-in ones."""
    offered = [plugins.load("dialects", name) for name in plugins.names("dialects")]
    return (*offered, *BUILT_IN)


def named(name: str) -> Dialect:
    """Return the dialect of this name; the unknown one if there is none."""
    return _index(_called).get(name.casefold(), UNKNOWN)


def _by_name(name: str, first_line: str) -> Dialect:
    ending = PurePath(name).suffix
    exact = _index(_names).get(name)
    return (
        exact
        or _by_content(_SHARED.get(ending.casefold(), ()), first_line)
        or _by_ending(ending)
        or _by_shebang(first_line)
        or next((d for d in known() for p in _patterns(d) if name_fits(name, p)), None)
        or _by_content(_FIRST_LINES, first_line)
        or _by_mode(first_line)
        or UNKNOWN
    )


@cache
def _index(keys: Callable[[Dialect], Iterable[str]]) -> dict[str, Dialect]:
    """Return dialects by key; of two with the same key, the first one is kept."""
    return {key: d for d in reversed(known()) for key in keys(d)}


def _names(dialect: Dialect) -> list[str]:
    return [n for n in dialect.names if "*" not in n]


def _patterns(dialect: Dialect) -> list[str]:
    return [n for n in dialect.names if "*" in n]


def _endings(dialect: Dialect) -> tuple[str, ...]:
    return dialect.endings


def _shebangs(dialect: Dialect) -> tuple[str, ...]:
    return dialect.shebangs


def _by_ending(ending: str) -> Dialect | None:
    index = _index(_endings)
    return index.get(ending) or index.get(ending.casefold())


def _by_shebang(first_line: str) -> Dialect | None:
    match = _SHEBANG.match(first_line)
    return _index(_shebangs).get(match["name"]) if match else None


def _by_mode(first_line: str) -> Dialect | None:
    """By the mode line of an editor: ``-*- mode: fortran -*-``."""
    match = _MODE.search(first_line)
    return _index(_called).get(match[1].casefold()) if match else None


def _called(dialect: Dialect) -> tuple[str, ...]:
    return (dialect.name,)


def _by_content(choices: Iterable[tuple[str, str]], first_line: str) -> Dialect | None:
    for pattern, name in choices:
        if re.match(pattern, first_line.lstrip()):
            return named(name)
    return None
