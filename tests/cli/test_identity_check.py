"""Digests computed again from what a repository recorded, whatever became of the program since."""

import shutil

import pytest

from postgres import postgres, postgres_url
from tests.cli.conftest import zen
from zenturio.record.database import Database
from zenturio.record.open import dialect_at

__all__ = ["postgres", "postgres_url"]

PROGRAM = """\
# ZEN$ RUN "sh run.sh {s}"
# ZEN$ SUBSTITUTE N = { 1, 2, 1e1 }
# ZEN$ PARAM half := N / 2
# ZEN$ REPEAT 2 SEED s
# ZEN$ ENV MODE = { fast, slow }
# ZEN$ USE FILE "../used.txt"
# ZEN$ USE VERSION "echo 1.2"
# ZEN$ METRIC m := wtime * half
echo N
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request, tmp_path, monkeypatch):
    """A study of a folder with all that enters a digest, run; the program is gone since."""
    url = str(tmp_path / ".zenturio" / "zenturio.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
        monkeypatch.setenv("ZENTURIO_DB", url)
    folder = tmp_path / "app"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "used.txt").write_text("used")
    (folder / "run.sh").write_text(PROGRAM)
    (folder / "run.sh").chmod(0o755)
    (folder / "data").write_bytes(b"\0\1")
    (folder / "sub" / "tool").write_text("#!/bin/sh\n")
    (folder / "sub" / "tool").chmod(0o755)
    (folder / "latest").symlink_to("sub/tool")
    zen("run", "app", cwd=tmp_path)
    shutil.rmtree(folder)
    (tmp_path / "used.txt").unlink()
    return tmp_path, url


def sql(url, statement):
    database = Database(dialect_at(url), 5)
    try:
        return database.write(lambda transaction: transaction.sql(statement))
    finally:
        database.close()


def test_digests_recipes_and_keys_are_computed_again_from_recorded_parts(project):
    folder, url = project
    facts = zen("db", "check", "--identity", "--json", cwd=folder).facts
    assert facts == {"ok": True, "diagnostics": [], "identities": 12, "unknown_identities": 0}
    assert sql(url, "SELECT count(*), count(DISTINCT version) FROM recipes") == [(1, 1)]
    first = "(SELECT digest FROM results ORDER BY digest LIMIT 1)"
    ((digest,),) = sql(url, f"SELECT {first}")
    sql(url, f"UPDATE results SET key = digest WHERE digest = {first}")
    told = zen("db", "check", "--identity", cwd=folder, code=4)
    assert "11 digests are right" in told.out
    assert f"study app: {bytes(digest).hex()} is not the digest of what was recorded" in told.out


def test_what_nothing_was_recorded_of_is_counted(project):
    folder, url = project
    sql(url, "UPDATE results SET recipe = NULL, key = NULL WHERE repeat = 2")
    facts = zen("db", "check", "--identity", "--json", cwd=folder).facts
    assert (facts["identities"], facts["unknown_identities"]) == (6, 6)
