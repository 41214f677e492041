"""Names in SQL of studies, parameters and metrics, and the tokens of SQL texts.

Names are the same on every database, so that a query moves with its study: at most 63 bytes (the
limit of PostgreSQL), and never two that differ only in case (which are one in SQLite) or in how
Unicode composes their letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2s

from zenturio.errors import Diagnostic, InputError
from zenturio.record.entities import StudyDefinition

LONGEST = 63
_ALL = "_all"
_STUDY = 50
"""Bytes of a study's view: behind it come a version and ``_all``."""

FACTS = (
    "digest", "index", "repeat", "round", "machine", "status", "cause", "host", "attempt",
    "started", "ended", "exit", "remarks", "host_cpu", "host_cores", "host_memory", "host_kernel",
    "host_load", "run_order", "run_block", "run_turn",
    "host_runnable", "host_delay", "host_others", "host_pressure", "host_steal", "host_mhz",
    "host_governor", "host_slots", "host_cpus", "host_pinned", "host_slots_start",
    "host_slots_end", "host_load_end", "host_mhz_end", "host_celsius", "host_celsius_end",
    "host_throttled", "host_memory_pressure", "host_gpu_mhz", "host_gpu_mhz_end",
    "host_unmeasured",
)  # fmt: skip
"""The columns that ``study_NAME_all`` has beside those of the study."""
FACTS_REVISION = 4
"""To be raised with each change of FACTS or of the names of views: stored ones are made again."""
_VERSION = re.compile(r"(.+)@([1-9][0-9]{0,8})", re.DOTALL)


def check_names(name: str, definition: StudyDefinition) -> None:
    """Raise InputError unless every name can be kept and no parameter or metric is named twice."""
    fields = (*definition.parameters, *definition.metrics)
    diagnostics = [
        Diagnostic(f"{n!r} cannot be a name", hint="a name is not empty and holds no NUL byte")
        for n in (name, *(field.name for field in fields))
        if not is_storable(n)
    ]
    unique_names: set[str] = set()
    for field in fields:
        if field.name in unique_names:
            diagnostics.append(
                Diagnostic(
                    f"{field.name!r} names two parameters or metrics of study {name!r}",
                    hint="rename one of them",
                )
            )
        unique_names.add(field.name)
    if diagnostics:
        raise InputError.all(diagnostics)


def is_storable(name: str) -> bool:
    """Return whether every database can hold *name*."""
    return bool(name) and "\0" not in name and _encodable(name)


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_version_name(name: str) -> tuple[str, int] | None:
    """Return the study and the version that NAME@NUMBER means; none if it is no such name."""
    match = _VERSION.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def version_view(sql_name: str, number: int) -> str:
    """Return the view of a version that its study's name does not mean any longer."""
    return f"{sql_name}@{number}"


def all_view(view: str) -> str:
    """Return the view of all experiments, beside the one of those that succeeded."""
    return view + _ALL


def study_view(name: str, taken: Iterable[str], owner: str = "") -> str:
    """Return ``study_NAME``, unless that or its larger view is taken.

    Then it is ``study_OWNER_NAME``, or has a number behind.
    """
    used = {folded(used_name) for view in taken for used_name in (view, all_view(view))}
    names = (f"study_{name}", f"study_{owner}_{name}") if owner else (f"study_{name}",)
    candidates = [_fit(candidate, _STUDY, 1) for candidate in names]
    attempt = 1
    while not used.isdisjoint(
        (folded(candidate := candidates.pop(0)), folded(all_view(candidate)))
    ):
        attempt += 1
        candidates = candidates or [_fit(names[-1], _STUDY, attempt)]
    return candidate


def plain_views(views: Iterable[str]) -> dict[str, str]:
    """Return by its view the name that each study has in SQL without quotes, if it is another.

    It has small letters, digits and ``_``. Exact names win; of several studies that would have the
    same name, the first one has it.
    """
    exact = list(views)
    used = {folded(name) for view in exact for name in (view, all_view(view))}
    plain_names = {}
    for view in exact:
        plain = plain_view(view)
        names, own = ({folded(n), folded(all_view(n))} for n in (plain, view))
        if plain != view and used.isdisjoint(names - own):
            used |= names
            plain_names[view] = plain
    return plain_names


def plain_view(view: str) -> str:
    # Databases take capitals for small letters in ASCII alone.
    return re.sub(r"\W", "_", re.sub(r"[A-Z]+", lambda match: match[0].lower(), view))


def folded(name: str) -> str:
    """Return the same for names that a database, or a reader, takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


_FOLDED = frozenset(map(folded, FACTS))


def column_name(name: str, role: str, taken: Collection[str], names: Collection[str]) -> str:
    """Return the column of a new field: its name, unless that is taken.

    *taken*: the columns that there are, folded. *names*: of other fields, which these would want
    for themselves. What every study has keeps its name: a field called so is ``param_NAME`` or
    ``metric_NAME``.
    """
    base = name
    if folded(name) in _FOLDED:
        base = f"{'param' if role == 'parameter' else 'metric'}_{name}"
    attempt = 1
    while True:
        candidate = _fit(base, LONGEST, attempt)
        spoken_for = attempt > 1 or base != name
        if folded(candidate) not in taken and not (
            spoken_for and candidate != name and candidate in names
        ):
            return candidate
        attempt += 1


def _fit(name: str, limit: int, attempt: int) -> str:
    """Return *name* within *limit* bytes, with ``__ATTEMPT`` behind it from the second on.

    What is too long ends in a hash of the whole, so that it stays apart from its like.
    """
    suffix = f"__{attempt}" if attempt > 1 else ""
    name = name.replace("\0", "\ufffd").encode(errors="replace").decode()
    room = limit - len(suffix)
    encoded = name.encode()
    if len(encoded) > room:
        mark = "~" + blake2s(encoded, digest_size=4).hexdigest()
        name = encoded[: room - len(mark)].decode(errors="ignore") + mark
    return name + suffix


TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)"""
    r"""|(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])"""
    r"""|(?P<bare>[^\W\d][\w$]*)"""
    r"""|(?P<star>\*)""",
    re.DOTALL,
)
_START = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(WITH\b(?:\s+RECURSIVE\b)?)?", re.DOTALL | re.IGNORECASE
)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def with_parts(text: str, parts: Sequence[str]) -> str:
    """Return *text*, one query, with more common table expressions before its own."""
    if not parts:
        return text
    start = _START.match(text)
    assert start is not None, "it may be empty"
    keyword, query, expressions = start[1], text[start.end() :], ", ".join(parts)
    return f"{keyword} {expressions}, {query}" if keyword else f"WITH {expressions} {query}"


def plain_name(token: re.Match[str]) -> str:
    """Return the name that a token stands for."""
    text = token[0]
    if token["bare"]:
        return text
    closing = {'"': '"', "`": "`", "[": "]"}[text[0]]
    return text[1:-1].replace(closing * 2, closing)


def with_names(text: str, tokens: Iterable[re.Match[str]], names: Mapping[str, str]) -> str:
    """Return *text* with other names for some of its tokens."""
    if not names:
        return text
    parts, end = [], 0
    for token in tokens:
        if (token["quoted"] or token["bare"]) and plain_name(token) in names:
            parts += [text[end : token.start()], quoted(names[plain_name(token)])]
            end = token.end()
    return "".join([*parts, text[end:]])
