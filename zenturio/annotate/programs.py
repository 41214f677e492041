"""The executables that commands start with and that lie outside the application."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from zenturio.annotate.model import Application

BUILTINS = frozenset(
    {".", ":", "[", "alias", "bg", "break", "builtin", "caller", "case", "cd", "command"}
    | {"continue", "coproc", "declare", "do", "done", "echo", "elif", "else", "enable", "esac"}
    | {"eval", "exec", "exit", "export", "false", "fc", "fg", "fi", "for", "function", "getopts"}
    | {"hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile"}
    | {"newgrp", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "select", "set"}
    | {"shift", "shopt", "source", "stop", "suspend", "test", "then", "time", "times", "trap"}
    | {"true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while"}
)
"""First words of a command that a shell itself understands."""
_PLATFORM = frozenset({"sh", "bash", "dash", "env"})
"""What runs other programs, and says nothing about what is measured."""
_FIRST = re.compile(r"\s*(?:[A-Za-z_]\w*=[^\s'\"$`{]*\s+)*([A-Za-z0-9_./+-]+)(?=[\s;&|]|$)")


def outside_programs(application: Application) -> dict[str, Path]:
    """The first words of BUILD and RUN that are executables outside of the folder, with paths."""
    found = {}
    for word in dict.fromkeys(_first_words(application)):
        path = find_program(word, application.root)
        if path is not None and not _is_inside(path, application.root):
            found[word] = path
    return found


def undeclared_programs(application: Application) -> dict[str, Path]:
    """Those of them that no ``USE PROGRAM`` names."""
    declared = {use.text for use in application.uses if use.kind == "program"}
    found = outside_programs(application)
    return {word: path for word, path in found.items() if word not in declared}


def find_program(word: str, root: Path) -> Path | None:
    """The executable that *word* means in *root*: a path, or a name on the PATH."""
    if "/" in word:
        path = Path(os.path.abspath(root), word)  # noqa: PTH100 - links stay what they are
        return path if path.is_file() and os.access(path, os.X_OK) else None
    named = shutil.which(word)
    return None if named is None else Path(named)


def _first_words(application: Application) -> Iterator[str]:
    for command in (*application.builds, *application.runs):
        found = _FIRST.match(command.text.text)
        if found and found[1] not in BUILTINS and found[1] not in _PLATFORM:
            yield found[1]


def _is_inside(path: Path, root: Path) -> bool:
    real, folder = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    return real.is_relative_to(folder)
