"""What a space is, in few digits: two spaces with the same digits hold the same points."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from zenturio.space.continuous import Continuous
from zenturio.space.dependent import Dependent
from zenturio.space.parameter import Parameter
from zenturio.space.space import Space

SPACES = "spaces"
"""The note of a study that lists the fingerprints of the spaces that it was run with."""

LISTED = 100_000
"""Of a larger set the number of elements and both ends stand for the whole."""


def fingerprint(space: Space) -> str:
    """The digits of *space*; sets and conditions count as they are written."""
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
