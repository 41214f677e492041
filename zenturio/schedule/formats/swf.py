"""Logs of clusters in the Standard Workload Format, as a load that leaves a share of the speed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.formats.document import place_at, read_text
from zenturio.schedule.platform import LoadStep
from zenturio.schedule.workflow import Floats

_SWF_FIELDS = 18
_MAX_FIELD = 1e15
_SIZE_HEADER = re.compile(r"^;\s*Max(Procs|Nodes):\s*(\d{1,15})\b", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class SwfJobs:
    """The jobs of a log that ran, in the order of the file."""

    start: Floats
    """Seconds since the log began: when it was submitted, and how long it waited."""
    end: Floats
    processors: NDArray[np.int64]
    size: int
    """Processors of the cluster: what the log says, or the most that were ever busy."""


def read_swf(path: str | Path) -> SwfJobs:
    """The jobs of the log *path*; those that never ran (no time, no processors) are left out."""
    text = read_text(Path(path))
    rows = _swf_rows(str(path), text)
    submit, wait, run = rows[:, 1], np.maximum(rows[:, 2], 0), rows[:, 3]
    allocated = np.where(rows[:, 4] > 0, rows[:, 4], rows[:, 7])
    ran = (run > 0) & (allocated > 0)
    start = (submit + wait)[ran]
    processors = allocated[ran].astype(np.int64)
    said = {kind: int(number) for kind, number in _SIZE_HEADER.findall(text)}
    end = start + run[ran]
    size = (
        said.get("Procs")
        or said.get("Nodes")
        or int(max(_busy_processors(start, end, processors)[1], default=0))
    )
    return SwfJobs(start, end, processors, size)


def _swf_rows(file: str, text: str) -> Floats:
    rows = []
    offset = 0
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith(";"):
            try:
                rows.append([float(each) for each in line.split()])
            except ValueError:
                at = place_at(file, text, offset)
                raise InputError("not a line of numbers", place=at) from None
            if len(rows[-1]) != _SWF_FIELDS or not all(abs(each) < _MAX_FIELD for each in rows[-1]):
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
    """The times at which the number of busy processors changes, and the number from then on."""
    times = np.concatenate([start, end])
    change = np.concatenate([processors, -processors]).astype(np.float64)
    at, which = np.unique(times, return_inverse=True)
    return at, np.cumsum(np.bincount(which, change, len(at)))


def load_steps(jobs: SwfJobs, size: int | None = None, start: float = 0.0) -> tuple[LoadStep, ...]:
    """The share of a cluster that *jobs* leave free, from *start* of the log on.

    Never 0, which would be a failure: where every processor is busy, the share of one is left.
    """
    size = size or jobs.size
    at, busy = _busy_processors(jobs.start, jobs.end, jobs.processors)
    share = np.maximum(1 - busy / max(size, 1), 1 / max(size, 1))
    before = int(np.searchsorted(at, start, "right"))
    now = float(share[before - 1]) if before else 1.0
    steps = [(0.0, now), *zip((at[before:] - start).tolist(), share[before:].tolist(), strict=True)]
    changes = [s for i, s in enumerate(steps) if i == 0 or s[1] != steps[i - 1][1]]
    return tuple(LoadStep(time, left) for time, left in changes)


def load_of_log(path: Path) -> tuple[LoadStep, ...]:
    return load_steps(read_swf(path))
