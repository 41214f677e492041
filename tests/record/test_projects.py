"""Projects on one database: the same name from two people is two studies, and copies are new."""

import shutil
from contextlib import chdir, closing, contextmanager

import psycopg
import pytest

from record.test_team_roles import lab
from record.test_team_roles import run_study as run_salted
from zenturio.errors import NotFoundError
from zenturio.record import Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.record.sql_names import Project
from zenturio.study.overview import opened_repository
from zenturio.study.recorded_definition import foresee_version

__all__ = ["lab"]
ONE = StudyDefinition((Field("n", "int"),), (Field("time"),))
OTHER = StudyDefinition((Field("n", "int"), Field("m", "int")), (Field("time"),))


def run_study(repository, count, study, definition):
    """Record results of programs that no other project has."""
    salt = f"{repository._database.project.folder} {study}"
    return run_salted(repository, count, study, definition, salt)


@contextmanager
def working_in(folder, url):
    """The repository as it is used in a project folder."""
    (folder / ".zenturio").mkdir(parents=True, exist_ok=True)
    with chdir(folder):
        repository = open_repository(url)
        try:
            yield repository
        finally:
            repository.close()


def names(repository):
    return sorted(study.name for study in repository.studies())


@pytest.fixture
def two_people(lab, tmp_path):
    """Alice's and bob's folders, each with a study `train`; the URLs of their logins."""
    people = {name: (tmp_path / name, lab.url(name)) for name in ("alice", "bob")}
    for (folder, url), count in zip(people.values(), (2, 3), strict=True):
        with working_in(folder, url) as repository:
            run_study(repository, count, "train", ONE)
    return people


def test_the_same_name_of_two_people_is_two_studies(two_people):
    with working_in(*two_people["bob"]) as bob:
        assert names(bob) == ["alice/train", "train"]
        assert bob.count_states("train")["ok"] == 3
        assert bob.count_states("alice/train")["ok"] == 2
        # Neither displaces the other, whoever runs last.
        run_study(bob, 3, "train", OTHER)
    with working_in(*two_people["alice"]) as alice:
        assert names(alice) == ["bob/train", "train"]
        run_study(alice, 2, "train", ONE)
        assert {study.version for study in alice.studies()} == {1}
        assert len(list(alice.records("bob/train"))) == 3


def test_a_plain_name_never_means_a_study_of_somebody_else(two_people, tmp_path):
    with working_in(tmp_path / "third", two_people["bob"][1]) as repository:
        assert names(repository) == ["alice/train", "bob/train"]
        with pytest.raises(NotFoundError, match="train") as missing:
            repository.study("train")
        assert "alice/train" in str(missing.value) or "bob/train" in str(missing.value)
        assert repository.study("bob/train@1").name == "bob/train"
        run_study(repository, 1, "train", ONE)
        assert names(repository) == ["alice/train", "bob/train", "train"]
    with working_in(*two_people["alice"]) as alice:
        assert names(alice) == ["bob/third/train", "bob/train", "train"]
        assert alice.count_states("bob/third/train")["ok"] == 1
        alice.delete("bob/third/train")
        assert names(alice) == ["bob/train", "train"]


def test_who_looks_from_no_project_needs_an_owners_name_only_where_names_clash(
    two_people, tmp_path
):
    with working_in(*two_people["bob"]) as bob:
        run_study(bob, 1, "single", ONE)
    (tmp_path / "none").mkdir()
    with chdir(tmp_path / "none"), opened_repository(two_people["alice"][1]) as looking:
        assert names(looking) == ["alice/train", "bob/train", "single"]
        assert looking.count_states("single")["ok"] == 1


def test_a_folder_that_is_no_project_yet_means_no_study_of_somebody_else(two_people, tmp_path):
    folder, url = two_people["bob"]
    with working_in(folder, url) as bob:
        run_study(bob, 1, "single", ONE)
    with working_in(tmp_path / "new", two_people["alice"][1]) as new:
        with pytest.raises(NotFoundError, match="bob/single"):
            new.study("single")  # what runs would archive it, and what deletes delete it
        assert foresee_version(new, "single", {"program": {"a.sh": "another"}}) is None
        run_study(new, 1, "single", OTHER)
        assert names(new) == ["alice/train", "bob/single", "bob/train", "single"]
        assert {study.version for study in new.studies()} == {1}


def test_who_looks_from_another_project_finds_a_study_whose_name_only_one_has(two_people, tmp_path):
    with working_in(*two_people["bob"]) as bob:
        run_study(bob, 1, "single", ONE)
    with working_in(*two_people["alice"]) as alice:
        with pytest.raises(NotFoundError, match="bob/single"):
            alice.study("single")  # what runs or deletes means a study of its own folder
        with opened_repository(two_people["alice"][1]) as looking:
            assert looking.study("single").name == "bob/single"
            assert looking.study("single@1").name == "bob/single"
            assert looking.count_states("train")["ok"] == 2  # her own goes before
            assert names(looking) == ["bob/single", "bob/train", "train"]
    with working_in(tmp_path / "third", two_people["bob"][1]) as third:
        run_study(third, 1, "more", ONE)
        with (
            opened_repository(two_people["bob"][1]) as looking,
            pytest.raises(NotFoundError, match="train"),
        ):
            looking.study("train")


def test_who_works_in_one_folder_shares_its_studies(two_people):
    folder, _ = two_people["alice"]
    with working_in(folder, two_people["bob"][1]) as bob:
        assert names(bob) == ["bob/train", "train"]
        assert bob.count_states("train")["ok"] == 2


def test_in_sql_the_second_study_of_a_name_has_its_owners_name(two_people, lab):
    with lab.connect("carol") as carol:
        for view, count in (("study_train", 2), ("study_bob_train", 3)):
            rows = carol.execute(f"SELECT count(*) FROM team_studies.{view}").fetchone()
            assert rows == (count,)


def test_a_copied_project_gets_an_id_at_its_first_write_and_a_moved_one_keeps_its_own(
    two_people, tmp_path
):
    folder, url = two_people["alice"]
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with working_in(copy, url) as repository:
        assert names(repository) == ["bob/train", "train"]  # nothing is written yet
        run_study(repository, 1, "other", ONE)
        assert names(repository) == ["alice/train", "bob/train", "other"]
        run_study(repository, 1, "train", ONE)
        assert names(repository) == ["alice/train", "bob/train", "other", "train"]
    moved = folder.rename(tmp_path / "moved")
    with working_in(moved, url) as repository:
        run_study(repository, 2, "train", ONE)
        assert names(repository) == ["alice/copy/other", "alice/copy/train", "bob/train", "train"]
    elsewhere = tmp_path / "elsewhere"  # as mv to another file system: other inodes
    shutil.copytree(moved, elsewhere)
    shutil.rmtree(moved)
    with working_in(elsewhere, url) as repository:
        run_study(repository, 2, "train", ONE)
        assert "train" in names(repository)
        assert "alice/train" not in names(repository)


def test_studies_of_before_belong_to_all(lab, tmp_path):
    with working_in(tmp_path / "alice", lab.url("alice")) as alice:
        run_study(alice, 2, "old", ONE)
    with lab.connect() as admin:  # as databases of before are
        admin.execute("UPDATE studies SET project = 1")
    with working_in(tmp_path / "bob", lab.url("bob")) as bob:
        assert names(bob) == ["old"]
        run_study(bob, 3, "old", ONE)
        assert bob.count_states("old")["ok"] == 2 + 3
        assert names(bob) == ["old"]


def test_a_name_that_was_archived_goes_on_in_ones_own_study_before_that_of_all(lab, tmp_path):
    def run_and_archive(repository):
        run_study(repository, 1, "old", ONE)
        for lease in repository.leases("old"):
            repository.release_lease(lease)
        assert repository.archive(repository.study("old")).name == f"old@{len(runs)}"

    with working_in(tmp_path / "alice", lab.url("alice")) as alice:
        runs = [1]
        run_and_archive(alice)
        with lab.connect() as admin:
            admin.execute("UPDATE studies SET project = 1")
        runs.append(2)
        run_and_archive(alice)  # it is that of all, for alice has none
        with lab.connect() as admin:
            (own,) = admin.execute("SELECT max(id) FROM projects").fetchone()
            admin.execute(
                "INSERT INTO studies (project, name, sql_name, revision, opened, pinned)"
                " VALUES (%s, 'old', 'study_old_2', 0, 0, 0)", (own,)
            )  # fmt: skip
        runs = [1]
        run_and_archive(alice)
        with lab.connect() as admin:
            query = (
                "SELECT project, (SELECT count(*) FROM versions WHERE study = s.id) FROM studies s"
            )
            assert set(admin.execute(query)) == {(1, 2), (own, 1)}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"uuid": "../x"}', '{"uuid": 7}'])
def test_a_damaged_file_is_as_none(tmp_path, text):
    (tmp_path / "project.json").write_text(text)
    project = Project(tmp_path)
    assert project.uuid == ""
    project.begin()
    assert len(project.uuid) == 32
    assert Project(tmp_path).uuid == project.uuid


def test_what_is_no_folder_gets_no_id(tmp_path):
    project = Project(tmp_path / "none")
    project.begin()
    assert project.uuid == ""
    assert not (tmp_path / "none").exists()


def test_a_project_that_begins_without_a_study_is_known_to_the_database(postgres_url, tmp_path):
    with (
        working_in(tmp_path / "fresh", postgres_url) as repository,
        psycopg.connect(postgres_url) as connection,
    ):
        query = "SELECT name FROM projects WHERE uuid = %s"
        uuid = repository.begin_project()
        assert connection.execute(query, (uuid,)).fetchall() == [("fresh",)]
        assert repository.begin_project() == uuid
        assert connection.execute(query, (uuid,)).fetchall() == [("fresh",)]


def test_a_file_is_one_project_and_its_queue_is_open_to_who_may_write_it(tmp_path):
    path = tmp_path / "a.db"
    with closing(open_repository(path)) as repository:
        assert repository.in_project("") is repository
        assert repository.in_project("a" * 32) is not repository
        path.chmod(0o600)
        assert repository.is_queue_admin()
        assert not repository.may_others_write()
        path.chmod(0o666)
        assert repository.may_others_write()
