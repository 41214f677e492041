"""Studies of the version before, whose digests had another format: nothing of them is run again."""

import contextlib
import json
from pathlib import Path

import pytest

from postgres import postgres, postgres_url
from record.old import decode_cell
from tests.cli.conftest import zen
from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.identity import ask_versions
from zenturio.record import maintenance, schema
from zenturio.record.database import Database
from zenturio.record.open import dialect_at, open_repository

__all__ = ["postgres", "postgres_url"]

RECORDED = Path(__file__).parents[1] / "record" / "of_0004.json"
"""Files, tables and artifacts of five studies, written by a program with the revision 0004."""
STUDIES = {"plain": 12, "linked": 2, "solve": 4, "mesh": 2, "built": 2}
RUNS = {"plain": "plain", "linked": "linked", "solve.sh": "solve", "built.c": "built"}


def sql(url, statement, *given):
    database = Database(dialect_at(url), 5)
    try:
        return database.write(lambda transaction: transaction.sql(statement, given))
    finally:
        database.close()


ADDED_SINCE = [
    (table, name)
    for revision in ("0006", "0007", "0008")
    for table, names in schema.ADDED_COLUMNS[revision]
    for name in names
]


def write_files(project, recorded):
    """The programs as they were when they ran."""
    for name, text in recorded["files"].items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(recorded["modes"].get(name, 0o644))
    for name, text in recorded["links"].items():
        (project / name).symlink_to(text)
    (project / ".zenturio").mkdir()


def to_0004(url):
    """Takes from an empty repository what the revision 0004 did not have."""
    open_repository(url).close()
    sql(url, "ALTER TABLE results DROP COLUMN key")
    for table, name in ADDED_SINCE:
        sql(url, f"ALTER TABLE {table} DROP COLUMN {name}")
    sql(url, "UPDATE alembic_version SET version_num = '0004'")


@pytest.fixture
def project(tmp_path):
    """A project with a repository of the version before, as it was recorded."""
    recorded = json.loads(RECORDED.read_text())
    write_files(tmp_path, recorded)
    for name, content in recorded["objects"].items():
        path = tmp_path / ".zenturio" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes.fromhex(content))
    url = str(tmp_path / ".zenturio" / "zenturio.db")
    to_0004(url)
    database = Database(dialect_at(url), 5)

    def fill(transaction):
        for name, table in recorded["tables"].items():
            rows = [[decode_cell(cell) for cell in row] for row in table["rows"]]
            transaction.sql(f"DELETE FROM {name}")
            transaction.insert(name, [f'"{column}"' for column in table["columns"]], rows)
        transaction.sql("DELETE FROM sqlite_sequence WHERE name = 'claims'")
        transaction.sql("INSERT INTO sqlite_sequence SELECT 'claims', max(id) FROM results")

    database.write(fill)
    database.close()
    return tmp_path


@pytest.fixture
def server_project(tmp_path, postgres_url, monkeypatch):
    """The same studies on a server: run now, and given the digests that they had."""
    recorded = json.loads(RECORDED.read_text())
    write_files(tmp_path, recorded)
    monkeypatch.setenv("ZENTURIO_DB", postgres_url)
    for path in ("plain", "built.c"):
        zen("run", path, cwd=tmp_path)
        application = ask_versions(scan(tmp_path / path))
        generator = ExperimentGenerator(application, former_digests=True)
        for number in range(application.space.size):
            for each in generator.experiments(application.space.point(number)):
                digests = bytes.fromhex(each.former), bytes.fromhex(each.digest)
                sql(postgres_url, "UPDATE results SET digest = %s WHERE digest = %s", *digests)
    sql(postgres_url, "DELETE FROM recipes")
    sql(postgres_url, "ALTER TABLE results DROP COLUMN key")
    for table, name in ADDED_SINCE:
        sql(postgres_url, f"ALTER TABLE {table} DROP COLUMN {name} CASCADE")
    sql(postgres_url, "UPDATE results SET recipe = NULL")
    sql(postgres_url, "UPDATE alembic_version SET version_num = '0004'")
    return tmp_path


def studies(project):
    return {each["study"]: each for each in zen("list", "--json", cwd=project).facts}


def test_an_earlier_repository_is_refused_until_it_is_upgraded(project):
    told = zen("run", "plain", cwd=project, code=None)
    assert told.code != 0
    assert "has the schema 0004" in told.err
    assert "zen db upgrade" in told.err


def runs_nothing(project, path):
    """A run, and a dry run before it, take all experiments from the repository."""
    plan, found = (
        zen("run", path, "--machine", "any", *options, "--json", cwd=project).facts
        for options in (["--dry-run"], [])
    )
    for each in plan if isinstance(plan, list) else [plan]:
        # What a stage waits for is known when it has run: see the run itself.
        assert each["archived"] is None
        assert each["known"] == each["experiments"] or each["study"] == "solve"
    for each in found if isinstance(found, list) else [found]:
        assert (each["known"], each["ok"], each["unfinished"]) == (STUDIES[each["study"]], 0, 0)


def test_nothing_is_run_again_and_no_study_is_archived(project):
    done = zen("db", "upgrade", "--json", cwd=project).facts
    assert (done["before"], done["after"]) == ("0004", "0008")
    assert Path(done["copy"]).name == "zenturio.db.0004"
    for path in RUNS:
        runs_nothing(project, path)
    assert {name: each["ok"] for name, each in studies(project).items()} == STUDIES
    assert zen("db", "check", "--json", cwd=project).facts["ok"]
    for path in RUNS:  # by their present digests
        runs_nothing(project, path)


def test_an_experiment_is_found_by_the_digest_that_it_had(project):
    zen("db", "upgrade", cwd=project)
    url = str(project / ".zenturio" / "zenturio.db")
    ((former,),) = sql(url, "SELECT lower(hex(digest)) FROM results ORDER BY id LIMIT 1")
    before = zen("show", former, "--json", cwd=project).facts
    runs_nothing(project, "plain")
    after = zen("show", former[:10], "--json", cwd=project).facts
    assert after["digest"] != before["digest"] == former
    assert after["metrics"] == before["metrics"]
    assert after["attempts"] == before["attempts"]
    assert zen("logs", former, cwd=project).out == zen("logs", after["digest"], cwd=project).out


@pytest.mark.slow
def test_nothing_is_run_again_on_a_server(server_project, postgres_url):
    zen("db", "upgrade", cwd=server_project)
    assert maintenance.check_repository(postgres_url) == ()
    for path in ("plain", "built.c"):
        runs_nothing(server_project, path)
    assert studies(server_project).keys() == {"plain", "built"}
    assert maintenance.check_repository(postgres_url) == ()
    ((named, keys),) = sql(postgres_url, "SELECT count(recipe), count(DISTINCT key) FROM results")
    assert (named, keys) == (14, 14)
    assert sql(postgres_url, "SELECT count(*) FROM aliases") == [(14,)]


def test_what_failed_keeps_its_attempts(project):
    url = str(project / ".zenturio" / "zenturio.db")
    zen("db", "upgrade", cwd=project)
    sql(url, "UPDATE results SET status = 'failed', cause = 'exit 1', exit = 1 WHERE digest IN"
        " (SELECT digest FROM results ORDER BY id LIMIT 1)")  # fmt: skip
    sql(url, "DELETE FROM counters")
    sql(url, "INSERT INTO counters SELECT version, machine, round, status, count(*) FROM results"
        " GROUP BY 1, 2, 3, 4")  # fmt: skip
    only = ("--only", "failed", "--machine", "any")
    found = zen("run", "plain", *only, "--json", cwd=project).facts
    assert found["ok"] == 1
    assert maintenance.check_repository(url) == ()
    assert sql(url, "SELECT max(attempt), count(*) FROM results") == [(2, 22)]


def test_a_new_repository_asks_for_no_former_digests(tmp_path):
    with contextlib.closing(open_repository(tmp_path / "a.db")) as repository:
        assert not repository.has_former_digests()
