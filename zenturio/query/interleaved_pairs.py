"""Runs of two versions that ran next to each other, in an order that was drawn at random.

Only such pairs are compared. In each the order was decided by a fair coin, so for equal programs
the sign of the difference is one, too, whatever else the machine did (R. A. Fisher: The Design of
Experiments, 1935; Lehmann & Romano: Testing Statistical Hypotheses, 2005, 5.8).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]

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
    leader: int
    """Which version ran first: 0 or 1."""
    started: float
    """When that did."""


class PairedRuns(NamedTuple):
    """The pairs of one point, and what kept other runs from being pairs."""

    pairs: tuple[BlockPair, ...]
    differing: tuple[str, ...]
    """The conditions that differed between neighbours of a block."""


class StudyRuns(NamedTuple):
    """The runs of one side of a comparison, by point."""

    runs: Mapping[tuple[Any, ...], MeasuredRuns]
    failures: Mapping[tuple[Any, ...], int]
    left_out: int
    """Runs that succeeded and have no finite value."""
    table: RunTable

    def rows(self, points: Iterable[tuple[Any, ...]]) -> Array:
        """Return the rows of all runs of *points*."""
        return np.concatenate([self.runs[point].rows for point in points])


class MeasuredRuns(Sequence[MeasuredRun]):
    """The runs of one point, each made when it is asked for: there may be millions of them."""

    def __init__(self, table: RunTable, rows: Array) -> None:
        self._table = table
        self.rows = rows

    @property
    def values(self) -> Array:
        return self._table.values[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> MeasuredRun: ...
    @overload
    def __getitem__(self, at: slice) -> list[MeasuredRun]: ...
    def __getitem__(self, at: int | slice) -> MeasuredRun | list[MeasuredRun]:
        if isinstance(at, slice):
            return [self._table.run(row) for row in self.rows[at].tolist()]
        return self._table.run(int(self.rows[at]))


class RunTable:
    """The columns of a frame that make its runs, as arrays."""

    def __init__(self, frame: pd.DataFrame, values: Array) -> None:
        self._frame = frame
        self._names = frame.attrs.get("facts", {})
        self.values = values

    def coded(self, fact: str) -> tuple[Array, list[Any]]:
        """Return a number for each row and what the numbers stand for; None if nothing is known."""
        column = self._column(fact)
        if column is None:
            return np.zeros(len(self.values), dtype=np.int8), [None]
        codes, texts = pd.factorize(column)
        return np.where(codes < 0, len(texts), codes), [*texts.tolist(), None]

    def numbers(self, fact: str) -> Array:
        """Return the values of a fact, NaN where there is none."""
        column = self._column(fact)
        if column is None:
            return np.full(len(self.values), np.nan)
        return column.to_numpy(dtype=np.float64, na_value=math.nan)

    def run(self, row: int) -> MeasuredRun:
        number, repeat, block, turn, started, ended, load = (
            None if math.isnan(column[row]) else float(column[row]) for column in self._numbers
        )
        in_blocks = None not in (block, turn, started, ended) and self._is_in_blocks[row]
        return MeasuredRun(
            float(self.values[row]),
            int(number or 1),
            int(repeat or 1),
            int(block) if in_blocks and block is not None else None,
            None if turn is None else int(turn),
            started or 0.0,
            ended or 0.0,
            tuple([texts[codes[row]] for codes, texts in self.conditions]),
            load,
        )

    @cached_property
    def conditions(self) -> list[tuple[Array, list[Any]]]:
        """The values of `CONDITIONS`."""
        return [self.coded(fact) for fact in CONDITIONS]

    @cached_property
    def loads(self) -> Array:
        return self.numbers("host_load")

    @cached_property
    def _numbers(self) -> list[Array]:
        facts = ("round", "repeat", "run_block", "run_turn", "started", "ended")
        return [*map(self.numbers, facts), self.loads]

    @cached_property
    def _is_in_blocks(self) -> Array:
        codes, orders = self.coded("run_order")
        return np.array([order in ORDERS for order in orders])[codes]

    def _column(self, fact: str) -> pd.Series[Any] | None:
        column: pd.Series[Any] | None = self._frame.get(self._names.get(fact, fact))
        return column


def runs_by_point(frame: pd.DataFrame, on: Sequence[str], values: Array) -> StudyRuns:
    """Return the runs of *frame* by the parameters *on*; *values* are those of the metric."""
    table = RunTable(frame, values)
    cells_of_rows = np.zeros(len(frame), dtype=np.int64)
    for name in on:
        codes, texts = pd.factorize(frame[name])
        # Numbered anew after each parameter: the product of many sets is beyond 64 bits.
        cells_of_rows, _ = pd.factorize(cells_of_rows * (len(texts) + 1) + codes + 1)
    codes, states = table.coded("status")
    counts = ~(table.numbers("repeat") < 1)  # a warm-up does not
    has_failed = counts & np.array([state in FAILURES for state in states])[codes]
    has_succeeded = counts & np.array([state in (None, "ok") for state in states])[codes]
    is_used = has_succeeded & np.isfinite(table.values)
    used = np.flatnonzero(is_used)
    order = used[np.argsort(cells_of_rows[used], kind="stable")]
    starts = np.flatnonzero(np.diff(cells_of_rows[order], prepend=-1))
    # Points come in the order of their first runs.
    by_first = np.argsort(order[starts], kind="stable")
    groups = np.split(order, starts[1:]) if len(order) else []
    points = _points(frame, on, order[starts])
    failed = np.flatnonzero(has_failed)
    _, first, failures = np.unique(cells_of_rows[failed], return_index=True, return_counts=True)
    return StudyRuns(
        {points[at]: MeasuredRuns(table, groups[at]) for at in by_first.tolist()},
        dict(zip(_points(frame, on, failed[first]), failures.tolist(), strict=True)),
        int((has_succeeded & ~is_used).sum()),
        table,
    )


def _points(frame: pd.DataFrame, on: Sequence[str], rows: Array) -> list[tuple[Any, ...]]:
    """Return the values of the parameters *on* in some rows."""
    chosen = frame.iloc[rows]
    return list(zip(*(cells(chosen, name) for name in on), strict=True)) or [()] * len(rows)


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
        pairs.append(BlockPair((a.round, a.repeat), a.value, b.value, side, run.started))
    return PairedRuns(tuple(pairs), tuple(sorted(differing)))


def split_by_predecessor(
    sides: Sequence[StudyRuns], pairs: Sequence[BlockPair], differences: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return the *differences* of pairs that began behind a run of their first version, and others.

    If a run of one version disturbs the next run more than a run of the other does, pairs behind a
    run of the same version are not affected, and all others are, in the same direction. Pairs whose
    predecessor was of another round, or still ran, tell nothing.
    """
    tables = [side.table for side in sides]
    started, ended, rounds = (
        np.concatenate([table.numbers(name) for table in tables])
        for name in ("started", "ended", "round")
    )
    rounds = np.nan_to_num(rounds, nan=1)
    versions = np.repeat([0, 1], [len(table.values) for table in tables])
    order = np.argsort(started, kind="stable")
    before = np.searchsorted(started[order], [pair.started for pair in pairs]) - 1
    same: list[float] = []
    other: list[float] = []
    for pair, difference, at in zip(pairs, differences, before.tolist(), strict=True):
        row = order[at]
        if at >= 0 and rounds[row] == pair.block[0] and ended[row] <= pair.started:
            (same if versions[row] == pair.leader else other).append(difference)
    return same, other


def conditions_that_differ(
    names: tuple[str, str], sides: Sequence[StudyRuns], points: Sequence[tuple[Any, ...]]
) -> tuple[str, ...]:
    """Return a line for each condition that differs between the runs of both sides at *points*."""
    lines = []
    rows = [side.rows(points) for side in sides]
    for at, label in enumerate(CONDITIONS.values()):
        first, second = (
            {texts[code] for code in np.unique(codes[chosen]).tolist()} - {None}
            for (codes, texts), chosen in zip(
                (side.table.conditions[at] for side in sides), rows, strict=True
            )
        )
        if first != second and first and second:
            lines.append(f"{label}: {names[0]} {_listed(first)}; {names[1]} {_listed(second)}")
    loads = [side.table.loads[chosen] for side, chosen in zip(sides, rows, strict=True)]
    loads = [np.sort(load[~np.isnan(load)]) for load in loads]
    if all(map(len, loads)):
        low, high = (load[len(load) // 2] for load in loads)
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
