"""The functions of the language on single values; NULL in, NULL out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zenturio.expression.scalar_operators import greater, less, number, real, too_large
from zenturio.expression.signatures import SIGNATURES
from zenturio.expression.values import Fault, Value, shown, text_of

if TYPE_CHECKING:
    import re

Function = Callable[..., Value]


def _integer(value: Value, function: str) -> int:
    if type(value) is int:
        return value
    raise Fault(f"{function!r} takes integers, but this is {shown(value)}", "floor(...) makes one")


def _text(value: Value, function: str) -> str:
    if type(value) is str:
        return value
    raise Fault(f"{function!r} takes a text, but this is {shown(value)}", "str(...) makes a text")


def _least(*values: Value) -> Value:
    return _best(values, less)


def _greatest(*values: Value) -> Value:
    return _best(values, greater)


def _best(values: tuple[Value, ...], better: Callable[[Value, Value], Value]) -> Value:
    """The first of the best; a real number where any is real."""
    best = values[0]
    for value in values[1:]:
        if better(value, best):
            best = value
    if type(best) is int and float in map(type, values):
        return _float(best)
    return best


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise too_large() from None


def _absolute(value: Value) -> Value:
    return abs(number(value, "abs"))


def _rounded(name: str, how: Callable[[float], int]) -> Function:
    def function(value: Value) -> Value:
        x = number(value, name)
        if type(x) is int:
            return x
        if not math.isfinite(x):
            raise Fault(f"{name!r} makes no integer of {shown(x)}")
        return how(x)

    return function


def _root(value: Value) -> Value:
    x = number(value, "sqrt")
    if x < 0:
        raise Fault(f"{shown(x)} has no square root", "test before: x >= 0 and sqrt(x) < 2")
    return math.sqrt(_float(x))


def _logarithm(name: str, how: Callable[[float], float]) -> Function:
    def function(value: Value) -> Value:
        x = number(value, name)
        if x <= 0:
            raise Fault(f"{shown(x)} has no logarithm", f"test before: x > 0 and {name}(x) < 2")
        return how(x)

    return function


def _exponential(value: Value) -> Value:
    x = number(value, "exp")
    try:
        return real(math.exp(x), x)
    except OverflowError:
        raise too_large() from None


def _common_divisor(*values: Value) -> Value:
    return math.gcd(*(_integer(value, "gcd") for value in values))


def _is_power_of_two(value: Value) -> Value:
    n = _integer(value, "ispow2")
    return n > 0 and n & (n - 1) == 0


def _divides(divisor: Value, value: Value) -> Value:
    d, n = _integer(divisor, "divides"), _integer(value, "divides")
    return n % d == 0 if d else n == 0


def _text_of(value: Value) -> Value:
    return text_of(0.0 if value == 0 and type(value) is float else value)  # there is no "-0.0"


def _length(value: Value) -> Value:
    return len(_text(value, "len"))


def _basename(value: Value) -> Value:
    return _text(value, "basename").rstrip("/").rpartition("/")[2]


def _matches(value: Value, pattern: Value) -> Value:
    return compiled(_text(pattern, "match")).search(_text(value, "match")) is not None


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """*pattern* for RE2, whose time grows with the text alone."""
    import re2  # noqa: PLC0415 - few expressions match

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)  # type: ignore[no-any-return]
    except re2.error as error:
        reason: Any = error.args[0] if error.args else error
        told = reason.decode() if isinstance(reason, bytes) else str(reason)
        hint = "patterns are those of RE2: no look-around, no back-references"
        raise Fault(f"{pattern!r} is no pattern: {told}", hint) from None


def _null_in_null_out(function: Function) -> Function:
    def guarded(*values: Value) -> Value:
        return None if None in values else function(*values)

    return guarded


_PLAIN: dict[str, Function] = {
    "min": _least,
    "max": _greatest,
    "abs": _absolute,
    "floor": _rounded("floor", math.floor),
    "ceil": _rounded("ceil", math.ceil),
    "round": _rounded("round", round),
    "sqrt": _root,
    "log": _logarithm("log", math.log),
    "log2": _logarithm("log2", math.log2),
    "exp": _exponential,
    "gcd": _common_divisor,
    "ispow2": _is_power_of_two,
    "divides": _divides,
    "str": _text_of,
    "len": _length,
    "match": _matches,
    "basename": _basename,
}

CALLED: dict[str, Function] = {name: _null_in_null_out(_PLAIN[name]) for name in SIGNATURES}
"""Each function of the language by its name."""
