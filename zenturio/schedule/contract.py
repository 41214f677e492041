"""Performance contracts: whether a task that runs keeps what was foreseen for it.

Section 5.1 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" (SAC 2005).
"""

from __future__ import annotations

from math import inf


def contract_violation(work: float, done: float, estimate: float, elapsed: float) -> float:
    """By which part a task is behind: PC(N, t) = W_N / (W_N(t) T_N) (t - start(N)) - 1.

    *done* of its *work* is done after *elapsed* seconds; *estimate* seconds were foreseen for the
    whole. 0: as foreseen; 1: it will take twice as long. At the start nothing is behind; later, a
    task that has done nothing is so without end.
    """
    if elapsed <= 0:
        return 0.0
    foreseen = estimate * (done / work if work else 1.0)
    return elapsed / foreseen - 1 if foreseen else inf


def seconds_to_breach(
    factor: float, done: float, pace: float, estimate: float, elapsed: float
) -> float:
    """In how many seconds a contract exceeds *factor*; infinite, if it will not.

    *done* and *pace* are the part of the work that is done, and what is added in a second.
    """
    allowed = (1 + factor) * estimate
    nearing = 1 - allowed * pace
    left = allowed * done - elapsed
    if left < 0:
        return 0.0
    return left / nearing if nearing > 0 else inf
