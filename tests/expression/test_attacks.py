"""What people try on an evaluator is refused at once, and shown where it stands."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression.random_expressions import Chance, expression_of
from spent import under
from zenturio.errors import ExpressionError
from zenturio.expression import parse

KNOWN = {"n": "int", "x": "real", "s": "str", "flag": "bool"}

ATTACKS = {
    # a way out
    "().__class__": 2,
    '"".__class__.__mro__[1].__subclasses__()': 3,
    "n.__class__": 2,
    "(1).real": 4,
    "1 .real": 3,
    "__import__('os').system('id')": 1,
    "open('x')": 1,
    "eval('1')": 1,
    "exec('1')": 1,
    "getattr(n, 'x')": 1,
    "globals()": 1,
    "print(n)": 1,
    "min.__globals__": 4,
    "min(n, 1).__class__": 10,
    "str.format('{0.__class__}', n)": 4,
    "'{0.__class__}'.format(n)": 16,
    "'%s' % s": 1,
    "'%1000000000d' % n": 1,
    "f'{n}'": 2,
    "n[0]": 2,
    "s[::-1]": 3,
    "(lambda: n)()": 8,
    "lambda x: x": 9,
    "(n := 5)": 4,
    "n = 5": 3,
    "[n for n in (1, 2)]": 1,
    "{n: 1}": 1,
    "{1, 2}": 1,
    "(n for n in s)": 4,
    "*s": 1,
    "max(*s)": 5,
    "min(key=s)": 8,
    "(1, 2)": 3,
    "min(1, 2)(3)": 10,
    "import os": 8,
    "n; import os": 2,
    "n\nn": 1,
    "n +\n  (n": 3,
    "yield n": 7,
    "await n": 7,
    "host.__class__.x": 15,
    "host.memory": 1,
    "@n": 1,
    "$HOME": 1,
    "`id": 1,
    "${n}": 1,
    "n -- drop table\n": 11,
    "n' or '1'='1": 2,
    # too much
    "9**9**9": 1,
    "9**9**9**9 > n": 4,
    "2**99999": 1,
    "2**-1": 1,
    "10**400*1.5": 8,
    "(2**4000)*(2**4000)": 10,
    "'a' * 10**9": 1,
    "n + 'a' * 999999999": 5,
    "exp(1e10)": 1,
    "1e999": 1,
    "1e-999999999s": 1,
    "1e999999999s": 1,
    "1" * 1234: 1,
    "9" * 9999: 1,
    "9" * 100_000: 10_001,
    "1/0": 2,
    "n % 0": 3,
    "match(s, '(((a{100}){100}){100}){100}')": 10,
    r"match(s, '(a)\1')": 10,
    "match(s, '(?=a)')": 10,
    # too deep, too long
    "(" * 50_000: 10_001,
    "(" * 50_000 + "n" + ")" * 50_000: 10_001,
    "(" * 4_000 + "n" + ")" * 4_000: 101,
    "[" * 5_000: 1,
    "-" * 9_000 + "n": 101,
    "not " * 2_000 + "flag": 401,
    "2**" * 3_000 + "1": 301,
    "min(n," * 1_500: 599,
    "n if flag else " * 600 + "n": 1491,
    "n in (" * 1_500: 601,
    "n+" * 5_000: 10_000,
    "n and " * 1_500 + "n": 1,
    "true + " * 1_400 + "n": 1,
    "q+" * 4_999 + "q": 1,
    "x" * 9_999: 1,
    "'" + "x" * 100_000 + "'": 10_001,
    # not what it looks like
    "n\0": 2,
    "\0": 1,
    "n\x1b[31m": 2,
    "n\u200b + 1": 2,
    "n\u202e+ 1": 2,
    "n\xa0+ 1": 2,
    "ｏｐｅｎ('x')": 1,
    "оpen('x')": 1,
    "__𝒾𝓂𝓅ℴ𝓇𝓉__('os')": 1,
    "n ≤ 1": 3,
    "n − 1": 3,
    "“n”": 1,
    "n ＋ 1": 3,
    "١ + n": 1,
    "n²": 2,
    "\ud800": 1,
    "\ufeffn": 1,
    # not an expression
    "": 1,
    "   ": 4,
    "()": 2,
    "'abc": 1,
    '"abc\\"': 1,
    "n +": 3,
    "* n": 1,
    "n n": 3,
    "(n": 1,
    "n)": 2,
    "(n]": 3,
    "n in ()": 6,
    "n in [": 6,
    "n,": 2,
    "1..2": 3,
    "1_000": 2,
    "0x10": 2,
    "5xyz": 2,
    "s < n": 3,
    "n and flag": 1,
    "thing": 1,
}


@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: repr(text)[:50])
def test_an_attack_is_refused_in_a_tenth_of_a_second_with_its_place(text):
    with under(0.1):
        with pytest.raises(ExpressionError) as caught:
            parse(text).check(KNOWN)
        message = str(caught.value)
    assert caught.value.diagnostics[0].place.column == ATTACKS[text]
    assert len(message) < 6_000


@pytest.mark.parametrize(
    "text",
    [
        "n ** n ** n",
        "2 ** (n * 10 ** 8)",
        "n ** (10 ** 1000)",
        "(n * 10 ** 1200) ** 3",
        "s + s + s",
    ],
)
def test_what_only_grows_when_it_is_computed_is_refused_then(text):
    expression = parse(text)
    expression.check(KNOWN)
    refused = pytest.raises(ExpressionError, match=r"too large|more than 10000 characters")
    with under(0.1), refused:
        expression.value({"n": 9**9, "s": "x" * 5_000})


def test_a_pattern_that_would_backtrack_for_ever_takes_no_time():
    with under(0.1):
        assert parse("match(s, '^(a+)+$')").value({"s": "a" * 9_000 + "b"}) is False


def places(text):
    """Where the diagnostics about *text* stand; nothing if it can be read."""
    try:
        parse(text)
    except ExpressionError as error:
        return [diagnostic.place for diagnostic in error.diagnostics]
    return []


@settings(max_examples=settings.default.max_examples * 300 // 100, deadline=None)
@given(text=st.text(alphabet="ab1.()[]'\"`\\ +-*/%<>=!,\0\né²else ifandornot", max_size=60))
def test_any_text_is_read_or_refused_but_never_breaks_the_reader(text):
    assert None not in places(text)


@settings(max_examples=settings.default.max_examples * 200 // 100, deadline=None)
@given(seed=st.integers(0, 2**32), at=st.integers(0, 200), junk=st.sampled_from("()'`*.,=\0 n"))
def test_a_slip_of_the_pen_is_read_or_refused(seed, at, junk):
    text = expression_of(Chance(seed).tree("bool", 3)).text
    assert None not in places(text[:at] + junk + text[at + 1 :])
