"""Run a search loop: ask for points, evaluate them, tell their scores, until it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait

from zenturio.search.loop import PendingTrial, Scores, SearchLoop
from zenturio.search.objective import Trial
from zenturio.space import Point

BATCH_LIMIT = 1024
"""Points that are asked for at a time where an evaluation is a function call."""


def drive(
    loop: SearchLoop, objective: Callable[[Point], Scores], limit: int = BATCH_LIMIT
) -> Iterator[Trial]:
    """Yield the trials of *loop*, whose points *objective* evaluates one after the other.

    Points that were asked for and not evaluated when the search ends are dropped.
    """
    yielded = 0
    while not loop.is_over:
        for number, point in loop.ask(limit):
            if loop.is_late():
                break
            loop.tell(number, objective(point))
            yield from loop.trials[yielded:]
            yielded = len(loop.trials)
    yield from loop.trials[yielded:]


def run_concurrent(
    loop: SearchLoop, submit: Callable[[Point], Future[Scores]], slots: int
) -> Iterator[Trial]:
    """Yield the trials of *loop* with *slots* evaluations at a time.

    A free slot gets the next point at once. If a future fails, its error is raised and the pending
    ones are cancelled.
    """
    in_flight: dict[Future[Scores], PendingTrial] = {}
    yielded = 0
    try:
        while not loop.is_over:
            for pending in loop.ask(slots - len(in_flight)):
                in_flight[submit(pending.point)] = pending
            if in_flight:
                completed, _ = wait(in_flight, return_when=FIRST_COMPLETED)
                for future in completed:
                    loop.tell(in_flight.pop(future).number, future.result())
            yield from loop.trials[yielded:]
            yielded = len(loop.trials)
    finally:
        for future in in_flight:
            future.cancel()
