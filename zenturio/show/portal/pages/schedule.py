"""Schedules of workflows: who runs what and when, and what waits for what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zenturio.errors import InputError, NotFoundError, SafetyError, ZenError, did_you_mean
from zenturio.show.portal.charting import settled
from zenturio.show.portal.pages.chart import sent
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.portal.words import address

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from zenturio.schedule.algorithm import Description
    from zenturio.show.scene import Scene

SHOWS = {"gantt": "who runs what and when", "graph": "what waits for what"}
OFFERED = ("static", "just-in-time", "moldable", "exact")
"""Kinds of algorithms that make a plan before anything runs."""
LONG = ("anneal", "cp-sat", "ga", "ga-2005", "moldable-front")
"""Those that search: for who may run something."""
GREATEST = 5_000
"""What a generator may be asked for: more tasks than that nobody tells apart in a page."""
ENDINGS = (".json", ".yaml", ".yml", ".stg", ".dot", ".dax", ".xml", ".toml")
MOST_FILES = 200


@dataclass(frozen=True)
class View:
    """A state of the page: its address says all of it."""

    workflow: str = "wien2k:kpoints=8"
    on: str = "identical:4"
    algorithm: str = "heft"
    seed: int = 0
    show: str = "gantt"

    @classmethod
    def of(cls, given: QueryParams) -> View:
        seed = given.get("seed") or "0"
        if not (seed.isascii() and seed.isdecimal() and len(seed) < 10):
            raise InputError(f"seed {seed}", cure="a whole number from 0 on")
        usual = cls()
        found = cls(
            given.get("workflow", usual.workflow).strip(),
            given.get("on", usual.on).strip(),
            given.get("algorithm") or usual.algorithm,
            int(seed),
            given.get("show") or usual.show,
        )
        if found.show not in SHOWS:
            cure = did_you_mean(found.show, SHOWS)
            raise InputError(f"nothing is shown by {found.show!r}", cure=cure)
        return found

    @property
    def given(self) -> Mapping[str, Any]:
        return {"workflow": self.workflow, "on": self.on, "algorithm": self.algorithm,
                "seed": self.seed or "", "show": self.show}  # fmt: skip

    def address(self, path: str = "/schedule", **changes: Any) -> str:
        return address(path, self.given, **changes)


def page(request: Request) -> Response:
    """What can be planned, and where the picture comes."""
    portal, view = portal_of(request), View.of(request.query_params)
    files = sorted(_files(portal.settings.folder))
    return portal.page(
        request, "schedule.html", view=view, algorithms=_offered(portal), shows=SHOWS, files=files
    )


def figure(request: Request) -> Response:
    """The picture as plotly takes it."""
    from zenturio.show.night import night  # noqa: PLC0415 - plotly loads slowly
    from zenturio.show.paged import scene_figure  # noqa: PLC0415

    portal = portal_of(request)
    try:
        view = View.of(request.query_params)
        scene = portal.kept.get(("schedule", repr(view)), 0, lambda: _scene(portal, view)).value
    except ZenError as error:
        status = 403 if isinstance(error, SafetyError) else 400
        return JSONResponse({"said": str(error)}, status)
    drawn = cast("dict[str, Any]", json.loads(scene_figure(scene).to_json()))
    if request.query_params.get("dark") == "1":
        drawn = night(drawn)
    facts = {"title": scene.title, "note": scene.note, "kind": view.show, "brush": None}
    figures = [facts | settled(drawn, top=20)]
    return JSONResponse({"figures": figures, "sql": "", "chosen": {}})


def picture(request: Request) -> Response:
    """The picture as a file."""
    portal, view = portal_of(request), View.of(request.query_params)
    kind = request.path_params["format"]
    name = "-".join((view.workflow.partition(":")[0], view.algorithm, view.show))
    return sent(kind, _scene(portal, view), name)


def _scene(portal: Portal, view: View) -> Scene:
    from zenturio.schedule.generators import instance_of  # noqa: PLC0415 - numba loads slowly
    from zenturio.schedule.planning import Planning  # noqa: PLC0415
    from zenturio.show import gantt, graph  # noqa: PLC0415

    folder = portal.settings.folder
    for text in (view.workflow, view.on):
        _check(folder, text)
    if view.show == "graph":
        path = folder / view.workflow
        return graph(instance_of(str(path) if path.is_file() else view.workflow).workflow)
    known = [each.name for each in _offered(portal)]
    if view.algorithm not in known:
        cure = did_you_mean(view.algorithm, known)
        if view.algorithm in LONG:
            cure = "zen schedule in a terminal, or a portal with --allow-run"
        raise NotFoundError(f"nothing plans here that is called {view.algorithm!r}", cure=cure)
    asked = Planning(view.workflow, view.on, view.algorithm, seed=view.seed, folder=folder)
    return gantt(asked.plan())


def _offered(portal: Portal) -> list[Description]:
    from zenturio.errors import PluginError  # noqa: PLC0415
    from zenturio.schedule.algorithm import describe, names  # noqa: PLC0415

    found = []
    for name in names():
        if name in LONG and not portal.settings.allow_run:
            continue
        try:
            each = describe(name)
        except PluginError:  # one that does not load does not hide the others
            continue
        if each.kind in OFFERED:
            found.append(replace(each, settings=()))
    return found


def _check(folder: Path, text: str) -> None:
    """Refuse files outside of the project, and more than a page can show."""
    pieces = [text, *(pair.partition("=")[2] for pair in text.partition(":")[2].split(","))]
    pieces.append(text.partition(":")[2])
    home = folder.resolve()
    for piece in filter(None, pieces):
        if piece.isdecimal() and int(piece[:9]) > GREATEST:
            raise InputError(
                f"{piece} in {text!r} is more than a page shows",
                cure=f"up to {GREATEST:,}; zen schedule in a terminal has no such limit",
            )
        try:
            inside = (home / piece).resolve().is_relative_to(home)
        except (OSError, ValueError):  # what no path can be
            inside = False
        if not inside:
            raise SafetyError(f"{piece} is not in the project's folder", cure="copy it to there")


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
