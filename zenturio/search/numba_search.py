"""Searches with an objective compiled by Numba: no Python runs for a point."""

from __future__ import annotations

import math
from time import monotonic
from typing import Any

import numpy as np

from zenturio.errors import InputError
from zenturio.search.engine import Search
from zenturio.search.ga import Ga
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine
from zenturio.search.loop import Budget, StopRules
from zenturio.search.objective import Directions, Trial
from zenturio.search.result import LazyTrials, SearchResult

UNLIMITED = 1 << 62


def is_kernel(objective: Any) -> bool:
    """Return whether *objective* was compiled by Numba."""
    # By its attributes, because importing Numba takes half a second.
    return hasattr(objective, "py_func") and hasattr(objective, "nopython_signatures")


def search_compiled(
    search: Search, kernel: Any, directions: Directions, budget: Budget, stops: StopRules
) -> SearchResult:
    """Search with a *kernel*: a function of a row of genes, compiled by Numba, with one score.

    Evaluating a kernel is faster than looking a point up. So a point may be evaluated more than
    once, and the budget counts evaluations.
    """
    search = getattr(search, "chosen", search)
    if not isinstance(search, GeneratorEngine) or len(directions) > 1:
        raise InputError(
            "a compiled objective has one score, and is for engines that work on genes",
            hint="engine='ga', or an objective that takes points",
        )
    if stops.stall or stops.share or budget.seconds:
        raise InputError(
            "a search with a compiled objective ends by its budget of trials or its target",
            hint="budget=100_000, stops='target=12.5', and settings such as generations, steady",
        )
    started, sign = monotonic(), 1.0 if directions.names[0] == "minimize" else -1.0
    target = -math.inf if stops.target is None else sign * stops.target
    limit = UNLIMITED if budget.trials is None else budget.trials
    if isinstance(search, Ga) and search.genome.free and search.genome.length:
        rows, marks, count, reason = _run_genetic(search, _typed(kernel), sign, limit, target)
    else:
        rows, marks, count, reason = _run_batches(search, _typed(kernel), sign, limit, target)
    scores = [(sign * loss,) for loss in marks[:, 1].tolist()]
    trials = LazyTrials(search.genome, rows, scores)
    best: Trial | None = trials[-1] if len(trials) else None
    numbers = marks[:, 0].astype(np.int64).tolist()
    return SearchResult(trials, best, directions, reason, count, monotonic() - started, numbers)


def _typed(kernel: Any) -> Any:
    """Compile *kernel* for a row of genes."""
    from numba import float64, int64  # noqa: PLC0415 - half a second
    from numba.core.errors import NumbaError  # noqa: PLC0415

    signature = float64(int64[::1])
    try:
        if signature.args not in kernel.overloads:
            kernel.compile(signature)
    except (NumbaError, RuntimeError) as error:  # the latter where it has another signature
        raise InputError(
            f"the objective cannot be compiled for a row of genes: {error}",
            hint="take one array of int64 and return a float: float64(int64[::1])",
        ) from error
    overload = kernel.overloads.get(signature.args)
    if overload is None or overload.signature.return_type != float64:
        raise InputError("a compiled objective returns a float", hint="return float(...)")
    return kernel


def _run_genetic(
    search: Ga, kernel: Any, sign: float, budget: int, target: float
) -> tuple[Ints, Any, int, str]:
    """Run a genetic search from its first to its last generation in one call."""
    from zenturio.search.kernels.compiled_objectives import Limits, evolve  # noqa: PLC0415
    from zenturio.search.kernels.rng import stream  # noqa: PLC0415 - compiled when needed

    genome = search.genome
    limits = Limits(search.generations, search.patience, budget, target)
    rows, marks, _, count, reason = evolve(
        kernel,
        sign,
        search.first(),
        genome.sizes,
        genome.ordered,
        search.rules(),
        limits,
        stream(search.problem.seed),
    )
    return rows, marks, count, reason


def _run_batches(
    search: GeneratorEngine, kernel: Any, sign: float, budget: int, target: float
) -> tuple[Ints, Any, int, str]:
    """Run any generator engine; each of its batches is evaluated in one call."""
    from zenturio.search.kernels.compiled_objectives import score_all  # noqa: PLC0415 - compiled when needed

    walk, count, best, reason = search.walk(), 0, math.inf, "exhausted"
    improvements: list[Ints] = []
    marks: list[tuple[int, float]] = []
    genes = next(walk, None)
    while genes is not None:
        genes = np.ascontiguousarray(genes)
        # Only improvements are kept: a search of millions of evaluations must not fill the memory.
        losses = score_all(kernel, sign, genes[: budget - count])
        search.observe(genes[: len(losses)], losses)
        # Each row is compared with the best before it, not with the best of the whole batch.
        for at in np.flatnonzero(losses < np.minimum.accumulate(np.append(best, losses))[:-1]):
            improvements.append(genes[at])
            best = float(losses[at])
            marks.append((count + int(at) + 1, best))
            if best <= target:
                return np.array(improvements), np.array(marks), marks[-1][0], "target"
        count += len(losses)
        if count >= budget:
            reason = "budget"
            break
        genes = _send(walk, losses)
    rows = np.array(improvements).reshape(len(improvements), search.genome.length)
    return rows, np.array(marks).reshape(len(marks), 2), count, reason


def _send(walk: Any, losses: Any) -> Ints | None:
    try:
        genes: Ints = walk.send(losses[:, None])
    except StopIteration:
        return None
    return genes
