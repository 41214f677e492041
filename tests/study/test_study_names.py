"""Names that go on meaning the same study, and what is remembered of how it was run."""

import pytest

from zenturio.errors import InputError
from zenturio.record import StudyDefinition
from zenturio.record.open import open_repository
from zenturio.search.designs import Design
from zenturio.study.last_options import orphans_at, place_of, read_design, recall_options
from zenturio.study.recorded_definition import base_of, is_version, pinned_name, resolve_name
from zenturio.study.study_request import PlaceOptions, choose_keep


@pytest.fixture
def repository(tmp_path):
    repository = open_repository(tmp_path / "a.db")
    repository.open("train", StudyDefinition())
    yield repository
    repository.close()


def test_a_pinned_name_means_the_same_version_after_the_program_was_edited(repository):
    assert pinned_name(repository, "train") == "train@1"
    assert resolve_name(repository, "train@1") == "train"
    repository.archive(repository.study("train"))
    repository.open("train", StudyDefinition())
    names = {"train": "train@2", "train@1": "train@1", "train@2": "train@2", "other": "other"}
    assert {name: pinned_name(repository, name) for name in names} == names
    meaning = {"train": "train", "train@1": "train@1", "train@2": "train", "other@1": "other@1"}
    assert {name: resolve_name(repository, name) for name in meaning} == meaning


def test_only_a_number_behind_a_sign_names_a_version():
    bases = {
        "a@1": "a",
        "a@b@12": "a@b",
        "a": None,
        "a@": None,
        "@1": None,
        "a@x": None,
        "a@²": None,
    }
    assert {name: base_of(name) for name in bases} == bases
    assert is_version("a", "a")
    assert is_version("a@3", "a")
    assert not is_version("a@3", "b")
    assert not is_version("ab", "a")


def test_the_options_of_the_last_run_are_recalled():
    notes = {"run": {"on": "cluster", "jobs": 2}}
    options = recall_options("s", notes)
    assert options == notes["run"]
    assert options is not notes["run"]  # who changes them changes no definition
    assert (place_of(notes), place_of({}), place_of({"run": {}})) == ("cluster", "", "")
    for unknown in ({}, {"run": {}}):
        with pytest.raises(InputError, match="it is not known how s was run"):
            recall_options("s", unknown)


def test_only_places_whose_jobs_outlive_drivers_have_orphans(tmp_path):
    for place in ("", "local", "nowhere", "simulate"):
        assert orphans_at({"run": {"on": place}}, tmp_path / ".zenturio") is None, place
    found = orphans_at({"run": {"on": "slurm"}}, tmp_path / ".zenturio")
    assert found is not None
    assert found.cancel(["0" * 32]) == 0


def test_folders_that_stay_are_named_by_a_word():
    assert PlaceOptions().keep == "failed"
    assert [choose_keep(word) for word in ("always", " Failed ", "NEVER")] == [
        "always",
        "failed",
        "never",
    ]
    with pytest.raises(InputError, match="failed"):
        choose_keep("faild")


def test_a_design_is_the_one_named_or_that_of_the_last_run():
    notes = {"run": {"design": "lhs:8", "seed": 3}}
    for arguments, design in (
        ((), Design.read("lhs:8", 3)),
        (("saltelli:4",), Design.read("saltelli:4", 3)),
        (("saltelli:4", 0), Design.read("saltelli:4", 0)),
    ):
        assert read_design("s", notes, *arguments) == design
    assert read_design("s", {}, "lhs:8") == Design.read("lhs:8", 0)
    with pytest.raises(InputError, match="the last run of s had no design"):
        read_design("s", {"run": {"seed": 3}})
