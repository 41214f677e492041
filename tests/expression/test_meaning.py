"""What expressions mean at one point."""

import math
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.errors import ExpressionError
from zenturio.expression import holds, parse, text_of
from zenturio.expression.column_values import floor_divide, of_list
from zenturio.expression.scalar_functions import SIGNATURES

HERE = {"a": 7, "b": 2, "x": 2.5, "s": "node1-a", "t": True, "f": False, "null": None, "zero": 0}


def value(text, **more):
    return parse(text).value({**HERE, **more})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * 2", 11),
        ("(a + b) * 2", 18),
        ("a - b - 1", 4),
        ("a - (b - 1)", 6),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("(-2) ** 2", 4),
        ("2.0 ** -1", 0.5),
        ("--a", 7),
        ("+a", 7),
        ("-a // b", -4),
        ("-a % b", 1),
        ("a % -b", -1),
        ("-7.5 // 2", -4.0),
        ("a / b", 3.5),
        ("4 / 2", 2.0),
        ("a // b * b + a % b", 7),
        ("not t or t", True),
        ("not (t or t)", False),
        ("f and t or t", True),
        ("f and (t or t)", False),
        ("1 < 2 < 3", True),
        ("1 < 2 > 3", False),
        ("1 < 3 > 2 != 5", True),
        ("1 if f else 2 if f else 3", 3),
        ("(1 if t else 2) + 1", 2),
        ("1 if t else 2 + 1", 1),
        ("a in (1, 7)", True),
        ("a in [1, 2,]", False),
        ("a not in (1, 7)", False),
        ("a in (7.0)", True),
        ("'node' in s", True),
        ("'x' not in s", True),
        ("'a' in 'b' + 'a'", True),
        ("NOT t OR f", False),
        ("t AND f OR t", True),
        ("a IN (7, 8) AND NOT f", True),
        ("1 IF t ELSE 2", 1),
        ("true and True and TRUE", True),
        ("false or False or FALSE", False),
        (r"""'it\'s' == "it's" """, True),
        (r'"a\tb\n\\\"" == "a" + "\t" + "b" + "\n\\" + "\""', True),
        (r'"\d+"', r"\d+"),
        ("001", 1),
        (".5 + 1.", 1.5),
        ("1e3", 1000.0),
        ("2E-3", 0.002),
        ("s + str(a)", "node1-a7"),
        ("1 == 1.0", True),
        ("t == true", True),
        ("s != 'x'", True),
        ("'B' < 'a'", True),
    ],
)
def test_operators_mean_what_they_mean_in_python(text, expected):
    found = value(text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512MB", 512_000_000),
        ("1.5KiB", 1536),
        ("1B", 1),
        ("2PB", 2 * 10**15),
        ("3TiB", 3 * 2**40),
        ("10min", 600),
        ("2h + 1d", 7200 + 86400),
        ("500ms", 0.5),
        ("2000ms", 2),
        ("1us", 1e-6),
        ("3ns", 3e-9),
        ("90s == 1.5min", True),
        ("0.1GB", 100_000_000),
        ("1e3KB", 1_000_000),
    ],
)
def test_a_unit_makes_bytes_or_seconds_and_stays_exact(text, expected):
    found = value(text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("min(a, b, 5)", 2),
        ("max(a, x)", 7.0),
        ("max('a', 'b')", "b"),
        ("abs(-x)", 2.5),
        ("abs(-a)", 7),
        ("floor(-x)", -3),
        ("ceil(x)", 3),
        ("round(x)", 2),
        ("round(3.5)", 4),
        ("floor(a)", 7),
        ("sqrt(16)", 4.0),
        ("log(1)", 0.0),
        ("log2(8)", 3.0),
        ("exp(0)", 1.0),
        ("gcd(12, 18, 27)", 3),
        ("coalesce(a, 2)", 7),
        ("coalesce(a, 2.5)", 7.0),
        ("coalesce('p', 'q')", "p"),
        ("ispow2(64)", True),
        ("ispow2(0)", False),
        ("ispow2(-4)", False),
        ("ispow2(6)", False),
        ("divides(3, 12)", True),
        ("divides(5, 12)", False),
        ("divides(0, 12)", False),
        ("divides(0, 0)", True),
        ("str(x)", "2.5"),
        ("str(1e22)", "1e+22"),
        ("str(t)", "true"),
        ("str(s)", "node1-a"),
        ("len(s)", 7),
        ("match(s, '^node[0-9]+')", True),
        ("match(s, '1-a$')", True),
        ("match(s, '^a')", False),
        ("basename('/usr/bin/cc')", "cc"),
        ("basename('x/y/')", "y"),
        ("basename('cc')", "cc"),
        ("basename('/')", ""),
        ("log(2 ** 2000) > 1386", True),
    ],
)
def test_functions_give(text, expected):
    found = value(text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null + 1", None),
        ("-null", None),
        ("null == null", None),
        ("null < 1", None),
        ("null and f", False),
        ("f and null", False),
        ("null and t", None),
        ("null or t", True),
        ("t or null", True),
        ("null or f", None),
        ("not null", None),
        ("1 < null < 0", None),
        ("2 < 1 < null", False),
        ("null < 1 < 0", False),
        ("a in (7, null)", True),
        ("a in (8, null)", None),
        ("a not in (8, null)", None),
        ("null in (1, 2)", None),
        ("1 if null else 2", 2),
        ("min(null, 1)", None),
        ("coalesce(null, 1)", 1),
        ("coalesce(null, null + 1, s)", "node1-a"),
        ("coalesce(null, null)", None),
        ("coalesce(null + 1, f)", False),
        ("str(null)", None),
        ("null in s", None),
        ("null ** 2", None),
        ("null / zero", None),
    ],
)
def test_null_is_unknown_as_in_sql(text, expected):
    assert value(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a / zero", "division by zero"),
        ("a // zero", "division by zero"),
        ("x % zero", "division by zero"),
        ("0 ** -x", "no negative power"),
        ("(-x) ** 0.5", "no real power"),
        ("b ** -a", "no integer power"),
        ("sqrt(-a)", "no square root"),
        ("log(zero)", "no logarithm"),
        ("log2(-x)", "no logarithm"),
        ("exp(a * 1000)", "too large"),
        ("1e308 * (a * 1.0)", "too large"),
        ("1e308 + 1e308 * x / x", "too large"),
        ("10 ** 400 * x", "too large"),
        ("2 ** 2000 / (a * 1.0)", "too large"),
        ("a ** 5000", "too large"),
        ("b ** 4096", "too large"),
        ("b ** 4095 * b", "too large"),
        ("b ** 4095 + b ** 4095", "too large"),
        ("floor(x * inf)", "no integer"),
        ("round(nan)", "no integer"),
        ("s * a", "takes numbers"),
        ("s + a", "two numbers or two texts"),
        ("t + a", "takes numbers"),
        ("s < a", "no order"),
        ("t < f", "no order"),
        ("s == a", "cannot be compared"),
        ("t == a", "cannot be compared"),
        ("a in (1, s)", "cannot be compared"),
        ("a in s", "looked for"),
        ("not a", "true or false"),
        ("a and t", "true or false"),
        ("t and s", "true or false"),
        ("1 if a else 2", "true or false"),
        ("len(a)", "takes a text"),
        ("gcd(a, x)", "takes integers"),
        ("ispow2(x)", "takes integers"),
        ("min(t, f)", "no order"),
        ("match(s, s + '(')", "is not a pattern"),
        ("abs(s)", "takes numbers"),
    ],
)
def test_what_has_no_answer_is_an_error_with_a_place(text, message):
    expression = parse(text)
    with pytest.raises(ExpressionError, match=message) as caught:
        expression.value({**HERE, "inf": math.inf, "nan": math.nan})
    place = caught.value.diagnostics[0].place
    assert place.text == text
    assert 1 <= place.column <= len(text)


def test_the_largest_integer_is_one_below_two_to_the_4096():
    assert value("b ** 4095 - 1 + b ** 4095") == 2**4096 - 1


def test_a_text_has_at_most_ten_thousand_characters():
    assert len(value("s + s", s="x" * 5000)) == 10_000
    with pytest.raises(ExpressionError, match="more than 10000 characters"):
        value("s + s + 'y'", s="x" * 5000)


def test_infinite_operands_stay_infinite():
    assert value("x * 2 - 1", x=math.inf) == math.inf
    assert math.isnan(value("x - x", x=math.inf))
    assert value("coalesce(x, 5)", x=math.nan) == 5


@pytest.mark.parametrize("text", ["f and a / zero > 1", "t or a / zero > 1", "5 < 3 < a / zero"])
def test_what_is_not_reached_cannot_fail(text):
    assert value(text) is (text[0] == "t")


def test_only_the_chosen_branch_is_computed():
    assert value("a / zero if zero != 0 else -1") == -1


def test_a_position_is_looked_up_apart_from_the_value():
    assert parse("index(a) * 10 + a").value({"a": 7}, {"a": 3}) == 37
    with pytest.raises(ExpressionError, match="no position is known of 'a'"):
        parse("index(a)").value({"a": 7}, {"b": 0})


def test_a_host_has_attributes():
    expression = parse("host.memory >= 512MB and host.arch == 'x86_64'")
    assert expression.host_names == {"memory", "arch"}
    assert expression.names == frozenset()
    assert expression.value({}, host={"memory": 10**9, "arch": "x86_64"}) is True
    with pytest.raises(ExpressionError, match=r"host\.memory is not known") as caught:
        expression.value({}, host={"memroy": 1, "arch": ""})
    assert "did you mean 'memroy'?" in str(caught.value)


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(ExpressionError, match="did you mean 'threads'"):
        parse("thraeds > 1").value({"threads": 1, "n": 2})


@pytest.mark.parametrize("name", ["Größe", "select", "_x1", "a" * 70, "min", "host", "量", "And"])
def test_a_name_is_any_identifier(name):
    assert parse(f"{name} + 1").names == {name}
    assert parse(f"{name} + 1").value({name: 1}) == 2


@pytest.mark.parametrize(
    "name", ["block-size", "two words", "1st", "a`b", "and", "true", "$x", "ü·"]
)
def test_any_other_name_stands_in_backticks(name):
    text = f"`{name.replace('`', '``')}` + 1"
    assert parse(text).names == {name}
    assert parse(text).value({name: 1}) == 2


def test_scalars_of_numpy_are_taken_as_pythons_own():
    found = parse("a * b").value({"a": np.int32(2**30), "b": np.int64(4)})
    assert (found, type(found)) == (2**32, int)
    assert parse("x").value({"x": np.float32(0.5)}) == 0.5
    assert parse("not t").value({"t": np.bool_(False)}) is True
    assert parse("s + 'b'").value({"s": np.str_("a")}) == "ab"


def test_members_of_enumerations_are_taken_as_what_they_are():
    class Level(IntEnum):
        HIGH = 3

    found = parse("a + 1").value({"a": Level.HIGH})
    assert (found, type(found)) == (4, int)


def test_other_objects_are_refused():
    with pytest.raises(ExpressionError, match="type list cannot be computed with"):
        parse("a + 1").value({"a": [1]})


def test_equal_expressions_are_equal_wherever_and_however_they_are_written():
    assert parse("a+b * 2") == parse("a + (b*2)")
    assert hash(parse("a+b")) == hash(parse("a  +  b"))
    assert parse("a + 1") != parse("a + 1.0")
    assert parse("a == true") != parse("a == 1")
    assert parse("(a + b) + c") != parse("a + (b + c)")
    assert str(parse("a+b")) == "a+b"


def test_a_constraint_keeps_what_is_true_or_unknown():
    assert holds(True)
    assert holds(None)
    assert holds(np.bool_(True))
    assert not holds(False)
    with pytest.raises(ExpressionError, match="but this is int 1"):
        holds(1)


@given(st.floats(allow_nan=False))
def test_a_real_number_is_written_as_short_as_it_reads_back(x):
    assert float(text_of(x)) == x


@given(st.decimals(min_value=0, max_value=10**9, places=6))
def test_a_number_with_a_unit_is_computed_exactly(number):
    found = parse(f"{number:f}KiB").value({})
    exact = Decimal(number) * 1024
    assert found == (int(exact) if exact == int(exact) else float(exact))


def test_values_are_written_plainly():
    assert [text_of(v) for v in (1, 1.0, True, False, None, "a b")] == [
        "1",
        "1.0",
        "true",
        "false",
        "",
        "a b",
    ]


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_takes_as_many_arguments_as_its_form_says(name):
    signature = SIGNATURES[name]
    arguments = signature.form.removeprefix(f"{name}(").rstrip(")").split(", ")
    if arguments[-1] == "...":
        assert (signature.fewest, signature.most) == (len(arguments) - 1, None)
    else:
        assert (signature.fewest, signature.most) == (len(arguments), len(arguments))
        with pytest.raises(ExpressionError):
            parse(f"{name}({', '.join(['n'] * (len(arguments) + 1))})")
    with pytest.raises(ExpressionError):
        parse(f"{name}({', '.join(['n'] * (signature.fewest - 1))})")


def test_the_bounds_of_quotients_are_no_wider_than_they_have_to_be():
    quotients = floor_divide(of_list([0, 9, 10]), of_list([3, 1, 2]))
    assert (quotients.low, quotients.high) == (0, 10)
    assert (list(quotients.list()), quotients.kind) == ([0, 9, 5], "int")
