"""What is removed with a study: only while nobody runs one, and only said unless it is meant."""

import os
from pathlib import Path

import pytest

from zenturio.errors import ConflictError
from zenturio.record import DriverProcess, StudyDefinition
from zenturio.record.entities import StudyDeletion
from zenturio.record.maintenance import Garbage
from zenturio.record.open import open_repository
from zenturio.study.maintenance import KEPT, PruneResult, _bytes, prune
from zenturio.testing.experiments import dead_driver, experiment, outcome


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Three studies, and folders that runs left."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".zenturio"
    folder.mkdir()
    repository = open_repository(folder / "zenturio.db")
    for number, name in enumerate(("a", "b", "c")):
        repository.open(name, StudyDefinition((), ()))
        lease = repository.acquire_lease(name, DriverProcess.current())
        pairs = [
            (experiment(i, salt=name), outcome(experiment(i, salt=name))) for i in range(number + 1)
        ]
        repository.add_results(name, lease.number, pairs)
        repository.release_lease(lease)
    repository.close()
    for name in KEPT:
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / "file").write_bytes(bytes(700))
        (folder / name / "file").write_bytes(bytes(800))
    return folder


def names(project):
    repository = open_repository(project / "zenturio.db")
    try:
        return [study.name for study in repository.studies()]
    finally:
        repository.close()


def test_a_preview_removes_nothing_and_says_what_would_go(project):
    result = prune(None, ["b"])
    assert [(d.study, d.experiments, d.attempts) for d in result.studies] == [("b", 2, 2)]
    assert result.folders == tuple((project / name, 2, 1500) for name in KEPT)
    assert names(project) == ["a", "b", "c"]
    assert all((project / name / "file").exists() for name in KEPT)


def test_the_study_goes_with_the_folders_and_the_others_stay(project):
    result = prune(None, ["c"], folders=False, really=True)
    assert result.folders == ()
    assert all((project / name / "file").exists() for name in KEPT)
    prune(None, ["b"], really=True)
    assert not any((project / name).exists() for name in KEPT)
    assert names(project) == ["a"]
    repository = open_repository(project / "zenturio.db")
    assert repository.count_states("a")["ok"] == 1
    repository.close()


def test_nothing_is_pruned_while_a_study_has_a_driver(project):
    repository = open_repository(project / "zenturio.db")
    lease = repository.acquire_lease("a", DriverProcess.current())
    with pytest.raises(ConflictError, match=f"study a is being run by process {os.getpid()} on"):
        prune(None, ["b"], really=True)
    repository.release_lease(lease)
    repository.acquire_lease("a", dead_driver())
    repository.close()
    prune(None, ["b"], really=True)
    assert names(project) == ["a", "c"]
    assert not any((project / name).exists() for name in KEPT)


def test_what_is_removed_is_told_to_people_and_programs():
    deletion = StudyDeletion("a", 1200, 3, 1300, 2048, ("x", "y"), ("z",))
    result = PruneResult(
        (deletion, StudyDeletion("b", 1, 0, 1, 0, ())),
        ((Path("work"), 1234, 5_000_000),),
        Garbage((Path("o"), Path("p")), (Path("f"),), 999),
    )
    removed = "study a: 1,200 experiments, 1,300 attempts, 2.05 KB of logs, 2 kept files"
    assert result.lines() == [
        f"{removed} (3 experiments stay with other studies) (1 outside the project stay)",
        "study b: 1 experiments, 1 attempts, 0 B of logs, 0 kept files",
        "work: 1,234 files, 5 MB",
        "3 files that no experiment has, 999 B",
    ]
    facts = result.facts()
    assert facts["studies"][0]["experiments"] == 1200
    assert facts["folders"] == [{"path": "work", "files": 1234, "bytes": 5_000_000}]
    assert facts["garbage"] == {"files": 3, "bytes": 999}
    assert PruneResult((), (), Garbage((), (), 0)).lines() == []


def test_bytes_are_told_in_the_unit_that_fits():
    sizes = (0, 999, 1000, 1_500_000, 10**9, 10**12, 10**16)
    assert list(map(_bytes, sizes)) == [
        "0 B",
        "999 B",
        "1 KB",
        "1.5 MB",
        "1 GB",
        "1 TB",
        "1e+04 TB",
    ]
