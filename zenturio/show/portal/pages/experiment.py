"""The page of an experiment, and the comparison of two."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from zenturio.errors import InputError, NotFoundError
from zenturio.experiment import Log
from zenturio.record import AttemptLogs
from zenturio.show.charts.study_charts import default_metric
from zenturio.show.portal.page_templates import printable
from zenturio.show.portal.pages.artifacts import (
    BINARY,
    MOST_READ_BYTES,
    attempt_in,
    download_headers,
)
from zenturio.show.portal.state import Portal, portal_of
from zenturio.study.log_follower import log_after, log_so_far
from zenturio.study.overview import ExperimentDetails, compare_experiments, find_experiment
from zenturio.study.pinned_versions import is_version

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.query import Comparison

MOST_STREAM_BYTES = 24_000
"""Of a stream that a page shows, a third of them from its beginning."""
MOST_FILE_CHARACTERS = 200_000
COMPARED_LINES = 1500
"""Lines of a stream that are compared: the time of a comparison grows with their square."""
MOST_DIFF_LINES = 400
UNFINISHED = ("missing", "running")
HTMX_STOP_POLLING = 286
"""The status that tells htmx to poll no more."""


@dataclass(frozen=True)
class StreamExcerpt:
    """The beginning and the end of a stream."""

    name: str
    size: int
    beginning: str
    skipped: int
    """Bytes between the two parts, not shown or not kept."""
    end: str


@dataclass(frozen=True)
class ComparedValue:
    """A parameter or metric of two experiments."""

    name: str
    unit: str
    first: Any
    second: Any

    @property
    def differs(self) -> bool:
        """Whether the values differ; NaN, which does not equal itself, does not differ from NaN."""
        return bool(self.first != self.second) and repr(self.first) != repr(self.second)

    @property
    def ratio(self) -> float | None:
        """The second value divided by the first; None unless that is a number."""
        values = (self.first, self.second)
        if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
            return None
        try:
            ratio = float(self.second / self.first)
        except (ZeroDivisionError, OverflowError):
            return None
        return ratio if math.isfinite(ratio) else None


@dataclass(frozen=True)
class TextDiff:
    """The lines of a text that differ, each with its sign (``+``, ``-``, ``@`` or a blank)."""

    name: str
    lines: Sequence[tuple[str, str]]
    skipped: int
    """Lines of the difference that are not shown."""


def experiment(request: Request) -> Response:
    """Return the page of an experiment."""
    portal = portal_of(request)
    match = _match(request)
    attempt = attempt_in(request)
    notes = match.definition.notes
    return portal.page(
        request,
        "experiment.html",
        **_page_values(portal, match, attempt),
        updates=match.record.state in UNFINISHED and attempt is None,
        provenance=tuple(_flatten(match.definition.provenance)),
        commands=[*notes.get("builds", ()), *notes.get("runs", ())],
    )


def output(request: Request) -> Response:
    """Return the output of an experiment so far: a part of its page, polled while it runs.

    The request says which state the page shows. If that has changed, the answer includes all parts
    of the page that depend on it.
    """
    portal = portal_of(request)
    match = _match(request)
    values = _page_values(portal, match, None)
    shown_state = request.query_params.get("known", values["state_key"])
    values["out_of_band"] = shown_state != values["state_key"]
    text = portal.render("_updates.html", **values)
    return HTMLResponse(text, 200 if match.record.state in UNFINISHED else HTMX_STOP_POLLING)


def _page_values(portal: Portal, match: ExperimentDetails, attempt: int | None) -> dict[str, Any]:
    """Return the values for the parts of the page."""
    digest, is_running = match.record.digest, match.record.state == "running"
    live_logs = _live_output(digest) if is_running and attempt is None else None
    latest = max((one.number for one in match.attempts), default=0)
    logs = live_logs or portal.repository.logs(digest, attempt)
    return {
        "match": match,
        "attempt": attempt,
        "latest": latest,
        "state_key": f"{match.record.state} {latest}",
        "artifacts": portal.repository.artifacts(digest, attempt),
        "most_read": MOST_READ_BYTES,
        "streams": (_excerpt("stdout", logs.stdout), _excerpt("stderr", logs.stderr)),
        "is_live": live_logs is not None,
        "out_of_band": False,
    }


def _live_output(digest: str) -> AttemptLogs:
    """Return the output so far of an experiment on this machine; empty if it runs elsewhere."""
    parts: list[list[bytes]] = [[], []]
    log_so_far(digest, lambda number, part: parts[number].append(part))
    return AttemptLogs(*(Log(b"".join(p), b"", sum(map(len, p))) for p in parts))


def files(request: Request) -> Response:
    """Return the files that the experiment ran with, filled again from the recorded sources."""
    from zenturio.study.restore import UnfilledError, files_of  # noqa: PLC0415 - loads annotate

    match = _match(request)
    texts: Mapping[str, str] = {}
    note = ""
    try:
        texts = files_of(match.definition, match.record)
    except UnfilledError as error:
        note = str(error)
    excerpts = {
        path: (text[:MOST_FILE_CHARACTERS], len(text) - MOST_FILE_CHARACTERS)
        for path, text in texts.items()
    }
    return HTMLResponse(portal_of(request).render("_files.html", files=excerpts, note=note))


def log(request: Request) -> Response:
    """Return all recorded bytes of a stream as a download."""
    portal, stream = portal_of(request), request.path_params["stream"]
    if stream not in ("stdout", "stderr"):
        raise NotFoundError(f"there is no stream {stream!r}", hint="stdout or stderr")
    digest = find_experiment(portal.repository, request.path_params["digest"]).record.digest
    logs = portal.repository.logs(digest, attempt_in(request))
    content = b"".join(log_after(logs.stdout if stream == "stdout" else logs.stderr))
    headers = download_headers(f"{digest[:12]}.{stream}")
    return Response(content, headers=headers, media_type=BINARY)


def compare(request: Request) -> Response:
    """Return the comparison of two experiments, or a form to choose them."""
    portal = portal_of(request)
    digests = [text.strip() for text in request.query_params.getlist("of") if text.strip()]
    studies = [text.strip() for text in request.query_params.getlist("study") if text.strip()]
    if len(digests) < 2:
        return portal.page(
            request,
            "compare.html",
            digests=digests,
            pair=None,
            studies=studies,
            names=[info.name for info in portal.repository.studies()],
            metric=request.query_params.get("metric", ""),
            versions=_compared_versions(portal, request, studies) if studies else None,
        )
    first, second = (find_experiment(portal.repository, digest) for digest in digests[:2])
    files = compare_experiments(first, second)
    return portal.page(
        request,
        "compare.html",
        digests=digests,
        studies=[],
        names=[info.name for info in portal.repository.studies()],
        metric="",
        versions=None,
        pair=(first, second),
        parameters=_compared_values(first, second, first.record.values, second.record.values),
        metrics=_compared_values(first, second, first.metrics, second.metrics),
        files=[_text_diff(path, text.splitlines()) for path, text in files.files.items()],
        note=files.note,
        outputs=list(_output_diffs(portal, first, second)),
    )


def _compared_versions(portal: Portal, request: Request, studies: list[str]) -> Comparison:
    """Return the verdicts on two studies, or on the versions of a study that ran both."""
    from zenturio.query import compare_studies  # noqa: PLC0415 - pandas takes its time
    from zenturio.study.paired.paired_study import plan_of  # noqa: PLC0415 - it loads what runs

    first, second = studies[0], studies[-1]
    portal.repository.study(first)  # which says so where there is none
    if len(studies) == 1 and plan_of(portal.repository, first) is None:
        raise InputError(
            f"there is nothing to compare {first} with", hint="name a second study or version"
        )
    metric = request.query_params.get("metric", "").strip()
    metric = metric or default_metric(portal.repository, first)
    return compare_studies(portal.repository, first, second, metric)


def _compared_values(
    first: ExperimentDetails,
    second: ExperimentDetails,
    first_values: Mapping[str, Any],
    second_values: Mapping[str, Any],
) -> list[ComparedValue]:
    units = {**second.units, **first.units}
    return [
        ComparedValue(name, units.get(name, ""), first_values.get(name), second_values.get(name))
        for name in dict.fromkeys((*first_values, *second_values))
    ]


def _output_diffs(
    portal: Portal, first: ExperimentDetails, second: ExperimentDetails
) -> Iterator[TextDiff]:
    logs = [portal.repository.logs(match.record.digest) for match in (first, second)]
    for name in ("stdout", "stderr"):
        before, after = (_log_lines(getattr(log, name)) for log in logs)
        # The first two lines of a unified diff name the files.
        lines = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
        if lines:
            yield _text_diff(name, lines)


def _log_lines(log: Log) -> list[str]:
    content = log.head + (b"\n...\n" + log.tail if log.tail else b"")
    return content.decode("utf-8", "backslashreplace").splitlines()[:COMPARED_LINES]


def _text_diff(name: str, lines: Sequence[str]) -> TextDiff:
    shown = [
        (line[:1], line[1:] if line[:1] in "+- " else line) for line in lines[:MOST_DIFF_LINES]
    ]
    return TextDiff(name, shown, max(len(lines) - MOST_DIFF_LINES, 0))


def _excerpt(name: str, log: Log) -> StreamExcerpt:
    if log.size <= MOST_STREAM_BYTES and not log.tail:
        return StreamExcerpt(name, log.size, _text(log.head), 0, "")
    beginning = log.head[: MOST_STREAM_BYTES // 3]
    end = (log.tail or log.head[len(beginning) :])[-MOST_STREAM_BYTES * 2 // 3 :]
    skipped = log.size - len(beginning) - len(end)
    return StreamExcerpt(name, log.size, _text(beginning), skipped, _text(end))


def _text(content: bytes) -> str:
    """Return *content* as text without loss: other bytes are written as escapes."""
    return printable(content.decode("utf-8", "backslashreplace"))


def _flatten(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} ")
        elif value not in (None, ""):
            yield f"{prefix}{name}", str(value)


def _match(request: Request) -> ExperimentDetails:
    """Return the experiment of an address.

    An address without a version may be older than the program: the study that it names has been
    archived under another name since then.
    """
    repository, digits = portal_of(request).repository, request.path_params["digest"]
    name = request.query_params.get("study", "")
    if not name:
        return find_experiment(repository, digits)
    study = portal_of(request).resolve_study(name)
    try:
        return find_experiment(repository, digits, study)
    except NotFoundError:
        for _, homes in repository.find_digests(digits.strip().lower(), 8):
            for home in homes:
                if is_version(home, study):
                    return find_experiment(repository, digits, home)
        raise
