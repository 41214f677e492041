"""The page of an experiment, and the comparison of two."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from zenturio.errors import NotFoundError
from zenturio.experiment import Log
from zenturio.record import Logs
from zenturio.show.portal.page_templates import readable
from zenturio.show.portal.pages.artifacts import BYTES, MOST_READ, attempt_in, saved
from zenturio.show.portal.state import Portal, portal_of
from zenturio.study.follow import behind, said_so_far
from zenturio.study.look import Found, difference, find
from zenturio.study.pinned import is_version

if TYPE_CHECKING:
    from starlette.requests import Request


COMPARED_LINES = 1500
"""Of a stream, from its beginning: finding what differs takes the square of that."""
MOST_DIFF_LINES = 400
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
        said=list(_output_diffs(portal, one, other)),
    )


def _pairs(
    one: Found, other: Found, first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[Pair]:
    units = {**other.units, **one.units}
    names = dict.fromkeys((*first, *second))
    return [Pair(n, units.get(n, ""), first.get(n), second.get(n)) for n in names]


def _output_diffs(portal: Portal, one: Found, other: Found) -> Iterator[Changed]:
    before, after = (portal.repository.logs(each.record.digest) for each in (one, other))
    for name in ("stdout", "stderr"):
        first, second = (_lines(getattr(logs, name)) for logs in (before, after))
        lines = list(difflib.unified_diff(first, second, n=2, lineterm=""))[2:]
        if lines:
            yield _changed(name, lines)


def _lines(log: Log) -> list[str]:
    content = log.head + (b"\n...\n" + log.tail if log.tail else b"")
    return content.decode("utf-8", "backslashreplace").splitlines()[:COMPARED_LINES]


def _changed(name: str, lines: Sequence[str]) -> Changed:
    shown = [
        (line[:1], line[1:] if line[:1] in "+- " else line) for line in lines[:MOST_DIFF_LINES]
    ]
    return Changed(name, shown, max(len(lines) - MOST_DIFF_LINES, 0))


SHOWN = 24_000
"""Bytes of a stream that a page shows: a third of them from its beginning."""
WIDEST = 200_000
"""Characters of a file that a page shows."""


@dataclass(frozen=True)
class Said:
    """A stream as a page shows it."""

    name: str
    size: int
    beginning: str
    left_out: int
    """Bytes between the two parts that the page does not show, or that nobody kept."""
    end: str


UNDER_WAY = ("missing", "running")
"""States that end."""
STOP = 286
"""The status by which htmx is told to ask no more."""


def experiment(request: Request) -> Response:
    """The page of an experiment."""
    portal = portal_of(request)
    found = _found(request)
    attempt = attempt_in(request)
    return portal.page(
        request,
        "experiment.html",
        **_facts(portal, found, attempt),
        renewed=found.record.state in UNDER_WAY and attempt is None,
        circumstances=tuple(_flat(found.definition.provenance)),
        commands=[
            *found.definition.notes.get("builds", ()),
            *found.definition.notes.get("runs", ()),
        ],
    )


def said(request: Request) -> Response:
    """What an experiment has said by now: a part of its page, asked for again while it runs.

    The page says what it knows. Where that has changed, everything that depends on it comes with
    the answer, and nobody has to load the page again.
    """
    portal = portal_of(request)
    found = _found(request)
    facts = _facts(portal, found, None)
    facts["oob"] = request.query_params.get("known", facts["known"]) != facts["known"]
    text = portal.render("_renewed.html", **facts)
    return HTMLResponse(text, 200 if found.record.state in UNDER_WAY else STOP)


def _facts(portal: Portal, found: Found, attempt: int | None) -> dict[str, Any]:
    """What the parts of the page show."""
    digest, running = found.record.digest, found.record.state == "running"
    logs = _said_so_far(digest) if running and attempt is None else None
    newest = max((each.number for each in found.attempts), default=0)
    return {
        "found": found,
        "attempt": attempt,
        "newest": newest,
        "known": f"{found.record.state} {newest}",
        "artifacts": portal.repository.artifacts(digest, attempt),
        "most": MOST_READ,
        "said": _streams(logs or portal.repository.logs(digest, attempt)),
        "running": logs is not None,
        "oob": False,
    }


def _said_so_far(digest: str) -> Logs:
    """What it has said if it runs on this machine; nothing of what runs elsewhere."""
    parts: list[list[bytes]] = [[], []]
    said_so_far(digest, lambda number, part: parts[number].append(part))
    return Logs(*(Log(b"".join(p), b"", sum(map(len, p))) for p in parts))


def files(request: Request) -> Response:
    """The files that the experiment ran with, filled once more from what was kept."""
    from zenturio.study.refill import UnfilledError, files_of  # noqa: PLC0415 - it loads much

    portal = portal_of(request)
    found = _found(request)
    texts: Mapping[str, str] = {}
    note = ""
    try:
        texts = files_of(found.definition, found.record)
    except UnfilledError as error:
        note = str(error)
    cut = {path: (text[:WIDEST], len(text) - WIDEST) for path, text in texts.items()}
    return HTMLResponse(portal.render("_files.html", files=cut, note=note))


def log(request: Request) -> Response:
    """A stream, to the byte, as far as it was kept."""
    portal, stream = portal_of(request), request.path_params["stream"]
    if stream not in ("stdout", "stderr"):
        raise NotFoundError(f"an experiment has no {stream}", hint="there is: stdout, stderr")
    digest = find(portal.repository, request.path_params["digest"]).record.digest
    logs = portal.repository.logs(digest, attempt_in(request))
    content = b"".join(behind(logs.stdout if stream == "stdout" else logs.stderr))
    return Response(content, headers=saved(f"{digest[:12]}.{stream}"), media_type=BYTES)


def _streams(logs: Logs) -> tuple[Said, Said]:
    return _said("stdout", logs.stdout), _said("stderr", logs.stderr)


def _said(name: str, log: Log) -> Said:
    if log.size <= SHOWN and not log.tail:
        return Said(name, log.size, _readable(log.head), 0, "")
    beginning = log.head[: SHOWN // 3]
    end = (log.tail or log.head[len(beginning) :])[-SHOWN * 2 // 3 :]
    left_out = log.size - len(beginning) - len(end)
    return Said(name, log.size, _readable(beginning), left_out, _readable(end))


def _readable(content: bytes) -> str:
    """Text without loss: what is no text stands there as its number."""
    return readable(content.decode("utf-8", "backslashreplace"))


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} ")
        elif value not in (None, ""):
            yield f"{before}{name}", str(value)


def _found(request: Request) -> Found:
    """The experiment that an address means.

    One without a version may be older than the program is now: then what it named has gone on under
    another name.
    """
    repository, digits = portal_of(request).repository, request.path_params["digest"]
    asked = request.query_params.get("study", "")
    if not asked:
        return find(repository, digits)
    study = portal_of(request).named(asked)
    try:
        return find(repository, digits, study)
    except NotFoundError:
        for _, homes in repository.matching(digits.strip().lower(), 8):
            for home in homes:
                if is_version(home, study):
                    return find(repository, digits, home)
        raise
