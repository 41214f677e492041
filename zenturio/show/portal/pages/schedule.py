"""Schedules of workflows: who runs what and when, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zenturio.errors import ZenError
from zenturio.show.charts.schedule_query import SHOWS, PlanView, check, offered
from zenturio.show.portal.limited_process import run_limited
from zenturio.show.portal.pages.chart import sent, status_of
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

ENDINGS = (".json", ".yaml", ".yml", ".stg", ".dot", ".dax", ".xml", ".toml")
MOST_FILES = 200


def page(request: Request) -> Response:
    """What can be planned, and where the picture comes."""
    portal, view = portal_of(request), PlanView.of(request.query_params.multi_items())
    return portal.page(
        request,
        "schedule.html",
        view=view,
        algorithms=offered(slow=portal.settings.allow_run),
        shows=SHOWS,
        files=sorted(_files(portal.settings.folder)),
    )


def figure(request: Request) -> Response:
    """The picture as plotly takes it."""
    portal = portal_of(request)
    dark = request.query_params.get("dark") == "1"
    try:
        view = PlanView.of(request.query_params.multi_items())
        content = _drawn(portal, view, "schedule figure", dark=dark)
    except ZenError as error:
        return JSONResponse({"said": str(error)}, status_of(error))
    return Response(content, media_type="application/json")


def picture(request: Request) -> Response:
    """The picture as a file."""
    portal, view = portal_of(request), PlanView.of(request.query_params.multi_items())
    name = "-".join((view.workflow.partition(":")[0], view.algorithm, view.show))
    kind = request.path_params["format"]
    return sent(kind, lambda: _drawn(portal, view, "schedule file", format=kind), name)


def _drawn(portal: Portal, view: PlanView, task: str, **more: Any) -> bytes:
    """What a process of its own draws of a *view*; an address may ask for any amount of work."""
    settings = portal.settings
    check(view, settings.folder)  # what is refused needs no process
    facts = {"view": dict(view.given), "folder": str(settings.folder),
             "slow": settings.allow_run, **more}  # fmt: skip
    changed = tuple(_changed(settings.folder / text) for text in (view.workflow, view.on))
    key = (task, repr(view), changed, tuple(more.items()))
    return portal.kept.get(key, 0, lambda: run_limited(task, facts)).value


def _changed(path: Path) -> int:
    """When a file changed last; 0 of what is none."""
    try:
        return path.stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def _files(folder: Path) -> Iterator[str]:
    """Files that may hold workflows or machines, at the top and one level below."""
    count = 0
    for pattern in ("*", "*/*"):
        for path in folder.glob(pattern):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if path.suffix in ENDINGS and not hidden and path.is_file() and count < MOST_FILES:
                count += 1
                yield str(path.relative_to(folder))


ROUTES = (
    Route("/schedule", page),
    Route("/schedule/figure", figure),
    Route("/schedule/file.{format}", picture),
)
