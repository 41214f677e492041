"""The lines that prepare a job of a batch system: what the user calls its setup."""

from __future__ import annotations

import shlex

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
