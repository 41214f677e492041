"""Whether a command needs a shell, and its words where it does not."""

from __future__ import annotations

import re
import shlex

_PLAIN = re.compile(r"[A-Za-z0-9_./+,:@%^= \t-]*")
"""Nothing here means something to a shell; ``=`` does in the first word only."""
_QUOTED = re.compile(
    r"""(?: [A-Za-z0-9_./+,:@%^=\ \t-]  |  '[^'\n]*'  |  "[^"$`\\\n]*"  )*""", re.VERBOSE
)
_BUILTIN = frozenset(
    (
        ".",
        ":",
        "[",
        "alias",
        "bg",
        "break",
        "builtin",
        "caller",
        "case",
        "cd",
        "command",
        "continue",
        "coproc",
        "declare",
        "do",
        "done",
        "echo",
        "elif",
        "else",
        "enable",
        "esac",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "fi",
        "for",
        "function",
        "getopts",
        "hash",
        "help",
        "history",
        "if",
        "in",
        "jobs",
        "kill",
        "let",
        "local",
        "logout",
        "mapfile",
        "newgrp",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readonly",
        "return",
        "select",
        "set",
        "shift",
        "shopt",
        "source",
        "stop",
        "suspend",
        "test",
        "then",
        "time",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "until",
        "wait",
        "while",
    )
)


def words(command: str) -> list[str] | None:
    """The words of *command*; nothing where it holds syntax or a built-in of the shell."""
    if _PLAIN.fullmatch(command):
        found = command.split()
    elif _QUOTED.fullmatch(command):
        found = shlex.split(command)
    else:
        return None
    if not found or "=" in found[0] or found[0] in _BUILTIN:
        return None
    return found
