"""Templates and static files of pages, formatting of values, and the address of a table."""

from __future__ import annotations

import gzip
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse, Response

from zenturio.errors import InputError, Passage, did_you_mean
from zenturio.experiment import Missing, Series
from zenturio.expression import parse
from zenturio.quantities import count, duration, iso_time, rate, size, utc_time
from zenturio.query.result_table import display_value
from zenturio.query.study_table import TableQuery
from zenturio.record import EXPERIMENT_STATES, ExperimentState
from zenturio.record.entities import RowChoice, read_round

if TYPE_CHECKING:
    from starlette.requests import Request


STATIC_FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
CACHE_FOR_A_YEAR = "private, max-age=31536000, immutable"
LONGEST_CELL = 80
"""Characters of a cell; a longer text is cut in its middle."""
_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)}


@dataclass(frozen=True)
class Asset:
    """A static file."""

    path: Path
    media_type: str
    is_compressed: bool
    version: str
    """A digest of its content."""


def _package_files() -> dict[str, Asset]:
    assets = {}
    for path in sorted(STATIC_FOLDER.iterdir()):
        name = path.name.removesuffix(".gz")
        media_type = MEDIA_TYPES.get(Path(name).suffix)
        if media_type is not None:
            version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            assets[name] = Asset(path, media_type, path.suffix == ".gz", version)
    return assets


@dataclass(frozen=True)
class Assets:
    """All static files, by name: no path is made of anything that a request says."""

    files: Mapping[str, Asset] = field(default_factory=_package_files)

    def address(self, name: str) -> str:
        """Return the address of the file *name*, which changes with its content."""
        return f"/static/{name}?v={self.files[name].version}"

    def answer(self, request: Request) -> Response:
        """Return the file that *request* names."""
        asset = self.files.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("this file does not exist", 404)
        content = asset.path.read_bytes()
        # An address without the current version must not be cached for a year with this content.
        is_current = request.query_params.get("v") == asset.version
        headers = {
            "Cache-Control": CACHE_FOR_A_YEAR if is_current else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if asset.is_compressed:
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers["Content-Encoding"] = "gzip"
            else:
                content = gzip.decompress(content)
        return Response(content, headers=headers, media_type=asset.media_type)


class NavigationPage(NamedTuple):
    """A page in the navigation bar."""

    target: str
    name: str
    key: str
    """The keyboard shortcut, after ``g``."""


NAVIGATION = (
    NavigationPage("/", "Studies", "h"),
    NavigationPage("/chart", "Charts", "p"),
    NavigationPage("/compare", "Compare", "c"),
    NavigationPage("/report", "Reports", "o"),
    NavigationPage("/schedule", "Schedules", "w"),
    NavigationPage("/sql", "SQL", "s"),
    NavigationPage("/run", "Run", "r"),
    NavigationPage("/queue", "Queue", "q"),
)


def page_environment(assets: Assets, *, allow_run: bool, serves: bool = False) -> Environment:
    """Return the environment of the templates, with their filters and globals."""
    environment = Environment(
        loader=PackageLoader("zenturio.show.portal", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": relative_time,
        "brief": short_text,
        "cell": cell_text,
        "count": count,
        "duration": duration,
        "iso": iso_time,
        "mark": attribute_name,
        "measure": full_value,
        "moment": utc_time,
        "rate": rate,
        "size": size,
    }
    environment.tests["missing"] = lambda value: isinstance(value, Missing)
    hidden = {"/run": not allow_run, "/queue": not serves}
    pages = [page for page in NAVIGATION if not hidden.get(page.target)]
    environment.globals |= {"static": assets.address, "address": address, "navigation": pages}
    return environment


def address(path: str, values: Mapping[str, Any] | None = None, /, **changes: Any) -> str:
    """Return *path* with *values* and *changes* as its query string, without empty ones."""
    pairs = [
        (name, str(part))
        for name, value in {**(values or {}), **changes}.items()
        for part in (value if isinstance(value, tuple | list) else [value])
        if part is not None and part not in ("", False)
    ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def attribute_name(name: str) -> str:
    """Return *name* for an attribute that scripts compare: browsers change line ends there."""
    return quote(name, safe="")


def cell_text(value: Any) -> str:
    """Return a value in a table, rounded to six digits."""
    return display_value(value)


def full_value(value: Any) -> str:
    """Return a value with all its digits."""
    if isinstance(value, Series):
        return ", ".join(map(full_value, value.values))
    return repr(value) if isinstance(value, float) else cell_text(value)


def short_text(value: Any) -> str:
    """Return a value in a cell; of a long text the middle is left out."""
    text = cell_text(value)
    if len(text) <= LONGEST_CELL:
        return text
    return f"{text[: LONGEST_CELL // 2]} … {text[-LONGEST_CELL // 3 :]}"


def printable(text: str) -> str:
    """Return *text* with control characters written as escapes."""
    return text.translate(_CONTROL_CHARACTERS)


def relative_time(seconds: float | None, now: float | None = None) -> str:
    """Return ``just now``, ``3 minutes ago``, ``2 days ago``; ``never`` for none."""
    if not seconds or not math.isfinite(seconds):
        return "never"
    passed = (time.time() if now is None else now) - seconds
    if passed < 5:
        return "just now"
    units = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600),
             ("minute", 60), ("second", 1))  # fmt: skip
    unit, length = next((unit, length) for unit, length in units if passed >= length)
    number = int(passed // length)
    return f"{number} {unit}{'' if number == 1 else 's'} ago"


# The query of a study's table, as the address of a page states it


@dataclass(frozen=True)
class StudyQuery:
    """A table of a study, and the page of it that is shown."""

    name: str
    where: str = ""
    state: str = ""
    sort: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    after: str = ""
    """The last row of the previous page: its digest, and after a dash its number."""
    before: str = ""
    """The first row of the next page, likewise; ``end`` for the last page."""
    machine: str = ""
    """The kind of machine whose results are shown: its label, or a part of it."""
    round: str = ""
    """The round whose results are shown: a number, or ``all``; default: the newest."""

    @classmethod
    def from_address(cls, parameters: QueryParams, resolve: Callable[[str], str]) -> StudyQuery:
        """Return the query of an address; *resolve* returns the study that a name stands for.

        Raise InputError if there is no such state.
        """
        query = cls(
            resolve(study_name(parameters)),
            parameters.get("where", "").strip(),
            parameters.get("state", ""),
            tuple(filter(None, parameters.getlist("sort"))),
            tuple(filter(None, parameters.getlist("column"))),
            parameters.get("after", ""),
            parameters.get("before", ""),
            parameters.get("machine", "").strip(),
            parameters.get("round", "").strip(),
        )
        if query.state and query.state not in EXPERIMENT_STATES:
            hint = did_you_mean(query.state, EXPERIMENT_STATES)
            raise InputError(f"there is no state {query.state!r}", hint=hint)
        return query

    def table_query(self, *, repeats: bool = False) -> TableQuery:
        """Return the query for the database; an error in the condition has its position."""
        where = parse(Passage.of(self.where, "filter")) if self.where else None
        states = (cast("ExperimentState", self.state),) if self.state else ()
        rows = RowChoice(self.machine, read_round(self.round))
        return TableQuery(
            self.name, where, states, self.sort, self.columns, repeats, rows, own_first=True
        )

    def to_address(self) -> Mapping[str, Any]:
        """Return the names and values of an address, but for the page of the table."""
        return {
            "name": self.name, "where": self.where, "state": self.state,
            "sort": self.sort, "column": self.columns,
            "machine": self.machine, "round": self.round,
        }  # fmt: skip

    def address(self, path: str = "/study", **changes: Any) -> str:
        """Return the address of this table with *changes*, from its first page."""
        return address(path, self.to_address(), **changes)

    def sorted_by(self, column: str) -> str:
        """Return the address of the table sorted by a column: up, then down, then not at all."""
        following = {column: (f"-{column}",), f"-{column}": ()}
        current = self.sort[0] if len(self.sort) == 1 else ""
        return self.address(sort=following.get(current, (column,)))


def study_name(parameters: QueryParams) -> str:
    """Return the study that an address names; raise InputError if it names none."""
    name = parameters.get("name", "")
    if not name:
        raise InputError("no study is named", hint="choose one of the studies")
    return name
