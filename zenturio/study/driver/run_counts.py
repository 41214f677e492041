"""What a run has counted: where it stands, what failed, what was best."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from zenturio.annotate.model import Goal
from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.failure import log_end
from zenturio.study.driver.best_score import BestScore
from zenturio.study.driver.program_history import ProgramHistory, changed_program_notes
from zenturio.study.driver.progress import FailureGroup, RateMeter, RunProgress, RunSummary

LINES = 5
"""Of the end of what a failed experiment said."""


class RunCounts:
    """Counts each experiment of a study once."""

    def __init__(
        self,
        study: str,
        slots: int,
        goals: tuple[Goal, ...],
        programs: ProgramHistory | None = None,
    ) -> None:
        self._study = study
        self._slots = slots
        self._meter = RateMeter()
        self._best = BestScore(goals)
        self._failures: dict[str, FailureGroup] = {}
        self.known = 0
        self.ok = 0
        self.failed = 0
        self._alone = 0
        self._programs = programs or ProgramHistory()
        self._outdated: Counter[str] = Counter()
        self._remarks: dict[str, None] = {}
        self._news: list[str] = []

    @property
    def rate(self) -> float:
        """Experiments a second, lately."""
        return self._meter.rate

    def recalled(self, experiment: Experiment, outcome: Outcome) -> None:
        """One had its outcome already, or got it from another driver."""
        self.known += 1
        self._outdated.update(self._programs.changed_since(outcome))
        self._learn(experiment, outcome)

    def ended(self, experiment: Experiment, outcome: Outcome) -> None:
        """One that this run ran was recorded."""
        self._meter.add(1)
        self._alone += experiment.cpus > self._slots
        if outcome.remark:
            self._remark(outcome.remark)
        if outcome.status == "ok":
            self.ok += 1
        else:
            self.failed += 1
        self._learn(experiment, outcome)

    def progress(self, total: int, running: int, skipped: int) -> RunProgress:
        """Where the run of *total* stands, with so many *running* and *skipped*."""
        unfinished = total - self.known - self.ok - self.failed - skipped
        rate = self._meter.rate
        return RunProgress(
            total,
            self.known,
            self.ok,
            self.failed,
            running,
            rate,
            unfinished / rate if rate > 0 else None,
            self._best.name,
            self._best.last,
            self._best.found,
        )

    def summary(self, total: int, seconds: float, *, interrupted: bool) -> RunSummary:
        """How the run ended."""
        return RunSummary(
            self._study,
            total,
            self.known,
            self.ok,
            self.failed,
            total - self.known - self.ok - self.failed,
            seconds,
            interrupted=interrupted,
            failures=tuple(sorted(self._failures.values(), key=lambda f: -f.count)),
            best=self._best.found,
            alone=self._alone,
            remarks=tuple(self._remarks),
        )

    def conclude(self) -> None:
        """Nothing more comes: what can only be counted in the end becomes remarks."""
        for remark in changed_program_notes(self._outdated):
            self._remark(remark)

    def news(self) -> tuple[str, ...]:
        """The remarks of outcomes that nobody was told yet."""
        news, self._news = self._news, []
        return tuple(news)

    def _remark(self, remark: str) -> None:
        if remark not in self._remarks:
            self._news.append(remark)
        self._remarks[remark] = None

    def _learn(self, experiment: Experiment, outcome: Outcome) -> None:
        if outcome.status == "ok":
            self._best.see(experiment.values, outcome)
        else:
            count_failure(self._failures, experiment, outcome)


def count_failure(
    failures: dict[str, FailureGroup], experiment: Experiment, outcome: Outcome
) -> None:
    """Count an *experiment* that failed among those that failed for the same cause."""
    cause = outcome.cause or outcome.status
    seen = failures.get(cause)
    if seen is None:
        _, end = log_end(outcome.stderr, outcome.stdout, LINES)
        failures[cause] = FailureGroup(cause, 1, experiment.digest, experiment.values, end)
    else:
        failures[cause] = replace(seen, count=seen.count + 1)
