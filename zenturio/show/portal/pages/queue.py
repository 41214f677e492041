"""Pages of what runs: the queue of the service, and studies of files in the project folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from zenturio import plugins
from zenturio.errors import InputError, NotFoundError, SafetyError, did_you_mean
from zenturio.record import FINISHED_SUBMISSION_STATES, StudySubmission
from zenturio.record.open import FOLDER
from zenturio.show.portal.access import PortalUser
from zenturio.show.portal.page_templates import address
from zenturio.show.portal.state import Portal, portal_of
from zenturio.study.service import submission_client
from zenturio.study.service.service_status import CONTENT_TYPE, is_served, metrics_text
from zenturio.study.study_request import StudyRequest

if TYPE_CHECKING:
    from starlette.requests import Request


# Studies of annotated files in the project folder: start, pause, resume, stop

DIRECTIVE_MARK = b"ZEN$"
SCANNED_BYTES = 256 * 1024
"""Of a file, for directives."""
MOST_SCANNED = 5000
"""Files."""
MOST_LISTED = 200
DEEPEST_FOLDER = 4
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "build", "dist"})
MOST_FORM_BYTES = 20_000
RUN_NUMBER_OPTIONS = ("limit", "sample", "jobs", "seed")
RUN_TEXT_OPTIONS = ("search", "budget", "only", "name", "objective", "on")
"""Options of ``zen run`` that a form has."""


def run_page(request: Request) -> Response:
    """Return the runs, and the files that can be run."""
    portal = _running_portal(request)
    files, more = annotated_files(portal.settings.folder)
    return portal.page(request, "run.html", runs=_runs(portal), files=files, more=more)


def runs(request: Request) -> Response:
    """Return the runs: the part of the page that is polled."""
    portal = _running_portal(request)
    return HTMLResponse(portal.render("_runs.html", runs=_runs(portal)))


def options(request: Request) -> Response:
    """Return the options of a file; it is not read before a plan is requested."""
    return _plan_page(_running_portal(request), request, dict(request.query_params))


async def plan(request: Request) -> Response:
    """Return what would be run, and a button to start it.

    Planning may import modules of the project. It is a POST request, so that following a link
    cannot start it.
    """
    portal, form = _running_portal(request), await read_form(request)
    return await anyio.to_thread.run_sync(partial(_make_plan, portal, request, form))


def _make_plan(portal: Portal, request: Request, form: Mapping[str, str]) -> Response:
    try:
        plan = portal.runs.plan(run_arguments(portal, form))
    except InputError as error:
        return _plan_page(portal, request, form, diagnostic=str(error))
    return _plan_page(portal, request, form, plan)


def _plan_page(
    portal: Portal,
    request: Request,
    form: Mapping[str, str],
    plan: Mapping[str, object] | None = None,
    diagnostic: str = "",
) -> Response:
    return portal.page(
        request,
        "plan.html",
        400 if diagnostic else 200,
        form=form,
        plan=plan,
        diagnostic=diagnostic,
        command=shlex.join(["zen", "run", *run_arguments(portal, form)]),
        engines=plugins.names("search"),
    )


async def start(request: Request) -> Response:
    """Start a study, and redirect to the runs."""
    portal, form = _running_portal(request), await read_form(request)

    def begin() -> None:
        portal.runs.start(form.get("study", ""), run_arguments(portal, form))

    await anyio.to_thread.run_sync(begin)
    return RedirectResponse("/run", 303)


async def change(request: Request) -> Response:
    """Pause, resume or stop a run."""
    portal, form = _running_portal(request), await read_form(request)
    changes = {"pause": portal.runs.pause, "stop": portal.runs.stop, "resume": portal.runs.resume}
    name = request.path_params["what"]
    if name not in changes:
        raise NotFoundError(f"cannot {name} a run", hint=did_you_mean(name, changes))

    def apply() -> None:
        changes[name](portal.runs.find(form.get("run", "")))

    await anyio.to_thread.run_sync(apply)
    return RedirectResponse("/run", 303)


def annotated_files(folder: Path) -> tuple[list[str], bool]:
    """Return the files below *folder* with directives, and whether there may be more."""
    paths: list[str] = []
    for number, path in enumerate(_files(folder)):
        if number >= MOST_SCANNED or len(paths) >= MOST_LISTED:
            return paths, True
        if _has_directives(path):
            paths.append(path.relative_to(folder).as_posix())
    return paths, False


def check_annotated(portal: Portal, form: Mapping[str, str]) -> str:
    """Return the path in a form; raise InputError unless it is an annotated file of the project."""
    path = form.get("path", "")
    # Compared with the list, never opened as a form names it: no ".." can lead out.
    if path not in annotated_files(portal.settings.folder)[0]:
        raise InputError(
            f"{path!r} is not an annotated file of this project", hint="choose one from the list"
        )
    return path


def number_of(form: Mapping[str, str], name: str) -> int | None:
    """Return the whole number of an option in a form; None if it is empty."""
    text = form.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f"{name}: {text!r} is not a number", hint="a whole number, or nothing")
    return int(text)


def run_arguments(portal: Portal, form: Mapping[str, str]) -> list[str]:
    """Return the arguments of ``zen run``; raise InputError unless they name an annotated file."""
    path = check_annotated(portal, form)
    arguments = [
        f"--{name}={number}"
        for name in RUN_NUMBER_OPTIONS
        if (number := number_of(form, name)) is not None
    ]
    arguments += [f"--{o}={text}" for o in RUN_TEXT_OPTIONS if (text := form.get(o, "").strip())]
    # A file whose name begins with a hyphen is no option.
    return [*arguments, "--", path]


async def read_form(request: Request) -> dict[str, str]:
    """Return the values of a form; raise InputError if it is too long or not a form."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM_BYTES:
            raise InputError(f"the form is longer than {MOST_FORM_BYTES:,} bytes")
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=50))
    except ValueError as error:
        raise InputError("the request does not contain a form") from error


def _running_portal(request: Request) -> Portal:
    """Return the portal; raise SafetyError if it must not start studies."""
    portal = portal_of(request)
    if not portal.settings.allow_run:
        raise SafetyError("this portal cannot start studies", hint="zen portal --allow-run")
    return portal


def _runs(portal: Portal) -> Sequence[Mapping[str, object]]:
    snapshots = {snapshot.name: snapshot for snapshot in portal.watch.poll()}
    return [
        {
            "run": run,
            "is_alive": run.is_alive,
            "snapshot": snapshots.get(run.study),
            "output": portal.runs.output_tail(run),
            "study": address("/study", name=run.study),
        }
        for run in portal.runs.list_runs()
    ]


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < DEEPEST_FOLDER and not name.startswith(".") and name not in SKIPPED_FOLDERS
        )
        yield from (Path(where, name) for name in sorted(names) if not name.startswith("."))


def _has_directives(path: Path) -> bool:
    try:
        if not path.is_file() or path.suffix == ".md":
            return False
        with path.open("rb") as file:
            return DIRECTIVE_MARK in file.read(SCANNED_BYTES)
    except OSError:
        return False


# The queue of the service

MOST_FINISHED = 20
"""Finished submissions that are shown."""
NUMBER_OPTIONS = ("limit", "sample", "seed")
TEXT_OPTIONS = ("search", "budget", "objective", "only", "name", "on")


def page(request: Request) -> Response:
    """Return the queue, with a form for users who may submit."""
    portal, user = _serving_portal(request), user_of(request)
    may_run = user.role != "look"
    files, more = annotated_files(portal.settings.folder) if may_run else ([], False)
    return portal.page(
        request,
        "queue.html",
        **_table_values(portal, user),
        files=files,
        more=more,
        engines=plugins.names("search") if may_run else (),
    )


def waiting(request: Request) -> Response:
    """Return the table: the part of the page that is polled."""
    portal = _serving_portal(request)
    return HTMLResponse(portal.render("_queue.html", **_table_values(portal, user_of(request))))


def metrics(request: Request) -> Response:
    """Return the state of the queue for Prometheus."""
    portal = _serving_portal(request)
    served = is_served(portal.settings.folder / FOLDER)
    text = metrics_text(portal.repository, is_served=served)
    return PlainTextResponse(text, headers={"content-type": CONTENT_TYPE})


async def submit(request: Request) -> Response:
    """Submit a study, and redirect to the queue."""
    portal, user, form = _serving_portal(request), user_of(request), await read_form(request)
    await anyio.to_thread.run_sync(_submit, portal, user, form)
    return RedirectResponse("/queue", 303)


async def cancel(request: Request) -> Response:
    """Cancel a submission, and redirect to the queue."""
    portal, user, form = _serving_portal(request), user_of(request), await read_form(request)
    text = form.get("number", "")
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f"{text!r} is not a number of the queue")
    cancel_it = partial(
        submission_client.cancel_submission, portal.repository, int(text), user_name(user),
        is_admin=not user.name or user.role == "admin",  # by the link, nobody else has come
    )  # fmt: skip
    await anyio.to_thread.run_sync(cancel_it)
    return RedirectResponse("/queue", 303)


def user_of(request: Request) -> PortalUser:
    """Return the user of a request; the middleware has refused all others."""
    user: PortalUser = request.state.user
    return user


def user_name(user: PortalUser) -> str:
    """Return the name that the queue has for a user."""
    return user.name or "owner"


def study_request(portal: Portal, form: Mapping[str, str]) -> StudyRequest:
    """Return the request of a form; raise InputError unless it names an annotated file."""
    path = check_annotated(portal, form)
    options: dict[str, Any] = {
        name: text for name in TEXT_OPTIONS if (text := form.get(name, "").strip())
    }
    for name in NUMBER_OPTIONS:
        if (number := number_of(form, name)) is not None:
            options[name] = number
    return StudyRequest((str(portal.settings.folder / path),), **options)


def _submit(portal: Portal, user: PortalUser, form: Mapping[str, str]) -> None:
    submission_client.submit_study(portal.repository, study_request(portal, form), user_name(user))


def _table_values(portal: Portal, user: PortalUser) -> dict[str, Any]:
    submissions = portal.repository.submissions()
    finished = [
        submission for submission in submissions if submission.turn in FINISHED_SUBMISSION_STATES
    ]
    hidden = {submission.number for submission in finished[:-MOST_FINISHED]}
    shown: list[StudySubmission] = [s for s in submissions if s.number not in hidden]
    may_run = user.role != "look"
    return {"submissions": shown, "total": len(submissions), "may_run": may_run, "user": user}


def _serving_portal(request: Request) -> Portal:
    """Return the portal; raise SafetyError if it does not belong to a service."""
    portal = portal_of(request)
    if not portal.settings.serves:
        raise SafetyError("this portal has no queue", hint="start a service with zen serve")
    return portal
