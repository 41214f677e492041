"""Jobs of batch systems: the lines of a script that prepare one, and the log that it leaves."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

PATH_BEFORE = "ZENTURIO_PATH"
"""The variable that has the PATH of whoever submits a job."""
SETUP_FAILED = "zenturio: the setup failed at"
"""What the log of a job says before the command of its setup that failed."""


def setup_lines(setup: str, failing: str = ":") -> str:
    """The lines of a script of bash that run *setup* and end the script where a command fails.

    Then the script says which command that was, and does what *failing* says.
    """
    if not setup.strip():
        return ""
    words = f'echo "{SETUP_FAILED}: $BASH_COMMAND" >&2'
    trap = shlex.quote(f"{words}; {failing}")
    return f"trap {trap} EXIT\nset -e\n{setup.strip()}\nset +e\ntrap - EXIT\n"


def log_end(path: Path, most: int = 2000) -> str:
    """Return the last bytes of a log, which may be of any size; nothing where there is none."""
    with suppress(OSError), path.open("rb") as log:
        log.seek(max(log.seek(0, os.SEEK_END) - most, 0))
        return log.read(most).decode("utf-8", "replace").strip()
    return ""
