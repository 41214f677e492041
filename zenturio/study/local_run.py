"""A study driven from this machine, remembered in the project that one stands in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from zenturio.annotate.model import Application, Goal
from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.execute.machine_json import own_machine
from zenturio.execute.places import find_place, open_place
from zenturio.execute.workspace import Keep
from zenturio.output_files import note_database
from zenturio.record import Repository
from zenturio.record.open import FOLDER, open_repository, project_folder, temporary_repository
from zenturio.study.driver.cancel_requests import CancelRequests
from zenturio.study.driver.experiment_source import SearchSpec
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.slot_pool import SlotPool
from zenturio.study.driver.study_driver import DEFAULT_SETTINGS, DriverSettings
from zenturio.study.driver.study_records import OnlyState
from zenturio.study.driver.study_session import StudySession
from zenturio.study.point_selection import PointSelection
from zenturio.study.stages.pipeline import Pipeline


@dataclass(frozen=True)
class PlaceOptions:
    """At which place, in how many slots, and what stays of the folders."""

    jobs: int | None = None
    keep: Keep = "failed"
    pin: bool = False
    place: str = "local"
    """As `choose_place` has it."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Settings of the place, which override those of zenturio.toml."""


DEFAULT_PLACE = PlaceOptions()


def run_locally(
    application: Application,
    points: PointSelection,
    *,
    db: str | Repository | None = None,
    here: PlaceOptions = DEFAULT_PLACE,
    name: str = "",
    only: frozenset[OnlyState] = frozenset({"missing"}),
    join: bool = False,
    settings: DriverSettings = DEFAULT_SETTINGS,
    hunt: SearchSpec | None = None,
    wanted: tuple[Goal, ...] = (),
    remembered: Mapping[str, Any] = {},
    same: bool = False,
    planned: Callable[[RunPlan], None] = lambda _plan: None,
    listener: Callable[[RunProgress], None] = lambda _progress: None,
) -> RunSummary:
    """Run *points* of *application* on this machine, and remember them in *db*.

    With *hunt* those points are run that a search asks for; *wanted* are its goals, if they are
    not the application's. What is *remembered* is kept with the study, for whoever goes on with
    it; *same*: only if the program is the one that was run before.
    """
    with _opened(db) as repository:
        session = StudySession(
            application, points, repository, name, only, join, settings, hunt, wanted,
            remembered=remembered, same=same,
        )  # fmt: skip
        session.check()
        folder = project_folder() / FOLDER
        wishes = CancelRequests(folder)
        pipeline = Pipeline(session, planned, listener, wishes) if application.after else None
        with open_place(
            here.place, folder, here.jobs, keep=here.keep, pin=here.pin, given=here.ways
        ) as executor:
            if pipeline is not None:
                return pipeline.run(SlotPool(executor))
            return session.run(executor, planned, listener, lambda run: run.watch(wishes))


def plan_locally(
    application: Application,
    points: PointSelection,
    *,
    db: str | Repository | None = None,
    name: str = "",
    hunt: SearchSpec | None = None,
    wanted: tuple[Goal, ...] = (),
    here: PlaceOptions = DEFAULT_PLACE,
    settings: DriverSettings = DEFAULT_SETTINGS,
) -> RunPlan:
    """What ``run_here`` would do; nothing is written."""
    local = find_place(here.place, project_folder()).kind == "local"
    kinds = frozenset({own_machine()}) if local else None
    with _opened(db, create=False) as repository:
        session = StudySession(
            application, points, repository, name, settings=settings, hunt=hunt, wanted=wanted
        )
        plans = Pipeline(session) if application.after else session
        return plans.foresee(kinds)


@contextmanager
def _opened(db: str | Repository | None, *, create: bool = True) -> Iterator[Repository]:
    """The repository itself, or the one at that place, which is closed behind.

    With *create* false a temporary, empty one stands for one that is not there.
    """
    if db is not None and not isinstance(db, str):
        with nullcontext(db) as repository:
            yield repository
        return
    try:
        repository = open_repository(db, create=create)
    except NotFoundError:
        repository = temporary_repository()
    try:
        yield repository
    finally:
        repository.close()
        if create:
            note_database(Path(repository.location))


def choose_only(text: str) -> frozenset[OnlyState]:
    """The states that ``--only failed,missing`` names."""
    found: set[OnlyState] = set()
    for word in (part.strip().lower() for part in text.split(",")):
        if word not in get_args(OnlyState):
            hint = did_you_mean(word, get_args(OnlyState))
            raise InputError(f"--only {text}: {word!r} is no state", hint=hint)
        found.add(word)  # type: ignore[arg-type] # it is one of them
    return frozenset(found)


def choose_any_machine(text: str) -> bool:
    """Whether ``--machine`` lets results of every kind of machine count as cached."""
    words = {"same": False, "any": True}
    if text not in words:
        raise InputError(f"--machine {text}: neither same nor any", hint=did_you_mean(text, words))
    return words[text]


def choose_keep(text: str) -> Keep:
    """Whose folders ``--keep`` lets stay."""
    for keep in get_args(Keep):
        if keep == text.strip().lower():
            return keep  # type: ignore[no-any-return] # it is one of them
    raise InputError(f"--keep {text!r}", hint=did_you_mean(text, get_args(Keep)))


def choose_place(text: str, ways: Mapping[str, str] = {}) -> str:
    """A place that runs commands, by its name or address; InputError where it cannot be opened so.

    *ways* are settings that it is given besides.
    """
    find_place(text, project_folder()).options(ways)
    return text
