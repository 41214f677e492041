"""Which points are tried next: engines, the seam that they meet, and the loop that drives them.

>>> from zenturio.search import search
>>> from zenturio.space import Space
>>> search(Space(x=range(-9, 10)), lambda point: point["x"] ** 2, engine="hill").best
Trial(point=Point(x=0), scores=(0.0,))
"""

import sys
from types import ModuleType
from typing import Any

from zenturio.search.api import search
from zenturio.search.engine import (
    Engine,
    EngineDescription,
    Search,
    SearchProblem,
    describe,
    make,
    names,
)
from zenturio.search.loop import (
    Budget,
    CachedScores,
    PendingTrial,
    Scores,
    SearchLoop,
    StopRules,
    drive,
    parse_budget,
    parse_stop_rules,
    run_concurrent,
)
from zenturio.search.objective import Direction, Directions, Objective, Trial
from zenturio.search.result import SearchResult
from zenturio.settings.schema import NoSettings, Setting, setting, settings_of

__all__ = [
    "Budget",
    "CachedScores",
    "Direction",
    "Directions",
    "Engine",
    "EngineDescription",
    "NoSettings",
    "Objective",
    "PendingTrial",
    "Scores",
    "Search",
    "SearchLoop",
    "SearchProblem",
    "SearchResult",
    "Setting",
    "StopRules",
    "Trial",
    "describe",
    "drive",
    "make",
    "names",
    "parse_budget",
    "parse_stop_rules",
    "run_concurrent",
    "search",
    "setting",
    "settings_of",
]


class _CallablePackage(ModuleType):
    """``zen.search`` is both this package and the function in it."""

    def __call__(self, *args: Any, **kwargs: Any) -> SearchResult:
        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
