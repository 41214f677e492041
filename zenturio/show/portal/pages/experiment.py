"""Pages of an experiment, of two compared, and of artifacts."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from zenturio import quantities
from zenturio.errors import ConflictError, InputError, NotFoundError, PlaceError
from zenturio.experiment import Artifact, Log
from zenturio.query.select_results import default_metric
from zenturio.record import AttemptLogs
from zenturio.safe_text import without_escapes
from zenturio.show.portal.page_templates import printable
from zenturio.show.portal.state import Portal, page_in, portal_of
from zenturio.study.log_follower import log_after, log_so_far
from zenturio.study.overview import ExperimentDetails, compare_experiments, find_experiment
from zenturio.study.recorded_definition import is_version

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.query import Comparison


# Download and preview of artifacts
#
# Requests name them by number: no path is made of anything that a request says.

PREVIEW_BYTES = 64_000
"""Of a file, for its preview."""
SHOWN_CHARACTERS = 24_000
"""Of a text in a page."""
ROWS, COLUMNS = 50, 30
"""Of a table in a page."""

_IMAGE_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}


@dataclass(frozen=True)
class FilePreview:
    """What a page shows of a file."""

    kind: Literal["image", "table", "text", "bytes", "empty", "large"]
    text: str = ""
    rows: Sequence[Sequence[str]] = ()
    """Of a table, with its header first."""
    more: bool = False
    """Whether only a part is shown."""


def preview_of(path: str, beginning: bytes, size: int) -> FilePreview:
    """Return the preview of the file *path*, of *size* bytes, from its *beginning*."""
    if not size:
        return FilePreview("empty")
    if image_type(path, beginning):
        return FilePreview("image")
    text = _preview_text(beginning, cut=size > len(beginning))
    if text is None:
        return FilePreview("bytes")
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _DELIMITERS:
        return _table(text, _DELIMITERS[suffix], cut=size > len(beginning))
    return _plain(text, cut=size > len(beginning))


def image_type(path: str, beginning: bytes) -> str:
    """Return the media type of an image by its first bytes; empty if it is not one.

    SVG is recognised by its suffix, too: it is text.
    """
    for signature, kind in _IMAGE_SIGNATURES:
        if beginning.startswith(signature):
            return kind
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        return "image/webp"
    if path.lower().endswith(".svg") and _is_svg(beginning.decode("utf-8-sig", "replace")):
        return "image/svg+xml"
    return ""


def _is_svg(text: str) -> bool:
    """Return whether the first element of *text* is svg, after comments and declarations.

    Each character is read once, from left to right: whoever wrote the file also chose how often a
    regular expression would have to backtrack.
    """
    at = _skip_blanks(text, 0)
    if text.startswith("<?xml", at):
        at = _skip_past(text, at, ">")
    while text.startswith(("<!--", "<!DOCTYPE"), at := _skip_blanks(text, at)):
        if text.startswith("<!--", at):
            at = _skip_past(text, at, "-->")
            continue
        end = _skip_past(text, at, ">")
        if "[" in text[at:end]:  # it declares entities
            return False
        at = end
    return text.startswith(("<svg>", "<svg ", "<svg\t", "<svg\n", "<svg\r"), at)


def _skip_blanks(text: str, at: int) -> int:
    """Return the first position from *at* that is not white space."""
    while text[at : at + 1].isspace():
        at += 1
    return at


def _skip_past(text: str, at: int, closer: str) -> int:
    """Return the position after the next *closer*; the end of the text if there is none."""
    end = text.find(closer, at)
    return len(text) if end < 0 else end + len(closer)


def _preview_text(content: bytes, *, cut: bool) -> str | None:
    """Return the text of *content*, None if it is not text; *cut* may split its last character."""
    if b"\0" in content:
        return None
    for end in range(4 if cut else 1):
        try:
            return content[: len(content) - end].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return None


def _plain(text: str, *, cut: bool) -> FilePreview:
    return FilePreview(
        "text", printable(text[:SHOWN_CHARACTERS]), more=cut or len(text) > SHOWN_CHARACTERS
    )


def _table(text: str, delimiters: str, *, cut: bool) -> FilePreview:
    """Return a table; the most frequent delimiter of the first line separates its cells."""
    first = text.partition("\n")[0]
    delimiter = max(delimiters, key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return _plain(text, cut=cut)
    # The last line of a beginning is torn.
    complete = lines[:-1] if cut else lines
    rows = [
        [printable(cell[:200]) for cell in line[:COLUMNS]] for line in complete[: ROWS + 1] if line
    ]
    is_wide = any(len(line) > COLUMNS for line in complete[: ROWS + 1])
    return FilePreview("table", rows=rows, more=cut or is_wide or len(complete) > ROWS + 1)


BINARY = "application/octet-stream"
CHUNK = 1 << 18
MOST_ARTIFACTS = 200
"""In the table of a page: an experiment may leave a hundred thousand."""
MOST_READ_BYTES = 64_000_000
"""Of a file with a preview: it is read whole, to check that it has not changed."""
MOST_IMAGE_BYTES = 16_000_000
"""Of an image in a page."""
INERT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Content-Disposition": "inline",
}
"""For an image that is opened by itself: nothing in it may be executed."""


def artifact(request: Request) -> Response:
    """Return an artifact as a download."""
    match = _artifact_of(request)
    name = match.path.replace("\\", "/").rpartition("/")[2]
    headers = download_headers(name) | {"Content-Length": str(match.size)}
    return StreamingResponse(_chunks(_open_checked(match)), headers=headers, media_type=BINARY)


def preview(request: Request) -> Response:
    """Return the preview of an artifact: a part of the page."""
    match = _artifact_of(request)
    file_preview = FilePreview("large")
    if match.size <= MOST_READ_BYTES:
        with _open_checked(match) as file:
            file_preview = preview_of(match.path, file.read(PREVIEW_BYTES), match.size)
    if file_preview.kind == "image" and match.size > MOST_IMAGE_BYTES:
        file_preview = FilePreview("large")
    values = {
        "artifact": match,
        "preview": file_preview,
        "source": request.url.path.removesuffix("/preview") + "/image",
        "attempt": attempt_in(request),
    }
    return HTMLResponse(portal_of(request).render("_preview.html", **values))


def image(request: Request) -> Response:
    """Return an artifact that is an image, to be shown in a page."""
    match = _artifact_of(request)
    if match.size > MOST_IMAGE_BYTES:
        raise NotFoundError(f"{match.path} is too large for a page", hint="download it instead")
    with _open_checked(match) as file:
        content = file.read()
    kind = image_type(match.path, content[:PREVIEW_BYTES])
    if not kind:
        raise NotFoundError(f"{match.path} is not an image", hint="download it instead")
    return Response(content, headers=INERT_HEADERS, media_type=kind)


def download_headers(name: str) -> dict[str, str]:
    """Return headers that make a browser save an answer, and never show it as one of our pages."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def attempt_in(request: Request) -> int | None:
    """Return the attempt that an address names."""
    text = request.query_params.get("attempt", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFoundError(f"there is no attempt {text!r}")
    return int(text)


def _digest_of(request: Request) -> str:
    """Return the whole digest of the experiment of an address."""
    digits = request.path_params["digest"]
    return find_experiment(portal_of(request).repository, digits, artifacts=0).record.digest


def _artifact_of(request: Request) -> Artifact:
    portal, number = portal_of(request), request.path_params["number"]
    digest = _digest_of(request)
    attempt = attempt_in(request)
    found = portal.repository.artifacts(digest, attempt, first=number, most=1)
    if not found:
        count = portal.repository.artifact_count(digest, attempt)
        raise NotFoundError(f"there is no artifact {number}", hint=f"the experiment has {count:,}")
    return found[0]


def _open_checked(artifact: Artifact) -> BufferedReader:
    """Return the file if it is still what was recorded: a database may name any file.

    Raise NotFoundError if it is gone, ConflictError if it has changed.
    """
    try:
        # Neither a link that was put in its place, nor a pipe that would be waited for.
        handle = os.open(artifact.kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotFoundError(f"{artifact.path} is gone: {error.strerror}") from error
    file = os.fdopen(handle, "rb")
    try:
        if _is_unchanged(file, artifact):
            return file
    except OSError as error:
        file.close()
        raise PlaceError(f"{artifact.path} cannot be read: {error.strerror}") from error
    file.close()
    raise ConflictError(f"{artifact.path} has changed since the experiment")


def _is_unchanged(file: BufferedReader, artifact: Artifact) -> bool:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size != artifact.size:
        return False
    # On the open file: between a check by path and the reading it could be exchanged.
    is_same = hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    file.seek(0)
    return is_same


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


_FILE = "/experiment/{digest}/file/{number:int}"
ROUTES = (
    Route(_FILE, artifact),
    Route(f"{_FILE}/preview", preview),
    Route(f"{_FILE}/image", image),
)


# An experiment: its output, its files, and how it differs from another one

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
        **_page_values(portal, match, attempt, page_in(request)),
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


def _page_values(
    portal: Portal, match: ExperimentDetails, attempt: int | None, page: int = 1
) -> dict[str, Any]:
    """Return the values for the parts of the page, with a page of its artifacts."""
    digest, is_running = match.record.digest, match.record.state == "running"
    live_logs = _live_output(digest) if is_running and attempt is None else None
    latest = max((one.number for one in match.attempts), default=0)
    logs = live_logs or portal.repository.logs(digest, attempt)
    count = portal.repository.artifact_count(digest, attempt)
    pages = max(1, math.ceil(count / MOST_ARTIFACTS))
    first = (min(page, pages) - 1) * MOST_ARTIFACTS
    return {
        "match": match,
        "attempt": attempt,
        "latest": latest,
        "state_key": f"{match.record.state} {latest}",
        "artifacts": portal.repository.artifacts(digest, attempt, first=first, most=MOST_ARTIFACTS),
        "artifact_count": count,
        "first_artifact": first,
        "page": min(page, pages),
        "pages": pages,
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
    from zenturio.study.reprocess_experiments import (  # noqa: PLC0415 - loads annotate
        UnfilledError,
        commands_of,
        files_of,
    )

    match = _match(request)
    texts: Mapping[str, str] = {}
    commands: Sequence[str] = ()
    note = ""
    try:
        commands = commands_of(match.definition, match.record)
        texts = files_of(match.definition, match.record)
    except UnfilledError as error:
        note = str(error)
    excerpts = {
        path: (text[:MOST_FILE_CHARACTERS], len(text) - MOST_FILE_CHARACTERS)
        for path, text in texts.items()
    }
    return HTMLResponse(
        portal_of(request).render("_files.html", files=excerpts, commands=commands, note=note)
    )


def log(request: Request) -> Response:
    """Return all recorded bytes of a stream as a download."""
    portal, stream = portal_of(request), request.path_params["stream"]
    if stream not in ("stdout", "stderr"):
        raise NotFoundError(f"there is no stream {stream!r}", hint="stdout or stderr")
    digest = _digest_of(request)
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
    first, second = (find_experiment(portal.repository, d, artifacts=0) for d in digests[:2])
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
    metric = metric or default_metric(portal.repository.definition(first))
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
    """Return *content* as text without colours of a terminal; other bytes are escapes."""
    return printable(without_escapes(content.decode("utf-8", "backslashreplace")))


def _flatten(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} ")
        elif name == "memory" and isinstance(value, int):
            yield f"{prefix}{name}", quantities.size(value)
        elif value not in (None, ""):
            yield f"{prefix}{name}", str(value)


def _match(request: Request) -> ExperimentDetails:
    """Return the experiment of an address, without its artifacts.

    An address without a version may be older than the program: the study that it names has been
    archived under another name since then.
    """
    repository, digits = portal_of(request).repository, request.path_params["digest"]
    name = request.query_params.get("study", "")
    if not name:
        return find_experiment(repository, digits, artifacts=0)
    study = portal_of(request).resolve_study(name)
    try:
        return find_experiment(repository, digits, study, artifacts=0)
    except NotFoundError:
        for _, homes in repository.find_digests(digits.strip().lower(), 8):
            for home in homes:
                if is_version(home, study):
                    return find_experiment(repository, digits, home, artifacts=0)
        raise
