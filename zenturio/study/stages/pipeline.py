"""Stages that are run together: each by a driver of its own, all in the slots of one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush
from threading import Lock, Thread
from typing import NamedTuple

from zenturio.annotate.model import Application, Repeat, Until
from zenturio.errors import InputError
from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.aggregates import StopReason
from zenturio.experiment.experiment import Kinds, RunPosition
from zenturio.experiment.identity import ask_versions
from zenturio.record import Repository
from zenturio.space import Point
from zenturio.study.driver.experiment_source import ExperimentSource, RunOrder
from zenturio.study.driver.measurement_plan import PointRuns
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.slot_pool import Allotment, SlotPool
from zenturio.study.driver.stop_requests import CancelRequests, stop_on_signals
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.driver.study_session import StudySession
from zenturio.study.recorded_definition import with_recorded_versions
from zenturio.study.stages.stage_graph import (
    ExperimentGroup,
    NumberedPoint,
    Stage,
    StageGraph,
    built_on,
    stages_of,
)
from zenturio.study.stages.stage_inputs import InputReader


class StageExperiment(NamedTuple):
    """An experiment that is ready: what sorts it among its like, and what it is made of."""

    key: tuple[float, ...]
    repeat: int
    number: int
    point: Point


@dataclass
class StageExperimentSource:
    """The source of a stage: in the order of pM-S among what is ready, then in that of the run."""

    graph: StageGraph
    stage: int
    generator: ExperimentGenerator
    repository: Repository
    total: int
    order: RunOrder
    repeat: Repeat
    ahead: int = 0  # what was asked for too early does not know what is urgent by now
    _ready: list[tuple[int, tuple[float, ...], int, ExperimentGroup]] = field(default_factory=list)
    """A heap by rank, then by key; a node whose rank fell meanwhile is in it once more."""
    _pushed: int = 0
    _pending: dict[ExperimentGroup, list[StageExperiment]] = field(default_factory=dict)
    """Of each ready node those that were not handed out: a heap."""
    stops: Counter[StopReason] = field(default_factory=Counter)
    _open: dict[int, tuple[Point, PointRuns]] = field(default_factory=dict)
    """Where results say how often a point runs: those that have begun, and may need more runs."""
    _turns: Counter[int] = field(default_factory=Counter)
    """How many experiments of each block were handed out."""

    def __post_init__(self) -> None:
        self._reader = InputReader(self.graph, self.repository)

    def __iter__(self) -> Iterator[Experiment]:
        while experiment := self._next():
            yield experiment

    @property
    def over(self) -> bool:
        return not (self._open or self.expecting)

    @property
    def expecting(self) -> bool:
        return bool(self._pending) or self.graph.pending(self.stage)

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        until = self.repeat.until
        spared = self._judge(experiment, outcome, until) if until else 0
        self.graph.complete(self.stage, experiment, outcome, spared)

    def _judge(self, experiment: Experiment, outcome: Outcome, until: Until) -> int:
        """See whether the point needs another run; return how many it turned out not to need."""
        point, runs = self._open[experiment.index]
        runs.complete(experiment, outcome)
        if runs.stop is not None:
            del self._open[experiment.index]
            self.stops[runs.stop] += 1
            self.total -= runs.spared
            return runs.spared
        if runs.is_idle and (number := runs.next_number or 0) > until.least:
            node = self.graph.node(self.stage, experiment.values)
            again = self._repeated((experiment.index, point), number)
            heappush(self._pending.setdefault(node, []), again)
            self._push(node)
        return 0

    def _next(self) -> Experiment | None:
        """Make the most urgent experiment, if there is one."""
        for node, points in self.graph.fresh(self.stage):
            if self.graph.grows:
                self.total += len(points) * len(self.repeat.numbers)
            numbers = self.repeat.numbers[: self.repeat.at_once]
            self._pending[node] = [self._repeated(p, number) for p in points for number in numbers]
            heapify(self._pending[node])
            self._push(node)
        for node in self.graph.raised(self.stage):
            if node in self._pending:
                self._push(node)
        while self._ready:
            *urgency, _, node = heappop(self._ready)
            pending = self._pending.get(node, [])
            if not pending:
                continue
            if urgency != list(self._urgency(node)):  # of before
                self._push(node)
                continue
            _, repeat, number, point = heappop(pending)
            if self.repeat.until is not None:
                self._open.setdefault(number, (point, PointRuns(self.repeat)))[1].propose()
            if pending:
                self._push(node)
            position = self._position(repeat)
            made = self.generator.experiment(point, repeat, position, index=number)
            experiment = self._reader.attach(made, node)
            if not pending:
                del self._pending[node]
                self._reader.forget(node)
            return experiment
        return None

    def _repeated(self, numbered: NumberedPoint, repeat: int) -> StageExperiment:
        number, point = numbered
        return StageExperiment(self.order.key(number, repeat), repeat, number, point)

    def _position(self, repeat: int) -> RunPosition:
        block = repeat + self.repeat.warmup if self.order.kind == "blocks" else 1
        self._turns[block] += 1
        return RunPosition(self.order.kind, block, self._turns[block])

    def _push(self, node: ExperimentGroup) -> None:
        self._pushed += 1
        heappush(self._ready, (*self._urgency(node), self._pushed, node))

    def _urgency(self, node: ExperimentGroup) -> tuple[int, tuple[float, ...]]:
        """Return where the next experiment of a node stands in the order: its rank, and its key."""
        return self.graph.rank(node), self._pending[node][0].key


GLANCE = 0.5
"""Seconds between two checks whether it was stopped."""


@dataclass
class Pipeline:
    """A study, and the stages that it waits for."""

    session: StudySession
    planned: Callable[[RunPlan], None] = lambda _plan: None
    listener: Callable[[RunProgress], None] = lambda _progress: None
    """Hears of all stages together."""
    cancel_requests: CancelRequests | None = None
    _runs: dict[int, StudyDriver] = field(default_factory=dict)
    _plans: dict[int, RunPlan] = field(default_factory=dict)
    _planned: int = 0
    """Stages whose plan was printed."""
    _said: dict[int, RunProgress] = field(default_factory=dict)
    _summaries: dict[int, RunSummary] = field(default_factory=dict)
    _errors: list[BaseException] = field(default_factory=list)
    _stops: int = 0
    _turn: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if self.session.settings.each_machine:
            raise InputError(
                f"--each-machine: {self.session.study} waits for another stage, and a stage runs"
                " on any kind of machine",
                hint="run it at a place for each kind of machine: --on PLACE",
            )
        repository = self.session.repository
        self._prepare(
            lambda application: with_recorded_versions(application, repository, application.name)
        )

    def _prepare(self, version: Callable[[Application], Application]) -> None:
        """Plan the stages, the *version* of whose programs is known or asked for."""
        stages = stages_of(self.session.application)
        self.stages = tuple(replace(e, application=version(e.application)) for e in stages)
        self._graph = StageGraph(self.stages, self.session.points, grows=bool(self.session.search))
        pairs = zip(self.stages, built_on(self.stages), strict=True)
        self._sessions = [self._session(stage, programs) for stage, programs in pairs]
        for session in self._sessions:
            session.check()

    def foresee(self, kinds: Kinds = None) -> RunPlan:
        """What a run would do on these machines, as far as no stage needs to have run for it."""
        plans = []
        for stage, session in zip(self.stages, self._sessions, strict=True):
            plain = replace(session, source=None)
            plans.append(plain.plan(0, 0, 0) if stage.links else plain.foresee(kinds))
        if self.session.search is not None:
            plans[:-1] = [replace(plan, is_as_needed=True) for plan in plans[:-1]]
        return replace(plans[-1], before=tuple(plans[:-1]))

    @property
    def experiments(self) -> int:
        """Of all stages."""
        return sum(session.experiments for session in self._sessions)

    def run(
        self,
        pool: SlotPool,
        owner: Hashable = "",
        on_allotment: Callable[[Allotment], None] = lambda _share: None,
    ) -> RunSummary:
        """Run all stages, for *owner*, in slots of *pool*; *on_allotment* hears of each share."""
        search = self.session.search
        if search is not None:
            # Results of other studies are none of these stages: nothing is known beforehand.
            before = self.session.repository.notes(self.session.study)
            resumed = search if search.replay else search.resumed(before, pool.slots)
            resumed = replace(resumed, known=())
            self.session = replace(self.session, search=resumed)
        if search or any(use.kind == "version" for s in self.stages for use in s.application.uses):
            self._prepare(ask_versions)
        allotments = [pool.allot(owner, self._graph.urgency(s.number)) for s in self.stages]
        for allotment in allotments:
            on_allotment(allotment)
        threads = [
            Thread(target=self._drive, args=pair, name=f"zenturio-{pair[0].name}", daemon=True)
            for pair in zip(self.stages, allotments, strict=True)
        ]
        with stop_on_signals(self.stop):
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(GLANCE)
        if self._errors:
            raise self._errors[0]
        return self._concluded()

    def stop(self) -> None:
        """Take nothing more; asked again, kill what runs."""
        with self._turn:
            self._stops += 1
            runs = list(self._runs.values())
        for run in runs:
            run.stop()

    def _concluded(self) -> RunSummary:
        """Return how the last stage ended, with how those before it did."""
        summaries = []
        for stage in self.stages:
            summary, repeat = self._summaries[stage.number], stage.application.repeat
            blocked = self._graph.blocked(stage.number)
            # Of the most repeats of a point that never ran, nobody knows how many it needed.
            spared = blocked * (len(repeat.numbers) - repeat.at_once)
            summaries.append(
                replace(
                    summary,
                    total=summary.total - spared,
                    unfinished=summary.unfinished - spared,
                    blocked=blocked * repeat.at_once,
                )
            )
        stopped = any(summary.interrupted for summary in summaries)
        return replace(summaries[-1], before=tuple(summaries[:-1]), interrupted=stopped)

    def _session(self, stage: Stage, programs: Mapping[str, str]) -> StudySession:
        """Return the session of a stage; of earlier ones others may run a part."""
        source = partial(self._source, stage)
        if stage is self.stages[-1]:
            points = self._graph.points(stage.number)
            return replace(
                self.session,
                application=stage.application,
                points=points,
                source=source,
                built_on=programs,
            )
        return StudySession(
            stage.application,
            self._graph.points(stage.number),
            self.session.repository,
            only=self.session.only | {"missing"},
            join=True,
            settings=replace(self.session.settings, again=False),
            order=self.session.order,
            source=source,
            built_on=programs,
        )

    def _source(
        self, stage: Stage, generator: ExperimentGenerator, order: RunOrder
    ) -> ExperimentSource:
        total = self._sessions[stage.number].experiments
        repository = self.session.repository
        repeat = stage.application.repeat
        if "missing" not in self._sessions[stage.number].only:  # see StudySession
            repeat = replace(repeat, until=None)
        graph, search = self._graph, self._sessions[stage.number].search
        if search is not None:
            # Most studies with stages are not searched, and do not load the engines.
            from zenturio.study.stages.searched_stage import SearchedStage  # noqa: PLC0415

            return SearchedStage(
                graph, repository, search, self.session.goals, generator, repeat, total
            )
        return StageExperimentSource(
            graph, stage.number, generator, repository, total, order, repeat
        )

    def _drive(self, stage: Stage, allotment: Allotment) -> None:
        try:
            hear = (self._plan, self._heard, self._begun)
            session = self._sessions[stage.number]
            summary = session.run(allotment, *(partial(listener, stage) for listener in hear))
            self._summaries[stage.number] = summary
        except BaseException as error:  # noqa: BLE001 - who runs the pipeline raises it
            self._errors.append(error)
            self.stop()
            self.stop()
        finally:
            self._graph.close(stage.number)
            with suppress(Exception):
                allotment.close()

    def _begun(self, stage: Stage, run: StudyDriver) -> None:
        with self._turn:
            self._runs[stage.number] = run
            stops = self._stops
        for _ in range(stops):
            run.stop()
        if self.cancel_requests is not None:
            run.watch(self.cancel_requests)
        self._graph.listen(stage.number, run.inbox)

    def _plan(self, stage: Stage, plan: RunPlan) -> None:
        """Tell what each stage is going to do, in the order of stages."""
        with self._turn:
            is_as_needed = self.session.search is not None and not plan.engine
            self._plans[stage.number] = replace(
                plan, cached=0, looked_at=0, is_as_needed=is_as_needed
            )
            while (told := self._plans.get(self._planned)) is not None:
                self._planned += 1
                self.planned(told)

    def _heard(self, stage: Stage, progress: RunProgress) -> None:
        with self._turn:
            self._said[stage.number] = progress
            self.listener(self._together(progress))

    def _together(self, newest: RunProgress) -> RunProgress:
        """Return all stages as one; what is best is the last one's."""
        reports = list(self._said.values())
        last = self._said.get(len(self.stages) - 1)
        total = RunProgress(
            self.experiments,
            sum(progress.cached for progress in reports),
            sum(progress.ok for progress in reports),
            sum(progress.failed for progress in reports),
            sum(progress.running for progress in reports),
            sum(progress.rate for progress in reports),
            None,
            remarks=newest.remarks,
        )
        unfinished = total.total - total.done
        only_last_run = 0 < unfinished <= total.running
        seconds = unfinished / total.rate if total.rate > 0 and not only_last_run else None
        best = (last.goal, last.last, last.best) if last else ("", None, None)
        return replace(
            total, seconds_left=seconds, goal=best[0], last=best[1], best=best[2],
            only_last_run=only_last_run,
        )  # fmt: skip
