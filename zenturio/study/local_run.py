"""Run a study from this process, and record it in the project of the current folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zenturio.annotate.model import Application, Goal
from zenturio.errors import InputError, NotFoundError, PlaceError
from zenturio.execute.machines import own_machine
from zenturio.execute.places import find_place, open_place
from zenturio.experiment import ExperimentGenerator
from zenturio.files import note_database
from zenturio.record import Repository
from zenturio.record.open import FOLDER, open_repository, project_folder, temporary_repository
from zenturio.study.driver.experiment_source import OrderKind, PointSelection
from zenturio.study.driver.progress import RunPlan, RunProgress, RunSummary
from zenturio.study.driver.stop_requests import CancelRequests, interrupt_at_end_signals
from zenturio.study.driver.study_driver import DEFAULT_SETTINGS, DriverSettings
from zenturio.study.driver.study_records import OnlyState
from zenturio.study.driver.study_session import StudySession
from zenturio.study.study_request import DEFAULT_PLACE, MeasuredPoints, PlaceOptions, StudyRequest
from zenturio.system.file_systems import is_noexec

if TYPE_CHECKING:
    from zenturio.study.driver.search_source import SearchSpec

PlanListener = Callable[[RunPlan], None]
ProgressListener = Callable[[RunProgress], None]


def run_request(
    request: StudyRequest,
    application: Application,
    *,
    db: str | Repository | None = None,
    same: bool = False,
    planned: PlanListener = lambda _plan: None,
    listener: ProgressListener = lambda _progress: None,
    measured: MeasuredPoints | None = None,
) -> RunSummary:
    """Run what *request* asks for of *application*, and record it in *db*.

    With *same* it is an error if the program is not the one that was run before. *measured* as
    `StudyRequest.session` has it.
    """
    with interrupt_at_end_signals(), open_for_run(db) as repository:
        session = request.session(repository, application, same=same, measured=measured)
        return run_session(session, request.place_options, planned, listener)


def plan_request(
    request: StudyRequest,
    application: Application,
    *,
    db: str | Repository | None = None,
    measured: MeasuredPoints | None = None,
) -> RunPlan:
    """Return what `run_request` would do; nothing is written, and nothing is run."""
    with open_for_run(db, create=False) as repository:
        session = request.session(repository, application, measured=measured)
        return _plan(session, request.place_options)


def run_locally(
    application: Application,
    points: PointSelection,
    *,
    db: str | Repository | None = None,
    place: PlaceOptions = DEFAULT_PLACE,
    name: str = "",
    only: frozenset[OnlyState] = frozenset({"missing"}),
    join: bool = False,
    settings: DriverSettings = DEFAULT_SETTINGS,
    search: SearchSpec | None = None,
    goals: tuple[Goal, ...] = (),
    order: OrderKind = "blocks",
    planned: PlanListener = lambda _plan: None,
    listener: ProgressListener = lambda _progress: None,
) -> RunSummary:
    """Run *points* of *application*, or those that a *search* asks for, and record them in *db*.

    Objectives of the search are *goals*, or else those of the application.
    """
    with interrupt_at_end_signals(), open_for_run(db) as repository:
        session = StudySession(
            application, points, repository, name, only, join, settings, search, goals, order
        )
        return run_session(session, place, planned, listener)


def plan_locally(
    application: Application,
    points: PointSelection,
    *,
    db: str | Repository | None = None,
    place: PlaceOptions = DEFAULT_PLACE,
    settings: DriverSettings = DEFAULT_SETTINGS,
) -> RunPlan:
    """Return what `run_locally` would do; nothing is written, and nothing is run."""
    with open_for_run(db, create=False) as repository:
        return _plan(StudySession(application, points, repository, settings=settings), place)


def run_session(
    session: StudySession, place: PlaceOptions, planned: PlanListener, listener: ProgressListener
) -> RunSummary:
    """Run *session* at *place*, which is opened for it and closed behind."""
    session.check()
    is_local = find_place(place.place, project_folder()).kind == "local"
    if session.settings.quiet_machine and not is_local:
        raise InputError(
            f"--quiet-machine works only on this machine; {place.place} has others",
            hint="leave it out; conditions of each run are recorded all the same",
        )
    folder = project_folder() / FOLDER
    if is_local:
        _check_programs_start(session.application, folder)
    requests = CancelRequests(folder)
    opened = partial(
        open_place, place.place, folder, place.jobs, keep=place.keep, pin=place.pin,
        overrides=place.settings,
    )  # fmt: skip
    if session.application.after:
        # Most studies have no stages.
        from zenturio.study.driver.slot_pool import SlotPool  # noqa: PLC0415 - for stages alone
        from zenturio.study.stages.pipeline import Pipeline  # noqa: PLC0415

        # Planned before the place is opened: a mistake in a stage shall not start workers.
        pipeline = Pipeline(session, planned, listener, requests)
        with opened() as executor:
            return pipeline.run(SlotPool(executor))
    with opened() as executor:
        return session.run(executor, planned, listener, lambda driver: driver.watch(requests))


def _check_programs_start(application: Application, folder: Path) -> None:
    """Raise PlaceError if a program of the experiments' own folders could not be started there."""
    programs = [command.text.text.split(maxsplit=1)[:1] for command in application.runs]
    own = [word for words in programs for word in words if "/" in word and word[0] not in "/{"]
    if own and is_noexec(folder):
        raise PlaceError(
            f"{own[0]} cannot be started: {folder} lies on a file system that is mounted noexec",
            hint="name a folder on another one: zen run --work DIR",
        )


def _plan(session: StudySession, place: PlaceOptions) -> RunPlan:
    is_local = find_place(place.place, project_folder()).kind == "local"
    kinds = frozenset({own_machine()}) if is_local else None
    if session.application.after:
        from zenturio.study.stages.pipeline import Pipeline  # noqa: PLC0415 - for stages alone

        return Pipeline(session).foresee(kinds)
    return session.foresee(kinds)


@contextmanager
def open_for_run(db: str | Repository | None, *, create: bool = True) -> Iterator[Repository]:
    """Yield the repository *db*, or open and close the one at that path or URL.

    Without *create* a temporary, empty one stands for one that is not there.
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


def job_script(application: Application, points: PointSelection, place: PlaceOptions) -> str:
    """Return the script of the first of *points*; empty where the place starts no jobs."""
    folder = project_folder() / FOLDER
    named = find_place(place.place, folder.absolute().parent)
    kind, options = named.load(), named.options(place.settings)
    if hasattr(kind, "preview"):
        point = next(iter(points), None) or next(iter(application.space.sample(1, 0)))
        experiment = ExperimentGenerator(application).experiments(point)[0]
        count = max(points.count, 1) * application.repeat.count
        return str(kind.preview(experiment, count, folder, options))
    try:
        return str(kind.script(folder, options)) if hasattr(kind, "script") else ""
    except InputError:  # as it is configured it starts none
        return ""
