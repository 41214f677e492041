"""What somebody wants to have run: the options of a run, as the queue of a service keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from zenturio.annotate.objectives import read_goals
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.record import Repository
from zenturio.search import parse_budget, parse_stop_rules
from zenturio.study.choose import Chosen, choose
from zenturio.study.here import choose_any_machine, choose_only
from zenturio.study.run import Settings
from zenturio.study.session import Session
from zenturio.study.source import Hunt


@dataclass(frozen=True)
class Request:
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

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Request:
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

    def session(self, repository: Repository) -> Session:
        """The study, its files read now; whatever is wrong with it is told here."""
        application = scan([Path(path) for path in self.paths], overrides=self.param)
        hunt = read_hunt(self.search, self.settings, self.budget, self.stop, self.seed)
        space = application.space
        goals = read_goals(self.objective, application) if self.objective else ()
        if hunt is not None and (self.limit, self.sample) != (None, None):
            raise InputError("--search asks for points itself", hint="say how many: --budget 100")
        points = (
            choose(space, limit=self.limit, sample=self.sample, seed=self.seed)
            if hunt is None
            else Chosen.none(space)
        )
        only = choose_only(self.only)
        told = {n: v for n, v in self.facts().items() if v not in (None, "", []) and n != "name"}
        session = Session(
            application,
            points,
            repository,
            self.name,
            only,
            settings=Settings(any_machine=choose_any_machine(self.machine), again=self.again),
            hunt=hunt,
            wanted=goals,
            remembered=told,
        )
        session.check()
        return session


def read_hunt(
    engine: str, settings: Sequence[str], budget: str, stop: Sequence[str], seed: int
) -> Hunt | None:
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
    return Hunt(engine, pairs, parse_budget(budget or None), parse_stop_rules(list(stop)), seed)
