"""The queue of the service: what was submitted and where it stands; submitting, cancelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.responses import HTMLResponse, RedirectResponse, Response

from zenturio import plugins
from zenturio.errors import InputError, SafetyError
from zenturio.record import OVER, Submission
from zenturio.show.portal.access import Guest
from zenturio.show.portal.pages.run import annotated, form
from zenturio.show.portal.state import Portal, portal_of
from zenturio.study import submitting
from zenturio.study.request import Request as Wish

if TYPE_CHECKING:
    from starlette.requests import Request

LATELY = 20
"""Studies that are over and still shown."""
NUMBERS = ("limit", "sample", "seed")
TEXTS = ("search", "budget", "objective", "only", "name", "on")


def page(request: Request) -> Response:
    """The queue, and a form for those who may submit."""
    portal, guest = _served(request), guest_of(request)
    may = guest.role == "run"
    files, more = annotated(portal.settings.folder) if may else ([], False)
    return portal.page(
        request,
        "queue.html",
        **_facts(portal, guest),
        files=files,
        more=more,
        engines=plugins.names("search") if may else (),
    )


def waiting(request: Request) -> Response:
    """The table: a part of the page, asked for again."""
    portal = _served(request)
    return HTMLResponse(portal.render("_queue.html", **_facts(portal, guest_of(request))))


async def submit(request: Request) -> Response:
    """Put a study into the queue, and go back to it."""
    portal, guest, asked = _served(request), guest_of(request), await form(request)
    await anyio.to_thread.run_sync(_submit, portal, guest, asked)
    return RedirectResponse("/queue", 303)


async def cancel(request: Request) -> Response:
    """Take a study off the queue, and go back to it."""
    portal, guest, asked = _served(request), guest_of(request), await form(request)
    number = asked.get("number", "")
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise InputError(f"{number!r} is no number in the queue")
    await anyio.to_thread.run_sync(
        submitting.cancel, portal.repository, int(number), name_of(guest)
    )
    return RedirectResponse("/queue", 303)


def guest_of(request: Request) -> Guest:
    """Who asks; the gate lets nobody else through."""
    found: Guest = request.state.guest
    return found


def name_of(guest: Guest) -> str:
    """As the queue names them."""
    return guest.name or "owner"


def wish(portal: Portal, asked: Mapping[str, str]) -> Wish:
    """What a form asks for; InputError unless it names a file that we have found."""
    path = asked.get("path", "")
    if path not in annotated(portal.settings.folder)[0]:
        raise InputError(f"{path!r} is no annotated file of this project", hint="choose one")
    told: dict[str, Any] = {n: text for n in TEXTS if (text := asked.get(n, "").strip())}
    for name in NUMBERS:
        if text := asked.get(name, "").strip():
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                raise InputError(f"{name}: {text!r} is no number", hint="a whole number, or none")
            told[name] = int(text)
    return Wish((str(portal.settings.folder / path),), **told)


def _submit(portal: Portal, guest: Guest, asked: Mapping[str, str]) -> None:
    submitting.submit(portal.repository, wish(portal, asked), name_of(guest))


def _facts(portal: Portal, guest: Guest) -> dict[str, Any]:
    everything = portal.repository.submissions()
    over = [each for each in everything if each.turn in OVER]
    left = {each.number for each in over[:-LATELY]}
    shown: list[Submission] = [each for each in everything if each.number not in left]
    return {"submissions": shown, "of": len(everything), "may": guest.role == "run", "guest": guest}


def _served(request: Request) -> Portal:
    portal = portal_of(request)
    if not portal.settings.serves:
        raise SafetyError("no service runs here that would take studies", hint="zen serve")
    return portal
