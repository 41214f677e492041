"""Sets: the text of an element is kept to the letter, its value is what it stands for."""

import importlib
import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenturio as zen
from zenturio.errors import SpaceError
from zenturio.space import (
    Continuous,
    Dependent,
    Zip,
    arithmetic,
    concatenation,
    elements,
    geometric_texts,
    linear,
    logarithmic,
    typed,
)
from zenturio.space import domain as set_domains
from zenturio.space.domain import MAX_LISTED, ArithmeticRange, Elements
from zenturio.space.parameter import Concatenation

sets = importlib.import_module("zenturio.space.parameter")  # which a function hides

RANGES = [
    (("1", "10"), ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"], "int"),
    (("1", "10", "3"), ["1", "4", "7", "10"], "int"),
    (("0.4", "1", "0.2"), ["0.4", "0.6", "0.8", "1.0"], "real"),
    (("10", "1", "-3"), ["10", "7", "4", "1"], "int"),
    (("008", "011"), ["008", "009", "010", "011"], "int"),
    (("08.5", "10", "0.5"), ["08.5", "09.0", "09.5", "10.0"], "real"),
    (("-1", "1", "0.5"), ["-1.0", "-0.5", "0.0", "0.5", "1.0"], "real"),
    (("1e-6", "3e-6", "1e-6"), ["1e-06", "2e-06", "3e-06"], "real"),
    (("5", "5"), ["5"], "int"),
    (("1", "2", "5"), ["1"], "int"),
]

GEOMETRIC = [
    (("1", "64", "2"), ["1", "2", "4", "8", "16", "32", "64"], "int"),
    (("128", "1024", "2"), ["128", "256", "512", "1024"], "int"),
    (("64", "8", "0.5"), ["64", "32", "16", "8"], "int"),
    (("1", "0.001", "0.1"), ["1", "0.1", "0.01", "0.001"], "real"),
    (("3", "20", "2"), ["3", "6", "12"], "int"),
    (("1", "5", "1.5"), ["1", "1.5", "2.25", "3.375"], "real"),
    (("001", "100", "10"), ["001", "010", "100"], "int"),
    (("-1", "-8", "2"), ["-1", "-2", "-4", "-8"], "int"),
]


@pytest.mark.parametrize(("bounds", "texts", "kind"), RANGES)
def test_a_range_is_exact_and_keeps_zeros(bounds, texts, kind):
    domain = arithmetic(*bounds)
    assert (list(domain.texts()), domain.type) == (texts, kind)


@pytest.mark.parametrize(("bounds", "texts", "kind"), GEOMETRIC)
def test_a_geometric_range_multiplies(bounds, texts, kind):
    domain = geometric_texts(*bounds)
    assert (list(domain.texts()), domain.type) == (texts, kind)


decimals = st.decimals(-50, 50, places=2)


@given(decimals, decimals, st.decimals("0.01", 9, places=2))
def test_every_element_of_a_range_is_the_decimal_that_it_should_be(first, last, step):
    if last < first:
        step = -step
    domain = arithmetic(str(first), str(last), str(step))
    exact = [first + i * step for i in range(int((last - first) // step) + 1)]
    assert [Decimal(text) for text in domain.texts()] == exact
    assert domain.values().tolist() == [float(value) for value in exact]
    assert all(domain.position(value) == i for i, value in enumerate(domain.values().tolist()))


@given(st.integers(-(10**30), 10**30), st.integers(0, 10**9), st.integers(1, 10**6))
def test_a_long_range_is_never_written_out(first, beyond, step):
    size = MAX_LISTED + 1 + beyond
    last = first + (size - 1) * step
    domain = arithmetic(str(first), str(last), str(step))
    assert isinstance(domain, ArithmeticRange)
    assert domain.size == size
    assert (domain.value(size - 1), domain.text(size - 1)) == (last, str(last))
    assert domain.position(last) == size - 1
    at = np.array([0, size - 1])
    assert domain.at(at).tolist() == [first, last]
    assert domain.texts()[-1] == str(last)
    assert domain.texts()[:2] == [str(first), str(first + step)]
    with pytest.raises(SpaceError, match="not in the set"):
        domain.position(last + step)


def test_a_long_range_of_decimals_finds_its_elements():
    domain = arithmetic("0.1", "1000", "0.1")
    assert domain.size == 10_000
    assert all(domain.position(domain.value(i)) == i for i in range(0, 10_000, 7))
    assert domain.at(np.arange(3)).tolist() == [0.1, 0.2, 0.3]
    with pytest.raises(SpaceError, match="not in the set"):
        domain.position(0.15)


WRONG = [
    (lambda: arithmetic("1", "5", "0"), "stride is zero"),
    (lambda: arithmetic("1", "5", "-1"), "leads away from 5"),
    (lambda: arithmetic("5", "1"), "write 5:1:-1"),
    (lambda: arithmetic("a", "5"), "'a' is not a number"),
    (lambda: arithmetic("1", "1e999"), "beyond what a real can be"),
    (lambda: geometric_texts("0", "8", "2"), "would cross zero"),
    (lambda: geometric_texts("-1", "8", "2"), "would cross zero"),
    (lambda: geometric_texts("1", "8", "1"), "cannot reach the last element"),
    (lambda: geometric_texts("1", "8", "-2"), "cannot reach the last element"),
    (lambda: geometric_texts("8", "1", "2"), "leads away"),
    (lambda: geometric_texts("1", "2", "1.0000001"), "more than 1,000,000 elements"),
    (lambda: linear(0, 1, 0), "not 0"),
    (lambda: linear(0, 1, 1), "two bounds into 1 element"),
    (lambda: linear(1, 1, 3), "occurs twice|same value"),
    (lambda: logarithmic(-1, 1, 3), "would cross zero"),
    (lambda: elements([]), "the set is empty"),
    (lambda: elements(["a", "b", "a"]), "'a' occurs twice"),
    (lambda: elements(["1", "2", "01"]), "'1' and '01' have the same value"),
    (lambda: elements(["1", "1.0"]), "same value"),
    (lambda: elements(["1", "x"], "int"), "'x' is not a whole number"),
    (lambda: elements(["1.5"], "int"), "TYPE real"),
    (lambda: elements(["maybe"], "bool"), "'maybe' is not a bool"),
    (lambda: elements(["1e999"], "real"), "too large for a real"),
    (lambda: elements(["9" * 2000]), "2000 digits"),
    (lambda: Continuous(1, 1), "not below"),
    (lambda: Continuous(0, 1, log=True), "cannot begin at 0"),
    (lambda: Continuous(0, float("inf")), "finite"),
    (lambda: concatenation([arithmetic("1", "300"), arithmetic("1", "300")]), "occurs twice"),
    (lambda: concatenation([arithmetic("1", "30000")] * 2), "too large to compare"),
    (lambda: typed(elements(["512MB"]), "int"), "not a whole number"),
    (lambda: zen.Space(n={1, 2}), "n: a Python set has no order"),
    (lambda: zen.Space(n=range(0)), "n: the set is empty"),
    (lambda: zen.Space(n=[None]), "n: None cannot be an element"),
    (lambda: zen.Space(n=[float("nan")]), "n: nan cannot be an element"),
]


def test_a_set_may_have_the_most_elements_and_no_more(monkeypatch):
    monkeypatch.setattr(set_domains, "MAX_ELEMENTS", 5)
    assert geometric_texts("1", "16", "2").size == linear(0, 1, 5).size == 5
    assert linear(3, 3, 1).size == 1
    with pytest.raises(SpaceError, match="more than 5 elements"):
        geometric_texts("1", "32", "2")
    with pytest.raises(SpaceError, match="from 1 to 5 elements, not 6"):
        linear(0, 1, 6)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_set_that_cannot_be_says_why(number):
    make, message = WRONG[number]
    with pytest.raises(SpaceError, match=message):
        make()


TYPES = [
    (["1", "-2", "+3"], "int", [1, -2, 3]),
    (["1", "0.5", "1e3"], "real", [1.0, 0.5, 1000.0]),
    (["512MB", "10%"], "str", ["512MB", "10%"]),
    (["1", "a"], "str", ["1", "a"]),
    (["true", "false"], "str", ["true", "false"]),
    (["", "-O3"], "str", ["", "-O3"]),
    (["nan", "1"], "str", ["nan", "1"]),
    (["001", "010"], "int", [1, 10]),
]


@pytest.mark.parametrize(("texts", "kind", "values"), TYPES)
def test_the_type_of_a_set_is_what_its_elements_share(texts, kind, values):
    domain = elements(texts)
    assert domain.type == kind
    assert domain.values().tolist() == values
    assert list(domain.texts()) == texts
    assert domain.ordered == (kind in ("int", "real"))
    assert [domain.position(value) for value in values] == list(range(len(values)))


def test_a_type_can_be_said():
    assert elements(["yes", "off"], "bool").values().tolist() == [True, False]
    assert elements(["1", "2"], "real").values().tolist() == [1.0, 2.0]
    assert elements(["1", "01"], "str").values().tolist() == ["1", "01"]
    assert typed(elements(["1", "2"]), "str").values().tolist() == ["1", "2"]
    assert typed(arithmetic("1", "9999"), "real").value(1) == 2.0
    assert typed(arithmetic("1", "9999"), "str").value(1) == "2"


def test_a_value_is_looked_for_by_what_it_is():
    domain = elements(["1", "2", "128"])
    assert domain.position(2.0) == domain.position(np.int64(2)) == 1
    for wrong in (True, "2", 2.5, None, float("inf")):
        with pytest.raises(SpaceError, match="not in the set"):
            domain.position(wrong)
    with pytest.raises(SpaceError, match="did you mean 'fast'"):
        elements(["fast", "slow"]).position("fsat")


parts = st.lists(
    st.one_of(
        st.sampled_from(["node", "-", "", "x"]),
        st.lists(st.sampled_from(["a", "b", "ab", "1"]), min_size=1, max_size=3, unique=True).map(
            elements
        ),
        st.tuples(st.integers(1, 9), st.integers(0, 3)).map(
            lambda r: arithmetic(str(r[0]), str(r[0] + r[1]))
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(parts)
def test_a_concatenation_is_the_product_of_its_parts_the_rightmost_fastest(given_parts):
    lists = [[part] if isinstance(part, str) else list(part.texts()) for part in given_parts]
    texts = ["".join(each) for each in itertools.product(*lists)]
    if len(set(texts)) < len(texts):
        with pytest.raises(SpaceError, match="occurs twice"):
            concatenation(given_parts)
        return
    try:
        domain = concatenation(given_parts)
    except SpaceError as error:
        assert "same value" in str(error)  # noqa: PT017
        return
    assert list(domain.texts()) == texts


def test_a_vast_concatenation_costs_nothing():
    node, core = arithmetic("1", "9" * 15), arithmetic("001", "999")
    domain = concatenation(["node", node, "-", core, elements(["a", "b"])])
    assert domain.size == (10**15 - 1) * 999 * 2
    text = domain.text(domain.size // 3)
    assert domain.position(text) == domain.size // 3
    assert (domain.type, domain.ordered) == ("str", False)
    assert domain.text(1) == "node1-001b"
    assert domain.text(domain.size - 1) == f"node{'9' * 15}-999b"
    with pytest.raises(SpaceError, match="not in the set"):
        domain.position("node0-001a")
    with pytest.raises(IndexError):
        domain.text(domain.size)
    digits = concatenation(["1", arithmetic("000000", "999999"), arithmetic("00", "99")])
    assert (digits.type, digits.value(7), digits.position(100000007)) == ("int", 100000007, 7)
    assert typed(digits, "str").value(7) == "100000007"


def test_linear_and_logarithmic_points_include_their_bounds():
    assert list(linear("0", "1", 5).texts()) == ["0", "0.25", "0.5", "0.75", "1"]
    assert list(linear(0, 9, 4).texts()) == ["0", "3", "6", "9"]
    assert list(linear(3, 3, 1).texts()) == ["3"]
    thirds = linear(0, 1, 4).values().tolist()
    assert thirds == [float(Fraction(i, 3)) for i in range(4)]
    assert list(logarithmic("1e-6", "1e-2", 5).texts()) == [
        "1e-6",
        "1e-05",
        "0.0001",
        "0.001",
        "1e-2",
    ]
    assert logarithmic(1, 1000, 4).values().tolist() == [1, 10, 100, 1000]
    assert logarithmic(1, 2, 3).values().tolist() == [1.0, 2**0.5, 2.0]
    assert list(logarithmic(7, 7, 1).texts()) == ["7"]


def test_python_says_sets_as_well_as_directives_do():
    space = zen.Space(
        n=zen.geometric(128, 1024),
        threads=[1, 2, 4],
        step=zen.span(0.4, 1, 0.2),
        down=zen.span(10, 1, -3),
        flag=[True, False],
        name=["a", "1"],
        only="fast",
        array=np.array([1, 2]),
        long=range(0, 10**9, 3),
        mixed=[1, 2.5],
        half=zen.geometric(8, 1, 0.5),
        money=[Decimal("0.10")],
    )
    texts = {p.name: list(p.domain.texts()[:4]) for p in space.parameters}
    assert texts == {
        "n": ["128", "256", "512", "1024"],
        "threads": ["1", "2", "4"],
        "step": ["0.4", "0.6", "0.8", "1.0"],
        "down": ["10", "7", "4", "1"],
        "flag": ["true", "false"],
        "name": ["a", "1"],
        "only": ["fast"],
        "array": ["1", "2"],
        "long": ["0", "3", "6", "9"],
        "mixed": ["1", "2.5"],
        "half": ["8", "4", "2", "1"],
        "money": ["0.10"],
    }
    types = [p.domain.type for p in space.parameters]
    assert types == [
        "int",
        "int",
        "real",
        "int",
        "bool",
        "str",
        "str",
        "int",
        "int",
        "real",
        "int",
        "real",
    ]


def test_equal_sets_are_equal():
    assert arithmetic("1", "3") == elements(["1", "2", "3"])
    assert arithmetic("1", "9999") == arithmetic("1", "9999", "1")
    assert arithmetic("01", "03") != elements(["1", "2", "3"])
    assert concatenation(["a", arithmetic("1", "2")]) == elements(["a1", "a2"])


@pytest.mark.parametrize(
    "head",
    [
        arithmetic("0", "1999"),
        arithmetic("-7", "1999"),
        arithmetic("1999", "0", "-1"),
        arithmetic("0001", "1999"),
        "0",
        "-",
        "+",
        elements([str(n) for n in range(1, 1200)] + ["0"]),
        elements([str(n) for n in range(1, 1200)] + ["-5"]),
    ],
    ids=repr,
)
def test_large_numbers_that_may_be_spelled_twice_are_not_put_together(head):
    tail = [arithmetic("000", "999")] * (1 if not isinstance(head, str) else 3)
    with pytest.raises(SpaceError, match="numbers are too many to concatenate from texts"):
        concatenation([head, *tail])


@pytest.mark.parametrize("head", [arithmetic("1", "1999"), arithmetic("1999", "1", "-1")])
def test_large_numbers_that_are_spelled_once_are_put_together(head):
    domain = concatenation([head, arithmetic("000", "999")])
    assert (domain.type, domain.size) == ("int", 1_999_000)
    assert domain.position(domain.value(12_345)) == 12_345


def test_a_concatenation_is_listed_compared_or_followed_by_its_size(monkeypatch):
    monkeypatch.setattr(sets, "LISTED", 3)
    monkeypatch.setattr(sets, "COMPARED", 10)
    kinds = {}
    for last in (3, 4, 10, 11):
        made = concatenation(["1", arithmetic("1", str(last))])
        kinds[last] = type(made)
        assert made.type == "int"
        assert list(made.texts()) == [f"1{n}" for n in range(1, last + 1)]
        assert made.values().tolist() == [int(f"1{n}") for n in range(1, last + 1)]
    assert kinds == {3: Elements, 4: Elements, 10: Elements, 11: Concatenation}
    of_texts = [type(concatenation(["a", arithmetic("1", last)])) for last in ("3", "4")]
    assert of_texts == [Elements, Concatenation]
    large = concatenation(["1", arithmetic("1", "11")])
    assert [large.position(large.value(at)) for at in range(11)] == list(range(11))
    assert typed(large, "int") is large
    assert typed(large, "str").values().tolist() == list(large.texts())
    with pytest.raises(SpaceError, match="a set of 11 elements cannot be read as TYPE real"):
        typed(large, "real")
    assert typed(concatenation(["1", arithmetic("1", "10")]), "real").value(0) == 11.0
    monkeypatch.setattr(sets, "_SHAPES", 3)
    shapes = [elements(["1", "a"]), elements(["2", "b"])]
    assert concatenation([*shapes, elements(["3"])]).type == "str"
    assert concatenation(["1", arithmetic("1", "11")]).type == "int"
    assert concatenation(["1", arithmetic("1999", "1", "-1")]).type == "int"
    assert concatenation(["1", arithmetic("1999", "-1", "-1")]).type == "str"


def test_sets_of_numbers_are_ordered_and_others_are_not(monkeypatch):
    monkeypatch.setattr(sets, "LISTED", 3)
    monkeypatch.setattr(sets, "COMPARED", 10)
    numbers = [
        arithmetic("1", "3"), elements(["1", "2.5"]), concatenation(["1", arithmetic("1", "11")]),
        Continuous(0.5, 2), Dependent("1", "n"),
    ]  # fmt: skip
    assert [domain.ordered for domain in numbers] == [True] * 5
    names = [elements(["1", "a"]), concatenation(["a", arithmetic("1", "11")])]
    assert [domain.ordered for domain in names] == [False, False]


def test_sets_are_written_as_directives_have_them():
    assert str(Continuous(0.5, 2)) == "UNIFORM(0.5, 2)"
    assert str(Continuous(0.5, 2, log=True)) == "LOGUNIFORM(0.5, 2)"
    assert (Continuous(0.5, 2).text(1.25), Continuous(0.5, 2).type) == ("1.25", "real")
    assert str(Dependent("1", "n")) == "1:n"
    assert str(Dependent("n + 1", "9", "2")) == "n + 1:9:2"
    assert str(Dependent("1", "n", "2", geometric=True)) == "1:n:*2"
    assert Zip(("a", "b", "c")).text == "a == b == c"
