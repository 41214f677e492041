"""What happened: studies, experiments, attempts and their outcomes, kept."""

from zenturio.record.driver import Driver
from zenturio.record.facts import (
    SEED,
    STATES,
    Attempt,
    AttemptState,
    Definition,
    Event,
    Field,
    Key,
    Lease,
    Logs,
    Record,
    Removal,
    State,
    Study,
)
from zenturio.record.memory import Memory
from zenturio.record.repository import Repository

__all__ = [
    "SEED",
    "STATES",
    "Attempt",
    "AttemptState",
    "Definition",
    "Driver",
    "Event",
    "Field",
    "Key",
    "Lease",
    "Logs",
    "Memory",
    "Record",
    "Removal",
    "Repository",
    "State",
    "Study",
]
