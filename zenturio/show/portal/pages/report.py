"""The pages of reports (charts and text in Markdown, shared as one file) and of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode

import anyio.to_thread
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from zenturio.errors import InputError, NotFoundError, ZenError
from zenturio.show.charts.chart_query import CHARTS, ScheduleQuery, check_limits, offered_algorithms
from zenturio.show.markdown_report import CHART_PATHS, MOST_BYTES, parse_report
from zenturio.show.portal.limited_process import run_limited
from zenturio.show.portal.pages.chart import attachment, file_response, status_of
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.report_store import FORMATS, ReportStore, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request


MEDIA_TYPES = {"html": "text/html; charset=utf-8", "png": "image/png", "svg": "image/svg+xml",
               "pdf": "application/pdf"}  # fmt: skip


def overview(request: Request) -> Response:
    """Return all reports, and a form to create one."""
    portal = portal_of(request)
    return portal.page(request, "reports.html", names=_store(portal).names(), target=None)


def choose_report(request: Request) -> Response:
    """Return a form to choose the report that a chart is added to."""
    portal, parameters = portal_of(request), request.query_params
    values = [(n, v) for n, v in parameters.multi_items() if n not in ("chart", "rows")]
    path = "/" + parameters.get("chart", "chart")
    if path not in CHART_PATHS:
        raise NotFoundError(f"there is no chart at {path!r}")
    target = f"{path}?{urlencode(values)}"
    return portal.page(request, "reports.html", names=_store(portal).names(), target=target)


async def add(request: Request) -> Response:
    """Add a chart to a report, or create a report, and redirect to it."""
    form = await _read_form(request)
    target, name = form.get("target", ""), form.get("name", "").strip()
    name = name or form.get("known", "")
    if target and target.partition("?")[0] not in CHART_PATHS:
        raise InputError("this is not a chart of this portal", hint="open a chart and add it there")
    store = _store(portal_of(request))
    if target:
        await anyio.to_thread.run_sync(store.add, name, form.get("said", ""), target)
    elif name not in store.names():
        await anyio.to_thread.run_sync(store.save, name, f"# {name}\n\n")
    return RedirectResponse(_address(name), 303)


def report(request: Request) -> Response:
    """Return the page of a report."""
    portal, name = portal_of(request), request.path_params["name"]
    text = _store(portal).text(name)
    return portal.page(
        request,
        "report.html",
        name=name,
        report=parse_report(text, name),
        text=text,
        version=version_of(text),
        formats=FORMATS,
        is_edited="edit" in request.query_params,
    )


async def save(request: Request) -> Response:
    """Save the text of a report, and redirect to it."""
    name, form = request.path_params["name"], await _read_form(request)
    text = "\n".join(form.get("text", "").splitlines()).rstrip() + "\n"
    store = _store(portal_of(request))
    await anyio.to_thread.run_sync(store.save, name, text, form.get("known", ""))
    return RedirectResponse(_address(name), 303)


def download(request: Request) -> Response:
    """Return a report as one file."""
    portal, name = portal_of(request), request.path_params["name"]
    file_format, settings = request.path_params["format"], portal.settings
    arguments = {
        "text": _store(portal).text(name),
        "name": name,
        "format": file_format,
        "db": settings.db,
        "folder": str(settings.folder),
        "slow": settings.allow_run,
    }
    content = run_limited("report file", arguments)
    headers = {"Content-Disposition": attachment(f"{name}.{file_format}")}
    return Response(content, headers=headers, media_type=MEDIA_TYPES[file_format])


def _store(portal: Portal) -> ReportStore:
    return ReportStore(Path(portal.settings.folder))


def _address(name: str) -> str:
    return f"/report/of/{quote(name)}"


async def _read_form(request: Request) -> Mapping[str, str]:
    """Return the values of a form; raise InputError if it is larger than a report can be."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > 3 * MOST_BYTES + 4096:  # a byte takes up to three in a form
            raise InputError(f"the report is longer than {MOST_BYTES:,} bytes", hint="split it")
    values = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
    return {name: texts[0] for name, texts in values.items()}


ROUTES = (
    Route("/report", overview),
    Route("/report/add", choose_report),
    Route("/report/add", add, methods=["POST"]),
    Route("/report/of/{name}", report),
    Route("/report/of/{name}", save, methods=["POST"]),
    Route("/report/of/{name}/file.{format}", download),
)


# The schedule page: Gantt charts of plans, and graphs of workflows

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
    """Draw a chart in a process of its own, because a URL may request any amount of work."""
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


SCHEDULE_ROUTES = (
    Route("/schedule", page),
    Route("/schedule/figure", figure),
    Route("/schedule/file.{format}", chart_file),
)
