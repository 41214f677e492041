"""Reports: charts and words, written in Markdown, shared as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlencode

import anyio.to_thread
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from zenturio.errors import InputError, NotFoundError
from zenturio.show.portal.limited_process import run_limited
from zenturio.show.portal.pages.chart import attached
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.report import MOST, PICTURES, read
from zenturio.show.report_store import FORMATS, Reports, mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

TYPES = {"html": "text/html; charset=utf-8", "png": "image/png", "svg": "image/svg+xml",
         "pdf": "application/pdf"}  # fmt: skip


def overview(request: Request) -> Response:
    """All reports, and how to begin one."""
    portal = portal_of(request)
    names = _reports(portal).names()
    return portal.page(request, "reports.html", names=names, given=None)


def adding(request: Request) -> Response:
    """Into which report a picture goes."""
    portal = portal_of(request)
    pairs = [(n, v) for n, v in request.query_params.multi_items() if n not in ("picture", "rows")]
    path = "/" + request.query_params.get("picture", "chart")
    if path not in PICTURES:
        raise NotFoundError(f"no picture has the address {path!r}")
    target = f"{path}?{urlencode(pairs)}"
    return portal.page(request, "reports.html", names=_reports(portal).names(), given=target)


async def add(request: Request) -> Response:
    """Put a picture into a report, and show that."""
    asked = await _typed(request)
    target, name = asked.get("target", ""), asked.get("name", "").strip()
    name = name or asked.get("known", "")
    if target and target.partition("?")[0] not in PICTURES:
        raise InputError("that is no picture of this portal", hint="open one, and put it in there")
    reports = _reports(portal_of(request))
    if target:
        await anyio.to_thread.run_sync(reports.add, name, asked.get("said", ""), target)
    elif name not in reports.names():
        await anyio.to_thread.run_sync(reports.save, name, f"# {name}\n\n")
    return RedirectResponse(_address(name), 303)


def report(request: Request) -> Response:
    """A report, as it is now."""
    portal, name = portal_of(request), request.path_params["name"]
    text = _reports(portal).text(name)
    return portal.page(
        request,
        "report.html",
        name=name,
        report=read(text, name),
        text=text,
        known=mark(text),
        formats=FORMATS,
        edited="edit" in request.query_params,
    )


async def save(request: Request) -> Response:
    """Keep what was written."""
    name, asked = request.path_params["name"], await _typed(request)
    text = "\n".join(asked.get("text", "").splitlines()).rstrip() + "\n"
    reports = _reports(portal_of(request))
    await anyio.to_thread.run_sync(reports.save, name, text, asked.get("known", ""))
    return RedirectResponse(_address(name), 303)


def download(request: Request) -> Response:
    """A report as one file."""
    portal, name = portal_of(request), request.path_params["name"]
    kind, settings = request.path_params["format"], portal.settings
    facts = {"text": _reports(portal).text(name), "name": name, "format": kind, "db": settings.db,
             "folder": str(settings.folder), "slow": settings.allow_run}  # fmt: skip
    content = run_limited("report file", facts)
    headers = {"Content-Disposition": attached(f"{name}.{kind}")}
    return Response(content, headers=headers, media_type=TYPES[kind])


def _reports(portal: Portal) -> Reports:
    return Reports(Path(portal.settings.folder))


def _address(name: str) -> str:
    return f"/report/of/{quote(name)}"


async def _typed(request: Request) -> Mapping[str, str]:
    """A form that is no larger than a report is."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > 3 * MOST + 4096:  # each byte may be written with three
            raise InputError(f"a report of more than {MOST:,} bytes", hint="make two of it")
    found = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
    return {name: values[0] for name, values in found.items()}


ROUTES = (
    Route("/report", overview),
    Route("/report/add", adding),
    Route("/report/add", add, methods=["POST"]),
    Route("/report/of/{name}", report),
    Route("/report/of/{name}", save, methods=["POST"]),
    Route("/report/of/{name}/file.{format}", download),
)
