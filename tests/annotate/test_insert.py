"""Directives written from code: where they stand, how they are quoted, and that a scan reads them."""

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from zenturio.annotate.dialects import BUILT_IN, UNKNOWN, dialect_of, named
from zenturio.annotate.directive_lines import directive, find, insert
from zenturio.annotate.grammar import read
from zenturio.annotate.set_reader import read_set
from zenturio.annotate.source import Source, split_lines
from zenturio.errors import AnnotationError
from zenturio.expression import text_of


def statements(text, dialect):
    return [read(line.body) for line in find(Source(Path("x"), text), dialect).directives]


def test_directives_stand_at_the_top_one_for_each_parameter_and_body():
    text = insert(
        "int main() {}\n",
        "c",
        {"HOST": ["a", "b c"], "N": "1:4", "M": "@N"},
        bodies=["CONSTRAINT VALUE N > 1", directive("ENV", "OMP", [1, 2], "AS threads")],
    )
    assert text == (
        '// ZEN$ SUBSTITUTE HOST = { a, "b c" }\n'
        "// ZEN$ SUBSTITUTE N = { 1:4 }\n"
        "// ZEN$ SUBSTITUTE M = @N\n"
        "// ZEN$ CONSTRAINT VALUE N > 1\n"
        "// ZEN$ ENV OMP = { 1, 2 } AS threads\n"
        "int main() {}\n"
    )


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.sh", "#!/bin/sh\n"),
        ("a.py", "#!/usr/bin/python\n# -*- coding: latin-1 -*-\n"),
        ("a.py", "# vim: set fileencoding=utf-8 :\n"),
        ("a.xml", '<?xml version="1.0"?>\n'),
        ("a.html", "<!DOCTYPE html>\n"),
        ("a.php", "<?php\n"),
        ("Dockerfile", "# syntax=docker/dockerfile:1\n# escape=`\n"),
        ("a.py", ""),
    ],
)
def test_what_has_to_stay_first_stays_first(name, head):
    text = insert(head + "body\n", dialect_of(name), {"n": [1]}, way="PARAM")
    assert text.startswith(head)
    assert text.endswith("body\n")
    assert "ZEN$ PARAM n = { 1 }" in split_lines(text[len(head) :])[0]


def test_before_a_line_they_take_its_indentation_and_line_end():
    text = "def f():\r\n    n = 1\r\n    return n"
    assert insert(text, "python", {"n": [1]}, way="ASSIGN", before=3) == (
        "def f():\r\n    n = 1\r\n    # ZEN$ ASSIGN n = { 1 }\r\n    return n"
    )
    assert insert("a\nb", "python", {"n": [1]}, before=9).endswith("b\n# ZEN$ SUBSTITUTE n = { 1 }")
    assert insert("", "python", {"n": [1]}) == "# ZEN$ SUBSTITUTE n = { 1 }\n"


def test_a_long_directive_goes_on_and_is_never_broken_in_quotes():
    hosts = [f"host {i}" for i in range(30)]
    text = insert("x\n", "ocaml", {"h": hosts}, width=60)
    lines = split_lines(text)
    assert len(lines) > 5
    assert all(len(line) <= 61 for line in lines)
    assert all(line.startswith("(* ZEN$& ") for line in lines[1:-1])
    (statement,) = statements(text, named("ocaml"))
    assert list(read_set(statement.elements, Path()).texts()) == hosts


def test_a_place_where_it_would_be_no_directive_is_refused():
    with pytest.raises(AnnotationError, match="before line 2 would be inside a string"):
        insert('s = """\n"""\n', "python", {"n": [1]}, before=2)
    with pytest.raises(AnnotationError, match="OFF and ON"):
        insert("# ZEN$ OFF\nx\n# ZEN$ ON\n", "python", {"n": [1]}, before=2)


def test_a_file_without_comments_and_a_name_without_a_form_are_refused():
    with pytest.raises(AnnotationError, match="data files have no comments"):
        insert("{}", dialect_of("a.json"), {"n": [1]})
    with pytest.raises(AnnotationError, match="cannot be used as a name"):
        insert("", "c", {"a\nb": [1]})
    with pytest.raises(AnnotationError, match="would end the comment"):
        insert("", "ocaml", {}, bodies=['RUN "a *) b"'])


values = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.text("*/->)}|\\\"',{}: ab", max_size=6),
)
DIALECTS = [d for d in (*BUILT_IN, UNKNOWN) if d.openers]


@given(
    st.sampled_from(DIALECTS),
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=6),
    st.lists(values, min_size=1, max_size=12),
    st.integers(20, 120),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["SUBSTITUTE", "ASSIGN", "ENV", "PARAM"]),
)
@example(named("ocaml"), "a", ["*)", "(*", '"'], 20, "\n", "PARAM")
@example(named("xml"), "a", ["-->", "--x", "---"], 20, "\n", "PARAM")
def test_a_scan_gives_back_what_was_put_in(dialect, name, elements, width, end, way):
    texts = list(dict.fromkeys(text_of(value) for value in elements))
    assume(len({_number(text) for text in texts}) == len(texts))
    closer = dialect.closers[dialect.opener]
    assume(not closer or closer not in name)
    assume("`" not in name or "\\" not in name)
    text = insert(f"first{end}last", dialect, {name: texts}, way=way, width=width)
    (statement,) = statements(text, dialect)
    assert statement.way == way.lower()
    assert statement.name.text == name
    assert list(read_set(statement.elements, Path()).texts()) == texts
    assert text.endswith(f"first{end}last")


def _number(text):
    try:
        return float(text)
    except ValueError:
        return text
