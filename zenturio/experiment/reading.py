"""From what a program printed to typed values, and from several values to the one that is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zenturio.annotate.model import Take
from zenturio.experiment.experiment import MetricValue, Missing, Series

if TYPE_CHECKING:
    from zenturio.expression import Value


def parse_value(raw: bytes) -> Value:
    """*raw* as an int of any size, a float (NaN and Inf too), or the text as it is.

    A number too large for a float stays text: it is not Inf. Bytes that are no UTF-8 survive as
    surrogates.
    """
    if b"_" not in raw:  # Python reads 1_000 as a number, programs do not write it
        try:
            return int(raw)
        except ValueError:
            number = _real(raw)
            if number is not None:
                return number
    return raw.decode("utf-8", "surrogateescape")


def _real(raw: bytes) -> float | None:
    """*raw* as a float, written as C or (1.5D+03) as Fortran writes it."""
    try:
        number = float(raw)
    except ValueError:
        if not _is_fortran(raw.strip()):
            return None
        number = float(raw.lower().replace(b"d", b"e"))
    if math.isinf(number) and b"inf" not in raw.lower():
        return None
    return number


def _is_fortran(raw: bytes) -> bool:
    """Whether *raw* is a real as Fortran writes it: a mantissa, d, and an exponent."""
    mantissa, _, exponent = raw.lower().partition(b"d")
    whole, _, part = _unsigned(mantissa).partition(b".")
    return (whole + part).isdigit() and _unsigned(exponent).isdigit()


def _unsigned(number: bytes) -> bytes:
    return number[1:] if number[:1] in (b"+", b"-") else number


def take_value(values: Sequence[Value], take: Take) -> MetricValue:
    """The one of *values*, or made of them, that ``TAKE`` names; there is at least one."""
    match take:
        case "first":
            return _plain(values[0])
        case "last":
            return _plain(values[-1])
        case "count":
            return len(values)
        case "all":
            return Series(tuple(values))
        case _:
            return _reduced(values, take)


def _plain(value: Value) -> MetricValue:
    return Missing("its value is null") if value is None else value


def _reduced(values: Sequence[Value], take: Take) -> MetricValue:
    """Their smallest, largest, mean or sum; NaN if one of them is."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        odd = next(v for v in values if isinstance(v, bool) or not isinstance(v, int | float))
        return Missing(f"TAKE {take} needs numbers, but one of {len(values)} is {_shown(odd)}")
    if any(isinstance(n, float) and math.isnan(n) for n in numbers):
        return math.nan
    if take == "min":
        return min(numbers)
    if take == "max":
        return max(numbers)
    return _sum_or_mean(numbers, take)


def _sum_or_mean(numbers: list[int | float], take: Take) -> MetricValue:
    """Exact for ints; rounded once for floats."""
    try:
        if all(isinstance(n, int) for n in numbers):
            total: int | float = sum(numbers)
        else:
            total = math.fsum(numbers)
        return total / len(numbers) if take == "mean" else total
    except (OverflowError, ValueError) as error:  # beyond a float's range, or Inf and -Inf
        return Missing(f"TAKE {take} has no answer: {error}")


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
