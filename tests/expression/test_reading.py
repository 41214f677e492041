"""Texts and trees: what is written is read back, and what cannot be read says what would be right."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression.random_expressions import Chance
from zenturio.errors import ExpressionError, Passage, Place
from zenturio.expression import parse, quoted
from zenturio.expression.parser import read
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Compare,
    Constant,
    Logic,
    Name,
    OperatorStep,
    children,
    walk,
)
from zenturio.expression.writer import write

REFUSALS = Path(__file__).with_name("refusals.txt")

SLIPS = [
    "a = 3",
    "a && b or c",
    "a || b",
    "!a",
    "a ^ 2",
    "a ≤ 2",
    "a <> 2",
    "a ? b : c",
    "{n} > 1",
    "$n > 1",
    "a +",
    "a + * b",
    "(a + b",
    "a + b)",
    "(a + b]",
    "n in (1, 2",
    "n in ()",
    "a, b",
    "a b",
    "512 MB < memory",
    "512mb < memory",
    "10sec",
    "0x1F",
    "1_000",
    "a if b",
    "a else b",
    "not in (1, 2)",
    "1 + not a",
    "and > 1",
    "a < b in (1, 2)",
    "squrt(2)",
    "power(2, 3)",
    "ln(2)",
    "sqrt 2",
    "sqrt()",
    "divides(3)",
    "gcd(4)",
    "index(3)",
    "index(a + 1)",
    "n.memory",
    "host.",
    "host.5",
    "name[0]",
    "'abc",
    "`block-size",
    "block-size · 2",
    "match(s, '(a')",
    "2 ** -1",
    "9 ** 9 ** 9",
    "'a' * 3",
    "'a' + 1",
    "a and 1",
    "1 == 'x'",
    "'x' < 1",
    "log(0) > a",
    "n % 0 == 1",
    "",
]


def refusal(text):
    with pytest.raises(ExpressionError) as caught:
        parse(Passage.of(text, "study.zen"))
    return str(caught.value)


def test_every_slip_is_answered_with_what_would_be_right():
    found = "\n\n".join(map(refusal, SLIPS)) + "\n"
    assert found == REFUSALS.read_text(encoding="utf-8")


@settings(max_examples=settings.default.max_examples * 400 // 100, deadline=None)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["int", "real", "str", "bool"]))
def test_a_tree_that_is_written_is_read_back(seed, kind):
    tree = Chance(seed).tree(kind, 4)
    assert read(Passage.of(write(tree))) == tree


@settings(max_examples=settings.default.max_examples * 200 // 100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_part_of_a_tree_knows_where_it_stands(seed):
    text = write(Chance(seed).tree("bool", 4))
    for part in walk(read(Passage.of(text))):
        assert read(Passage.of(text[part.start : part.end])) == part


@pytest.mark.parametrize(
    "text",
    [
        "(a + b) * c",
        "a - (b - c)",
        "(a ** b) ** c",
        "a ** b ** c",
        "-(a + b)",
        "(-a) ** 2",
        "a ** -b",
        "not (a or b) and c",
        "(a < b) == (c < d)",
        "a < b <= c",
        "(a if b else c) if d else e",
        "a if b else c if d else e",
        "a if (b if c else d) else e",
        "x in (1, 2.5, y + 1)",
        'x not in ("a", "b")',
        '"a" in x + y',
        "min(a, max(b, 2)) + index(`block-size`)",
        'host.memory >= 512000000 and host.`odd name` == "x"',
        '"\\"\\\\\\n\\t\\r"',
        "`and` + `two words` + `a``b` + Größe",
        "true == false",
        "1.0 + 1 + 1e+22 + 1e-07",
    ],
)
def test_a_text_with_no_needless_parentheses_is_written_as_it_was(text):
    assert write(parse(text).node) == text


def test_a_chain_is_one_level_however_long():
    sum_of_many = parse(" + ".join(f"a{i}" for i in range(1_000)))
    assert len(sum_of_many.node.steps) == 999
    assert sum_of_many.value({f"a{i}": i for i in range(1_000)}) == 499_500
    any_of_many = parse(" or ".join(f"a == {i}" for i in range(700)))
    assert any_of_many.value({"a": 699}) is True
    assert parse(f"a in ({', '.join(map(str, range(1_500)))})").value({"a": 7}) is True


def test_the_tree_is_there_for_others_to_walk():
    node = parse("a + 2 * b < 4 and c").node
    step = OperatorStep("+", Arithmetic(Constant(2), (OperatorStep("*", Name("b")),)))
    compared = Compare(Arithmetic(Name("a"), (step,)), (OperatorStep("<", Constant(4)),))
    assert node == Logic("and", (compared, Name("c")))
    assert [type(part).__name__ for part in children(node)] == ["Compare", "Name"]
    assert [part.name for part in walk(node) if isinstance(part, Name)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("opener", "closer"), [("(", ")"), ("-", ""), ("abs(", ")"), ("2 ** ", "")]
)
def test_a_hundred_levels_are_read_and_no_more(opener, closer):
    parse(opener * 99 + "a" + closer * 99)
    with pytest.raises(ExpressionError, match="nested more than 100 deep"):
        parse(opener * 100 + "a" + closer * 100)


def test_levels_of_the_tree_count_where_no_parenthesis_is_open():
    text = "a"
    for _ in range(60):
        text = f"({text} + 1) * 2"
    with pytest.raises(ExpressionError, match="nested more than 100 deep"):
        parse(text)


def deepest(level):
    """A tree as deep as the limit lets it be, of every kind of node in turn."""
    text = "a"
    for at in range(level):
        text = [
            f"({text}) + 1",
            f"1 if ({text}) > 2 and (a == 1 or a % 2 == 0) else a",
            f"min({text}, a)",
            f"abs(-({text}))",
        ][at % 4]
    return text


def test_the_deepest_tree_leaves_half_of_pythons_stack_to_others():
    def below(frames, work):
        return work() if frames == 0 else below(frames - 1, work)

    level = max(level for level in range(80) if _readable(deepest(level)))
    assert level > 15
    expression = parse(deepest(level))
    columns = {"a": np.arange(1, 50)}
    for work in (
        lambda: parse(deepest(level)),
        lambda: expression.check({"a": "int"}),
        lambda: expression.value({"a": 1}),
        lambda: expression.column(columns, 49),
        lambda: write(expression.node),
        lambda: expression.replace({"a": parse("b")}),
        lambda: hash(expression) == hash(parse(expression.text)),
    ):
        below(400, work)


def _readable(text):
    try:
        parse(text)
    except ExpressionError:
        return False
    return True


def test_a_place_is_one_of_the_file_even_where_a_directive_goes_on():
    first = Place("m.c", 3, 20, "//ZEN$ CONSTRAINT VALUE n * thr <=")
    second = Place("m.c", 4, 9, "//ZEN$& 2048 *")
    passage = Passage("n * thr <= 2048 *", ((0, first), (11, second)))
    with pytest.raises(ExpressionError) as caught:
        parse(passage)
    assert str(caught.value.diagnostics[0].place) == "m.c:4:14"


def test_a_text_of_several_lines_is_placed_by_line():
    with pytest.raises(ExpressionError) as caught:
        parse("n > 1\n  and (m < 2")
    assert str(caught.value.diagnostics[0].place) == "<text>:2:7"


@given(st.text(min_size=1))
def test_any_name_can_be_quoted(name):
    assert parse(quoted(name)).names == {name}
