"""From an order of tasks, and where each runs, to times: every task in the first gap that fits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

FREE = -1
"""In place of a processor: the one where the task ends first, when its turn comes."""
NONE = -1


class DecodingProblem(NamedTuple):
    """A problem, forwards and backwards in time."""

    forth: Any
    """Its ``Numbers``."""
    back: Any
    """Those of the problem in which every edge points the other way."""
    group: Any
    """Of each task, the number of the first of its group."""
    fits: Any
    """For each row of ``pace``, where it is finite: the same for all tasks of a group."""
    loose: bool
    """Whether all processors are alike, and data take no time: then genes stay free."""


class PartialPlan(NamedTuple):
    """A plan while it grows."""

    start: Any
    end: Any
    place: Any
    above: Any
    """The task before each on its processor, or none."""
    last: Any
    """Of each processor, the last task in time, or none."""
    home: Any
    """Of each group, its processor, or free."""


@njit(cache=True)
def empty_plan(tasks: Any, processors: Any) -> Any:
    """An empty board."""
    return PartialPlan(
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, np.uint32),
        np.full(tasks, NONE, np.int32),
        np.full(processors, NONE, np.int32),
        np.full(tasks, FREE, np.int32),
    )


@njit(cache=True)
def arrival_of_edges(numbers: Any, board: Any, first: Any, stop: Any, place: Any) -> Any:
    """When the data of the edges from *first* to before *stop* are on processor *place*.

    One call for all edges: what is called with so many arrays counts references of each.
    """
    found = 0.0
    for edge in range(first, stop):
        parent = numbers.parent[edge]
        ready = board.end[parent]
        if numbers.moves:
            origin = board.place[parent]
            if numbers.node[origin] != numbers.node[place]:
                here, there = numbers.site[origin], numbers.site[place]
                ready += numbers.latency[here, there]
                ready += numbers.data[edge] * numbers.slowness[here, there]
        found = max(found, ready)
    return found


@njit(cache=True)
def first_gap(board: Any, place: Any, ready: Any, length: Any) -> Any:
    """The first start from *ready* on, and the task behind it: none, if it becomes the last.

    Looks from the last task back, for that is where most tasks go.
    """
    begin, behind, at = ready, NONE, board.last[place]
    if at >= 0:
        begin = max(ready, board.end[at])
    while at >= 0 and board.start[at] >= ready + length:
        other, sooner = board.above[at], ready
        if other >= 0:
            sooner = max(ready, board.end[other])
        if sooner + length <= board.start[at]:
            begin, behind = sooner, at
        at = other
    return begin, behind


@njit(cache=True)
def link_before(board: Any, task: Any, place: Any, behind: Any) -> None:
    """Puts *task* in front of *behind* on its processor, or last."""
    if behind < 0:
        board.above[task] = board.last[place]
        board.last[place] = task
    else:
        board.above[task] = board.above[behind]
        board.above[behind] = task


@njit(cache=True)
def earliest_processor(case: Any, numbers: Any, board: Any, task: Any) -> Any:
    """The processor on which *task* ends first; of equal ones the first."""
    best: Any = np.inf
    found: Any = np.uint64(0)
    work, row = numbers.work[task], numbers.row[task]
    first, stop, least = numbers.start[task], numbers.start[task + np.uint64(1)], 0.0
    for edge in range(first, stop):
        least = max(least, board.end[numbers.parent[edge]])
    for place in range(np.uint64(len(numbers.node))):
        if not case.fits[row, place]:
            continue
        length = work * numbers.pace[row, place]
        if least + length >= best:
            continue
        begin = arrival_of_edges(numbers, board, first, stop, place) if numbers.moves else least
        if length > 0.0:
            begin, _ = first_gap(board, place, begin, length)
        if begin + length < best:
            best, found = begin + length, place
    return found


@njit(cache=True)
def decode_plan(case: Any, numbers: Any, order: Any, genes: Any, board: Any) -> Any:
    """Places each task of *order* where its group's gene says, and returns the makespan.

    *numbers* are those of *case*, forwards or backwards. A task without length is in nobody's way.
    """
    makespan = 0.0
    board.last[:] = NONE
    board.home[:] = genes
    for i in range(len(order)):
        task = order[i]
        group = case.group[task]
        if board.home[group] == FREE:
            board.home[group] = earliest_processor(case, numbers, board, task)
        place = np.uint32(board.home[group])
        first, stop = numbers.start[task], numbers.start[task + np.uint64(1)]
        begin = arrival_of_edges(numbers, board, first, stop, place)
        length = numbers.work[task] * numbers.pace[numbers.row[task], place]
        board.place[task] = place
        board.above[task] = NONE
        if length > 0.0:
            begin, behind = first_gap(board, place, begin, length)
            link_before(board, task, place, behind)
        board.start[task] = begin
        board.end[task] = begin + length
        makespan = max(makespan, begin + length)
    return makespan


@njit(cache=True)
def reversed_order(order: Any, end: Any, found: Any) -> None:
    """Fills *found* with the tasks of *order* by falling *end*, the later of equal ones first.

    So each stands after all that wait for it: an order for the problem backwards in time.
    """
    count = len(order)
    by = np.argsort(-end[order[::-1]], kind="mergesort")
    for i in range(count):
        found[i] = order[count - 1 - by[i]]
