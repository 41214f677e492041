"""Templates and static files of the pages, and how values are formatted in them."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import PlainTextResponse, Response

from zenturio.experiment import Missing, Series
from zenturio.query.result import cell
from zenturio.show.quantities import count, duration, rate, size

if TYPE_CHECKING:
    from starlette.requests import Request


FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
YEAR = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """A file as it is sent."""

    path: Path
    kind: str
    packed: bool
    version: str


def _found() -> dict[str, Asset]:
    found = {}
    for path in sorted(FOLDER.iterdir()):
        packed = path.suffix == ".gz"
        name = path.name.removesuffix(".gz")
        kind = TYPES.get(Path(name).suffix)
        if kind is not None:
            version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            found[name] = Asset(path, kind, packed, version)
    return found


@dataclass(frozen=True)
class Assets:
    """All files that may be asked for, by name: no path is made of what a request says."""

    known: Mapping[str, Asset] = field(default_factory=_found)

    def address(self, name: str) -> str:
        """Where a page finds the file *name*; another address for another content."""
        return f"/static/{name}?v={self.known[name].version}"

    def answer(self, request: Request) -> Response:
        """The file that *request* asks for."""
        asset = self.known.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("there is no such file", 404)
        content = asset.path.read_bytes()
        current = request.query_params.get("v") == asset.version
        headers = {"Cache-Control": YEAR if current else "no-cache", "Vary": "Accept-Encoding"}
        if asset.packed:
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers["Content-Encoding"] = "gzip"
            else:
                content = gzip.decompress(content)
        return Response(content, headers=headers, media_type=asset.kind)


LONGEST_CELL = 80
"""Characters of a cell."""
_SIGNS = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)}


class Page(NamedTuple):
    """A page that every other page has a link to."""

    target: str
    name: str
    key: str
    """Behind ``g`` on the keyboard."""


PAGES = (
    Page("/", "Studies", "h"),
    Page("/chart", "Charts", "p"),
    Page("/compare", "Compare", "c"),
    Page("/report", "Reports", "o"),
    Page("/schedule", "Schedules", "w"),
    Page("/sql", "SQL", "s"),
    Page("/run", "Run", "r"),
    Page("/queue", "Queue", "q"),
)


def templates(assets: Assets, *, allow_run: bool, serves: bool = False) -> Environment:
    """The templates of the package, with the words that they use."""
    found = Environment(
        loader=PackageLoader("zenturio.show.portal", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "count": count, "moment": moment, "ago": ago, "duration": duration, "rate": rate,
        "size": size, "cell": shown, "brief": brief, "iso": iso,
        "measure": measure, "mark": mark,
    }  # fmt: skip
    found.tests["missing"] = lambda value: isinstance(value, Missing)
    hidden = {"/run": not allow_run, "/queue": not serves}
    pages = [page for page in PAGES if not hidden.get(page.target)]
    found.globals |= {"static": assets.address, "address": address, "navigation": pages}
    return found


def address(path: str, given: Mapping[str, Any] | None = None, /, **changes: Any) -> str:
    """*path* with what is *given*, changed: what is None or empty is left out."""
    pairs = [
        (name, str(each))
        for name, value in {**(given or {}), **changes}.items()
        for each in (value if isinstance(value, tuple | list) else [value])
        if each is not None and each not in ("", False)
    ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def mark(name: str) -> str:
    """A name as pages compare it: in an attribute, browsers change the ends of lines."""
    return quote(name, safe="")


def shown(value: Any) -> str:
    """A value in a table."""
    return cell(value)


def measure(value: Any) -> str:
    """A metric of one experiment: nothing of it is left out."""
    if isinstance(value, Series):
        return ", ".join(map(measure, value.values))
    return repr(value) if isinstance(value, float) else shown(value)


def brief(value: Any) -> str:
    """A value in a cell: a long text without its middle."""
    text = shown(value)
    return (
        text
        if len(text) <= LONGEST_CELL
        else f"{text[: LONGEST_CELL // 2]} … {text[-LONGEST_CELL // 3 :]}"
    )


def readable(text: str) -> str:
    """*text* without loss: what is no sign of a page stands there as its number."""
    return text.translate(_SIGNS)


def moment(seconds: float | None) -> str:
    """A time as a person reads it, in UTC."""
    if not seconds:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def iso(seconds: float | None) -> str:
    """A time as a program reads it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else ""


def ago(seconds: float | None, now: float | None = None) -> str:
    """``3 min ago``"""
    if not seconds:
        return "never"
    passed = (time.time() if now is None else now) - seconds
    if passed < 5:
        return "just now"
    return f"{_round(passed)} ago"


def _round(seconds: float) -> str:
    for unit, size_ in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size_:
            return f"{int(seconds // size_)} {unit}"
    return f"{int(seconds)} s"
