"""Two experiments side by side: parameters, metrics, files and what they said."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from zenturio.experiment import Log
from zenturio.show.portal.state import Portal, portal_of
from zenturio.study.look import Found, difference, find

if TYPE_CHECKING:
    from starlette.requests import Request

LINES = 1500
"""Of a stream, from its beginning: finding what differs takes the square of that."""
SHOWN = 400
"""Lines of a difference."""


@dataclass(frozen=True)
class Pair:
    """A parameter or metric of both."""

    name: str
    unit: str
    one: Any
    other: Any

    @property
    def differs(self) -> bool:
        """NaN, which is not even itself, is taken for what it is called."""
        return bool(self.one != self.other) and repr(self.one) != repr(self.other)

    @property
    def ratio(self) -> float | None:
        """Of the second to the first, where both are numbers."""
        pair = (self.one, self.other)
        if any(isinstance(each, bool) or not isinstance(each, int | float) for each in pair):
            return None
        try:
            found = float(self.other / self.one)
        except (ZeroDivisionError, OverflowError):
            return None
        return found if math.isfinite(found) else None


@dataclass(frozen=True)
class Changed:
    """A text that differs: its lines, each with what it is (``+``, ``-``, ``@`` or a blank)."""

    name: str
    lines: Sequence[tuple[str, str]]
    more: int
    """Lines of the difference that are not shown."""


def compare(request: Request) -> Response:
    """The page of two experiments; a form, as long as there are not two."""
    portal = portal_of(request)
    digests = [each.strip() for each in request.query_params.getlist("of") if each.strip()]
    if len(digests) < 2:
        return portal.page(request, "compare.html", digests=digests, pair=None)
    one, other = (find(portal.repository, each) for each in digests[:2])
    found = difference(one, other)
    return portal.page(
        request,
        "compare.html",
        digests=digests,
        pair=(one, other),
        parameters=_pairs(one, other, one.record.values, other.record.values),
        metrics=_pairs(one, other, one.metrics, other.metrics),
        files=[_changed(path, text.splitlines()) for path, text in found.files.items()],
        note=found.note,
        said=list(_said(portal, one, other)),
    )


def _pairs(
    one: Found, other: Found, first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[Pair]:
    units = {**other.units, **one.units}
    names = dict.fromkeys((*first, *second))
    return [Pair(n, units.get(n, ""), first.get(n), second.get(n)) for n in names]


def _said(portal: Portal, one: Found, other: Found) -> Iterator[Changed]:
    before, after = (portal.repository.logs(each.record.digest) for each in (one, other))
    for name in ("stdout", "stderr"):
        first, second = (_lines(getattr(logs, name)) for logs in (before, after))
        lines = list(difflib.unified_diff(first, second, n=2, lineterm=""))[2:]
        if lines:
            yield _changed(name, lines)


def _lines(log: Log) -> list[str]:
    content = log.head + (b"\n...\n" + log.tail if log.tail else b"")
    return content.decode("utf-8", "backslashreplace").splitlines()[:LINES]


def _changed(name: str, lines: Sequence[str]) -> Changed:
    shown = [(line[:1], line[1:] if line[:1] in "+- " else line) for line in lines[:SHOWN]]
    return Changed(name, shown, max(len(lines) - SHOWN, 0))
