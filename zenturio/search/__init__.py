"""Which points are tried next: engines, the seam that they meet, and the loop that drives them."""

from zenturio.search.drive import drive, fly
from zenturio.search.engines import Description, describe, make, names
from zenturio.search.objective import Direction, Goals, Objective, Trial
from zenturio.search.pilot import Asked, Pilot, Recall, Scores
from zenturio.search.search import Engine, Search, Task
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
    "setting",
    "settings_of",
]
