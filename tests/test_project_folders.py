"""No folder below ``.zenturio`` that came with a project as a link is written to or cleared."""

import ast
import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from loaded import zen
from zenturio.errors import SafetyError
from zenturio.execute.batch.tickets import BatchSession
from zenturio.execute.dask.worker_runtime import DaskSession
from zenturio.execute.folder_files import COPY_LIMIT_BYTES, remove_tree
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.experiment.experiment import Artifact
from zenturio.files import make_folder
from zenturio.record.artifact_store import ArtifactStore
from zenturio.show.python_api import write_cell_file
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.testing.experiments import experiment, outcome

DIGEST = "ab" * 16
PACKAGE = Path(__file__).parent.parent / "zenturio"
ELSEWHERE = {
    "annotate/examples/__init__.py": "what the user names",
    "annotate/scan.py": "what the user names",
    "drmaa/session.py": "what the program names",
    "execute/batch/tickets.py": "below a session, which is new",
    "execute/builds.py": "a build, in a folder that make_folder made",
    "execute/workspace.py": "below an experiment's folder, following no link",
    "execute/hosts/remote_agent.py": "on a host",
    "execute/hosts/remote_jobs.py": "on a host",
    "execute/hosts/prolog_epilog.py": "below a folder that was removed before",
    "execute/experiment_codec.py": "below an attempt's folder, which is new",
    "execute/file_staging.py": "an attempt's folder, which is new",
    "execute/places.py": "the folder of a place",
    "system/runas_helper.py": "a folder that root alone can write to",
    "execute/simulate.py": "what the user names",
    "files.py": "make_folder itself, and a session",
    "log_setup.py": "by the descriptor of .zenturio, following no link",
    "record/columnar_copy.py": "the user's cache",
    "record/database_roles.py": "the user's configuration",
    "record/sqlite.py": "the folder of the database",
    "search/kernels/__init__.py": "the user's cache",
    "show/report_store.py": "reports/, which lies beside .zenturio",
    "study/workflow_to_study.py": "what the user names",
    "study/experiment_export.py": "what the user names",
    "study/service/service_status.py": ".zenturio itself",
    "study/service/submitted_program.py": "below a folder that is new and empty",
    "study/used_files.py": "a temporary folder",
    "testing/batch.py": "a test's own",
    "trust.py": ".zenturio itself, and the user's configuration",
}
"""Modules that create folders without make_folder, and why no link can lead out of a project."""


def runs(home):
    project = home.parent
    (project / "large.bin").write_bytes(b"x" * (COPY_LIMIT_BYTES + 1))
    (project / "p.sh").write_text(
        '#ZEN$ BUILD "cp p.sh built.txt"\n#ZEN$ RUN "cp built.txt kept.txt"\n'
        '#ZEN$ OUTPUT "kept.txt"\n'
    )
    done = zen("run", "p.sh", "large.bin", "--keep", "always", cwd=project)
    if done.returncode == 6:
        raise SafetyError(done.stderr)
    assert done.returncode == 0, done.stderr


def backs_up(home):
    done = zen("db", "backup", cwd=home.parent)
    if done.returncode == 6:
        raise SafetyError(done.stderr)


def drives_hosts(home):
    journal = AttemptJournal(home)
    try:
        journal.begin(DIGEST, "host")
        journal.keep_drained({"host": "a reason"})
        with journal.building(DIGEST):
            pass
    finally:
        journal.close()


def drives_slurm(home):
    BatchSession.sweep(home / "places" / "slurm")
    BatchSession.begin(home / "places" / "slurm").leave()


def drives_dask(home):
    DaskSession(home).close()


def cancels(home):
    CancelRequests(home).ask(DIGEST)


def writes_cell(home):
    os.chdir(home.parent)
    write_cell_file("cell.py", "n = 1\n")


MAKERS = (
    pytest.param(runs, marks=pytest.mark.slow), pytest.param(backs_up, marks=pytest.mark.slow),
    drives_hosts, drives_slurm, drives_dask, cancels, writes_cell,
)  # fmt: skip


def folders_below(home):
    """The folders that zenturio names itself: not those of experiments and sessions."""
    for path in sorted(home.rglob("*")):
        below = path.relative_to(home)
        inner = below.parts[0] == "work" and len(below.parts) > 1
        if path.is_dir() and not inner and not any("session-" in part for part in below.parts):
            yield below


@pytest.mark.parametrize("maker", MAKERS)
def test_no_folder_that_is_a_link_is_written_to(tmp_path, monkeypatch, maker):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "project" / ".zenturio"

    def begin():
        remove_tree(str(home))
        home.mkdir(parents=True)
        if maker is backs_up:
            runs(home)
        return set(folders_below(home))

    before = begin()
    maker(home)
    folders = set(folders_below(home)) - before
    assert folders
    for number, below in enumerate(sorted(folders)):
        begin()
        outside = tmp_path / f"outside-{number}"
        outside.mkdir()
        (home / below).parent.mkdir(parents=True, exist_ok=True)
        (home / below).symlink_to(outside)
        error = ""
        try:
            maker(home)
        except SafetyError as refusal:
            error = str(refusal)
        # Replaced by a folder, it is harmless, too; and what cannot be logged is not missed.
        is_harmless = not (home / below).is_symlink() or below == Path("logs")
        assert is_harmless or f"{below} is a link" in error
        assert list(outside.iterdir()) == [], below


def test_a_link_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "places").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SafetyError, match="is a link") as refusal:
        make_folder(tmp_path / "home", "places", "hosts")
    assert "rm " in str(refusal.value.diagnostics[0].hint)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert refusal.value.exit_code == 6


def test_a_store_names_its_databases_in_no_file_elsewhere(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("keep me\n")
    store = make_folder(tmp_path / ".zenturio", "store")
    (store / "databases").symlink_to(outside)
    kept = make_folder(store, "incoming", "attempt") / "a.txt"
    kept.write_text("a")
    artifact = Artifact("a.txt", 1, sha256(b"a").hexdigest(), kept)
    with (
        pytest.raises(SafetyError, match="databases is a link"),
        ArtifactStore(store.parent, "elsewhere", has_database=False).publishing(
            [replace(outcome(experiment(1)), artifacts=(artifact,))]
        ),
    ):
        pass
    assert outside.read_text() == "keep me\n"


def test_nothing_behind_a_link_is_removed_or_made_writable(tmp_path):
    inner = tmp_path / "elsewhere" / "inner"
    inner.mkdir(parents=True)
    inner.chmod(0o500)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    remove_tree(str(tmp_path / "link"))
    assert not (tmp_path / "link").is_symlink()
    assert inner.stat().st_mode & 0o777 == 0o500


def modules_that_create_folders():
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if "mkdir" not in text and "makedirs" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in {"mkdir", "makedirs"}:
                yield str(path.relative_to(PACKAGE))


def test_folders_of_a_project_are_created_in_one_way():
    assert set(modules_that_create_folders()) == set(ELSEWHERE)
