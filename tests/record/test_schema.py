"""The schema, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from record.old import make_old, stamp
from zenturio.errors import RecordError
from zenturio.record import maintenance, schema
from zenturio.record.database import Database
from zenturio.record.open import dialect_at, open_repository
from zenturio.record.sql_names import REVISIONS, TABLES

SCRIPTS = Path(__file__).parents[2] / "db"


@pytest.fixture
def other_url(request, url, tmp_path) -> str:
    """A second empty place of the same kind."""
    if "://" in url:
        return request.getfixturevalue("postgres").new_url()
    return str(tmp_path / "other.db")


def test_an_upgrade_leads_to_the_schema_of_a_new_repository(url, other_url):
    make_old(url, "0003", empty=False)
    maintenance.upgrade_repository(url)
    open_repository(other_url).close()
    assert _described(url) == _described(other_url)
    assert len(_described(url)) == len(TABLES) + 1


def test_the_names_of_tables_are_those_of_the_schema():
    assert frozenset(schema.metadata.tables) == TABLES


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_the_scripts_for_administrators_are_the_schema(name):
    """ZEN_UPDATE_GOLDENS=1 writes them anew."""
    path = SCRIPTS / f"schema-{REVISIONS[-1]}-{name}.sql"
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        path.write_text(schema.schema_script(name))
    assert path.read_text() == schema.schema_script(name)


def _described(url):
    """Every table with its columns, keys and indexes."""
    from sqlalchemy import inspect

    engine = Database(dialect_at(url), 5).engine
    seen = inspect(engine)
    described = {
        table: (
            [(c["name"], str(c["type"]), c["nullable"], c.get("primary_key")) for c in
             seen.get_columns(table)],
            seen.get_pk_constraint(table)["constrained_columns"],
            sorted(_plain(index) for index in seen.get_indexes(table)),
            sorted(map(_plain, seen.get_unique_constraints(table))),
            "AUTOINCREMENT" in _sql(engine, table),
        )
        for table in seen.get_table_names()
    }  # fmt: skip
    engine.dispose()
    return described


def _plain(facts):
    """Without objects: the condition of an index is compared as it reads."""
    options = {name: str(value) for name, value in facts.get("dialect_options", {}).items()}
    return repr(facts | {"dialect_options": options})


def _sql(engine, table):
    if engine.dialect.name != "sqlite":
        return ""
    with engine.connect() as connection:
        asked = "SELECT sql FROM sqlite_master WHERE name = ?"
        return connection.exec_driver_sql(asked, (table,)).scalar()


def test_an_old_repository_is_not_opened_before_it_is_upgraded(url):
    make_old(url)
    with pytest.raises(RecordError, match="has the schema 0001, and this program needs") as raised:
        open_repository(url)
    assert "zen db upgrade" in str(raised.value)
    assert raised.value.exit_code == 4


def test_a_repository_of_a_newer_program_is_left_alone(url, tmp_path):
    open_repository(url).close()
    stamp(url, "9999")
    before = _content(url)
    with pytest.raises(
        RecordError, match="has the schema 9999, and this program supports schemas up to"
    ):
        open_repository(url)
    assert _content(url) == before


def _content(url):
    return Path(url).read_bytes() if "://" not in url else None


def test_the_database_of_another_program_is_left_alone(url):
    kind = dialect_at(url)
    database = Database(kind, 5)
    database.write(lambda transaction: transaction.sql("CREATE TABLE bread (butter TEXT)"))
    database.close()
    before = _content(url)
    with pytest.raises(RecordError, match="is a database, but not one of zenturio's"):
        open_repository(url)
    assert _content(url) == before


def _modules_after(code, *arguments):
    """Return the names of the modules that a new interpreter has loaded after *code*."""
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def test_opening_a_current_repository_does_not_load_what_upgrades_one(tmp_path):
    loaded = _modules_after(
        "from zenturio.record.open import open_repository as o;"
        "o(sys.argv[1]).close(); o(sys.argv[1]).close()",
        str(tmp_path / "a.db"),
    )
    assert "sqlalchemy" in loaded
    assert "zenturio.record.migration" not in loaded


def test_the_values_of_the_room_do_not_import_sqlalchemy():
    loaded = _modules_after("import zenturio.record")
    assert "zenturio.record" in loaded
    assert "sqlalchemy" not in loaded
