"""The space of all points of some parameters under constraints, its fingerprint and its JSON."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from zenturio.errors import SpaceError
from zenturio.expression import parse
from zenturio.space.component import (
    Component,
    NoneValid,
    Product,
    RejectionSampler,
    component_of,
    distinct,
    growing_products,
    sample_values,
)
from zenturio.space.definition import Constraint, Decoder, Part, define, neighbours, split
from zenturio.space.domain import (
    ArithmeticRange,
    Column,
    Continuous,
    Domain,
    Elements,
    Numeral,
    elements,
)
from zenturio.space.parameter import Dependent, Parameter, Values, Zip, domain_of
from zenturio.space.point import Point, PointBlock

if TYPE_CHECKING:
    import pandas as pd


_JUDGED = 1 << 17
"""Combinations by which the number of points is judged."""

_FEW_CONDITIONS = 32
"""With more of them, finding which can be joined takes longer than counting."""

MOST_ROWS = 1 << 32
"""Columns of more rows than this are refused: a slice of them may be asked for."""


class Space:
    """All choices for *parameters* (and *sets*, by name) that meet the *constraints*.

    The points have an order: the space is the product of independent components, parameters that
    share constraints, bounds or conditions. Components are ordered by their first parameters;
    within one, parameters are in the order of their declaration, each after those that it depends
    on. The last varies fastest. Without constraints this is the plain product.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter] = (),
        constraints: Iterable[Constraint | str] = (),
        **sets: Parameter | Values,
    ) -> None:
        named_sets = (_parameter(name, values) for name, values in sets.items())
        parsed = (
            parse(constraint) if isinstance(constraint, str) else constraint
            for constraint in constraints
        )
        self._definition = define((*parameters, *named_sets), tuple(parsed))
        self._decoder = Decoder(self._definition)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in the order of declaration."""
        return self._definition.layout.parameters

    @property
    def dimensions(self) -> tuple[Parameter, ...]:
        """The parameters that are chosen, not derived."""
        return tuple(parameter for parameter in self.parameters if parameter.derived is None)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints in the order of declaration."""
        return self._definition.constraints

    def where(self, *constraints: Constraint | str) -> Space:
        """Return the space of the points that also meet *constraints*."""
        return Space(self.parameters, (*self.constraints, *constraints))

    def together(self, *names: str) -> Space:
        """Return the space in which the parameters *names* vary together, position by position."""
        return self.where(Zip(names))

    def replace(self, parameter: Parameter) -> Space:
        """Return the space with *parameter* in place of the one with its name."""
        parameters = [
            parameter if present.name == parameter.name else present for present in self.parameters
        ]
        return Space(parameters, self.constraints)

    @property
    def finite(self) -> bool:
        """Whether no parameter is continuous."""
        return all(part.finite for part in self._parts)

    @property
    def cartesian(self) -> int:
        """The number of points without constraints."""
        return Space(self.parameters).size if self.constraints else self.size

    @property
    def size(self) -> int:
        """The exact number of valid points."""
        return self._product.size

    def growing_sizes(self) -> Iterator[Callable[[], int]]:
        """Yield functions that count the points under no constraint, under the first one, and so
        on.
        """
        _ = self._product  # which says why points cannot be counted
        for product in growing_products(self._definition):
            yield partial(getattr, product, "size")

    @property
    def components(self) -> tuple[Component, ...]:
        """The independent factors, slowest first."""
        return self._product.components

    @property
    def factors(self) -> tuple[Component | RejectionSampler, ...]:
        """The components, with a sampler in place of each that cannot be counted."""
        return tuple(self._samplers)

    def decoded(self, codes: Mapping[str, Column], length: int) -> list[Point]:
        """Return the points with these columns of *codes*, which keep all constraints.

        The code of a dimension is the position of its value, plus 1 if it has a WHEN, and 0 while
        it is inactive; that of a continuous one is the value, or NaN.
        """
        return list(self._decoder.points(codes, length))

    def decoded_columns(self, codes: Mapping[str, Column], length: int) -> dict[str, Column]:
        """Return the values of *codes* as one array for each parameter."""
        return self._decoder.columns(codes, length)

    def codes(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the code of each dimension at *point*; SpaceError if it is not in the space."""
        return self._decoder.codes(self.find(point))

    def costs(self) -> list[tuple[Constraint, int]]:
        """Return how many points each constraint excludes of those that the ones before it leave.

        The sum is ``cartesian - size``.
        """
        remaining = self.cartesian
        costs = []
        for number, constraint in enumerate(self.constraints, start=1):
            valid = Space(self.parameters, self.constraints[:number]).size if remaining else 0
            costs.append((constraint, remaining - valid))
            remaining = valid
        return costs

    def point(self, number: int) -> Point:
        """Return the point with this *number*, from 0; negative numbers count from the end."""
        if not -self.size <= number < self.size:
            raise IndexError(f"point {number} does not exist: the space has {self.size} points")
        (point,) = self._decoder.points(self._product.picked([number % self.size]), 1)
        return point

    def index(self, point: Mapping[str, Any]) -> int:
        """Return the number of *point*; SpaceError if it is not in the space."""
        number = self._product.find(self._decoder.codes(self.find(point)))
        assert number is not None, "a valid point has a number"
        return number

    def find(self, values: Mapping[str, Any]) -> Point:
        """Return the point with *values* of dimensions; SpaceError says why it is not valid."""
        return self._decoder.point(values)

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Return whether *values* are a point of this space."""
        try:
            self.find(values)
        except SpaceError:
            return False
        return True

    def __contains__(self, values: Mapping[str, Any]) -> bool:
        return self.contains(values)

    def __iter__(self) -> Iterator[Point]:
        for codes, length in self._product.walk():
            yield from self._decoder.points(codes, length)

    def blocks(self, size: int, limit: int | None = None) -> Iterator[PointBlock]:
        """Yield the points in order, or the first *limit*, *size* at a time; the last are fewer."""
        pieces: list[tuple[Mapping[str, Column], int]] = []
        remaining, buffered = limit, 0
        for codes, length in self._product.walk():
            pieces.append((codes, length))
            buffered += length
            while buffered >= size and (remaining is None or remaining >= size):
                yield self._first_block(pieces, size)
                buffered -= size
                remaining = None if remaining is None else remaining - size
            if remaining is not None and buffered >= remaining:
                break
        last = buffered if remaining is None else min(buffered, remaining)
        if last:
            yield self._first_block(pieces, last)

    def _first_block(self, pieces: list[tuple[Mapping[str, Column], int]], size: int) -> PointBlock:
        """Take *size* points from the front of *pieces*."""
        parts: list[Mapping[str, Column]] = []
        missing = size
        while missing:
            codes, length = pieces.pop(0)
            used = min(length, missing)
            parts.append({name: column[:used] for name, column in codes.items()})
            if used < length:
                unused = {name: column[used:] for name, column in codes.items()}
                pieces.insert(0, (unused, length - used))
            missing -= used
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return self._decoder.block(joined, size)

    @overload
    def __getitem__(self, at: int) -> Point: ...
    @overload
    def __getitem__(self, at: slice) -> list[Point]: ...
    def __getitem__(self, at: int | slice) -> Point | list[Point]:
        if isinstance(at, int):
            return self.point(at)
        numbers = range(self.size)[at]
        if numbers.step != 1:
            return self._points(list(numbers))
        length = max(numbers.stop - numbers.start, 0)
        codes = self._product.stretch(numbers.start, numbers.start + length)
        return list(self._decoder.points(codes, length))

    def sample(self, count: int, seed: int | str | None = None) -> list[Point]:
        """Draw *count* different points, uniformly over all valid ones."""
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        if self.finite and self.is_counted:
            return self._points(distinct(self.size, count, rng))
        try:
            points = self._drawn(count, rng)
        except NoneValid:
            # Few combinations are valid: a decision diagram counts them, if it is small enough.
            if not self.finite or not all(component.is_countable for component in self.components):
                raise
            points = []
        if len(points) == count:
            return points
        if self.finite:  # it has few points, or they could not be drawn: count them
            return self._points(distinct(self.size, count, rng))
        raise SpaceError(
            f"{count} different points are requested; {len(points)} were drawn",
            hint="request fewer",
        )

    def _drawn(self, count: int, rng: random.Random) -> list[Point]:
        """Draw *count* different points by rejection, fewer if they repeat: nothing is counted."""
        if self.finite:
            samplers: list[Component | RejectionSampler] = [
                part if part.is_counted else RejectionSampler(part.part) for part in self.components
            ]
        else:
            samplers = self._samplers
        points: dict[Point, None] = {}
        if count:
            for values in islice(sample_values(samplers, rng), 100 * count + 100):
                points[self.find(values)] = None
                if len(points) == count:
                    break
        return list(points)

    @property
    def is_counted(self) -> bool:
        """Whether the number of points is known, or takes no time to find."""
        return all(component.is_counted for component in self.components)

    def number(self, point: Mapping[str, Any]) -> int:
        """Return the number of *point*; -1 where that would mean to count a large space."""
        return self.index(point) if self.finite and self.is_counted else -1

    def at_least(self) -> int:
        """Return a number of points that the space has at least, at 99.9%, without counting.

        Components that are not counted are judged by random combinations, always the same; it is
        0 where that says nothing.
        """
        least = 1
        for component in self.components:
            if component.is_counted:
                least *= component.size
            elif len(component.part.conditions) > _FEW_CONDITIONS:
                return 0
            else:
                sampler = RejectionSampler(component.part)
                accepted, tried = sampler.share(0, _JUDGED)
                bound = _lower_bound(accepted, tried)
                least *= sampler.joined_size * int(bound * 2**53) >> 53
        return least

    def neighbours(self, point: Mapping[str, Any]) -> list[Point]:
        """Return the valid points next to *point*.

        They differ in one dimension: by one step if it is ordered, in any way if it is not, and
        not in a continuous one. Parameters that vary together move together.
        """
        return list(neighbours(self._decoder, self.find(point)))

    def columns(self, start: int = 0, stop: int | None = None) -> dict[str, Column]:
        """Return the values of points *start* to before *stop*, as an array for each parameter."""
        numbers = range(self.size)[start:stop]
        length = max(numbers.stop - numbers.start, 0)
        if length > MOST_ROWS:
            raise SpaceError(
                f"columns of {length:,} rows do not fit into memory", hint="request a slice"
            )
        codes = self._product.stretch(numbers.start, numbers.start + length)
        return self._decoder.columns(codes, length)

    def frame(self, start: int = 0, stop: int | None = None) -> pd.DataFrame:
        """Return the values of points *start* to before *stop*, as a pandas frame."""
        import pandas as pd  # noqa: PLC0415 - takes a second

        return pd.DataFrame(self.columns(start, stop))

    def __repr__(self) -> str:
        names = ", ".join(parameter.name for parameter in self.parameters)
        return f"<Space of {names} with {len(self.constraints)} constraints>"

    def _points(self, numbers: Sequence[int]) -> list[Point]:
        return list(self._decoder.points(self._product.picked(numbers), len(numbers)))

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        return split(self._definition)

    @cached_property
    def _product(self) -> Product:
        for parameter in self.dimensions:
            if isinstance(parameter.domain, Continuous):
                raise SpaceError(
                    f"{parameter.name} is continuous, so the points cannot be counted or listed",
                    place=parameter.place,
                    hint="sample them, use a search engine, or take n points with LIN or LOG",
                )
        return Product([component_of(part) for part in self._parts])

    @cached_property
    def _samplers(self) -> list[Component | RejectionSampler]:
        """The components, with samplers for those that cannot be counted."""
        if not self.finite:
            return [
                _countable_or_sampler(component_of(part)) if part.finite else RejectionSampler(part)
                for part in self._parts
            ]
        return [_countable_or_sampler(component) for component in self._product.components]


def _lower_bound(accepted: int, tried: int) -> float:
    """Return the lower end of Wilson's interval of a share, at 99.9% on one side."""
    z = 3.09
    share = accepted / tried
    middle = share + z * z / (2 * tried)
    width = z * math.sqrt(share * (1 - share) / tried + (z / (2 * tried)) ** 2)
    return max(0.0, (middle - width) / (1 + z * z / tried))


def _parameter(name: str, values: Parameter | Values) -> Parameter:
    if isinstance(values, Parameter):
        return replace(values, name=name)
    try:
        return Parameter(name, domain_of(values))
    except SpaceError as error:
        (diagnostic,) = error.diagnostics
        raise SpaceError(f"{name}: {diagnostic.message}", hint=diagnostic.hint) from None


def _countable_or_sampler(factor: Component) -> Component | RejectionSampler:
    try:
        _ = factor.size
    except SpaceError:
        return RejectionSampler(factor.part)
    return factor


LISTED = 100_000
"""Larger sets enter by their size, first and last element."""


def fingerprint(space: Space) -> str:
    """Return the fingerprint of *space*, of sets and conditions as they are written."""
    parts = [part for parameter in space.parameters for part in _parts(parameter)]
    parts += [constraint.text for constraint in space.constraints]
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


MOST_RECORDED = 10_000
"""A space with more listed elements in one set is not written as JSON."""


def space_as_json(space: Space) -> dict[str, Any] | None:
    """Return *space* as JSON, from which `space_from_json` makes it; None if it is too large.

    Concatenations, which only files declare, are not written either.
    """
    parameters: list[dict[str, Any]] = []
    for parameter in space.parameters:
        domain = _domain_as_json(parameter.domain)
        if domain is None and parameter.derived is None:
            return None
        when, derived = parameter.when, parameter.derived
        parameters.append(
            {
                "name": parameter.name, "domain": domain, "unit": parameter.unit,
                "default": parameter.default, "when": when and when.text,
                "derived": derived and derived.text,
            }
        )  # fmt: skip
    constraints = [
        {"together": list(constraint.names)} if isinstance(constraint, Zip) else constraint.text
        for constraint in space.constraints
    ]
    return {"parameters": parameters, "constraints": constraints}


def _domain_as_json(domain: Domain | None) -> dict[str, Any] | None:
    if isinstance(domain, Elements) and domain.size <= MOST_RECORDED:
        return {"type": domain.type, "elements": list(domain.listed)}
    if isinstance(domain, ArithmeticRange):
        numeral = domain.numeral
        format_ = [numeral.places, numeral.padded, numeral.shortest]
        return {
            "type": domain.type, "start": domain.first, "stride": domain.stride,
            "size": domain.size, "format": format_,
        }  # fmt: skip
    if isinstance(domain, Continuous):
        return {"low": domain.low, "high": domain.high, "log": domain.log}
    if isinstance(domain, Dependent):
        bounds = {
            name: bound if isinstance(bound, str) else bound.text
            for name, bound in (
                ("first", domain.first), ("last", domain.last), ("step", domain.stride)
            )
        }  # fmt: skip
        return bounds | {"geometric": domain.geometric}
    return None


def space_from_json(record: Mapping[str, Any]) -> Space:
    """Return the space that `space_as_json` wrote as *record*."""
    parameters = [
        Parameter(
            facts["name"],
            facts["domain"] and _domain_from_json(facts["domain"]),
            unit=facts["unit"],
            default=facts["default"],
            when=parse(facts["when"]) if facts["when"] else None,
            derived=parse(facts["derived"]) if facts["derived"] else None,
        )
        for facts in record["parameters"]
    ]
    constraints = [
        text if isinstance(text, str) else Zip(tuple(text["together"]))
        for text in record["constraints"]
    ]
    return Space(parameters, constraints)


def _domain_from_json(facts: Mapping[str, Any]) -> Domain:
    if "elements" in facts:
        return elements(facts["elements"], facts["type"])
    if "size" in facts:
        numeral = Numeral(*facts["format"])
        return ArithmeticRange(
            facts["type"], facts["start"], facts["stride"], facts["size"], numeral
        )
    if "low" in facts:
        return Continuous(facts["low"], facts["high"], facts["log"])
    return Dependent(facts["first"], facts["last"], facts["step"], facts["geometric"])
