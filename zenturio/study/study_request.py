"""The options of a run: from the command line, Python, a service's queue, or the last run.

One dataclass holds and checks them all, so each way in knows the same options by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from zenturio import plugins
from zenturio.annotate.model import Application
from zenturio.annotate.scan import read_goals, scan
from zenturio.errors import InputError, did_you_mean
from zenturio.execute.places import find_place
from zenturio.execute.workspace import Keep
from zenturio.record import Repository
from zenturio.record.open import project_folder
from zenturio.settings.schema import pairs
from zenturio.space import Point, Space
from zenturio.study.driver.experiment_source import PointSelection, choose_order, select_points
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_records import OnlyState
from zenturio.study.driver.study_session import StudySession
from zenturio.study.recorded_definition import base_of

if TYPE_CHECKING:
    from zenturio.study.driver.search_source import SearchSpec


MeasuredPoints = Callable[[Repository, str, Space, str], Iterable[Point]]
"""Returns the points of a space whose results in a study meet a condition."""


@dataclass(frozen=True)
class PlaceOptions:
    """A place, how many experiments it runs at once, and which folders stay."""

    jobs: int | None = None
    keep: Keep = "failed"
    pin: bool = False
    place: str = "local"
    """As `choose_place` has it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the place; they override those of zenturio.toml."""


DEFAULT_PLACE = PlaceOptions()


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

    jobs: int | None = None
    fail_fast: bool = False
    go_on: bool = False
    """Whether to go on although the first experiments fail for one cause of the study itself."""
    keep: str = "failed"
    pin: bool = False
    batch: str = ""
    """Short experiments that travel together: ``auto`` or a number."""
    join: bool = False
    """Whether it may help a driver that runs the study already."""
    order: str = "blocks"
    """In which order points and repeats run: in blocks, at random, or sorted."""
    observe: tuple[str, ...] = ()
    """The plug-ins that are called for each transition of an experiment, by name."""
    quiet_machine: bool = False
    """Whether experiments start only while this machine is quiet."""
    design: str = ""
    """Points that are chosen beforehand: ``saltelli:128``."""
    learn_from: str = ""
    """The study of another version or machine whose results advise a search."""
    ordered: bool = False
    """Whether a search proposes points that do not depend on the order in which results arrive."""
    replay: str = ""
    """The study whose search is run again, in its recorded order of arrival."""
    confirm: int = 0
    """How many runs of the budget of a search measure its leading points again."""
    where: str = ""
    """Which results are measured again, as a condition on them; all, if it is empty."""
    project: str = ""
    """The submitter's project, on a database that several projects share."""

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> StudyRequest:
        """Return the request whose JSON is *options*; other versions may have other ones."""
        names = {option.name for option in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in options.items()
            if name in names
        }
        return cls(**values)

    def facts(self) -> dict[str, Any]:
        """Return all options as JSON has them."""
        return {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(self).items()}

    def remembered(self) -> dict[str, Any]:
        """Return the options that it takes to go on from the study's name alone."""
        options = {n: v for n, v in self.facts().items() if v not in (None, "", [])}
        # The study has its name and its project; who goes on joins nobody.
        for name in ("name", "join", "project"):
            options.pop(name, None)
        options["paths"] = [str(Path(path).absolute()) for path in self.paths]
        if self.on.endswith(".toml"):
            options["on"] = str(Path(self.on).absolute())
        return options

    def application(self, *, confined: bool = False) -> Application:
        """Read the annotated files, after a look at the options, which costs less.

        *confined* as `scan` has it.
        """
        choose_only(self.only)
        choose_any_machine(self.machine)
        choose_order(self.order)
        for name in self.observe:
            plugins.load("observers", name)
        paths = [Path(path) for path in self.paths]
        return scan(paths, overrides=self.param, confined=confined)

    def search_spec(self) -> SearchSpec | None:
        """Return how points are searched for; None if they are not."""
        spec = read_search(
            self.search, self.settings, self.budget, self.stop, self.seed, self.learn_from,
            ordered=self.ordered, confirm=self.confirm,
        )  # fmt: skip
        if spec is not None and ((self.limit, self.sample) != (None, None) or self.design):
            raise InputError(
                "--search chooses the points itself", hint="say how many: --budget 100"
            )
        return spec

    def points(self, application: Application) -> PointSelection:
        """Return the points that are to be run; none if a search asks for them."""
        space = application.space
        if self.replay or self.search_spec() is not None:
            return PointSelection.none(space)
        return select_points(
            space, limit=self.limit, sample=self.sample, seed=self.seed, design=self.design
        )

    def driver_settings(self) -> DriverSettings:
        """Return how the driver is to behave."""
        return DriverSettings(
            self.fail_fast,
            any_machine=choose_any_machine(self.machine),
            again=self.again,
            each_machine=self.each_machine,
            observers=self.observe,
            go_on=self.go_on,
            quiet_machine=self.quiet_machine,
        )

    @cached_property
    def place_options(self) -> PlaceOptions:
        """Where a run in this process runs; a service has places of its own."""
        settings = {"batch": self.batch} if self.batch else {}
        place = choose_place(self.on or "local", settings)
        return PlaceOptions(self.jobs, choose_keep(self.keep), self.pin, place, settings)

    def session(
        self,
        repository: Repository,
        application: Application | None = None,
        *,
        same: bool = False,
        measured: MeasuredPoints | None = None,
    ) -> StudySession:
        """Return the study in *repository*; raise InputError where something is wrong with it.

        Its files are read now, unless *application* is what they say. *measured* finds the points
        of which results meet the condition *where*.
        """
        # Whoever goes on from a study's name (*same*) has its very program; others may not.
        if not same and (base := base_of(self.name)) is not None:
            raise InputError(
                f"--name {self.name} is a version: all of its results are of one program",
                hint=f"run it as {base}: an edited program makes the next version",
            )
        application = application or self.application()
        spec = self._replayed(repository) if self.replay else self.search_spec()
        points = self.points(application)
        if self.where:
            self._check_where()
            assert measured is not None, "callers that take the option pass it"
            study = self.name or application.name
            picked = tuple(measured(repository, study, application.space, self.where))
            # A round without points would hide that the condition is wrong, or met by none.
            if not picked:
                raise InputError(
                    f"no result of {study} meets the condition {self.where}",
                    hint=f"compare it with the results: zen results {study}",
                )
            points = PointSelection(application.space, len(picked), picked=picked)
        session = StudySession(
            application,
            points,
            repository,
            self.name,
            choose_only(self.only),
            self.join,
            settings=self.driver_settings(),
            search=spec,
            seconds=None if spec else read_seconds(self.budget),
            objectives=read_goals(self.objective, application) if self.objective else (),
            order=choose_order(self.order),
            remembered=self.remembered(),
            same=same,
        )
        session.check()
        return session

    def _replayed(self, repository: Repository) -> SearchSpec:
        """Return the recorded search that is to be run again in its order of arrival."""
        chosen = {
            "--search": self.search, "--budget": self.budget, "--set": self.settings,
            "--seed": self.seed, "--learn-from": self.learn_from, "--ordered": self.ordered,
            "--confirm": self.confirm, "--limit": self.limit, "--sample": self.sample,
            "--design": self.design,
        }  # fmt: skip
        if names := [name for name, value in chosen.items() if value not in ("", (), 0, None)]:
            raise InputError(
                f"--replay {self.replay} has the engine, seed and budget of that study",
                hint=f"leave out {', '.join(names)}; or search anew, without --replay",
            )
        # A run without a search does not load the engines.
        from zenturio.search import parse_stop_rules  # noqa: PLC0415
        from zenturio.study.driver.search_source import recorded_search  # noqa: PLC0415

        spec = recorded_search(repository, self.replay)
        return replace(spec, stops=parse_stop_rules(list(self.stop)))

    def _check_where(self) -> None:
        """Raise InputError where a condition on results does not go with the other options."""
        if not self.again:
            raise InputError(
                "--where names results that are to be measured again",
                hint="add --again; to run a part of the space: --limit 10, or -P 'n={ 1, 2 }'",
            )
        if self.search or self.design or (self.limit, self.sample) != (None, None):
            raise InputError(
                "--where chooses the points by their results",
                hint="leave out --limit, --sample, --design and --search",
            )


def choose_only(text: str) -> frozenset[OnlyState]:
    """Return the states that ``--only failed,missing`` names."""
    states: set[OnlyState] = set()
    for word in (part.strip().lower() for part in text.split(",")):
        if word not in get_args(OnlyState):
            hint = did_you_mean(word, get_args(OnlyState))
            raise InputError(f"--only {text}: {word!r} is not a state", hint=hint)
        states.add(word)  # type: ignore[arg-type] # it is one of them
    return frozenset(states)


def choose_any_machine(text: str) -> bool:
    """Return whether ``--machine`` lets results of every kind of machine count as cached."""
    words = {"same": False, "any": True}
    if text not in words:
        raise InputError(f"--machine {text}: neither same nor any", hint=did_you_mean(text, words))
    return words[text]


def choose_keep(text: str) -> Keep:
    """Return whose folders ``--keep`` lets stay."""
    for keep in get_args(Keep):
        if keep == text.strip().lower():
            return keep  # type: ignore[no-any-return] # it is one of them
    raise InputError(f"--keep {text!r}", hint=did_you_mean(text, get_args(Keep)))


def choose_place(text: str, settings: Mapping[str, str] = {}) -> str:
    """Return *text*, the name or address of a place that runs commands.

    Raise InputError where it cannot be opened with these *settings*.
    """
    find_place(text, project_folder()).options(settings)
    return text


def read_search(
    engine: str,
    settings: Sequence[str],
    budget: str,
    stop: Sequence[str],
    seed: int,
    learn_from: str = "",
    *,
    ordered: bool = False,
    confirm: int = 0,
) -> SearchSpec | None:
    """Return the search that the options describe; None if there is no --search."""
    if not engine:
        read_seconds(budget)
        options = (
            ("--stop", stop), ("--set", settings), ("--learn-from", learn_from),
            ("--ordered", ordered), ("--confirm", confirm),
        )  # fmt: skip
        for option, value in options:
            if value:
                raise InputError(f"{option} belongs to a search", hint="add --search")
        return None
    # A run without a search does not load the engines.
    from zenturio.search import parse_budget, parse_stop_rules  # noqa: PLC0415
    from zenturio.study.driver.search_source import SearchSpec  # noqa: PLC0415

    return SearchSpec(
        engine,
        pairs(settings, "--set"),
        parse_budget(budget or None),
        parse_stop_rules(list(stop)),
        seed,
        learn_from=learn_from,
        ordered=ordered,
        confirm=confirm,
    )


def read_seconds(budget: str) -> float | None:
    """Return the time that ``--budget`` gives a run that is no search."""
    if not budget:
        return None
    # Most runs have none, and do not load the engines.
    from zenturio.search import parse_budget  # noqa: PLC0415 - see above

    limits = parse_budget(budget)
    if limits.trials is not None:
        raise InputError(
            f"--budget belongs to a search, unless it is a time: {budget}",
            hint="name one: --search ga; or say how long: --budget 2h",
        )
    return limits.seconds
