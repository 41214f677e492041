"""What zen places lists, shows and checks, and which place a run goes to."""

import json

import pytest
from typer.testing import CliRunner

from cli.conftest import Told, zen
from zenturio.cli.main import app
from zenturio.errors import ZenError

CONFIGURED = """\
[places.campus]
kind = "dask"
cluster = "slurm"
cores = 4
memory = "8GB"
account = "physics"

[places.head]
kind = "dask"
address = "dask://198.51.100.7:8786"

[places.two]
kind = "local"
jobs = 2
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "zenturio.toml").write_text(CONFIGURED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*words: str, code: int = 0) -> Told:
    """What ``zen`` says, asked in this process, which starts so much sooner."""
    found = CliRunner().invoke(app, words)
    if isinstance(found.exception, ZenError):
        found.exit_code, error = found.exception.exit_code, str(found.exception)
    else:
        error = found.stderr
    assert found.exit_code == code, (found.output, found.exception)
    return Told(code, found.stdout, error)


def test_places_are_those_of_the_file_and_those_that_are_installed(project):
    said = told("places").out
    assert "campus" in said
    assert "zenturio.toml:1 " in said
    facts = {each["name"]: each for each in told("places", "--json").facts}
    assert list(facts)[:3] == ["campus", "head", "two"]
    assert {"local", "simulate", "dask"} < facts.keys()
    assert (facts["two"]["kind"], facts["local"]["from"]) == ("local", "built in")
    assert "inline" not in facts
    assert all(each["about"] for each in facts.values())


def test_a_place_that_is_in_order_says_so(project):
    said = told("places", "check", "two").out
    assert said.count("good") == 5
    assert "OBSERVE: " in said
    assert "2 slots" in said
    assert told("places", "check", "simulate", "--json").facts["ok"]
    made = {path.name for path in (project / ".zenturio").iterdir()}
    assert made <= {"store", "work", "trust-id"}


def test_a_place_that_is_not_in_order_says_why_in_words(project):
    said = told("places", "check", "head", code=4).out
    assert "WRONG  dask://198.51.100.7:8786: the traffic could be read" in said
    assert "write tls://198.51.100.7:8786" in said


def test_a_folder_that_cannot_be_written_is_named(project):
    (project / ".zenturio").rmdir()
    (project / ".zenturio").touch()
    said = told("places", "check", "local", code=4).out
    assert f"WRONG  {project}/.zenturio: File exists" in said


def test_what_is_not_configured_right_is_told_with_its_line(project):
    with (project / "zenturio.toml").open("a") as file:
        file.write("keep = 3\n")
    said = told("places", "check", "two", code=2).err
    assert "zenturio.toml:15:1: the place local has no setting 'keep'" in said


def test_settings_are_shown_with_what_was_configured(project):
    facts = told("places", "show", "campus", "--json").facts
    settings = {each["name"]: each for each in facts["settings"]}
    assert (settings["cores"]["value"], settings["cores"]["configured"]) == (4, True)
    assert (settings["nodes"]["value"], settings["nodes"]["configured"]) == (1, False)
    assert "CPUs of each job" in told("places", "show", "campus").out


def test_the_script_of_a_job_is_shown_and_not_run(project):
    said = told("places", "show", "campus", "--script")
    assert said.out.startswith("#!/bin/bash -l\n\n#SBATCH -J zenturio\n")
    assert "nothing was submitted" in said.err
    assert list((project / ".zenturio").iterdir()) == []


def test_a_place_without_jobs_has_no_script(project):
    assert "starts no jobs" in told("places", "show", "two", "--script", code=2).err


def test_a_run_goes_to_the_place_that_is_named(project, study):
    assert json.loads(told("run", "small.py", "--on", "two", "--json").out)["ok"] > 0
    refused = zen("run", "small.py", "--on", "head", cwd=project, code=6).err
    assert "insecure = true" in refused
    none = told("run", "small.py", "--on", "two", "--batch", "4", code=2).err
    assert "the place local has no setting 'batch'" in none
    wrong = told("run", "small.py", "--on", "dask", "--batch", "0", code=2).err
    assert "auto, or a number from 1 to 500" in wrong
