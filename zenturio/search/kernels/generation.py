"""A generation of a genetic search."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.search.kernels.rng import unit
from zenturio.search.kernels.selection import fitness_of, parents_of
from zenturio.search.kernels.variation import cross, mutate


class Rules(NamedTuple):
    """How generations follow each other; kinds are the numbers of ``selecting`` and ``varying``."""

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

    The elite comes first, unchanged, the best foremost. The last child of an odd number has a
    twin that is not born.
    """
    size = len(losses)
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
