"""What can be said of an expression before any value is known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression.random_expressions import Chance, expression_of
from zenturio.errors import ExpressionError
from zenturio.expression import parse

TYPES = {
    "n": "int",
    "m": "int",
    "x": "real",
    "s": "str",
    "flag": "bool",
    "any": None,
    "threads": "int",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n + m * 2", "int"),
        ("n / m", "real"),
        ("n // m", "int"),
        ("n % 2.0", "real"),
        ("n ** m", "int"),
        ("n ** 0.5", "real"),
        ("-x", "real"),
        ("n + x - 1", "real"),
        ("s + 'x'", "str"),
        ("any + n", None),
        ("any / n", "real"),
        ("any", None),
        ("any + any", None),
        ("any < 3", "bool"),
        ("n < x <= 3", "bool"),
        ("n in (1, 2.5)", "bool"),
        ("s in 'abc'", "bool"),
        ("not flag and any", "bool"),
        ("n if flag else m", "int"),
        ("n if flag else x", "real"),
        ("n if flag else any", None),
        ("min(n, m)", "int"),
        ("max(n, x)", "real"),
        ("max(s, 'a')", "str"),
        ("min(n, any)", None),
        ("abs(x)", "real"),
        ("floor(x)", "int"),
        ("sqrt(n)", "real"),
        ("gcd(n, 4)", "int"),
        ("ispow2(n)", "bool"),
        ("divides(4, n)", "bool"),
        ("index(s)", "int"),
        ("str(flag)", "str"),
        ("len(s)", "int"),
        ("match(s, 'a')", "bool"),
        ("basename(s)", "str"),
        ("512MB", "int"),
        ("0.5", "real"),
        ("10min", "int"),
    ],
)
def test_a_type_follows_from_the_types_of_names(text, expected):
    assert parse(text).check(TYPES) == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("thraeds > 1", "unknown name 'thraeds'", "did you mean 'threads'?"),
        ("index(q) > 1", "unknown name 'q'", "there is: any, flag, m, n, s, threads, x"),
        ("s == linsi", "unknown name 'linsi'", 'write "linsi" in quotes: s is a text'),
        ("linsi != s", "unknown name 'linsi'", 'write "linsi" in quotes: s is a text'),
        ("s in ('a', linsi)", "unknown name 'linsi'", 'write "linsi" in quotes: s is a text'),
        ("s == thraeds", "'thraeds'", "'threads'?; for a text, write \"thraeds\" in quotes"),
        ("n == linsi", "unknown name 'linsi'", "there is: any"),
        (
            "n == '4'",
            'n, which is int, and "4", which is str, are never equal',
            "4 in quotes is a text",
        ),
        ("n == flag", "n, which is int, and flag, which is bool, are never equal", ""),
        ("s < n", "s, which is str, and n, which is int, have no order", ""),
        ("flag < flag", "'<' does not order conditions", ""),
        ("n in (1, 'a')", "are never equal", "4 in quotes is a text"),
        ("n in s", "n is int, not a text", "'in' takes a list"),
        ("s + n", "s is str and n is int", "str(n) makes a text"),
        ("n + s", "n is int and s is str", "str(n) makes a text"),
        ("s * 2", "'*' takes numbers, but s is str", ""),
        ("s - s", "'-' takes numbers, but s is str", ""),
        ("s + s - n", "'-' takes numbers, but s is str", ""),
        ("-s", "'-' takes numbers, but s is str", ""),
        ("flag + 1", "flag is bool", "1 if ... else 0"),
        ("flag * n", "flag is bool", "1 if ... else 0"),
        ("n and flag", "'and' takes true or false, but n is int", "n > 0"),
        ("flag or s", "'or' takes true or false, but s is str", "s != ''"),
        ("not n", "'not' takes true or false, but n is int", "n > 0"),
        ("1 if n else 2", "'if' takes true or false, but n is int", "n > 0"),
        ("1 if flag else s", "both branches must be alike, but 1 is int and s is str", ""),
        ("len(n)", "'len' takes a text, but n is int", "str(...)"),
        ("gcd(n, x)", "'gcd' takes integers, but x is real", "floor(...)"),
        ("sqrt(s)", "'sqrt' takes numbers, but s is str", ""),
        ("min(n, s)", "have no order", ""),
        ("min(flag, flag)", "'min' takes numbers or texts, but flag is bool", ""),
        ("match(s, '(')", "'(' is not a pattern: missing )", "RE2"),
        ("host.memory > 1", "host.memory is not known here", "REQUIRE and RANK"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(text, message, hint):
    with pytest.raises(ExpressionError) as caught:
        parse(text).check(TYPES)
    assert message in str(caught.value)
    assert hint in str(caught.value)
    assert caught.value.diagnostics[0].place


def test_a_host_is_known_where_one_is_chosen():
    assert parse("host.memory >= 512MB").check({}, host=True) == "bool"
    assert parse("host.mhz / (1 + host.load)").check({}, host=True) == "real"


def test_all_mistakes_are_told_together_in_their_order():
    with pytest.raises(ExpressionError) as caught:
        parse("q + 1 > r and s").check(TYPES)
    assert [diagnostic.place.column for diagnostic in caught.value.diagnostics] == [1, 9, 15]


def test_a_flood_of_mistakes_is_cut_and_says_so():
    with pytest.raises(ExpressionError) as caught:
        parse(" + ".join(f"q{at}" for at in range(50))).check(TYPES)
    assert len(caught.value.diagnostics) == 11
    assert str(caught.value).count("unknown name") == 10
    assert "there are more mistakes from here on" in str(caught.value)


def test_names_and_positions_and_hosts_are_told_apart():
    expression = parse("a + index(b) * host.cpus - len(c) + a")
    assert expression.names == {"a", "c"}
    assert expression.indexed == {"b"}
    assert expression.host_names == {"cpus"}


@settings(max_examples=settings.default.max_examples * 300 // 100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_computed_is_of_the_type_that_was_checked(seed):
    chance = Chance(seed)
    kinds = {"i": "int", "j": "int", "p": "int", "huge": "int", "x": "real", "y": "real"}
    kinds |= {"s": "str", "t": "str", "b": "bool", "c": "bool", "ni": "int", "nx": "real"}
    kinds |= {"ns": "str", "nb": "bool", "nothing": None, "number": None, "wild": None}
    expression = expression_of(chance.tree(chance.random.choice(["int", "real", "str", "bool"]), 3))
    try:
        expected = expression.check(kinds)
    except ExpressionError:
        return
    certain = not {"number", "wild", "nothing"} & expression.names
    values = {name: chance.cell(name) for name in sorted(expression.names)}
    value, failure = evaluated(expression, values)
    if not certain or value is None or expected is None:
        return
    assert not failure or any(words in failure for words in COMPUTED), (expression, failure)
    allowed = {"int": int, "real": (int, float), "str": str, "bool": bool}[expected]
    assert failure or isinstance(value, allowed), (expression, value)
    assert failure or expected == "bool" or not isinstance(value, bool)


COMPUTED = ("too large", "division by zero", "logarithm", "square root", "power", "no integer")
"""What may be wrong with values although their types are right."""


def evaluated(expression, values):
    """The value, or false and what is wrong."""
    try:
        return expression.value(values, {"i": 1, "p": 2}), ""
    except ExpressionError as error:
        return False, str(error)
