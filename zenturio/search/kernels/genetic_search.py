"""Kernels of the genetic engine: selection, variation, generations. Compiled when first called."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from zenturio.search.kernels.optional_numba import njit
from zenturio.search.kernels.rng import below, draw, unit

REMAINDER, ROULETTE, TOURNAMENT, RANK, STEADY = range(5)


@njit(cache=True)
def fitness_of(losses: Any, worst: Any, scaling: Any) -> Any:
    """Return how fit each is: by how much better than the *worst* loss seen, linearly scaled.

    With a factor above 1 the mean stays, and the best becomes *scaling* times the mean, unless
    the least fit would then be below nothing, which becomes 0 instead (Goldberg 1989, chapter 3).
    """
    size = len(losses)
    fitness = np.zeros(size)
    count, total, most, least = 0, 0.0, -np.inf, np.inf
    for i in range(size):
        if losses[i] < np.inf:
            fitness[i] = worst - losses[i]
            count += 1
            total += fitness[i]
            most = max(most, fitness[i])
            least = min(least, fitness[i])
    if count == 0 or scaling <= 1.0 or most <= least:
        return fitness
    mean = total / count
    # Scaling the best to *scaling* times the mean leaves the least fit above 0; otherwise the
    # least fit becomes 0, and the best as much as that allows.
    if least * (scaling - 1.0) > scaling * mean - most:
        slope = (scaling - 1.0) * mean / (most - mean)
        shift = mean * (most - scaling * mean) / (most - mean)
    else:
        slope = mean / (mean - least)
        shift = -least * mean / (mean - least)
    for i in range(size):
        if losses[i] < np.inf:
            fitness[i] = max(0.0, slope * fitness[i] + shift)
    return fitness


@njit(cache=True)
def wheel(weights: Any, state: Any, chosen: Any, start: Any) -> None:
    """Fill *chosen* from *start* on, each by its share of *weights*, evenly if all are 0."""
    size = len(weights)
    ends = np.cumsum(weights)
    for i in range(start, len(chosen)):
        if ends[size - 1] > 0.0:
            spun = unit(state) * ends[size - 1]
            # Rounding may put the last draw at the very end of the wheel.
            chosen[i] = min(np.searchsorted(ends, spun, side="right"), size - 1)
        else:
            chosen[i] = below(state, size)


@njit(cache=True)
def remainder(fitness: Any, state: Any, chosen: Any) -> None:
    """Each as often as its share has whole parts, the rest by a wheel of what is left of shares."""
    size = len(fitness)
    total = 0.0
    for i in range(size):
        total += fitness[i]
    filled: Any = 0
    rests = np.zeros(size)
    if total > 0.0:
        for i in range(size):
            share = fitness[i] / total * len(chosen)
            copies: Any = np.int64(share)
            rests[i] = share - copies
            # Rounded shares may add up to one copy too many.
            copies = min(copies, len(chosen) - filled)
            chosen[filled : filled + copies] = i
            filled += copies
    wheel(rests, state, chosen, filled)


@njit(cache=True)
def tournaments(losses: Any, rounds: Any, state: Any, chosen: Any) -> None:
    """The best of some that are drawn, again and again; of equal ones the one drawn first."""
    for i in range(len(chosen)):
        best = below(state, len(losses))
        for _ in range(rounds - 1):
            other = below(state, len(losses))
            if losses[other] < losses[best]:
                best = other
        chosen[i] = best


@njit(cache=True)
def parents_of(
    kind: Any, fitness: Any, losses: Any, rounds: Any, share: Any, state: Any, chosen: Any
) -> None:
    """Fill *chosen* with those that have children, in mixed order."""
    size = len(losses)
    if kind == REMAINDER:
        remainder(fitness, state, chosen)
    elif kind == ROULETTE:
        wheel(fitness, state, chosen, 0)
    elif kind == TOURNAMENT:
        tournaments(losses, rounds, state, chosen)
    else:
        order = np.argsort(losses, kind="mergesort")
        if kind == RANK:
            weights = np.zeros(size)
            for rank in range(size):
                weights[order[rank]] = size - rank
            wheel(weights, state, chosen, 0)
        else:
            # STEADY: the best ones in turn, two at the least.
            best: Any = np.int64(share * size)
            best = min(max(2, best), size)
            for i in range(len(chosen)):
                chosen[i] = order[i % best]
    # Fisher-Yates: neighbours become couples, so their order must not tell how they were chosen.
    for i in range(len(chosen) - 1, 0, -1):
        other = below(state, i + 1)
        chosen[i], chosen[other] = chosen[other], chosen[i]


SINGLE, TWO, UNIFORM = range(3)
RANDOM, STEP = range(2)

_BIT = np.uint64(1)


@njit(cache=True)
def exchange(one: Any, other: Any, start: Any, stop: Any) -> None:
    """Exchange the genes from *start* to before *stop*."""
    for gene in range(start, stop):
        one[gene], other[gene] = other[gene], one[gene]


@njit(cache=True)
def cross(kind: Any, one: Any, other: Any, state: Any) -> None:
    """Exchange genes of two children behind a cut, between two cuts, or each by a coin."""
    length = len(one)
    if length < 2:
        return
    if kind == SINGLE:
        exchange(one, other, 1 + below(state, length - 1), length)
    elif kind == TWO:
        first = below(state, length)
        second = below(state, length)
        exchange(one, other, min(first, second), max(first, second) + 1)
    else:
        bits = draw(state)
        for gene in range(length):
            if gene and gene % 64 == 0:
                bits = draw(state)
            if bits & _BIT:
                one[gene], other[gene] = other[gene], one[gene]
            bits >>= _BIT


@njit(cache=True)
def mutated(kind: Any, gene: Any, size: Any, ordered: Any, reach: Any, state: Any) -> Any:
    """Another value for a gene: any, or a step up or down where values are ordered."""
    if size < 2:
        return gene
    if kind == RANDOM or not ordered:
        # Of one value less, skipping the present one: uniform over all others.
        other = below(state, size - 1)
        return other + 1 if other >= gene else other
    step = 1 + below(state, max(1, np.int64(reach * (size - 1))))
    if draw(state) & _BIT:
        step = -step
    if gene + step < 0 or gene + step >= size:
        step = -step
    return min(max(gene + step, 0), size - 1)


@njit(cache=True)
def mutate(
    kind: Any, rate: Any, reach: Any, rows: Any, sizes: Any, ordered: Any, state: Any
) -> None:
    """Mutate each gene of *rows* with chance *rate*; chance is asked how far the next one is."""
    width = rows.shape[1]
    cells = rows.shape[0] * width
    if rate <= 0.0 or cells == 0:
        return
    step = 0.0 if rate >= 1.0 else 1.0 / math.log1p(-rate)
    at: Any = 0
    while True:
        # Distances between mutated genes are geometric: one draw for each mutation, not for each
        # gene, which at usual rates is hundreds of times fewer.
        skip = math.log1p(-unit(state)) * step
        if skip >= cells - at:
            return
        at += np.int64(skip)
        row, gene = at // width, at % width
        rows[row, gene] = mutated(kind, rows[row, gene], sizes[gene], ordered[gene], reach, state)
        at += 1
        if at >= cells:
            return


class Rules(NamedTuple):
    """How generations follow each other; kinds are the constants above."""

    selection: int
    crossover: int
    mutation: int
    rounds: int
    elite: int
    share: float
    crossover_rate: float
    mutation_rate: float
    reach: float
    scaling: float


@njit(cache=True)
def breed(
    genes: Any,
    losses: Any,
    worst: Any,
    sizes: Any,
    ordered: Any,
    rules: Any,
    state: Any,
    children: Any,
    parents: Any,
) -> None:
    """Fill *children* with the next generation, and *parents* with the two that each is of.

    There may be fewer children than *genes* has rows. The elite comes first, unchanged, the best
    foremost. The last child of an odd number has a twin that is not born.
    """
    size = len(children)
    elite = min(rules.elite, size)
    if elite == 1:
        children[0] = genes[np.argmin(losses)]
        parents[0] = np.argmin(losses)
    elif elite > 0:
        order = np.argsort(losses, kind="mergesort")
        for i in range(elite):
            children[i] = genes[order[i]]
            parents[i] = order[i]
    fitness = fitness_of(losses, worst, rules.scaling)
    chosen = np.empty((size - elite + 1) // 2 * 2, dtype=np.int64)
    parents_of(rules.selection, fitness, losses, rules.rounds, rules.share, state, chosen)
    unborn = np.empty(genes.shape[1], dtype=np.int64)
    for i in range(0, len(chosen), 2):
        at, father, mother = elite + i, chosen[i], chosen[i + 1]
        # Crossover takes two rows; the second of the last pair is thrown away.
        twin = children[at + 1] if at + 1 < size else unborn
        for gene in range(genes.shape[1]):  # faster than the assignment of slices
            children[at, gene] = genes[father, gene]
            twin[gene] = genes[mother, gene]
        parents[at, 0], parents[at, 1] = father, mother
        if at + 1 < size:
            parents[at + 1, 0], parents[at + 1, 1] = mother, father
        if unit(state) < rules.crossover_rate:
            cross(rules.crossover, children[at], twin, state)
    mutate(
        rules.mutation,
        rules.mutation_rate,
        rules.reach,
        children[elite:],
        sizes,
        ordered,
        state,
    )


@njit(cache=True)
def inherited(genes: Any, at: Any, parents: Any, before: Any, losses: Any) -> Any:
    """Return the loss of the parent that row *at* of *genes* equals; NaN, if it equals none."""
    for which in range(2):
        parent, gene = parents[at, which], 0
        while gene < genes.shape[1] and genes[at, gene] == before[parent, gene]:
            gene += 1
        if gene == genes.shape[1]:
            return losses[parent]
    return np.nan
