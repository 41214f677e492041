"""-v and --log-file before and behind a verb, lines kept for a bug report, and the report."""

import json
import zipfile

import pytest

from tests.cli.conftest import zen
from zenturio.log_setup import recent_files

NOISY = """\
import os
#ZEN$ ASSIGN n = { 1, 2 }
#ZEN$ RUN "python3 noisy.py"
#ZEN$ METRIC told FROM stdout REGEX "told (\\d+)"
n = 1
print("told", sum(name.startswith("ZENTURIO_LOG") for name in os.environ))
"""


@pytest.mark.parametrize("words", [["-v", "space", "no.py"], ["space", "no.py", "-v"]])
def test_verbose_before_and_behind_a_verb_shows_events(tmp_path, words):
    said = zen(*words, cwd=tmp_path, code=2)
    assert "INFO zenturio.cli.main" in said.err
    assert "exit code 2" in said.err


def test_twice_verbose_shows_more(tmp_path):
    assert "DEBUG" in zen("list", "-vv", cwd=tmp_path, code=None).err
    assert "DEBUG" not in zen("list", "-v", cwd=tmp_path, code=None).err


def test_facts_on_stdout_stay_json_whatever_is_logged(study, monkeypatch):
    monkeypatch.setenv("ZENTURIO_LOG", "debug")
    said = zen("space", study, "--json", cwd=study.parent)
    assert said.facts
    assert "DEBUG" in said.err


def test_a_wrong_level_is_an_input_error(tmp_path, monkeypatch):
    monkeypatch.setenv("ZENTURIO_LOG", "noisy")
    assert "'noisy' is not a level" in zen("list", cwd=tmp_path, code=2).err


def test_the_log_file_gets_the_command_and_no_password(tmp_path, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.1")
    file = tmp_path / "all.log"
    url = "postgresql://zen:hunter22@127.0.0.1:1/lab"
    zen("list", "--db", url, "--log-file", file, cwd=tmp_path, code=None)
    text = file.read_text()
    assert "DEBUG" in text
    assert "hunter22" not in text


def test_experiments_are_told_nothing_of_logging(tmp_path, monkeypatch):
    monkeypatch.setenv("ZENTURIO_LOG", "info")
    monkeypatch.setenv("ZENTURIO_LOG_FILE", str(tmp_path / "all.log"))
    (tmp_path / "noisy.py").write_text(NOISY)
    zen("run", "noisy.py", "-j", "1", cwd=tmp_path)
    facts = zen("results", "noisy", "--json", cwd=tmp_path).facts
    assert [row[facts["columns"].index("told")] for row in facts["rows"]] == [0, 0]


def test_a_command_that_goes_wrong_leaves_lines_for_a_bug_report(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    zen("space", "no.py", cwd=tmp_path, code=2)
    (path,) = recent_files(tmp_path)
    assert path.read_text().startswith("# zen space no.py")
    assert "no.py: there is no such file" in path.read_text()


def test_a_secret_that_redact_is_given_is_not_kept(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    zen("redact", "correct-horse", "--yes", cwd=tmp_path, code=2)
    (path,) = recent_files(tmp_path)
    assert "correct-horse" not in path.read_text()


@pytest.fixture
def report(study, monkeypatch):
    """A bug report of a project full of secrets, and what the command said."""
    folder = study.parent
    zen("run", study, "--limit", 1, cwd=folder)
    (folder / "zenturio.toml").write_text(
        '[places.cluster]\nkind = "slurm"\nprolog = """touch executed; export API_TOKEN=hunter22"""\n'
        '[serve.users]\nalice = "scrypt-hunter22"\n'
    )
    (folder / "hosts.toml").write_text('[hosts.a]\npassword = "hunter22"\n')
    monkeypatch.setenv("ZENTURIO_PORTAL_PASSWORD", "hunter22-portal")
    monkeypatch.setenv("ZENTURIO_SQL_URL", "postgresql://zen:hunter22@db/lab")
    zen("results", "hunter22-portal", cwd=folder, code=None)
    said = zen("bugreport", "-o", "report.zip", cwd=folder)
    with zipfile.ZipFile(folder / "report.zip") as archive:
        return said, {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_bug_report_has_versions_settings_lines_places_and_the_check(report):
    said, parts = report
    assert {"versions.json", "zenturio.toml.json", "hosts.toml.json"} <= set(parts)
    assert "zenturio" in json.loads(parts["versions.json"])
    assert json.loads(parts["database.json"])["check"] == "nothing is wrong"
    assert "cluster" in json.loads(parts["places.json"])["places"]
    assert any(name.startswith("logs/") for name in parts)
    for name in parts:
        assert name in said.out, "what it holds is printed"


def test_a_bug_report_has_no_secrets_and_executes_nothing(report, study):
    _, parts = report
    assert "hunter22" not in "".join(parts.values())
    assert "alice" in parts["zenturio.toml.json"]
    assert not (study.parent / "executed").exists()


def test_a_bug_report_says_what_it_could_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("ZENTURIO_DB", "postgresql://zen:hunter22@127.0.0.1:1/lab")
    monkeypatch.setenv("ZENTURIO_DB_WAIT", "0.1")
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "zenturio.toml").write_text("[broken")
    facts = zen("bugreport", "-o", "report.zip", "--json", cwd=tmp_path).facts
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(facts["parts"]) == set(parts)
    assert "error" in json.loads(parts["database.json"])
    assert "error" in json.loads(parts["zenturio.toml.json"])
    assert "hunter22" not in "".join(parts.values())


def test_a_bug_report_is_no_input_of_the_study(report, study):
    assert "report.zip" not in zen("space", study.parent, cwd=study.parent).out
