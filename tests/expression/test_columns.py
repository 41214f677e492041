"""Columns: dtypes in and out, rows that fail, rows that are not reached."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import ExpressionError
from zenturio.expression import column_evaluator as columns_module
from zenturio.expression import parse

MANY = 100
"""More rows than are computed one by one."""


def column(text, length=MANY, positions=None, **columns):
    return parse(text).column(columns, length, positions)


def objects(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


@pytest.mark.parametrize("length", [3, MANY])
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("n + 1", np.int64),
        ("n / 2", np.float64),
        ("n < 2", np.bool_),
        ("str(n)", np.object_),
        ("n * 2 ** 80", np.object_),
        ("7", np.int64),
        ("7.5", np.float64),
        ("true", np.bool_),
        ("'x'", np.object_),
        ("n", np.int64),
        ("n if n > 1 else 0.5", np.object_),
        ("n in (1, 2)", np.bool_),
        ("1 if n == n else 2", np.int64),
    ],
)
def test_what_comes_out_has_64_bits_or_is_an_object(text, dtype, length):
    found = column(text, length, n=np.arange(length))
    assert (found.dtype, found.shape) == (dtype, (length,))


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
)
def test_integers_of_every_width_are_computed_as_pythons(dtype):
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max] * 50, dtype=dtype)
    for text in ("n * n", "n + n - 1", "-n", "abs(n)", "n ** 3", "n * 46341", "n // -1", "n % -7"):
        expression = parse(text)
        found = expression.column({"n": ends}, MANY).tolist()
        assert found == [expression.value({"n": int(n)}) for n in ends], text


@pytest.mark.parametrize("width", [np.int16, np.int32, np.int64])
@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
@given(low=st.integers(-(2**40), 2**40), span=st.integers(0, 2**20))
def test_bounds_that_touch_a_width_never_overflow(width, low, span):
    info = np.iinfo(width)
    low = max(info.min, min(low, info.max - span if span <= info.max - info.min else info.min))
    numbers = np.linspace(low, min(low + span, info.max), MANY).astype(width)
    found = column("n * n * n + n * 1000003 - 7 * n", n=numbers).tolist()
    assert found == [n * n * n + n * 1000003 - 7 * n for n in numbers.tolist()]


def test_other_arrays_are_taken_as_what_they_hold():
    half = np.full(MANY, 0.1, dtype=np.float32)
    assert column("x", x=half).tolist() == half.tolist()
    assert column("s + '!'", s=np.array(["a", "bc"] * 50))[1] == "bc!"
    assert column("x + 1", x=objects([np.int64(2**62)] * MANY))[0] == 2**62 + 1
    strided = np.arange(300)[::3]
    assert column("n * 2", n=strided).tolist() == (strided * 2).tolist()
    reals = np.arange(200.0)[::2]
    assert column("exp(x / 100)", x=reals).tolist() == [math.exp(x / 100) for x in reals]


def test_integers_beyond_64_bits_stay_integers():
    numbers = np.arange(MANY)
    for text in ("-(2 ** 70) if n > 5 else 1", "n * 2 ** 70", "n ** 11 if n > 90 else 2 ** 64"):
        expression = parse(text)
        expected = [expression.value({"n": n}) for n in range(MANY)]
        found = expression.column({"n": numbers}, MANY)
        assert found.tolist() == expected
        assert set(map(type, found.tolist())) == {int}


def test_columns_may_be_longer_than_asked_for():
    for length in (5, MANY):
        assert column("n + m", length, n=np.arange(1000), m=np.arange(1000)).shape == (length,)


def test_no_rows_have_the_type_that_rows_would_have():
    nothing = np.arange(0)
    assert column("n + 1", 0, n=nothing).dtype == np.int64
    assert column("n / 2", 0, n=nothing).dtype == np.float64
    assert column("n < index(n)", 0, positions={"n": nothing}, n=nothing).dtype == np.bool_
    for found in (
        column("index(n)", 0, positions={"n": nothing}, n=nothing),
        column("index(n) * 2 + 1", 0, positions={"n": nothing}, n=nothing),
        column("index(n)", 0, positions={"n": nothing}),
    ):
        assert (found.shape, found.dtype.kind) == ((0,), "i")
    assert column("str(n)", 0, n=nothing).dtype == np.object_
    assert column("1 / n", 0, n=nothing).shape == (0,)
    assert column("n and unknown", 0, n=nothing).shape == (0,)


@pytest.mark.parametrize("few", [0, 32])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b == 0 or a % b == 0", lambda a, b: b == 0 or a % b == 0),
        ("b != 0 and a // b > 1", lambda a, b: b != 0 and a // b > 1),
        ("a % b if b != 0 else -1", lambda a, b: a % b if b != 0 else -1),
        ("0 < b < 6 / b", lambda a, b: 0 < b < 6 / b),
        (
            "b > 0 and a > 0 and log(b) < sqrt(a)",
            lambda a, b: b > 0 and a > 0 and math.log(b) < math.sqrt(a),
        ),
        (
            "a < 2 or (b > 0 and (a == b or 10 // b > a))",
            lambda a, b: a < 2 or (b > 0 and (a == b or 10 // b > a)),
        ),
        (
            "b == 0 or b == 1 or a % (b * (b - 1)) == 0",
            lambda a, b: b in (0, 1) or a % (b * (b - 1)) == 0,
        ),
    ],
)
def test_what_cannot_fail_where_it_is_reached_does_not_fail(text, expected, few, monkeypatch):
    monkeypatch.setattr(columns_module, "FEW", few)
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(9), np.arange(7)))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    found = column(text, len(a), a=a, b=b).tolist()
    assert found == [expected(*pair) for pair in pairs]


@pytest.mark.parametrize("few", [0, 1 << 20])
@pytest.mark.parametrize(
    "text", ["7 // n", "7 / n", "7 % n > 1", "true and 7 // n == 1", "sqrt(n - 1)", "log(n)"]
)
def test_a_row_that_fails_is_named(text, few, monkeypatch):
    monkeypatch.setattr(columns_module, "FEW", few)
    numbers = np.full(100_000, 7)
    numbers[70_123] = 0
    with pytest.raises(ExpressionError) as caught:
        column(text, len(numbers), n=numbers)
    assert caught.value.row == 70_123


def test_a_row_that_fails_is_named_where_only_some_rows_are_reached():
    numbers = np.arange(100_000) % 10
    wanted = np.zeros(100_000, dtype=bool)
    wanted[[50_001, 90_000]] = True
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        column("wanted and (n > 7 or 1 // n == 1)", 100_000, n=numbers, wanted=wanted)
    assert caught.value.row == 90_000


def test_an_error_at_a_point_has_no_row():
    with pytest.raises(ExpressionError) as caught:
        parse("1 // n").value({"n": 0})
    assert caught.value.row is None


def test_failures_far_inside_do_not_double_the_work_with_every_level():
    text = "1 // n == 1"
    for _ in range(40):
        text = f"(n == 1 or {text})"
    numbers = np.arange(MANY)
    assert column(f"n == 0 or {text}", n=numbers).tolist() == [n in (0, 1) for n in range(MANY)]


def test_an_unknown_column_is_told_with_the_nearest():
    for length in (3, MANY):
        with pytest.raises(ExpressionError, match="did you mean 'threads'"):
            column("thraeds > 1", length, threads=np.arange(MANY))
        with pytest.raises(ExpressionError, match="no position is known of 'n'"):
            column("index(n)", length, n=np.arange(MANY))


def test_a_host_is_not_known_where_rows_are():
    for length in (3, MANY):
        with pytest.raises(ExpressionError, match=r"host\.cpus is not known here"):
            column("n < host.cpus", length, n=np.arange(MANY))


@pytest.mark.parametrize("length", [3, MANY])
def test_an_object_that_is_no_value_is_named_with_its_row(length):
    values = objects([1] * MANY)
    values[2] = [1]
    with pytest.raises(ExpressionError, match="type list cannot be computed with") as caught:
        column("n + 1", length, n=values)
    assert caught.value.row == 2


def test_positions_are_columns_of_their_own():
    places = np.arange(MANY)[::-1]
    found = column("index(n) + n", positions={"n": places}, n=np.arange(MANY))
    assert found.tolist() == [MANY - 1] * MANY


def test_nulls_keep_the_machines_numbers_fast_and_right():
    numbers = objects([None if n % 3 == 0 else n for n in range(99)])
    other = objects([None if n % 5 == 0 else n * 0.5 for n in range(99)])
    expression = parse("(n + x > 20 or n < 10) and not n == 4")
    found = expression.column({"n": numbers, "x": other}, 99).tolist()
    assert found == [
        expression.value({"n": n, "x": x}) for n, x in zip(numbers, other, strict=True)
    ]
    assert None in found
    assert parse("n + x").column({"n": numbers[1:3], "x": other[1:3]}, 2).dtype == np.float64


@pytest.mark.parametrize("names", [3, 6, 70])
def test_any_number_of_nullable_columns_is_right(names):
    rng = np.random.default_rng(names)
    columns = {
        f"a{at}": objects([None if rng.random() < 0.5 else at for _ in range(MANY)])
        for at in range(names)
    }
    expression = parse(" or ".join(f"a{at} == {at + at % 2}" for at in range(names)))
    found = expression.column(columns, MANY).tolist()
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    assert found == [expression.value(row) for row in rows]


@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
@given(st.lists(st.floats(0.001, 700), min_size=40, max_size=60))
def test_logarithms_and_exponentials_are_those_of_math_to_the_last_bit(numbers):
    values = np.array(numbers)
    for name in ("log", "log2", "exp", "sqrt"):
        found = column(f"{name}(x)", len(numbers), x=values).tolist()
        assert found == [getattr(math, name)(x) for x in numbers]


def test_the_ends_of_doubles_are_not_rounded_away():
    near = np.array([2**53, 2**53 + 1] * 50)
    real = np.full(MANY, 2.0**53)
    assert column("n == x", n=near, x=real).tolist() == [True, False] * 50
    assert column("n / 3", n=near).tolist() == [int(n) / 3 for n in near]
    assert column("max(n, x)", n=near, x=real).tolist() == [2.0**53] * MANY


def test_a_million_rows_are_what_their_parts_are():
    length = 200_000
    numbers = np.arange(length)
    found = column("(n * n + 1) % 1000 < 500", length, n=numbers)
    assert (found == ((numbers * numbers + 1) % 1000 < 500)).all()


def test_blocks_of_different_types_become_objects_that_keep_them():
    numbers = np.arange(columns_module.BLOCK + 5)
    found = column(f"1 if n < {columns_module.BLOCK} else 0.5", len(numbers), n=numbers)
    assert found.dtype == np.object_
    assert set(map(type, found.tolist())) == {int, float}


def test_columns_that_are_given_are_not_written_to():
    numbers = np.arange(MANY, dtype=np.int32)
    numbers.flags.writeable = False
    found = column("n", n=numbers)
    column("-n + abs(n)", n=numbers)
    assert not np.shares_memory(found, numbers)
    truths = np.ones(MANY, dtype=bool)
    assert not np.shares_memory(column("t", t=truths), truths)
