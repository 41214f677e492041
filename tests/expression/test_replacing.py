"""Derived names are written out where they are used."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression.random_expressions import Chance, expression_of
from zenturio.errors import ExpressionError
from zenturio.expression import parse


def replaced(text, **definitions):
    return parse(text).replace({name: parse(tree) for name, tree in definitions.items()})


@pytest.mark.parametrize(
    ("text", "definitions", "expected"),
    [
        ("d * 2", {"d": "a + b"}, "(a + b) * 2"),
        ("d + 2", {"d": "a * b"}, "a * b + 2"),
        ("d ** d", {"d": "-a"}, "(-a) ** -a"),
        ("d < 2 and e", {"d": "a if b else c", "e": "f or g"}, "(a if b else c) < 2 and (f or g)"),
        ("min(d, e)", {"d": "e + 1", "e": "a - 1"}, "min((a - 1) + 1, a - 1)"),
        ("d in (d, 2)", {"d": "a"}, "a in (a, 2)"),
        ("not d", {"d": "a < b"}, "not a < b"),
        ("d - d", {"d": "a - b"}, "(a - b) - (a - b)"),
        ("index(d) + d", {"d": "a"}, "index(d) + a"),
        ("host.d + d", {"d": "a"}, "host.d + a"),
        ("'x' in d", {"d": "a if b else c"}, '"x" in str(a if b else c)'),
        ("a + b", {"c": "a"}, "a + b"),
    ],
)
def test_a_definition_keeps_its_meaning_where_it_is_put(text, definitions, expected):
    found = replaced(text, **definitions)
    assert found.text == expected
    assert found.names.isdisjoint(definitions)


def test_nothing_to_replace_leaves_the_expression_as_it_is():
    expression = parse("a+b")
    assert expression.replace({"c": parse("1")}) is expression


@settings(max_examples=settings.default.max_examples * 200 // 100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_writing_out_changes_no_value(seed):
    chance = Chance(seed)
    inner = {"j": expression_of(chance.tree("int", 2)), "s": expression_of(chance.tree("str", 2))}
    inner = {
        name: tree
        for name, tree in inner.items()
        if not {"j", "s"} & tree.names and not tree.indexed
    }
    outer = expression_of(chance.tree("bool", 3))
    names = set().union(outer.names, *(tree.names for tree in inner.values()))
    values = {name: chance.cell(name) for name in sorted(names)}
    positions = {"i": 3, "p": 4}
    try:
        defined = {name: tree.value(values, positions) for name, tree in inner.items()}
        expected = outer.value({**values, **defined}, positions)
    except ExpressionError:
        return
    assert repr(outer.replace(inner).value(values, positions)) == repr(expected)


def test_a_circle_of_definitions_is_drawn():
    with pytest.raises(
        ExpressionError, match="'a' is defined by itself: a -> b -> c -> a"
    ) as caught:
        replaced("1 + a", a="b", b="c + 1", c="a * 2")
    assert caught.value.diagnostics[0].place.column == 5


def test_definitions_that_double_each_other_are_refused_at_once():
    doubling = {f"d{at}": parse(f"d{at + 1} + d{at + 1}") for at in range(90)}
    with pytest.raises(ExpressionError, match="more than 10000 parts"):
        parse("d0 > 1").replace(doubling)


def test_definitions_that_nest_too_deep_are_refused():
    nesting = {f"d{at}": parse(f"(d{at + 1} + 1) * 2") for at in range(60)}
    with pytest.raises(ExpressionError, match="nested more than 100 deep"):
        parse("d0 > 1").replace(nesting)
    leading = {f"d{at}": parse(f"d{at + 1}") for at in range(200)}
    with pytest.raises(ExpressionError, match="more than 100 definitions"):
        parse("d0 > 1").replace(leading)


def test_an_error_in_a_definition_points_to_its_name():
    expression = replaced("a > 1 and 2 * d < 3", d="a / (b - 1) + a ** b")
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        expression.value({"a": 2, "b": 1})
    place = caught.value.diagnostics[0].place
    assert (place.column, place.width) == (15, 1)


def test_what_could_fail_but_is_not_reached_stays_unreached():
    assert replaced("b == 0 or 10 % b == 0", b="0").value({}) is True


def test_an_expression_travels():
    expression = parse("a + 1")
    expression.value({"a": 1})
    for other in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):
        assert other == expression
        assert other.value({"a": 1}) == 2
