"""Schedules of workflows: who runs what and when, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zenturio.errors import ZenError
from zenturio.show.planned import SHOWS, PlanView, offered, scene
from zenturio.show.portal.charting import figure_json
from zenturio.show.portal.pages.chart import sent, status_of
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.show.scene import Scene

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
    try:
        view = PlanView.of(request.query_params.multi_items())
        found = _scene(portal, view)
    except ZenError as error:
        return JSONResponse({"said": str(error)}, status_of(error))
    one = figure_json(found, dark=request.query_params.get("dark") == "1") | {"brush": None}
    return JSONResponse({"figures": [one], "sql": "", "chosen": {}})


def picture(request: Request) -> Response:
    """The picture as a file."""
    portal, view = portal_of(request), PlanView.of(request.query_params.multi_items())
    name = "-".join((view.workflow.partition(":")[0], view.algorithm, view.show))
    return sent(request.path_params["format"], _scene(portal, view), name)


def _scene(portal: Portal, view: PlanView) -> Scene:
    settings = portal.settings
    changed = tuple(_changed(settings.folder / text) for text in (view.workflow, view.on))
    return portal.kept.get(
        ("schedule", repr(view), changed),
        0,
        lambda: scene(view, settings.folder, slow=settings.allow_run),
    ).value


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
