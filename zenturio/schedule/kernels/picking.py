"""Tasks placed one by one, where each choice is among all that are ready."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.gaps import NONE
from zenturio.schedule.kernels.listing import data_arrivals, fill_arrivals

MIN_MIN, MAX_MIN, SUFFERAGE = range(3)


class BestProcessors(NamedTuple):
    """For each ready task, where it would end first, and where next."""

    place: Any
    begin: Any
    end: Any
    other: Any
    """The second best processor, or -1."""
    later: Any
    """When it would end there: infinite, if there is none."""


@njit(cache=True)
def find_best_two(
    numbers: Any, task: Any, home: Any, free: Any, arrivals: Any, place: Any, end: Any, choices: Any
) -> None:
    """Finds the best two processors for *task*, behind what runs there; or only *home*."""
    fill_arrivals(numbers, task, place, end, arrivals)
    work, pace = numbers.work[task], numbers.pace[numbers.row[task]]
    choices.place[task], choices.end[task] = 0, np.inf
    choices.other[task], choices.later[task] = NONE, np.inf
    first, last = 0, len(free)
    if home != NONE:
        first, last = home, home + 1
    for where in range(first, last):
        begin = max(free[where], arrivals.ready[where])
        ends = begin + work * pace[where]
        if ends < choices.end[task]:
            choices.other[task], choices.later[task] = choices.place[task], choices.end[task]
            choices.place[task], choices.begin[task], choices.end[task] = where, begin, ends
        elif ends < choices.later[task]:
            choices.other[task], choices.later[task] = where, ends


@njit(cache=True)
def merit(choices: Any, task: Any, rule: Any) -> Any:
    """The higher, the sooner *task* is placed."""
    if rule == MIN_MIN:
        return -choices.end[task]
    if rule == MAX_MIN:
        return choices.end[task]
    return choices.later[task] - choices.end[task]


@njit(cache=True)
def batch_mode(
    numbers: Any,
    group: Any,
    waits: Any,
    first: Any,
    child: Any,
    rule: Any,
    start: Any,
    end: Any,
    place: Any,
) -> None:
    """Fills *start*, *end* and *place*; of ready tasks of equal merit the lowest comes first."""
    tasks, processors = len(waits), len(numbers.node)
    free, arrivals, home = np.zeros(processors), data_arrivals(numbers), np.full(tasks, NONE)
    ready, count, left = np.empty(tasks, np.int64), 0, waits.copy()
    choices = BestProcessors(
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
    )
    for task in range(tasks):
        if left[task] == 0:
            ready[count] = task
            count += 1
            find_best_two(numbers, task, NONE, free, arrivals, place, end, choices)
    while count > 0:
        at, best = 0, -np.inf
        for i in range(count):
            found = merit(choices, ready[i], rule)
            if found > best or (found == best and ready[i] < ready[at]):
                at, best = i, found
        task, count = ready[at], count - 1
        ready[at] = ready[count]
        where, mine = choices.place[task], group[task]
        place[task], start[task], end[task] = where, choices.begin[task], choices.end[task]
        free[where] = end[task]
        for i in range(count):
            other = ready[i]
            bound = group[other] == mine and home[mine] == NONE
            stale = choices.place[other] == where or choices.other[other] == where
            if stale or bound:
                to = where if bound else home[group[other]]
                find_best_two(numbers, other, to, free, arrivals, place, end, choices)
        home[mine] = where
        for edge in range(first[task], first[task + 1]):
            other = child[edge]
            left[other] -= 1
            if left[other] == 0:
                ready[count] = other
                count += 1
                find_best_two(
                    numbers, other, home[group[other]], free, arrivals, place, end, choices
                )
