"""Fingerprints of spaces: two spaces with the same fingerprint hold the same points."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from zenturio.space.continuous import Continuous
from zenturio.space.dependent import Dependent
from zenturio.space.parameter import Parameter
from zenturio.space.space import Space

SPACES = "spaces"
"""The study note with the fingerprints of all spaces that it was run with."""

LISTED = 100_000
"""Larger sets enter by their size, first and last element."""


def fingerprint(space: Space) -> str:
    """Return the fingerprint of *space*, of sets and conditions as they are written."""
    parts = [part for parameter in space.parameters for part in _parts(parameter)]
    parts += [each.text for each in space.constraints]
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _parts(parameter: Parameter) -> Iterator[object]:
    yield parameter.name
    for expression in (parameter.when, parameter.derived):
        yield expression and expression.text
    domain = parameter.domain
    if domain is None or isinstance(domain, Continuous | Dependent):
        yield str(domain)
    elif domain.size <= LISTED:
        yield list(domain.texts())
    else:
        yield domain.size, domain.text(0), domain.text(domain.size - 1)
