"""One search with one setting and one seed: what it came to, and the outcome that it leaves."""

from __future__ import annotations

import json
import platform
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time, time
from typing import Any

from zenturio.execute.machine_json import own_machine_parts
from zenturio.experiment import (
    Evidence,
    Experiment,
    Log,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
)
from zenturio.search import (
    Budget,
    Directions,
    Scores,
    Search,
    SearchLoop,
    SearchProblem,
    StopRules,
    drive,
    make,
)
from zenturio.search.api import scores_for
from zenturio.search.compiled import is_kernel, search_compiled
from zenturio.search.result import LazyTrials
from zenturio.space import Point, Space
from zenturio.study.tuning.tuning_target import TunedFunction

OPENING = 8
"""So many trials are the first generation of an engine that has none."""
REMEMBERED = 1_000_000
"""Points whose scores are kept at the most, between the searches for one function."""

TrialFacts = dict[str, float | int]
_SIZE = Missing("it ran within the driver, whose size is no measure of it")


@dataclass(frozen=True)
class TuningTask:
    """What all searches of a tuning have in common."""

    engine: str
    space: Space
    goals: Directions
    budget: Budget

    def search(self, settings: Mapping[str, Any], seed: int) -> tuple[Search, int]:
        """An engine at its start, and how many trials its first generation has."""
        task = SearchProblem(self.space, self.goals, seed, self.budget.trials)
        engine = make(self.engine, task, settings)
        opening = getattr(engine, "population", None) or getattr(engine, "round", None)
        return engine, opening or OPENING

    def facts(
        self, scores: Sequence[Scores], numbers: Sequence[int], visited: int, opening: int
    ) -> TrialFacts:
        """What trials came to whose numbers (from 1) ascend; nothing is best if all failed."""
        best = first = self.goals.worst
        needed = 0
        for number, score in zip(numbers, scores, strict=True):
            losses = self.goals.losses(score)
            if losses < best:
                best, needed = losses, number
                first = losses if number <= opening else first
        if not needed:
            return {"visited": visited}
        result: TrialFacts = {
            "best": self.goals.scores(best)[0],
            "visited": visited,
            "needed": needed,
        }
        if first != self.goals.worst:
            result["first"] = self.goals.scores(first)[0]
        return result


@dataclass
class TuningTrial:
    """A search of points whose scores are known, or come later."""

    contest: TuningTask
    loop: SearchLoop
    opening: int

    def facts(self) -> TrialFacts:
        """What it came to, when it is over."""
        trials = self.loop.trials
        scores = [trial.scores for trial in trials]
        return self.contest.facts(scores, range(1, len(trials) + 1), len(trials), self.opening)


@dataclass
class LocalTrials:
    """Makes searches for a function, in this process."""

    contest: TuningTask
    target: TunedFunction
    _known: dict[Point, Scores] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        """Whether several searches can run at the same time, in threads."""
        return is_kernel(self.target.function)

    def facts(self, settings: Mapping[str, Any], seed: int) -> TrialFacts:
        """What one search comes to."""
        contest = self.contest
        search, opening = contest.search(settings, seed)
        if self.compiled:
            function, goals = self.target.function, contest.goals
            result = search_compiled(search, function, goals, contest.budget, StopRules())
            assert isinstance(result.trials, LazyTrials), "a compiled search returns rows of genes"
            return contest.facts(result.trials.scores, result.numbers, result.count, opening)
        loop = SearchLoop(search, contest.goals, contest.budget)
        for _ in drive(loop, self._score):
            pass
        return TuningTrial(contest, loop, opening).facts()

    def _score(self, point: Point) -> Scores:
        scores = self._known.get(point)
        if scores is None:
            scores = scores_for(self.contest.goals, self.target.function(point))
            if len(self._known) < REMEMBERED:
                self._known[point] = scores
        return scores


class TrialOutcomes:
    """Writes the outcomes of searches: their facts are what a program would report."""

    def __init__(self, meter: MetricReader) -> None:
        self._meter = meter
        self._host = platform.node()
        self._machine_parts = own_machine_parts()

    def outcome(self, experiment: Experiment, search: Callable[[], TrialFacts]) -> Outcome:
        """What comes of *search*; what it raises is an outcome as well."""
        started, clock, cpu = time(), perf_counter(), thread_time()
        try:
            facts = search()
        except Exception as error:  # noqa: BLE001 - what an objective raises is an outcome
            usage = _usage(perf_counter() - clock, thread_time() - cpu, 1)
            return self.failed(experiment, error, usage, started)
        return self.told(experiment, facts, perf_counter() - clock, thread_time() - cpu, started)

    def failed(
        self,
        experiment: Experiment,
        error: Exception,
        usage: Mapping[str, MetricValue] | None = None,
        started: float | None = None,
    ) -> Outcome:
        """The outcome of a search that raised *error*, or could not begin for it."""
        text = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
        now = time()
        return Outcome(
            experiment.digest,
            "failed",
            type(error).__name__,
            usage or _usage(0.0, 0.0, 1),
            host=self._host,
            started=now if started is None else started,
            ended=now,
            exit=1,
            stderr=Log(text, b"", len(text)),
            **self._machine_parts,
        )

    def told(
        self, experiment: Experiment, facts: TrialFacts, wall: float, cpu: float, started: float
    ) -> Outcome:
        """The outcome of a search that came to *facts*."""
        usage = _usage(wall, cpu, 0)
        evidence = Evidence(reported=json.dumps(facts).encode(), usage=usage)
        metrics = self._meter.measure(experiment.values, evidence)
        cause = self._meter.lacking(metrics)
        status = "failed" if cause else "ok"
        return Outcome(
            experiment.digest,
            status,  # type: ignore[arg-type] # it is one of two
            cause,
            metrics,
            host=self._host,
            started=started,
            ended=time(),
            exit=0,
            **self._machine_parts,
        )


def _usage(wall: float, cpu: float, code: int) -> dict[str, MetricValue]:
    return {"wtime": wall, "ctime": cpu, "maxrss": _SIZE, "exit": code}
