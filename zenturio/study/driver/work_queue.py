"""What is to be run next: points become experiments, known ones are set aside, the rest waits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal

from zenturio.errors import NotFoundError, PlaceError, RecordError
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.experiment.machine import Kinds
from zenturio.failpoints import Failpoint
from zenturio.record import Repository
from zenturio.study.driver.experiment_source import ExperimentSource
from zenturio.study.driver.other_machines import machines_with_results

OnlyState = Literal["failed", "missing"]

ADDED = Failpoint("study.added")
CLAIMING = Failpoint("study.claiming")
CLAIMED = Failpoint("study.claimed")

BATCH = 2048
"""Experiments that another driver holds and that are looked up together, at most."""
HELD = 32 * 2**20
"""Bytes of filled files that are held at the most for those that wait."""
SPELL = 0.5
"""Seconds that are spent at the most on making experiments while others wait to be heard."""
LOSSES = 3
"""How often an experiment is handed out whose place gives it back without an outcome."""
CONTRADICTIONS = 5
"""How often an outcome may be set aside between two questions before the repository is doubted."""


@dataclass(frozen=True, slots=True)
class ClaimedExperiment:
    """An experiment that this driver holds the claim on."""

    experiment: Experiment
    attempt: int
    tries: int = 1
    """Which try this is in this run, from 1: what RETRY counts."""
    losses: int = 0
    """How often its place gave it back."""


@dataclass
class WorkQueue:
    """Experiments in the order of their points, claimed as they are asked for.

    Where the repository fails nothing is lost: what was on its way is asked for again.
    """

    study: str
    driver: int
    repository: Repository
    source: ExperimentSource
    only: frozenset[OnlyState] = frozenset({"missing"})
    recalled: Callable[[Experiment, Outcome], None] = lambda _e, _o: None
    """Hears of each experiment that has an outcome already; so does the source."""
    kinds: Callable[[], Kinds] = lambda: None
    """The kinds of machine whose results count as cached; a place may get others meanwhile."""
    round: int | None = None
    """The round in which all is measured again; none where what has results is not."""
    skipped: int = 0
    """Those that were left out, for they are not in the state that *only* names."""
    _made: list[Experiment] = field(default_factory=list)
    _unclaimed: deque[Experiment] = field(default_factory=deque)
    _again: deque[ClaimedExperiment] = field(default_factory=deque)
    _held: set[str] = field(default_factory=set)
    """The digests of those that are handed out."""
    _elsewhere: list[Experiment] = field(default_factory=list)
    """Those that another driver holds, or we at another point: they end there, or come back."""
    _reopened: int | None = None
    """The round in which results are measured that were set aside, if earlier rounds have some."""
    _contradictions: Counter[str] = field(default_factory=Counter)
    """How often the repository had an outcome of an experiment and did not give it."""
    _over: bool = False
    _dry: bool = False
    """Whether the source had nothing when it was asked last."""

    def look_ahead(self, wanted: int = 1) -> int:
        """Make one batch and look it up; how many experiments it had."""
        if not self._made:
            self._make(max(wanted, self.source.ahead))
        if self._made:
            self._sort(self._made)
        made, self._made = len(self._made), []
        return made

    def other_machines(self) -> Counter[MachineKind]:
        """Of those that are to be run: the other kinds of machine that have results."""
        if self.kinds() is None or self.round is not None:
            return Counter()
        return machines_with_results(self.repository, [e.digest for e in self._unclaimed])

    def take(self, count: int) -> list[ClaimedExperiment]:
        """Claim up to *count*; none or fewer if not more can be had now."""
        if self._again:
            return [self._again.popleft() for _ in range(min(count, len(self._again)))]
        if len(self._unclaimed) < count and not (self._over and not self._made):
            self.look_ahead(count - len(self._unclaimed))
        asked: dict[str, Experiment] = {}
        while self._unclaimed and len(asked) < count:
            experiment = self._unclaimed.popleft()
            if experiment.digest in self._held or experiment.digest in asked:
                self._elsewhere.append(experiment)  # another point that is the same experiment
            else:
                asked[experiment.digest] = experiment
        try:
            return self._claimed(asked, {})
        except BaseException:
            self._unclaimed.extendleft(reversed(asked.values()))
            raise

    def retry(self, tried: list[ClaimedExperiment]) -> None:
        """Claim those once more that failed and whose attempt was recorded."""
        again = {ready.experiment.digest: ready for ready in tried}
        experiments = {digest: ready.experiment for digest, ready in again.items()}
        self._again += self._claimed(experiments, {d: r.tries + 1 for d, r in again.items()})

    def back(self, ready: ClaimedExperiment) -> None:
        """Hand one out again that its place gave back without an outcome."""
        digest, losses = ready.experiment.digest, ready.losses + 1
        if losses >= LOSSES:
            raise PlaceError(
                f"experiment {digest[:12]} came back {losses} times without an outcome",
                hint="see whether the place where it runs is in order",
            )
        self._again.append(replace(ready, losses=losses))

    def release(self, experiment: Experiment) -> None:
        """An experiment that was handed out has ended."""
        self._held.discard(experiment.digest)

    def leave_to_others(self, experiment: Experiment) -> None:
        """An experiment that was handed out is another driver's by now."""
        self._held.discard(experiment.digest)
        self._elsewhere.append(experiment)

    def look_elsewhere(self) -> int:
        """See what became of those that others held; how many are still not ended."""
        while waiting := self._elsewhere[:BATCH]:
            self._sort(waiting, again=True)
            del self._elsewhere[: len(waiting)]
        return len(self._unclaimed) + len(self._elsewhere)

    @property
    def dry(self) -> bool:
        """Whether nothing can be had before something that is out has landed."""
        return (self._over or self._dry) and not (self._made or self._unclaimed or self._again)

    @property
    def elsewhere(self) -> int:
        """How many another driver holds."""
        return len(self._elsewhere)

    def _make(self, most: int) -> None:
        """The next batch: not too many, not too large, and not for too long."""
        held = 0
        seen: set[int] = set()
        end = monotonic() + SPELL
        self._dry = False
        for experiment in self.source:
            self._made.append(experiment)
            for filed in experiment.files:
                if filed.content is not None and id(filed.content) not in seen:
                    seen.add(id(filed.content))  # many experiments share what is not filled
                    held += len(filed.content)
            if len(self._made) >= most or held > HELD or monotonic() > end:
                return
        self._over = self.source.over
        self._dry = not self._made

    def _claimed(
        self, asked: Mapping[str, Experiment], tries: Mapping[str, int]
    ) -> list[ClaimedExperiment]:
        """Those that we may run; the others are left to who has them."""
        if not asked:
            return []
        CLAIMING()
        round_ = self.round or self._reopened
        granted = self.repository.claim(
            self.study, self.driver, list(asked.values()), self.kinds(), round_
        )
        CLAIMED()
        self._held.update(granted)
        for digest, experiment in asked.items():
            if digest not in granted:
                self.leave_to_others(experiment)
        return [
            ClaimedExperiment(asked[digest], number, tries.get(digest, 1))
            for digest, number in granted.items()
        ]

    def _sort(self, batch: list[Experiment], *, again: bool = False) -> None:
        """Tell the known ones; keep what is to be run."""
        digests = [experiment.digest for experiment in batch]
        scope = self.kinds(), self.round
        cached = self.repository.cached(self.study, batch, *scope)
        ADDED()
        outcomes = (
            self.repository.find_outcomes(sorted(cached), self.study, *scope) if cached else {}
        )
        self._doubt(cached - outcomes.keys())
        wanted = set(digests) - outcomes.keys() if again else self._wanted(digests, outcomes)
        for experiment in batch:
            outcome = outcomes.get(experiment.digest)
            if experiment.digest in wanted:
                self._unclaimed.append(experiment)
            elif outcome is not None:
                self.source.land(experiment, outcome)
                self.recalled(experiment, outcome)
            else:
                self.skipped += 1

    def _doubt(self, digests: Iterable[str]) -> None:
        """Raise RecordError for cached outcomes that are never given: no claim is granted on them.

        Once it is no contradiction: somebody may set an outcome aside between the two questions.
        """
        for digest in digests:
            self._contradictions[digest] += 1
            if self._contradictions[digest] >= CONTRADICTIONS:
                raise RecordError(
                    f"the repository has an outcome of experiment {digest[:12]} and does not"
                    " give it",
                    hint="see what `zen db check` says",
                )

    def _wanted(self, digests: list[str], outcomes: Mapping[str, Outcome]) -> set[str]:
        """Which of them are in a state that is to be run; failed ones are set aside for it."""
        missing = {digest for digest in digests if digest not in outcomes}
        if "failed" not in self.only:
            return missing
        if self.round is not None:
            return missing if "missing" in self.only else self._failed_before(missing)
        failed = {digest for digest, outcome in outcomes.items() if outcome.status != "ok"}
        if "missing" not in self.only:
            # A run that was to repeat the failed ones and was stopped had set them aside.
            missing = {digest for digest in missing if self._has_failed(digest)}
        if failed:
            self.repository.reopen(self.study, sorted(failed), self.kinds())
            newest = self.repository.rounds(self.study)[-1].number
            self._reopened = newest if newest > 1 else None
        return missing | failed

    def _failed_before(self, digests: set[str]) -> set[str]:
        """Return those whose newest result, of an earlier round, is not ok."""
        outcomes = self.repository.find_outcomes(sorted(digests), self.study, self.kinds())
        return {digest for digest, outcome in outcomes.items() if outcome.status != "ok"}

    def _has_failed(self, digest: str) -> bool:
        try:
            attempts = self.repository.attempts(digest)
        except NotFoundError:  # nobody has tried it
            return False
        return any(attempt.state in ("failed", "timeout") for attempt in attempts)
