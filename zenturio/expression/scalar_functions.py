"""Functions and operators of formulas on single values: results, signatures and types."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zenturio.errors import ExpressionError

if TYPE_CHECKING:
    from zenturio.regular_expressions import Pattern


Value = bool | int | float | str | None
"""``None`` is NULL: an inactive parameter, or a metric that was not measured."""

Type = Literal["int", "real", "str", "bool"]

BITS = 4096
"""An integer has at most so many bits: enough for any count, too few to fill a memory."""

HUGE = 1 << BITS

LONGEST = 10_000
"""A text has at most so many characters."""

PLAIN = frozenset({bool, int, float, str, type(None)})

_TYPES: dict[type, Type] = {int: "int", float: "real", str: "str", bool: "bool"}


class Fault(Exception):
    """An operation has no answer; whoever knows where it stands makes an ExpressionError of it."""

    row: int | None = None
    """Of a column, the row that has none."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def plain(value: Any) -> Value:
    """*value* as one of the five plain types: NumPy's scalars and subclasses become built-in."""
    if type(value) in PLAIN:
        return value  # type: ignore[no-any-return]
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return plain(value.item())
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise Fault(f"a value of Python's type {type(value).__name__} cannot be computed with")


def type_of(value: Value) -> Type | None:
    """Return the type of *value*; ``None`` for NULL."""
    return _TYPES.get(type(value))


def text_of(value: Value) -> str:
    """Return how *value* is written into a file; NULL is the empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def shown(value: Value) -> str:
    """Return *value* with its type, for a message: ``int 5``, ``str 'abc'``."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str) else text_of(value)
    return f"{_TYPES[type(value)]} {clipped(text)}"


def clipped(text: str, most: int = 60) -> str:
    """*text*, or its beginning if it is longer than a message should be."""
    return text if len(text) <= most else text[: most - 3] + "..."


def holds(value: Value) -> bool:
    """Whether a constraint with this *value* keeps its point: NULL does, as in SQL's CHECK."""
    value = plain(value)
    if value is None or isinstance(value, bool):
        return value is not False
    raise ExpressionError(
        f"a condition is true or false, but this is {shown(value)}",
        hint="compare it with something, such as '... > 0'",
    )


Want = Literal["int", "number", "str", "any", "ordered"]
"""``number`` is int or real, ``ordered`` is a number or text."""

Give = Literal["int", "real", "str", "bool", "same"]
"""``same``: as the arguments; real where they are mixed."""


class Signature(NamedTuple):
    """How a function is called: the last of *wants* holds for all that follow."""

    form: str
    fewest: int
    most: int | None
    wants: tuple[Want, ...]
    gives: Give


SIGNATURES: dict[str, Signature] = {
    "min": Signature("min(a, b, ...)", 2, None, ("ordered",), "same"),
    "max": Signature("max(a, b, ...)", 2, None, ("ordered",), "same"),
    "coalesce": Signature("coalesce(a, b, ...)", 2, None, ("any",), "same"),
    "abs": Signature("abs(number)", 1, 1, ("number",), "same"),
    "floor": Signature("floor(number)", 1, 1, ("number",), "int"),
    "ceil": Signature("ceil(number)", 1, 1, ("number",), "int"),
    "round": Signature("round(number)", 1, 1, ("number",), "int"),
    "sqrt": Signature("sqrt(number)", 1, 1, ("number",), "real"),
    "log": Signature("log(number)", 1, 1, ("number",), "real"),
    "log2": Signature("log2(number)", 1, 1, ("number",), "real"),
    "exp": Signature("exp(number)", 1, 1, ("number",), "real"),
    "gcd": Signature("gcd(a, b, ...)", 2, None, ("int",), "int"),
    "ispow2": Signature("ispow2(n)", 1, 1, ("int",), "bool"),
    "divides": Signature("divides(d, n)", 2, 2, ("int", "int"), "bool"),
    "str": Signature("str(value)", 1, 1, ("any",), "str"),
    "len": Signature("len(text)", 1, 1, ("str",), "int"),
    "match": Signature("match(text, pattern)", 2, 2, ("str", "str"), "bool"),
    "basename": Signature("basename(path)", 1, 1, ("str",), "str"),
}

INDEX = "index(name)"
FUNCTIONS = (*SIGNATURES, "index")

ELSEWHERE = {
    "pow": "a power is written a ** b",
    "power": "a power is written a ** b",
    "mod": "a remainder is written a % b",
    "ln": "the natural logarithm is log(number)",
    "log10": "write log(number) / log(10)",
    "int": "write floor(number)",
    "float": "write number * 1.0",
    "sum": "write a + b",
    "any": "write a or b",
    "all": "write a and b",
    "contains": "write part in whole",
    "length": "write len(text)",
    "string": "write str(value)",
    "regex": "write match(text, pattern)",
    "ifnull": "write coalesce(a, b)",
    "nvl": "write coalesce(a, b)",
    "default": "write coalesce(a, b)",
}
"""Functions of other languages, and their equivalents here."""


Number = int | float
Binary = Callable[[Value, Value], Value]

_NUMBERS = frozenset({int, float})


def too_large() -> Fault:
    return Fault(
        "the result is too large", f"integers have at most {BITS} bits, real numbers 1.8e308"
    )


def whole(value: int) -> int:
    """Return *value* if it is within the limit of integers."""
    if -HUGE < value < HUGE:
        return value
    raise too_large()


def real(value: float, *operands: Number) -> float:
    """*value*; infinite or undefined only where an operand already was."""
    if math.isfinite(value) or not all(map(math.isfinite, operands)):
        return value
    raise too_large()


def number(value: Value, operator: str) -> Number:
    """Return *value* if it is a number."""
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
        # The parity of the exponent decides; 2 or 3 stands for any exponent above 0.
        return int(base ** (exponent % 2 + 2 if exponent else 0))
    # A lower bound of the result's bits: refused before it is computed.
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
    """Return the operation where a real number, or a quotient, comes out."""
    try:
        return real(operation(a, b), a, b)
    except OverflowError:
        raise too_large() from None


def _both(a: Value, b: Value) -> str:
    return f"{shown(a)} and {shown(b)}"


def equal(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    # In Python 1 == True; here a number and a condition cannot be compared.
    if type(a) is type(b) or (type(a) in _NUMBERS and type(b) in _NUMBERS):
        return a == b
    raise Fault(f"{_both(a, b)} cannot be compared", _comparison_hint(a, b))


def unequal(a: Value, b: Value) -> Value:
    same = equal(a, b)
    return None if same is None else not same


def _ordered(a: Value, b: Value) -> bool:
    """Return whether both have a value; a Fault if there is no order between them."""
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
    """Return *value* if it is true, false or NULL."""
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
    truth = condition(value, "not")
    return None if truth is None else not truth


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
    """Return the first of the best; a real number where any is real."""
    best = values[0]
    for value in values[1:]:
        if better(value, best):
            best = value
    if type(best) is int and float in map(type, values):
        return _float(best)
    return best


def first_known(*values: Value) -> Value:
    """The first that is neither NULL nor NaN, which a database cannot tell apart; a real number
    where any is real.
    """
    known = next((v for v in values if v is not None and v == v), None)  # noqa: PLR0124 - NaN
    return _float(known) if type(known) is int and float in map(type, values) else known


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
    # 0 divides 0 alone, as in number theory; no division by zero.
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
def compiled(pattern: str) -> Pattern:
    """*pattern*, in the syntax of RE2; Fault if it cannot be read."""
    from zenturio.regular_expressions import (  # noqa: PLC0415 - few expressions match
        PatternError,
        compile_pattern,
    )

    try:
        return compile_pattern(pattern)
    except PatternError as error:
        hint = "patterns are those of RE2: no look-around, no back-references"
        raise Fault(f"{pattern!r} is not a pattern: {error}", hint) from None


def _null_in_null_out(function: Function) -> Function:
    def guarded(*values: Value) -> Value:
        return None if None in values else function(*values)

    return guarded


# Each takes values without NULL: the guard in CALLED answers for those with it.
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

CALLED: dict[str, Function] = {
    "coalesce": first_known,
    **{name: _null_in_null_out(function) for name, function in _PLAIN.items()},
}
"""Each function of the language by its name."""
