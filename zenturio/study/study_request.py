"""What somebody wants to have run: the options of a run, as the queue of a service keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from zenturio.annotate.scan import read_goals, scan
from zenturio.errors import InputError
from zenturio.record import Repository
from zenturio.search import parse_budget, parse_stop_rules
from zenturio.study.driver.experiment_source import SearchSpec
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.local_run import choose_any_machine, choose_only
from zenturio.study.point_selection import PointSelection, select_points


@dataclass(frozen=True)
class StudyRequest:
    """A study that is to be run."""

    paths: tuple[str, ...]
    param: tuple[str, ...] = ()
    limit: int | None = None
    sample: int | None = None
    search: str = ""
    budget: str = ""
    stop: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    objective: str = ""
    seed: int = 0
    only: str = "missing"
    name: str = ""
    on: str = ""
    """The place; any that the service has, if none is named."""
    machine: str = "same"
    """Whose results count as cached: of the same kind of machine, or of any."""
    again: bool = False
    """Whether what has results is measured again, in a round of its own."""
    each_machine: bool = False
    """Whether each kind of machine of the place measures everything."""

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> StudyRequest:
        """What `facts` told."""
        known = {each.name for each in fields(cls)}
        told: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in facts.items()
            if name in known
        }
        return cls(**told)

    def facts(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(self).items()}

    def session(self, repository: Repository) -> StudySession:
        """The study, its files read now; whatever is wrong with it is told here."""
        application = scan([Path(path) for path in self.paths], overrides=self.param)
        hunt = read_search(self.search, self.settings, self.budget, self.stop, self.seed)
        space = application.space
        goals = read_goals(self.objective, application) if self.objective else ()
        if hunt is not None and (self.limit, self.sample) != (None, None):
            raise InputError("--search asks for points itself", hint="say how many: --budget 100")
        points = (
            select_points(space, limit=self.limit, sample=self.sample, seed=self.seed)
            if hunt is None
            else PointSelection.none(space)
        )
        only = choose_only(self.only)
        told = {n: v for n, v in self.facts().items() if v not in (None, "", []) and n != "name"}
        session = StudySession(
            application,
            points,
            repository,
            self.name,
            only,
            settings=DriverSettings(
                any_machine=choose_any_machine(self.machine),
                again=self.again,
                each_machine=self.each_machine,
            ),
            hunt=hunt,
            wanted=goals,
            remembered=told,
        )
        session.check()
        return session


def read_search(
    engine: str, settings: Sequence[str], budget: str, stop: Sequence[str], seed: int
) -> SearchSpec | None:
    """The search that the options describe; none if there is no --search."""
    if not engine:
        for option, given in (("--budget", budget), ("--stop", stop), ("--set", settings)):
            if given:
                raise InputError(f"{option} belongs to a search", hint="name one: --search ga")
        return None
    pairs = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise InputError(f"--set {setting}", hint="write NAME=VALUE, such as population=150")
        pairs[name.strip()] = value.strip()
    return SearchSpec(
        engine, pairs, parse_budget(budget or None), parse_stop_rules(list(stop)), seed
    )
