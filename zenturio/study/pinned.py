"""Names of studies that go on meaning the same after their program was edited.

When the program of ``training`` changes, what was measured before goes on as ``training@1``, or the
next number that is free, and ``training`` is the new program's. So the number that the present
version will get is known already: an address that says ``training@1`` today finds the same
experiments then.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from zenturio.record import Repository


def pinned(repository: Repository, study: str) -> str:
    """Return the name under which this version of *study* will always be found."""
    names = {each.name for each in repository.studies()}
    return study if _base(study) is not None and study in names else _next(study, names)


def resolve(repository: Repository, name: str) -> str:
    """Return the study that is called *name* now, or was pinned so while it was the present one."""
    names = {each.name for each in repository.studies()}
    base = _base(name)
    if name not in names and base in names and _next(base, names) == name:
        return base
    return name


def is_version(name: str, study: str) -> bool:
    """Whether *name* is *study*, or what it was before its program was edited."""
    return name == study or _base(name) == study


def _base(name: str) -> str | None:
    base, sign, number = name.rpartition("@")
    return base if sign and base and number.isascii() and number.isdigit() else None


def _next(study: str, names: Iterable[str]) -> str:
    return next(name for n in count(1) if (name := f"{study}@{n}") not in names)
