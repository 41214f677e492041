"""Stages that are run together: each by a driver of its own, all in the slots of one place."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock, Thread

from zenturio.annotate.model import Application
from zenturio.errors import InputError
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.experiment import Kinds
from zenturio.experiment.used_inputs import ask_versions
from zenturio.study.driver.cancel_requests import CancelRequests
from zenturio.study.driver.experiment_source import ExperimentSource
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.slot_pool import Allotment, SlotPool
from zenturio.study.driver.stop_signals import stop_on_signals
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.study.driver.study_session import StudySession
from zenturio.study.stages.stage import Stage, built_on, stages_of
from zenturio.study.stages.stage_graph import StageGraph
from zenturio.study.stages.stage_source import StageSource
from zenturio.study.study_definition import with_recorded_versions

GLANCE = 0.5
"""Seconds between two looks whether somebody stopped it."""


@dataclass
class Pipeline:
    """A study, and the stages that it waits for."""

    session: StudySession
    planned: Callable[[RunPlan], None] = lambda _plan: None
    listener: Callable[[RunProgress], None] = lambda _progress: None
    """Hears of all stages together."""
    wishes: CancelRequests | None = None
    _runs: dict[int, StudyDriver] = field(default_factory=dict)
    _plans: dict[int, RunPlan] = field(default_factory=dict)
    _planned: int = 0
    """Stages of which it was told what they are going to do."""
    _said: dict[int, RunProgress] = field(default_factory=dict)
    _summaries: dict[int, RunSummary] = field(default_factory=dict)
    _errors: list[BaseException] = field(default_factory=list)
    _stops: int = 0
    _turn: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if self.session.search is not None:
            raise InputError(
                f"{self.session.study} waits for another stage, and is not searched",
                hint="run it without --search",
            )
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
        self._course = StageGraph(self.stages, self.session.points)
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
        return replace(plans[-1], before=tuple(plans[:-1]))

    @property
    def experiments(self) -> int:
        """Of all stages."""
        return sum(session.experiments for session in self._sessions)

    def run(
        self,
        lender: SlotPool,
        owner: Hashable = "",
        lent: Callable[[Allotment], None] = lambda _share: None,
    ) -> RunSummary:
        """Run all stages, for *owner*, in slots of *lender*; *lent* hears of each share."""
        if any(use.kind == "version" for s in self.stages for use in s.application.uses):
            self._prepare(ask_versions)
        shares = [lender.share(owner, self._course.urgency(s.number)) for s in self.stages]
        for share in shares:
            lent(share)
        threads = [
            Thread(target=self._drive, args=pair, name=f"zenturio-{pair[0].name}", daemon=True)
            for pair in zip(self.stages, shares, strict=True)
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
        """How the last stage ended, with how those before it did."""
        summaries = []
        for stage in self.stages:
            blocked = self._course.blocked(stage.number) * stage.application.repeat.count
            summaries.append(replace(self._summaries[stage.number], blocked=blocked))
        stopped = any(summary.interrupted for summary in summaries)
        return replace(summaries[-1], before=tuple(summaries[:-1]), interrupted=stopped)

    def _session(self, stage: Stage, programs: Mapping[str, str]) -> StudySession:
        """The session of a stage; of earlier ones others may run a part."""
        source = partial(self._source, stage)
        if stage is self.stages[-1]:
            points = self._course.points(stage.number)
            return replace(
                self.session,
                application=stage.application,
                points=points,
                source=source,
                built_on=programs,
            )
        return StudySession(
            stage.application,
            self._course.points(stage.number),
            self.session.repository,
            only=self.session.only | {"missing"},
            join=True,
            settings=replace(self.session.settings, again=False),
            source=source,
            built_on=programs,
        )

    def _source(self, stage: Stage, generator: ExperimentGenerator) -> ExperimentSource:
        total = self._sessions[stage.number].experiments
        return StageSource(self._course, stage.number, generator, self.session.repository, total)

    def _drive(self, stage: Stage, share: Allotment) -> None:
        try:
            hear = (self._plan, self._heard, self._begun)
            session = self._sessions[stage.number]
            summary = session.run(share, *(partial(listener, stage) for listener in hear))
            self._summaries[stage.number] = summary
        except BaseException as error:  # noqa: BLE001 - who runs the pipeline raises it
            self._errors.append(error)
            self.stop()
            self.stop()
        finally:
            self._course.close(stage.number)
            with suppress(Exception):
                share.close()

    def _begun(self, stage: Stage, run: StudyDriver) -> None:
        with self._turn:
            self._runs[stage.number] = run
            stops = self._stops
        for _ in range(stops):
            run.stop()
        if self.wishes is not None:
            run.watch(self.wishes)
        self._course.listen(stage.number, run.inbox)

    def _plan(self, stage: Stage, plan: RunPlan) -> None:
        """Tell what each stage is going to do, in the order of stages."""
        with self._turn:
            self._plans[stage.number] = replace(plan, known=0, looked_at=0)
            while (told := self._plans.get(self._planned)) is not None:
                self._planned += 1
                self.planned(told)

    def _heard(self, stage: Stage, progress: RunProgress) -> None:
        with self._turn:
            self._said[stage.number] = progress
            self.listener(self._together(progress))

    def _together(self, newest: RunProgress) -> RunProgress:
        """All stages as one; what is best is the last one's."""
        reports = list(self._said.values())
        last = self._said.get(len(self.stages) - 1)
        total = RunProgress(
            self.experiments,
            sum(progress.known for progress in reports),
            sum(progress.ok for progress in reports),
            sum(progress.failed for progress in reports),
            sum(progress.running for progress in reports),
            sum(progress.rate for progress in reports),
            None,
            remarks=newest.remarks,
        )
        seconds = (total.total - total.done) / total.rate if total.rate > 0 else None
        best = (last.goal, last.last, last.best) if last else ("", None, None)
        return replace(total, left=seconds, goal=best[0], last=best[1], best=best[2])
