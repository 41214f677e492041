"""The whole genetic search of 2005 for a short plan, in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.search.kernels.generation import breed
from zenturio.search.kernels.genetic_search import inherited


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
