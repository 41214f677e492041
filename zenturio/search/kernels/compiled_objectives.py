"""Whole searches of objectives that are compiled, too.

Their types are known beforehand, so Numba compiles them when this module is imported, which takes
seconds where nothing is cached. A search of programs does without.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, int64, njit, typeof, types, uint64

from zenturio.search.kernels.genetic_search import Rules, breed, inherited


class Limits(NamedTuple):
    """When a whole search ends."""

    generations: int
    patience: int
    """After so many generations without improvement."""
    budget: int
    """After so many evaluations."""
    target: float


_type: Any = typeof  # which says nothing of its own type
_RULES = _type(Rules(0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0))
_LIMITS = _type(Limits(0, 0, 0, 0.0))
_SCORE = types.FunctionType(float64(int64[::1]))
_ANSWER: Any = types.Tuple
_ROWS, _REALS = int64[:, ::1], float64[:, ::1]


@njit(cache=True)
def longer(rows: Any) -> Any:
    """Return *rows* with room for as many again."""
    grown = np.empty((2 * rows.shape[0], rows.shape[1]), dtype=rows.dtype)
    grown[: rows.shape[0]] = rows
    return grown


@njit(  # type: ignore[untyped-decorator] # for it has a signature
    _ANSWER((_ROWS, _REALS, _REALS, int64, types.unicode_type))(
        _SCORE, float64, _ROWS, int64[::1], boolean[::1], _RULES, _LIMITS, uint64[::1]
    ),
    cache=True,
    nogil=True,  # several searches at a time, in threads
)
def evolve(
    score: Any,
    sign: Any,
    genes: Any,
    sizes: Any,
    ordered: Any,
    rules: Any,
    limits: Any,
    state: Any,
) -> Any:
    """A whole search from the first generation *genes*; *sign* is -1 where scores are maximised.

    The rows that were better than all before, with the number of the evaluation and the loss of
    each; the best and the mean loss of each generation; how many evaluations there were, and what
    ended the search. A child that equals a parent is not evaluated.
    """
    size, width = genes.shape
    losses, before = np.empty(size), np.empty(size)
    children, parents = np.empty_like(genes), np.zeros((size, 2), dtype=np.int64)
    found, marks = np.empty((64, width), dtype=np.int64), np.empty((64, 2))
    history = np.empty((limits.generations, 2))
    count, finds, best, worst, last = 0, 0, np.inf, -np.inf, 0
    generation = 0
    while True:
        total, usable = 0.0, 0
        for i in range(size):
            # A child that equals a parent has its loss: converged generations cost few
            # evaluations.
            loss = inherited(genes, i, parents, children, before) if generation else np.nan
            if np.isnan(loss):
                if count >= limits.budget:
                    return found[:finds], marks[:finds], history[:generation], count, "budget"
                loss = sign * score(genes[i])
                loss = loss if np.isfinite(loss) else np.inf
                count += 1
            losses[i] = loss
            if loss < np.inf:
                total += loss
                usable += 1
                worst = max(worst, loss)
            if loss < best:
                # Records are rare: doubling now and then costs less than room for every
                # evaluation.
                if finds == len(found):
                    found, marks = longer(found), longer(marks)
                found[finds], marks[finds, 0], marks[finds, 1] = genes[i], count, loss
                best, last, finds = loss, generation, finds + 1
                if best <= limits.target:
                    return found[:finds], marks[:finds], history[:generation], count, "target"
        history[generation, 0] = losses.min()
        history[generation, 1] = total / usable if usable else np.inf
        generation += 1
        if generation >= limits.generations or generation - 1 - last >= limits.patience:
            return found[:finds], marks[:finds], history[:generation], count, "exhausted"
        breed(genes, losses, worst, sizes, ordered, rules, state, children, parents)
        genes, children = children, genes
        losses, before = before, losses


@njit(float64[::1](_SCORE, float64, int64[:, ::1]), cache=True)
def score_all(score: Any, sign: Any, genes: Any) -> Any:
    """Return the loss of each row: its score times *sign*; infinite unless it is finite."""
    losses = np.empty(len(genes))
    for i in range(len(genes)):
        loss = sign * score(genes[i])
        losses[i] = loss if np.isfinite(loss) else np.inf
    return losses
