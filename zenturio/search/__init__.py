"""Which points are tried next: engines, the seam that they meet, and the loop that drives them.

>>> from zenturio.search import search
>>> from zenturio.space import Space
>>> search(Space(x=range(-9, 10)), lambda point: point["x"] ** 2, engine="hill").best
Trial(point=Point(x=0), scores=(0.0,))
"""

import sys
from types import ModuleType
from typing import Any

from zenturio.search.drive import drive, fly
from zenturio.search.engines import Description, describe, make, names
from zenturio.search.objective import Direction, Goals, Objective, Trial
from zenturio.search.pilot import Asked, Pilot, Recall, Scores
from zenturio.search.result import Result
from zenturio.search.search import Engine, Search, Task
from zenturio.search.searching import search
from zenturio.search.settings import NoSettings, Setting, setting, settings_of
from zenturio.search.stops import Budget, Stops, read_budget, read_stops

__all__ = [
    "Asked",
    "Budget",
    "Description",
    "Direction",
    "Engine",
    "Goals",
    "NoSettings",
    "Objective",
    "Pilot",
    "Recall",
    "Result",
    "Scores",
    "Search",
    "Setting",
    "Stops",
    "Task",
    "Trial",
    "describe",
    "drive",
    "fly",
    "make",
    "names",
    "read_budget",
    "read_stops",
    "search",
    "setting",
    "settings_of",
]


class _Room(ModuleType):
    """``zen.search`` is both this room and the function in it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
