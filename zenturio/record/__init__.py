"""What happened: studies, experiments, attempts and their outcomes, kept."""

from zenturio.record.driver import Driver
from zenturio.record.facts import (
    OVER,
    SEED,
    STATES,
    Attempt,
    AttemptState,
    Definition,
    Equality,
    Event,
    Field,
    Key,
    Lease,
    Logs,
    Record,
    Removal,
    ResultCount,
    Round,
    State,
    Study,
    Submission,
    Turn,
)
from zenturio.record.memory import Memory
from zenturio.record.repository import Repository

__all__ = [
    "OVER",
    "SEED",
    "STATES",
    "Attempt",
    "AttemptState",
    "Definition",
    "Driver",
    "Equality",
    "Event",
    "Field",
    "Key",
    "Lease",
    "Logs",
    "Memory",
    "Record",
    "Removal",
    "Repository",
    "ResultCount",
    "Round",
    "State",
    "Study",
    "Submission",
    "Turn",
]
