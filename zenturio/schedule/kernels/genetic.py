"""Search for plans: decoding, moves and crossover, local search, annealing, and the GA of 2005.

A plan is encoded as an order of tasks and a gene (a processor, or FREE) for each group. The decoder
places each task into the first gap that fits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.capacities import empty_timeline, place_by_capacity
from zenturio.search.kernels.genetic_search import breed, inherited
from zenturio.search.kernels.rng import below, unit

FREE = -1
"""A gene that lets the decoder choose the processor where the task finishes first."""
NONE = -1


class DecodingProblem(NamedTuple):
    """A problem, forwards and backwards in time."""

    forth: Any
    """Its ``ProblemArrays``."""
    back: Any
    """Those of the problem with all edges reversed."""
    group: Any
    """For each task, the first task of its group."""
    fits: Any
    """Where ``pace`` is finite; the same for all tasks of a group."""
    capacities: Any
    """Its ``CapacityArrays``."""
    loose: bool
    """Whether all processors are identical and transfers take no time; then genes stay FREE."""


class PartialPlan(NamedTuple):
    """A plan that is being decoded."""

    start: Any
    end: Any
    place: Any
    above: Any
    """The task before each one on its processor, or -1."""
    last: Any
    """The last task of each processor, or -1."""
    home: Any
    """The processor of each group, or FREE."""
    line: Any
    """The ``Timeline`` of machines that tasks share."""


@njit(cache=True)
def empty_plan(case: Any) -> Any:
    """Return a partial plan of *case* without tasks."""
    tasks, processors = len(case.group), len(case.forth.node)
    return PartialPlan(
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, np.uint32),
        np.full(tasks, NONE, np.int32),
        np.full(processors, NONE, np.int32),
        np.full(tasks, FREE, np.int32),
        empty_timeline(case.capacities, tasks),
    )


@njit(cache=True)
def arrival_of_edges(numbers: Any, board: Any, first: Any, stop: Any, place: Any) -> Any:
    """Return when the data of the edges from *first* up to *stop* arrive on *place*.

    One call for all edges: each call with so many arrays pays for counting their references.
    """
    arrival = 0.0
    for edge in range(first, stop):
        parent = numbers.parent[edge]
        ready = board.end[parent]
        if numbers.moves:
            origin = board.place[parent]
            if numbers.node[origin] != numbers.node[place]:
                origin_site, target_site = numbers.site[origin], numbers.site[place]
                ready += numbers.latency[origin_site, target_site]
                ready += numbers.data[edge] * numbers.slowness[origin_site, target_site]
        arrival = max(arrival, ready)
    return arrival


@njit(cache=True)
def first_gap(board: Any, place: Any, ready: Any, length: Any) -> Any:
    """Return the first start from *ready* on, and the task after it, or -1 if it comes last.

    Searches from the last task backwards, because most tasks are placed near the end.
    """
    # Tasks that start before *ready* + *length* end the search: a gap before them is too early.
    begin, behind, next_task = ready, NONE, board.last[place]
    if next_task >= 0:
        begin = max(ready, board.end[next_task])
    while next_task >= 0 and board.start[next_task] >= ready + length:
        previous, sooner = board.above[next_task], ready
        if previous >= 0:
            sooner = max(ready, board.end[previous])
        if sooner + length <= board.start[next_task]:
            begin, behind = sooner, next_task
        next_task = previous
    return begin, behind


@njit(cache=True)
def link_before(board: Any, task: Any, place: Any, behind: Any) -> None:
    """Insert *task* before *behind* on its processor, or last if that is -1."""
    if behind < 0:
        board.above[task] = board.last[place]
        board.last[place] = task
    else:
        board.above[task] = board.above[behind]
        board.above[behind] = task


@njit(cache=True)
def earliest_processor(case: Any, numbers: Any, board: Any, task: Any) -> Any:
    """Return the processor on which *task* finishes first; the lowest on ties."""
    best: Any = np.inf
    best_place: Any = np.uint64(0)
    work, row = numbers.work[task], numbers.row[task]
    first, stop, inputs_ready = numbers.start[task], numbers.start[task + np.uint64(1)], 0.0
    for edge in range(first, stop):
        inputs_ready = max(inputs_ready, board.end[numbers.parent[edge]])
    for place in range(np.uint64(len(numbers.node))):
        if not case.fits[row, place]:
            continue
        length = work * numbers.pace[row, place]
        # No gap on this processor can beat the best: skip the search.
        if inputs_ready + length >= best:
            continue
        begin = (
            arrival_of_edges(numbers, board, first, stop, place) if numbers.moves else inputs_ready
        )
        if length > 0.0:
            begin, _ = first_gap(board, place, begin, length)
        if begin + length < best:
            best, best_place = begin + length, place
    return best_place


@njit(cache=True)
def decode_plan(case: Any, numbers: Any, order: Any, genes: Any, board: Any) -> Any:
    """Decode *order* and *genes* into *board*, and return the makespan.

    *numbers* are those of *case*, forwards or backwards. A task of zero length delays no other.
    """
    makespan = 0.0
    board.last[:] = NONE
    board.home[:] = genes
    if case.capacities.active:
        return place_by_capacity(
            numbers, case.capacities, board.line, order, case.group, board.home, np.empty((0, 0)),
            board.start, board.end, board.place,
        )  # fmt: skip
    for i in range(len(order)):
        task = order[i]
        group = case.group[task]
        # The first task of a group decides for all of them.
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
def reversed_order(order: Any, end: Any, result: Any) -> None:
    """Fill *result* with the tasks of *order* by descending *end*, the later ones first on ties.

    It is a topological order of the problem backwards in time.
    """
    count = len(order)
    permutation = np.argsort(-end[order[::-1]], kind="mergesort")
    for i in range(count):
        result[i] = order[count - 1 - permutation[i]]


LOOSE_EARLIER = 0.7
FREED, DRAWN, FREED_EARLIER, EARLIER, LATER, SWAPPED = np.cumsum(
    [0.30, 0.20, 0.15, 0.10, 0.10, 0.08]
).tolist()
"""Cumulative probabilities of the moves; beyond the last, some random groups are freed as well."""
RUINED_GROUPS = 3


@njit(cache=True)
def critical_tasks(numbers: Any, board: Any, state: Any, path: Any) -> Any:
    """Fill *path* with tasks from the last end back, each causing the start of the next.

    Return their number. Of several causes, a random one is followed.
    """
    # Reservoir sampling: each of the tied tasks is equally likely, in a single pass.
    task_at: Any = 0 if len(board.end) else NONE
    ties = 0
    for task in range(len(board.end)):
        if ties == 0 or board.end[task] > board.end[task_at]:
            task_at, ties = task, 1
        elif board.end[task] == board.end[task_at]:
            ties += 1
            if below(state, ties) == 0:
                task_at = task
    count = 0
    while task_at >= 0:
        path[count] = task_at
        count += 1
        task_at = cause_of_start(numbers, board, np.uint32(task_at), state)
        # Rounded times of shared machines might close a cycle of causes.
        if count == len(path):
            return count
    return count


@njit(cache=True)
def cause_of_start(numbers: Any, board: Any, task: Any, state: Any) -> Any:
    """Return a task that keeps *task* from starting earlier, or -1."""
    # Exact comparison is right here: the start is the maximum of these same expressions.
    begin, place = board.start[task], board.place[task]
    cause, ties = np.int64(NONE), 0
    previous = board.above[task]
    if previous >= 0 and board.end[previous] == begin:
        cause, ties = np.int64(previous), 1
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        if arrival_of_edges(numbers, board, edge, edge + np.uint64(1), place) == begin:
            ties += 1
            if below(state, ties) == 0:
                cause = np.int64(numbers.parent[edge])
    # Where tasks share a machine, each that ends at this moment may have made the room.
    if len(board.line.last):
        for other in range(len(board.end)):
            if board.end[other] == begin and board.place[other] == place and other != task:
                ties += 1
                if below(state, ties) == 0:
                    cause = np.int64(other)
    return cause


@njit(cache=True)
def has_edge(numbers: Any, predecessor: Any, task: Any) -> Any:
    """Return whether *task* depends directly on *predecessor*."""
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        if numbers.parent[edge] == predecessor:
            return True
    return False


@njit(cache=True)
def move_earlier(case: Any, order: Any, position: Any, state: Any) -> None:
    """Move the task at *position* to a random earlier position, not before its predecessors."""
    # Precedence limits the move: stop at the first predecessor.
    task, first = order[position], position
    while first > 0 and not has_edge(case.forth, order[first - 1], task):
        first -= 1
    if first < position:
        first += below(state, position - first)
        for i in range(position, first, -1):
            order[i] = order[i - 1]
        order[first] = task


@njit(cache=True)
def move_later(case: Any, order: Any, position: Any, state: Any) -> None:
    """Move the task at *position* to a random later position, not behind its successors."""
    # Precedence limits the move: stop at the first successor.
    task, last = order[position], position
    while last + 1 < len(order) and not has_edge(case.back, order[last + 1], task):
        last += 1
    if last > position:
        last -= below(state, last - position)
        for i in range(position, last):
            order[i] = order[i + 1]
        order[last] = task


@njit(cache=True)
def random_processor(case: Any, group: Any, state: Any) -> Any:
    """Return a random processor that can run *group*."""
    fits = case.fits[case.forth.row[group]]
    place = below(state, len(fits))
    # This ends, because a problem has a processor for each group.
    while not fits[place]:
        place = below(state, len(fits))
    return place


@njit(cache=True)
def swap_groups(case: Any, genes: Any, first: Any, second: Any) -> None:
    """Exchange the processors of two groups, if both can run there."""
    first_place, second_place = genes[first], genes[second]
    if min(first_place, second_place) == FREE:
        return
    row = case.forth.row
    if case.fits[row[first], second_place] and case.fits[row[second], first_place]:
        genes[first], genes[second] = second_place, first_place


@njit(cache=True)
def random_move(case: Any, order: Any, genes: Any, task: Any, state: Any) -> None:
    """Change *order* or *genes* slightly, so that *task* might end earlier."""
    position, count = 0, len(order)
    while order[position] != task:
        position += 1
    # The limits are cumulated: one draw decides which move it is.
    draw, group = unit(state), case.group[task]
    if case.loose:
        if draw < LOOSE_EARLIER:
            move_earlier(case, order, position, state)
        else:
            move_later(case, order, below(state, count), state)
    elif draw < FREED:
        genes[group] = FREE
    elif draw < DRAWN:
        genes[group] = random_processor(case, group, state)
    elif draw < FREED_EARLIER:
        move_earlier(case, order, position, state)
        genes[group] = FREE
    elif draw < EARLIER:
        move_earlier(case, order, position, state)
    elif draw < LATER:
        move_later(case, order, below(state, count), state)
    elif draw < SWAPPED:
        swap_groups(case, genes, group, case.group[below(state, count)])
    else:
        # Ruin and recreate: the decoder places some groups anew, where they end first.
        genes[group] = FREE
        for _ in range(RUINED_GROUPS):
            genes[case.group[below(state, count)]] = FREE


@njit(cache=True)
def crossover(
    case: Any, mother: Any, father: Any, genes: Any, theirs: Any, state: Any, order: Any, child: Any
) -> None:
    """Fill *order* and *child* from two plans: order crossover, with the genes of the middle part.

    The first tasks are in the order of *mother*, then some in that of *father*, then the rest, so
    precedence is kept (the two-point crossover of Hartmann, 1998). *theirs* are the genes of
    *father*.
    """
    count = len(order)
    used = np.zeros(count, np.bool_)
    cut, second_cut = below(state, count + 1), below(state, count + 1)
    first, stop = min(cut, second_cut), max(cut, second_cut)
    child[:] = genes
    filled = fill_order(mother, 0, first, used, order)
    filled = fill_order(father, filled, stop, used, order)
    fill_order(mother, filled, count, used, order)
    for i in range(first, stop):
        group = case.group[order[i]]
        child[group] = theirs[group]


@njit(cache=True)
def fill_order(source: Any, filled: Any, stop: Any, used: Any, order: Any) -> Any:
    """Append the first unused tasks of *source* to *order*, up to *stop*."""
    i = 0
    while filled < stop:
        task = source[i]
        if not used[task]:
            used[task] = True
            order[filled] = task
            filled += 1
        i += 1
    return filled


@njit(cache=True)
def evaluate_plan(case: Any, order: Any, genes: Any, board: Any) -> Any:
    """Return the makespan of a plan, and store where its tasks run unless genes stay FREE."""
    makespan = decode_plan(case, case.forth, order, genes, board)
    # Fix the processors that the decoder chose, so that children inherit them.
    if not case.loose:
        genes[:] = board.home
    return makespan


@njit(cache=True)
def justify(case: Any, order: Any, genes: Any, board: Any) -> Any:
    """Shift every task as late as possible, then as early; return the makespan.

    Double justification: Valls, Ballestin and Quintanilla (EJOR 165, 2005).

    *board* holds the plan before and after. The plan never becomes longer, except by rounding.
    """
    reversed_tasks = np.empty_like(order)
    reversed_order(order, board.end, reversed_tasks)
    decode_plan(case, case.back, reversed_tasks, genes, board)
    reversed_order(reversed_tasks, board.end, order)
    return evaluate_plan(case, order, genes, board)


@njit(cache=True)
def local_search(
    case: Any, order: Any, genes: Any, board: Any, tries: Any, bound: Any, state: Any
) -> Any:
    """Improve a plan until *tries* moves of critical tasks in a row have failed.

    Return its makespan, the sum of its ends, and the number of decodings. On equal makespans,
    earlier ends are better; otherwise most moves would lead nowhere.
    """
    # One decoding by `evaluate_plan`, two by `justify`.
    path = np.empty(len(order), np.int64)
    best, total, count = evaluate_plan(case, order, genes, board), board.end.sum(), 3
    trial, trial_genes = order.copy(), genes.copy()
    makespan = justify(case, trial, trial_genes, board)
    if makespan <= best:
        order[:], genes[:] = trial, trial_genes
        best, total = makespan, board.end.sum()
    else:
        # The board still holds the rejected plan, and the critical path is read from it.
        evaluate_plan(case, order, genes, board)
        count += 1
    length, tries_left = critical_tasks(case.forth, board, state, path), tries
    while tries_left > 0 and best > bound:
        trial[:], trial_genes[:] = order, genes
        random_move(case, trial, trial_genes, np.uint32(path[below(state, length)]), state)
        makespan = evaluate_plan(case, trial, trial_genes, board)
        count += 1
        ends = board.end.sum()
        tries_left = tries if makespan < best else tries_left - 1
        if makespan < best or (makespan == best and ends <= total):
            best, total = makespan, ends
            order[:], genes[:] = trial, trial_genes
            length = critical_tasks(case.forth, board, state, path)
    return best, total, count


@njit(cache=True)
def is_better(marks: Any, one: Any, other: Any) -> Any:
    """Return whether plan *one* is better than *other*."""
    if marks[one, 0] != marks[other, 0]:
        return marks[one, 0] < marks[other, 0]
    return marks[one, 1] < marks[other, 1]


@njit(cache=True, nogil=True)  # islands are threads
def improve_all(
    case: Any, orders: Any, genes: Any, marks: Any, tries: Any, bound: Any, state: Any
) -> Any:
    """Improve each of the first plans, fill *marks*, and return the number of decodings."""
    board, count = empty_plan(case), 0
    for i in range(len(orders)):
        marks[i, 0], marks[i, 1], used = local_search(
            case, orders[i], genes[i], board, tries, bound, state
        )
        count += used
    return count


@njit(cache=True)
def tournament(marks: Any, state: Any) -> Any:
    """Return the better of two random plans."""
    first, second = below(state, len(marks)), below(state, len(marks))
    return second if is_better(marks, second, first) else first


@njit(cache=True, nogil=True)
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
    """Create children one at a time, each replacing the worst plan, until *stop* decodings.

    *count* decodings were made before. Return their number now, the number at the best plan (0:
    earlier), and the number of children. A child that equals a plan in makespan and sum of ends is
    rejected.
    """
    board, children, last = empty_plan(case), 0, 0
    order, child = np.empty_like(orders[0]), np.empty_like(genes[0])
    best = marks[:, 0].min()
    while count < stop and best > bound:
        mother, father = tournament(marks, state), tournament(marks, state)
        crossover(
            case, orders[mother], orders[father], genes[mother], genes[father], state, order, child
        )
        while unit(state) < mutation:
            random_move(case, order, child, np.uint32(below(state, len(order))), state)
        makespan, total, used = local_search(case, order, child, board, tries, bound, state)
        count, children = count + used, children + 1
        # The child replaces the worst plan; duplicates would make the population converge early.
        worst, is_duplicate = 0, False
        for i in range(len(marks)):
            is_duplicate |= marks[i, 0] == makespan and marks[i, 1] == total
            if is_better(marks, worst, i):
                worst = i
        is_improvement = makespan < marks[worst, 0] or (
            makespan == marks[worst, 0] and total < marks[worst, 1]
        )
        if is_improvement and not is_duplicate:
            orders[worst], genes[worst] = order, child
            marks[worst, 0], marks[worst, 1] = makespan, total
        if makespan < best:
            best, last = makespan, count
    return count, last, children


CRITICAL_CHANCE = 0.8
"""Probability that a move changes a critical task; otherwise any task."""


@njit(cache=True)
def anneal(
    case: Any, order: Any, genes: Any, hot: Any, cold: Any, count: Any, bound: Any, state: Any
) -> Any:
    """Search for the best plan by *count* moves, which is stored in *order* and *genes*.

    A plan that is longer by one temperature is accepted with probability 1 / e. The temperature
    falls from *hot* to *cold* exponentially. Return the makespan, the number of moves, and the move
    that found the best plan.
    """
    tasks = len(order)
    board, path = empty_plan(case), np.empty(tasks, np.int64)
    now = evaluate_plan(case, order, genes, board)
    length = critical_tasks(case.forth, board, state, path)
    best, last, done = now, 0, 0
    current_order, current_genes = order.copy(), genes.copy()
    trial, trial_genes = order.copy(), genes.copy()
    temperature, cooling = hot, (cold / hot) ** (1.0 / count)
    while done < count and best > bound:
        trial[:], trial_genes[:] = current_order, current_genes
        is_critical = unit(state) < CRITICAL_CHANCE
        task = path[below(state, length)] if is_critical else below(state, tasks)
        random_move(case, trial, trial_genes, np.uint32(task), state)
        makespan = evaluate_plan(case, trial, trial_genes, board)
        done += 1
        # Geometric cooling: the temperature reaches *cold* after *count* moves.
        temperature *= cooling
        if makespan <= now or unit(state) < math.exp((now - makespan) / temperature):
            now = makespan
            current_order[:], current_genes[:] = trial, trial_genes
            length = critical_tasks(case.forth, board, state, path)
            if now < best:
                best, last = now, done
                order[:], genes[:] = current_order, current_genes
    return best, done, last


class GeneCoding(NamedTuple):
    """What genes encode, with the tasks in the single order in which processors run them.

    Indices are unsigned, as in ``ProblemArrays``. Arrays that follow the order of the tasks make it
    a fifth faster than ``plan_times``, which takes any order.
    """

    gene: Any
    """The gene of each task."""
    allele: Any
    """The processor of each value of each gene; one row for each gene."""
    sizes: Any
    """The number of values of each gene."""
    work: Any
    row: Any
    pace: Any
    start: Any
    """Where the predecessors of a task begin in *parent* and *data*."""
    parent: Any
    data: Any
    node: Any
    site: Any
    latency: Any
    """From each site to each, row by row."""
    slowness: Any
    sites: Any


class EvolutionLimits(NamedTuple):
    """When a search ends, and the constant of its fitness."""

    generations: int
    patience: int
    """Generations without improvement before it stops."""
    const: float
    """Const of the fitness Const - T, as a multiple of the worst makespan seen."""


class PlanBuffers(NamedTuple):
    """Buffers to evaluate one plan."""

    free: Any
    end: Any
    place: Any
    """Where each task runs: its processor, machine and site."""
    node: Any
    site: Any


@njit(cache=True)
def plan_buffers(coding: Any) -> Any:
    """Return buffers for a plan."""
    tasks = len(coding.work)
    place, node, site = np.empty((3, tasks), np.uint32)
    return PlanBuffers(np.empty(len(coding.node)), np.empty(tasks), place, node, site)


@njit(cache=True, inline="always")  # as ``play``
def decoded_makespan(coding: Any, genes: Any, desk: Any) -> Any:
    """Return the makespan that *genes* encode."""
    desk.free[:] = 0.0
    for task in range(len(coding.work)):
        gene = coding.gene[task]
        # The first alleles are the processors that fit, as many as the gene's size: no row of genes
        # is invalid.
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
    """Return the loss whose fitness is 0: *const* times the *worst* seen, or as far above it."""
    return worst + (const - 1.0) * abs(worst)


@njit(cache=True, nogil=True)  # so that several searches can run in threads
def evolve_2005(coding: Any, genes: Any, rules: Any, limits: Any, state: Any) -> Any:
    """Run the whole genetic search from the first generation *genes* to the last.

    Return the best genes and makespan, the best of the first and of the last generation, the
    numbers of plans evaluated and of generations, and the generation of the best. A child equal to
    a parent is not evaluated.
    """
    size, desk = len(genes), plan_buffers(coding)
    losses, previous_losses = np.empty(size), np.empty(size)
    children, parents = np.empty_like(genes), np.zeros((size, 2), np.int64)
    ordered = np.zeros(genes.shape[1], np.bool_)
    best_genes, best, first, worst = genes[0].copy(), np.inf, np.inf, -np.inf
    generation, best_generation, evaluated = 0, 0, 0
    while True:
        for i in range(size):
            # A child that equals a parent inherits its loss without a new evaluation.
            loss = inherited(genes, i, parents, children, previous_losses) if generation else np.nan
            if np.isnan(loss):
                loss = decoded_makespan(coding, genes[i], desk)
                evaluated += 1
            losses[i] = loss
            worst = max(worst, loss)
            if loss < best:
                best, best_generation = loss, generation
                best_genes[:] = genes[i]
        if generation == 0:
            first = best
        generation += 1
        if generation >= limits.generations or generation - 1 - best_generation >= limits.patience:
            return best_genes, best, first, losses.min(), evaluated, generation, best_generation + 1
        zero = zero_fitness_loss(worst, limits.const)
        breed(genes, losses, zero, coding.sizes, ordered, rules, state, children, parents)
        genes, children = children, genes
        losses, previous_losses = previous_losses, losses
