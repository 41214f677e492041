"""The signatures of all functions; `scalar_functions` computes them."""

from __future__ import annotations

from typing import Literal, NamedTuple

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
}
"""What people call from habit, and what stands for it here."""
