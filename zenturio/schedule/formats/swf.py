"""Cluster logs in the Standard Workload Format (SWF).

A log becomes the load of a machine: the share of the cluster that its jobs leave free.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.platform import LoadStep
from zenturio.schedule.model.workflow import Floats
from zenturio.settings.document import place_at, read_text

_SWF_FIELDS = 18
_MAX_FIELD = 1e15
SWF_SIZE_HEADER = re.compile(r"^;\s*Max(Procs|Nodes):\s*(\d{1,15})\b", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class SwfJobs:
    """The jobs of a log that ran, in file order."""

    start: Floats
    """Seconds since the log began: submission plus waiting time."""
    end: Floats
    processors: NDArray[np.int64]
    size: int
    """Processors of the cluster: from the header, or else the most that were ever busy."""


def read_swf(path: str | Path) -> SwfJobs:
    """Return the jobs of the log *path* that ran; those without time or processors are skipped."""
    text = read_text(Path(path))
    rows = swf_rows(str(path), text)
    submit, wait, run = rows[:, 1], np.maximum(rows[:, 2], 0), rows[:, 3]
    allocated = np.where(rows[:, 4] > 0, rows[:, 4], rows[:, 7])
    ran = (run > 0) & (allocated > 0)
    start = (submit + wait)[ran]
    processors = allocated[ran].astype(np.int64)
    header = {kind: int(number) for kind, number in SWF_SIZE_HEADER.findall(text)}
    end = start + run[ran]
    size = (
        header.get("Procs")
        or header.get("Nodes")
        or int(max(_busy_processors(start, end, processors)[1], default=0))
    )
    return SwfJobs(start, end, processors, size)


def swf_rows(file: str, text: str) -> Floats:
    rows = []
    offset = 0
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith(";"):
            try:
                rows.append([float(field) for field in line.split()])
            except ValueError:
                place = place_at(file, text, offset)
                raise InputError("not a line of numbers", place=place) from None
            if len(rows[-1]) != _SWF_FIELDS or not all(
                abs(field) < _MAX_FIELD for field in rows[-1]
            ):
                raise InputError(
                    f"{len(rows[-1])} numbers: a job of SWF has {_SWF_FIELDS} numbers, "
                    f"each below {_MAX_FIELD:g}",
                    place=place_at(file, text, offset),
                )
        offset += len(line) + 1
    return np.array(rows, np.float64).reshape(-1, _SWF_FIELDS)


def _busy_processors(
    start: Floats, end: Floats, processors: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return the times at which the number of busy processors changes, and the numbers."""
    times = np.concatenate([start, end])
    change = np.concatenate([processors, -processors]).astype(np.float64)
    instants, index = np.unique(times, return_inverse=True)
    return instants, np.cumsum(np.bincount(index, change, len(instants)))


def load_steps(jobs: SwfJobs, size: int | None = None, start: float = 0.0) -> tuple[LoadStep, ...]:
    """Return the share of a cluster that *jobs* leave free, from *start* of the log on.

    Never 0, which would be a failure: if every processor is busy, the share of one processor is
    left.
    """
    size = size or jobs.size
    instants, busy = _busy_processors(jobs.start, jobs.end, jobs.processors)
    share = np.maximum(1 - busy / max(size, 1), 1 / max(size, 1))
    count = int(np.searchsorted(instants, start, "right"))
    now = float(share[count - 1]) if count else 1.0
    steps = [
        (0.0, now),
        *zip((instants[count:] - start).tolist(), share[count:].tolist(), strict=True),
    ]
    changes = [s for i, s in enumerate(steps) if i == 0 or s[1] != steps[i - 1][1]]
    return tuple(LoadStep(time, free) for time, free in changes)


def load_of_log(path: Path) -> tuple[LoadStep, ...]:
    return load_steps(read_swf(path))
