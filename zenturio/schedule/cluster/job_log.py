"""Jobs of a cluster, read from logs in the Standard Workload Format or from tables."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.formats.platforms import SWF_SIZE_HEADER, swf_rows
from zenturio.schedule.model.workflow import Floats
from zenturio.settings.document import read_text

_MAX_BYTES = 2**30
_TABLE_COLUMNS = ("submit", "run", "processors")


@dataclass(frozen=True, eq=False)
class JobLog:
    """Rigid jobs in order of submission; equal times in the order of the file."""

    name: str
    submit: Floats
    """Seconds."""
    run: Floats
    estimate: Floats
    """What the user said how long it runs; never less than it does, because no job is killed."""
    processors: NDArray[np.int64]
    user: NDArray[np.int64]
    size: int
    """Processors of the cluster; 0 if the log does not say."""
    skipped: int = 0
    """Jobs that never ran, or without a number of processors."""

    def __len__(self) -> int:
        return len(self.submit)


def is_job_log(words: Sequence[str]) -> bool:
    """Return whether *words* name a single log of jobs."""
    return len(words) == 1 and words[0].lower().endswith((".swf", ".swf.gz", ".jobs.csv"))


def read_job_log(path: str | Path) -> JobLog:
    """Return the jobs of an SWF log (may be gzipped) or of a table ``NAME.jobs.csv``.

    Raise InputError if a line is wrong, or no job ran.
    """
    path = Path(path)
    log = _table(path) if path.name.endswith(".jobs.csv") else _swf(path)
    if not len(log):
        raise InputError(f"{path}: no job ran")
    return log


def _swf(path: Path) -> JobLog:
    text = _unpacked(path) if path.suffix == ".gz" else read_text(path)
    rows = swf_rows(str(path), text)
    # Requested processors stand in where the allocated ones are unknown, and the other way.
    processors = np.where(rows[:, 4] > 0, rows[:, 4], rows[:, 7])
    header = {kind: int(number) for kind, number in SWF_SIZE_HEADER.findall(text)}
    return _sorted_log(
        path.name,
        np.stack([rows[:, 1], rows[:, 3], rows[:, 8], processors, rows[:, 11]]),
        header.get("Procs") or header.get("Nodes") or 0,
    )


def _unpacked(path: Path) -> str:
    try:
        with gzip.open(path, "rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if len(content) > _MAX_BYTES:
        raise InputError(f"{path}: more than 1 GiB when unpacked")
    return content.decode("utf-8", "replace")


def _table(path: Path) -> JobLog:
    reader = csv.DictReader(StringIO(read_text(path)))
    missing = [name for name in _TABLE_COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]!r}",
            hint="submit,run,processors and, where known, estimate,user",
        )
    users: dict[str, int] = {}
    columns: list[tuple[float, ...]] = []
    for row in reader:
        user = users.setdefault(row.get("user") or "", len(users))
        try:
            numbers = [float(row[name]) for name in _TABLE_COLUMNS]
            estimate = float(row.get("estimate") or -1)
        except (TypeError, ValueError):
            raise InputError(f"{path}:{reader.line_num}: not a job of numbers") from None
        columns.append((numbers[0], numbers[1], estimate, numbers[2], user))
    return _sorted_log(path.name, np.array(columns, np.float64).reshape(-1, 5).T, 0)


def _sorted_log(name: str, columns: Floats, size: int) -> JobLog:
    """Return the log of the rows submit, run, estimate, processors and user."""
    ran = (
        (columns[1] > 0) & (columns[3] >= 1) & (columns[0] >= 0) & np.isfinite(columns).all(axis=0)
    )
    jobs = columns[:, ran]
    jobs = jobs[:, np.argsort(jobs[0], kind="stable")]
    return JobLog(
        name, jobs[0], jobs[1], np.maximum(jobs[1], jobs[2]),
        jobs[3].astype(np.int64), jobs[4].astype(np.int64), size, int((~ran).sum()),
    )  # fmt: skip
