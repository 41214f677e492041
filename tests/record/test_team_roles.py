"""A team on one database of PostgreSQL: who may do what, and that nobody holds up others."""

import re
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import loaded
from record.worker import DEFINITION, STUDY, result
from zenturio.errors import InputError, RecordError, SafetyError
from zenturio.record import DriverProcess, Field, StudyDefinition, database_roles, maintenance
from zenturio.record.database_roles import Team
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment

PAGE = Path(__file__).parents[2] / "docs" / "share.md"
ROW = re.compile(
    r"^\| `(?P<statement>[^|]+)` \| (?P<answers>(?:yes|no)(?: \| (?:yes|no)){2}) \|$", re.MULTILINE
)
ROLES = ("carol", "alice", "dora")
"""A reader, a writer and an administrator, in the order of the page."""


class LabServer:
    """A database with a study, its logins, and who may do what there."""

    def __init__(self, server):
        self.server = server
        self.schema = "team"

    def url(self, user="zen"):
        login = "zen" if user == "zen" else f"{user}:pw"
        return f"postgresql://{login}@/lab?host={self.server.folder}&options=-csearch_path%3Dteam"

    def connect(self, user="zen"):
        return psycopg.connect(
            f"host={self.server.folder} dbname=lab user={user} password=pw"
            " options='-csearch_path=team'",
            autocommit=True,
        )

    @contextmanager
    def repository(self, user="zen"):
        repository = open_repository(self.url(user))
        try:
            yield repository
        finally:
            repository.close()


def run_study(repository, count=3, study=STUDY, definition=DEFINITION, salt="", **metrics):
    """Record *count* results of a study, as a driver does."""
    repository.open(study, definition)
    lease = repository.acquire_lease(study, DriverProcess.current(), join=True)
    experiments = {e.digest: e for e in (experiment(i, salt=salt or study) for i in range(count))}
    claims = repository.claim(study, lease.number, list(experiments.values()))
    outcomes = [result(experiments[digest], number) for digest, number in claims.items()]
    outcomes = [replace(o, metrics={**o.metrics, **metrics}) for o in outcomes]
    accepted = repository.record(study, lease.number, outcomes)
    repository.release_lease(lease)
    return len(accepted)


def drop_all(server, logins):
    with server.connect() as admin:
        admin.execute("DROP DATABASE IF EXISTS lab WITH (FORCE)")
        for role in (*logins, "lab_owner_views", "lab_owner"):
            admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))


@pytest.fixture
def lab(postgres):
    """Each with a role of their own: alice and bob write, carol reads, dora administers."""
    logins = ("alice", "bob", "carol", "dora")
    drop_all(postgres, logins)
    with postgres.connect() as admin:
        admin.execute("CREATE DATABASE lab")
        for role in logins:
            admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pw'")
    lab = LabServer(postgres)
    with lab.connect() as connection:
        connection.execute("CREATE SCHEMA team")
    team = Team("lab_owner", ("dora",), ("alice", "bob"), ("carol",))
    assert maintenance.grant_team(lab.url(), team).why == ""
    yield lab
    drop_all(postgres, logins)


def rows_of_the_page():
    rows = [(m["statement"], m["answers"].split(" | ")) for m in ROW.finditer(PAGE.read_text())]
    assert len(rows) > 10
    return rows


def is_allowed(connection, statement):
    connection.execute("BEGIN")
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    finally:
        connection.execute("ROLLBACK")
    return True


def test_each_role_may_do_what_the_page_says_and_nothing_else(lab, subtests):
    with lab.repository("alice") as repository:
        run_study(repository)
    with ExitStack() as stack:
        sessions = [stack.enter_context(lab.connect(role)) for role in ROLES]
        for statement, answers in rows_of_the_page():
            for role, session, answer in zip(ROLES, sessions, answers, strict=True):
                with subtests.test(statement, role=role):
                    assert is_allowed(session, statement) == (answer == "yes")


def test_writers_run_one_study_and_its_view_gets_the_columns_of_both(lab):
    with lab.repository("alice") as alice, lab.repository("bob") as bob:
        assert run_study(alice, 3) == 3
        assert run_study(bob, 5, later=2.5) == 2
        assert bob.refresh_views(STUDY)
    with lab.connect("carol") as carol:
        rows = carol.execute("SELECT later FROM team_studies.study_oracle ORDER BY n").fetchall()
        assert rows == [(None,)] * 3 + [(2.5,)] * 2


def test_tables_and_studies_that_come_later_need_no_grant(lab):
    with lab.repository("bob") as bob:
        run_study(bob, 2, "later")
    with lab.connect("carol") as carol:
        assert carol.execute("SELECT count(*) FROM team_studies.study_later").fetchone() == (2,)


def test_a_reader_who_leaves_a_transaction_open_delays_nobody(lab, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.2")  # a lock that is waited for is an error
    with lab.repository("alice") as alice:
        run_study(alice)
        with lab.connect("carol") as carol:
            carol.execute("BEGIN")
            for table in ("results", "studies", "claims", "leases", "submissions"):
                carol.execute(f"SELECT count(*) FROM {table}")
            carol.execute("SELECT count(*) FROM team_studies.study_oracle")
            carol.execute("SELECT pg_advisory_lock(8021358)")  # "zen"
            assert run_study(alice, 9, extra=1) == 6
            with lab.repository("bob") as bob:
                assert run_study(bob, 4, "another") == 4
                assert bob.delete("another").experiments == 4
            again = Team("lab_owner", writers=("bob",))
            assert maintenance.grant_team(lab.url(), again).why == ""


def test_a_colleagues_view_survives_what_becomes_of_the_study(lab):
    with lab.repository("alice") as alice, lab.connect("bob") as bob, lab.connect() as admin:
        run_study(alice)
        admin.execute("CREATE SCHEMA bobs AUTHORIZATION bob")
        bob.execute("CREATE VIEW bobs.mine AS SELECT n, time FROM team_studies.study_oracle")
        bob.execute("GRANT USAGE ON SCHEMA bobs TO carol; GRANT SELECT ON bobs.mine TO carol")
        run_study(alice, 5, extra=1)
        with lab.connect("carol") as carol:
            assert carol.execute("SELECT count(*) FROM bobs.mine").fetchone() == (5,)
            alice.delete(STUDY)
            assert carol.execute("SELECT count(*) FROM bobs.mine").fetchone() == (0,)
            run_study(alice, 2)
            assert carol.execute("SELECT count(*) FROM bobs.mine").fetchone() == (2,)


def test_private_programs_and_the_queue_are_empty_for_readers_alone(lab):
    counts = "SELECT (SELECT count(*) FROM sources), (SELECT count(*) FROM submissions)"
    sources = StudyDefinition((Field("n", "int"),), sources={"a.sh": b"#!/bin/sh\n"})
    with lab.repository("alice") as alice:
        run_study(alice, definition=sources)
        alice.submit("t", "alice", STUDY, {})
        with lab.connect("carol") as carol, lab.connect("bob") as bob:
            assert carol.execute(counts).fetchone() == (1, 1)
            maintenance.grant_team(lab.url(), Team("lab_owner", is_private=True))
            assert carol.execute(counts).fetchone() == (0, 0)
            assert bob.execute(counts).fetchone() == (1, 1)
            wider = StudyDefinition((Field("n", "int"),), sources={"a.sh": b"#!/bin/dash\n"})
            run_study(alice, 4, definition=wider)
    with lab.repository("carol") as reader:
        assert reader.definition(STUDY).sources == {}
        assert len(list(reader.records(STUDY))) == 4
    maintenance.grant_team(lab.url(), Team("lab_owner", is_private=False))
    with lab.connect("carol") as carol:
        assert carol.execute(counts).fetchone() == (2, 1)


def test_a_submission_is_of_who_logged_in_and_others_cannot_cancel_it(lab):
    with lab.repository("alice") as alice, lab.repository("bob") as bob:
        with pytest.raises(RecordError, match="row-level security"):
            bob.submit("t", "alice", "s", {})
        number = alice.submit("u", "alice", "s", {}).number
        with pytest.raises(SafetyError, match="is of alice") as refused:
            bob.update_submission(number, "cancelled", "by bob")
        assert refused.value.exit_code == 6
        assert alice.submissions()[0].turn == "waiting"
        with lab.repository("dora") as admin:
            assert admin.update_submission(number, "running").turn == "running"
        assert alice.update_submission(number, "cancelled", "by alice").turn == "cancelled"


def test_the_statements_can_be_read_first_and_are_those_that_are_executed(lab, tmp_path):
    words = ("db", "grant", "--owner", "lab_owner", "--reader", "bob", "--print")
    shown = loaded.zen(*words, "--db", lab.url(), cwd=tmp_path)
    assert shown.returncode == 0, shown
    assert 'GRANT SELECT ON ALL TABLES IN SCHEMA "team_studies" TO "bob";' in shown.stdout
    with lab.connect() as admin:
        admin.execute(f"BEGIN; {shown.stdout} COMMIT")


def test_somebody_is_added_by_name_alone_and_what_is_private_stays_so(lab, tmp_path):
    def grant(*words):
        done = loaded.zen("db", "grant", *words, "--db", lab.url(), cwd=tmp_path)
        assert done.returncode == 0, done
        with lab.connect("carol") as carol:
            return done.stdout, carol.execute("SELECT count(*) > 0 FROM sources").fetchone()[0]

    with lab.repository("alice") as alice:
        run_study(alice, 1, definition=replace(DEFINITION, sources={"a.sh": b"#!/bin/sh"}))
    assert grant("--reader", "carol")[1]
    assert not grant("--private")[1]
    words, sees_programs = grant("--writer", "bob")
    assert words == "lab_owner owns the database; bob can write\n"
    assert not sees_programs
    assert grant("--no-private")[1]


def test_what_goes_with_no_team_is_refused(lab, tmp_path):
    words = ("--owner", "lab_owner", "--role", "bob")
    done = loaded.zen("db", "grant", *words, "--db", lab.url(), cwd=tmp_path)
    assert done.returncode == 2, done
    with lab.connect() as admin:
        admin.execute("CREATE SCHEMA single")
    with pytest.raises(InputError, match="a team needs a role that owns the database"):
        maintenance.grant_team(lab.url().replace("%3Dteam", "%3Dsingle"), Team(writers=("bob",)))
    with pytest.raises(InputError, match="there is no role 'emil'"):
        maintenance.grant_team(lab.url(), Team("lab_owner", writers=("emil",)))
    with pytest.raises(InputError, match="cannot be a reader"):
        maintenance.grant_team(lab.url(), Team("lab_owner", (), ("bob",), ("bob",)))


def test_without_a_grant_the_message_names_what_to_do(lab):
    with lab.server.connect() as admin:
        admin.execute("CREATE ROLE emil LOGIN PASSWORD 'pw'")
    try:
        with pytest.raises(RecordError) as refused, lab.repository("emil"):
            pass
        assert "zen db grant --owner" in str(refused.value)
    finally:
        with lab.server.connect() as admin:
            admin.execute("DROP ROLE emil")


def test_what_takes_an_administrator_is_refused_before_anything_is_done(lab, tmp_path):
    """A writer cannot draw the numbers of a whole copy, and a reader does not see all of one."""
    source = str(tmp_path / "one.db")
    repository = open_repository(source)
    run_study(repository)
    repository.close()
    with pytest.raises(RecordError, match="may not fill") as refused:
        maintenance.copy_repository(source, lab.url("alice"), lambda _table, _rows: None)
    assert "--admin" in str(refused.value)
    with lab.connect() as connection:
        assert connection.execute("SELECT count(*) FROM studies").fetchone() == (0,)
    maintenance.copy_repository(source, lab.url("dora"), lambda _table, _rows: None)
    with pytest.raises(RecordError, match="pg_dump") as refused:
        maintenance.backup(lab.url("alice"), tmp_path / "lab.dump")
    assert "--admin" in str(refused.value)
    maintenance.backup(lab.url("dora"), tmp_path / "lab.dump")
    maintenance.copy_repository(lab.url("carol"), tmp_path / "two.db", lambda _table, _rows: None)
    maintenance.grant_team(lab.url(), Team("lab_owner", is_private=True))
    with pytest.raises(RecordError, match="may not see all"):
        maintenance.copy_repository(lab.url("carol"), tmp_path / "3.db", lambda *_: None)


def test_a_session_that_holds_the_tables_is_not_waited_for_by_a_grant(
    postgres, postgres_url, monkeypatch
):
    monkeypatch.setattr(database_roles, "LOCK_TIMEOUT", "50ms")
    repository = open_repository(postgres_url)
    schema = postgres_url.rpartition("%3D")[2]
    with postgres.connect() as reader:
        reader.execute(f"BEGIN; SELECT count(*) FROM {schema}.results")
        done = maintenance.grant_team(postgres_url, Team(f"{schema}_owner"))
        assert "somebody reads the tables" in done.why
        reader.execute("ROLLBACK")
    repository.close()
