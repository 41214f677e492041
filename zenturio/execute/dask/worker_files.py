"""Large files of experiments on a machine that may not have the driver's disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from zenturio.execute.file_staging import COPY_LIMIT_BYTES, disk_errors
from zenturio.experiment import Experiment, ExperimentFile
from zenturio.experiment.identity import checked_digest


class WorkerFiles:
    """Copies by content in a folder; they are those that ``Inputs`` shares out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stored(self, experiment: Experiment) -> Experiment:
        """Return the same, with large files that came with it taken from here from now on."""
        files = tuple(self._stored(filed) for filed in experiment.files)
        build = experiment.build
        if build is not None:
            build = replace(build, files=tuple(self._stored(filed) for filed in build.files))
        if build == experiment.build and files == experiment.files:
            return experiment
        return replace(experiment, files=files, build=build)

    def missing_files(self, experiment: Experiment) -> Iterator[str]:
        """The digests of files that are neither here nor where they came from."""
        build = experiment.build
        for filed in (*experiment.files, *(build.files if build else ())):
            original = filed.original
            if filed.content is not None or original is None or original.exists():
                continue
            if not filed.digest or not self._path(filed).exists():
                yield filed.digest

    def _path(self, filed: ExperimentFile) -> Path:
        return self._folder / (checked_digest(filed.digest) + ("x" if filed.mode & 0o111 else ""))

    def _stored(self, filed: ExperimentFile) -> ExperimentFile:
        content = filed.content
        if content is None or len(content) <= COPY_LIMIT_BYTES or not filed.digest:
            return filed
        path = self._path(filed)
        if not path.exists():
            with disk_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                descriptor, draft = tempfile.mkstemp(dir=self._folder, prefix=".")
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                Path(draft).chmod(0o555 if filed.mode & 0o111 else 0o444)
                if filed.mtime is not None:
                    os.utime(draft, ns=(filed.mtime, filed.mtime))
                Path(draft).replace(path)
        return replace(filed, content=None, original=path)
