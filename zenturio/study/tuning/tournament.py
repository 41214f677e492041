"""Searches of an annotated program, many at a time: each point is run once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter, thread_time, time

from zenturio.errors import InputError, Interrupted
from zenturio.execute.executor import Executor, machines_of
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.used_inputs import ask_versions
from zenturio.record import Repository
from zenturio.search import Scores, SearchLoop
from zenturio.space import Point
from zenturio.study.driver.best_score import score
from zenturio.study.driver.experiment_source import mean_scores
from zenturio.study.driver.progress import RunProgress
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.point_selection import PointSelection
from zenturio.study.tuning.tuning_target import TunedProgram
from zenturio.study.tuning.tuning_trial import TrialFacts, TrialOutcomes, TuningTask, TuningTrial

ABREAST = 64
"""Searches that are under way at the same time, so that there is much to run at once."""
ROOM = 1024
"""Points that a search is asked for at once."""

Start = Callable[[Experiment], TuningTrial]


@dataclass
class Tournament:
    """A program, what is known of its points, and a place to run the others."""

    program: TunedProgram
    repository: Repository
    place: Executor
    listener: Callable[[RunProgress], None] = lambda _progress: None
    any_machine: bool = False
    """Whether results of another kind of machine count as cached, too."""
    _known: dict[Point, Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        application = ask_versions(self.program.application)
        self.program = replace(self.program, application=application)
        self._generator = ExperimentGenerator(application)

    def bout(self, contest: TuningTask, settings: dict[str, object], seed: int) -> TuningTrial:
        """A search whose points are known, or come to be known here."""
        search, opening = contest.search(settings, seed)
        loop = SearchLoop(search, contest.goals, contest.budget, cached=self._recall)
        return TuningTrial(contest, loop, opening)

    def outcomes(
        self, experiments: Iterable[Experiment], start: Start, clerk: TrialOutcomes
    ) -> Iterator[tuple[Experiment, Outcome]]:
        """The searches that *experiments* are, each as soon as it is over."""
        waiting = iter(experiments)
        active: dict[str, tuple[Experiment, _Active]] = {}
        while True:
            new = list(islice(waiting, ABREAST - len(active)))
            if not new and not active:
                return
            for experiment in new:
                try:
                    active[experiment.digest] = experiment, _Active(start(experiment))
                except InputError as error:  # settings that do not go together
                    yield experiment, clerk.failed(experiment, error)
            self._advance([search for _, search in active.values()])
            for experiment, search in list(active.values()):
                if search.bout.loop.is_over:
                    del active[experiment.digest]
                    yield experiment, search.outcome(experiment, clerk)

    def facts(self, bout: TuningTrial) -> TrialFacts:
        """What *bout* comes to, alone."""
        while not bout.loop.is_over:
            self._advance([_Active(bout)])
        return bout.facts()

    def _advance(self, active: Sequence[_Active]) -> None:
        """Let each search take what it may, run what nobody knows, and hand in what is known."""
        for search in active:
            search.take()
        self._learn(list(dict.fromkeys(point for search in active for point in search.points)))
        for search in active:
            search.land(self._known)

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
        settings = DriverSettings(any_machine=self.any_machine)
        session = StudySession(
            application, chosen, self.repository, settings=settings, objectives=goals
        )
        if session.run(self.place, listener=self.listener).interrupted:
            raise Interrupted("stopped: the same command goes on")
        made = {point: self._generator.experiments(point) for point in unknown}
        digests = [experiment.digest for several in made.values() for experiment in several]
        kinds = session.counting_kinds(machines_of(self.place))
        outcomes = self.repository.find_outcomes(digests, session.study, kinds)
        for point, experiments in made.items():
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
class _Active:
    """A search under way, and the points that it waits for."""

    bout: TuningTrial
    points: list[Point] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)
    _started: float = field(default_factory=time)
    _clock: float = field(default_factory=perf_counter)
    _cpu: float = 0.0

    def take(self) -> None:
        """Search on as far as points are known."""
        before = thread_time()
        trials = self.bout.loop.ask(ROOM)
        self.points = [trial.point for trial in trials]
        self._numbers = [trial.number for trial in trials]
        self._cpu += thread_time() - before

    def land(self, scores: dict[Point, Scores]) -> None:
        """Hand in what has become known."""
        for number, point in zip(self._numbers, self.points, strict=True):
            self.bout.loop.tell(number, scores[point])

    def outcome(self, experiment: Experiment, clerk: TrialOutcomes) -> Outcome:
        """What it came to."""
        wall = perf_counter() - self._clock
        return clerk.told(experiment, self.bout.facts(), wall, self._cpu, self._started)
