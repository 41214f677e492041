"""Commits: their names, their order, and their files in folders of their own.

The checkout stays as it is, and nothing that the repository's own configuration names is executed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from zenturio.errors import InputError
from zenturio.experiment.provenance import git_lines, own_filters
from zenturio.files import refuse_link

CHECKOUT_SECONDS = 600.0
"""How long writing the files of a commit may take."""


class Commit(NamedTuple):
    """A commit as a history lists it."""

    oid: str
    time: int
    """When it was committed, in seconds since 1970."""
    subject: str


def top_folder(folder: Path) -> Path:
    """Return the top of the working tree that *folder* lies in; InputError where there is none."""
    error = f"{folder} is not in a Git repository"
    return Path(_answer(folder, ["rev-parse", "--show-toplevel"], error)[0])


def find_commit(folder: Path, name: str) -> str:
    """Return the full name of the commit that *name*, such as HEAD~3, stands for."""
    top_folder(folder)  # a folder that is not in Git knows no commit for another reason
    error = f"Git knows no commit {name!r} in {folder}"
    # A name that begins with a dash would be an option.
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    lines = _answer(folder, words, error, "see git log; a shallow clone lacks old commits")
    return lines[-1]


def commits_between(folder: Path, first: str, last: str, paths: Sequence[str] = ()) -> list[Commit]:
    """Return the commits behind *first* up to *last* along first parents, the oldest first.

    With an empty *first* all of them; with *paths* those that touch one of these.
    """
    span = f"{first}..{last}" if first else last
    words = ["log", "--first-parent", "--reverse", "--format=%H %ct %s", "--end-of-options", span]
    lines = _answer(folder, [*words, "--", *paths], f"Git has no history of {span}")
    commits = (line.split(" ", 2) for line in lines)
    return [Commit(oid, int(time), subject) for oid, time, subject in commits]


def check_out(folder: Path, commit: str, store: Path) -> Path:
    """Return a folder below *store* with the files of *commit*, written there if they are not yet.

    *commit* is a full name. The checkout at *folder*, its index and its list of worktrees are not
    touched. Submodules stay empty.
    """
    target = store / commit
    refuse_link(target)
    if target.is_dir():
        return target
    top = top_folder(folder)
    temporary = Path(mkdtemp(prefix="writing-", dir=store))
    files = temporary / "files"
    try:
        filters = own_filters(top)
        # An index of its own: that of the checkout belongs to the user.
        variables = {"GIT_INDEX_FILE": str(temporary / "index")}
        for words in (["read-tree", commit], ["checkout-index", "--all", f"--prefix={files}/"]):
            git_lines(top, words, filters, seconds=CHECKOUT_SECONDS, variables=variables)
        try:
            files.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same files
                raise
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"commit {commit[:10]} cannot be written: {_reason(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _answer(folder: Path, words: Sequence[str], error: str, hint: str = "") -> list[str]:
    try:
        return git_lines(folder, words)
    except FileNotFoundError as missing:
        raise InputError("git is not installed", hint="install it to name commits") from missing
    except (OSError, subprocess.SubprocessError) as failure:
        raise InputError(error, hint=hint or _reason(failure)) from failure


def _reason(error: Exception) -> str:
    lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
