"""Runs of two versions that ran next to each other, in an order that was drawn at random.

Only such pairs are compared. In each the order was decided by a fair coin, so for equal programs
the sign of the difference is one, too, whatever else the machine did (R. A. Fisher: The Design of
Experiments, 1935; Lehmann & Romano: Testing Statistical Hypotheses, 2005, 5.8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

FACTS = (
    "run_order", "run_block", "run_turn", "host_governor", "host_slots", "host_cpus", "host_load",
)  # fmt: skip
"""What frames of results need beside what `study_frame` has with *everything*."""
CONDITIONS = {
    "machine": "kind of machine",
    "host": "host",
    "host_governor": "governor",
    "host_slots": "experiments at a time (-j)",
    "host_cpus": "processors bound to",
}
"""What must be equal for runs to be compared, and what each is called."""
ORDERS = frozenset({"blocks", "pairs"})
"""The orders that put the versions of a point into blocks, and draw who is first."""
FAILURES = frozenset({"failed", "timeout", "wrong"})


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run that has a value, and where and when it ran."""

    value: float
    round: int
    repeat: int
    block: int | None
    """Its block of a shuffled order; None where it ran in none."""
    turn: int | None
    started: float
    ended: float
    conditions: tuple[Any, ...]
    """The values of `CONDITIONS`."""
    load: float | None


class BlockPair(NamedTuple):
    """The values of both versions in one block."""

    block: tuple[int, int]
    """The round and the repeat."""
    first: float
    second: float


class PairedRuns(NamedTuple):
    """The pairs of one point, and what kept other runs from being pairs."""

    pairs: tuple[BlockPair, ...]
    differing: tuple[str, ...]
    """The conditions that differed between neighbours of a block."""


class StudyRuns(NamedTuple):
    """The runs of one side of a comparison, by point."""

    runs: Mapping[tuple[Any, ...], list[MeasuredRun]]
    failures: Mapping[tuple[Any, ...], int]
    left_out: int
    """Runs that succeeded and have no finite value."""


def runs_by_point(frame: pd.DataFrame, on: Sequence[str], values: Sequence[float]) -> StudyRuns:
    """Return the runs of *frame* by the parameters *on*; *values* are those of the metric."""
    named = frame.attrs.get("facts", {})

    def fact(name: str) -> list[Any]:
        column = named.get(name, name)
        return cells(frame, column) if column in frame else [None] * len(frame)

    points = list(zip(*(cells(frame, name) for name in on), strict=True)) or [()] * len(frame)
    conditions = zip(*map(fact, CONDITIONS), strict=True)
    facts = map(
        fact,
        ("status", "run_order", "run_block", "run_turn", "round", "repeat", "started", "ended",
         "host_load"),
    )  # fmt: skip
    runs: dict[tuple[Any, ...], list[MeasuredRun]] = {}
    failures: dict[tuple[Any, ...], int] = {}
    left_out = 0
    for point, value, place, row in zip(
        points, values, conditions, zip(*facts, strict=True), strict=True
    ):
        status, order, block, turn, number, repeat, started, ended, load = row
        if repeat is not None and repeat < 1:  # a warm-up
            continue
        if status in FAILURES:
            failures[point] = failures.get(point, 0) + 1
        elif status in (None, "ok"):
            if not math.isfinite(value):
                left_out += 1
                continue
            has_place = order in ORDERS and None not in (block, turn, started, ended)
            run = MeasuredRun(
                value, number or 1, repeat or 1, block if has_place else None, turn,
                started or 0.0, ended or 0.0, place, load,
            )  # fmt: skip
            runs.setdefault(point, []).append(run)
    return StudyRuns(runs, failures, left_out)


def cells(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return a column as values of Python, with None for what is missing."""
    column = frame[name]
    return column.astype(object).where(column.notna(), None).tolist()


def pair_runs(first: Sequence[MeasuredRun], second: Sequence[MeasuredRun]) -> PairedRuns:
    """Return the pairs of one point that ran next to each other in a block.

    Next to each other: of all runs of the point, none began between the two. So a run that was
    repeated after a failure, or versions that ran on two days, are no pairs though their numbers
    of blocks agree. If a pair did not run in the order that was drawn for it, none of the point
    counts: what else decided the order is not known.
    """
    blocks: dict[tuple[int, int], list[tuple[int, MeasuredRun]]] = {}
    for side, runs in enumerate((first, second)):
        for run in runs:
            if run.block is not None:
                blocks.setdefault((run.round, run.block), []).append((side, run))
    for members in blocks.values():
        if len({run.turn for _, run in members}) < len(members):
            return PairedRuns((), ())
    timeline = sorted(
        (placed for members in blocks.values() for placed in members), key=lambda p: p[1].started
    )
    pairs, differing = [], set()
    for (side, run), (next_side, following) in pairwise(timeline):
        same_block = (run.round, run.block) == (following.round, following.block)
        if side == next_side or not same_block:
            continue
        if run.conditions != following.conditions:
            values = zip(CONDITIONS.values(), run.conditions, following.conditions, strict=True)
            differing |= {name for name, a, b in values if a != b}
            continue
        # Runs in two slots may begin at nearly the same time; then the clock says nothing.
        drawn = (run.turn or 0) < (following.turn or 0)
        if not drawn and following.started >= run.ended:
            return PairedRuns((), ())
        a, b = (run, following) if side == 0 else (following, run)
        pairs.append(BlockPair((a.round, a.repeat), a.value, b.value))
    return PairedRuns(tuple(pairs), tuple(sorted(differing)))


def conditions_that_differ(
    names: tuple[str, str], first: Sequence[MeasuredRun], second: Sequence[MeasuredRun]
) -> tuple[str, ...]:
    """Return a line for each condition that differs between the two sides."""
    lines = []
    for at, label in enumerate(CONDITIONS.values()):
        sides = [{run.conditions[at] for run in runs} - {None} for runs in (first, second)]
        if sides[0] != sides[1] and all(sides):
            lines.append(f"{label}: {names[0]} {_listed(sides[0])}; {names[1]} {_listed(sides[1])}")
    loads = [sorted(run.load for run in runs if run.load is not None) for runs in (first, second)]
    if all(loads):
        low, high = (values[len(values) // 2] for values in loads)
        # Half a process more is within what the machine does by itself.
        if abs(high - low) > max(0.5, 0.5 * min(low, high)):
            lines.append(
                f"load of the machine (median): {names[0]} {low:.1f}; {names[1]} {high:.1f}"
            )
    return tuple(lines)


def _listed(values: set[Any], most: int = 4) -> str:
    texts = sorted(map(str, values))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
