"""Outcomes that could not be committed, kept below the project until the next run records them.

A run whose repository fails ends, and its claims become stale. What was measured is not lost: the
next driver that is granted such an experiment finds the outcome here and does not run it again.
"""

from __future__ import annotations

import hashlib
import logging
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from zenturio.errors import ZenError
from zenturio.execute.experiment_codec import pack_outcome, unpack_outcome
from zenturio.experiment import Outcome
from zenturio.experiment.experiment import INCOMING, Kinds
from zenturio.files import make_folder, replace_whole
from zenturio.record import Repository
from zenturio.record.open import FOLDER as PROJECT_FOLDER
from zenturio.record.open import project_folder

FOLDER = "unrecorded"
"""Below ``.zenturio``, with a folder for each study of each database."""
LARGEST = 2**30
"""Bytes of an outcome with its artifacts, at the most."""
_ENDING = ".outcome"
logger = logging.getLogger(__name__)


class UnrecordedOutcomes:
    """The outcomes of one study and round that wait for a commit."""

    def __init__(self, home: Path, location: str, study: str, round_: int | None = None) -> None:
        """*home* is the project's ``.zenturio``; *location* names the database."""
        self._home = home
        about = f"{location}\n{study}\n{round_ or 0}"
        self._name = hashlib.sha256(about.encode(errors="surrogateescape")).hexdigest()[:16]
        folder = home / FOLDER / self._name
        self._files: dict[str, Path] = {}
        try:
            if not (home / FOLDER).is_symlink() and not folder.is_symlink() and folder.is_dir():
                self._files = {path.stem: path for path in folder.glob(f"*{_ENDING}")}
        except PermissionError as error:  # of another user who shares the project
            logger.warning("outcomes of before are not read: %s", error)

    @classmethod
    def of(
        cls, repository: Repository, study: str, round_: int | None = None
    ) -> UnrecordedOutcomes:
        """Return those of a study of *repository* that lie below the project."""
        return cls(project_folder() / PROJECT_FOLDER, repository.location, study, round_)

    def __len__(self) -> int:
        return len(self._files)

    def keep(self, outcomes: Iterable[Outcome]) -> int:
        """Keep *outcomes* until they are recorded; return how many could be kept.

        A full disk keeps none of them: their experiments run again.
        """
        count = 0
        for outcome in outcomes:
            if outcome.status == "cancelled":
                continue
            try:
                folder = make_folder(self._home, FOLDER, self._name, mode=0o700)
                path = folder / f"{outcome.digest}{_ENDING}"
                replace_whole(path, [pack_outcome(outcome)])
            except (OSError, ZenError) as error:
                logger.warning("the outcome of %s is not kept: %s", outcome.digest[:12], error)
                continue
            self._files[outcome.digest] = path
            count += 1
        return count

    def find(self, digest: str, kinds: Kinds) -> Outcome | None:
        """Return the outcome of an experiment if it is here, and of one of the kinds of machine."""
        path = self._files.get(digest)
        if path is None:
            return None
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                return None
            outcome = unpack_outcome(path.read_bytes(), digest, self._home.absolute() / INCOMING)
        except (OSError, ZenError) as error:
            logger.warning("%s is not understood, and is left alone: %s", path, error)
            return None
        return outcome if kinds is None or outcome.machine in kinds else None

    def discard(self, digests: Iterable[str]) -> None:
        """Remove what is recorded by now."""
        for digest in self._files.keys() & set(digests):
            path = self._files.pop(digest)
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()  # with the last of them
