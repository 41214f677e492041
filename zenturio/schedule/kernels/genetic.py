"""From an order of tasks, and where each runs, to times: every task in the first gap that fits."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.search.kernels.generation import breed
from zenturio.search.kernels.genetic_search import inherited
from zenturio.search.kernels.rng import below, unit

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


@njit(cache=True)
def evaluate_plan(case: Any, order: Any, genes: Any, board: Any) -> Any:
    """The makespan of a plan; its genes are then where its tasks run, unless they stay free."""
    found = decode_plan(case, case.forth, order, genes, board)
    if not case.loose:
        genes[:] = board.home
    return found


@njit(cache=True)
def justify(case: Any, order: Any, genes: Any, board: Any) -> Any:
    """Every task as late as it may be, then as early; fills *order* and returns the makespan.

    On *board* is the plan before, and then the plan after. It is not longer but for rounding.
    """
    turned = np.empty_like(order)
    reversed_order(order, board.end, turned)
    decode_plan(case, case.back, turned, genes, board)
    reversed_order(turned, board.end, order)
    return evaluate_plan(case, order, genes, board)


@njit(cache=True)
def local_search(
    case: Any, order: Any, genes: Any, board: Any, tries: Any, bound: Any, state: Any
) -> Any:
    """Improves a plan until *tries* moves of critical tasks have been of no use.

    Returns its makespan, the sum of its ends, and how often a plan was decoded. Of plans that are
    as long, the one whose tasks end earlier is better: else most moves would go nowhere.
    """
    path = np.empty(len(order), np.int64)
    best, total, count = evaluate_plan(case, order, genes, board), board.end.sum(), 3
    trial, there = order.copy(), genes.copy()
    found = justify(case, trial, there, board)
    if found <= best:
        order[:], genes[:] = trial, there
        best, total = found, board.end.sum()
    else:
        evaluate_plan(case, order, genes, board)
        count += 1
    length, left = critical_tasks(case.forth, board, state, path), tries
    while left > 0 and best > bound:
        trial[:], there[:] = order, genes
        random_move(case, trial, there, np.uint32(path[below(state, length)]), state)
        found = evaluate_plan(case, trial, there, board)
        count += 1
        ends = board.end.sum()
        left = tries if found < best else left - 1
        if found < best or (found == best and ends <= total):
            best, total = found, ends
            order[:], genes[:] = trial, there
            length = critical_tasks(case.forth, board, state, path)
    return best, total, count


@njit(cache=True)
def is_better(marks: Any, one: Any, other: Any) -> Any:
    """Whether plan *one* is better than *other*."""
    if marks[one, 0] != marks[other, 0]:
        return marks[one, 0] < marks[other, 0]
    return marks[one, 1] < marks[other, 1]


@njit(cache=True)
def improve_all(
    case: Any, orders: Any, genes: Any, marks: Any, tries: Any, bound: Any, state: Any
) -> Any:
    """Improves each of the first plans, and fills *marks*; how often a plan was decoded."""
    board, count = empty_plan(orders.shape[1], len(case.forth.node)), 0
    for i in range(len(orders)):
        marks[i, 0], marks[i, 1], used = local_search(
            case, orders[i], genes[i], board, tries, bound, state
        )
        count += used
    return count


@njit(cache=True)
def tournament(marks: Any, state: Any) -> Any:
    """The better of two that chance takes."""
    one, other = below(state, len(marks)), below(state, len(marks))
    return other if is_better(marks, other, one) else one


@njit(cache=True)
def evolve_plans(
    case: Any,
    orders: Any,
    genes: Any,
    marks: Any,
    tries: Any,
    mutation: Any,
    bound: Any,
    state: Any,
    count: Any,
    stop: Any,
) -> Any:
    """Children, one by one, each for the worst of the plans, until *stop* plans were decoded.

    *count* were before. Returns how many they are now, at which the best was found (0: before),
    and how many children were born. A child whose like is there already is not taken.
    """
    board, born, last = empty_plan(orders.shape[1], len(case.forth.node)), 0, 0
    order, child = np.empty_like(orders[0]), np.empty_like(genes[0])
    best = marks[:, 0].min()
    while count < stop and best > bound:
        mother, father = tournament(marks, state), tournament(marks, state)
        crossover(
            case, orders[mother], orders[father], genes[mother], genes[father], state, order, child
        )
        while unit(state) < mutation:
            random_move(case, order, child, np.uint32(below(state, len(order))), state)
        found, total, used = local_search(case, order, child, board, tries, bound, state)
        count, born = count + used, born + 1
        worst, twin = 0, False
        for i in range(len(marks)):
            twin |= marks[i, 0] == found and marks[i, 1] == total
            if is_better(marks, worst, i):
                worst = i
        better = found < marks[worst, 0] or (found == marks[worst, 0] and total < marks[worst, 1])
        if better and not twin:
            orders[worst], genes[worst] = order, child
            marks[worst, 0], marks[worst, 1] = found, total
        if found < best:
            best, last = found, count
    return count, last, born


CRITICAL_CHANCE = 0.8
"""How likely a move is of a critical task; else it is of any."""


@njit(cache=True)
def anneal(
    case: Any, order: Any, genes: Any, hot: Any, cold: Any, count: Any, bound: Any, state: Any
) -> Any:
    """Makes *order* and *genes* the best plan that *count* moves lead to.

    A plan that is longer by a temperature is taken with a chance of 1 / e; that falls from *hot*
    to *cold* evenly in its logarithm. Returns the makespan, how many moves there were, and which
    found the best.
    """
    tasks = len(order)
    board, path = empty_plan(tasks, len(case.forth.node)), np.empty(tasks, np.int64)
    now = evaluate_plan(case, order, genes, board)
    length = critical_tasks(case.forth, board, state, path)
    best, last, done = now, 0, 0
    here, at = order.copy(), genes.copy()
    trial, there = order.copy(), genes.copy()
    heat, cooling = hot, (cold / hot) ** (1.0 / count)
    while done < count and best > bound:
        trial[:], there[:] = here, at
        near = unit(state) < CRITICAL_CHANCE
        task = path[below(state, length)] if near else below(state, tasks)
        random_move(case, trial, there, np.uint32(task), state)
        found = evaluate_plan(case, trial, there, board)
        done += 1
        heat *= cooling
        if found <= now or unit(state) < math.exp((now - found) / heat):
            now = found
            here[:], at[:] = trial, there
            length = critical_tasks(case.forth, board, state, path)
            if now < best:
                best, last = now, done
                order[:], genes[:] = here, at
    return best, done, last


class GeneCoding(NamedTuple):
    """What genes stand for: tasks by their place in the one order in which processors run them.

    All indices are without a sign, as those of ``Numbers``; arrays that lie in the order of
    the tasks are what makes it a fifth faster than ``play``, which takes any order.
    """

    gene: Any
    """Of each task."""
    allele: Any
    """The processor that each value of each gene is: a row for each gene."""
    sizes: Any
    """How many values each gene has."""
    work: Any
    row: Any
    pace: Any
    start: Any
    """Where in *parent* and *data* those that a task waits for begin."""
    parent: Any
    data: Any
    node: Any
    site: Any
    latency: Any
    """From each site to each, one row after the other."""
    slowness: Any
    sites: Any


class EvolutionLimits(NamedTuple):
    """How far a search goes, and what its fitness is."""

    generations: int
    patience: int
    """Generations without improvement that are borne."""
    const: float
    """Of the fitness Const - T, in worst plans seen."""


class PlanBuffers(NamedTuple):
    """Where one plan is played."""

    free: Any
    end: Any
    place: Any
    """Of each task, where it runs: the processor, its machine, its site."""
    node: Any
    site: Any


@njit(cache=True)
def plan_buffers(coding: Any) -> Any:
    """An empty desk."""
    tasks = len(coding.work)
    place, node, site = np.empty((3, tasks), np.uint32)
    return PlanBuffers(np.empty(len(coding.node)), np.empty(tasks), place, node, site)


@njit(cache=True, inline="always")  # as ``play``
def decoded_makespan(coding: Any, genes: Any, desk: Any) -> Any:
    """The makespan that *genes* stand for."""
    desk.free[:] = 0.0
    for task in range(len(coding.work)):
        gene = coding.gene[task]
        desk.place[task] = coding.allele[gene, genes[gene]]
    makespan = 0.0
    for task in range(len(coding.work)):
        place = desk.place[task]
        node, site = coding.node[place], coding.site[place]
        desk.node[task], desk.site[task] = node, site
        links = site * coding.sites  # links go both ways
        begin = desk.free[place]
        for edge in range(coding.start[task], coding.start[task + np.uint64(1)]):
            parent = coding.parent[edge]
            ready = desk.end[parent]
            if desk.node[parent] != node:
                link = links + desk.site[parent]
                ready += coding.latency[link] + coding.data[edge] * coding.slowness[link]
            begin = max(begin, ready)
        stop = begin + coding.work[task] * coding.pace[coding.row[task], place]
        desk.end[task] = stop
        desk.free[place] = stop
        makespan = max(makespan, stop)
    return makespan


@njit(cache=True)
def zero_fitness_loss(worst: Any, const: Any) -> Any:
    """The loss whose fitness is 0: *const* times the *worst* that was seen, or as far above it."""
    return worst + (const - 1.0) * abs(worst)


@njit(cache=True, nogil=True)  # several searches at a time, in threads
def evolve_2005(coding: Any, genes: Any, rules: Any, course: Any, state: Any) -> Any:
    """From the first generation *genes* to the last.

    The best genes and their makespan, the best of the first generation and of the last, how many
    plans were played and generations there were, and in which the best came first. A child that
    equals a parent is not played.
    """
    size, desk = len(genes), plan_buffers(coding)
    losses, before = np.empty(size), np.empty(size)
    children, parents = np.empty_like(genes), np.zeros((size, 2), np.int64)
    ordered = np.zeros(genes.shape[1], np.bool_)
    kept, best, first, worst = genes[0].copy(), np.inf, np.inf, -np.inf
    generation, last, played = 0, 0, 0
    while True:
        for i in range(size):
            loss = inherited(genes, i, parents, children, before) if generation else np.nan
            if np.isnan(loss):
                loss = decoded_makespan(coding, genes[i], desk)
                played += 1
            losses[i] = loss
            worst = max(worst, loss)
            if loss < best:
                best, last = loss, generation
                kept[:] = genes[i]
        if generation == 0:
            first = best
        generation += 1
        if generation >= course.generations or generation - 1 - last >= course.patience:
            return kept, best, first, losses.min(), played, generation, last + 1
        zero = zero_fitness_loss(worst, course.const)
        breed(genes, losses, zero, coding.sizes, ordered, rules, state, children, parents)
        genes, children = children, genes
        losses, before = before, losses
