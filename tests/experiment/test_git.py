"""Commits are written to folders of their own, and the checkout stays as it is."""

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from needs import needs
from zenturio.errors import InputError, SafetyError
from zenturio.experiment.provenance import check_out, commits_between, find_commit, top_folder


def git(folder, *words):
    who = ["-c", "user.name=n", "-c", "user.email=e@e"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    """Two commits of a program in a folder, and an edit that is not committed."""
    needs("git")
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-b", "main")
    for number in (1, 2):
        (folder / "src" / "a.c").write_text(f"int a = {number};\n")
        git(folder, "add", ".")
        git(folder, "commit", "-m", f"number {number}")
    (folder / "src" / "a.c").write_text("int a = 3;\n")
    return folder


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def state(folder):
    """The checkout, its index, its worktrees and its branches."""
    files = {p: p.read_bytes() for p in sorted((folder / ".git").rglob("*")) if p.is_file()}
    return files, (folder / "src" / "a.c").read_text(), git(folder, "worktree", "list")


def test_the_files_of_a_commit_are_written_and_the_checkout_stays_as_it_is(repository, store):
    before = state(repository)
    commit = find_commit(repository / "src", "HEAD~1")
    files = check_out(repository / "src", commit, store)
    assert (files / "src" / "a.c").read_text() == "int a = 1;\n"
    assert files == store / commit
    assert state(repository) == before
    assert [path.name for path in store.iterdir()] == [commit]


def test_a_commit_is_written_once(repository, store):
    commit = find_commit(repository, "main")
    files = check_out(repository, commit, store)
    (files / "mark").touch()
    shutil.rmtree(repository / ".git")
    assert check_out(repository, commit, store) == files
    assert (files / "mark").exists()


def test_no_hook_no_filter_and_no_monitor_of_the_repository_runs(repository, store, tmp_path):
    seen = tmp_path / "executed"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {seen}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("*.c filter=own\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "-m", "attributes")
    for key in ("filter.own.smudge", "filter.own.clean", "core.fsmonitor"):
        git(repository, "config", key, str(program))
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        (repository / ".git" / "hooks" / hook).symlink_to(program)
    seen.unlink(missing_ok=True)
    files = check_out(repository, find_commit(repository, "HEAD"), store)
    assert (files / "src" / "a.c").read_text() == "int a = 2;\n"
    assert not seen.exists()


def test_a_commit_behind_a_link_is_refused(repository, store, tmp_path):
    commit = find_commit(repository, "HEAD")
    (store / commit).symlink_to(tmp_path)
    with pytest.raises(SafetyError, match="is a link"):
        check_out(repository, commit, store)


def test_files_that_another_process_wrote_first_are_taken(repository, store, monkeypatch):
    commit = find_commit(repository, "HEAD")
    rename = Path.rename

    def rename_behind_another(files, target):
        target.mkdir()
        (target / "first").touch()
        return rename(files, target)

    monkeypatch.setattr(Path, "rename", rename_behind_another)
    assert check_out(repository, commit, store) == store / commit
    assert [path.name for path in store.rglob("*")] == [commit, "first"]


def test_files_that_cannot_be_put_in_place_are_said_and_removed(repository, store, monkeypatch):
    commit = find_commit(repository, "HEAD")

    def fail(files, _target):
        raise PermissionError(errno.EACCES, "no", str(files))

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(InputError, match="cannot be written"):
        check_out(repository, commit, store)
    assert [*store.iterdir()] == []


def test_a_temporary_folder_that_cannot_be_removed_is_left(repository, store, monkeypatch):
    commit = find_commit(repository, "HEAD")
    rename = Path.rename

    def rename_and_clean(files, target):
        rename(files, target)
        shutil.rmtree(files.parent)  # another process removes what looks left over

    monkeypatch.setattr(Path, "rename", rename_and_clean)
    assert (check_out(repository, commit, store) / "src" / "a.c").exists()


@pytest.mark.parametrize("name", ["HEAD~9", "nothing", "--exec=true", ""])
def test_what_is_no_commit_is_said(repository, name):
    with pytest.raises(InputError, match="knows no commit"):
        find_commit(repository, name)


def test_a_folder_outside_of_git_is_said(tmp_path):
    needs("git")
    with pytest.raises(InputError, match="is not in a Git repository"):
        top_folder(tmp_path)


def test_a_history_lists_the_commits_that_touch_the_paths(repository):
    git(repository, "commit", "-m", "three", "src/a.c")
    (repository / "other").write_text("x")
    git(repository, "add", "other")
    git(repository, "commit", "-m", "other")
    first = find_commit(repository, "HEAD~3")
    subjects = [c.subject for c in commits_between(repository, first, "HEAD")]
    assert subjects == ["number 2", "three", "other"]
    of_paths = commits_between(repository, "", "HEAD", [str(repository / "src")])
    assert [c.subject for c in of_paths] == ["number 1", "number 2", "three"]
