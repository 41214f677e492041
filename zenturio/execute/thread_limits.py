"""Variables that limit the threads of an experiment's libraries to its number of CPUs.

By default, OpenMP and most libraries of linear algebra start a thread for each core of the machine:
experiments that run side by side would compete for the cores.
This file is also sent to hosts: it uses only the standard library of Python 3.9.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

OPENMP = "OMP_NUM_THREADS"
_FOLLOWERS = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""Libraries fall back to OMP_NUM_THREADS where these variables are not set."""
_OTHERS = ("VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")
NAMES = (OPENMP, *_FOLLOWERS, *_OTHERS)
_MOST = {"NUMEXPR_NUM_THREADS": 64}
"""NumExpr refuses to be imported with more than 64."""
_LAUNCHER = re.compile(
    r"(?:^|[\s;&|(/])(?:mpirun|mpiexec|orterun|prterun|srun)(?:\.\w+)?\s([^;&|\n]*)"
)
_RANKS = re.compile(r"(?:^|\s)(?:-n|-np|--n|--np|--ntasks)[\s=]*([0-9]{1,9})(?![0-9])")


def thread_limits(
    threads: int, environment: Mapping[bytes, bytes], commands: Sequence[str]
) -> dict[bytes, bytes]:
    """Return the variables to add so that *commands* start *threads* threads in all.

    A variable that the environment or a command sets is left alone. Setting OMP_NUM_THREADS
    also covers the libraries that fall back to it. Ranks of MPI share the threads.
    """
    text = "\n".join(commands)
    assigned = {
        name for name in NAMES if os.fsencode(name) in environment or _is_assigned(name, text)
    }
    names = _OTHERS if OPENMP in assigned else NAMES
    count = max(threads // max(_ranks(command, threads) for command in commands or ("",)), 1)
    return {
        os.fsencode(name): b"%d" % min(count, _MOST.get(name, count))
        for name in names
        if name not in assigned
    }


def recorded_limits(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return OMP_NUM_THREADS of an experiment, and the other variables that differ from it."""
    openmp = environment.get(os.fsencode(OPENMP))
    values = {name: environment.get(os.fsencode(name)) for name in NAMES}
    return {
        name: value[:256].decode("utf-8", "replace")
        for name, value in values.items()
        if value is not None and (name == OPENMP or value != openmp)
    }


def _is_assigned(name: str, text: str) -> bool:
    """Return whether a command in *text* sets the variable *name*.

    As ``NAME=4 ./a``, ``mpirun -x NAME=4`` or ``mpiexec -genv NAME 4``.
    """
    return name in text and re.search(rf"\b{name}=|env\s+{name}\s", text) is not None


def _ranks(command: str, threads: int) -> int:
    """Return how many processes MPI starts: *threads* if the command gives no number."""
    launcher = _LAUNCHER.search(command)
    if launcher is None:
        return 1
    ranks = _RANKS.search(launcher.group(1))
    return max(int(ranks.group(1)), 1) if ranks else max(threads, 1)
