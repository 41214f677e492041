"""The provenance of results: code, host and time; of the environment only listed variables."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple

from zenturio.errors import InputError
from zenturio.files import refuse_link
from zenturio.system.machine import cpu_mhz, cpu_model, system_name, usable_cores, usable_memory

if TYPE_CHECKING:
    from zenturio.expression import Value


ENVIRONMENT = (
    "CC",
    "CXX",
    "FC",
    "CFLAGS",
    "CXXFLAGS",
    "FFLAGS",
    "LDFLAGS",
    "CONDA_DEFAULT_ENV",
    "CUDA_VISIBLE_DEVICES",
    "GOMP_CPU_AFFINITY",
    "HOSTNAME",
    "KMP_AFFINITY",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOADEDMODULES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OPENBLAS_NUM_THREADS",
    "PATH",
    "SHELL",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_PARTITION",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)
"""Variables that may matter and hold no secret; no other is ever recorded."""


def provenance(folder: Path | None = None) -> dict[str, Any]:
    """Return how, where and when a study runs, in types of JSON."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "tool": tool_version(),
        "git": git_state(folder or Path.cwd()),
        "host": describe_host(),
        "python": platform.python_version(),
        "command": Path(sys.argv[0]).name if sys.argv else "",
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    }


@cache
def describe_host() -> dict[str, Any]:
    """This machine: name, CPU model, cores, memory in bytes, operating system."""
    return {
        "name": platform.node(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "memory": usable_memory(),
        "arch": platform.machine(),
        "os": system_name(),
        "kernel": platform.release(),
    }


def host_values() -> dict[str, Value]:
    """What REQUIRE and RANK may ask of this machine: host.cores, host.memory, host.load, ..."""
    facts = describe_host()
    values = {name: facts[name] for name in ("name", "arch", "cores", "memory", "cpu", "os")}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {**values, "mhz": cpu_mhz(), "load": load}


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit that *folder* is at and whether files differ from it; none without git.

    Nothing that the repository's own configuration names is executed: it may be a stranger's.
    """
    command = ["status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        lines = git_lines(folder, [*command, "--ignore-submodules=dirty"], own_filters(folder))
    except (OSError, subprocess.SubprocessError):
        return None
    facts = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit = facts.get("branch.oid", "")
    return {
        "commit": None if commit == "(initial)" else commit,
        "branch": facts.get("branch.head"),
        "dirty": any(not line.startswith("#") for line in lines),
    }


_GIT_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.pager=cat",
    "diff.external=",
    "status.submoduleSummary=false",
    "safe.bareRepository=explicit",
)
"""What Git executes or trusts because a repository's configuration says so, switched off."""

_GIT_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""A partial clone fetches what it lacks, by commands that its configuration names; and reading
must not write an index, which would call a hook."""


def git_lines(
    folder: Path,
    words: Sequence[str],
    settings: Sequence[str] = (),
    *,
    seconds: float = 10.0,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the lines that a command of Git prints about *folder*."""
    options = [word for setting in (*_GIT_SETTINGS, *settings) for word in ("-c", setting)]
    completed = subprocess.run(
        ["git", "--no-pager", *options, *words],
        cwd=folder,
        env={**os.environ, **_GIT_ENVIRONMENT, **(variables or {})},
        capture_output=True,
        errors="surrogateescape",
        timeout=seconds,
        check=True,
    )
    return completed.stdout.splitlines()


def own_filters(folder: Path) -> list[str]:
    """Settings that switch off the filters of the repository itself; those of the user stay."""
    words = ["config", "--null", "--show-scope", "--includes", "--get-regexp", r"^filter\."]
    try:
        entries = "\n".join(git_lines(folder, words)).split("\0")
    except subprocess.CalledProcessError:  # there is none
        return []
    names = set()
    for scope, entry in pairwise(entries):
        key = entry.partition("\n")[0]
        if scope in ("local", "worktree") and key.startswith("filter."):
            names.add(key.removeprefix("filter.").rpartition(".")[0])
    if any("=" in name for name in names):  # which no option of Git can name
        raise subprocess.SubprocessError("a filter that cannot be switched off")
    kinds = ("clean=", "smudge=", "process=", "required=false")
    return [f"filter.{name}.{kind}" for name in sorted(names) for kind in kinds]


def tool_version() -> str:
    """Return the version of zenturio that is installed."""
    from importlib.metadata import (  # noqa: PLC0415 - who only runs experiments is not asked
        PackageNotFoundError,
        version,
    )

    try:
        return version("zenturio")
    except PackageNotFoundError:
        return "not installed"


# Commits: their names, their order, and their files in folders of their own
#
# The checkout stays as it is, and nothing that the repository's own configuration names is
# executed.

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
    """Return the full hash of the commit *name*, such as HEAD~3."""
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
