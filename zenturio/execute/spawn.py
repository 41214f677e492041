"""Starts a command: itself where it is plain words, through a shell where it is not."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import Any

_SHELL = "/bin/sh"
_LIMITED = 'ulimit -d "$0" && exec "$@"'
_DEFAULTS = [
    getattr(signal, name)
    for name in ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD")
]
"""Signals that the launcher, or Python, ignores: experiments do not inherit that."""


def spawn(step: dict[str, Any], environment: dict[bytes, bytes], out: int, err: int) -> int:
    """The process of a session of its own that runs *step* in the current folder."""
    shell = [_SHELL, "-c", step["command"]]
    words = step["words"] or shell
    path = _which(words[0], environment)
    if path is None:
        words, path = shell, _SHELL  # which says in the usual words that it is not found
    if step["data"]:
        words = [_SHELL, "-c", _LIMITED, str(step["data"] // 1024), path, *words[1:]]
        path = _SHELL
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    try:
        return _spawn(path, words, environment, actions)
    except OSError as error:
        if path == _SHELL or error.errno not in (errno.ENOEXEC, errno.ENOENT, errno.EACCES):
            raise
        return _spawn(_SHELL, shell, environment, actions)


def _spawn(
    path: str, words: list[str], environment: dict[bytes, bytes], actions: list[tuple[Any, ...]]
) -> int:
    """posix_spawn; a program that somebody is still writing is waited for a little."""
    for pause in (0.001, 0.01, 0.1, 1.0, None):
        try:
            return os.posix_spawn(
                path,
                words,
                environment,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULTS,
            )
        except OSError as error:
            if error.errno != errno.ETXTBSY or pause is None:
                raise
            time.sleep(pause)
    raise AssertionError("the last round returns or raises")


def _which(name: str, environment: dict[bytes, bytes]) -> str | None:
    """The program that *name* stands for in the experiment's environment and folder."""
    if "/" in name:
        return name
    search = os.fsdecode(environment.get(b"PATH", os.defpath.encode()))
    for folder in search.split(os.pathsep):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - called often
            return path
    return None
