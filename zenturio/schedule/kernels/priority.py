"""Whose turn it is, among several that share machines: the highest priority first.

Plain functions of plain numbers, which need nothing but `math`: tasks of workflows on a platform
are ordered by them, and whatever else has arrived, takes so long and has so much left. All are
those of section 4 of Bolze, Desprez and Isnard, "Evaluation of Online Multi-Workflow Heuristics
based on List-Scheduling Algorithms".

* rank: the longest way from a task to the end of its workflow, the task included
* arrival: when the workflow was submitted; age: how long ago that was
* alone: how long the workflow would take if there were no other
* remaining: the work of all its tasks that have not ended
* ahead: how long it would still take if all machines were for it from now on
"""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple


class WaitingWorkflow(NamedTuple):
    """One that waits: its best task, and what its workflow has behind and before it."""

    rank: float = 1.0
    arrival: float = 0.0
    age: float = 0.0
    alone: float = 1.0
    remaining: float = 1.0
    ahead: float = 0.0


def g_heft(rank: float) -> float:
    """The longest way first, whoever it is of: what is young starves what is nearly done."""
    return rank


def aging(rank: float, age: float, alone: float) -> float:
    """The rank, times ``1 + age / alone``."""
    return rank * (1 + age / alone)


def aging_exp(rank: float, age: float, alone: float) -> float:
    """The rank, times ``e ** (1 + age / alone)``: its logarithm, which cannot overflow."""
    return log(rank) + 1 + age / alone if rank > 0 else -inf


def fcfs(arrival: float) -> float:
    """First come, first served."""
    return -arrival


def srpt(remaining: float) -> float:
    """The shortest remaining processing time first."""
    return 1 / remaining if remaining > 0 else inf


def foft(age: float, ahead: float, alone: float) -> float:
    """The slowdown that it will have suffered at best: who lags most goes first."""
    return (age + ahead) / alone


POLICIES = ("basic", "g-heft", "aging", "aging-exp", "fcfs", "srpt", "foft")
"""By their numbers. BASIC knows no priority: each task is sent as soon as it can be."""


def priority(policy: str, of: WaitingWorkflow) -> float:
    """The priority that *policy* gives."""
    match policy:
        case "g-heft":
            return g_heft(of.rank)
        case "aging":
            return aging(of.rank, of.age, of.alone)
        case "aging-exp":
            return aging_exp(of.rank, of.age, of.alone)
        case "srpt":
            return srpt(of.remaining)
        case "foft":
            return foft(of.age, of.ahead, of.alone)
        case _:
            return fcfs(of.arrival)
