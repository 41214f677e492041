"""The operators of the language on single values; columns must give the same results."""

from __future__ import annotations

import math
from collections.abc import Callable

from zenturio.expression.values import BITS, HUGE, LONGEST, Fault, Value, shown

Number = int | float
Binary = Callable[[Value, Value], Value]

_NUMBERS = frozenset({int, float})


def too_large() -> Fault:
    return Fault(
        "the result is too large", f"integers have at most {BITS} bits, real numbers 1.8e308"
    )


def whole(value: int) -> int:
    """*value* if it is within the limit of integers."""
    if -HUGE < value < HUGE:
        return value
    raise too_large()


def real(value: float, *operands: Number) -> float:
    """*value*; infinite or undefined only where an operand already was."""
    if math.isfinite(value) or not all(map(math.isfinite, operands)):
        return value
    raise too_large()


def number(value: Value, operator: str) -> Number:
    """*value* if it is a number."""
    if type(value) in _NUMBERS:
        return value  # type: ignore[return-value]
    hint = "1 if ... else 0 makes a number of a condition" if type(value) is bool else ""
    raise Fault(f"{operator!r} takes numbers, but this is {shown(value)}", hint)


def add(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        return whole(a + b)
    if type(a) is float and type(b) is float:
        return real(a + b, a, b)
    if a is None or b is None:
        return None
    if type(a) is str and type(b) is str:
        if len(a) + len(b) > LONGEST:
            raise Fault(f"the text has more than {LONGEST} characters")
        return a + b
    if type(a) is str or type(b) is str:
        hint = "str(...) makes a text of a number"
        raise Fault(f"'+' takes two numbers or two texts, but these are {_both(a, b)}", hint)
    return _reals(lambda x, y: x + y, number(a, "+"), number(b, "+"))


def subtract(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        return whole(a - b)
    if a is None or b is None:
        return None
    return _reals(lambda x, y: x - y, number(a, "-"), number(b, "-"))


def multiply(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        # Bounded before it is computed: factors are within the limit, so this is cheap.
        return whole(a * b)
    if a is None or b is None:
        return None
    return _reals(lambda x, y: x * y, number(a, "*"), number(b, "*"))


def divide(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    x, y = number(a, "/"), number(b, "/")
    return _reals(lambda p, q: p / q, x, _divisor(y))


def floor_divide(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        return a // _whole_divisor(b)
    if a is None or b is None:
        return None
    x, y = number(a, "//"), number(b, "//")
    return _reals(lambda p, q: p // q, x, _divisor(y))


def remainder(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int:
        return a % _whole_divisor(b)
    if a is None or b is None:
        return None
    x, y = number(a, "%"), number(b, "%")
    return _reals(lambda p, q: p % q, x, _divisor(y))


def power(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    x, y = number(a, "**"), number(b, "**")
    if type(x) is int and type(y) is int:
        return _whole_power(x, y)
    if x < 0 and type(y) is float and math.isfinite(y) and y != math.floor(y):
        raise Fault(f"{shown(x)} has no real power {shown(y)}", "the base must not be negative")
    if x == 0 and y < 0:
        raise Fault("0 has no negative power", _BEFORE)
    return _reals(lambda p, q: float(p) ** float(q), x, y)


def _whole_power(base: int, exponent: int) -> int:
    if exponent < 0:
        raise Fault(f"an integer has no integer power {exponent}", f"write {base}.0 ** {exponent}")
    if base in (-1, 0, 1):
        return int(base ** (exponent % 2 + 2 if exponent else 0))
    if (abs(base).bit_length() - 1) * exponent > BITS:
        raise too_large()
    return whole(int(base**exponent))


def negate(a: Value) -> Value:
    return None if a is None else -number(a, "-")


def keep(a: Value) -> Value:
    return None if a is None else number(a, "+")


_BEFORE = "test before: b != 0 and a / b > 1, or a / b if b != 0 else 0"


def _divisor(value: Number) -> Number:
    if value == 0:
        raise zero_divisor()
    return value


def _whole_divisor(value: int) -> int:
    if value == 0:
        raise zero_divisor()
    return value


def zero_divisor() -> Fault:
    return Fault("division by zero", _BEFORE)


def _reals(operation: Callable[[Number, Number], float], a: Number, b: Number) -> float:
    """The operation where a real number, or a quotient, comes out."""
    try:
        return real(operation(a, b), a, b)
    except OverflowError:
        raise too_large() from None


def _both(a: Value, b: Value) -> str:
    return f"{shown(a)} and {shown(b)}"


def equal(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    if type(a) is type(b) or (type(a) in _NUMBERS and type(b) in _NUMBERS):
        return a == b
    raise Fault(f"{_both(a, b)} cannot be compared", _comparison_hint(a, b))


def unequal(a: Value, b: Value) -> Value:
    same = equal(a, b)
    return None if same is None else not same


def _ordered(a: Value, b: Value) -> bool:
    """Whether both have a value; a Fault if there is no order between them."""
    if a is None or b is None:
        return False
    if (type(a) in _NUMBERS and type(b) in _NUMBERS) or (type(a) is str and type(b) is str):
        return True
    raise Fault(f"there is no order between {_both(a, b)}", _comparison_hint(a, b))


def _comparison_hint(a: Value, b: Value) -> str:
    kinds = {type(a), type(b)}
    if bool in kinds:
        return "write a condition alone, without comparing it"
    return "a number in quotes is a text; str(...) makes a text of a number" if str in kinds else ""


def less(a: Value, b: Value) -> Value:
    return a < b if _ordered(a, b) else None  # type: ignore[operator]


def at_most(a: Value, b: Value) -> Value:
    return a <= b if _ordered(a, b) else None  # type: ignore[operator]


def greater(a: Value, b: Value) -> Value:
    return a > b if _ordered(a, b) else None  # type: ignore[operator]


def at_least(a: Value, b: Value) -> Value:
    return a >= b if _ordered(a, b) else None  # type: ignore[operator]


def within(part: Value, whole_text: Value) -> Value:
    if part is None or whole_text is None:
        return None
    if type(part) is str and type(whole_text) is str:
        return part in whole_text
    hint = "'in' takes a list, n in (1, 2, 4), or looks for a text in a text"
    raise Fault(f"{shown(part)} cannot be looked for in {shown(whole_text)}", hint)


def member(item: Value, *options: Value) -> Value:
    """Whether one of *options* equals *item*: NULL if none does and one is unknown."""
    answers = [equal(item, option) for option in options]
    return True if True in answers else (None if None in answers else False)


def condition(value: Value, operator: str) -> bool | None:
    """*value* if it is true, false or NULL."""
    if value is None or type(value) is bool:
        return value
    raise Fault(f"{operator!r} takes true or false, but this is {shown(value)}", _CONDITION)


_CONDITION = "compare it with something, such as '... > 0'"


def both(a: Value, b: Value) -> Value:
    """True, false or NULL, connected by 'and'."""
    return False if a is False or b is False else (None if a is None or b is None else True)


def either(a: Value, b: Value) -> Value:
    """True, false or NULL, connected by 'or'."""
    return True if a is True or b is True else (None if a is None or b is None else False)


def negation(value: Value) -> Value:
    known = condition(value, "not")
    return None if known is None else not known


ARITHMETIC: dict[str, Binary] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "//": floor_divide,
    "%": remainder,
    "**": power,
}

RELATIONS: dict[str, Binary] = {
    "==": equal,
    "!=": unequal,
    "<": less,
    "<=": at_most,
    ">": greater,
    ">=": at_least,
}
