"""The schedule page: Gantt charts of plans, and graphs of workflows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zenturio.errors import ZenError
from zenturio.show.charts.schedule_query import (
    CHARTS,
    ScheduleQuery,
    check_limits,
    offered_algorithms,
)
from zenturio.show.portal.limited_process import run_limited
from zenturio.show.portal.pages.chart import file_response, status_of
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

FILE_SUFFIXES = (".json", ".yaml", ".yml", ".stg", ".dot", ".dax", ".xml", ".toml")
MOST_FILES = 200


def page(request: Request) -> Response:
    """Return the page; its figure is loaded later."""
    portal, query = portal_of(request), _query_of(request)
    return portal.page(
        request,
        "schedule.html",
        query=query,
        algorithms=offered_algorithms(slow=portal.settings.allow_run),
        charts=CHARTS,
        files=sorted(_files(portal.settings.folder)),
    )


def figure(request: Request) -> Response:
    """Return the figure for plotly.js."""
    portal = portal_of(request)
    dark = request.query_params.get("dark") == "1"
    try:
        content = _draw(portal, _query_of(request), "schedule figure", dark=dark)
    except ZenError as error:
        return JSONResponse({"error": str(error)}, status_of(error))
    return Response(content, media_type="application/json")


def chart_file(request: Request) -> Response:
    """Return the chart as a file."""
    portal, query = portal_of(request), _query_of(request)
    name = "-".join((query.workflow.partition(":")[0], query.algorithm, query.show))

    def draw(file_format: str) -> bytes:
        return _draw(portal, query, "schedule file", format=file_format)

    return file_response(request, draw, name)


def _query_of(request: Request) -> ScheduleQuery:
    return ScheduleQuery.from_address(request.query_params.multi_items())


def _draw(portal: Portal, query: ScheduleQuery, task: str, **options: Any) -> bytes:
    """Return what a process of its own draws: an address may ask for any amount of work."""
    settings = portal.settings
    check_limits(query, settings.folder)  # what is refused needs no process
    arguments = {"query": dict(query.to_address()), "folder": str(settings.folder),
                 "slow": settings.allow_run, **options}  # fmt: skip
    modified = tuple(_modified_ns(settings.folder / text) for text in (query.workflow, query.on))
    key = (task, repr(query), modified, tuple(options.items()))
    return portal.results.get(key, 0, lambda: run_limited(task, arguments)).value


def _modified_ns(path: Path) -> int:
    """Return when a file was modified; 0 if there is no such file."""
    try:
        return path.stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


def _files(folder: Path) -> Iterator[str]:
    """Yield files that may contain workflows or machines, at the top and one level below."""
    count = 0
    for pattern in ("*", "*/*"):
        for path in folder.glob(pattern):
            is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if path.suffix in FILE_SUFFIXES and not is_hidden and path.is_file():
                count += 1
                if count > MOST_FILES:
                    return
                yield str(path.relative_to(folder))


ROUTES = (
    Route("/schedule", page),
    Route("/schedule/figure", figure),
    Route("/schedule/file.{format}", chart_file),
)
