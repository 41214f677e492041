"""
What a program says of its own progress, and whether it keeps its performance contract.

A line of JSON in ``$ZEN_PROFILE`` for each iteration::

    {"iteration": 3, "seconds": 0.8, "of": 40}
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from zenturio.execute.json_checks import MalformedError, read_json

_BASELINE_ITERATIONS = 3
"""Iterations whose median is what one takes, once there are so many."""
_KEPT_LINES = 1000
"""Lines of a profile that are kept in memory."""


@dataclass
class ProgressProfile:
    """The iterations of one attempt."""

    breaches: int = 1
    """So many iterations in a row tell how fast it is now: one alone may be an accident."""
    seconds: list[float] = field(default_factory=list)
    iteration: int = 0
    of: int | None = None
    lines: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """The last lines, as the program wrote them: an evaluator may look at more than seconds."""
    offset: int = 0
    """Bytes that were heard, so that an attachment goes on behind them."""

    def update(self, text: str, offset: int) -> None:
        """Lines as they come; what is no line of a profile says nothing."""
        self.offset = offset
        for line in text.splitlines():
            try:
                entry = read_json(line.encode("utf-8", "surrogatepass"))
            except MalformedError:
                continue
            if isinstance(entry, dict):
                self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        self.lines.append(entry)
        seconds, iteration, of = entry.get("seconds"), entry.get("iteration"), entry.get("of")
        if isinstance(seconds, int | float) and 0 <= seconds < float("inf"):
            self.seconds.append(float(seconds))
        self.iteration = (
            iteration
            if isinstance(iteration, int) and iteration is not True
            else self.iteration + 1
        )
        self.of = of if isinstance(of, int) and of > 0 else self.of

    @property
    def usual(self) -> float | None:
        """What an iteration takes here as long as nothing disturbs it."""
        before = self.seconds[: -self.breaches]
        return median(before[:_BASELINE_ITERATIONS]) if before else None

    @property
    def now(self) -> float | None:
        """What each of the last iterations took at least."""
        return min(self.seconds[-self.breaches :], default=None)

    @property
    def left(self) -> int | None:
        """How many iterations are to come, if that is known."""
        return None if self.of is None else max(self.of - self.iteration, 0)

    def broken(self, contract: float) -> bool:
        """Return whether the last iterations took longer by more than that part than is usual."""
        usual, now = self.usual, self.now
        return (
            bool(contract)
            and usual is not None
            and now is not None
            and now > usual * (1 + contract)
        )
