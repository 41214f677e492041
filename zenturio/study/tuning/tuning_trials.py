"""The searches of a tuning: one of one setting and seed, or many that share measurements."""

from __future__ import annotations

import json
import platform
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter, thread_time, time
from typing import Any

from zenturio.errors import ExperimentsFailed, InputError, Interrupted
from zenturio.execute.executor import Executor, machines_of
from zenturio.execute.machines import own_machine_parts
from zenturio.experiment import (
    Evidence,
    Experiment,
    ExperimentGenerator,
    Log,
    MachineKind,
    MetricReader,
    MetricValue,
    Missing,
    Outcome,
)
from zenturio.experiment.identity import ask_versions
from zenturio.record import Repository
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
from zenturio.search.numba_search import is_kernel, search_compiled
from zenturio.search.result import LazyTrials
from zenturio.space import Point, Space
from zenturio.study.driver.experiment_source import PointSelection
from zenturio.study.driver.in_flight import SynchronousExecutor
from zenturio.study.driver.progress import STOPPED, RunProgress, score
from zenturio.study.driver.search_source import mean_scores
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.tuning.tuning_scenario import TargetFunction, TargetProgram

OPENING = 8
"""So many trials are the first generation of an engine that has none."""
REMEMBERED = 1_000_000
"""Points whose scores are kept at the most, between the searches for one function."""

TrialFacts = dict[str, float | int]
_SIZE = Missing("it ran within the driver, whose size is no measure of it")


@dataclass(frozen=True)
class TuningProblem:
    """What all searches of a tuning have in common."""

    engine: str
    space: Space
    goals: Directions
    budget: Budget

    def search(self, settings: Mapping[str, Any], seed: int) -> tuple[Search, int]:
        """Return an engine at its start, and how many trials its first generation has."""
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
        for number, values in zip(numbers, scores, strict=True):
            losses = self.goals.losses(values)
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

    tuning_task: TuningProblem
    loop: SearchLoop
    opening: int

    def facts(self) -> TrialFacts:
        """Return what it came to, when it is over."""
        trials = self.loop.trials
        scores = [trial.scores for trial in trials]
        return self.tuning_task.facts(scores, range(1, len(trials) + 1), len(trials), self.opening)


@dataclass
class LocalTrials:
    """Makes searches for a function, in this process."""

    tuning_task: TuningProblem
    target: TargetFunction
    _known: dict[Point, Scores] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        """Whether several searches can run at the same time, in threads."""
        return is_kernel(self.target.function)

    def facts(self, settings: Mapping[str, Any], seed: int) -> TrialFacts:
        """Return what one search comes to."""
        tuning_task = self.tuning_task
        search, opening = tuning_task.search(settings, seed)
        if self.compiled:
            function, goals = self.target.function, tuning_task.goals
            result = search_compiled(search, function, goals, tuning_task.budget, StopRules())
            assert isinstance(result.trials, LazyTrials), "a compiled search returns rows of genes"
            return tuning_task.facts(result.trials.scores, result.numbers, result.count, opening)
        loop = SearchLoop(search, tuning_task.goals, tuning_task.budget)
        for _ in drive(loop, self._score):
            pass
        return TuningTrial(tuning_task, loop, opening).facts()

    def _score(self, point: Point) -> Scores:
        scores = self._known.get(point)
        if scores is None:
            scores = scores_for(self.tuning_task.goals, self.target.function(point))
            if len(self._known) < REMEMBERED:
                self._known[point] = scores
        return scores


class TrialOutcomes:
    """Writes the outcomes of searches: their facts are what a program would report."""

    def __init__(self, meter: MetricReader, machine: MachineKind | None) -> None:
        """*machine*: the kind that measures what is searched; None where that is not known."""
        self._meter = meter
        self._host = platform.node()
        own = own_machine_parts()
        self._machine_parts = own if own["machine"] == machine else {"machine": machine}

    def outcome(self, experiment: Experiment, search: Callable[[], TrialFacts]) -> Outcome:
        """Return what comes of *search*; what it raises is an outcome as well."""
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
        """Return the outcome of a search that raised *error*, or could not begin for it."""
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
        """Return the outcome of a search that came to *facts*."""
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


ABREAST = 64
"""Searches that are under way at the same time, so that there is much to run at once."""
ROOM = 1024
"""Points that a search is asked for at once."""


@dataclass
class ProgramTrials:
    """A program, the results of its points so far, and a place to run the remaining ones."""

    program: TargetProgram
    repository: Repository
    place: Executor
    listener: Callable[[RunProgress], None] = lambda _progress: None
    any_machine: bool = False
    """Whether results of another kind of machine count as cached, too."""
    go_on: bool = False
    """Whether to go on although the first points fail for one cause of the program itself."""
    _known: dict[Point, Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        application = ask_versions(self.program.application)
        self.program = replace(self.program, application=application)
        self._generator = ExperimentGenerator(application)

    def trial(
        self, tuning_task: TuningProblem, settings: dict[str, object], seed: int
    ) -> TuningTrial:
        """Return a search whose points are known, or come to be known here."""
        search, opening = tuning_task.search(settings, seed)
        loop = SearchLoop(search, tuning_task.goals, tuning_task.budget, cached=self._recall)
        return TuningTrial(tuning_task, loop, opening)

    def facts(self, trial: TuningTrial) -> TrialFacts:
        """Return what *trial* comes to, alone."""
        while not trial.loop.is_over:
            self.advance([ActiveSearch(trial)])
        return trial.facts()

    def advance(self, active: Sequence[ActiveSearch]) -> None:
        """Ask each search for points, run those without a result, and pass on the results."""
        # All searches ask before anything runs: a point that several of them want is run once.
        for search in active:
            search.take()
        self._learn(list(dict.fromkeys(point for search in active for point in search.points)))
        for search in active:
            search.complete(self._known)

    def _recall(self, points: Sequence[Point]) -> list[Scores | None]:
        return [self._known.get(point) for point in points]

    def _learn(self, points: list[Point]) -> None:
        """Run those of *points* that have no outcome in the repository, and read all of them."""
        unknown = [point for point in points if point not in self._known]
        if not unknown:
            return
        # Of all points of the space only these and the earlier ones are to be run.
        count = len(self._known) + len(unknown)
        chosen = PointSelection(self.program.space, count, picked=tuple(unknown))
        application = self.program.application
        goals = (self.program.goal,)
        # A session of its own for each batch: it claims, runs and commits like `zen run`, so a
        # tuning that is killed finds these points in the repository when it is started again.
        has_succeeded = any(
            value is not None for values in self._known.values() for value in values
        )
        settings = DriverSettings(
            any_machine=self.any_machine, go_on=self.go_on or has_succeeded, for_search=True
        )
        session = StudySession(
            application, chosen, self.repository, settings=settings, objectives=goals
        )
        summary = session.run(self.place, listener=self.listener)
        if summary.interrupted:
            raise Interrupted("stopped: run the same command again to continue")
        for remark in summary.remarks:
            # The points that were not run have no score, which is not what the program says.
            if remark.startswith(STOPPED):
                raise ExperimentsFailed(f"{session.study}: {remark}")
        experiments_of = {point: self._generator.experiments(point) for point in unknown}
        digests = [
            experiment.digest for several in experiments_of.values() for experiment in several
        ]
        kinds = session.counting_kinds(machines_of(self.place))
        outcomes = self.repository.find_outcomes(digests, session.study, kinds)
        for point, experiments in experiments_of.items():
            self._known[point] = self._scores(experiments, outcomes)

    def _scores(self, experiments: Sequence[Experiment], outcomes: dict[str, Outcome]) -> Scores:
        """The mean of the repeats that succeeded, as a search of this program alone has it."""
        expression = self.program.goal.expression
        scores = [
            (score(expression, experiment.values, outcome),)
            for experiment in experiments
            if (outcome := outcomes.get(experiment.digest)) is not None and outcome.status == "ok"
        ]
        return mean_scores(scores)


@dataclass
class ActiveSearch:
    """A search under way, and the points that it waits for."""

    trial: TuningTrial
    points: list[Point] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)
    _started: float = field(default_factory=time)
    _clock: float = field(default_factory=perf_counter)
    _cpu: float = 0.0

    def take(self) -> None:
        """Search on as far as points are known."""
        before = thread_time()
        trials = self.trial.loop.ask(ROOM)
        self.points = [trial.point for trial in trials]
        self._numbers = [trial.number for trial in trials]
        self._cpu += thread_time() - before

    def complete(self, scores: dict[Point, Scores]) -> None:
        """Hand in what has become known."""
        for number, point in zip(self._numbers, self.points, strict=True):
            self.trial.loop.tell(number, scores[point])

    def outcome(self, experiment: Experiment, outcome_writer: TrialOutcomes) -> Outcome:
        """Return what it came to."""
        wall = perf_counter() - self._clock
        return outcome_writer.told(experiment, self.trial.facts(), wall, self._cpu, self._started)


class TrialsTogether(SynchronousExecutor):
    """The searches of a tuning of a program: what one of them measures, all know."""

    slots = ABREAST
    wants = ABREAST

    def __init__(
        self,
        tournament: ProgramTrials,
        start: Callable[[Experiment], TuningTrial],
        outcome_writer: TrialOutcomes,
    ) -> None:
        self._tournament = tournament
        self._start = start
        self._outcome_writer = outcome_writer
        self._waiting: deque[Experiment] = deque()
        self._active: dict[str, tuple[Experiment, ActiveSearch]] = {}

    def submit(self, experiment: Experiment) -> None:
        self._waiting.append(experiment)

    def advance(self) -> Iterator[tuple[Experiment, Outcome]]:
        """Run the points that the searches wait for; yield those that are over then."""
        while self._waiting and len(self._active) < ABREAST:
            experiment = self._waiting.popleft()
            try:
                self._active[experiment.digest] = experiment, ActiveSearch(self._start(experiment))
            except InputError as error:  # settings that do not go together
                yield experiment, self._outcome_writer.failed(experiment, error)
        self._tournament.advance([search for _, search in self._active.values()])
        for experiment, search in list(self._active.values()):
            if search.trial.loop.is_over:
                del self._active[experiment.digest]
                yield experiment, search.outcome(experiment, self._outcome_writer)


class ThreadedTrials:
    """An executor of compiled searches, which run in threads: kernels hold no lock of Python."""

    def __init__(self, search: Callable[[Experiment], Outcome], slots: int) -> None:
        self.slots = slots
        self._search = search
        self._pool = ThreadPoolExecutor(slots)

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        return self._pool.submit(self._search, experiment)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
