"""What workflows suffer from each other, and algorithms beside each other.

Slowdown and fairness are those of the paper on online scheduling of many workflows (section 6),
ASE and BDT those of the paper on xDCP and pM-S (section IV-A).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from zenturio.errors import InputError
from zenturio.schedule.workflow import Floats


def slowdowns(arrived: ArrayLike, ended: ArrayLike, alone: ArrayLike) -> Floats:
    """For each workflow, its time from arrival to end by its makespan if it were alone."""
    came, went, least = (np.asarray(each, np.float64) for each in (arrived, ended, alone))
    if not came.shape == went.shape == least.shape:
        raise InputError("slowdown: an arrival, an end and a makespan for each workflow")
    if not ((least > 0).all() and (went >= came).all()):
        raise InputError(
            "slowdown: a workflow ends after it arrives, and takes time if it is alone"
        )
    found: Floats = (went - came) / least
    return found


def slowdown_quartiles(values: ArrayLike) -> dict[str, float]:
    """The slowdowns *values* as the numbers of a box plot."""
    found = _finite_numbers(values)
    names = ("slowdown_min", "slowdown_q1", "slowdown_median", "slowdown_q3", "slowdown_max")
    quartiles = np.quantile(found, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return {"slowdown_mean": float(found.mean()), **dict(zip(names, quartiles, strict=True))}


def fairness_metrics(values: ArrayLike) -> dict[str, float]:
    """How far the slowdowns *values* lie apart: in four ways, 0 where all suffer the same."""
    found = _finite_numbers(values)
    low, high = np.quantile(found, (0.25, 0.75))
    return {
        "fairness_range": float(np.ptp(found)),
        "fairness_interquartile": float(high - low),
        "fairness_average": float(np.abs(found - found.mean()).mean()),
        "fairness_std": float(found.std()),
    }


def ase(makespans: ArrayLike, shuffled: ArrayLike) -> float:
    """Average scheduling effectiveness: percent of the makespan of shuffle, over many workflows.

    The lower the better; the reciprocal of a speedup.
    """
    found, base = _finite_numbers(makespans), _finite_numbers(shuffled)
    if found.shape != base.shape or not (base > 0).all():
        raise InputError("ASE: a makespan for each one, above 0, of shuffle")
    return float((found / base).mean() * 100)


def bdt(makespans: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """Beat-down time: for how many workflows each algorithm had the best makespan.

    Algorithms that share the best one have all beaten the rest down.
    """
    rows = [_finite_numbers(each) for each in makespans.values()]
    if len({len(row) for row in rows}) != 1:
        raise InputError("BDT: each algorithm has a makespan for each workflow")
    table = np.array(rows)
    wins = (table == table.min(axis=0)).sum(axis=1).tolist()
    return dict(zip(makespans, wins, strict=True))


def _finite_numbers(values: ArrayLike) -> Floats:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise InputError("one number at least, and all of them finite")
    return found
