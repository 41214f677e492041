"""The values of a parameter that REPEAT varies from run to run."""

from __future__ import annotations

from zenturio.annotate.statements import RepeatStatement
from zenturio.errors import AnnotationError, Place
from zenturio.space.continuous import Continuous
from zenturio.space.domain import Domain
from zenturio.space.parameter import Dependent, Parameter


def seed_of(parameter: Parameter, repeated: RepeatStatement) -> Domain:
    """The elements of a seed: one whole number to count from, or one for each run."""
    assert repeated.seed is not None, "only a named seed has elements"
    place = repeated.seed.place(0, len(repeated.seed.text))
    domain = parameter.domain
    if domain is None or isinstance(domain, Continuous | Dependent) or parameter.when is not None:
        raise _wrong(f"{parameter.name} has no fixed elements, so it cannot be a seed", place)
    if domain.size == 1 and domain.type != "int" and repeated.count > 1:
        message = f"the only element of {parameter.name} is {domain.text(0)}, no whole number"
        raise _wrong(message, place)
    if 1 < domain.size < repeated.count:
        message = f"{parameter.name} has {domain.size} elements for {repeated.count} runs"
        raise _wrong(message, place)
    return domain


def _wrong(message: str, place: Place) -> AnnotationError:
    hint = "one whole number to count from, as { 1 }, or an element for each run"
    return AnnotationError(message, place=place, hint=hint)
