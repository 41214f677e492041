"""Names of studies that go on meaning the same after their program was edited.

When the program of ``training`` changes, what was measured before goes on as ``training@1``, and
``training`` is the new program's. Each version has its number from the beginning: an address that
says ``training@1`` today finds the same experiments then.
"""

from __future__ import annotations

from zenturio.errors import NotFoundError
from zenturio.record import Repository


def pinned_name(repository: Repository, study: str) -> str:
    """Return the name under which this version of *study* will always be found."""
    try:
        info = repository.study(study)
    except NotFoundError:
        return study
    return study if base_of(study) is not None else f"{info.name}@{info.version}"


def resolve_name(repository: Repository, name: str) -> str:
    """Return the study that is called *name* now, or was pinned so while it was the present one."""
    try:
        return repository.study(name).name
    except NotFoundError:
        return name


def is_version(name: str, study: str) -> bool:
    """Return whether *name* is *study*, or what it was before its program was edited."""
    return name == study or base_of(name) == study


def base_of(name: str) -> str | None:
    """Return the study of which ``NAME@NUMBER`` is a version; None of any other name."""
    base, sign, number = name.rpartition("@")
    return base if sign and base and number.isascii() and number.isdigit() else None
