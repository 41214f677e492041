"""Whose user's turn it is at a place: slots are shared among users first, in proportion to weights.

Each user has a virtual time, the slot-seconds of their experiments divided by their weight, and the
user whose virtual time is the least is next (start-time fair queueing, Goyal et al. 1996). An
experiment that runs counts for as long as it is taken to last, so that slots that get free at one
moment do not all go to one user. Who comes back after a while without work starts at the virtual
time of the others: idle time is not saved up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from zenturio.settings.schema import setting

ANYBODY = "*"
"""The name in [serve.shares] of those who are not named there."""


@dataclass(frozen=True)
class UserShare:
    """What a user may have of a service."""

    weight: float = setting(1.0, "share of the slots in proportion to others", low=0.001, high=1e6)
    priority: int = setting(0, "users of higher priority are served before all others")
    slots: int | None = setting(None, "most slots of a place at a time", low=1)
    active: int = setting(16, "most studies at work at a time", low=1)


@dataclass(frozen=True, slots=True)
class UserLoad:
    """What a user has of a place, and next wants of it."""

    spent: float = 0.0
    """Slot-seconds of experiments that ended, and of those that run until they are to end."""
    slots: int = 0
    """In use now."""
    wanted: int = 0
    """Slots that the next experiment needs; 0 if none waits."""
    arrival: float = 0.0
    """When the first study that waits was submitted."""


@dataclass
class FairShare:
    """The virtual times of users at one place; not safe to share among threads."""

    shares: Mapping[str, UserShare] = field(default_factory=dict)
    _offset: dict[str, float] = field(default_factory=dict)
    _active: frozenset[str] = frozenset()

    def share(self, user: str) -> UserShare:
        """Return what *user* may have."""
        return self.shares.get(user) or self.shares.get(ANYBODY) or UserShare()

    def next_user(self, loads: Mapping[str, UserLoad]) -> str | None:
        """Return whose turn it is; None if all who wait have the most that they may."""
        self._welcome(loads)
        waiting = [
            user for user, load in loads.items() if load.wanted and not self._full(user, load)
        ]
        if not waiting:
            return None
        highest = max(self.share(user).priority for user in waiting)
        candidates = [user for user in waiting if self.share(user).priority == highest]
        return min(
            candidates, key=lambda user: (self._time(user, loads), loads[user].arrival, user)
        )

    def why_waiting(self, user: str, loads: Mapping[str, UserLoad], slots: int) -> str:
        """Return for what a study of *user* waits that has none of the *slots*."""
        share, load = self.share(user), loads.get(user, UserLoad())
        if self._full(user, load):
            return f"a slot: {user} may have {share.slots} at a time"
        above = [
            u for u, o in loads.items() if o.wanted and self.share(u).priority > share.priority
        ]
        if above:
            return f"a slot: {', '.join(sorted(above))} first, by priority"
        others = sorted(u for u, o in loads.items() if u != user and o.slots)
        shared = f", shared with {', '.join(others)}" if others else ""
        return f"a slot: {user} has {load.slots} of {slots}{shared}"

    def _full(self, user: str, load: UserLoad) -> bool:
        most = self.share(user).slots
        # What needs more than the user may have runs when the user has nothing else.
        return most is not None and load.slots > 0 and load.slots + load.wanted > most

    def _time(self, user: str, loads: Mapping[str, UserLoad]) -> float:
        return loads[user].spent / self.share(user).weight + self._offset.get(user, 0.0)

    def _welcome(self, loads: Mapping[str, UserLoad]) -> None:
        """Let users who had no work start at the least virtual time of those who had."""
        busy = frozenset(user for user, load in loads.items() if load.wanted or load.slots)
        present = [self._time(user, loads) for user in busy & self._active]
        if present:
            for user in busy - self._active:
                late = min(present) - self._time(user, loads)
                self._offset[user] = self._offset.get(user, 0.0) + max(0.0, late)
        self._active = busy


def in_turns(users: Sequence[str], active: Mapping[str, int], shares: FairShare) -> list[int]:
    """Return in which order submissions of *users* are to begin, by their positions.

    Users take turns, those with the fewest *active* studies first; nobody has more of them than
    their share says, and what is beyond that is left out.
    """
    counts = dict(active)
    order: list[int] = []
    remaining = list(range(len(users)))
    while remaining:
        position = min(remaining, key=lambda i: (counts.get(users[i], 0), i))
        remaining.remove(position)
        user = users[position]
        if counts.get(user, 0) < shares.share(user).active:
            counts[user] = counts.get(user, 0) + 1
            order.append(position)
        else:
            remaining = [i for i in remaining if users[i] != user]
    return order


def jain_index(amounts: Collection[float]) -> float:
    """Return how equal *amounts* are: 1 if all are, 1 / n if one has everything (Jain 1984)."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0
