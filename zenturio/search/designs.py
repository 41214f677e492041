"""Designs: points that are chosen beforehand, to see what matters and what acts together.

A design is written ``KIND:NUMBER``, such as ``saltelli:128``. The same design of the same space
with the same seed has the same points in the same order, so that an analysis finds them again:
nothing but the text and the seed is kept.

A factor of a design is a group of parameters that constraints tie to each other (most often one
parameter alone): factors are independent, so any combination of their values is a valid point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.search.baselines import spread, unit_sequence
from zenturio.search.gene_encoding import GeneBlock, Ints
from zenturio.search.genome import Genome
from zenturio.space import Point, Space

MAX_ROWS = 1 << 16
"""A factor of more combinations is not covered: they would have to be listed."""

CANDIDATES = 20
"""Rows that are tried for each row of a covering design; the best of them is taken."""

MAX_TUPLES = 1 << 22
"""A covering design of more tuples of values would take hours."""


@dataclass(frozen=True)
class Design:
    """A kind of design, its number (of points, trajectories, rows or values), and its seed."""

    kind: str
    number: int
    seed: int = 0

    @classmethod
    def read(cls, text: str, seed: int = 0) -> Design:
        """Return the design that *text* names; InputError for another text."""
        kind, colon, number = text.partition(":")
        if kind not in KINDS:
            raise InputError(
                f"--design {text}: {kind!r} is not a design",
                hint=did_you_mean(kind, KINDS) or f"designs: {', '.join(KINDS)}",
            )
        counted, least = KINDS[kind][1:]
        if not colon or not number.isascii() or not number.isdecimal() or int(number) < least:
            raise InputError(
                f"--design {text}: the number of {counted} is missing or too small",
                hint=f"write {kind}:{max(least, 2)}, or more",
            )
        return cls(kind, int(number), seed)

    @property
    def text(self) -> str:
        """``saltelli:128``"""
        return f"{self.kind}:{self.number}"

    @property
    def counted(self) -> str:
        """What the number counts: points, rows or trajectories."""
        return KINDS[self.kind][1]

    def points(self, space: Space) -> tuple[Point, ...]:
        """Return the points of the design in its order; some may be equal."""
        genome = Genome(space, self.seed)
        rows = KINDS[self.kind][0](genome, self.number, np.random.default_rng(self.seed))
        return tuple(genome.points(np.ascontiguousarray(rows, dtype=np.int64)))

    def factors(self, space: Space) -> tuple[tuple[str, ...], ...]:
        """Return the names of the parameters of each factor that varies."""
        return tuple(block.names for block, _ in _factors(Genome(space, self.seed)))


Factor = tuple[GeneBlock, slice]


def _factors(genome: Genome) -> list[Factor]:
    """Return the blocks of *genome* that have a choice, and their genes."""
    return [
        (block, span) for block, span in genome.blocks if len(block.sizes) and max(block.sizes) > 1
    ]


def stratified(genome: Genome, count: int, rng: np.random.Generator) -> Ints:
    """Return *count* random rows in which each share of a factor's values is as frequent.

    Factors that can be numbered are divided into *count* strata (a Latin hypercube); others are
    drawn, uniformly over what is valid.
    """
    rows = genome.draw(rng, count)
    for block, span in _factors(genome):
        shares = (rng.permutation(count) + rng.random(count)) / count
        if block.count is not None:
            # In Python's integers: a share of a large number is no exact float.
            numbers = [int(share * (1 << 53)) * block.count >> 53 for share in shares]
            rows[:, span] = block.by_number(np.array(numbers, dtype=np.int64))
        elif len(block.sizes) == 1 and block.ordered[0]:
            rows[:, span] = np.floor(shares * block.sizes[0]).astype(np.int64)[:, None]
    return rows


def _latin(genome: Genome, count: int, rng: np.random.Generator) -> Ints:
    return stratified(genome, count, rng)


def _sobol(genome: Genome, count: int, rng: np.random.Generator) -> Ints:
    return spread(genome, unit_sequence(genome.length, rng, count))


def _saltelli(genome: Genome, count: int, rng: np.random.Generator) -> Ints:
    """Return rows A and B, and for each factor A with that factor of B (Saltelli 2010)."""
    first, second = stratified(genome, count, rng), stratified(genome, count, rng)
    mixed = []
    for _, span in _factors(genome):
        changed = first.copy()
        changed[:, span] = second[:, span]
        mixed.append(changed)
    return np.concatenate([first, second, *mixed])


def _morris(genome: Genome, count: int, rng: np.random.Generator) -> Ints:
    """Return *count* trajectories that change one factor after the other (Morris 1991).

    An ordered parameter goes 30% to 70% of its range up or down (always the same distance would
    hide a period); other factors take another value.
    """
    factors = _factors(genome)
    rows = []
    for start in genome.draw(rng, count):
        row = start.copy()
        rows.append(row.copy())
        for at in rng.permutation(len(factors)).tolist():
            block, span = factors[at]
            row[span] = _moved(block, row[span], rng)
            rows.append(row.copy())
    return np.stack(rows)


def _moved(block: GeneBlock, row: Ints, rng: np.random.Generator) -> Ints:
    if len(block.sizes) == 1 and block.ordered[0]:
        last, gene = block.sizes[0] - 1, int(row[0])
        step = max(round(last * rng.uniform(0.3, 0.7)), 1)
        fitting = [moved for moved in (gene + step, gene - step) if 0 <= moved <= last]
        moved = fitting[0] if fitting else (0 if gene > last / 2 else last)
        repaired: Ints = block.repair(np.array([[moved]], dtype=np.int64))[0]
        if (repaired != row).any():
            return repaired
    for _ in range(100):
        drawn: Ints = block.draw(rng, 1)[0]
        if (drawn != row).any():
            break
    return drawn


def _covering(genome: Genome, strength: int, rng: np.random.Generator) -> Ints:
    """Return few rows in which any *strength* parameters take all combinations that are valid.

    Greedy, one row after the other (Cohen and others 1997): of some candidates, each made around a
    combination that is missing, the one that covers most of what is missing.
    """
    tables = [_listed(block) for block, _ in _factors(genome)]
    columns = [(at, column) for at, table in enumerate(tables) for column in range(table.shape[1])]
    if strength > len(columns):
        raise InputError(
            f"--design covering:{strength}: only {len(columns)} parameters vary",
            hint=f"write covering:{len(columns)}, or run all points",
        )
    missing = _tuples(tables, columns, strength)
    rows = []
    while missing:
        seeds = list(missing)
        picked = rng.integers(len(seeds), size=min(CANDIDATES, len(seeds)))
        candidates = [_around(seeds[at], tables, columns, missing, rng) for at in picked.tolist()]
        best, covered = max(candidates, key=lambda candidate: len(candidate[1]))
        missing.difference_update(covered)
        rows.append(best)
    whole = genome.draw(rng, len(rows))  # parameters with one value keep it
    for at, ((_, span), table) in enumerate(zip(_factors(genome), tables, strict=True)):
        whole[:, span] = table[[row[at] for row in rows]]
    return whole


Tuple = tuple[tuple[int, int], ...]
"""Columns by number, and the value of each."""


def _listed(block: GeneBlock) -> Ints:
    """Return all rows of a factor."""
    if block.count is None or block.count > MAX_ROWS:
        raise InputError(
            f"{', '.join(block.names)} cannot be covered: there are too many values",
            hint="take n points of a continuous set with LIN or LOG, or use lhs:N",
        )
    return block.by_number(np.arange(block.count))


def _tuples(
    tables: Sequence[Ints], columns: Sequence[tuple[int, int]], strength: int
) -> set[Tuple]:
    """Return all valid combinations of values of *strength* columns."""
    valid: set[Tuple] = set()
    for chosen in combinations(range(len(columns)), strength):
        by_table: dict[int, list[int]] = {}
        for at in chosen:
            by_table.setdefault(columns[at][0], []).append(at)
        parts = [
            [tuple(zip(ats, row, strict=True)) for row in _distinct(tables[table], columns, ats)]
            for table, ats in by_table.items()
        ]
        for combined in product(*parts):
            valid.add(tuple(sorted(pair for part in combined for pair in part)))
            if len(valid) > MAX_TUPLES:
                raise InputError(
                    f"--design covering:{strength}: more than {MAX_TUPLES:,} combinations",
                    hint=f"cover fewer parameters at a time: covering:{strength - 1}",
                )
    return valid


def _distinct(
    table: Ints, columns: Sequence[tuple[int, int]], ats: Sequence[int]
) -> list[tuple[int, ...]]:
    rows = np.unique(table[:, [columns[at][1] for at in ats]], axis=0)
    return [tuple(row) for row in rows.tolist()]


def _around(
    seed: Tuple,
    tables: Sequence[Ints],
    columns: Sequence[tuple[int, int]],
    missing: set[Tuple],
    rng: np.random.Generator,
) -> tuple[list[int], set[Tuple]]:
    """Return a row (the row of each table) that contains *seed*, and what it covers."""
    strength = len(seed)
    chosen: dict[int, int] = {}
    values: dict[int, int] = {}
    fixed: dict[int, list[tuple[int, int]]] = {}
    for at, value in seed:
        fixed.setdefault(columns[at][0], []).append((columns[at][1], value))
    order = [*fixed, *(at for at in rng.permutation(len(tables)).tolist() if at not in fixed)]
    covered: set[Tuple] = set()
    for number in order:
        table = tables[number]
        fitting = np.ones(len(table), dtype=np.bool_)
        for column, value in fixed.get(number, ()):
            fitting &= table[:, column] == value
        options = np.flatnonzero(fitting)
        if len(options) > CANDIDATES:
            options = rng.choice(options, CANDIDATES, replace=False)
        own = [at for at, (of, _) in enumerate(columns) if of == number]
        best = max(
            (
                (_gained(table[option], own, values, strength, missing), option)
                for option in rng.permutation(options).tolist()
            ),
            key=lambda pair: len(pair[0]),
        )
        covered |= best[0]
        chosen[number] = best[1]
        values.update(zip(own, table[best[1]].tolist(), strict=True))
    return [chosen[at] for at in range(len(tables))], covered


def _gained(
    row: Ints, own: Sequence[int], values: dict[int, int], strength: int, missing: set[Tuple]
) -> set[Tuple]:
    """Return the missing combinations that *row* of one table adds to *values* of others."""
    added = list(zip(own, row.tolist(), strict=True))
    gained: set[Tuple] = set()
    for size in range(1, min(strength, len(added)) + 1):
        for new in combinations(added, size):
            for old in combinations(values.items(), strength - size):
                one = tuple(sorted((*new, *old)))
                if one in missing:
                    gained.add(one)
    return gained


Kind = tuple[Callable[[Genome, int, np.random.Generator], Any], str, int]

KINDS: dict[str, Kind] = {
    "lhs": (_latin, "points", 1),
    "sobol": (_sobol, "points", 1),
    "saltelli": (_saltelli, "rows", 2),
    "morris": (_morris, "trajectories", 2),
    "covering": (_covering, "parameters", 1),
}
"""Of each kind: what makes its rows, what its number counts, and the least number."""
