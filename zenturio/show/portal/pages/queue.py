"""The queue of the service: show it, submit studies, cancel submissions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from zenturio import plugins
from zenturio.errors import InputError, SafetyError
from zenturio.record import FINISHED_SUBMISSION_STATES, StudySubmission
from zenturio.record.open import FOLDER
from zenturio.show.portal.access import PortalUser
from zenturio.show.portal.pages.run import annotated_files, check_annotated, number_of, read_form
from zenturio.show.portal.state import Portal, portal_of
from zenturio.study.service import submission_queue
from zenturio.study.service.service_metrics import CONTENT_TYPE, metrics_text
from zenturio.study.study_request import StudyRequest

if TYPE_CHECKING:
    from starlette.requests import Request

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
    served = submission_queue.is_served(portal.settings.folder / FOLDER)
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
        submission_queue.cancel_submission, portal.repository, int(text), user_name(user),
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
    submission_queue.submit_study(portal.repository, study_request(portal, form), user_name(user))


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
