"""Runs of tasks as columns, and what of very many can be seen.

A page with a million rectangles does not open, and most of them would be narrower than a pixel. So
of many processors every n-th is drawn, and on these neighbouring short runs are joined to one
stretch, which says how many they are and how busy it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.simulate.trace import ExecutionTrace

MOST_RECTANGLES = 20_000
"""Rectangles in a chart: a page of 4 MB, which a browser opens in seconds."""
MOST_ROWS = 2_000
"""Rows in a chart of more rectangles: about the height of a large screen in pixels."""
PIXELS = 2_000
"""Across the time axis of a large screen."""

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TaskRuns:
    """Runs of tasks; one on processors that are no neighbours has several rows here."""

    task: Indices
    start: Floats
    end: Floats
    first: Indices
    """Of its processors the first, by its place among those that are used."""
    last: Indices
    lost: NDArray[np.bool_]
    ending: tuple[str, ...] = ()
    """How each ended; empty where all ended well."""

    def __len__(self) -> int:
        return len(self.task)

    def _chosen(self, rows: NDArray[np.bool_]) -> TaskRuns:
        ending = tuple([self.ending[at] for at in np.flatnonzero(rows)]) if self.ending else ()
        return TaskRuns(
            self.task[rows], self.start[rows], self.end[rows], self.first[rows], self.last[rows],
            self.lost[rows], ending,
        )  # fmt: skip

    def on_every(self, step: int) -> TaskRuns:
        """The runs on every *step*-th processor, by its place among these."""
        if step == 1:
            return self
        first, last = -(-self.first // step), self.last // step
        chosen = self._chosen(first <= last)
        rows = first <= last
        return TaskRuns(
            chosen.task, chosen.start, chosen.end, first[rows], last[rows], chosen.lost,
            chosen.ending,
        )  # fmt: skip


def task_runs(schedule: Plan | MoldablePlan | ExecutionTrace) -> tuple[TaskRuns, Indices]:
    """Return all runs in the order of the schedule, and the numbers of the processors used."""
    ending: tuple[str, ...] = ()
    if isinstance(schedule, ExecutionTrace):
        runs = schedule.runs
        task = np.array([run.task for run in runs], np.int64)
        start = np.array([run.start for run in runs], np.float64)
        end = np.array([run.end for run in runs], np.float64)
        processor = np.array([run.processor for run in runs], np.int64)
        number = np.arange(len(task))
        ending = tuple([run.kind for run in runs])
    else:
        start, end = schedule.start, schedule.end
        task = np.arange(len(start))
        if isinstance(schedule, MoldablePlan):
            number, processor = np.repeat(task, schedule.counts), schedule.node.astype(np.int64)
        else:
            number, processor = task, schedule.processor.astype(np.int64)
    used, row = np.unique(processor, return_inverse=True)
    order = np.lexsort((row, number))
    number, row = number[order], row[order]
    begins = np.ones(len(row), dtype=np.bool_)
    begins[1:] = (np.diff(number) != 0) | (np.diff(row) > 1)
    at = number[begins]
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(row)) - 1
    lost = np.array([kind != "ended" for kind in ending], np.bool_)
    return TaskRuns(
        task[at], start[at], end[at], row[firsts], row[lasts] if len(row) else row[firsts],
        lost[at] if ending else np.zeros(len(at), np.bool_),
        tuple([ending[run] for run in at.tolist()]) if any(lost) else (),
    ), used  # fmt: skip


@dataclass(frozen=True)
class Stretches:
    """Runs in the order of their rows and starts, of which some are joined."""

    order: Indices
    """The runs, by their numbers."""
    begins: Indices
    """Where in this order each stretch begins."""
    shortest: float
    """Runs that last less than these seconds are joined."""


def joined_stretches(runs: TaskRuns, level: Indices, most: int) -> Stretches:
    """Join neighbouring short runs of a row until at most *most* rectangles are left.

    Runs of several levels, or lost and others, are joined within a pixel alone. Where that leaves
    more than *most*, a pixel is taken as twice as wide.
    """
    order = np.lexsort((runs.start, runs.last, runs.first))
    start, end, kind = runs.start[order], runs.end[order], (2 * level + runs.lost)[order]
    is_other_row = np.ones(len(order), dtype=np.bool_)
    is_other_row[1:] = (np.diff(runs.first[order]) != 0) | (np.diff(runs.last[order]) != 0)
    total = float(runs.end.max(initial=0.0))
    shortest = total / PIXELS
    while True:
        is_long = end - start >= shortest
        begins = is_other_row | is_long
        begins[1:] |= is_long[:-1] | (start[1:] - end[:-1] > shortest)
        pixel = np.floor(start / shortest) if shortest else start
        is_other_pixel = is_other_row.copy()
        is_other_pixel[1:] |= np.diff(pixel) != 0
        pixels = np.flatnonzero(is_other_pixel)
        least, greatest = (f.reduceat(kind, pixels) for f in (np.minimum, np.maximum))
        is_mixed = (least != greatest)[np.cumsum(is_other_pixel) - 1]
        is_unlike = (np.diff(kind) != 0) | is_mixed[1:] | is_mixed[:-1]
        begins[1:] |= is_other_pixel[1:] & is_unlike
        if np.count_nonzero(begins) <= most or shortest >= total:
            return Stretches(order, np.flatnonzero(begins), shortest)
        shortest *= 2


def level_of_each(stretches: Stretches, seconds: Floats, level: Indices, levels: int) -> Indices:
    """The level that takes most of the time of each stretch; *seconds* are those of each run."""
    count = len(stretches.begins)
    lengths = np.diff(np.append(stretches.begins, len(stretches.order)))
    cell = np.repeat(np.arange(count), lengths) * levels + level[stretches.order]
    # What takes no time counts a little: a stretch of such runs has a level as well.
    weights = seconds[stretches.order] + np.finfo(float).tiny
    sums = np.bincount(cell, weights, count * levels).reshape(count, levels)
    greatest: Indices = sums.argmax(axis=1)
    return greatest
