"""Ranges of numbers, exact in decimals: arithmetic, geometric, linear and logarithmic."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np

from zenturio.errors import SpaceError
from zenturio.expression import Type, Value, text_of
from zenturio.space.domain import (
    DIGITS,
    Column,
    Domain,
    Elements,
    column,
    elements,
    fit,
    kind_of,
)

MAX_LISTED = 1024
"""Ranges up to this size are listed; longer ones are kept as first, stride and size."""

MAX_ELEMENTS = 1_000_000
"""The most elements of geometric, linear and logarithmic ranges."""

WIDEST = 300
"""Bounds lie between 1e-300 and 1e300, so that every element of a range fits a real."""

_EXACT = decimal.Context(prec=4 * WIDEST, rounding=decimal.ROUND_HALF_EVEN)
_INT64 = 1 << 63


def number(text: str, what: str = "bound") -> Decimal:
    """Parse *text* as an exact number."""
    if kind_of(text) == "str":
        raise SpaceError(
            f"{text!r} is not a number, so it cannot be a {what}",
            hint="write a number, or an expression in parentheses such as (n/2)",
        )
    if len(text) > DIGITS:
        raise SpaceError(f"a number of {len(text)} digits is too long to be a {what}")
    exact = Decimal(text)
    if abs(exact.adjusted()) > WIDEST:
        raise SpaceError(f"{text} is beyond what a real can be, so it cannot be a {what}")
    return exact


@dataclass(frozen=True)
class Numeral:
    """The format of a range's numbers: decimals, zero padding, or shortest."""

    places: int
    padded: int
    shortest: bool

    @staticmethod
    def like(first: str, *others: str) -> Numeral:
        """Return the format of *first*, with the most decimals of all texts."""
        texts = (first, *others)
        places = max(max(-int(Decimal(text).as_tuple().exponent), 0) for text in texts)
        digits = first.lstrip("+-").split(".")[0]
        padded = len(digits) if len(digits) > 1 and digits[0] == "0" else 0
        return Numeral(places, padded, any("e" in text.lower() for text in texts))

    def text(self, scaled: int) -> str:
        """Return ``scaled / 10**places`` as text."""
        if self.shortest:
            return text_of(float(Decimal(scaled).scaleb(-self.places)))
        digits = str(abs(scaled)).rjust(self.places + 1, "0")
        whole, rest = digits[: len(digits) - self.places], digits[len(digits) - self.places :]
        sign = "-" if scaled < 0 else ""
        return sign + whole.rjust(self.padded, "0") + ("." + rest if rest else "")

    def value(self, scaled: int) -> float:
        """Return the real nearest to ``scaled / 10**places``."""
        power: int = 10**self.places
        return scaled / power  # the quotient of two ints is rounded correctly


@dataclass(frozen=True)
class Arithmetic:
    """A long range, kept as its first element, stride and size."""

    type: Type
    first: int
    stride: int
    size: int
    numeral: Numeral

    @property
    def ordered(self) -> bool:
        return True

    def text(self, position: int) -> str:
        return self.numeral.text(self.first + position * self.stride)

    def value(self, position: int) -> Value:
        scaled = self.first + position * self.stride
        return scaled if self.type == "int" else self.numeral.value(scaled)

    def position(self, value: Value) -> int:
        fitted = fit(value, self.type)
        if isinstance(fitted, int) or (isinstance(fitted, float) and math.isfinite(fitted)):
            scaled = round(Fraction(fitted) * 10**self.numeral.places)
            near: int = (scaled - self.first) // self.stride
            if 0 <= near < self.size and self.value(near) == fitted:
                return near
        raise SpaceError(
            f"{text_of(value)!r} is not in the set",
            hint=f"it goes from {self.text(0)} to {self.text(self.size - 1)}"
            f" by {self.numeral.text(self.stride)}",
        )

    def values(self) -> Column:
        return self._column

    @cached_property
    def _column(self) -> Column:
        return self.at(np.arange(self.size))

    def texts(self) -> Sequence[str]:
        return Texts(self)

    def at(self, positions: Column) -> Column:
        last = self.first + (self.size - 1) * self.stride
        if self.type == "int" and max(abs(self.first), abs(last), abs(self.stride)) < _INT64 // 2:
            return self.first + positions.astype(np.int64) * self.stride
        return column([self.value(position) for position in positions.tolist()], self.type)


@dataclass(frozen=True)
class Texts(Sequence[str]):
    """The texts of a set, made on demand."""

    domain: Domain

    def __len__(self) -> int:
        return self.domain.size

    def __getitem__(self, at):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
        indices = range(self.domain.size)[at]
        if isinstance(at, slice):
            return [self.domain.text(position) for position in indices]
        return self.domain.text(indices)


def arithmetic(first: str, last: str, stride: str = "1") -> Domain:
    """``{ first:last:stride }``: both ends included where the stride meets them."""
    low, high, step = number(first), number(last), number(stride, "stride")
    if step == 0:
        raise SpaceError("the stride is zero, so the range never ends", hint="write 1 or -1")
    if (high < low) if step > 0 else (high > low):
        raise SpaceError(
            f"the stride {stride} leads away from {last}",
            hint=f"write {first}:{last}:{-step:f}, or swap the bounds",
        )
    numeral = Numeral.like(first, stride)
    with decimal.localcontext(_EXACT):
        start, by = (int(exact.scaleb(numeral.places)) for exact in (low, step))
        size = int((high - low) // step) + 1
    kind: Type = "int" if kind_of(first) == kind_of(stride) == "int" else "real"
    range_ = Arithmetic(kind, start, by, size, numeral)
    return _listed(range_) if size <= MAX_LISTED else range_


def _listed(domain: Domain) -> Elements:
    positions = range(domain.size)
    texts = tuple(domain.text(i) for i in positions)
    return Elements(domain.type, texts, tuple(domain.value(i) for i in positions))


def geometric_texts(first: str, last: str, factor: str) -> Elements:
    """``{ first:last:*factor }``: each element is the one before times *factor*."""
    low, high, by = number(first), number(last), number(factor, "factor")
    if low == 0 or low * high <= 0:
        raise SpaceError(
            f"a geometric range from {first} to {last} would cross zero",
            hint="use positive bounds",
        )
    if by <= 0 or by == 1:
        raise SpaceError(
            f"the factor {factor} cannot reach the last element",
            hint="write one such as *2 or *0.5",
        )
    if (abs(high) - abs(low)) * (by - 1) < 0:
        raise SpaceError(
            f"the factor {factor} leads away from {last}", hint="swap the bounds, or invert it"
        )
    count = int((abs(high) / abs(low)).ln() / by.ln() + Decimal("0.5")) + 1
    if count > MAX_ELEMENTS:
        raise SpaceError(f"the factor {factor} makes more than {MAX_ELEMENTS:,} elements")
    padded = Numeral.like(first).padded
    texts = [first]
    with decimal.localcontext(_EXACT):
        while (abs(high) - abs(low * by)) * (by - 1) >= 0:
            low *= by
            texts.append(_written(low).zfill(padded))
    return elements(texts)


def _written(exact: Decimal) -> str:
    """Return the shortest decimal text of *exact*; beyond 17 digits, of the nearest real."""
    if exact == exact.to_integral_value():
        return f"{exact.to_integral_value():f}"
    short = exact.normalize()
    return f"{short:f}" if len(short.as_tuple().digits) <= 17 else text_of(float(exact))


def linear(first: str | float, last: str | float, count: int) -> Elements:
    """``{ LIN(first, last, count) }``: *count* numbers, evenly apart, both bounds included."""
    low, high = _bounds("LIN", first, last, count)
    if count == 1:
        return elements([str(first)])
    with decimal.localcontext(_EXACT):
        exact = [low + (high - low) * i / (count - 1) for i in range(count)]
        return elements([_written(each) for each in exact])


def logarithmic(first: str | float, last: str | float, count: int) -> Elements:
    """``{ LOG(first, last, count) }``: *count* numbers, a constant factor apart, with bounds."""
    low, high = _bounds("LOG", first, last, count)
    if low * high <= 0:
        raise SpaceError(
            f"LOG from {first} to {last} would cross zero", hint="give the bounds, not exponents"
        )
    if count == 1:
        return elements([str(first)])
    with decimal.localcontext(_EXACT):
        decimal.getcontext().prec = 40
        by = ((high / low).ln() / (count - 1)).exp()
        inner = [_rounded(low * by**i) for i in range(1, count - 1)]
    return elements([str(first), *inner, str(last)])


def _rounded(exact: Decimal) -> str:
    """Return the nearest real as text, without a point if it is an integer."""
    near = float(exact)
    return str(int(near)) if near.is_integer() and abs(near) < 1e15 else text_of(near)


def _bounds(
    name: str, first: str | float, last: str | float, count: int
) -> tuple[Decimal, Decimal]:
    if not 1 <= count <= MAX_ELEMENTS:
        raise SpaceError(f"{name} makes from 1 to {MAX_ELEMENTS:,} elements, not {count}")
    low, high = number(str(first)), number(str(last))
    if count == 1 and low != high:
        raise SpaceError(f"{name} cannot put two bounds into 1 element", hint="write 2 or more")
    return low, high
