"""Where a run stands, and how it ended: plain values that whoever shows them is handed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from zenturio.expression import Value
from zenturio.study.study_definition import ArchivedStudy


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is going to do, as far as it can be known beforehand."""

    study: str
    points: int
    repeats: int
    experiments: int
    known: int
    """Have an outcome already, among those that were looked at."""
    looked_at: int
    """As many as fit into one batch: all of them, if it equals ``experiments``."""
    slots: int
    archived: ArchivedStudy | None = None
    """The study of another version of the program that had the name before."""
    engine: str = ""
    """What searches; ``points`` are as many as it may visit then, or 0 if nobody knows."""
    before: tuple[RunPlan, ...] = ()
    """Of the stages that it waits for."""
    remarks: tuple[str, ...] = ()
    """What should be known of the cached results."""
    kinds: int = 1
    """Kinds of machine, each of which measures all; ``experiments`` are those of all of them."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands."""

    total: int
    known: int
    ok: int
    failed: int
    """Of any sort, in this run."""
    running: int
    rate: float
    """Experiments a second, lately."""
    left: float | None
    """Seconds that it may still take."""
    goal: str = ""
    last: Value = None
    best: BestPoint | None = None
    remarks: tuple[str, ...] = ()
    """What the place has to say, each once."""

    @property
    def done(self) -> int:
        return self.known + self.ok + self.failed


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Experiments that failed for the same cause, and one that shows it."""

    cause: str
    count: int
    digest: str
    values: Mapping[str, Value]
    end: str = ""
    """The last lines of what that one said."""


@dataclass(frozen=True, slots=True)
class BestPoint:
    """The best value of an objective, and where it was found."""

    goal: str
    value: Value
    at: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended."""

    study: str
    total: int
    known: int
    """Had an outcome before the run, or from another driver meanwhile; the failed ones among
    them are in ``failures`` too."""
    ok: int
    failed: int
    unfinished: int
    seconds: float
    interrupted: bool = False
    """Somebody stopped it; with --fail-fast, a failure did, and this stays false."""
    failures: tuple[FailureGroup, ...] = ()
    best: BestPoint | None = None
    ended: str = ""
    """What ended a search: exhausted, budget, time, target, stall; empty if it is to go on."""
    alone: int = 0
    """Asked for more CPUs than the place has slots, and ran alone with all of them."""
    blocked: int = 0
    """Waited for experiments of another stage that did not succeed."""
    remarks: tuple[str, ...] = ()
    """What is likely not meant, though nothing failed."""
    before: tuple[RunSummary, ...] = ()
    """Of the stages that it waited for."""
    notes: tuple[str, ...] = ()
    """What was said of cached results before it began."""
    round: int | None = None
    """The round in which what had results was measured again, if it was."""


class RateMeter:
    """How fast it goes: experiments a second over the last seconds."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque([(monotonic(), 0)])
        self._count = 0

    def add(self, count: int) -> None:
        """*count* more have ended, now."""
        self._count += count
        now = monotonic()
        if now - self._seen[-1][0] > self._window / 50 or len(self._seen) == 1:
            self._seen.append((now, self._count))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        first, before = self._seen[0]
        passed = monotonic() - first
        return (self._count - before) / passed if passed > 0 else 0.0
