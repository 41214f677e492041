"""How children differ from their parents: crossover and mutation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from zenturio.search.kernels.rng import below, draw, unit

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
        skip = math.log1p(-unit(state)) * step
        if skip >= cells - at:
            return
        at += np.int64(skip)
        row, gene = at // width, at % width
        rows[row, gene] = mutated(kind, rows[row, gene], sizes[gene], ordered[gene], reach, state)
        at += 1
        if at >= cells:
            return
