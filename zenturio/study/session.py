"""A study is opened, leased, planned, driven, and given back, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from zenturio.annotate import Application
from zenturio.errors import InputError
from zenturio.execute import Executor
from zenturio.experiment import Generator
from zenturio.record import Repository
from zenturio.record.driver import Driver
from zenturio.study.choose import Chosen
from zenturio.study.define import define
from zenturio.study.progress import Plan, Progress, Summary
from zenturio.study.run import LEASE, Run, Settings
from zenturio.study.supply import BATCH, Only, experiments_of


@dataclass(frozen=True)
class Session:
    """What is to be run, where, and where it is remembered."""

    application: Application
    points: Chosen
    repository: Repository
    name: str = ""
    only: frozenset[Only] = frozenset({"missing"})
    join: bool = False
    settings: Settings = field(default_factory=Settings)

    @property
    def study(self) -> str:
        return self.name or self.application.name

    @property
    def experiments(self) -> int:
        return self.points.count * self.application.repeat.count

    def check(self) -> None:
        """InputError where there is nothing that could be run."""
        if not self.application.runs:
            raise InputError(
                f"{self.study} says nowhere what to run", cure='write ZEN$ RUN "./program"'
            )

    def foresee(self) -> Plan:
        """What a run would do; nothing is written, and nothing is run."""
        self.check()
        generator = Generator(self.application)
        experiments = experiments_of(self.points, generator.experiments)
        known = looked_at = 0
        while batch := [each.digest for each in islice(experiments, BATCH)]:
            looked_at += len(batch)
            known += len(self.repository.find(batch))
        return self.plan(looked_at, known, 0)

    def run(
        self,
        executor: Executor,
        planned: Callable[[Plan], None] = lambda _plan: None,
        listener: Callable[[Progress], None] = lambda _progress: None,
    ) -> Summary:
        """Run what has no outcome yet; *planned* hears first what that will be."""
        self.check()
        generator = Generator(self.application)
        repository, study = self.repository, self.study
        repository.open(study, define(self.application, self.experiments))
        lease = repository.lease(study, Driver.here(), join=self.join, seconds=LEASE)
        try:
            run = Run(
                study,
                lease,
                repository,
                executor,
                experiments_of(self.points, generator.experiments),
                self.experiments,
                only=self.only,
                goals=self.application.goals,
                settings=self.settings,
                listener=listener,
            )
            looked_at, known = run.look_ahead()
            planned(self.plan(looked_at, known, executor.slots))
            return run.drive()
        finally:
            repository.leave(lease)

    def plan(self, looked_at: int, known: int, slots: int) -> Plan:
        """What is going to be done, when *known* of the first *looked_at* have an outcome."""
        return Plan(
            self.study,
            self.points.count,
            self.application.repeat.count,
            self.experiments,
            known,
            looked_at,
            slots,
        )
