"""Files of CSV as tables beside the studies."""

import pytest

from tests.query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import InputError
from zenturio.query.raw_query import raw, with_csv_tables


@pytest.fixture
def study(repository):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    return repository


@pytest.fixture
def peaks(tmp_path):
    path = tmp_path / "peaks.csv"
    path.write_bytes("\ufeffn,share, machine\r\n128,0.5,O'Neill\r\n\r\n256,2\r\n".encode())
    return {"peaks": path}


def test_its_rows_are_asked_like_those_of_a_study(study, peaks):
    query = "SELECT n, share, machine FROM peaks ORDER BY n"
    found = [
        (n, float(share), machine)
        for n, share, machine in raw(study, with_csv_tables(query, peaks)).rows
    ]
    assert found == [(128, 0.5, "O'Neill"), (256, 2.0, None)]
    joined = "SELECT DISTINCT n FROM study_matmul JOIN peaks USING (n) ORDER BY n"
    assert raw(study, with_csv_tables(joined, peaks)).rows == ((128,), (256,))


@pytest.mark.parametrize(
    "query",
    [
        "WITH twice AS (SELECT 2 * n AS n FROM peaks) SELECT max(n) FROM twice",
        "-- WITH is not here\n/* nor\nhere */ with t AS (SELECT 2 * n AS n FROM peaks) SELECT max(n) FROM t",
        "WITH RECURSIVE twice AS (SELECT 2 * n AS n FROM peaks) SELECT max(n) FROM twice",
    ],
)
def test_a_query_may_have_tables_of_its_own(study, peaks, query):
    assert raw(study, with_csv_tables(query, peaks)).rows == ((512,),)


def test_several_files_are_several_tables(study, peaks, tmp_path):
    (tmp_path / "more.csv").write_text("m\n3\n")
    both = {**peaks, "more": tmp_path / "more.csv"}
    assert raw(study, with_csv_tables("SELECT count(*) + max(m) FROM peaks, more", both)).rows == (
        (5,),
    )


def test_a_cell_is_never_more_than_a_cell(study, tmp_path):
    path = tmp_path / "evil.csv"
    path.write_text('"a""",b\n"x\'); DROP TABLE results; --",-1e3\n')
    found = raw(study, with_csv_tables("SELECT * FROM evil", {"evil": path}))
    assert found.columns == ('a"', "b")
    assert [found.rows[0][0], float(found.rows[0][1])] == ["x'); DROP TABLE results; --", -1000]


def test_without_files_a_query_is_as_it_was():
    assert with_csv_tables("SELECT 1", {}) == "SELECT 1"


def test_a_row_that_is_a_cell_short_has_null_there(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("a,b\n1,2\n3\n")
    query = with_csv_tables("SELECT 1", {"t": path})
    assert query.startswith('WITH t ("a", "b") AS (VALUES (1, 2), (3, NULL))')


@pytest.mark.parametrize(
    ("content", "diagnostic"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "the same name"),
        ("a,\n1,2\n", "the same name"),
        ("a,b\n1,2\n3,4,5\n", "row 3 has more cells"),
        ("a\n" + "x" * 200 + "\n" + "1\n" * 200_000, "too large"),
        (None, "No such file"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, content, diagnostic):
    path = tmp_path / "file.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=diagnostic):
        with_csv_tables("SELECT 1", {"t": path})


def test_a_table_has_a_name_of_letters(peaks):
    with pytest.raises(InputError, match="--table 1 2="):
        with_csv_tables("SELECT 1", {"1 2": peaks["peaks"]})
