"""Digests computed again from a repository alone: right ones, wrong ones, and unknown ones."""

from contextlib import closing
from dataclasses import replace

import pytest

from record.reference import ReferenceRepository
from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.record import DriverProcess
from zenturio.record.open import open_repository
from zenturio.record.redaction import redact
from zenturio.record.secret_masking import Secret
from zenturio.study.recorded_definition import define_study
from zenturio.study.reprocess_experiments import IdentityCheck, check_identity
from zenturio.testing.experiments import outcome

PROGRAM = """\
# ZEN$ RUN "sh run.sh {s}"
# ZEN$ SUBSTITUTE N = { 1, 2, 1e1 }
# ZEN$ REPEAT 2 SEED s
# ZEN$ ENV MODE = { fast, slow }
echo N
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A study with files of each kind, and its 12 results."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "run.sh").write_text(PROGRAM)
    (folder / "run.sh").chmod(0o755)
    (folder / "data").write_bytes(b"\0\1")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    (folder / "link").symlink_to("tool")
    with closing(open_repository(tmp_path / "a.db")) as repository:
        record(repository, "app", folder)
        yield repository


def record(repository, name, folder, text=None):
    """Results of all experiments of *folder*; its definition says *text* in place of its program."""
    application = scan([folder])
    generator, space = ExperimentGenerator(application), application.space
    experiments = [e for n in range(space.size) for e in generator.experiments(space.point(n))]
    definition = define_study(application, len(experiments), generator.program)
    if text is not None:
        definition = replace(definition, sources={"run.sh": text.encode()})
    repository.open(name, definition)
    lease = repository.acquire_lease(name, DriverProcess.current())
    repository.add_results(name, lease.number, [(e, outcome(e)) for e in experiments])
    repository.release_lease(lease)


def alter(repository, statement):
    with repository.engine.begin() as connection:
        connection.exec_driver_sql(statement)


def test_results_of_files_links_and_executables_are_right(project):
    assert check_identity(project) == IdentityCheck(12, 0, ())
    assert check_identity(project, 5).right == 5


def test_what_is_not_what_was_hashed_is_wrong(project):
    alter(project, "UPDATE recipes SET document = replace(document, '\"executable\"', '\"file\"')")
    found = check_identity(project, 3)
    assert (found.right, found.unknown, len(found.wrong)) == (0, 0, 3)
    assert found.wrong[0].startswith("study app: ")
    assert found.wrong[0].endswith("is not the digest of what was recorded")


def test_what_nobody_recorded_is_unknown(project):
    alter(project, "UPDATE results SET recipe = NULL WHERE repeat = 2")
    assert check_identity(project) == IdentityCheck(6, 6, ())
    alter(project, "UPDATE recipes SET document = replace(document, '\"link\"', '\"file\"')")
    found = check_identity(project)
    assert (found.right, found.unknown, len(found.wrong)) == (0, 6, 6)


def test_a_repository_that_is_no_database_has_nothing_to_check():
    assert check_identity(ReferenceRepository()) == IdentityCheck()


def test_what_was_redacted_is_unknown(project, tmp_path):
    assert check_identity(project).right == 12
    project.close()
    redact(tmp_path / "a.db", Secret("sh run.sh"), "alice")
    with closing(open_repository(tmp_path / "a.db")) as repository:
        assert check_identity(repository) == IdentityCheck(0, 12, ())


def test_each_study_is_checked_by_its_own_program(project, tmp_path):
    changes = {
        "other": ("", ""), "unread": ("N = {", "N = "), "elsewhere": ("1, 2, 1e1", "2, 3"),
        "changed": ("echo", "echo -n"),
    }  # fmt: skip
    for name, (old, new) in changes.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.sh").write_text(text := PROGRAM + f": {name}\n")
        record(project, name, folder, text.replace(old, new, 1))
    found = check_identity(project)
    # Of the values of "elsewhere" one is in the set: the set itself is no part of what ran.
    assert (found.right, found.unknown, len(found.wrong)) == (12 + 12 + 4, 12 + 8, 12)
    assert {text.partition(":")[0] for text in found.wrong} == {"study changed"}
    found = check_identity(project, 2)
    assert found.right + found.unknown + len(found.wrong) == 2 * 5
