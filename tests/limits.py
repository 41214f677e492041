"""CPU limits by control groups of version 2 or 1, where these can be written: mostly as root."""

import os
import time
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PERIOD = 100_000
"""Microseconds in which a group has its share."""


class Limit:
    """A group of processes that together get a share of a processor."""

    def __init__(self, name):
        """Raises OSError where there are no such groups, or one may not make them."""
        second = GROUPS / "cgroup.subtree_control"
        if second.exists():
            if "cpu" not in second.read_text().split():
                second.write_text("+cpu")
            self._file, self._words, home = "cpu.max", "{} {}", GROUPS
        else:
            self._file, self._words, home = "cpu.cfs_quota_us", "{}", GROUPS / "cpu"
            if not (home / self._file).exists():
                raise OSError(f"{GROUPS} has no controller of CPUs")
        self._folder = home / f"{name}-{os.getpid()}"
        self._folder.mkdir()

    def give(self, share):
        """So much of a processor from now on."""
        (self._folder / self._file).write_text(self._words.format(int(share * PERIOD), PERIOD))

    def take(self, pid):
        """A process, and all that it starts from now on."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def close(self):
        """Takes the group away, once nothing is in it."""
        for _ in range(100):
            with suppress(OSError):
                self._folder.rmdir()
                return
            time.sleep(0.05)


def why_not():
    """Why there are no limits here; nothing, if there are."""
    try:
        limit = Limit("zenturio-trial")
    except OSError as error:
        return f"no control groups for CPU limits: {error}"
    try:
        limit.give(0.5)
    except OSError as error:
        return f"no CPU limit can be set: {error}"
    finally:
        limit.close()
    return ""
