"""What is to be run next: points become experiments, known ones are set aside, the rest waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from zenturio.experiment import Experiment, Outcome
from zenturio.record import Repository
from zenturio.space import Point

Only = Literal["failed", "missing"]

BATCH = 2048
"""Experiments that are made and looked up together, at most."""
HELD = 32 * 2**20
"""Bytes of filled files that are held at the most for those that wait."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An experiment that this driver holds the claim on."""

    experiment: Experiment
    attempt: int


@dataclass
class Supply:
    """Experiments in the order of their points, claimed as they are asked for."""

    study: str
    driver: int
    repository: Repository
    experiments: Iterator[Experiment]
    only: frozenset[Only] = frozenset({"missing"})
    recalled: Callable[[Experiment, Outcome], None] = lambda _e, _o: None
    """Hears of each experiment that has an outcome already."""
    _unclaimed: deque[Experiment] = field(default_factory=deque)
    _elsewhere: list[Experiment] = field(default_factory=list)
    """Those that another driver holds; they end there, or come back when it is lost."""
    _over: bool = False

    def look_ahead(self) -> int:
        """Make one batch and look it up; how many experiments it had."""
        batch: list[Experiment] = []
        held = 0
        for experiment in islice(self.experiments, BATCH):
            batch.append(experiment)
            held += sum(len(f.content) for f in experiment.files if f.content is not None)
            if held > HELD:
                break
        else:
            self._over = len(batch) < BATCH
        if batch:
            self._sort(batch)
        return len(batch)

    def take(self, count: int) -> list[Ready]:
        """Claim up to *count*; none if nothing can be had now."""
        while len(self._unclaimed) < count and not self._over:
            self.look_ahead()
        asked = [self._unclaimed.popleft() for _ in range(min(count, len(self._unclaimed)))]
        if not asked:
            return []
        granted = self.repository.claim(self.study, self.driver, [e.digest for e in asked])
        self._elsewhere += [e for e in asked if e.digest not in granted]
        return [Ready(e, granted[e.digest]) for e in asked if e.digest in granted]

    def look_elsewhere(self) -> int:
        """See what became of those that others held; how many are still not ended."""
        waiting, self._elsewhere = self._elsewhere, []
        for start in range(0, len(waiting), BATCH):
            batch = waiting[start : start + BATCH]
            self._sort(batch, again=True)
        return len(self._unclaimed) + len(self._elsewhere)

    @property
    def exhausted(self) -> bool:
        """Whether every experiment was handed out, or had an outcome."""
        return self._over and not self._unclaimed

    @property
    def elsewhere(self) -> int:
        """How many another driver holds."""
        return len(self._elsewhere)

    def _sort(self, batch: list[Experiment], *, again: bool = False) -> None:
        """Tell the known ones; keep what is to be run."""
        known = (
            frozenset(self.repository.find([e.digest for e in batch], self.study))
            if again
            else self.repository.add(self.study, batch)
        )
        outcomes = self.repository.find(sorted(known), self.study) if known else {}
        if not again and "failed" in self.only:
            outcomes = self._reopen(outcomes)
        for experiment in batch:
            outcome = outcomes.get(experiment.digest)
            if outcome is not None:
                self.recalled(experiment, outcome)
            elif experiment.digest not in known and "missing" not in self.only:
                continue
            else:
                self._unclaimed.append(experiment)

    def _reopen(self, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
        """Let the failed ones wait again; the others."""
        failed = [digest for digest, outcome in outcomes.items() if outcome.status != "ok"]
        if failed:
            self.repository.reopen(self.study, failed)
        return {d: o for d, o in outcomes.items() if o.status == "ok"}


def experiments_of(
    points: Iterable[Point], make: Callable[[Point], Iterable[Experiment]]
) -> Iterator[Experiment]:
    """The experiments of *points*, one after the other, each made when it is asked for."""
    for point in points:
        yield from make(point)
