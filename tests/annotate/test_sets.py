"""Sets are read to the letter: which texts they hold, what these stand for, and in which order."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.clauses import read_text, write_text
from zenturio.annotate.set_reader import WrittenConcatenation, WrittenRange, read_elements, read_set
from zenturio.errors import AnnotationError, InputError, Passage
from zenturio.space import Continuous, Dependent


def read(text, kind=None, base=Path()):
    return read_set(Passage.of(text), base, kind)


def texts(text, kind=None, base=Path()):
    return list(read(text, kind, base).texts())


def values(text, kind=None):
    domain = read(text, kind)
    return [domain.value(i) for i in range(domain.size)]


def diagnostic(text, kind=None, base=Path()):
    with pytest.raises(AnnotationError) as caught:
        read(text, kind, base)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{ a, \"b, c\", 'd' }", ["a", "b, c", "d"]),
        ("{ 1:10 }", [*"123456789", "10"]),
        ("{ 1:10:3 }", ["1", "4", "7", "10"]),
        ("{ 1:9:3 }", ["1", "4", "7"]),
        ("{ 0.4:1:0.2 }", ["0.4", "0.6", "0.8", "1.0"]),
        ("{ 1:64:*2 }", ["1", "2", "4", "8", "16", "32", "64"]),
        ("{ 10:1:-3 }", ["10", "7", "4", "1"]),
        ("{ 098:101 }", ["098", "099", "100", "101"]),
        ("{ machine{1:3} }", ["machine1", "machine2", "machine3"]),
        ("{ node{1:2}-{a,b} }", ["node1-a", "node1-b", "node2-a", "node2-b"]),
        ("{ LIN(0,1,5) }", ["0", "0.25", "0.5", "0.75", "1"]),
        ('{ "" , -O3 }', ["", "-O3"]),
        ("{ none, node{1:2}, 7:9 }", ["none", "node1", "node2", "7", "8", "9"]),
        ("{ {a,b}{1:2} }", ["a1", "a2", "b1", "b2"]),
        ("{ a{b{1:2},c} }", ["ab1", "ab2", "ac"]),
        ("{ {1:2}, {5:6} }", ["1", "2", "5", "6"]),
        ('{ "two words "{1:2} }', ["two words 1", "two words 2"]),
        ("{ two words {1:2} }", ["two words 1", "two words 2"]),
        ("{ (2*3):8 }", ["6", "7", "8"]),
        ("{ lin(0, 10, 2), 20 }", ["0", "10", "20"]),
        ("{   spaced   out  ,b }", ["spaced   out", "b"]),
    ],
)
def test_a_set_holds_the_texts_that_are_written(written, expected):
    assert texts(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (r"{ a\,b }", "a,b"),
        (r"{ \{x\} }", "{x}"),
        (r"{ a\  }", "a "),
        (r"{ \\ }", "\\"),
        (r"{ C:\\data }", "C:\\data"),
        (r"{ 1\:10 }", "1:10"),
        (r"{ line\nline\ttab }", "line\nline\ttab"),
        (r'{ "say \"hi\"" }', 'say "hi"'),
        (r"{ 'it\'s' }", "it's"),
        (r"{ it's }", "it's"),
        (r'{ 5" }', '5"'),
        (r"{ \x41\u00e9\U0001F600 }", "A\u00e9\U0001f600"),
        ("{ http://host/a?b=c#d }", "http://host/a?b=c#d"),
        ("{ 1:2:3:4 }", "1:2:3:4"),
        ('{ "1:10" }', "1:10"),
        ("{ $(id); rm -rf ~ }", "$(id); rm -rf ~"),
        ("{ Größe }", "Größe"),
    ],
)
def test_bare_words_keep_any_character_and_escapes_give_the_others(written, expected):
    assert texts(written) == [expected]


def test_text_and_value_are_two_things():
    domain = read("{ 007, 8.50 }")
    assert list(domain.texts()) == ["007", "8.50"]
    assert values("{ 007, 8.50 }") == [7.0, 8.5]
    assert domain.type == "real"


def test_the_type_is_what_all_elements_share():
    assert read("{ 1, 2 }").type == "int"
    assert read("{ 1, 2.5 }").type == "real"
    assert read("{ 1, 1e3 }").type == "real"
    assert read("{ 1, a }").type == "str"
    assert read("{ 512MB, 10% }").type == "str"
    assert read("{ yes, no }").type == "str"


def test_a_type_that_is_said_is_the_type():
    assert [type(v) for v in values("{ 1, 2 }", "real")] == [float, float]
    assert values("{ 0x10, 3, -0b11 }", "int") == [16, 3, -3]
    assert values("{ 1, 01 }", "str") == ["1", "01"]
    assert values("{ 1.5d-3, 2 }", "real") == [0.0015, 2.0]
    assert isinstance(read("{ 1:2000 }", "real").value(4), float)
    assert read("{ 1:2000 }", "str").value(4) == "5"


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("yes", "no"),
        ("true", "false"),
        ("on", "off"),
        ("1", "0"),
        (".true.", ".false."),
        ("TRUE", "No"),
    ],
)
def test_a_bool_is_written_in_many_ways_and_keeps_its_text(yes, no):
    domain = read(f"{{ {yes}, {no} }}", "bool")
    assert [domain.value(0), domain.value(1)] == [True, False]
    assert list(domain.texts()) == [yes, no]


def test_a_large_concatenation_costs_nothing():
    domain = read("{ n{1:1000}-{1:1000}-{1:1000}-{1:1000}-{1:1000}-{1:1000} }")
    assert domain.size == 10**18
    assert domain.text(10**18 - 1) == "n1000-1000-1000-1000-1000-1000"


def test_bounds_in_parentheses_are_expressions_over_other_parameters():
    domain = read("{ 1:(min(n, 4) / 2):2 }")
    assert isinstance(domain, Dependent)
    assert domain.names == {"n"}
    assert list(domain.domain({"n": 10}).texts()) == ["1"]
    assert list(read("{ 1:(n):*2 }").domain({"n": 8}).texts()) == ["1", "2", "4", "8"]
    assert list(read("{ (n):1:-1 }").domain({"n": 3}).texts()) == ["3", "2", "1"]


def test_continuous_sets_have_bounds_and_a_scale():
    assert read("{ UNIFORM(0, 1) }") == Continuous(0.0, 1.0)
    assert read("{ LogUniform(1e-5, 1/10) }") == Continuous(1e-5, 0.1, log=True)


def test_log_takes_the_bounds_themselves():
    assert values("{ LOG(1e-6,1e-2,5) }") == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]


def test_lines_come_from_a_file_beside(tmp_path):
    (tmp_path / "hosts.txt").write_bytes("\ufeffnode1\r\n\r\n  node 2 \r\n# 3".encode())
    assert texts('{ LINES("hosts.txt") }', base=tmp_path) == ["node1", "node 2", "# 3"]
    assert texts("{ local, LINES(hosts.txt) }", base=tmp_path)[:2] == ["local", "node1"]


def test_lines_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "hosts.txt").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in diagnostic('{ LINES("hosts.txt") }', base=tmp_path).message


def test_a_pattern_gives_sorted_paths(tmp_path):
    for name in ("data/b.csv", "data/a.csv", "data/.hidden.csv", "data/deep/c.csv", "data/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert texts('{ GLOB("data/*.csv") }', base=tmp_path) == ["data/a.csv", "data/b.csv"]
    assert texts('{ GLOB("**/*.csv") }', base=tmp_path)[-1] == "data/deep/c.csv"


def test_equal_elements_are_found_across_groups_and_ranges():
    assert diagnostic("{ 1:3, 2 }").message == "the element '2' occurs twice: in 1:3"
    assert diagnostic("{ n1, n{1,2} }").message == "the element 'n1' occurs twice: in n{1,2}"
    assert diagnostic("{ 1, 1.0 }").message == "the elements '1' and '1.0' are the same value"
    assert (
        diagnostic("{ yes, on }", "bool").message
        == "the elements 'yes' and 'on' are the same value"
    )


def test_a_complaint_points_at_the_second_of_two_equal_elements():
    found = diagnostic("{ a, bb, c, bb }")
    assert (found.place.column, found.place.width) == (13, 2)


def test_a_range_within_an_element_may_be_too_large_to_be_listed():
    domain = read("{ x{1:9000000}{a,b} }")
    assert (domain.size, domain.text(3), domain.text(17_999_999)) == (
        18_000_000,
        "x2b",
        "x9000000b",
    )


def test_a_range_within_an_element_within_an_element_may_be_as_large():
    nested = read("{ x{b{1:9000000}} }")
    assert (nested.size, nested.text(8_999_999)) == (9_000_000, "xb9000000")


@pytest.mark.parametrize(
    ("text", "kind", "message", "column", "width"),
    [
        ("{ LIN(0,1,2) x }", None, "LIN(…) stands alone", 14, 1),
        ("{ 1, 2 } x", None, "there is text after the set", 10, 1),
        ("{ UNIFORM(0,1) }", "int", "TYPE int does not fit this set of real numbers", 3, 12),
        ("{ 1:(n) }", "str", "TYPE str does not fit this set of int numbers", 3, 6),
    ],
)
def test_what_no_set_can_be_is_told_with_its_place(text, kind, message, column, width):
    found = diagnostic(text, kind)
    assert (found.message, found.place.column, found.place.width) == (message, column, width)


@pytest.mark.parametrize(
    ("text", "kind"), [("{ UNIFORM(0,1) }", "real"), ("{ 1:(n) }", "real"), ("{ 1:(n) }", "int")]
)
def test_sets_that_cannot_be_listed_have_the_type_that_is_written(text, kind):
    assert read(text, kind).type == kind


def test_what_looks_like_a_range_but_is_none_stays_a_text():
    assert texts("{ 12:30pm, a:b, 1:n }") == ["12:30pm", "a:b", "1:n"]


def test_a_set_that_takes_too_long_to_read_is_refused():
    assert "too many parentheses" in diagnostic("{ " + "(," * 60_000 + " }").message


def test_parts_know_where_they_stand():
    text = "{ a, 1:9:2 , n{1,2}x }"
    items = read_elements(Passage.of(text)).items
    assert [text[item.start : item.end].strip() for item in items] == ["a", "1:9:2", "n{1,2}x"]
    assert isinstance(items[1], WrittenRange)
    assert isinstance(items[2], WrittenConcatenation)


ANY = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(ANY, min_size=1, max_size=6, unique=True))
def test_what_is_written_as_an_element_is_read_as_it(elements):
    written = "{ " + ", ".join(map(write_text, elements)) + " }"
    assert texts(written, "str") == elements
    assert written.splitlines() == [written]


@given(ANY)
def test_a_written_text_is_a_single_value(text):
    written = write_text(text)
    found = read_text(Passage.of(written + " TYPE str"))
    assert (found.text, found.end) == (text, len(written))


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 9), st.integers(0, 3))
def test_a_range_is_what_counting_gives(first, last, stride, places):
    unit = Decimal(10) ** -places
    low, high, step = (unit * n for n in (first, last, stride if first <= last else -stride))
    at, expected = low, []
    while (at - high) * step <= 0:
        expected.append(at)
        at += step
    found = texts(f"{{ {low:f}:{high:f}:{step:f} }}")
    assert [Decimal(text) for text in found] == expected
    assert all(len(text.partition(".")[2]) == places for text in found)


GROUPS = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True), min_size=1, max_size=3
)


@given(GROUPS)
def test_a_concatenation_is_a_product_with_the_rightmost_fastest(groups):
    written = "{ x" + "-".join("{" + ",".join(group) + "}" for group in groups) + " }"
    assert texts(written) == ["x" + "-".join(parts) for parts in itertools.product(*groups)]


def outcome(text):
    """The set, or what is wrong with it."""
    try:
        return read(text), ()
    except InputError as error:
        return None, error.diagnostics


@given(st.text(st.sampled_from("{},:*()\"'\\ \n1234567890.-ab+eELINOGTSUFRM"), max_size=40))
def test_any_text_is_read_as_a_set_or_refused_with_a_place_and_a_hint(text):
    domain, found = outcome("{" + text + "}")
    assert all(each.place and each.message and each.hint for each in found)
    assert found or isinstance(domain, Dependent | Continuous) or domain.size > 0
