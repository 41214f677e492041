"""When finished experiments are committed: in groups, soon, and before they fill the memory."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from zenturio.experiment import Outcome

GROUP = 256
"""Outcomes that are committed together, at most."""
WAIT = 0.05
"""Seconds that an outcome waits for others at most: a commit costs a few milliseconds."""
WEIGHT = 16 * 2**20
"""Bytes of logs that wait for others, at most."""


@dataclass
class CommitPace:
    """How many outcomes wait for a commit, how large they are, and since when."""

    count: int = 0
    _weight: int = 0
    _oldest: float = 0.0
    _is_urgent: bool = False

    def add(self, outcome: Outcome, *, urgent: bool = False) -> None:
        """Count one more outcome; one that is *urgent* waits for no others."""
        if not self.count:
            self._oldest = monotonic()
        self.count += 1
        self._weight += sum(len(s.head) + len(s.tail) for s in (outcome.stdout, outcome.stderr))
        self._is_urgent |= urgent

    def reset(self) -> None:
        """Begin again after a commit."""
        self.count = self._weight = 0
        self._is_urgent = False

    @property
    def is_full(self) -> bool:
        """Whether no more outcomes should be added before a commit."""
        return self.count >= GROUP or self._weight >= WEIGHT

    @property
    def is_due(self) -> bool:
        """Whether nothing is gained by waiting for more outcomes."""
        if not self.count:
            return False
        return self._is_urgent or self.is_full or monotonic() - self._oldest >= WAIT
