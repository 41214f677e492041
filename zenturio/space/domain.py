"""Sets of values: the protocol of all sets, lists of elements, ranges, and continuous ones."""

from __future__ import annotations

import decimal
import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from zenturio.errors import SpaceError, did_you_mean
from zenturio.expression import Type, Value, text_of

Column = np.ndarray[Any, np.dtype[Any]]

DIGITS = 1232
"""The most digits of an integer: 4,096 bits, as in expressions."""

_INT = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOL = {"true": True, "yes": True, "on": True, "1": True}
_BOOL |= {"false": False, "no": False, "off": False, "0": False}
_DTYPE = {"int": np.int64, "real": np.float64, "bool": np.bool_, "str": np.object_}


class Domain(Protocol):
    """A set whose elements have a position, a text and a value. Sets compare by content."""

    @property
    def type(self) -> Type: ...

    @property
    def size(self) -> int:
        """The number of elements; SpaceError for a continuous or unbound set."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether near positions mean near values: true for numbers, false for names."""
        ...

    def text(self, position: Any) -> str:
        """Return the text that is filled into files."""
        ...

    def value(self, position: Any) -> Value:
        """Return the value that expressions and the repository see."""
        ...

    def position(self, value: Value) -> Any:
        """Return the position of *value*; SpaceError names similar elements if it is missing."""
        ...

    def values(self) -> Column:
        """Return all values by position."""
        ...

    def texts(self) -> Sequence[str]:
        """Return all texts by position."""
        ...

    def at(self, positions: Column) -> Column:
        """Return the values at *positions*."""
        ...


def kind_of(text: str) -> Type:
    """Return the narrowest type that *text* can be read as: int, real or str."""
    if _INT.fullmatch(text):
        return "int"
    return "real" if _REAL.fullmatch(text) else "str"


def shared_type(kinds: Iterable[Type]) -> Type:
    """Return the narrowest type that covers *kinds*: int, real or str."""
    distinct = set(kinds)
    if distinct <= {"int"}:
        return "int"
    return "real" if distinct <= {"int", "real"} else "str"


def read(text: str, kind: Type) -> Value:
    """Parse *text* as a value of type *kind*."""
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() in _BOOL:
            return _BOOL[text.lower()]
        raise SpaceError(f"{text!r} is not a bool", hint="write true or false")
    pattern = _INT if kind == "int" else _REAL
    if not pattern.fullmatch(text):
        hint = "TYPE real" if kind == "int" and _REAL.fullmatch(text) else "TYPE str"
        raise SpaceError(f"{text!r} is not {_named(kind)}", hint=f"write a number, or {hint}")
    if len(text) > DIGITS:
        raise SpaceError(f"a number of {len(text)} digits is too long", hint="or is it TYPE str?")
    number = int(text) if kind == "int" else float(text)
    if isinstance(number, float) and math.isinf(number):
        raise SpaceError(f"{text!r} is too large for a real", hint="or is it TYPE str?")
    return number


def fit(value: Any, kind: Type) -> Value:
    """Convert *value* to type *kind*; ``None`` if that is not possible."""
    if hasattr(value, "dtype") and hasattr(value, "item"):
        value = value.item()
    if kind in ("bool", "str"):
        return value if isinstance(value, bool if kind == "bool" else str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind == "real":
        return float(value)
    return int(value) if value == value // 1 and abs(value) != math.inf else None


def column(values: Sequence[Value], kind: Type) -> Column:
    """Return *values* as an array of the dtype that expressions use for type *kind*."""
    try:
        return np.array(values, dtype=_DTYPE[kind])
    except OverflowError:
        return np.array(values, dtype=np.object_)


def _named(kind: Type) -> str:
    return {"int": "a whole number", "real": "a number", "str": "a text", "bool": "a bool"}[kind]


@dataclass(frozen=True)
class Elements:
    """A set that is listed element by element."""

    type: Type
    listed: tuple[str, ...]
    parsed: tuple[Value, ...]

    @property
    def size(self) -> int:
        return len(self.listed)

    @property
    def ordered(self) -> bool:
        return self.type in ("int", "real")

    def text(self, position: int) -> str:
        return self.listed[position]

    def value(self, position: int) -> Value:
        return self.parsed[position]

    def position(self, value: Value) -> int:
        fitted = fit(value, self.type)
        if fitted in self._positions:
            return self._positions[fitted]
        raise SpaceError(
            f"{text_of(value) if value is not None else 'NULL'!r} is not in the set",
            hint=did_you_mean(str(text_of(value)), self.listed),
        )

    @cached_property
    def _positions(self) -> dict[Value, int]:
        return {value: position for position, value in enumerate(self.parsed)}

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """The positions by ascending value, for a set of numbers."""
        return tuple(np.argsort(self._column, kind="stable").tolist())

    @cached_property
    def _column(self) -> Column:
        return column(self.parsed, self.type)

    @cached_property
    def narrow(self) -> np.dtype[Any]:
        """The narrowest dtype of expressions that holds all values."""
        values = self._column
        fits = values.dtype == np.int64 and np.abs(values).max() < 1 << 31
        return np.dtype(np.int32) if fits else values.dtype

    @cached_property
    def _steps(self) -> tuple[int, int] | None:
        """The first value and the stride if the values are a range of small integers, else None."""
        if self.narrow != np.int32:
            return None
        first, *following = self._column.tolist()
        stride = following[0] - first if following else 1
        regular = range(first, first + stride * self.size, stride)
        return (first, stride) if (first, *following) == tuple(regular) else None

    def values(self) -> Column:
        return self._column

    def texts(self) -> Sequence[str]:
        return self.listed

    def at(self, positions: Column) -> Column:
        return self.fill(np.empty(len(positions), dtype=self._column.dtype), positions)

    def fill(self, out: Column, positions: Column) -> Column:
        """Write the values at *positions* into *out*, of the values' dtype or *narrow*."""
        if self._steps is None:
            return np.take(
                self._column.astype(out.dtype, copy=False), positions, out=out, mode="clip"
            )
        first, stride = self._steps
        np.multiply(positions, stride, out=out, casting="unsafe", dtype=out.dtype)
        return np.add(out, first, out=out)


def elements(texts: Iterable[str], type: Type | None = None) -> Elements:  # noqa: A002
    """Make a set of *texts* in their order; *type* defaults to the narrowest common one."""
    texts_in_order = tuple(texts)
    if not texts_in_order:
        raise SpaceError("the set is empty", hint="write at least one element, such as { 1 }")
    kind = type or shared_type(map(kind_of, texts_in_order))
    parsed = tuple(read(text, kind) for text in texts_in_order)
    if len(set(parsed)) < len(parsed):
        raise _duplicate(texts_in_order, parsed)
    return Elements(kind, texts_in_order, parsed)


def _duplicate(texts: Sequence[str], parsed: Sequence[Value]) -> SpaceError:
    text_of_value: dict[Value, str] = {}
    for text, value in zip(texts, parsed, strict=True):
        if value not in text_of_value:
            text_of_value[value] = text
        elif text_of_value[value] == text:
            return SpaceError(f"the element {text!r} occurs twice", hint="remove one of the two")
        else:
            return SpaceError(
                f"the elements {text_of_value[value]!r} and {text!r} have the same value",
                hint="remove one of the two, or say TYPE str if the texts are meant",
            )
    raise AssertionError("no element occurs twice")


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
        integer_part, decimals = (
            digits[: len(digits) - self.places],
            digits[len(digits) - self.places :],
        )
        sign = "-" if scaled < 0 else ""
        return sign + integer_part.rjust(self.padded, "0") + ("." + decimals if decimals else "")

    def value(self, scaled: int) -> float:
        """Return the real nearest to ``scaled / 10**places``."""
        power: int = 10**self.places
        return scaled / power  # the quotient of two ints is rounded correctly


@dataclass(frozen=True)
class ArithmeticRange:
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
            # Exact arithmetic: for 17 digits, a product of floats may round to the next element.
            scaled = round(Fraction(fitted) * 10**self.numeral.places)
            # A real is found by the nearest scaled integer, then compared: 0.1 is not exactly
            # 1/10.
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
        # Half of the range, so that no intermediate sum overflows.
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
    """Return ``{ first:last:stride }``: both ends included where the stride meets them."""
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
        # Scaled integers keep decimals exact: the third element of 0.1:1:0.1 is 0.3.
        start, by = (int(exact.scaleb(numeral.places)) for exact in (low, step))
        size = int((high - low) // step) + 1
    kind: Type = "int" if kind_of(first) == kind_of(stride) == "int" else "real"
    range_ = ArithmeticRange(kind, start, by, size, numeral)
    return _listed(range_) if size <= MAX_LISTED else range_


def _listed(domain: Domain) -> Elements:
    positions = range(domain.size)
    texts = tuple(domain.text(i) for i in positions)
    return Elements(domain.type, texts, tuple(domain.value(i) for i in positions))


def geometric_texts(first: str, last: str, factor: str) -> Elements:
    """Return ``{ first:last:*factor }``: each element is the one before times *factor*."""
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
    # An estimate, before any element is computed: a factor of 1.0000001 must not fill the memory.
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
        return elements([_written(value) for value in exact])


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
        # More than twice the digits of a real, so that powers of the factor round to the right
        # one.
        decimal.getcontext().prec = 40
        by = ((high / low).ln() / (count - 1)).exp()
        # Bounds are kept as written: computed, they might differ in the last digit.
        inner = [_rounded(low * by**i) for i in range(1, count - 1)]
    return elements([str(first), *inner, str(last)])


def _rounded(exact: Decimal) -> str:
    """Return the nearest real as text, without a point if it is an integer."""
    nearest = float(exact)
    return str(int(nearest)) if nearest.is_integer() and abs(nearest) < 1e15 else text_of(nearest)


def _bounds(
    name: str, first: str | float, last: str | float, count: int
) -> tuple[Decimal, Decimal]:
    if not 1 <= count <= MAX_ELEMENTS:
        raise SpaceError(f"{name} makes from 1 to {MAX_ELEMENTS:,} elements, not {count}")
    low, high = number(str(first)), number(str(last))
    if count == 1 and low != high:
        raise SpaceError(f"{name} cannot put two bounds into 1 element", hint="write 2 or more")
    return low, high


@dataclass(frozen=True)
class Continuous:
    """The reals from *low* to *high*, uniform or log-uniform.

    A position in it is the number itself.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise SpaceError("the bounds of a continuous set are finite numbers")
        if self.low >= self.high:
            raise SpaceError(
                f"the lower bound {self.low:g} is not below the upper bound {self.high:g}",
                hint="swap the bounds",
            )
        if self.log and self.low <= 0:
            raise SpaceError(f"LOGUNIFORM cannot begin at {self.low:g}", hint="use positive bounds")

    def __str__(self) -> str:
        """Return the set in the syntax of directives."""
        name = "LOGUNIFORM" if self.log else "UNIFORM"
        return f"{name}({text_of(self.low)}, {text_of(self.high)})"

    @property
    def type(self) -> Type:
        return "real"

    @property
    def size(self) -> int:
        raise SpaceError(
            f"a continuous set, from {self.low:g} to {self.high:g}, has no size",
            hint="sample it, use a search engine, or take n points of it with LIN or LOG",
        )

    @property
    def ordered(self) -> bool:
        return True

    def text(self, position: float) -> str:
        return text_of(position)

    def value(self, position: float) -> Value:
        return position

    def position(self, value: Value) -> float:
        fitted = fit(value, "real")
        if isinstance(fitted, float) and self.low <= fitted <= self.high:
            return fitted
        raise SpaceError(
            f"{text_of(value)!r} is not in the set",
            hint=f"it goes from {self.low:g} to {self.high:g}",
        )

    def values(self) -> Column:
        raise SpaceError(f"the values from {self.low:g} to {self.high:g} cannot be listed")

    def texts(self) -> Sequence[str]:
        raise SpaceError(f"the numbers from {self.low:g} to {self.high:g} cannot be listed")

    def at(self, positions: Column) -> Column:
        return positions

    def draw(self, rng: random.Random) -> float:
        """Draw a random number of the set."""
        if not self.log:
            return rng.uniform(self.low, self.high)
        # exp(log(x)) may be a little outside of the bounds.
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, self.low), self.high)
