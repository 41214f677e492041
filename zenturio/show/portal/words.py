"""How values are written in pages: numbers, times, what is missing, addresses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from zenturio.experiment import Missing, Series
from zenturio.query.result import cell
from zenturio.show.portal.assets import Assets
from zenturio.show.quantities import count, duration, rate, size

LONGEST = 80
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
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 3 :]}"


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
