"""Searches whose objective is compiled: no Python is called for a point."""

from __future__ import annotations

import math
from time import monotonic
from typing import Any

import numpy as np

from zenturio.errors import InputError
from zenturio.search.factors import Ints
from zenturio.search.ga import Ga
from zenturio.search.objective import Goals, Trial
from zenturio.search.result import Result, Rows
from zenturio.search.search import Search
from zenturio.search.stops import Budget, Stops
from zenturio.search.walker import Walker

ENDLESS = 1 << 62


def is_kernel(objective: Any) -> bool:
    """Whether *objective* was compiled by Numba."""
    return hasattr(objective, "py_func") and hasattr(objective, "nopython_signatures")


def search_compiled(
    search: Search, kernel: Any, goals: Goals, budget: Budget, stops: Stops
) -> Result:
    """Search with a *kernel*: a function of a row of genes, compiled by Numba, with one score.

    A kernel is evaluated sooner than it can be remembered: here a budget counts evaluations, and
    a point may be evaluated more than once.
    """
    if not isinstance(search, Walker) or len(goals) > 1:
        raise InputError(
            "a compiled objective has one score, and is for engines that work on genes",
            hint="engine='ga', or an objective that takes points",
        )
    if stops.stall or stops.share or budget.seconds:
        raise InputError(
            "a search with a compiled objective ends by its budget of trials or its target",
            hint="budget=100_000, stops='target=12.5', and settings such as generations, steady",
        )
    began, sign = monotonic(), 1.0 if goals.directions[0] == "minimize" else -1.0
    target = -math.inf if stops.target is None else sign * stops.target
    limit = ENDLESS if budget.trials is None else budget.trials
    if isinstance(search, Ga) and search.genome.free and search.genome.length:
        found, marks, count, ended = _whole(search, _typed(kernel), sign, limit, target)
    else:
        found, marks, count, ended = _by_batches(search, _typed(kernel), sign, limit, target)
    scores = [(sign * loss,) for loss in marks[:, 1].tolist()]
    trials = Rows(search.genome, found, scores)
    best: Trial | None = trials[-1] if len(trials) else None
    numbers = marks[:, 0].astype(np.int64).tolist()
    return Result(trials, best, goals, ended, count, monotonic() - began, numbers)


def _typed(kernel: Any) -> Any:
    """*kernel*, compiled for a row of genes."""
    from numba import float64, int64  # noqa: PLC0415 - half a second
    from numba.core.errors import NumbaError  # noqa: PLC0415

    wanted = float64(int64[::1])
    try:
        if wanted.args not in kernel.overloads:
            kernel.compile(wanted)
    except (NumbaError, RuntimeError) as error:  # the latter where it has another signature
        raise InputError(
            f"the objective cannot be compiled for a row of genes: {error}",
            hint="let it take one array of int64, and return a float: float64(int64[::1])",
        ) from error
    found = kernel.overloads.get(wanted.args)
    if found is None or found.signature.return_type != float64:
        raise InputError("a compiled objective returns a float", hint="float(...) what it returns")
    return kernel


def _whole(
    search: Ga, kernel: Any, sign: float, budget: int, target: float
) -> tuple[Ints, Any, int, str]:
    """A genetic search from its first to its last generation in one call."""
    from zenturio.search.kernels.chance import stream  # noqa: PLC0415 - compiled when needed
    from zenturio.search.kernels.evolving import Limits, evolve  # noqa: PLC0415

    genome = search.genome
    limits = Limits(search.generations, search.patience, budget, target)
    found, marks, _, count, ended = evolve(
        kernel,
        sign,
        search.first(),
        genome.sizes,
        genome.ordered,
        search.rules(),
        limits,
        stream(search.task.seed),
    )
    return found, marks, count, ended


def _by_batches(
    search: Walker, kernel: Any, sign: float, budget: int, target: float
) -> tuple[Ints, Any, int, str]:
    """Any walk, batch by batch: what it yields is evaluated in one call."""
    from zenturio.search.kernels.scoring import score_all  # noqa: PLC0415 - compiled when needed

    walk, count, best, ended = search.walk(), 0, math.inf, "exhausted"
    found: list[Ints] = []
    marks: list[tuple[int, float]] = []
    genes = next(walk, None)
    while genes is not None:
        genes = np.ascontiguousarray(genes)
        losses = score_all(kernel, sign, genes[: budget - count])
        for at in np.flatnonzero(losses < np.minimum.accumulate(np.append(best, losses))[:-1]):
            found.append(genes[at])
            best = float(losses[at])
            marks.append((count + int(at) + 1, best))
            if best <= target:
                return np.array(found), np.array(marks), marks[-1][0], "target"
        count += len(losses)
        if count >= budget:
            ended = "budget"
            break
        genes = _sent(walk, losses)
    rows = np.array(found).reshape(len(found), search.genome.length)
    return rows, np.array(marks).reshape(len(marks), 2), count, ended


def _sent(walk: Any, losses: Any) -> Ints | None:
    try:
        genes: Ints = walk.send(losses[:, None])
    except StopIteration:
        return None
    return genes
