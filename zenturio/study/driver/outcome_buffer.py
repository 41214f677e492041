"""Outcomes on their way into the repository: in groups, each once, none lost when that fails."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from zenturio.experiment import Experiment, Outcome
from zenturio.failpoints import Failpoint
from zenturio.record import Repository
from zenturio.study.driver.work_queue import ClaimedExperiment

COMMITTING = Failpoint("study.committing")
COMMITTED = Failpoint("study.committed")
SET_ASIDE = Failpoint("study.set_aside")

GROUP = 256
"""Outcomes that are committed together at the most."""
WAIT = 0.05
"""Seconds that an outcome waits for others at the most before it is committed."""
WEIGHT = 16 * 2**20
"""Bytes of logs that wait for others at the most."""

Pair = tuple[ClaimedExperiment, Outcome]


class OutcomeBuffer:
    """Outcomes that have ended and are not committed; what a failed commit held stays in it."""

    def __init__(
        self,
        study: str,
        driver: int,
        repository: Repository,
        retry: int | None,
        fail_fast: bool,
        accepted: Callable[[Experiment, Outcome], None],
        refused: Callable[[Experiment], None],
        again: Callable[[list[ClaimedExperiment]], None],
    ) -> None:
        """*accepted* hears of each outcome that was the last word, *refused* of those that came
        too late, and *again* of all that are to be tried once more.
        """
        self._study = study
        self._driver = driver
        self._repository = repository
        self._retry = retry
        self._fail_fast = fail_fast
        self._accepted = accepted
        self._refused = refused
        self._again = again
        self._last: list[Pair] = []
        self._tried: list[Pair] = []
        self._oldest = 0.0
        self._weight = 0

    def __len__(self) -> int:
        return len(self._last) + len(self._tried)

    def add(self, ready: ClaimedExperiment, outcome: Outcome) -> None:
        """One more has ended."""
        if not self:
            self._oldest, self._weight = monotonic(), 0
        self._weight += sum(len(s.head) + len(s.tail) for s in (outcome.stdout, outcome.stderr))
        (self._tried if self._retries(ready, outcome) else self._last).append((ready, outcome))

    @property
    def full(self) -> bool:
        """Whether no more should be added before a commit."""
        return len(self) >= GROUP or self._weight >= WEIGHT

    def due(self) -> bool:
        """Whether nothing is gained by waiting for others."""
        if self._fail_fast and any(outcome.status != "ok" for _, outcome in self._last):
            return True  # which ends the run, before more is taken
        return bool(self) and (self.full or monotonic() - self._oldest >= WAIT)

    def commit(self, *, retry: bool = True) -> None:
        """Records what has ended; only then is it counted, and only then may it be retried.

        Without *retry*, what is to be tried again waits for the next driver.
        """
        if self._last:
            COMMITTING()
            outcomes = [outcome for _, outcome in self._last]
            accepted = self._repository.record(self._study, self._driver, outcomes)
            COMMITTED()
            committed, self._last = self._last, []
            for ready, outcome in committed:
                if outcome.digest in accepted:
                    self._accepted(ready.experiment, outcome)
                else:
                    self._refused(ready.experiment)
        if self._tried:
            outcomes = [outcome for _, outcome in self._tried]
            self._repository.record(self._study, self._driver, outcomes, final=False)
            SET_ASIDE()
            if retry:
                self._again([ready for ready, _ in self._tried])
            self._tried = []

    def _retries(self, ready: ClaimedExperiment, outcome: Outcome) -> bool:
        if outcome.status in ("ok", "cancelled"):
            return False
        allowed = self._retry
        if allowed is None:
            allowed = max((step.retry for step in ready.experiment.steps), default=0)
        return ready.tries <= allowed
