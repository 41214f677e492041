"""Search in one call, for Python programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import fmean
from time import monotonic
from typing import Any, Literal, get_args

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.search.engine import SearchProblem, make
from zenturio.search.loop import (
    BATCH_LIMIT,
    Budget,
    CachedScores,
    Confirmation,
    Scores,
    SearchLoop,
    StopRules,
    check_confirmation,
    drive,
    parse_budget,
    parse_stop_rules,
    run_concurrent,
)
from zenturio.search.numba_search import is_kernel, search_compiled
from zenturio.search.objective import Directions, Trial
from zenturio.search.result import SearchResult
from zenturio.search.transfer_learning import TransferSearch
from zenturio.space import Point, Space

Takes = Literal["point", "columns", "kernel"]


def search(
    space: Space,
    objective: Callable[..., Any],
    directions: Iterable[str] | str = ("minimize",),
    engine: str = "ga",
    *,
    budget: int | str | Budget | None = None,
    seed: int = 0,
    stops: Iterable[str] | str | StopRules = (),
    takes: Takes | None = None,
    jobs: int = 1,
    cached: Mapping[Point, Scores] | None = None,
    known: Mapping[Point, Scores | float] | None = None,
    learn_from: Mapping[Point, Scores | float] | None = None,
    allow_repeats: bool = False,
    ordered: bool = True,
    confirm: int = 0,
    **settings: Any,
) -> SearchResult:
    """Search *space* for the points with the best *objective*, within *budget*.

    *takes* says what *objective* takes:

    * ``point``: a mapping of names to values. It returns a score, or one for each direction, or
      None for a failure. *jobs* points are evaluated at a time, in threads.
    * ``columns``: an array of values for each parameter. It returns an array of scores, or of
      rows of scores.
    * ``kernel``: a row of genes (int64, each from 0 to below the size of its set, in order of
      value). It is compiled by Numba and returns one float. A compiled function is a kernel
      without saying so.

    The same seed and *jobs* make the same trials, whichever evaluation finishes first. If not
    *ordered*, the engine uses each score as soon as it is there: better points for the same budget
    where *jobs* is large, and trials that depend on the order in which evaluations finish. Points
    in *cached* are not evaluated, and use budget if the engine proposes them. The engine learns
    from the points in *known* before it proposes any; they use no budget. Points in
    *learn_from* have scores of another version or machine: they are no results of this search, and
    its engine is never told of them; the best ones are tried once ranks of both agree, and at most
    one trial in ten is spent on such points without an improvement. No point is evaluated twice,
    except with *allow_repeats* or by a kernel, or to *confirm* the best of noisy scores: so many
    evaluations of the budget measure the leading points again, the better half of them more often
    each time, and the best is the one with the best mean of these. They are not among the trials
    of the result, and a limit of time does not end them.
    """
    ordering, limit, rules = Directions(directions), parse_budget(budget), parse_stop_rules(stops)
    limit = check_confirmation(confirm, limit, ordering)
    problem = SearchProblem(
        space, ordering, seed, limit.trials, allow_repeats, jobs, ordered=ordered
    )
    searcher = make(engine, problem, settings)
    if learn_from:
        scores = {point: scores_for(ordering, score) for point, score in learn_from.items()}
        searcher = TransferSearch(searcher, problem, scores)
    takes = takes or ("kernel" if is_kernel(objective) else "point")
    if takes not in get_args(Takes):
        raise InputError(f"takes={takes!r}", hint=did_you_mean(takes, get_args(Takes)))
    if jobs < 1:
        raise InputError(f"jobs={jobs}", hint="1, or more where the objective takes a point")
    if jobs > 1 and takes != "point":
        raise InputError(f"jobs={jobs} is for objectives that take a point", hint="jobs=1")
    if confirm and takes != "point":
        raise InputError("confirm is for objectives that take a point", hint="takes='point'")
    if takes == "kernel":
        if known or learn_from:
            raise InputError(
                "a search with a compiled objective takes no known points",
                hint="takes='point' and a function that is not compiled",
            )
        return search_compiled(searcher, objective, ordering, limit, rules)
    started = monotonic()
    loop = SearchLoop(
        searcher,
        ordering,
        limit,
        rules,
        _lookup(cached),
        allow_repeats=allow_repeats,
        known={point: scores_for(ordering, scores) for point, scores in (known or {}).items()},
        ordered=ordered,
    )
    if takes == "columns":
        _run_columns(loop, objective, len(ordering))
    elif jobs > 1:
        _run_threads(loop, objective, jobs, ordering)
    else:
        for _ in drive(loop, lambda point: scores_for(ordering, objective(point))):
            pass
    best: Trial | None = loop.best
    confirmed: tuple[float, ...] = ()
    if confirm:
        best, confirmed = _confirm(loop, Confirmation(confirm, ordering), objective, jobs)
    count = len(loop.trials)
    seconds = monotonic() - started
    return SearchResult(
        loop.trials, best, ordering, loop.stop_reason, count, seconds, confirmed=confirmed
    )


def _confirm(
    loop: SearchLoop, confirmation: Confirmation, objective: Callable[[Point], Any], jobs: int
) -> tuple[Trial | None, tuple[float, ...]]:
    """Return the best point with the mean of its fresh scores, and these."""

    def measured(point: Point) -> float | None:
        scores = scores_for(loop.directions, objective(point))
        return scores[0] if scores else None

    with ThreadPoolExecutor(jobs) as pool:
        while not confirmation.is_over:
            batch = confirmation.next_round([*loop.known_trials, *loop.trials])
            points = [point for point, _ in batch]
            scores = map(measured, points) if jobs == 1 else pool.map(measured, points)
            for point, score in zip(points, scores, strict=True):
                confirmation.tell(point, score)
    if confirmation.best is None:
        return loop.best, ()
    point, fresh = confirmation.best
    return Trial(point, (fmean(fresh),)), tuple(fresh)


def scores_of(answer: Any) -> Scores:
    """Return what an objective returned as a tuple of scores; empty for None."""
    if isinstance(answer, int | float):
        return (_real(answer),)
    if answer is None:
        return ()
    if isinstance(answer, np.ndarray):
        answer = answer.ravel().tolist()
    elif not isinstance(answer, Sequence) or isinstance(answer, str):
        answer = (answer,)
    try:
        return tuple(None if score is None else _real(score) for score in answer)
    except (TypeError, ValueError):
        wrong = answer[0] if isinstance(answer, tuple) and len(answer) == 1 else answer
        raise InputError(
            f"an objective returned {wrong!r}",
            hint="return a number, one number for each direction, or None",
        ) from None


def _real(score: Any) -> float:
    try:
        return float(score)
    except OverflowError:  # an integer beyond all reals
        return math.inf if score > 0 else -math.inf


def scores_for(directions: Directions, answer: Any) -> Scores:
    """Return the scores in *answer*: one for each of *directions*, or none at all."""
    scores = scores_of(answer)
    if scores and len(scores) != len(directions):
        raise InputError(
            f"an objective returned {len(scores)} scores for {len(directions)} directions",
            hint="return one for each, or give as many: directions=['minimize', 'maximize']",
        )
    return scores


def _lookup(cached: Mapping[Point, Scores] | None) -> CachedScores | None:
    if cached is None:
        return None
    return lambda points: [cached.get(point) for point in points]


def _run_threads(
    loop: SearchLoop, objective: Callable[[Point], Any], jobs: int, directions: Directions
) -> None:
    with ThreadPoolExecutor(jobs) as pool:

        def submit(point: Point) -> Future[Scores]:
            return pool.submit(lambda: scores_for(directions, objective(point)))

        for _ in run_concurrent(loop, submit, jobs):
            pass


def _run_columns(loop: SearchLoop, objective: Callable[..., Any], objectives: int) -> None:
    """Evaluate points in batches, as one array for each parameter."""
    while not loop.is_over:
        batch = loop.ask(BATCH_LIMIT)
        if not batch:
            continue
        names = list(batch[0].point)
        values = zip(*(trial.point.values() for trial in batch), strict=True)
        columns = {name: np.array(column) for name, column in zip(names, values, strict=True)}
        answer = np.asarray(objective(columns), dtype=np.float64)
        if answer.shape not in {(len(batch),), (len(batch), objectives)}:
            raise InputError(
                f"an objective of {len(batch)} points returned an array of shape {answer.shape}",
                hint=f"one of shape ({len(batch)},) or ({len(batch)}, {objectives})",
            )
        rows = answer.reshape(len(batch), -1).tolist()
        for trial, scores in zip(batch, rows, strict=True):
            loop.tell(trial.number, tuple(scores))
