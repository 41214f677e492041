"""Who has children: fitness of losses, and the ways to choose parents by it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from zenturio.search.kernels.rng import below, unit

REMAINDER, ROULETTE, TOURNAMENT, RANK, STEADY = range(5)


@njit(cache=True)
def fitness_of(losses: Any, worst: Any, scaling: Any) -> Any:
    """How fit each is: by how much better than the *worst* loss seen, linearly scaled.

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
            best: Any = np.int64(share * size)
            best = min(max(2, best), size)
            for i in range(len(chosen)):
                chosen[i] = order[i % best]
    for i in range(len(chosen) - 1, 0, -1):
        other = below(state, i + 1)
        chosen[i], chosen[other] = chosen[other], chosen[i]
