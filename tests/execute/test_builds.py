"""Builds that came with a project, or were changed behind our back, are not run."""

import json
from pathlib import Path
from threading import Event

import pytest

from zenturio import trust
from zenturio.execute.builds import BuildCache
from zenturio.execute.file_staging import InputCache
from zenturio.experiment import Build, ExperimentFile

DIGEST = "0" * 31 + "1"


class Driver:
    """A driver that builds ``program`` from one source, and counts how often."""

    def __init__(self, project):
        self.count = 0
        self._builds = BuildCache(project, InputCache(project / "inputs"), Event())

    def built(self, folder):
        self.count = 0
        build = Build(DIGEST, (ExperimentFile("p.c", 0o644, content=b"source"),), ())
        built = self._builds.get(build, self._compile)
        return (built.folder / "program").read_text()

    def _compile(self, steps, folder):
        self.count += 1
        Path(folder, "program").write_text("honest")


@pytest.fixture(autouse=True)
def own_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    trust.user_key.cache_clear()
    yield
    trust.user_key.cache_clear()


@pytest.fixture
def project(tmp_path):
    Driver(tmp_path / "project").built(tmp_path)
    return tmp_path / "project"


def only(project, pattern):
    (path,) = project.glob(f"builds/*/{pattern}")
    return path


def test_the_next_driver_uses_a_build(project):
    driver = Driver(project)
    assert driver.built(project) == "honest"
    assert driver.count == 0


def test_a_replaced_binary_is_built_again(project):
    only(project, f"{DIGEST}/program").write_text("planted")
    driver = Driver(project)
    assert driver.built(project) == "honest"
    assert driver.count == 1


def test_a_list_that_was_made_to_agree_is_not_believed(project):
    only(project, f"{DIGEST}/program").write_text("planted")
    path = only(project, f"{DIGEST}.json")
    mac, _, text = path.read_text().partition("\n")
    facts = json.loads(text)
    from zenturio.execute.file_staging import file_digest

    for row in facts["files"]:
        if row[0] == "program":
            row[3] = file_digest(only(project, f"{DIGEST}/program"))
    path.write_text(f"{mac}\n{json.dumps(facts)}")
    driver = Driver(project)
    assert driver.built(project) == "honest"
    assert driver.count == 1


def test_what_another_user_built_is_neither_used_nor_removed(project, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    trust.user_key.cache_clear()
    driver = Driver(project)
    assert driver.built(project) == "honest"
    assert driver.count == 1
    assert len(list(project.glob(f"builds/*/{DIGEST}/program"))) == 2


def test_the_key_is_kept_for_the_user_alone(tmp_path):
    key = trust.user_key()
    path = tmp_path / "config" / "zenturio" / "key"
    assert path.read_bytes() == key
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    trust.user_key.cache_clear()
    assert trust.user_key() != key, "others could have read it"


def test_a_planted_input_is_copied_again(tmp_path):
    original = tmp_path / "mesh.bin"
    original.write_bytes(b"mesh")
    from zenturio.experiment.identity import content_digest

    filed = ExperimentFile(
        "mesh.bin", 0o644, original=original, digest=content_digest(b"mesh").hex()
    )
    shared = InputCache(tmp_path / "inputs").shared(filed)
    shared.path.chmod(0o644)
    shared.path.write_bytes(b"evil")
    assert InputCache(tmp_path / "inputs").shared(filed).path.read_bytes() == b"mesh"
