"""The database's answers are those of the language, row by row, on both databases."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.query.conftest import answers, fill
from zenturio.errors import ExpressionError
from zenturio.expression import parse
from zenturio.query.catalog import ROW, open_snapshot, read_catalog
from zenturio.query.sql_fragments import literal, quote_name, sql
from zenturio.query.sql_writer import write_sql

TYPES = {"i": "int", "j": "int", "x": "real", "y": "real", "s": "str", "t": "str", "b": "bool"}

ROWS = [
    {"i": 7, "j": 2, "x": 2.5, "y": 0.5, "s": "node1-a", "t": "a", "b": True},
    {"i": -7, "j": 2, "x": -2.5, "y": 3.0, "s": "x/y/", "t": "", "b": False},
    {"i": 7, "j": -2, "x": 0.0, "y": -1.5, "s": "Größe", "t": "ö", "b": True},
    {"i": 0, "j": 0, "x": 1.0, "y": 0.1, "s": "", "t": "Z", "b": False},
    {"i": 64, "j": 8, "x": 3.5, "y": 0.0, "s": "/usr/bin/cc", "t": "cc", "b": None},
    {"i": None, "j": 3, "x": None, "y": 8.0, "s": "10", "t": "9", "b": True},
    {"i": 1, "j": None, "x": 0.5, "y": None, "s": None, "t": "a_%", "b": False},
    {"i": 12, "j": 18, "x": 1e3, "y": 1e-3, "s": "a b", "t": None, "b": None},
]


@pytest.fixture
def reader(repository):
    """The rows above, readable."""
    rows = [{**row, "index": index} for index, row in enumerate(ROWS)]
    fill(repository, "values", TYPES, {"m": "real"}, rows)
    with open_snapshot(repository) as found:
        yield found


def same(found, expected):
    if expected is None or found is None:
        return found is expected
    if isinstance(expected, float) or (type(expected) is int and abs(expected) >= 2**63):
        return math.isclose(float(found), expected, rel_tol=1e-12) or found == expected
    return found == expected


def wrong_answers(reader, text):
    """Rows whose answer is not that of the language; where that has none, any answer is right."""
    expression = parse(text)
    wrong = []
    for row, found in zip(ROWS, answers(reader, text), strict=True):
        try:
            expected = expression.value({**row, "m": None})
        except ExpressionError:
            continue
        if not same(found, expected):
            wrong.append((text, row, found, expected))
    return wrong


EVERYWHERE = [
    "i + j * 2 - 3", "i / j", "i / 2 + j / 4", "i // j", "i % j", "-i // 3", "(i + 1) // (j - 1)",
    "i // 2 // 2 // 2 // 2 % 3", "i ** 2", "i ** 3", "x ** 2", "2 ** j", "x + i", "x * y - 1",
    "x / y", "y ** x", "x ** 0.5", "-x", "+i", "abs(i) + abs(x)", "i < j <= 8", "1 < i + j < x + 9 < 99",
    "i == x", "i != j", "s < t", "s <= 'a'", "s == 'x/y/'", "'a' in s", "'' in s", "t in s",
    "t not in s", "'_' in t", "'%' in t", "i in (7, 64, 2.5)", "i not in (7, j)", "s in ('10', t)",
    "b", "not b", "b and i > 0", "b or i > 0", "not (b and x > 1)", "b == true", "b != false",
    "x if b else y", "i if x > 1 else j", "'p' if b else s", "s + '-' + t", "min(i, j)", "max(i, j, 3)",
    "min(x, i)", "max(s, t)", "floor(x)", "ceil(x)", "round(x)", "round(i)", "round(x * 2) / 2",
    "sqrt(x)", "log(x)", "log2(i)", "log2(x)", "exp(x)" , "exp(-x * x)", "gcd(i, j)", "gcd(i, j, 6)",
    "ispow2(i)", "ispow2(i + j)", "divides(j, i)", "divides(i + j, i * j)", "len(s)", "len(s + t)",
    "str(i)", "str(s)", "str(b)", "basename(s)", "basename(s + '/' + t)", "i > 3KB or x < 2min",
    "floor(x) % 3", "floor(x / y) // 2 == 1", "m > 1", "m + 1",
    "coalesce(m, x)", "coalesce(m, i)", "coalesce(s, t)", "coalesce(m + 1, m, j * 2, x)", "coalesce(b, false)",
    "j == 0 or i % j == 0", "j != 0 and i // j > 1", "i * 1000000007 * 998244353", "(i // 2) ** (j // 2)",
]  # fmt: skip


def test_the_answers_are_those_of_the_language(reader, subtests):
    for text in EVERYWHERE:
        with subtests.test(text):
            assert wrong_answers(reader, text) == []


def test_functions_that_only_sqlite_is_given(sqlite):
    fill(sqlite, "values", TYPES, {"m": "real"}, [{**r, "index": i} for i, r in enumerate(ROWS)])
    with open_snapshot(sqlite) as reader:
        for text in ("x // y", "x % y", "i // x", "str(x)", "str(x / 3)", "match(s, '^[a-z]+1-')",
                     "match(s, t)", "match(s + t, 'a$') and b"):  # fmt: skip
            assert wrong_answers(reader, text) == []


def test_what_postgresql_cannot_say_has_a_place(postgres_url):
    from zenturio.record.open import open_repository

    repository = open_repository(postgres_url)
    fill(repository, "values", TYPES, {"m": "real"}, ROWS)
    with open_snapshot(repository) as reader:
        for text, column in (
            ("i > 0 and x % y < 1", 11),
            ("b or match(s, 'a')", 6),
            ("str(x) == '1'", 1),
        ):
            with pytest.raises(ExpressionError) as caught:
                answers(reader, text)
            assert caught.value.diagnostics[0].place.column == column
    repository.close()


def numbers():
    leaves = st.sampled_from(["i", "j", "x", "y", "0", "1", "2", "3", "2.5", "0.5", "-1"])

    def grown(inner):
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: f"({p[0]} + {p[1]})"),
            pair.map(lambda p: f"({p[0]} - {p[1]})"),
            pair.map(lambda p: f"({p[0]} * {p[1]})"),
            pair.map(lambda p: f"({p[0]} / {p[1]})"),
            pair.map(lambda p: f"min({p[0]}, {p[1]})"),
            inner.map(lambda p: f"abs({p})"),
            inner.map(lambda p: f"(floor({p}) // 3)"),
            inner.map(lambda p: f"(round({p}) % 4)"),
            pair.map(lambda p: f"({p[0]} if {p[1]} > 1 else {p[0]} + 1)"),
        )

    return st.recursive(leaves, grown, max_leaves=6)


def conditions():
    simple = st.one_of(
        st.tuples(numbers(), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), numbers()).map(
            " ".join
        ),
        st.tuples(numbers(), numbers()).map(lambda p: f"{p[0]} in (1, {p[1]})"),
        st.sampled_from(["b", "s < t", "t in s", "s in ('10', t)", "len(s) > 2"]),
    )

    def grown(inner):
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: f"({p[0]}) and ({p[1]})"),
            pair.map(lambda p: f"({p[0]}) or ({p[1]})"),
            inner.map(lambda p: f"not ({p})"),
        )

    return st.recursive(simple, grown, max_leaves=4)


@given(st.one_of(conditions(), numbers()))
@settings(
    max_examples=settings.default.max_examples * 150 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_expression_is_answered_as_in_the_language(reader, text):
    try:
        wrong = wrong_answers(reader, text)
    except ExpressionError:
        return  # a mistake of its own: 1 / 0 is refused when it is read
    assert wrong == []


def test_a_long_chain_stays_short(reader):
    text = "i" + " // 2" * 90 + " % 5 == 0"
    known = read_catalog(reader, "values")
    columns = {n: column.fragment(reader.dialect) for n, column in known.columns.items()}
    assert len(write_sql(parse(text), columns, reader.dialect).plain(reader.dialect)) < 20_000


def test_columns_are_not_taken_for_what_is_computed_once(repository):
    fill(
        repository, "letters", {"a": "int", "b": "int", "s": "int"}, {}, [{"a": 9, "b": 4, "s": 5}]
    )
    with open_snapshot(repository) as reader:
        known = read_catalog(reader, "letters")
        columns = {n: c.fragment(reader.dialect) for n, c in known.columns.items()}
        written = write_sql(parse("(a + b) // s + (s * 2 + a) % (b + a)"), columns, reader.dialect)
        found = reader.rows(sql(f"SELECT {{}} FROM {quote_name(known.view)} AS {ROW}", written))
    assert int(found[0][0]) == 13 // 5 + 19 % 13


def test_values_are_never_in_the_text(reader):
    known = read_catalog(reader, "values")
    columns = {n: column.fragment(reader.dialect) for n, column in known.columns.items()}
    evil = "'; DROP TABLE studies; --"
    written = write_sql(parse(f's == "{evil}"'), columns, reader.dialect)
    text, values = written.bound(reader.dialect)
    assert "DROP" not in text
    assert values == [evil]
    assert "'''; DROP TABLE" in written.plain(reader.dialect)


def test_what_the_server_cannot_compute_comes_with_its_words(postgres_url):
    from zenturio.query import results
    from zenturio.record.open import open_repository

    repository = open_repository(postgres_url)
    fill(repository, "values", TYPES, {"m": "real"}, ROWS)
    with pytest.raises(
        ExpressionError, match="exceeds the range of PostgreSQL's numbers"
    ) as caught:
        results(repository, "values", where="(y + 1) * 1e308 * 1e10 > 1")
    assert caught.value.diagnostics[0].place.text == "(y + 1) * 1e308 * 1e10 > 1"
    repository.close()


def test_values_that_are_pasted_are_written_as_each_database_reads_them():
    assert [literal(v, "sqlite") for v in (None, True, 3, 0.5, math.inf, "it's")] == [
        "NULL", "1", "3", "0.5", "9e999", "'it''s'",
    ]  # fmt: skip
    assert [literal(v, "postgresql") for v in (False, 2**70, 0.5, -math.inf)] == [
        "FALSE", str(2**70), "0.5::double precision", "'-inf'::double precision",
    ]  # fmt: skip
