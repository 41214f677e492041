"""What zen places lists, shows and checks, and which place a run goes to."""

import json

import pytest

from cli.conftest import zen

CONFIGURED = """\
[places.campus]
kind = "dask"
cluster = "pbs"
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
def project(tmp_path):
    (tmp_path / ".zenturio").mkdir()
    (tmp_path / "zenturio.toml").write_text(CONFIGURED)
    return tmp_path


def test_places_are_those_of_the_file_and_those_that_are_installed(project):
    told = zen("places", cwd=project).out
    assert "campus" in told
    assert "zenturio.toml:1 " in told
    facts = {each["name"]: each for each in zen("places", "--json", cwd=project).facts}
    assert list(facts)[:3] == ["campus", "head", "two"]
    assert {"local", "simulate", "dask"} < facts.keys()
    assert (facts["two"]["kind"], facts["local"]["from"]) == ("local", "built in")
    assert "inline" not in facts
    assert all(each["about"] for each in facts.values())


def test_a_place_that_is_in_order_says_so(project):
    told = zen("places", "check", "two", cwd=project).out
    assert told.count("good") == 3
    assert "2 slots" in told
    assert zen("places", "check", "simulate", "--json", cwd=project).facts["ok"]
    assert [path.name for path in (project / ".zenturio").iterdir()] in ([], ["outputs", "work"], [
        "work", "outputs"])  # fmt: skip


def test_a_place_that_is_not_in_order_says_why_in_words(project):
    told = zen("places", "check", "head", cwd=project, code=4).out
    assert "WRONG  dask://198.51.100.7:8786: what goes there could be read" in told
    assert "write tls://198.51.100.7:8786" in told


def test_a_folder_that_cannot_be_written_is_named(project):
    (project / ".zenturio").rmdir()
    (project / ".zenturio").touch()
    told = zen("places", "check", "local", cwd=project, code=4).out
    assert f"WRONG  {project}/.zenturio: File exists" in told


def test_what_is_not_configured_right_is_told_with_its_line(project):
    with (project / "zenturio.toml").open("a") as file:
        file.write("keep = 3\n")
    told = zen("places", "check", "two", cwd=project, code=2).err
    assert "zenturio.toml:15:1: the place local has no setting 'keep'" in told


def test_settings_are_shown_with_what_was_configured(project):
    facts = zen("places", "show", "campus", "--json", cwd=project).facts
    settings = {each["name"]: each for each in facts["settings"]}
    assert (settings["cores"]["value"], settings["cores"]["configured"]) == (4, True)
    assert (settings["nodes"]["value"], settings["nodes"]["configured"]) == (1, False)
    assert "CPUs of each job" in zen("places", "show", "campus", cwd=project).out


def test_the_script_of_a_job_is_shown_and_not_run(project):
    told = zen("places", "show", "campus", "--script", cwd=project)
    assert told.out.startswith("#!/usr/bin/env bash\n\n#PBS -N zenturio\n")
    assert "nothing was submitted" in told.err
    assert list((project / ".zenturio").iterdir()) == []


def test_a_place_without_jobs_has_no_script(project):
    assert "starts no jobs" in zen("places", "show", "two", "--script", cwd=project, code=2).err


def test_a_run_goes_to_the_place_that_is_named(project, study):
    told = zen("run", "small.py", "--on", "two", "--json", cwd=project)
    assert json.loads(told.out)["ok"] > 0
    refused = zen("run", "small.py", "--on", "head", cwd=project, code=6).err
    assert "insecure = true" in refused
    none = zen("run", "small.py", "--on", "two", "--batch", "4", cwd=project, code=2).err
    assert "the place local has no setting 'batch'" in none
    wrong = zen("run", "small.py", "--on", "dask", "--batch", "0", cwd=project, code=2).err
    assert "auto, or a number from 1 to 1000" in wrong
