"""SQL that somebody writes may read, and nothing else; both databases deny the rest themselves."""

from resource import RUSAGE_SELF, getrusage

import pytest

from postgres import grant_reading
from record.reference import ReferenceRepository
from tests.query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import InputError, SafetyError
from zenturio.query.raw_query import QueryLimits, raw
from zenturio.query.select_results import results
from zenturio.record.open import open_repository


@pytest.fixture(scope="module")
def study(shared_repository):
    fill(shared_repository, "matmul", PARAMETERS, METRICS, matmul())
    return shared_repository


def count(repository):
    return raw(repository, "SELECT count(*) FROM study_matmul").rows[0][0]


def test_a_question_is_answered(study):
    found = raw(study, "SELECT n, avg(wtime) AS mean FROM study_matmul GROUP BY n ORDER BY n;")
    assert found.columns == ("n", "mean")
    assert [row[0] for row in found.rows] == [128, 256, 512]
    assert found.summary == "3 of 3 rows"


def test_what_results_shows_as_its_sql_can_be_asked(study):
    shown = results(study, "matmul", where="n // 100 == 2 and wtime < 3", by=["threads"])
    assert raw(study, shown.sql).rows == shown.rows


def test_with_and_values_are_questions_too(study):
    assert raw(study, "WITH x AS (SELECT 1 AS a) SELECT a + 1 FROM x").rows == ((2,),)
    assert raw(study, "VALUES (1), (2)").rows == ((1,), (2,))


def test_per_cent_signs_and_marks_are_letters(study):
    assert raw(study, "SELECT 7 % 4, '%s ?'").rows == ((3, "%s ?"),)


WRITES = [
    "DELETE FROM results",
    "UPDATE results SET status = 'ok'",
    "INSERT INTO hosts (name) VALUES ('x')",
    "DROP TABLE results",
    "CREATE TABLE evil (x int)",
    "CREATE TEMP TABLE evil (x int)",
    "SELECT 1; DELETE FROM results",
    "COMMIT",
    "BEGIN",
    "",
]
ONLY_SQLITE = [
    "ATTACH DATABASE '/tmp/evil.db' AS evil",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = 1",
    "SELECT load_extension('/tmp/evil.so')",
    "SELECT * FROM pragma_database_list",
    "VACUUM INTO '/tmp/evil.db'",
    "EXPLAIN DELETE FROM results",
    "WITH x AS (SELECT 1) DELETE FROM results",
]
ONLY_POSTGRESQL = [
    "COPY experiments TO PROGRAM 'id'",
    "COPY experiments TO '/tmp/evil'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT PG_READ_FILE('/etc/passwd')",
    "SELECT \"pg_read_file\"('/etc/passwd')",
    "SELECT U&\"pg\\005Fread\\005Ffile\"('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT query_to_xml('SELECT 1', true, true, '')",
    "DO $$ BEGIN DELETE FROM results; END $$",
    "SET ROLE zen",
    "RESET ROLE",
    "WITH x AS (DELETE FROM results RETURNING *) SELECT * FROM x",
    "SELECT * INTO evil FROM results",
    "SELECT nextval('hosts_id_seq')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT * FROM results FOR UPDATE",
    "EXECUTE something",
    "LISTEN everything",
]


@pytest.mark.parametrize("text", WRITES)
def test_what_is_no_question_is_refused(study, text):
    with pytest.raises(SafetyError if text else InputError):
        raw(study, text)
    assert count(study) == 35


def test_sqlite_denies_what_reaches_beyond(sqlite, subtests):
    fill(sqlite, "matmul", PARAMETERS, METRICS, matmul())
    for text in ONLY_SQLITE:
        with subtests.test(text), pytest.raises(SafetyError):
            raw(sqlite, text)
    assert count(sqlite) == 35


def test_postgresql_denies_what_reaches_beyond(postgres_url, subtests):
    repository = open_repository(postgres_url)
    grant_reading(repository)
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    for text in ONLY_POSTGRESQL:
        with subtests.test(text), pytest.raises(SafetyError):
            raw(repository, text)
    assert count(repository) == 35
    repository.close()


ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT count(*) FROM x"


def test_what_never_ends_is_stopped(study):
    with pytest.raises(SafetyError, match=r"stopped after 0\.3 seconds"):
        raw(study, ENDLESS, QueryLimits(seconds=0.3))
    assert count(study) == 35


def test_rows_beyond_the_limit_are_cut_and_that_is_said(study):
    found = raw(study, "SELECT n FROM study_matmul", QueryLimits(rows=10))
    assert len(found.rows) == 10
    assert found.notes == ("cut after 10 rows: there are more",)
    assert raw(study, "SELECT n FROM study_matmul", QueryLimits(rows=35)).notes == ()


def test_rows_without_end_are_cut_at_once(study):
    text = ENDLESS.replace("count(*)", "n")
    assert len(raw(study, text, QueryLimits(rows=5)).rows) == 5


def test_an_answer_that_is_too_large_is_refused(study):
    text = "SELECT " + (
        "hex(zeroblob(5000))" if study.engine.dialect.name == "sqlite" else "repeat('x', 10000)"
    )
    with pytest.raises(SafetyError, match="larger than 0 MB"):
        raw(study, f"{text} FROM study_matmul", QueryLimits(size=50_000))


def test_one_value_cannot_fill_the_memory(sqlite):
    fill(sqlite, "matmul", PARAMETERS, METRICS, matmul())
    with pytest.raises(SafetyError, match="larger than"):
        raw(sqlite, "SELECT hex(zeroblob(400000000))")
    with pytest.raises(SafetyError, match="larger than"):
        raw(sqlite, "SELECT zeroblob(100000000)")
    assert count(sqlite) == 35


def test_a_server_does_not_send_a_row_that_fills_the_memory(postgres_url):
    repository = open_repository(postgres_url)
    grant_reading(repository)
    before = getrusage(RUSAGE_SELF).ru_maxrss
    with pytest.raises(SafetyError, match="a row of the result is larger than 2 MB"):
        raw(repository, "SELECT repeat('x', 80000000) -- much", QueryLimits(seconds=600))
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 40_000, "in KiB"
    assert raw(repository, "SELECT 1 AS a, 2 AS a, 'b' ORDER BY 1 -- no more").rows == (
        (1, 2, "b"),
    )
    for text in ("SELECT 1) AS raw, (SELECT 2", "SELECT 1) AS raw OFFSET 0) AS zen --"):
        with pytest.raises((InputError, SafetyError)):
            raw(repository, text)
    repository.close()


def test_a_mistake_comes_with_the_words_of_the_database(study):
    with pytest.raises(InputError, match="nothing_such") as caught:
        raw(study, "SELECT n,\n nothing_such FROM study_matmul")
    if study.engine.dialect.name == "postgresql":
        place = caught.value.diagnostics[0].place
        assert (place.line, place.column) == (2, 2)
    with pytest.raises(InputError, match="syntax error"):
        raw(study, "SELECT FROM WHERE")


def test_bytes_and_decimals_can_be_written_as_json(study):
    half = "0.5" if study.engine.dialect.name == "sqlite" else "0.5::numeric"
    ((digest, value),) = raw(study, f"SELECT digest, {half} FROM results LIMIT 1").rows
    assert (len(digest), value) == (32, 0.5)


def test_a_path_with_odd_letters_is_a_path(tmp_path):
    from zenturio.record.open import open_repository

    folder = tmp_path / "a ?mode=rwc&b#c%20"
    repository = open_repository(folder / "zenturio.db")
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    assert count(repository) == 35
    repository.close()


def test_a_repository_in_memory_says_that_it_is_no_database():
    with pytest.raises(InputError, match="not a database"):
        raw(ReferenceRepository(), "SELECT 1")


def test_a_nul_byte_in_a_query_is_found(repository):
    with pytest.raises(InputError, match="<sql>:1:9"):
        raw(repository, "SELECT 1\0")
