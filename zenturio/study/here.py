"""A study driven from this machine, remembered in the project that one stands in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from zenturio.annotate.model import Application, Goal
from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.execute.machine_codec import own_machine
from zenturio.execute.places import find_place, open_place
from zenturio.execute.workspace import Keep
from zenturio.output_files import note_database
from zenturio.record import Memory, Repository
from zenturio.record.open import FOLDER, open_repository, project_folder
from zenturio.study.choose import Chosen
from zenturio.study.lending import Lender
from zenturio.study.pipeline import Pipeline
from zenturio.study.progress import Plan, Progress, Summary
from zenturio.study.run import PLAIN, Settings
from zenturio.study.session import Session
from zenturio.study.source import Hunt
from zenturio.study.supply import Only
from zenturio.study.wishes import Wishes


@dataclass(frozen=True)
class Here:
    """At which place, in how many slots, and what stays of the folders."""

    jobs: int | None = None
    keep: Keep = "failed"
    pin: bool = False
    place: str = "local"
    """As `choose_place` has it."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Settings of the place, which override those of zenturio.toml."""


ALL = Here()


def run_here(
    application: Application,
    points: Chosen,
    *,
    db: str | Repository | None = None,
    here: Here = ALL,
    name: str = "",
    only: frozenset[Only] = frozenset({"missing"}),
    join: bool = False,
    settings: Settings = PLAIN,
    hunt: Hunt | None = None,
    wanted: tuple[Goal, ...] = (),
    remembered: Mapping[str, Any] = {},
    same: bool = False,
    planned: Callable[[Plan], None] = lambda _plan: None,
    listener: Callable[[Progress], None] = lambda _progress: None,
) -> Summary:
    """Run *points* of *application* on this machine, and remember them in *db*.

    With *hunt* those points are run that a search asks for; *wanted* are its goals, if they are
    not the application's. What is *remembered* is kept with the study, for whoever goes on with
    it; *same*: only if the program is the one that was run before.
    """
    with _opened(db) as repository:
        session = Session(
            application, points, repository, name, only, join, settings, hunt, wanted,
            remembered=remembered, same=same,
        )  # fmt: skip
        session.check()
        folder = project_folder() / FOLDER
        wishes = Wishes(folder)
        pipeline = Pipeline(session, planned, listener, wishes) if application.after else None
        with open_place(
            here.place, folder, here.jobs, keep=here.keep, pin=here.pin, given=here.ways
        ) as executor:
            if pipeline is not None:
                return pipeline.run(Lender(executor))
            return session.run(executor, planned, listener, lambda run: run.heed(wishes))


def plan_here(
    application: Application,
    points: Chosen,
    *,
    db: str | Repository | None = None,
    name: str = "",
    hunt: Hunt | None = None,
    wanted: tuple[Goal, ...] = (),
    here: Here = ALL,
    settings: Settings = PLAIN,
) -> Plan:
    """What ``run_here`` would do; nothing is written."""
    local = find_place(here.place, project_folder()).kind == "local"
    machine = own_machine() if local else None
    with _opened(db, create=False) as repository:
        session = Session(
            application, points, repository, name, settings=settings, hunt=hunt, wanted=wanted
        )
        plans = Pipeline(session) if application.after else session
        return plans.foresee(machine)


@contextmanager
def _opened(db: str | Repository | None, *, create: bool = True) -> Iterator[Repository]:
    """The repository itself, or the one at that place, which is closed behind.

    With *create* false an empty one in memory stands for one that is not there.
    """
    if db is not None and not isinstance(db, str):
        with nullcontext(db) as repository:
            yield repository
        return
    try:
        repository = open_repository(db, create=create)
    except NotFoundError:
        repository = Memory()
    try:
        yield repository
    finally:
        repository.close()
        if create:
            note_database(Path(repository.place))


def choose_only(text: str) -> frozenset[Only]:
    """The states that ``--only failed,missing`` names."""
    found: set[Only] = set()
    for word in (part.strip().lower() for part in text.split(",")):
        if word not in get_args(Only):
            hint = did_you_mean(word, get_args(Only))
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
