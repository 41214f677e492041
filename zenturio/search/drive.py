"""The loop: ask, try, tell, until the budget is spent or the search is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait

from zenturio.search.objective import Trial
from zenturio.search.pilot import Asked, Pilot, Scores
from zenturio.space import Point

ROOM = 1024
"""How many points are tried at once where trying is a function call."""


def drive(pilot: Pilot, objective: Callable[[Point], Scores], room: int = ROOM) -> Iterator[Trial]:
    """The trials of a search, as they come, whose points *objective* tries one after the other.

    What was taken and is not begun when the search ends is never tried.
    """
    told = 0
    while not pilot.over:
        for number, point in pilot.take(room):
            if pilot.late():
                break
            pilot.land(number, objective(point))
            yield from pilot.trials[told:]
            told = len(pilot.trials)
    yield from pilot.trials[told:]


def fly(pilot: Pilot, submit: Callable[[Point], Future[Scores]], slots: int) -> Iterator[Trial]:
    """The same where *slots* points are tried at a time: a slot that is free gets the next point.

    A future that fails ends the search with its error; what was away is cancelled.
    """
    away: dict[Future[Scores], Asked] = {}
    told = 0
    try:
        while not pilot.over:
            for asked in pilot.take(slots - len(away)):
                away[submit(asked.point)] = asked
            if away:
                ended, _ = wait(away, return_when=FIRST_COMPLETED)
                for future in ended:
                    pilot.land(away.pop(future).number, future.result())
            yield from pilot.trials[told:]
            told = len(pilot.trials)
    finally:
        for future in away:
            future.cancel()
