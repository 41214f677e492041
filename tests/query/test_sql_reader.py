"""SQL that somebody writes runs on PostgreSQL in a login that can only read, or not at all."""

import psycopg
import pytest
from sqlalchemy.engine import make_url

import loaded
from tests.query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio import trust
from zenturio.errors import InputError, PlaceError, SafetyError
from zenturio.query.raw_query import raw
from zenturio.record import database_roles, maintenance
from zenturio.record.open import open_repository

COUNT = "SELECT count(*) FROM results"


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """A user who has no role for SQL yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ZENTURIO_SQL_URL", raising=False)
    return tmp_path / "config" / "zenturio" / "sql-readers"


@pytest.fixture
def study(postgres_url):
    repository = open_repository(postgres_url)
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    repository.refresh_views("matmul")
    yield repository
    repository.close()


def schema_of(url):
    return url.rpartition("%3D")[2]


@pytest.fixture
def alice(postgres, postgres_url, study):
    """The URL of a login that can make roles, and reads nothing yet; removed afterwards."""
    name = f"alice_{schema_of(postgres_url)}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    return postgres_url.replace("zen@", f"{name}:secret@"), name


def as_reader(study):
    """A plain session in the login that SQL has, which commits each statement."""
    connection = study.connect_reader()
    assert connection.autocommit
    return connection


def test_without_a_role_sql_is_refused_and_the_message_says_how_to_make_one(study):
    with pytest.raises(SafetyError, match="'zen' can write") as caught:
        raw(study, COUNT)
    assert caught.value.exit_code == 6
    assert "zen db grant" in str(caught.value)


def test_with_a_role_sql_reads_and_the_role_is_no_owner(study, postgres_url):
    done = maintenance.grant(postgres_url)
    assert done.done
    assert raw(study, "SELECT session_user::text, current_user::text").rows == (
        (done.role, done.role),
    )
    assert raw(study, COUNT).rows == ((35 + 1,),)


def test_tables_and_views_made_afterwards_can_be_read_too(postgres_url):
    repository = open_repository(postgres_url)
    maintenance.grant(postgres_url)
    fill(repository, "later", PARAMETERS, METRICS, matmul())
    assert repository.refresh_views("later")
    schema = f"{schema_of(postgres_url)}_studies"
    assert raw(repository, f'SELECT count(*) FROM {schema}."study_later"').rows == ((35,),)
    repository.close()


def test_the_password_is_the_users_alone_and_in_no_statement(study, postgres_url, config):
    done = maintenance.grant(postgres_url)
    (path,) = config.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert config.stat().st_mode & 0o777 == 0o700
    password = database_roles._stored_password(path)
    assert len(password) > 30
    assert password not in "".join(done.statements)
    path.chmod(0o640)
    with pytest.raises(SafetyError, match="others can read"):
        raw(study, COUNT)


def test_granting_again_keeps_what_others_have_open(study, postgres_url, config):
    first = maintenance.grant(postgres_url)
    password = next(config.iterdir()).read_text()
    with study.connect_reader() as connection:
        assert maintenance.grant(postgres_url).role == first.role
        connection.cursor().execute(COUNT)
    assert next(config.iterdir()).read_text() == password
    # Another folder of settings, as on another machine: the password is set anew.
    next(config.iterdir()).unlink()
    maintenance.grant(postgres_url)
    assert raw(study, COUNT).rows == ((36,),)


def test_a_role_that_somebody_let_write_is_not_called_a_reader(study, postgres, postgres_url):
    role = maintenance.grant(postgres_url).role
    with postgres.connect() as connection:
        table = f"{schema_of(postgres_url)}.results"
        connection.execute(f'GRANT INSERT ON {table} TO "{role}"')
        with pytest.raises(SafetyError, match="can write to the table results"):
            maintenance.grant(postgres_url)
        connection.execute(f'REVOKE INSERT ON {table} FROM "{role}"')
    assert maintenance.grant(postgres_url).done


WRITES = [
    "DELETE FROM results",
    "UPDATE studies SET name = 'x'",
    "TRUNCATE results",
    "DROP TABLE results",
    "CREATE TABLE evil (x int)",
    "CREATE SCHEMA evil",
    "CREATE FUNCTION evil() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE results ADD COLUMN x int",
    "SET ROLE zen",
    "SET SESSION AUTHORIZATION zen",
    "COPY results TO PROGRAM 'touch /tmp/evil'",
    "COPY results TO '/tmp/evil'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/evil')",
    "SELECT pg_reload_conf()",
    "SELECT rolpassword FROM pg_authid",
    "SELECT nextval('claims_id_seq')",
    "CREATE EXTENSION dblink",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "ALTER SYSTEM SET work_mem = '1GB'",
]


def test_the_role_itself_can_write_nothing_whatever_it_sets_before(study, postgres_url, subtests):
    maintenance.grant(postgres_url)
    connection = as_reader(study)
    for text in WRITES:
        connection.execute("SET default_transaction_read_only = off; SET statement_timeout = 0")
        connection.execute("RESET ROLE; RESET SESSION AUTHORIZATION")
        with subtests.test(text), pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(text)
    connection.close()
    assert raw_count(study) == 36


def raw_count(study):
    return study._database.read(lambda t: t.sql(COUNT))[0][0]


def test_its_transactions_read_only_and_end_unless_it_says_otherwise(study, postgres_url):
    maintenance.grant(postgres_url)
    connection = as_reader(study)
    shown = [
        connection.execute(f"SHOW {name}").fetchone()[0]
        for name in ("default_transaction_read_only", "statement_timeout")
    ]
    assert shown == ["on", "1min"]
    connection.close()


SEVERAL = [
    "RESET ROLE; DELETE FROM results",
    "SELECT 1; RESET ROLE; DELETE FROM results",
    "SET SESSION AUTHORIZATION zen; DELETE FROM results",
    "SET default_transaction_read_only = off; DELETE FROM results",
    "SELECT 1; COMMIT; DELETE FROM results",
    "COPY results TO PROGRAM 'touch /tmp/evil'",
    "SELECT dblink('dbname=postgres', 'DELETE FROM results')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT writes()",
]


def test_nothing_of_this_passes_the_door_of_sql(study, postgres, postgres_url, subtests):
    schema = schema_of(postgres_url)
    with postgres.connect() as connection:
        # The worst that a database may hold: anybody may call it, and it has its owner's rights.
        connection.execute(
            f"CREATE FUNCTION {schema}.writes() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS"
            f" $$ BEGIN DELETE FROM {schema}.results; RETURN 1; END $$"
        )
    maintenance.grant(postgres_url)
    for text in SEVERAL:
        with subtests.test(text), pytest.raises((SafetyError, InputError)):
            raw(study, text)
    assert raw_count(study) == 36


def test_a_login_that_can_do_more_than_read_is_refused(
    study, postgres, postgres_url, monkeypatch, alice
):
    url, name = alice
    monkeypatch.setenv("ZENTURIO_SQL_URL", postgres_url)
    with pytest.raises(SafetyError, match="this one is a superuser"):
        raw(study, COUNT)
    monkeypatch.setenv("ZENTURIO_SQL_URL", url)
    schema = schema_of(postgres_url)
    maintenance.grant(postgres_url, name)
    assert raw(study, COUNT).rows == ((36,),)
    for power, taken, reason in (
        (f"GRANT DELETE ON {schema}.results TO", f"REVOKE DELETE ON {schema}.results FROM", "write"),
        (f"GRANT UPDATE (status) ON {schema}.results TO",
         f"REVOKE UPDATE (status) ON {schema}.results FROM", "write"),
        ("GRANT pg_write_all_data TO", "REVOKE pg_write_all_data FROM", "become|write"),
        ("GRANT pg_execute_server_program TO", "REVOKE pg_execute_server_program FROM", "become"),
    ):  # fmt: skip
        with postgres.connect() as connection:
            connection.execute(f"{power} {name}")
            with pytest.raises(SafetyError, match=reason):
                raw(study, COUNT)
            connection.execute(f"{taken} {name}")
    assert raw(study, COUNT).rows == ((36,),)


def test_who_opened_the_database_and_can_only_read_needs_no_other_login(study, postgres_url, alice):
    url, name = alice
    assert maintenance.grant(postgres_url, name).done
    repository = open_repository(url)
    assert raw(repository, "SELECT session_user::text").rows == ((name,),)
    repository.close()


def test_a_grant_by_somebody_who_does_not_own_the_tables_is_not_called_done(
    study, postgres, postgres_url, alice
):
    url, name = alice
    assert maintenance.grant(postgres_url, name).done
    other = f"other_{schema_of(postgres_url)}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {other}")
    done = maintenance.grant(url, other)
    assert not done.done
    assert any(words in done.why for words in ("may not read", "denied", "must be member"))


def test_a_role_that_is_not_there_cannot_be_given_anything(study, postgres_url):
    with pytest.raises(InputError, match="there is no role 'nobody'"):
        maintenance.grant(postgres_url, "nobody")


@pytest.mark.slow
def test_who_may_not_make_roles_gets_statements_that_work_for_the_administrator(
    postgres, postgres_url, alice, tmp_path
):
    url, name = alice
    schema = f"{name}_own"
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {name}")
    own = url.replace(f"%3D{schema_of(postgres_url)}", f"%3D{schema}")
    repository = open_repository(own)
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    done = loaded.zen("db", "grant", "--db", own, cwd=tmp_path)
    assert done.returncode == 4, done
    assert "administrator" in done.stderr
    with postgres.connect() as connection:
        connection.execute(done.stdout)
    assert raw(repository, COUNT).rows == ((36,),)
    repository.close()


def test_statements_can_be_asked_for_without_being_executed(study, postgres_url, alice, tmp_path):
    _, name = alice
    done = loaded.zen("db", "grant", "--sql", "--role", name, "--db", postgres_url, cwd=tmp_path)
    assert done.returncode == 0, done
    assert f'GRANT USAGE ON SCHEMA "{schema_of(postgres_url)}" TO "{name}";' in done.stdout
    with pytest.raises(SafetyError):
        raw(study, COUNT)


def test_a_password_that_is_wrong_by_now_is_said_without_it(study, postgres, postgres_url, config):
    done = maintenance.grant(postgres_url)
    with postgres.connect() as connection:
        connection.execute(f"ALTER ROLE {done.role} PASSWORD 'another'")
    with pytest.raises(PlaceError, match="login for SQL does not work") as caught:
        raw(study, COUNT)
    assert "zen db grant" in str(caught.value)
    assert database_roles._stored_password(next(config.iterdir())) not in str(caught.value)


def test_a_file_needs_no_role(tmp_path):
    open_repository(tmp_path / "zenturio.db").close()
    with pytest.raises(InputError, match="is a file"):
        maintenance.grant(tmp_path / "zenturio.db")


def test_an_address_for_sql_that_is_none_is_named(study, monkeypatch):
    monkeypatch.setenv("ZENTURIO_SQL_URL", "sqlite:///x")
    with pytest.raises(InputError, match="ZENTURIO_SQL_URL"):
        raw(study, COUNT)


def test_names_of_readers_differ_by_database_schema_and_user():
    identities = [
        database_roles.DatabaseLogin(*parts, 7)
        for parts in [("a", "s", "u"), ("b", "s", "u"), ("a", "t", "u"), ("a", "s", "v")]
    ]
    assert len({identity.role for identity in identities}) == 4
    long = database_roles.DatabaseLogin("a", "Größe " * 20, "u", 7)
    assert len(long.role.encode()) <= 63
    assert long.password_file.is_relative_to(trust.config_folder())
    assert make_url("postgresql://x/y").get_backend_name() == "postgresql"
