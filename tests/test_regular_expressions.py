"""Where google-re2 is missing, the package regex finds the same, and refuses the same patterns."""

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio import regular_expressions
from zenturio.annotate.model import Metric
from zenturio.annotate.patterns import GitIgnore
from zenturio.experiment.experiment import Log
from zenturio.experiment.metrics import SearchedOutput, metric_finder
from zenturio.regular_expressions import (
    PatternError,
    SlowPatternError,
    compile_bytes_pattern,
    compile_pattern,
    matcher_name,
)

PIECES = [
    "a", "b", "é", "n", " ", "1", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\b", r"\B", r"\A", r"\z",
    "^", "$", ".", "*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{,2}", "{", "}", "{1001}", "|", "(", ")", "(?:",
    "(?P<n>", "(?<m>", "(?i)", "(?m)", "(?s)", "(?im)", "(?-s)", "(?i:", "(?=a)", "(?<!a)", "(?>a)", "(?#a)",
    r"\1", r"\n", r"\.", r"\x61", r"\x{e9}", r"\07", r"\101", r"\pL", r"\p{Lu}", r"\PL", r"\Q.*\E", r"\_", r"\Z",
    "[ab]", "[^a]", "[]a]", "[a-c]", r"[\d.]", r"[^\s]", "[[:alpha:]]", "[[:foo:]]", "[a&&b]", "[a--b]", "[-a]", "[a",
    "[c-a]", r"[\W]", r"[\x61-\x63]", "-", "&", "#",
]  # fmt: skip
TEXTS = [
    "",
    "a",
    "ab1 aé\nb\n",
    "A1\r\n.* bb",
    "x\n\ny",
    "éÉ é",
    "a{,2}{2}",
    "aaab-&#c_",
    "\t\x0b 7",
]


@pytest.fixture
def without_re2(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)


def meaning(pattern):
    """What *pattern* finds first in each text, and in all of it; None if it is refused.

    Behind empty matches, wrappers of matchers go on in different ways: nobody asks for these.
    """
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        return None
    found = []
    for text in TEXTS:
        first = compiled.search(text)
        matches = [m.span() for m in compiled.finditer(text)]
        has_empty = any(start == end for start, end in matches)
        found.append((first and (first.span(), first.groups()), None if has_empty else matches))
    return found


def meanings(pattern):
    with pytest.MonkeyPatch.context() as patch:
        here = meaning(pattern)
        patch.setitem(sys.modules, "re2", None)
        return here, meaning(pattern)


def same_or_refused(pattern):
    here, without = meanings(pattern)
    if without is None and here is not None:
        # Only RE2 takes some flags in the middle.
        assert re.search(r"\(\?-?[ims]+\)", pattern), pattern
    else:
        assert without == here, pattern


@pytest.mark.parametrize("piece", PIECES)
def test_each_part_of_the_syntax_means_the_same(piece):
    for pattern in (piece, f"a{piece}", f"{piece}b", f"({piece})b", f"(?m)^{piece}$"):
        same_or_refused(pattern)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
def test_any_pattern_means_the_same_or_is_refused_with_the_reason(pattern):
    same_or_refused(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(((a{100}){100}){100}){100}", "(a{40}|b){30}", "(?:(?i:a){10}){10}", "(a{2}b{900}){1}"],
)
def test_nested_counts_have_one_limit(pattern):
    same_or_refused(pattern)


def test_bytes_that_are_no_text_are_matched_all_the_same(without_re2):
    (found,) = compile_bytes_pattern(r"(?P<t>\w+)=(\S+)").finditer(b"\xff t=\xe91 ")
    assert (found.group(1), found[2]) == (b"t", b"\xe91")
    (found,) = compile_bytes_pattern("ä=(.)").finditer("ä=µ".encode())
    assert (found.span(1), found.start(), found.end()) == ((3, 5), 0, 5)
    assert found.group(1) == "µ".encode()
    assert compile_bytes_pattern("(?P<t>a)").groupindex == {b"t": 1}


def test_a_search_that_does_not_end_is_given_up(without_re2, monkeypatch):
    monkeypatch.setattr(regular_expressions, "LONGEST_SECONDS", 0.05)
    pattern = compile_pattern("(a|aa)+$")
    for search in (pattern.search, lambda text: list(pattern.finditer(text))):
        with pytest.raises(SlowPatternError, match=r"`\(a\|aa\)\+\$` was stopped after 0.05 s"):
            search("a" * 60 + "b")


def test_the_matcher_is_named(monkeypatch):
    assert matcher_name() == "google-re2"
    monkeypatch.setitem(sys.modules, "re2", None)
    assert matcher_name() == "regex"


def test_rules_of_git_and_metrics_need_no_re2(without_re2, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.o\nbuild/\n!keep.o\n[\n")
    rules = GitIgnore(tmp_path)
    ignored = [n for n in ("a.o", "keep.o", "a.c") if rules.rule(tmp_path / n) is not None]
    assert ignored == ["a.o"]
    assert rules.rule(tmp_path / "build" / "x").line == 2
    finder = metric_finder(Metric("n", "stdout", regex=r"^n=(\d+)$", take="all"))
    assert finder.find(SearchedOutput("stdout", Log(b"n=1\r\nn=x\nn=3\n"))) == [1, 3]
