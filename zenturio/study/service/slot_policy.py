"""Policies that choose which of several studies gets the next slot of a place.

The policies are those of workflows that arrive one after the other (``zen algorithms``), the same
code: a study is a workflow whose tasks are its experiments. How long an experiment takes nobody
knows beforehand: as long as those that have ended, on average; before one has, as those of others.
So that this is soon known, the first experiment of a study goes before all others, except where
who came first is served first.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import ceil

from zenturio import priority_rules
from zenturio.errors import InputError, did_you_mean
from zenturio.priority_rules import WaitingWorkflow
from zenturio.settings.schema import setting

POLICIES = tuple(name for name in priority_rules.POLICIES if name != "basic")
"""All but the one that decides nothing."""
UNKNOWN = 1.0
"""Seconds that an experiment is taken to last while none of any study has ended."""


@dataclass(frozen=True, slots=True)
class StudyLoad:
    """A study, as much of it as its turn depends on."""

    arrival: float
    total: int
    """All its experiments."""
    left: int
    """Those that have not ended; the running ones are among them."""
    running: tuple[float, ...] = ()
    """For how many seconds each of its experiments that have a slot has run."""
    mean: float | None = None
    """Seconds (times slots) of an experiment, where one has ended."""


def choose_policy(text: str) -> str:
    """*text*, if it names a policy."""
    name = text.strip().lower()
    if name not in POLICIES:
        raise InputError(f"no policy is named {text!r}", hint=did_you_mean(name, POLICIES))
    return name


def next_owner(
    policy: str,
    now: float,
    slots: int,
    loads: Mapping[Hashable, StudyLoad],
    among: Sequence[Hashable] | None = None,
) -> Hashable:
    """Return who of *among*, or of all, is next; of equals, who arrived first."""
    owners = list(loads if among is None else among)
    # A policy cannot rank a study whose run times nobody knows: its first experiment goes first.
    if policy != "fcfs":
        unknown_owners = (
            owner for owner in owners if loads[owner].mean is None and not loads[owner].running
        )
        owners = sorted(unknown_owners, key=lambda owner: loads[owner].arrival)[:1] or owners
    means = mean_seconds(loads)
    busy_seconds = [seconds for owner in loads for seconds in _running(loads[owner], means[owner])]
    free = sorted(busy_seconds)[:slots] + [0.0] * (slots - len(busy_seconds))

    def key(owner: Hashable) -> tuple[float, float]:
        load, mean = loads[owner], means[owner]
        seconds_ahead = _seconds_ahead(load, mean, free) if policy == "foft" else 0.0
        workflow = queue_facts(load, mean, now, slots, seconds_ahead)
        return priority_rules.priority(policy, workflow), -load.arrival

    return max(owners, key=key)


def queue_facts(
    load: StudyLoad, mean: float, now: float, slots: int, ahead: float = 0.0
) -> WaitingWorkflow:
    """Return what a policy sees of a study."""
    alone = seconds_alone(load.total, mean, slots)
    return WaitingWorkflow(
        mean, load.arrival, max(0.0, now - load.arrival), alone, load.left * mean, ahead
    )


def mean_seconds(loads: Mapping[Hashable, StudyLoad]) -> dict[Hashable, float]:
    """Seconds of an experiment of each study; one that runs longer already is no shorter."""
    means = [load.mean for load in loads.values() if load.mean is not None]
    usual = sum(means) / len(means) if means else UNKNOWN
    return {
        owner: max(1e-9, load.mean if load.mean is not None else max((usual, *load.running)))
        for owner, load in loads.items()
    }


def seconds_alone(total: int, mean: float, slots: int) -> float:
    """Return how long a study takes if all slots are its own."""
    return max(1, ceil(total / slots)) * mean


def slowdown(load: StudyLoad, mean: float, slots: int, now: float) -> float:
    """Return how many times as long a study has taken, and still takes at best, as it would alone.

    Below 1 where experiments were known already, or took less long than others.
    """
    remaining_seconds = ceil(load.left / slots) * mean
    return (now - load.arrival + remaining_seconds) / seconds_alone(load.total, mean, slots)


def _running(load: StudyLoad, mean: float) -> list[float]:
    """Return the seconds that experiments which run are still to take."""
    return [max(0.0, mean - seconds) for seconds in load.running]


def _seconds_ahead(load: StudyLoad, mean: float, free: Sequence[float]) -> float:
    """Return how long a study would still take if every slot were its own as soon as it is free."""
    longest = max(_running(load, mean), default=0.0)
    waiting_count = load.left - len(load.running)
    if waiting_count <= 0:
        return longest
    # Rounds in which every slot runs one more are skipped by a division: with a million waiting
    # experiments, a step of the heap for each takes seconds, at each choice of the next study.
    levels = sum(ceil((max(free) - seconds) / mean) for seconds in free)
    rounds = max(0, (waiting_count - levels) // len(free))  # that every slot runs in any case
    slots = [seconds + rounds * mean for seconds in free]
    ends = [longest, *slots] if rounds else [longest]
    heapify(slots)
    for _ in range(waiting_count - rounds * len(free)):
        ends.append(slots[0] + mean)
        heapreplace(slots, ends[-1])
    return max(ends)


# Users: slots are shared among them first, in proportion to weights
#
# Each user has a virtual time, the slot-seconds of their experiments divided by their weight, and
# the user whose virtual time is the least is next (start-time fair queueing, Goyal et al. 1996).
# An experiment that runs counts for as long as it is taken to last, so that slots that get free at
# one moment do not all go to one user. Who comes back after a while without work starts at the
# virtual time of the others: idle time is not saved up.

ANYBODY = "*"
"""The name in [serve.shares] for users who are not named there."""


@dataclass(frozen=True)
class UserShare:
    """What a user may have of a service."""

    weight: float = setting(
        1.0, "share of the slots, relative to the weights of other users", low=0.001, high=1e6
    )
    priority: int = setting(0, "users of higher priority are served before all others")
    slots: int | None = setting(
        None, "most slots of one place that the user may have at a time", low=1
    )
    active: int = setting(16, "maximum number of studies that run at the same time", low=1)


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
        waiting_users = [
            user for user, load in loads.items() if load.wanted and not self._full(user, load)
        ]
        if not waiting_users:
            return None
        highest = max(self.share(user).priority for user in waiting_users)
        candidates = [user for user in waiting_users if self.share(user).priority == highest]
        return min(
            candidates, key=lambda user: (self._time(user, loads), loads[user].arrival, user)
        )

    def why_waiting(self, user: str, loads: Mapping[str, UserLoad], slots: int) -> str:
        """Return for what a study of *user* waits that has none of the *slots*."""
        share, load = self.share(user), loads.get(user, UserLoad())
        if self._full(user, load):
            return f"a slot: {user} may have {share.slots} at a time"
        users_above = [
            other_user
            for other_user, other_load in loads.items()
            if other_load.wanted and self.share(other_user).priority > share.priority
        ]
        if users_above:
            return f"a slot: {', '.join(sorted(users_above))} first, by priority"
        other_users = sorted(
            other_user
            for other_user, other_load in loads.items()
            if other_user != user and other_load.slots
        )
        shared = f", shared with {', '.join(other_users)}" if other_users else ""
        return f"a slot: {user} has {load.slots} of {slots}{shared}"

    def _full(self, user: str, load: UserLoad) -> bool:
        limit = self.share(user).slots
        # What needs more than the user may have runs when the user has nothing else.
        return limit is not None and load.slots > 0 and load.slots + load.wanted > limit

    def _time(self, user: str, loads: Mapping[str, UserLoad]) -> float:
        return loads[user].spent / self.share(user).weight + self._offset.get(user, 0.0)

    def _welcome(self, loads: Mapping[str, UserLoad]) -> None:
        """Let users who had no work start at the least virtual time of those who had."""
        busy_users = frozenset(user for user, load in loads.items() if load.wanted or load.slots)
        active_times = [self._time(user, loads) for user in busy_users & self._active]
        if active_times:
            for user in busy_users - self._active:
                lag = min(active_times) - self._time(user, loads)
                self._offset[user] = self._offset.get(user, 0.0) + max(0.0, lag)
        self._active = busy_users


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
