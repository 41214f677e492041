"""PostgreSQL keeps the contract, and what is particular to a server."""

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import make_url

from record import oracle
from record.worker import DEFINITION, STUDY, drive
from zenturio.errors import RecordError
from zenturio.record import DriverProcess, database, leases, schema_version
from zenturio.record.open import dialect_at, open_repository
from zenturio.record.postgresql import ServerURL
from zenturio.record.repository import Repository
from zenturio.testing.executor import until
from zenturio.testing.experiments import experiment, outcome
from zenturio.testing.repository import RepositoryContract


class TestPostgreSQL(RepositoryContract):
    @pytest.fixture
    def repository(self, postgres_ready) -> Repository:
        repository = open_repository(postgres_ready)
        yield repository
        repository.close()


def test_a_restart_of_the_server_in_the_middle_is_survived(postgres, postgres_url):
    drivers = [oracle.start(postgres_url, 150, 2) for _ in range(2)]
    for _ in range(2):
        for _ in range(20):
            drivers[0].stdout.readline()
        postgres.restart()
    for driver in drivers:
        _, err = driver.communicate()
        assert driver.returncode == 0, err
    oracle.holds(postgres_url, 150)


def test_of_two_that_begin_a_database_one_creates_the_tables(postgres_url, monkeypatch):
    """Between its look at the tables and its first statement another process creates them all."""
    look, looks = schema_version._tables, []

    def look_and_wait(transaction):
        names = look(transaction)
        looks.append(names)
        if len(looks) == 2:  # the first one is that of the check before
            assert names == set()
            open_repository(postgres_url).close()
        return names

    monkeypatch.setattr(schema_version, "_tables", look_and_wait)
    repository = open_repository(postgres_url)
    repository.open(STUDY, DEFINITION)
    assert [study.name for study in repository.studies()] == [STUDY]
    repository.close()


def test_a_connection_that_was_cut_is_made_again(postgres, postgres_url):
    repository = open_repository(postgres_url)
    repository.open(STUDY, DEFINITION)
    with postgres.connect() as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'zenturio'"
        )
    assert repository.study(STUDY).name == STUDY
    repository.close()


def test_who_acquires_a_lease_waits_for_who_does_so_already(postgres, postgres_url):
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with (
        contextlib.closing(open_repository(postgres_url)) as repository,
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(postgres_url) as connection,
    ):
        repository.open(STUDY, DEFINITION)
        connection.execute("SELECT id FROM versions FOR UPDATE")
        lease = pool.submit(repository.acquire_lease, STUDY, DriverProcess.current())
        with postgres.connect() as observer:
            until(lambda: lease.done() or observer.execute(waits).fetchone()[0])
        assert not lease.done()
        connection.rollback()
        assert lease.result().number == 1


def test_an_attempt_that_is_set_aside_during_a_claim_keeps_its_number(postgres_url, monkeypatch):
    """The result becomes an attempt right after the number of the next one was read."""
    with (
        contextlib.closing(open_repository(postgres_url)) as repository,
        contextlib.closing(open_repository(postgres_url)) as other,
    ):
        repository.open(STUDY, DEFINITION)
        driver = repository.acquire_lease(STUDY, DriverProcess.current()).number
        failed = experiment(1)
        assert repository.claim(STUDY, driver, [failed]) == {failed.digest: 1}
        repository.record(STUDY, driver, [outcome(failed, status="failed")])
        real = leases._holders_and_results

        def read_and_reopen(*args):
            rows = real(*args)
            monkeypatch.undo()
            assert other.reopen(STUDY, [failed.digest]) == 1
            return rows

        monkeypatch.setattr(leases, "_holders_and_results", read_and_reopen)
        assert repository.claim(STUDY, driver, [failed]) in ({}, {failed.digest: 2})
        assert repository.claim(STUDY, driver, [failed]) == {failed.digest: 2}


def test_a_server_that_stays_away_is_told_without_the_password(postgres, postgres_url, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.3")
    url = postgres_url.replace("zen@", "zen:s3cr3t@").replace(str(postgres.folder), "/nowhere")
    with pytest.raises(RecordError, match="no connection to") as raised:
        open_repository(url)
    assert raised.value.exit_code == 4
    assert "s3cr3t" not in "".join(_chain(raised.value))
    assert "zen:***@" in str(raised.value)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("zen@/none", 'database "none" does not exist'),
        ("emil:wrong@/postgres", "password authentication failed"),
        ("emil@/postgres", "no password supplied"),
    ],
)
def test_a_login_that_is_refused_is_told_at_once(postgres, monkeypatch, url, why):
    monkeypatch.setattr(database.time, "sleep", lambda _seconds: pytest.fail("it waits"))
    with pytest.raises(RecordError, match=f"refuses the login: .*{why}") as refused:
        open_repository(f"postgresql://{url}?host={postgres.folder}")
    assert "wrong" not in str(refused.value)


def _chain(error):
    while error is not None:
        yield str(error)
        error = error.__cause__


@pytest.mark.parametrize("form", ["zen:s3cr3t@/postgres?", "zen@/postgres?password=s3cr3t&"])
def test_the_password_is_neither_shown_nor_kept(postgres, postgres_url, form, tmp_path):
    url = postgres_url.replace("zen@/postgres?", form)
    drive(url, 3, 3)
    repository = open_repository(url)
    assert "s3cr3t" not in repository.location
    assert "s3cr3t" not in repr(repository.engine.url)
    repository.close()
    postgres._run("pg_dumpall", "-h", postgres.folder, "-U", "zen", "-f", postgres.folder / "dump")
    assert "s3cr3t" not in (postgres.folder / "dump").read_text()


def test_a_short_password_is_hidden_where_it_stands_and_not_in_words():
    kind = dialect_at("postgresql://me:a@host/x")
    assert kind.hide("authentication failed for user me") == "authentication failed for user me"
    hidden = kind.hide("postgresql://me:a@host password=a 'a'")
    assert hidden == "postgresql://me:***@host password=*** '***'"
    long = dialect_at("postgresql://me:p%40ss-word@host/x")
    assert long.hide("x p@ss-word p%40ss-word") == "x *** ***"


@pytest.fixture
def crowded(postgres, postgres_url):
    """A URL of a role that may have one connection, and has it."""
    open_repository(postgres_url).close()
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE lonely LOGIN PASSWORD 'pw' CONNECTION LIMIT 1")
        url = postgres_url.replace("zen@", "lonely:pw@")
        try:
            with psycopg.connect(url):
                yield url
        finally:
            admin.execute("DROP ROLE lonely")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///lab",
        "postgresql://host",
        "postgresql://me@host:5433/lab",
        "postgresql+psycopg://me:p%40s%3As@host/lab",
        "postgresql://me:@host/lab?sslmode=require",
        "postgresql://[::1]:5433/lab",
        "postgresql://me@/lab?host=/run/pg&options=-csearch_path%3Da%20-cx%3D1",
    ],
)
def test_a_url_has_the_parts_that_others_find_in_it(url):
    expected, parsed = make_url(url), ServerURL.parse(url)
    assert parsed.user == (expected.username or "")
    assert parsed.password == expected.password
    assert parsed.host == (expected.host or "")
    assert parsed.port == str(expected.port or "")
    assert parsed.database == (expected.database or "")
    assert dict(parsed.query) == expected.query
    assert ServerURL.parse(parsed.text) == replace(parsed, query=tuple(sorted(parsed.query)))


@pytest.mark.parametrize(
    "values",
    [
        [1, None, 2**40], [2**70, 1], [0.5, 1.0, None], ["a", None], [b"a", None], [None, None],
    ],
)  # fmt: skip
def test_columns_of_new_rows_are_taken_whatever_their_values_are(postgres, values):
    column = {"a": "text", b"a": "bytea", 0.5: "real", 2**70: "numeric"}.get(values[0], "bigint")
    for kind in {column, "text"} if values == [None, None] else {column}:
        with postgres.connect() as connection:
            connection.execute(f"CREATE TEMPORARY TABLE t (x {kind})")
            rows = [(value,) for value in values]
            dialect_at("postgresql:///x").insert_new(connection.cursor(), "t", ["x"], rows)
            assert connection.execute("SELECT x FROM t").fetchall() == rows


def test_a_short_command_on_a_server_loads_no_sqlalchemy(postgres_ready):
    """It would take a third of the time."""
    probe = (
        "import atexit, sys; from zenturio.cli import main\n"
        "atexit.register(lambda: print('sqlalchemy' in sys.modules))\n"
        "sys.argv = ['zen', 'list', '--db', sys.argv[1]]; main()"
    )
    words = [sys.executable, "-c", probe, postgres_ready]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False", done


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("postgresql:///lab", "local lab r scram-sha-256"),
        ("postgresql:///lab?host=/run/pg", "local lab r scram-sha-256"),
        ("postgresql://db.example.org/lab", "host lab r samenet scram-sha-256"),
    ],
)
def test_the_rule_that_lets_a_login_in_is_of_the_kind_of_connection(url, rule):
    assert dialect_at(url).as_user("r", "secret").login_rule() == rule


def test_too_many_connections_are_told_as_that(crowded, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.2")
    with pytest.raises(RecordError, match=r"accepts no more connections: .*too many") as raised:
        open_repository(crowded)
    assert "pg_stat_activity" in str(raised.value.diagnostics[0].hint)


def test_a_writer_that_does_not_end_is_told(postgres_url, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.2")
    repository = open_repository(postgres_url)
    repository.open("before", DEFINITION)
    try:
        with psycopg.connect(postgres_url) as other, other.transaction():
            other.execute("LOCK TABLE studies")
            with pytest.raises(RecordError, match=r"has been locked for 0\.2 seconds"):
                repository.open(STUDY, DEFINITION)
        repository.open(STUDY, DEFINITION)
    finally:
        repository.close()


def test_threads_share_a_repository(postgres_url):
    repository = open_repository(postgres_url)
    repository.open(STUDY, DEFINITION)
    lease = repository.acquire_lease(STUDY, DriverProcess.current()).number

    def enter(first):
        pairs = [(e, outcome(e, time=1)) for e in map(experiment, range(first, first + 50))]
        repository.add_results(STUDY, lease, pairs)

    threads = [threading.Thread(target=enter, args=(first,)) for first in range(0, 200, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert repository.count_states(STUDY)["ok"] == 200
    repository.close()
