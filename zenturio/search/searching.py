"""Search in one call, for Python programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, Literal, get_args

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.search.compiled import is_kernel, search_compiled
from zenturio.search.drive import ROOM, drive, fly
from zenturio.search.engines import make
from zenturio.search.objective import Goals
from zenturio.search.pilot import Pilot, Recall, Scores
from zenturio.search.result import Result
from zenturio.search.search import Task
from zenturio.search.stops import Budget, Stops, read_budget, read_stops
from zenturio.space import Point, Space

Takes = Literal["point", "columns", "kernel"]


def search(
    space: Space,
    objective: Callable[..., Any],
    goals: Iterable[str] | str = ("minimize",),
    engine: str = "ga",
    *,
    budget: int | str | Budget | None = None,
    seed: int = 0,
    stops: Iterable[str] | str | Stops = (),
    takes: Takes | None = None,
    jobs: int = 1,
    known: Mapping[Point, Scores] | None = None,
    again: bool = False,
    **settings: Any,
) -> Result:
    """Search *space* for the points whose *objective* is best, within *budget*.

    *objective* takes what *takes* says:

    * ``point``: a point, a mapping of names to values, and returns a score, or one for each goal;
      None stands for a failure. With *jobs*, so many are tried at once, in threads.
    * ``columns``: an array of values for each parameter, and returns an array of scores, or of
      rows of scores.
    * ``kernel``: a row of genes, int64, each from 0 to below the size of its set, in order of
      value; compiled by Numba, it returns one float. What is so compiled is taken for a kernel.

    The same seed makes the same trials, whatever is ready first. Points in *known* are not tried;
    no point is tried twice, except *again*, or by a kernel.
    """
    wanted, limit, rules = Goals(goals), read_budget(budget), read_stops(stops)
    task = Task(space, wanted, seed, limit.trials, again)
    found = make(engine, task, settings)
    takes = takes or ("kernel" if is_kernel(objective) else "point")
    if takes not in get_args(Takes):
        raise InputError(f"takes={takes!r}", hint=did_you_mean(takes, get_args(Takes)))
    if jobs < 1:
        raise InputError(f"jobs={jobs}", hint="1, or more where the objective takes a point")
    if jobs > 1 and takes != "point":
        raise InputError(f"jobs={jobs} is for objectives that take a point", hint="jobs=1")
    if takes == "kernel":
        return search_compiled(found, objective, wanted, limit, rules)
    began = monotonic()
    pilot = Pilot(found, wanted, limit, rules, _recall(known), again=again)
    if takes == "columns":
        _drive_columns(pilot, objective, len(wanted))
    elif jobs > 1:
        _drive_threads(pilot, objective, jobs, wanted)
    else:
        for _ in drive(pilot, lambda point: scores_for(wanted, objective(point))):
            pass
    count = len(pilot.trials)
    return Result(pilot.trials, pilot.best, wanted, pilot.ended, count, monotonic() - began)


def scores_of(answer: Any) -> Scores:
    """What an objective returned, as a score for each goal."""
    if isinstance(answer, int | float):
        return (float(answer),)
    if answer is None:
        return ()
    if isinstance(answer, np.ndarray):
        answer = answer.ravel().tolist()
    elif not isinstance(answer, Sequence) or isinstance(answer, str):
        answer = (answer,)
    try:
        return tuple(None if each is None else float(each) for each in answer)
    except (TypeError, ValueError):
        said = answer[0] if isinstance(answer, tuple) and len(answer) == 1 else answer
        raise InputError(
            f"an objective returned {said!r}",
            hint="let it return a number, several for several goals, or None",
        ) from None


def scores_for(goals: Goals, answer: Any) -> Scores:
    """The same, one for each of *goals*, or none at all."""
    scores = scores_of(answer)
    if scores and len(scores) != len(goals):
        raise InputError(
            f"an objective returned {len(scores)} scores, and there are {len(goals)} goals",
            hint="let it return one for each goal, or name as many: goals=['minimize', 'maximize']",
        )
    return scores


def _recall(known: Mapping[Point, Scores] | None) -> Recall | None:
    if known is None:
        return None
    return lambda points: [known.get(point) for point in points]


def _drive_threads(
    pilot: Pilot, objective: Callable[[Point], Any], jobs: int, goals: Goals
) -> None:
    with ThreadPoolExecutor(jobs) as pool:

        def submit(point: Point) -> Future[Scores]:
            return pool.submit(lambda: scores_for(goals, objective(point)))

        for _ in fly(pilot, submit, jobs):
            pass


def _drive_columns(pilot: Pilot, objective: Callable[..., Any], goals: int) -> None:
    """Try points many at a time."""
    while not pilot.over:
        asked = pilot.take(ROOM)
        if not asked:
            continue
        names = list(asked[0].point)
        values = zip(*(each.point.values() for each in asked), strict=True)
        columns = {name: np.array(each) for name, each in zip(names, values, strict=True)}
        answer = np.asarray(objective(columns), dtype=np.float64)
        if answer.shape not in {(len(asked),), (len(asked), goals)}:
            raise InputError(
                f"an objective of {len(asked)} points returned an array of shape {answer.shape}",
                hint=f"one of shape ({len(asked)},) or ({len(asked)}, {goals})",
            )
        rows = answer.reshape(len(asked), -1).tolist()
        for each, scores in zip(asked, rows, strict=True):
            pilot.land(each.number, tuple(scores))
