"""What a launcher is sent of a command: its words, or that it needs a shell, and its limits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

from zenturio.annotate.commands import BUILTINS
from zenturio.experiment import Recipe, Step

_STACK = 8 * 2**20
"""Bytes for a stack, besides what MEMORY allows, for each CPU."""

_UNQUOTED = re.compile(r"[A-Za-z0-9_./+,:@%^= \t-]*")
"""Nothing here means something to a shell; ``=`` does in the first word only."""
_QUOTED = re.compile(
    r"""(?: [A-Za-z0-9_./+,:@%^=\ \t-]  |  '[^'\n]*'  |  "[^"$`\\\n]*"  )*""", re.VERBOSE
)


def plain_words(command: str) -> list[str] | None:
    """Return the words of *command*.

    Nothing where it holds syntax or a built-in of the shell.
    """
    if _UNQUOTED.fullmatch(command):
        parts = command.split()
    elif _QUOTED.fullmatch(command):
        parts = shlex.split(command)
    else:
        return None
    if not parts or "=" in parts[0] or parts[0] in BUILTINS:
        return None
    return parts


def step_request(step: Step) -> dict[str, Any]:
    """Return a step as a launcher understands it."""
    return {
        "command": step.command,
        "words": plain_words(step.command),
        "timeout": step.timeout,
        "memory": step.memory,
        "data": None if step.memory is None else step.memory + (step.cpus or 1) * _STACK,
    }


def allowed_threads(steps: Iterable[Step], default: int) -> int:
    """Return the CPUs that *steps* ask for, or *default* where they do not say."""
    return max([step.cpus for step in steps if step.cpus is not None], default=default)


def observe_request(recipe: Recipe) -> dict[str, str]:
    """Return the observations that a launcher has to make: an observer for each metric."""
    return {metric.name: metric.observed for metric in recipe.metrics if metric.observed}
