"""Pairs of runs of two versions that ran next to each other, in random order.

Only such pairs are compared. A fair coin decided the order in each, so for equal programs the sign
of the difference is a fair coin, too, regardless of other load on the machine (R. A. Fisher: The
Design of Experiments, 1935; Lehmann & Romano: Testing Statistical Hypotheses, 2005, 5.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, overload

import numpy as np

from zenturio.query.aggregates import count_origins
from zenturio.query.columnar_table import CopiedTable
from zenturio.query.study_table import StudyTable, TableQuery, condition_of, open_table
from zenturio.record import Repository, codec, columnar_copy
from zenturio.record.columnar_copy import Array, NotInCopyError, look_up
from zenturio.record.entities import RowChoice

if TYPE_CHECKING:
    import pandas as pd

FACTS = (
    "run_order", "run_block", "run_turn", "host_governor", "host_slots", "host_cpus", "host_load",
)  # fmt: skip
"""Facts that frames need in addition to those of `study_frame` with *everything*."""
CONDITIONS = {
    "machine": "kind of machine",
    "host": "host",
    "host_governor": "governor",
    "host_slots": "experiments at a time (-j)",
    "host_cpus": "processors bound to",
}
"""Conditions that must be equal for runs to be compared, with their labels."""
ORDERS = frozenset({"blocks", "pairs"})
"""The orders (ORDER) that run the versions of a point in blocks, in random order."""
FAILURES = frozenset({"failed", "timeout", "wrong"})


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run with a value of the metric, and where and when it ran."""

    value: float
    round: int
    repeat: int
    block: int | None
    """Its block of a shuffled order; None if it ran in no block."""
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
    """When the first one began."""


class PairedRuns(NamedTuple):
    """The pairs of one point, and why other runs are not in pairs."""

    pairs: tuple[BlockPair, ...]
    differing: tuple[str, ...]
    """The conditions that differed within a block."""


class StudyRuns(NamedTuple):
    """The runs of one side of a comparison, by point."""

    runs: Mapping[tuple[Any, ...], MeasuredRuns]
    failures: Mapping[tuple[Any, ...], int]
    left_out: int
    """Successful runs without a finite value."""
    table: RunTable

    def rows(self, points: Iterable[tuple[Any, ...]]) -> Array:
        """Return the rows of all runs of *points*."""
        return np.concatenate([self.runs[point].rows for point in points])


class MeasuredRuns(Sequence[MeasuredRun]):
    """The runs of one point, each made on access: there may be millions of them."""

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


class RunColumns(Protocol):
    """The runs of one side as columns, from a frame or a columnar copy."""

    attrs: dict[Any, Any]
    """The ``attrs`` of `study_frame`."""

    @property
    def names(self) -> Sequence[str]:
        """The parameters and metrics, and facts of a frame."""

    def __len__(self) -> int: ...

    def coded(self, name: str) -> tuple[Array, list[Any]]:
        """Return a code for each row, and the value of each code; None for missing ones."""

    def cells(self, name: str, rows: Array) -> list[Any]:
        """Return the values in some rows, None for missing ones."""

    def metric(self, name: str) -> Array:
        """Return the values of a metric, NaN for missing ones."""

    def coded_fact(self, fact: str) -> tuple[Array, list[Any]] | None:
        """Return a fact like `coded`; None if it was not recorded."""

    def numbers(self, fact: str) -> Array | None:
        """Return the values of a fact, NaN where there is none."""


class DataFrameRuns:
    """The columns of a frame of `study_frame`."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self.attrs = frame.attrs

    @property
    def names(self) -> Sequence[str]:
        return list(map(str, self._frame.columns))

    def __len__(self) -> int:
        return len(self._frame)

    def coded(self, name: str) -> tuple[Array, list[Any]]:
        import pandas as pd  # noqa: PLC0415 - the copy needs none

        codes, values = pd.factorize(self._frame[name])
        return np.where(codes < 0, len(values), codes), [*values.tolist(), None]

    def cells(self, name: str, rows: Array) -> list[Any]:
        return cells(self._frame.iloc[rows], name)

    def metric(self, name: str) -> Array:
        from zenturio.query.frames import as_reals  # noqa: PLC0415 - as above

        return as_reals(self._frame[name])

    def coded_fact(self, fact: str) -> tuple[Array, list[Any]] | None:
        column = self._column_of(fact)
        return self.coded(column) if column in self._frame else None

    def numbers(self, fact: str) -> Array | None:
        column = self._column_of(fact)
        if column not in self._frame:
            return None
        reals: Array = self._frame[column].to_numpy(dtype=np.float64, na_value=math.nan)
        return reals

    def _column_of(self, fact: str) -> str:
        return str(self.attrs.get("facts", {}).get(fact, fact))


class RunTable:
    """The columns of one side, from which its runs are made, and the values of the metric."""

    def __init__(self, columns: RunColumns, values: Array) -> None:
        self.columns = columns
        self.values = values

    def coded(self, fact: str) -> tuple[Array, list[Any]]:
        """Return a code for each row, and the value of each code; None if it was not recorded."""
        unknown = np.broadcast_to(np.int8(0), len(self.values)), [None]
        return self.columns.coded_fact(fact) or unknown

    def numbers(self, fact: str) -> Array:
        """Return the values of a fact, NaN where there is none."""
        values = self.columns.numbers(fact)
        return np.broadcast_to(np.nan, len(self.values)) if values is None else values

    def where(self, fact: str, is_met: Callable[[Any], bool]) -> Array:
        """Return the mask of the rows in which a fact meets a condition."""
        codes, values = self.coded(fact)
        return look_up(np.array([is_met(value) for value in values], dtype=np.bool_), codes)

    @property
    def has_blocks(self) -> bool:
        """Whether any run was in a block."""
        return bool(self._is_in_blocks.any())

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
        return self.where("run_order", ORDERS.__contains__)


def runs_by_point(columns: RunColumns, on: Sequence[str], values: Array) -> StudyRuns:
    """Return the runs of one side, grouped by the parameters *on*; *values* are of the metric."""
    table = RunTable(columns, values)
    points, count = np.zeros(len(columns), dtype=np.int8), 1
    for name in on:
        codes, distinct = columns.coded(name)
        # Renumbered after each parameter: the product of many sets exceeds 64 bits.
        combined = points.astype(np.int64) * len(distinct)
        combined += codes
        points, count = _renumbered(combined, count * len(distinct))
    counts = table.where("repeat", lambda repeat: repeat is None or not repeat < 1)  # no warm-up
    has_failed = counts & table.where("status", FAILURES.__contains__)
    has_succeeded = counts & table.where("status", (None, "ok").__contains__)
    is_used = has_succeeded & np.isfinite(table.values)
    used = np.flatnonzero(is_used)
    order = used[np.argsort(points[used], kind="stable")]
    starts = np.flatnonzero(np.diff(points[order], prepend=-1))
    # Points come in the order of their first runs.
    by_first = np.argsort(order[starts], kind="stable")
    groups = np.split(order, starts[1:]) if len(order) else []
    names = _points(columns, on, order[starts])
    failed = np.flatnonzero(has_failed)
    _, first, failures = np.unique(points[failed], return_index=True, return_counts=True)
    return StudyRuns(
        {names[at]: MeasuredRuns(table, groups[at]) for at in by_first.tolist()},
        dict(zip(_points(columns, on, failed[first]), failures.tolist(), strict=True)),
        int(np.count_nonzero(has_succeeded)) - len(used),
        table,
    )


def _renumbered(numbers: Array, below: int) -> tuple[Array, int]:
    """Return the rank of each number among the distinct ones, and their count.

    The type of the ranks is the smallest possible: NumPy sorts integers of 16 bits by radix.
    """
    if below <= 4 * len(numbers):  # a table of all possible numbers is about as long as the rows
        is_present = np.zeros(below, dtype=np.bool_)
        is_present[numbers] = True
        count = int(np.count_nonzero(is_present))
        ranks = (np.cumsum(is_present) - 1).astype(np.min_scalar_type(-max(count, 1)))
        return look_up(ranks, numbers), count
    distinct, codes = np.unique(numbers, return_inverse=True)
    return codes, len(distinct)


def _points(columns: RunColumns, on: Sequence[str], rows: Array) -> list[tuple[Any, ...]]:
    """Return the values of the parameters *on* in some rows."""
    return list(zip(*(columns.cells(name, rows) for name in on), strict=True)) or [()] * len(rows)


def cells(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return a column as values of Python, with None for missing ones."""
    column = frame[name]
    return column.astype(object).where(column.notna(), None).tolist()


def pair_runs(first: Sequence[MeasuredRun], second: Sequence[MeasuredRun]) -> PairedRuns:
    """Return the pairs of one point that ran next to each other in a block.

    Next to each other means that no other run of the point began between the two. So a run that was
    repeated after a failure, or versions that ran on two days, are not pairs, although the numbers
    of their blocks agree. If a pair did not run in the order that was drawn for it, no pair of the
    point counts: something unknown decided the order.
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
        # Runs in two slots may begin at nearly the same time; then the clock proves nothing.
        drawn = (run.turn or 0) < (following.turn or 0)
        if not drawn and following.started >= run.ended:
            return PairedRuns((), ())
        a, b = (run, following) if side == 0 else (following, run)
        pairs.append(BlockPair((a.round, a.repeat), a.value, b.value, side, run.started))
    return PairedRuns(tuple(pairs), tuple(sorted(differing)))


def split_by_predecessor(
    sides: Sequence[StudyRuns], pairs: Sequence[BlockPair], differences: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return the *differences* of pairs that began after a run of their first version, and others.

    If a run of one version disturbs the next run more than a run of the other does, pairs after a
    run of the same version are not affected, and all others are, in the same direction. Pairs whose
    predecessor was of another round, or still running, are left out.
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
    after_leader: list[float] = []
    after_others: list[float] = []
    for pair, difference, at in zip(pairs, differences, before.tolist(), strict=True):
        row = order[at]
        if at >= 0 and rounds[row] == pair.block[0] and ended[row] <= pair.started:
            (after_leader if versions[row] == pair.leader else after_others).append(difference)
    return after_leader, after_others


def conditions_that_differ(
    names: tuple[str, str], sides: Sequence[StudyRuns], points: Sequence[tuple[Any, ...]]
) -> tuple[str, ...]:
    """Return a line for each condition that differs between the runs of both sides at *points*."""
    lines = []
    rows = [side.rows(points) for side in sides]
    for at, label in enumerate(CONDITIONS.values()):
        first, second = (
            {texts[code] for code in np.flatnonzero(np.bincount(codes[chosen])).tolist()} - {None}
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
        # Half a process more is ordinary background load.
        if abs(high - low) > max(0.5, 0.5 * min(low, high)):
            lines.append(
                f"load of the machine (median): {names[0]} {low:.1f}; {names[1]} {high:.1f}"
            )
    return tuple(lines)


def _listed(values: set[Any], most: int = 4) -> str:
    texts = sorted(map(str, values))
    hidden = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + hidden


# Runs of a large study: from the columnar copy, without a frame, texts as codes
#
# The copy lacks the conditions of runs: they are read from the database, and joined with the copy's
# rows by number. No Python object is made for a run here.

_CODED = {"host_governor": "c.governor", "host_slots": "c.slots", "host_cpus": "c.cpus"}
"""Conditions with few distinct values, and their columns in the database."""
_LOAD = {"host_load": "c.load_start"}
_ORDER = {"run_order": "c.run_order"}
_BLOCK = {"run_block": "c.run_block", "run_turn": "c.run_turn"}
_TIMES = {"started": "e.started", "ended": "e.ended"}
"""Facts that only runs in blocks have, and their columns in the database."""


class ColumnarCopyRuns:
    """The runs of a large study as columns, from its columnar copy."""

    def __init__(self, table: CopiedTable, attrs: dict[Any, Any]) -> None:
        self.attrs = attrs
        self._count = table.count
        self._order = table.space_order
        self._columns: dict[str, tuple[Array, list[Any]]] = {}
        self._metrics: dict[str, Array] = {}
        self._facts: dict[str, tuple[Array, list[Any]]] = {}
        self._numbers: dict[str, Array] = {}

    @property
    def names(self) -> Sequence[str]:
        return [*self._columns, *self._metrics]

    def __len__(self) -> int:
        return self._count

    def coded(self, name: str) -> tuple[Array, list[Any]]:
        return self._columns[name]

    def cells(self, name: str, rows: Array) -> list[Any]:
        codes, values = self._columns[name]
        return [values[code] for code in codes[rows].tolist()]

    def metric(self, name: str) -> Array:
        return self._metrics[name]

    def coded_fact(self, fact: str) -> tuple[Array, list[Any]] | None:
        return self._facts.get(fact)

    def numbers(self, fact: str) -> Array | None:
        if fact not in self._facts:
            return self._numbers.get(fact)
        codes, values = self._facts[fact]
        reals = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        return look_up(reals, codes)

    def add_coded(self, name: str, cells: tuple[Array, list[Any]], *, fact: bool = False) -> None:
        codes, values = cells
        (self._facts if fact else self._columns)[name] = codes[self._order], values

    def add_reals(self, name: str, reals: Array, *, fact: bool = False) -> None:
        (self._numbers if fact else self._metrics)[name] = reals[self._order]


def copied_runs(
    repository: Repository,
    study: str,
    metric: str,
    *,
    where: Any,
    rows: RowChoice,
    outside: bool,
    is_paired: bool,
    parameters: Collection[str] = (),
) -> ColumnarCopyRuns | None:
    """Return the runs of a large study with *metric*, as `study_frame` returns them with
    *everything*.

    Only these *parameters*, if any are named; the blocks of runs only if it *is_paired* with runs
    of the same study. None for a small study, or if the copy lacks a column.
    """
    if sum(count.count for count in repository.count_results(study)) < columnar_copy.COPY_ROWS:
        return None
    query = TableQuery(
        study, condition_of(where), metrics=(metric,), rows=rows, succeeded=False, outside=outside
    )
    with open_table(repository, query) as answers:
        try:
            table = answers.copied()
            if table is None:
                return None
            return _copied_runs(answers, table, metric, parameters, is_paired=is_paired)
        except NotInCopyError:
            return None


def _copied_runs(
    answers: StudyTable,
    table: CopiedTable,
    metric: str,
    names: Collection[str],
    *,
    is_paired: bool,
) -> ColumnarCopyRuns:
    catalog = answers.catalog
    measured = catalog.column(metric)
    attrs = {
        "study": answers.query.study,
        "units": {c.name: c.unit for c in (*catalog.parameters, measured) if c.unit},
        "parameters": [column.name for column in catalog.parameters],
        "left_out": len(answers.without),
        **count_origins(answers.reader, catalog, answers.statement).attrs(),
    }
    runs = ColumnarCopyRuns(table, attrs)
    for column in catalog.parameters:
        if not names or column.name in names:
            runs.add_coded(column.name, table.cells(column))
    runs.add_reals(measured.name, table.reals(measured))
    for fact in ("status", "round", "repeat"):
        runs.add_coded(fact, table.cells(catalog.facts[fact]), fact=True)
    for fact, (name, label) in _LABELS.items():
        codes, ids = table.ids(fact)
        rows = answers.reader.fetch(f"SELECT id, {label} FROM {name}")  # noqa: S608 - names
        labels = {int(number): codec.unescape(text) for number, text in rows}
        runs.add_coded(fact, (codes, [labels.get(number) for number in ids]), fact=True)
    _add_conditions(runs, answers, table, is_paired=is_paired)
    return runs


_LABELS: Mapping[Literal["machine", "host"], tuple[str, str]] = {
    "machine": ("machines", "label"), "host": ("hosts", "name"),
}  # fmt: skip
"""Tables with the labels of machines and the names of hosts."""
_BESIDE = (
    " LEFT JOIN copies k ON k.result = e.id"
    " JOIN conditions c ON c.attempt = coalesce(k.source, e.id)"
)


def _add_conditions(
    runs: ColumnarCopyRuns, answers: StudyTable, table: CopiedTable, *, is_paired: bool
) -> None:
    """Read the facts that the copy lacks, most of them only for runs in blocks."""
    numbers = table.row_numbers
    coded = {**_CODED, **_ORDER} if is_paired else _CODED
    reals = {**_LOAD, **_BLOCK} if is_paired else _LOAD
    codes = {fact: _FactCodes(len(numbers)) for fact in coded}
    columns: dict[str, Array] = {}
    for places, cells in _beside(answers, numbers, {**coded, **reals}, _BESIDE):
        for of_fact, column in zip(codes.values(), cells, strict=False):
            of_fact.put(places, column)
        _put_reals(columns, len(numbers), places, zip(reals, cells[len(coded) :], strict=True))
    for fact, of_fact in codes.items():
        if of_fact.codes is not None:
            runs.add_coded(fact, (of_fact.codes, of_fact.texts), fact=True)
    if is_paired and not ORDERS.isdisjoint(codes["run_order"].texts):
        for places, cells in _beside(answers, numbers, _TIMES):
            _put_reals(columns, len(numbers), places, zip(_TIMES, cells, strict=True))
    for fact, values in columns.items():
        runs.add_reals(fact, values, fact=True)


class _FactCodes:
    """The codes of a fact in all rows, filled a batch of rows at a time."""

    def __init__(self, rows: int) -> None:
        self.codes: Array | None = None
        """None before any row has a value."""
        self._rows = rows
        self._numbers: dict[Any, int] = {None: 0}

    @property
    def texts(self) -> list[Any]:
        return [codec.unescape(v) if isinstance(v, str) else v for v in self._numbers]

    def put(self, places: Array, values: Sequence[Any]) -> None:
        distinct = set(values)
        if distinct == {None}:
            return
        if self.codes is None:
            self.codes = np.zeros(self._rows, dtype=np.int32)
        for value in distinct - self._numbers.keys():
            self._numbers[value] = len(self._numbers)
        # Usually there is one value: a study runs under the same conditions throughout.
        self.codes[places] = (
            self._numbers[distinct.pop()]
            if len(distinct) == 1
            else [self._numbers[value] for value in values]
        )


def _put_reals(
    columns: dict[str, Array],
    rows: int,
    places: Array,
    parts: Iterable[tuple[str, Sequence[float | None]]],
) -> None:
    for fact, values in parts:
        if fact not in columns:
            columns[fact] = np.full(rows, np.nan)
        columns[fact][places] = np.array(values, dtype=np.float64)


def _beside(
    answers: StudyTable, numbers: Array, columns: Mapping[str, str], joined: str = ""
) -> Iterator[tuple[Array, list[tuple[Any, ...]]]]:
    """Yield columns of the database in batches of rows, and their positions in *numbers*."""
    text = (
        f"SELECT e.id, {', '.join(columns.values())} FROM results e{joined}"  # noqa: S608 - names and a number
        f" WHERE e.version = {answers.catalog.version}"
    )
    for rows in answers.reader.batches(text) if len(numbers) else ():
        first, *cells = zip(*rows, strict=True)
        ids = np.array(first, dtype=np.int64)
        places = np.searchsorted(numbers, ids)
        is_there = numbers[places.clip(max=len(numbers) - 1)] == ids
        if is_there.all():
            yield places, cells
        elif is_there.any():
            chosen = np.flatnonzero(is_there).tolist()
            yield places[chosen], [tuple([column[at] for at in chosen]) for column in cells]
