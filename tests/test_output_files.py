"""What zenturio writes into the folder of a study does not make it another program."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zenturio.annotate.scan import scan
from zenturio.cli.main import app
from zenturio.errors import SafetyError
from zenturio.files import OutputFileRecords, write_output

PROGRAM = """\
# ZEN$ PARAM n = { 1, 2 }
# ZEN$ RUN "echo t={n}"
# ZEN$ METRIC t FROM stdout REGEX "t=(.*)"
"""


def zen(*words):
    found = CliRunner().invoke(app, list(map(str, words)))
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A project whose study ran."""
    folder = tmp_path_factory.mktemp("ran") / "app"
    folder.mkdir()
    (folder / "a.sh").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("ZENTURIO_DB", raising=False)
        zen("run", ".")
    return folder


@pytest.fixture
def project(ran, tmp_path, monkeypatch):
    folder = tmp_path / "app"
    shutil.copytree(ran, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    return folder


def is_known(folder="."):
    return "2 cached" in zen("run", folder, "--dry-run")


WRITERS = {
    "a chart": ("plot", "app", "--x", "n", "--y", "t", "-o", "chart.svg"),
    "a chart by its usual name": ("plot", "app", "--x", "n", "--y", "t"),
    "a table": ("results", "app", "-o", "rows.csv"),
    "a table in a folder": ("results", "app", "-o", "sub/rows.json"),
    "an answer": ("sql", "SELECT n FROM study_app", "-o", "answer.csv"),
    "a report": ("report", "/dev/null", "-o", "report.html"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_into_the_folder_is_no_input(project, writer):
    (project / "sub").mkdir()
    before = {path for path in project.rglob("*") if ".zenturio" not in path.parts}
    zen(*WRITERS[writer])
    made = {path for path in project.rglob("*") if ".zenturio" not in path.parts} - before
    assert len(made) == 1
    assert is_known()
    name = made.pop().relative_to(project).as_posix()
    assert f"because zen wrote them: {name}" in zen("check", ".")
    assert json.loads(zen("check", ".", "--json"))["left_out"] == [name]


def test_what_was_edited_since_is_an_input(project):
    zen("results", "app", "-o", "rows.csv")
    (project / "rows.csv").write_text("n\n3\n")
    assert not is_known()
    assert "left out" not in zen("check", ".")


def test_what_is_written_again_is_left_out_again(project):
    zen("results", "app", "-o", "rows.csv")
    (project / "rows.csv").write_text("n\n3\n")
    zen("results", "app", "-o", "rows.csv")
    assert is_known()


def test_a_copy_of_the_project_knows_its_own(project, tmp_path, monkeypatch):
    zen("results", "app", "-o", "rows.csv")
    shutil.copytree(project, tmp_path / "copy" / "app")
    monkeypatch.chdir(tmp_path / "copy" / "app")
    shutil.rmtree(project)
    assert is_known()


def test_one_that_stands_elsewhere_leaves_out_the_same(project, tmp_path, monkeypatch):
    zen("results", "app", "-o", "rows.csv")
    monkeypatch.chdir(tmp_path)
    assert scan(project).left_out == ("rows.csv",)


def test_a_database_in_the_folder_is_no_input(project):
    for _ in range(2):
        zen("run", ".", "--db", "mine.db")
    assert "2 cached" in zen("run", ".", "--db", "mine.db", "--dry-run")
    assert scan(project).left_out == ("mine.db",)
    for beside in ("mine.db-wal", "mine.db-shm"):
        (project / beside).write_text("x")
    assert is_known()
    (project / "mine.db").write_text("mine now")
    assert "mine.db" not in scan(project).left_out


def test_a_file_that_was_named_is_what_it_is(project):
    zen("results", "app", "-o", "rows.csv")
    assert scan(["a.sh", "rows.csv"]).file_paths == ["a.sh", "rows.csv"]


def test_a_record_that_is_damaged_hides_nothing(project):
    write_output(project / "one", [b"1"])
    record = project / ".zenturio" / "outputs.jsonl"
    line = record.read_text()
    for damaged in ("{", "[]\n", '{"path": "one"}\n', '{"path": "one", "digest": 7}\n', "\0\n"):
        record.write_text(damaged)
        assert not OutputFileRecords.of(project).includes(project / "one")
        record.write_text(damaged.rstrip("\n") + "\n" + line)
        assert OutputFileRecords.of(project).includes(project / "one")


def test_what_a_record_that_came_with_a_project_hides_is_told(project):
    (project / "solver.c").write_text("int main;")
    write_output(project / "copy", [b"int main;"])
    record = project / ".zenturio" / "outputs.jsonl"
    record.write_text(record.read_text().replace('"copy"', '"solver.c"'))
    assert "because zen wrote them: solver.c" in zen("check", ".")


def test_a_record_that_is_a_link_is_not_written_through(project, tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    (project / ".zenturio" / "outputs.jsonl").symlink_to(target)
    with pytest.raises(SafetyError, match="cannot be written to"):
        write_output(project / "one", [b"1"])
    assert target.read_text() == "mine"


def test_a_record_that_is_a_pipe_keeps_nobody_waiting(project):
    os.mkfifo(project / ".zenturio" / "outputs.jsonl")
    assert scan(project).left_out == ()
    with pytest.raises(SafetyError, match="cannot be written to"):
        write_output(project / "one", [b"1"])


def test_without_a_project_nothing_is_written_down(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_output(tmp_path / "one", [b"1"])
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_what_the_shell_redirects_into_the_folder_is_no_input(project):
    """It changes while the study runs, and would make another program of the next run."""
    command = [sys.executable, "-m", "zenturio", "run", "."]
    with Path("run.txt").open("wb") as out, Path("notes.txt").open("ab") as notes:
        notes.write(b"mine\n")
        notes.flush()
        subprocess.run(command, stdout=out, stderr=notes, check=True)
    assert "2 cached" in Path("run.txt").read_text()
    assert not is_known(), "notes.txt had a line before, so it is the user's"
    Path("notes.txt").unlink()
    assert is_known()
    with Path("run.txt").open("a") as file:
        file.write("edited\n")
    assert not is_known()
