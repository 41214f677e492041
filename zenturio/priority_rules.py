"""Priorities of those that share machines or slots: the highest goes first.

All are from section 4 of Bolze, Desprez and Isnard, "Evaluation of Online Multi-Workflow Heuristics
based on List-Scheduling Algorithms". Schedulers of streams order workflows by them, and a service
its studies. They need nothing but `math`, so that kernels can compile them.

* rank: the longest path from a task to the end of its workflow, the task included
* arrival: when the workflow was submitted; age: how long ago that was
* alone: how long the workflow would take by itself
* remaining: the work of all its unfinished tasks
* ahead: how long it would still take if it had all machines from now on
"""

from __future__ import annotations

from math import inf, log
from typing import NamedTuple


class WaitingWorkflow(NamedTuple):
    """A waiting workflow: the rank of its best task, its history and what remains."""

    rank: float = 1.0
    arrival: float = 0.0
    age: float = 0.0
    alone: float = 1.0
    remaining: float = 1.0
    ahead: float = 0.0


def g_heft(rank: float) -> float:
    """Return the rank: long paths first. Young workflows starve those that are nearly done."""
    return rank


def aging(rank: float, age: float, alone: float) -> float:
    """Return the rank times ``1 + age / alone``."""
    return rank * (1 + age / alone)


def aging_exp(rank: float, age: float, alone: float) -> float:
    """Return the logarithm of the rank times ``e ** (1 + age / alone)``, which cannot overflow."""
    return log(rank) + 1 + age / alone if rank > 0 else -inf


def fcfs(arrival: float) -> float:
    """Return the priority by arrival: first come, first served."""
    return -arrival


def srpt(remaining: float) -> float:
    """Return the priority by remaining work: the least goes first."""
    return 1 / remaining if remaining > 0 else inf


def foft(age: float, ahead: float, alone: float) -> float:
    """Return the slowdown that the workflow will have at best: the most delayed goes first."""
    return (age + ahead) / alone


POLICIES = ("basic", "g-heft", "aging", "aging-exp", "fcfs", "srpt", "foft")
"""Policies by number. BASIC has no priority: each task is sent as soon as it is ready."""


def priority(policy: str, of: WaitingWorkflow) -> float:
    """Return the priority of a waiting workflow under *policy*."""
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
