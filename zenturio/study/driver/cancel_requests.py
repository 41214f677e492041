"""What others want of a driver that runs: files in its project, looked at now and then."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from zenturio import trust
from zenturio.execute.file_staging import disk_errors

UNWANTED = "unwanted"


class CancelRequests:
    """Experiments that are to be cancelled: empty files ``unwanted/DIGEST`` below *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / UNWANTED

    def ask(self, digest: str) -> None:
        """Have the experiment cancelled by whoever runs it."""
        with disk_errors(self._folder):
            trust.begin(self._folder.parent)
            self._folder.mkdir(exist_ok=True)
            (self._folder / digest).touch()

    def take_back(self, digest: str) -> None:
        """It is not to be cancelled any more, or is."""
        (self._folder / digest).unlink(missing_ok=True)

    def asked(self, digest: str) -> bool:
        """Whether nobody has done it yet."""
        return (self._folder / digest).exists()

    def unwanted(self) -> list[str]:
        """All that are to be cancelled."""
        with suppress(OSError):
            return os.listdir(self._folder)  # noqa: PTH208 - looked at often
        return []
