"""How one plan differs from another: moves of single tasks, and children of two plans."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from zenturio.schedule.kernels.placing import FREE, NONE, arrival_of_edges
from zenturio.search.kernels.rng import below, unit

LOOSE_EARLIER = 0.7
FREED, DRAWN, FREED_EARLIER, EARLIER, LATER, SWAPPED = np.cumsum(
    [0.30, 0.20, 0.15, 0.10, 0.10, 0.08]
).tolist()
"""Up to which chance a move is which; beyond the last, some other tasks are freed with it."""
RUINED_GROUPS = 3


@njit(cache=True)
def critical_tasks(numbers: Any, board: Any, state: Any, found: Any) -> Any:
    """Fills *found* with tasks from the last end back, each a cause of the one before it.

    Returns how many they are. Of several causes, chance takes one.
    """
    at: Any = 0 if len(board.end) else NONE
    ties = 0
    for task in range(len(board.end)):
        if ties == 0 or board.end[task] > board.end[at]:
            at, ties = task, 1
        elif board.end[task] == board.end[at]:
            ties += 1
            if below(state, ties) == 0:
                at = task
    count = 0
    while at >= 0:
        found[count] = at
        count += 1
        at = cause_of_start(numbers, board, np.uint32(at), state)
    return count


@njit(cache=True)
def cause_of_start(numbers: Any, board: Any, task: Any, state: Any) -> Any:
    """A task without which *task* might start earlier, or none."""
    begin, place = board.start[task], board.place[task]
    found, ties = np.int64(NONE), 0
    other = board.above[task]
    if other >= 0 and board.end[other] == begin:
        found, ties = np.int64(other), 1
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        if arrival_of_edges(numbers, board, edge, edge + np.uint64(1), place) == begin:
            ties += 1
            if below(state, ties) == 0:
                found = np.int64(numbers.parent[edge])
    return found


@njit(cache=True)
def has_edge(numbers: Any, other: Any, task: Any) -> Any:
    """Whether *task* waits for *other*."""
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        if numbers.parent[edge] == other:
            return True
    return False


@njit(cache=True)
def move_earlier(case: Any, order: Any, at: Any, state: Any) -> None:
    """Moves the task at *at* forward in *order* by chance, not before what it waits for."""
    task, first = order[at], at
    while first > 0 and not has_edge(case.forth, order[first - 1], task):
        first -= 1
    if first < at:
        first += below(state, at - first)
        for i in range(at, first, -1):
            order[i] = order[i - 1]
        order[first] = task


@njit(cache=True)
def move_later(case: Any, order: Any, at: Any, state: Any) -> None:
    """Moves the task at *at* back in *order* by chance, not behind what waits for it."""
    task, last = order[at], at
    while last + 1 < len(order) and not has_edge(case.back, order[last + 1], task):
        last += 1
    if last > at:
        last -= below(state, last - at)
        for i in range(at, last):
            order[i] = order[i + 1]
        order[last] = task


@njit(cache=True)
def random_processor(case: Any, group: Any, state: Any) -> Any:
    """A processor by chance where *group* may run."""
    fits = case.fits[case.forth.row[group]]
    place = below(state, len(fits))
    while not fits[place]:
        place = below(state, len(fits))
    return place


@njit(cache=True)
def swap_groups(case: Any, genes: Any, one: Any, other: Any) -> None:
    """Lets two groups exchange their processors, if both can run there."""
    here, there = genes[one], genes[other]
    if min(here, there) == FREE:
        return
    row = case.forth.row
    if case.fits[row[one], there] and case.fits[row[other], here]:
        genes[one], genes[other] = there, here


@njit(cache=True)
def random_move(case: Any, order: Any, genes: Any, task: Any, state: Any) -> None:
    """Changes *order* and *genes* a little, such that *task* might end earlier."""
    at, count = 0, len(order)
    while order[at] != task:
        at += 1
    chance, group = unit(state), case.group[task]
    if case.loose:
        if chance < LOOSE_EARLIER:
            move_earlier(case, order, at, state)
        else:
            move_later(case, order, below(state, count), state)
    elif chance < FREED:
        genes[group] = FREE
    elif chance < DRAWN:
        genes[group] = random_processor(case, group, state)
    elif chance < FREED_EARLIER:
        move_earlier(case, order, at, state)
        genes[group] = FREE
    elif chance < EARLIER:
        move_earlier(case, order, at, state)
    elif chance < LATER:
        move_later(case, order, below(state, count), state)
    elif chance < SWAPPED:
        swap_groups(case, genes, group, case.group[below(state, count)])
    else:
        genes[group] = FREE
        for _ in range(RUINED_GROUPS):
            genes[case.group[below(state, count)]] = FREE


@njit(cache=True)
def crossover(
    case: Any, mother: Any, father: Any, genes: Any, theirs: Any, state: Any, order: Any, child: Any
) -> None:
    """Fills *order* and *child*: a part of the tasks as *father* has them, the others as *mother*.

    The first tasks come in the order of *mother*, then some in that of *father*, then what is
    left: so each still stands behind all that it waits for. *theirs* are the genes of *father*.
    """
    count = len(order)
    taken = np.zeros(count, np.bool_)
    one, other = below(state, count + 1), below(state, count + 1)
    first, stop = min(one, other), max(one, other)
    child[:] = genes
    at = fill_order(mother, 0, first, taken, order)
    at = fill_order(father, at, stop, taken, order)
    fill_order(mother, at, count, taken, order)
    for i in range(first, stop):
        group = case.group[order[i]]
        child[group] = theirs[group]


@njit(cache=True)
def fill_order(source: Any, at: Any, stop: Any, taken: Any, order: Any) -> Any:
    """Takes the first of *source* that were not *taken*, until *order* is filled up to *stop*."""
    i = 0
    while at < stop:
        task = source[i]
        if not taken[task]:
            taken[task] = True
            order[at] = task
            at += 1
        i += 1
    return at
