"""Which repository is meant."""

import gc
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from zenturio import trust
from zenturio.errors import InputError, RecordError, SafetyError
from zenturio.record import StudyDefinition
from zenturio.record.open import dialect_at, locate, open_repository, project_folder, wait_seconds


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite:////a/b.db", "/a/b.db"),
        ("a b.db", "a b.db"),
        (Path("x?y#z.db"), "x?y#z.db"),
        ("/a%20b.db", "/a%20b.db"),
    ],
)
def test_a_path_and_a_url_name_a_file(url, place, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert dialect_at(url).location == str(tmp_path / place)


def test_a_url_names_a_server():
    kind = dialect_at("postgresql://me:secret@host:5433/studies?password=other")
    assert kind.name == "postgresql"
    assert kind.location == "postgresql://me:***@host:5433/studies"
    assert "secret" not in kind.location
    assert "other" not in kind.location
    assert dialect_at("postgres://host/studies").name == "postgresql"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:secret@host/x",
        "sqlite://",
        "sqlite://host/x",
        "postgresql://me:secret@host:port/x",
    ],
)
def test_a_url_that_names_no_repository_is_refused(url):
    with pytest.raises(InputError, match=r"sqlite|postgresql|mysql") as raised:
        dialect_at(url)
    assert "postgresql://user@host/database" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_the_environment_names_the_repository(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    assert locate() == tmp_path / ".zenturio" / "zenturio.db"
    monkeypatch.setenv("ZENTURIO_DB", "else.db")
    assert locate() == "else.db"
    assert locate("given.db") == "given.db"


def test_the_project_folder_is_the_nearest_one_with_a_repository(tmp_path):
    (tmp_path / "a" / ".zenturio").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    assert project_folder(tmp_path / "a" / "b" / "c") == tmp_path / "a"


def test_the_folder_of_a_new_repository_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    open_repository().close()
    assert (tmp_path / ".zenturio" / "zenturio.db").is_file()


def test_a_repository_may_go_with_its_process(monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB", "memory:")
    repository = open_repository()
    folder = Path(repository.location).parent
    repository.open("s", StudyDefinition())
    assert [study.name for study in repository.studies()] == ["s"]
    assert not open_repository().studies()
    repository.close()
    del repository
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_wait_that_is_no_number_of_seconds_is_refused(monkeypatch, text):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", text)
    with pytest.raises(InputError, match="ZENTURIO_DB_WAIT is"):
        wait_seconds()


@pytest.mark.parametrize("change", ["DROP TABLE results", "ALTER TABLE results RENAME TO other"])
def test_a_file_in_which_a_table_is_missing_or_a_view_is_refused(tmp_path, change):
    path = tmp_path / "a.db"
    open_repository(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        endless = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i FROM x) SELECT i FROM x"
        connection.execute(f"CREATE VIEW results AS {endless}")
    with pytest.raises(RecordError, match="is damaged: it has no table results"):
        open_repository(path)


def test_a_project_in_a_folder_that_others_can_change_is_refused(tmp_path):
    folder = tmp_path / "shared"
    (folder / ".zenturio").mkdir(parents=True)
    folder.chmod(0o755)
    assert project_folder(folder) == folder
    folder.chmod(0o777)
    with pytest.raises(SafetyError):
        project_folder(folder)


@pytest.mark.parametrize(
    ("message", "begin", "hint"),
    [
        ("database or disk is full", "cannot write to ", "make room"),
        ("disk I/O error", "cannot write to ", "make room"),
        ("database disk image is malformed", "", "`zen db check` lists the damage"),
        ("file is not a database", "", "`zen db check` lists the damage"),
        ("attempt to write a readonly database", "cannot open ", "may you write"),
        ("unable to open database file", "cannot open ", "may you write"),
        ("something else", "", ""),
    ],
)
def test_what_sqlite_says_becomes_an_error_with_the_place_and_a_hint(
    tmp_path, message, begin, hint
):
    error = dialect_at(tmp_path / "a.db").explain(sqlite3.OperationalError(message))
    (diagnostic,) = error.diagnostics
    assert diagnostic.message.startswith(f"{begin}{tmp_path / 'a.db'}")
    assert message in diagnostic.message
    assert diagnostic.hint.startswith(hint)
    assert bool(diagnostic.hint) == bool(hint)


def test_a_work_folder_holds_the_project_and_must_be_the_users_own(tmp_path, monkeypatch):
    work = tmp_path / "work"
    monkeypatch.setenv("ZENTURIO_WORK", str(work))
    monkeypatch.chdir(tmp_path)
    assert project_folder() == work  # which is not there yet
    (work / ".zenturio").mkdir(parents=True)
    work.chmod(0o755)
    assert project_folder() == work
    assert project_folder(tmp_path) == tmp_path
    monkeypatch.setattr(trust, "check_owner", refuse)
    with pytest.raises(SafetyError, match="project folder"):
        project_folder()
    monkeypatch.undo()
    monkeypatch.setenv("ZENTURIO_WORK", "work")
    monkeypatch.chdir(tmp_path)
    work.chmod(0o777)
    with pytest.raises(SafetyError):
        project_folder()


def refuse(folder, name):
    raise SafetyError(f"{folder} is no {name} of ours")
