"""From a plan to its times on machines whose load changes: a simulation without its events.

Where nobody decides anything while the plan is carried out, its tasks can be played one after the
other, each through the loads of its machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class LoadArrays(NamedTuple):
    """For each machine the times at which its share changes, and to what."""

    start: Any
    time: Any
    share: Any


@njit(cache=True)
def play_loaded(
    numbers: Any, loads: Any, processor: Any, order: Any, free: Any, start: Any, end: Any
) -> Any:
    """Fills *start* and *end*, the last ones of each task, and returns the makespan.

    A task that is lost with its machine fetches its data again, and starts when it is back. One of
    no length is in nobody's way.
    """
    makespan = 0.0
    for i in range(len(order)):
        end[i] = np.inf
        free[processor[i]] = 0.0
    for i in range(len(order)):
        task = order[i]
        place = processor[task]
        left = numbers.work[task] * numbers.pace[numbers.row[task], place]
        known, lost = 0.0, True
        while lost:
            begin = arrival_under_load(numbers, processor, end, task, known)
            if left > 0.0:
                begin = max(begin, free[place])
            start[task], stop, lost = run_under_load(loads, numbers.node[place], begin, left)
            known = stop
            if left > 0.0:
                free[place] = stop
        end[task] = stop
        makespan = max(makespan, stop)
    return makespan


@njit(cache=True)
def arrival_under_load(numbers: Any, processor: Any, end: Any, task: Any, known: Any) -> Any:
    """When the data of *task* are there, which is sent to its processor at *known*."""
    begin, place = known, processor[task]
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        parent = numbers.parent[edge]
        origin, ready = processor[parent], max(end[parent], known)
        if numbers.node[origin] != numbers.node[place]:
            here, there = numbers.site[origin], numbers.site[place]
            ready += (
                numbers.latency[here, there] + numbers.data[edge] * numbers.slowness[here, there]
            )
        begin = max(begin, ready)
    return begin


@njit(cache=True)
def run_under_load(loads: Any, machine: Any, begin: Any, left: Any) -> Any:
    """Start and end of *left* seconds from *begin* on; or when they are lost with the machine."""
    at, last = loads.start[machine], loads.start[machine + np.uint32(1)]
    share = 1.0
    while at < last and loads.time[at] <= begin:
        share = loads.share[at]
        at += np.uint64(1)
    while share <= 0.0:
        if at == last:
            return np.inf, np.inf, False
        begin, share = loads.time[at], loads.share[at]
        at += np.uint64(1)
        while at < last and loads.time[at] <= begin:
            share = loads.share[at]
            at += np.uint64(1)
    now = begin
    while True:
        stop = now + left / share
        if stop != stop:  # no work, where it cannot run  # noqa: PLR0124
            stop = np.inf
        if at == last or stop <= loads.time[at]:
            return begin, stop, False
        left = max(left - (loads.time[at] - now) * share, 0.0)
        now, share = loads.time[at], loads.share[at]
        at += np.uint64(1)
        if share <= 0.0:
            return begin, now, True
