"""A study as a network of queues: a driver, a scheduler, workers, and the driver again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scaling.costs import BEHIND, GROUP

from zenturio.execute.dask.ticket_queue import BatchSizer

# From README.md, where the commands are that measured them.
DASK_TASKS = 328.0
"""Tasks a second that bare Dask hands out."""
DASK_WORK = 0.0006
"""Seconds of a worker that an experiment in a batch takes beside its program."""
SLURM_JOBS = 33.9
"""Tasks of job arrays a second that Slurm starts."""
SLURM_WORK = 0.24
"""Seconds of processor time that the Python of such a job takes."""
SSH_EXPERIMENTS = 51.0
"""Whole experiments a second through one host, both ends on two cores."""


@dataclass(frozen=True)
class Line:
    """The stations that an experiment passes, in seconds for each; *window* are in flight."""

    place: str
    database: str
    give: float
    """Of the driver, before an experiment is handed over."""
    take: float
    """Of the driver, when it is back."""
    dispatch: float
    """Of the place's scheduler."""
    work: float
    """Of a worker."""
    window: int


@njit(cache=False)
def play(count, workers, give, take, dispatch, work, window):  # type: ignore[no-untyped-def]
    """Seconds until all are recorded, and the most that were in flight; first come, first served.

    All last equally long, so that they end in the order in which they began.
    """
    free = np.zeros(workers)
    ended = np.zeros(window)
    driver = scheduler = 0.0
    given = taken = most = 0
    while taken < count:
        if taken < given and ended[taken % window] <= driver:
            driver += take
            taken += 1
        elif given < count and given - taken < window:
            driver += give
            scheduler = max(scheduler, driver) + dispatch
            begun = max(scheduler, free[given % workers])
            ended[given % window] = free[given % workers] = begun + work
            given += 1
            most = max(most, given - taken)
        else:
            driver = ended[taken % window]
    return driver, most


def lines(costs: dict[str, Any], workers: int, seconds: float) -> list[Line]:
    """What each place with each database does with experiments of *seconds*."""
    make, pack_, files = costs["make"], costs["pack"], costs["files"]["letter"]
    batches = BatchSizer(None)
    batches.observe(seconds)
    together = batches.size
    ahead = 3 * together if batches.sends_ahead else 2
    found = []
    for database, whole in costs["driver"].items():
        groups = costs["database"][database]
        whole += groups[BEHIND] - groups[GROUP]  # noqa: PLW2901 - which grows with the rows
        give = (whole + make) / 2  # making and claiming; the rest is recording
        take = whole - give
        more, window = pack_ / 2, ahead * workers
        pace = 1 / (DASK_TASKS * together)
        found.append(
            Line("dask", database, give + more, take + more, pace, seconds + DASK_WORK, window)
        )
    # Where schedulers give way long before databases do, one of these is enough.
    more, window = files / 2, 2 * workers
    work = seconds + SLURM_WORK
    found += [
        Line("slurm", database, give + more, take + more, 1 / SLURM_JOBS, work, window),
        Line("hosts", database, give, take, 1 / SSH_EXPERIMENTS, seconds, window),
    ]
    return found


def foretold(line: Line, experiments: int, workers: int) -> dict[str, Any]:
    """How long it takes, how busy each part is, and where each gives way."""
    driver, scheduler = line.give + line.take, line.dispatch
    window = min(line.window, experiments)
    total, most = play(experiments, workers, line.give, line.take, scheduler, line.work, window)
    busy = {
        "driver": driver * experiments / total,
        "scheduler": scheduler * experiments / total,
        "workers": line.work * experiments / workers / total,
    }
    return {
        "place": line.place, "database": line.database, "rate": experiments / total,
        "hours": total / 3600, "in flight": int(most), "busy": busy, "driver": 1 / driver,
        "scheduler": 1 / scheduler, "enough": workers * max(driver, scheduler),
        "bottleneck": max(busy, key=lambda name: busy[name]),
    }  # fmt: skip
