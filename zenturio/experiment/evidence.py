"""What an experiment left behind, from which its metrics are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zenturio.experiment.experiment import Log, MetricValue
from zenturio.experiment.inside import OutsideError, read_inside


@dataclass(frozen=True, slots=True)
class Evidence:
    """Streams, folder and ``$ZEN_METRICS`` of a run, and what its place measured (MEASURED)."""

    stdout: Log = field(default_factory=Log)
    stderr: Log = field(default_factory=Log)
    folder: str | Path | None = None
    reported: bytes = b""
    usage: Mapping[str, MetricValue] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files by the path that they had, where they are not in one folder any more."""

    def text(self, source: str) -> EvidenceText:
        """What *source* holds: ``stdout``, ``stderr``, or a file of the folder."""
        if source == "stdout":
            return EvidenceText(source, self.stdout)
        if source == "stderr":
            return EvidenceText(source, self.stderr)
        name = "/".join(part for part in source.split("/") if part not in ("", "."))
        folder, path = self.folder, source
        if name in self.files:
            folder, path = self.files[name].parent, self.files[name].name
        elif self.files:
            return EvidenceText(source, Log(), f"{source} is not there")
        if folder is None:
            return EvidenceText(source, Log(), f"{source} cannot be read here: there is no folder")
        try:
            content = read_inside(Path(folder), path)
        except OutsideError as error:
            return EvidenceText(source, Log(), str(error))
        return EvidenceText(source, Log(content, b"", len(content)))


@dataclass(frozen=True, slots=True)
class EvidenceText:
    """Bytes to search, where they are from, and why there are none."""

    source: str
    log: Log
    fault: str = ""

    @property
    def lost(self) -> int:
        """How many bytes in the middle were not kept."""
        return self.log.size - len(self.log.head) - len(self.log.tail)

    def __str__(self) -> str:
        """``stdout (3 lines)``: as the reason of a metric that was not found says it."""
        if self.lost > 0:
            kept = len(self.log.head) + len(self.log.tail)
            return f"{self.source} ({self.log.size} bytes, of which {kept} were kept)"
        content = self.log.head + self.log.tail
        if not content:
            return f"{self.source} (empty)"
        lines = content.count(b"\n") + (not content.endswith(b"\n"))
        return f"{self.source} ({lines} line{'s' if lines > 1 else ''})"
