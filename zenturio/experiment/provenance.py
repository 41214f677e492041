"""Where results come from: code, host and time; of the environment only what is on a list."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """All that is worth knowing about how, where and when a study ran; of JSON's types only."""
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
    """The commit that *folder* is at and whether files differ from it; none without git.

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
    """The version of zenturio that is installed."""
    from importlib.metadata import (  # noqa: PLC0415 - who only runs experiments is not asked
        PackageNotFoundError,
        version,
    )

    try:
        return version("zenturio")
    except PackageNotFoundError:
        return "not installed"
