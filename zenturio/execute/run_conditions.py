"""What is noted of a run: the machine's state, and limits of threads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.execute.wire import (
    MalformedError,
    any_text,
    boolean,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    record,
    tuple_of,
)
from zenturio.system.machine import TICKS, LoadSample

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


_BINDING = {
    b"OMPI_MCA_hwloc_base_binding_policy": b"none",  # Open MPI up to 4
    b"PRTE_MCA_hwloc_default_binding_policy": b"none",  # from 5 on
}
"""What keeps an mpirun from binding its ranks: each one would begin with core 0, whichever cores
its slot has, so that several at a time share that one. MPICH does not bind by default.
"""


def unbound(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables to add so that ranks of MPI stay on the cores of their slot.

    Where the user says how Open MPI is to bind, nothing is added.
    """
    return {} if environment.keys() & _BINDING.keys() else dict(_BINDING)


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


def run_load(
    before: LoadSample, after: LoadSample, ctime: float, delay: float | None
) -> dict[str, Any]:
    """Return what varied between two samples, while a run used *ctime* and waited for *delay*."""
    seconds = after.at - before.at

    def share(first: int | None, last: int | None, whole: float) -> float | None:
        if first is None or last is None or whole <= 0:
            return None
        return min(max((last - first) / whole, 0.0), 1.0)

    def difference(first: int | None, last: int | None) -> int | None:
        return None if first is None or last is None or seconds <= 0 else max(last - first, 0)

    busy, total = difference(before.busy, after.busy), difference(before.total, after.total)
    return {
        "mhz_start": before.mhz,
        "mhz_end": after.mhz,
        "celsius_start": before.celsius,
        "celsius_end": after.celsius,
        "steal": share(before.steal, after.steal, total or 0),
        "pressure": share(before.pressure, after.pressure, seconds * 1e6),
        "memory_pressure": share(before.memory_pressure, after.memory_pressure, seconds * 1e6),
        "others_ctime": None if busy is None else max(busy / TICKS - ctime, 0.0),
        "runnable": before.runnable,
        "run_delay": delay,
        "throttled": difference(before.throttled, after.throttled),
        "governor": after.governor,
        "gpu_mhz_start": before.gpu_mhz,
        "gpu_mhz_end": after.gpu_mhz,
    }


STOPS = ("", "timeout", "cancelled", "memory", "processes", "unstartable")
_MOMENT = number(0, 1e12)
"""Seconds since 1970."""
_SECONDS = number(-1e9, 1e12)
_SIZE = integer(0, 2**62)
_LOAD = nullable(number(0, 1e9))
"""When the run began, and when it ended."""

_THREADS = object_of(one_of(*NAMES), any_text(1024), len(NAMES))

_OBSERVED = object_of(any_text(256), first_of(number(0, 1e30), any_text(1024)), 1024)
"""Values of the metrics of OBSERVE, or why there are none."""

_NUMBER = nullable(number(-1e6, 1e15))
_LOADS = record({
    **dict.fromkeys(
        ("mhz_start", "mhz_end", "celsius_start", "celsius_end", "steal", "pressure",
         "memory_pressure", "others_ctime", "run_delay", "gpu_mhz_start", "gpu_mhz_end"), _NUMBER,
    ),
    "runnable": nullable(_SIZE), "throttled": nullable(_SIZE), "governor": nullable(any_text(256)),
})  # fmt: skip
_check_reply = record({
    "stop": one_of(*STOPS), "why": any_text(4096), "step": integer(0, 2**16),
    "status": integer(-255, 255), "wtime": _SECONDS, "ctime": _SECONDS,
    "maxrss": nullable(_SIZE), "hidden": _SIZE, "started": _MOMENT, "ended": _MOMENT,
    "load": tuple_of(_LOAD, _LOAD), "sizes": tuple_of(_SIZE, _SIZE),
    "lengths": list_of(_SIZE, 4, 4),
}, {
    "threads": _THREADS, "machine": _LOADS, "cpus": integer(1, 2**16), "observed": _OBSERVED,
    "pinned": any_text(2**16), "user_mode": boolean, "slots": tuple_of(_SIZE, _SIZE, _SIZE),
})  # fmt: skip


def check_run_facts(reply: Any, steps: int) -> None:
    """MalformedError where *reply* is no account of a run of so many *steps*."""
    _check_reply(reply, "reply")
    if reply["step"] >= max(steps, 1):
        raise MalformedError(f"reply.step is {reply['step']} of {steps}")
