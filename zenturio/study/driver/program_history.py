"""Executables that a study starts and nobody declared: which ones they were, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import time
from typing import Any

from zenturio.annotate.commands import undeclared_programs
from zenturio.annotate.model import Application
from zenturio.experiment import Outcome
from zenturio.experiment.used_inputs import file_digest

PROGRAMS = "programs"
"""The note of a study that holds them."""
_KEPT = 100
"""Changes of one executable that are remembered."""


@dataclass
class ProgramHistory:
    """The content of each executable from a time on, as the drivers of a study saw it."""

    _paths: Mapping[str, str] = field(default_factory=dict)
    _changes: Mapping[str, list[tuple[float, str]]] = field(default_factory=dict)

    @staticmethod
    def of(application: Application, notes: Mapping[str, Any]) -> ProgramHistory:
        """What *notes* hold of the executables that *application* starts, and what they are now."""
        before = notes.get(PROGRAMS, {})
        paths, changes = {}, {}
        for word, path in undeclared_programs(application).items():
            try:
                digest = file_digest(path)
            except OSError:  # executable, but not readable
                continue
            known = [(float(t), str(d)) for t, d in before.get(word, {}).get("changes", ())]
            if not known or known[-1][1] != digest:
                known.append((time(), digest))
            paths[word], changes[word] = str(path), known[-_KEPT:]
        return ProgramHistory(paths, changes)

    def notes(self) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return {
            word: {"path": path, "changes": self._changes[word]}
            for word, path in self._paths.items()
        }

    def changed_since(self, outcome: Outcome) -> Iterable[str]:
        """The executables that are not what they were when *outcome* was made, if that is known."""
        for word, changes in self._changes.items():
            before = [digest for since, digest in changes if since <= outcome.started]
            if before and before[-1] != changes[-1][1]:
                yield word


def changed_program_notes(counts: Counter[str]) -> list[str]:
    """Of how many cached results it is to be said that an executable has changed since."""
    return [
        f"{word} has changed since {count:,} cached {'results were' if count > 1 else 'result was'}"
        f' made: ZEN$ USE PROGRAM "{word}" makes it part of the experiments, and runs them again'
        for word, count in counts.items()
    ]
