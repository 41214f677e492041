"""Start, pause, resume and stop studies of annotated files in the project folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.responses import HTMLResponse, RedirectResponse, Response

from zenturio import plugins
from zenturio.errors import InputError, NotFoundError, SafetyError, did_you_mean
from zenturio.show.portal.page_templates import address
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request


MARK = b"ZEN$"
LOOKED = 256 * 1024
"""Bytes of a file that are looked at for directives."""
MOST = 5000
"""Files that are looked at."""
LISTED = 200
DEEPEST = 4
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "build", "dist"})
LONGEST = 20_000
"""Bytes of a form."""
NUMBERS = ("limit", "sample", "jobs", "seed")
TEXTS = ("search", "budget", "only", "name", "objective", "on")
"""Options of ``zen run`` that a form has."""


def page(request: Request) -> Response:
    """What runs, and what can be run."""
    portal = _allowed(request)
    files, more = annotated(portal.settings.folder)
    return portal.page(request, "run.html", runs=_runs(portal), files=files, more=more)


def runs(request: Request) -> Response:
    """What runs: a part of the page, asked for again."""
    portal = _allowed(request)
    return HTMLResponse(portal.render("_runs.html", runs=_runs(portal)))


def options(request: Request) -> Response:
    """How a file may be run; nothing of it is read before somebody asks for the plan."""
    return _plan_page(_allowed(request), request, dict(request.query_params))


async def plan(request: Request) -> Response:
    """Show what would be run, and the button that does.

    Planning may import modules of the project: whoever only follows a link starts nothing.
    """
    portal, asked = _allowed(request), await form(request)
    return await anyio.to_thread.run_sync(partial(_planned, portal, request, asked))


def _planned(portal: Portal, request: Request, asked: Mapping[str, str]) -> Response:
    try:
        found = portal.runs.plan(words(portal, asked))
    except InputError as error:
        return _plan_page(portal, request, asked, diagnostic=str(error))
    return _plan_page(portal, request, asked, found)


def _plan_page(
    portal: Portal,
    request: Request,
    asked: Mapping[str, str],
    plan: Mapping[str, object] | None = None,
    diagnostic: str = "",
) -> Response:
    return portal.page(
        request,
        "plan.html",
        400 if diagnostic else 200,
        asked=asked,
        plan=plan,
        diagnostic=diagnostic,
        command=shlex.join(["zen", "run", *words(portal, asked)]),
        engines=plugins.names("search"),
    )


async def start(request: Request) -> Response:
    """Begin, and go back to what runs."""
    portal, asked = _allowed(request), await form(request)

    def begin() -> None:
        portal.runs.start(asked.get("study", ""), words(portal, asked))

    await anyio.to_thread.run_sync(begin)
    return RedirectResponse("/run", 303)


async def change(request: Request) -> Response:
    """Pause, resume or stop a run."""
    portal, asked = _allowed(request), await form(request)
    changes = {"pause": portal.runs.pause, "stop": portal.runs.stop, "resume": portal.runs.resume}
    what = request.path_params["what"]
    if what not in changes:
        raise NotFoundError(f"nobody can {what} a run", hint=did_you_mean(what, changes))

    def go() -> None:
        changes[what](portal.runs.run(asked.get("run", "")))

    await anyio.to_thread.run_sync(go)
    return RedirectResponse("/run", 303)


def annotated(folder: Path) -> tuple[list[str], bool]:
    """The files below *folder* that have directives; whether there may be more."""
    found: list[str] = []
    for number, path in enumerate(_files(folder)):
        if number >= MOST or len(found) >= LISTED:
            return found, True
        if _has_directives(path):
            found.append(path.relative_to(folder).as_posix())
    return found, False


def words(portal: Portal, asked: Mapping[str, str]) -> list[str]:
    """The words behind ``zen run``; InputError unless they name a file that we have found."""
    path = asked.get("path", "")
    if path not in annotated(portal.settings.folder)[0]:
        raise InputError(f"{path!r} is no annotated file of this project", hint="choose one")
    found = []
    for option in NUMBERS:
        if text := asked.get(option, "").strip():
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                raise InputError(f"{option}: {text!r} is no number", hint="a whole number, or none")
            found.append(f"--{option}={int(text)}")
    found += [f"--{o}={text}" for o in TEXTS if (text := asked.get(o, "").strip())]
    return [*found, "--", path]


async def form(request: Request) -> dict[str, str]:
    """What a form says; InputError if it is longer than one is."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise InputError("the form is too long")
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=50))
    except ValueError as error:
        raise InputError("that is no form") from error


def _allowed(request: Request) -> Portal:
    portal = portal_of(request)
    if not portal.settings.allow_run:
        raise SafetyError(
            "this portal shows studies, and starts none", hint="zen portal --allow-run"
        )
    return portal


def _runs(portal: Portal) -> Sequence[Mapping[str, object]]:
    studies = {seen.name: seen for seen in portal.watch.look()}
    return [
        {"run": run, "alive": run.alive, "seen": studies.get(run.study),
         "printed": portal.runs.printed(run), "study": address("/study", name=run.study)}
        for run in portal.runs.all()
    ]  # fmt: skip


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < DEEPEST and not name.startswith(".") and name not in SKIPPED
        )
        yield from (Path(where, name) for name in sorted(names) if not name.startswith("."))


def _has_directives(path: Path) -> bool:
    try:
        if not path.is_file() or path.suffix == ".md":
            return False
        with path.open("rb") as file:
            return MARK in file.read(LOOKED)
    except OSError:
        return False
