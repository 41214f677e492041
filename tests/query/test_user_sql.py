"""A misspelt name in somebody's SQL is an error with a hint, also where it stands in quotes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import InputError
from zenturio.query.raw_query import raw, with_names_in_backticks


@pytest.fixture(scope="module")
def study(shared_repository):
    fill(shared_repository, "matmul", PARAMETERS, METRICS, matmul())
    fill(
        shared_repository,
        "Al.scf",
        {"k points": "int"},
        {"energy": "real"},
        [{"k points": 2, "energy": 1.5}],
    )
    return shared_repository


def test_names_in_double_quotes_are_columns(study):
    found = raw(study, 'SELECT "n", max("wtime") AS "most time" FROM "study_matmul" GROUP BY "n"')
    assert found.columns == ("n", "most time")
    assert len(found.rows) == 3
    assert raw(study, 'SELECT "k points" FROM "study_Al.scf"').rows == ((2,),)
    assert raw(study, "SELECT energy FROM study_al_scf").rows == ((1.5,),)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ('SELECT avg("gflop") FROM study_matmul', "gflops"),
        ('SELECT max("wtimee") FROM study_matmul', "wtime"),
        ("SELECT wtimee FROM study_matmul", "wtime"),
        ('SELECT m."thread" FROM study_matmul m', "threads"),
        ("SELECT * FROM study_matmull", "study_matmul"),
        ("SELECT * FROM study_Al.scf", '"study_Al.scf"'),
        ("SELECT energi FROM study_al_scf", "energy"),
        ("SELECT host_cpu FROM study_matmul", "study_matmul_all has it"),
        ("SELECT status FROM study_al_scf", '"study_Al.scf_all" has it'),
        ('SELECT n FROM study_matmul WHERE solver = "gmres_"', "single quotes: 'gmres_'"),
    ],
)
def test_a_misspelt_name_is_an_error_with_a_hint(study, query, hint):
    with pytest.raises(InputError) as caught:
        raw(study, query)
    assert hint in str(caught.value)


def test_columns_of_an_answer_are_called_as_they_were_written(sqlite):
    fill(sqlite, "matmul", PARAMETERS, METRICS, matmul())
    found = raw(sqlite, 'SELECT max("n"), min(`n`), "n" FROM study_matmul')
    assert found.columns == ('max("n")', "min(`n`)", "n")


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ('"a"', "`a`"),
        ('"a""b"', '`a"b`'),
        ('"a`b"', "`a``b`"),
        ("'\"'", "'\"'"),
        ("'it''s \"x\"' || \"y\"", "'it''s \"x\"' || `y`"),
        ('-- "a"\n"b"', '-- "a"\n`b`'),
        ('/* "a" */ "b" /* "c"', '/* "a" */ `b` /* "c"'),
        ('["a"] `"b"`', '["a"] `"b"`'),
        ("json_extract(x, '$.\"k\"')", "json_extract(x, '$.\"k\"')"),
        ('"open', '"open'),
        ('\'open "a"', "'open `a`"),
        ("1 - -1 / 2", "1 - -1 / 2"),
    ],
)
def test_only_names_in_double_quotes_are_rewritten(written, asked):
    assert with_names_in_backticks(written) == asked


@given(st.text("'\"`[]-/*ab\n", max_size=40))
def test_what_has_no_double_quotes_stays_as_it_is(text):
    plain = text.replace('"', "")
    assert with_names_in_backticks(plain) == plain
