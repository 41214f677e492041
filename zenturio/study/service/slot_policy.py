"""Who gets the next slot, of several studies that share a place.

The policies are those of workflows that arrive one after the other (``zen algorithms``), the same
code: a study is a workflow whose tasks are its experiments. How long an experiment takes nobody
knows beforehand: as long as those that have ended, on average; before one has, as those of others.
So that this is soon known, the first experiment of a study goes before all others, except where
who came first is served first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import ceil

from zenturio import priorities
from zenturio.errors import InputError, did_you_mean
from zenturio.priorities import WaitingWorkflow

POLICIES = tuple(each for each in priorities.POLICIES if each != "basic")
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
    if policy != "fcfs":
        unknown = (o for o in owners if loads[o].mean is None and not loads[o].running)
        owners = sorted(unknown, key=lambda o: loads[o].arrival)[:1] or owners
    means = mean_seconds(loads)
    busy = [seconds for owner in loads for seconds in _running(loads[owner], means[owner])]
    free = sorted(busy)[:slots] + [0.0] * (slots - len(busy))

    def key(owner: Hashable) -> tuple[float, float]:
        load, mean = loads[owner], means[owner]
        ahead = _ahead(load, mean, free) if policy == "foft" else 0.0
        standing = queue_facts(load, mean, now, slots, ahead)
        return priorities.priority(policy, standing), -load.arrival

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
    still = ceil(load.left / slots) * mean
    return (now - load.arrival + still) / seconds_alone(load.total, mean, slots)


def _running(load: StudyLoad, mean: float) -> list[float]:
    """Return the seconds that experiments which run are still to take."""
    return [max(0.0, mean - passed) for passed in load.running]


def _ahead(load: StudyLoad, mean: float, free: Sequence[float]) -> float:
    """Return how long a study would still take if every slot were its own as soon as it is free."""
    longest = max(_running(load, mean), default=0.0)
    waiting = load.left - len(load.running)
    if waiting <= 0:
        return longest
    levels = sum(ceil((max(free) - seconds) / mean) for seconds in free)
    rounds = max(0, (waiting - levels) // len(free))  # that every slot runs in any case
    slots = [seconds + rounds * mean for seconds in free]
    ends = [longest, *slots] if rounds else [longest]
    heapify(slots)
    for _ in range(waiting - rounds * len(free)):
        ends.append(slots[0] + mean)
        heapreplace(slots, ends[-1])
    return max(ends)
