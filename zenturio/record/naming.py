"""Names are data: how those of studies, parameters and metrics become names in SQL.

The same names on every database, so that a query moves with its study: at most 63 bytes (the
limit of PostgreSQL), and never two that differ only in case (which are one in SQLite).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2s
from itertools import count

from zenturio.errors import Complaint, InputError
from zenturio.record.facts import Definition

LONGEST = 63
_ALL = "_all"

BUILT_IN = (
    "digest",
    "index",
    "repeat",
    "status",
    "cause",
    "host",
    "attempt",
    "started",
    "ended",
    "remarks",
)
"""The columns that ``study_NAME_all`` has beside those of the study."""


def check(name: str, definition: Definition) -> None:
    """InputError unless every name can be kept and no parameter or metric is named twice."""
    fields = (*definition.parameters, *definition.metrics)
    complaints = [
        Complaint(f"{n!r} cannot be a name", cure="a name is not empty and holds no NUL byte")
        for n in (name, *(field.name for field in fields))
        if not storable(n)
    ]
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            complaints.append(
                Complaint(
                    f"{field.name!r} names two parameters or metrics of study {name!r}",
                    cure="rename one of them",
                )
            )
        seen.add(field.name)
    if complaints:
        raise InputError.all(complaints)


def storable(name: str) -> bool:
    """Whether every database can hold *name*."""
    return bool(name) and "\0" not in name and _encodable(name)


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def archived(study: str, taken: Iterable[str]) -> str:
    """NAME@1, or the first number behind it that is free."""
    names = set(taken)
    return next(name for n in count(1) if (name := f"{study}@{n}") not in names)


def views(study: str, taken: Iterable[str]) -> tuple[str, str]:
    """``study_NAME`` and ``study_NAME_all``, or with a number behind where those are taken."""
    folded = {name.casefold() for name in taken}
    for attempt in range(1, len(folded) + 2):
        name = _fit(f"study_{study}", LONGEST - len(_ALL), attempt)
        if folded.isdisjoint((name.casefold(), (name + _ALL).casefold())):
            break
    return name, name + _ALL


def columns(fields: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The column of each field and of each built-in fact; the user's names go first.

    A field that comes later never changes the name of an earlier one.
    """
    taken: set[str] = set()
    own = {name: _free(name, taken) for name in fields}
    facts = {n: _free(n if n not in taken else f"zen_{n}", taken) for n in BUILT_IN}
    return own, facts


def _free(name: str, taken: set[str]) -> str:
    attempt = 1
    while (column := _fit(name, LONGEST, attempt)).casefold() in taken:
        attempt += 1
    taken.add(column.casefold())
    return column


def _fit(name: str, limit: int, attempt: int) -> str:
    """*name* within *limit* bytes, with ``_ATTEMPT`` behind it from the second on.

    What is too long ends in a hash of the whole, so that it stays apart from its like.
    """
    suffix = f"_{attempt}" if attempt > 1 else ""
    name = name.replace("\0", "\ufffd").encode(errors="replace").decode()
    room = limit - len(suffix)
    encoded = name.encode()
    if len(encoded) > room:
        mark = "~" + blake2s(encoded, digest_size=4).hexdigest()
        name = encoded[: room - len(mark)].decode(errors="ignore") + mark
    return name + suffix
