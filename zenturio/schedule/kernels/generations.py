"""The whole genetic search of 2005 for a short plan, in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.evaluate import play
from zenturio.search.kernels.breeding import breed
from zenturio.search.kernels.evolving import inherited


class Coding(NamedTuple):
    """What genes stand for."""

    gene: Any
    """Of each task."""
    allele: Any
    """The processor that each value of each gene is: a row for each gene."""
    sizes: Any
    """How many values each gene has."""
    order: Any
    """The tasks as processors run them."""


class Course(NamedTuple):
    """How far a search goes, and what its fitness is."""

    generations: int
    patience: int
    """Generations without improvement that are borne."""
    const: float
    """Of the fitness Const - T, in worst plans seen."""


@njit(cache=True)
def far(worst: Any, const: Any) -> Any:
    """The loss whose fitness is 0: *const* times the *worst* that was seen, or as far above it."""
    return worst + (const - 1.0) * abs(worst)


@njit(cache=True, nogil=True)  # several searches at a time, in threads
def evolve(numbers: Any, coding: Any, genes: Any, rules: Any, course: Any, state: Any) -> Any:
    """From the first generation *genes* to the last.

    The best genes and their makespan, the best of the first generation, how many generations
    there were, in which the best came first, and how often a plan was evaluated: a child that
    equals a parent is not.
    """
    size, tasks = len(genes), len(coding.order)
    losses, before = np.empty(size), np.empty(size)
    children, parents = np.empty_like(genes), np.zeros((size, 2), np.int64)
    free, start, end = np.empty(len(numbers.node)), np.empty(tasks), np.empty(tasks)
    place, ordered = np.empty(tasks, np.uint32), np.zeros(genes.shape[1], np.bool_)
    kept, best, first, worst = genes[0].copy(), np.inf, np.inf, -np.inf
    generation, last, count = 0, 0, 0
    while True:
        for i in range(size):
            loss = inherited(genes, i, parents, children, before) if generation else np.nan
            if np.isnan(loss):
                for task in range(tasks):
                    gene = coding.gene[task]
                    place[task] = coding.allele[gene, genes[i, gene]]
                loss = play(numbers, place, coding.order, free, start, end)
                count += 1
            losses[i] = loss
            worst = max(worst, loss)
            if loss < best:
                best, last = loss, generation
                kept[:] = genes[i]
        if generation == 0:
            first = best
        generation += 1
        if generation >= course.generations or generation - 1 - last >= course.patience:
            return kept, best, first, generation, last + 1, count
        zero = far(worst, course.const)
        breed(genes, losses, zero, coding.sizes, ordered, rules, state, children, parents)
        genes, children = children, genes
        losses, before = before, losses
