"""What is noted of a run: the machine's state, and limits of threads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.execute.json_checks import (
    MalformedError,
    any_text,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    record,
    tuple_of,
)

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


STOPS = ("", "timeout", "cancelled", "memory", "processes", "unstartable")
_MOMENT = number(0, 1e12)
"""Seconds since 1970."""
_SECONDS = number(-1e9, 1e12)
_SIZE = integer(0, 2**62)
_LOAD = nullable(number(0, 1e9))
"""When the run began, and when it ended."""

_THREADS = object_of(one_of(*NAMES), any_text(1024), len(NAMES))

_check_reply = record({
    "stop": one_of(*STOPS), "why": any_text(4096), "step": integer(0, 2**16),
    "status": integer(-255, 255), "wtime": _SECONDS, "ctime": _SECONDS,
    "maxrss": nullable(_SIZE), "hidden": _SIZE, "started": _MOMENT, "ended": _MOMENT,
    "load": tuple_of(_LOAD, _LOAD), "sizes": tuple_of(_SIZE, _SIZE),
    "lengths": list_of(_SIZE, 4, 4),
}, {"threads": _THREADS})  # fmt: skip


def check_run_facts(reply: Any, steps: int) -> None:
    """MalformedError where *reply* is no account of a run of so many *steps*."""
    _check_reply(reply, "reply")
    if reply["step"] >= max(steps, 1):
        raise MalformedError(f"reply.step is {reply['step']} of {steps}")
