"""Tune an engine: a sweep of its settings as a study, whose experiments are searches."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from zenturio.annotate.model import Application
from zenturio.annotate.scan import scan
from zenturio.errors import InputError, Interrupted, NotFoundError
from zenturio.execute.executor import Executor, machines_of
from zenturio.execute.machines import own_machine
from zenturio.execute.places import open_place
from zenturio.experiment import (
    Evidence,
    Experiment,
    ExperimentGenerator,
    MetricReader,
    Outcome,
    Recipe,
)
from zenturio.experiment.experiment import Kinds, MachineKind
from zenturio.files import make_folder, refuse_link
from zenturio.record import ExperimentRecord, Repository
from zenturio.record.entities import machine_counts
from zenturio.record.open import FOLDER, begin_project, project_folder
from zenturio.search import Direction, Directions, parse_budget
from zenturio.study.best_points import MEAN, best
from zenturio.study.driver.experiment_source import PointSelection, RunOrder, select_points
from zenturio.study.driver.function_study import CallStudy
from zenturio.study.driver.in_flight import Calls
from zenturio.study.driver.progress import RunProgress, RunSummary, is_exact
from zenturio.study.driver.study_driver import AnyExecutor
from zenturio.study.recorded_definition import ArchivedVersion, define_study
from zenturio.study.reprocess_experiments import extract
from zenturio.study.study_request import DEFAULT_PLACE, PlaceOptions
from zenturio.study.tuning.tuning_scenario import Ranges, Target, TargetFunction, TargetProgram
from zenturio.study.tuning.tuning_trials import (
    LocalTrials,
    ProgramTrials,
    ThreadedTrials,
    TrialOutcomes,
    TrialsTogether,
    TuningProblem,
    TuningTrial,
)
from zenturio.system.machine import usable_cores

ENDING = ".tune"
SEED = "seed"

_METRICS = """\
#ZEN$ METRIC best
#ZEN$ METRIC first OPTIONAL
#ZEN$ METRIC visited UNIT "points"
#ZEN$ METRIC needed UNIT "points"
#ZEN$ METRIC improvement := 0.0 if best == first else {improvement} OPTIONAL
"""


@dataclass(frozen=True)
class Tuning:
    """What is tuned, for what, and how often each setting is tried."""

    target: Target
    engine: str
    ranges: Ranges
    repeats: int = 30
    budget: str = ""
    """Of each search, as ``--budget`` says it."""
    seed: int = 1
    """Of the first repeat; each later one has the next."""
    optimum: float | None = None
    """What the best is known to be; if nothing is, the best that was found."""
    name: str = ""

    @property
    def study(self) -> str:
        """What the study is called; a name that SQL takes as it is, where the target's is one."""
        return self.name or f"{self.target.name}_{re.sub('[^a-zA-Z0-9]', '_', self.engine)}"

    @property
    def direction(self) -> Direction:
        return self.target.direction

    def setting(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the settings of the engine among the *values* of an experiment, and the seed."""
        return {name: values[name] for name in self.ranges.sets}, int(values[SEED])

    def with_optimum(self, optimum: float) -> Tuning:
        """Return the same, when the best is known."""
        return replace(self, optimum=optimum)

    def text(self) -> str:
        """Return the annotated file, which contains everything that its experiments depend on."""
        lines = [
            f"# Which settings of {self.engine} are best for {_line(self.target.name)}: each",
            "# experiment is one search, and its metrics say how good that was: the best and the",
            "# first value (of the first generation), the points visited, and those needed to find",
            "# the best. Written by zen tune; what is searched is of the form",
            f"# {self.target.identity()}",
            *(f"#ZEN$ PARAM {name} = {text}" for name, text in self.ranges.sets.items()),
            f"#ZEN$ PARAM {SEED} = {{ {self.seed} }}",
            f"#ZEN$ REPEAT {self.repeats} SEED {SEED}",
            f'#ZEN$ RUN "{self._command()}"',
        ]
        change = _relative("best", "first")
        return "\n".join([*lines, _METRICS.format(improvement=change) + self._aim(), ""])

    def application(self, folder: Path) -> Application:
        """Write the file into *folder*, unless it stands there, and reads it."""
        make_folder(folder.parent, folder.name)
        path = folder / (re.sub(r"[^\w.-]", "-", self.study) + ENDING)
        refuse_link(path)
        text = self.text()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        return scan(path)

    def _command(self) -> str:
        """Return the command that makes one of the searches."""
        words = ["zen", "tune", self.target.words, "--engine", self.engine, "--once"]
        if self.budget:
            words += ["--budget", self.budget]
        goal = self._goal()
        plain = [shlex.quote(word) for word in [*words, "--objective", goal]]
        escaped = " ".join(plain).replace("{", "{{").replace("}", "}}")
        settings = ",".join(f"{name}={{{name}}}" for name in self.ranges.sets)
        escaped += f" --settings {settings} --seed {{seed}}"
        return escaped.replace("\\", "\\\\").replace('"', '\\"')

    def _goal(self) -> str:
        if isinstance(self.target, TargetFunction):
            return self.direction.upper()
        return f"{self.direction.upper()} {self.target.goal.expression.text}"

    def _aim(self) -> str:
        if self.optimum is None:
            return f"#ZEN$ OBJECTIVE {self.direction.upper()} best"
        optimum = f"({self.optimum!r})"
        # Nothing can be said in shares of an optimum of 0, but of the way that leads to it.
        off = (
            _relative("best", optimum) if self.optimum else "abs(best) / max(abs(best), abs(first))"
        )
        return (
            f"#ZEN$ METRIC precision := 1.0 if best == {optimum} else 1 - {off}\n"
            "#ZEN$ OBJECTIVE MAXIMIZE precision"
        )


def _relative(one: str, other: str) -> str:
    """Return how far two numbers are apart, as a share of the greater one."""
    return f"abs({one} - {other}) / max(abs({one}), abs({other}))"


def _line(text: str) -> str:
    return " ".join(text.split())


FIRST_LOOK = 100
"""Combinations of settings tried by default."""
BEST, PRECISION = "best", "precision"
HOME = "tune"
"""The folder in the project's where tunings are written down."""

STOPPED = "stopped: finished searches are kept; run the same command again to continue"

TuningListener = Callable[[RunProgress], None]


@dataclass(frozen=True)
class CompletedTuning:
    """A tuning that was run."""

    tuning: Tuning
    """With the optimum that precisions are told by."""
    file: Path
    settings: int
    """How many combinations were tried."""
    of: int
    """How many there are."""
    summary: RunSummary
    archived: ArchivedVersion | None = None
    """The study of another program or other settings that had the name before."""
    machine: str = ""
    """The kind of machine whose searches count, by its label; of every kind, if none is named."""


@dataclass(frozen=True)
class TuningPlan:
    """What a tuning is going to do."""

    tuning: Tuning
    settings: int
    of: int

    @property
    def searches(self) -> int:
        return self.settings * self.tuning.repeats


def tune(
    tuning: Tuning,
    repository: Repository,
    *,
    sample: int | None = None,
    place: PlaceOptions = DEFAULT_PLACE,
    any_machine: bool = False,
    go_on: bool = False,
    planned: Callable[[TuningPlan], None] = lambda _prospect: None,
    listener: TuningListener = lambda _progress: None,
) -> CompletedTuning:
    """Make every search of *tuning* that is not known, and keep what it came to.

    The study is an ordinary one, of a file in the project's folder. Precisions are told by the
    optimum that is given, else by the best value that is known in the end. Searches that another
    kind of machine made count with *any_machine*, or where the program's metrics are exact.

    The searches are made here; what they ask of a program runs at *place*. InputError for a place
    of several kinds of machine, whose results one search cannot compare, unless all kinds count.
    ExperimentsFailed if the first points of a program fail for a cause of the program itself,
    unless told to *go_on*.
    """
    folder = begin_project() / HOME
    with _opened(tuning, place) as executor:
        machines = frozenset({own_machine()}) if executor is None else machines_of(executor)
        kinds = None if any_machine or _is_exact(tuning) else machines
        if kinds is not None and len(kinds) > 1:
            raise InputError(
                f"{place.place} has {len(kinds)} kinds of machine, whose results a search cannot"
                " compare",
                hint="name a place with one of them, or declare metrics EXACT; or: --machine any",
            )
        best_value = (
            _best_known(tuning, repository, kinds) if tuning.optimum is None else tuning.optimum
        )
        measured_tuning = tuning if best_value is None else tuning.with_optimum(best_value)
        application = measured_tuning.application(folder)
        points = _chosen(tuning, application, sample)
        planned(TuningPlan(tuning, points.count, application.space.size))
        summary, archived = _run(
            measured_tuning,
            application,
            points,
            repository,
            place,
            executor,
            listener,
            kinds,
            any_machine=any_machine,
            go_on=go_on,
        )
        measured_tuning = _settled(tuning, repository, folder, kinds)
        (path,) = application.paths
        label = ", ".join(machine.label for machine in kinds or ())
        return CompletedTuning(
            measured_tuning, path, points.count, application.space.size, summary, archived, label
        )


def run_trial(
    tuning: Tuning,
    repository: Repository,
    place: PlaceOptions = DEFAULT_PLACE,
    *,
    go_on: bool = False,
) -> dict[str, float | int]:
    """One search: the first one of *tuning*, which nobody keeps."""
    tuning_task = _contest(tuning)
    settings: dict[str, Any] = {}
    for name, text in tuning.ranges.sets.items():
        settings[name] = text.strip("{} ")
    target = tuning.target
    if isinstance(target, TargetFunction):
        return LocalTrials(tuning_task, target).facts(settings, tuning.seed)
    with _opened(tuning, place) as executor:
        assert executor is not None, "a program has a place"
        tournament = ProgramTrials(target, repository, executor, go_on=go_on)
        return tournament.facts(tournament.trial(tuning_task, settings, tuning.seed))


def _chosen(tuning: Tuning, application: Application, sample: int | None) -> PointSelection:
    """Return all combinations of the settings, or some of them by chance."""
    space = application.space
    if sample is None and not tuning.ranges.given and space.size > FIRST_LOOK:
        sample = FIRST_LOOK
    if sample is not None and sample >= space.size:
        sample = None
    return select_points(space, sample=sample, seed=tuning.seed)


def _contest(tuning: Tuning) -> TuningProblem:
    goals = Directions(tuning.direction)
    return TuningProblem(
        tuning.engine, tuning.target.space, goals, parse_budget(tuning.budget or None)
    )


def _run(
    tuning: Tuning,
    application: Application,
    points: PointSelection,
    repository: Repository,
    place: PlaceOptions,
    executor: Executor | None,
    listener: TuningListener,
    kinds: Kinds,
    *,
    any_machine: bool,
    go_on: bool,
) -> tuple[RunSummary, ArchivedVersion | None]:
    generator = ExperimentGenerator(application, former_digests=repository.has_former_digests())
    tuning_task = _contest(tuning)
    machine: MachineKind | None = own_machine()
    if executor is not None:
        machines = machines_of(executor) or frozenset()
        machine = next(iter(machines)) if len(machines) == 1 else None
    outcome_writer = TrialOutcomes(MetricReader(generator.recipe), machine)
    _check(tuning_task, tuning, points)

    def experiments(_order: RunOrder) -> Iterator[Experiment]:
        for index, point in points.numbered():
            yield from generator.experiments(point, index)

    count = points.count * tuning.repeats
    definition = define_study(application, count, generator.program)
    study = CallStudy(tuning.study, definition, experiments, count, go_on=go_on)
    try:
        with _searches(
            tuning,
            tuning_task,
            outcome_writer,
            repository,
            place,
            executor,
            any_machine=any_machine,
            go_on=go_on,
        ) as searches:
            return study.drive(repository, (searches,), lambda _executor: kinds, listener)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(STOPPED) from None


@contextmanager
def _searches(
    tuning: Tuning,
    tuning_task: TuningProblem,
    outcome_writer: TrialOutcomes,
    repository: Repository,
    place: PlaceOptions,
    executor: Executor | None,
    *,
    any_machine: bool,
    go_on: bool,
) -> Iterator[AnyExecutor]:
    """Yield what makes the searches: this thread, several ones, or the place of a program."""
    target = tuning.target
    if isinstance(target, TargetProgram):
        assert executor is not None, "a program has a place"
        tournament = ProgramTrials(
            target, repository, executor, any_machine=any_machine, go_on=go_on
        )

        def start(experiment: Experiment) -> TuningTrial:
            return tournament.trial(tuning_task, *tuning.setting(experiment.values))

        yield TrialsTogether(tournament, start, outcome_writer)
        return
    local_trials = LocalTrials(tuning_task, target)

    def search(experiment: Experiment) -> Outcome:
        return outcome_writer.outcome(
            experiment, lambda: local_trials.facts(*tuning.setting(experiment.values))
        )

    jobs = (place.jobs or usable_cores()) if local_trials.compiled else 1
    if jobs == 1:
        yield Calls(search)
        return
    with closing(ThreadedTrials(search, jobs)) as threads:
        yield threads


@contextmanager
def _opened(tuning: Tuning, place: PlaceOptions) -> Iterator[Executor | None]:
    """Yield the place where a program runs; None for a function, which runs in this process."""
    if isinstance(tuning.target, TargetFunction):
        if place.place != DEFAULT_PLACE.place:
            raise InputError(
                f"--on {place.place}: {tuning.target.name} is a function, and runs in this process",
                hint="leave it out, or write a program that prints the cost",
            )
        yield None
        return
    folder = project_folder() / FOLDER
    with open_place(
        place.place, folder, place.jobs, keep=place.keep, pin=place.pin, overrides=place.settings
    ) as executor:
        yield executor


def _check(tuning_task: TuningProblem, tuning: Tuning, points: PointSelection) -> None:
    """InputError where the engine is none for this space, or has no such settings."""
    for point in islice(points, 1):
        tuning_task.search(*tuning.setting({**point, SEED: tuning.seed}))
    target = tuning.target
    if isinstance(target, TargetProgram) and not target.application.runs:
        raise InputError(
            f"{target.name} has no RUN directive",
            hint='write ZEN$ RUN "./program", or name a function: file.py:cost',
        )


def _is_exact(tuning: Tuning) -> bool:
    """Return whether a search finds the same on every kind of machine."""
    target = tuning.target
    return isinstance(target, TargetProgram) and is_exact(target.application, (target.goal,))


def _best_known(tuning: Tuning, repository: Repository, kinds: Kinds) -> float | None:
    """Return the best value of the objective that is known: of the searches, and of the program.

    As *kinds* measured it, if they are named.
    """
    values: list[float] = []
    with suppress(NotFoundError):
        for record in repository.records(tuning.study, states=("ok",)):
            outcome = record.outcome
            if outcome is None or not machine_counts(outcome.machine, kinds):
                continue
            value = outcome.metrics.get(BEST)
            if isinstance(value, int | float):
                values.append(float(value))
    if isinstance(tuning.target, TargetProgram):
        goal = tuning.target.goal
        objective = f"{goal.direction} {goal.expression.text}"
        with suppress(NotFoundError):
            ranking = best(
                repository, tuning.target.name, sys.maxsize, objective,
                aggregate=MEAN,  # as searches score their points
            )  # fmt: skip
            space = (
                tuning.target.space
            )  # the study may hold points that the space does not any more
            present = (
                point
                for point in ranking.points
                if space.contains(point.values) and machine_counts(point.machine, kinds)
            )
            values += [value for point in islice(present, 1) for value in point.scores.values()]
    return (min if tuning.direction == "minimize" else max)(values, default=None)


def _settled(tuning: Tuning, repository: Repository, folder: Path, kinds: Kinds) -> Tuning:
    """Tell all precisions by one optimum; the searches need not be made again for that."""
    best_value = (
        _best_known(tuning, repository, kinds) if tuning.optimum is None else tuning.optimum
    )
    if best_value is None:
        return tuning
    measured_tuning = tuning.with_optimum(best_value)
    application = measured_tuning.application(folder)
    meter = MetricReader(Recipe(tuple(m for m in application.metrics if m.name == PRECISION)))
    if any(
        _is_stale(record, meter)
        for record in repository.records(measured_tuning.study, states=("ok",))
    ):
        extract(repository, measured_tuning.study, [str(path) for path in application.paths])
    return measured_tuning


def _is_stale(record: ExperimentRecord, meter: MetricReader) -> bool:
    """Return whether a search's precision is not the one that *meter* tells."""
    if record.outcome is None:
        return False
    metrics = record.outcome.metrics
    measured = meter.measure(record.values, Evidence(usage=metrics))
    return metrics.get(PRECISION) != measured[PRECISION]
