"""The factors of a space: blocks, components and their product; random points of it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import attrgetter, mul
from typing import Protocol

import numpy as np

from zenturio.errors import SpaceError
from zenturio.expression import Expression, Value
from zenturio.space.code_table import EncodedTable, TooManyRows, stacked
from zenturio.space.definition import Definition, ExpandedConstraint, Part, parted
from zenturio.space.domain import Column, Continuous
from zenturio.space.join import EDGES, DecisionDiagram, Join, JoinProgress
from zenturio.space.parameter import Dependent, Parameter
from zenturio.space.point import PointColumns

_FEWEST, _MANY = 2, 64

Window = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """The points with codes in *windows* of the first dimensions, all but the last of size 1."""

    windows: tuple[Window, ...] = ()
    share: float = field(default=1.0, compare=False)
    """The share of the plain product that the block covers."""


WHOLE = Block()


class BlockTree:
    """The blocks of a part; a block is divided when its diagram is too large."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.join = Join(part)
        self._children: dict[Block, tuple[Block, ...]] = {}
        self._counts: dict[Block, int] = {}
        self._diagram = lru_cache(maxsize=8)(self._make_diagram)

    @property
    def diagram(self) -> DecisionDiagram | None:
        """The diagram of all points, None if it is too large."""
        return self._diagram(WHOLE)

    def count(self) -> int:
        """Return the number of points; SpaceError if counting would take hours."""
        return self._count(WHOLE, JoinProgress())

    def _windows(self, block: Block) -> dict[str, Window]:
        return dict(zip(self.part.names, block.windows, strict=False))

    def _count(self, block: Block, progress: JoinProgress) -> int:
        if block not in self._counts:
            diagram = self._diagram(block)
            if diagram is None:
                children = self._children[block]
                self._counts[block] = sum(self._count(child, progress) for child in children)
            else:
                self._counts[block] = diagram.size
                # A diagram counts as its largest size: what counting costs depends on their
                # number.
                progress.rows += EDGES
                progress.share += block.share
                self._refuse_hopeless(progress)
        return self._counts[block]

    def _refuse_hopeless(self, progress: JoinProgress) -> None:
        if progress.is_hopeless:
            names = ", ".join(self.part.names[:6]) + (", ..." if self.part.names[6:] else "")
            raise SpaceError(
                f"the valid combinations of {names} are too many to count",
                hint="sample them, walk them with a limit, or let a search engine choose",
            )

    def locate(self, row: int) -> tuple[int, DecisionDiagram]:
        """Return the diagram with point number *row*, and the number of its first point."""
        block, first = WHOLE, 0
        while (diagram := self._diagram(block)) is None:
            children = self._children[block]
            counts = [self._count(child, JoinProgress()) for child in children]
            starts = list(accumulate(counts, initial=first))
            at = next(i for i, (_, end) in enumerate(pairwise(starts)) if row < end)
            block, first = children[at], starts[at]
        return first, diagram

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the point with *codes*; None if it is not valid."""
        block, first = WHOLE, 0
        while (diagram := self._diagram(block)) is None:
            inside = None
            for child in self._children[block]:
                # All windows before the last have one code each, which the parent has checked.
                code = codes[self.part.names[len(child.windows) - 1]]
                low, high = child.windows[-1]
                if low <= code < high:
                    inside = child
                    break
                first += self._count(child, JoinProgress())
            if inside is None:
                return None
            block = inside
        at = diagram.find(codes)
        return None if at is None else first + at

    def _make_diagram(self, block: Block) -> DecisionDiagram | None:
        """Return the diagram of *block*; None, after dividing the block, if it is too large."""
        if block in self._children:
            return None
        try:
            return self.join.diagram(self._windows(block))
        except TooManyRows as error:
            self._divide(block, error.rows)
            return None

    def _divide(self, block: Block, rows: int) -> None:
        """Divide *block* in order, into more children the more *rows* it would have had."""
        windows = block.windows
        # A window of one code cannot be halved: the next dimension is divided.
        while not windows or windows[-1][1] - windows[-1][0] == 1:
            windows = (*windows, self._extent(windows))
        low, high = windows[-1]
        parts = min(max(_FEWEST, rows >> 20), _MANY, high - low)
        cuts = [low + (high - low) * i // parts for i in range(parts + 1)] if parts else []
        self._children[block] = tuple(
            Block((*windows[:-1], cut), block.share / parts) for cut in pairwise(cuts)
        )

    def _extent(self, windows: tuple[Window, ...]) -> Window:
        """Return the window of the next dimension, where those before have one code each."""
        parameter = self.part.dimensions[len(windows)]
        codes = {
            name: np.array([low]) for name, (low, _) in zip(self.part.names, windows, strict=False)
        }
        rows = PointColumns(self.part.parameters, codes, 1)
        for leader in self.part.leaders.get(parameter.name, ()):
            # Both are always active, so the leader's position is the only one.
            if self.part.parameters[leader].when is None and parameter.when is None:
                code = int(codes[leader][0])
                return code, code + 1
        shift = 0 if parameter.when is None else 1
        if shift and not rows.active(parameter)[0]:
            return 0, 1
        domain = parameter.domain
        assert domain is not None, "only dimensions are divided"
        if isinstance(domain, Dependent):
            return shift, shift + int(rows.counts(domain)[0])
        return shift, shift + domain.size


MAX_TABLE_BYTES = 1 << 29
"""Tables up to this many bytes are kept in memory; larger parts are joined block by block."""

MAX_EAGER_CODES = 1 << 23
"""A table is built at once if that takes at most this many codes, dropped ones included."""

MAX_LOOKUPS = 4096
"""Up to this many combinations are looked up one by one instead of building the table."""

_INT64 = 1 << 63
_LENGTH = attrgetter("length")
_STEP = 1 << 16


class Component(Protocol):
    """The valid combinations of dimensions that share constraints."""

    @property
    def part(self) -> Part: ...

    @property
    def size(self) -> int:
        """The number of valid combinations."""
        ...

    @property
    def is_counted(self) -> bool:
        """Whether the size is known already, or cheap to compute."""
        ...

    @property
    def is_countable(self) -> bool:
        """Whether the size is known, or found by one decision diagram."""
        ...

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        """Return the columns of codes of the combinations with numbers *rows*."""
        ...

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the combination with *codes*; ``None`` if it is not valid."""
        ...

    def tables(self) -> Iterator[EncodedTable]:
        """Yield all combinations in order, as tables."""
        ...


class FreeComponent:
    """One dimension without constraints: nothing is listed."""

    is_counted = is_countable = True

    def __init__(self, part: Part) -> None:
        self.part = part
        domain = part.dimensions[0].domain
        assert domain is not None, "a dimension has a set"
        self.size = domain.size
        self._kind = np.min_scalar_type(self.size - 1)

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        if isinstance(rows, range) and self.size < _INT64:
            return (np.arange(rows.start, rows.stop, rows.step).astype(self._kind),)
        return (np.asarray(rows, dtype=self._kind),)

    def find(self, codes: dict[str, int]) -> int | None:
        (code,) = codes.values()
        return code

    def tables(self) -> Iterator[EncodedTable]:
        for start in range(0, self.size, _STEP):
            stop = min(start + _STEP, self.size)
            yield EncodedTable(self.part.names, self.codes(range(start, stop)), stop - start)


class JoinedComponent:
    """Dependent dimensions: a table if it fits into memory, else a decision diagram or blocks."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._blocks = BlockTree(part)
        self._start()

    @cached_property
    def size(self) -> int:
        if self._whole is not None:
            return self._whole.length
        diagram = self._blocks.diagram
        if diagram is not None:
            return diagram.size
        return self._blocks.count() if self._table is None else self._table.length

    @property
    def is_counted(self) -> bool:
        return "size" in self.__dict__ or self._whole is not None

    @property
    def is_countable(self) -> bool:
        return self.is_counted or self._blocks.diagram is not None

    @property
    def diagram(self) -> DecisionDiagram | None:
        """The diagram of all combinations, None if it is too large."""
        return self._blocks.diagram

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        if len(rows) <= MAX_LOOKUPS and self._whole is None and self._blocks.diagram is not None:
            return self._by_diagram(rows)
        if self._table is None:
            return self._by_diagram(rows)
        if isinstance(rows, range) and rows.step == 1:
            return self._table.cut(rows.start, rows.stop).columns
        return self._table.take(np.asarray(rows, dtype=np.intp)).columns

    def _by_diagram(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        numbers = np.array(rows, dtype=np.int64 if self.size < _INT64 else np.object_)
        # Ascending numbers need each diagram once, however the numbers are mixed.
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        tables, done = [], 0
        while done < len(order):
            first, diagram = self._blocks.locate(int(ascending[done]))
            end = int(np.searchsorted(ascending, first + diagram.size))
            tables.append(diagram.table(ascending[done:end] - first))
            done = end
        inverse = np.empty(len(order), dtype=np.intp)
        inverse[order] = np.arange(len(order))
        return stacked(self.part.names, tables).take(inverse).columns

    def find(self, codes: dict[str, int]) -> int | None:
        # Not by the property: it would build the table, perhaps for minutes, to find one row.
        table = self.__dict__.get("_table", self._whole)
        return self._blocks.find(codes) if table is None else table.find(codes)

    def tables(self) -> Iterator[EncodedTable]:
        table = self.__dict__.get("_table", self._whole)
        if table is not None:
            yield table
        else:
            yield from filter(_LENGTH, self._blocks.join.walk({}, JoinProgress()))

    @cached_property
    def _whole(self) -> EncodedTable | None:
        """The table of all combinations if it is cheap, else None."""
        return self._joined(MAX_EAGER_CODES)

    @cached_property
    def _table(self) -> EncodedTable | None:
        """The table of all combinations if it fits into memory, else None."""
        if self._whole is not None:
            return self._whole
        diagram = self._blocks.diagram
        # Counted by the diagram, the size of the table is known before any of it is built.
        small = diagram is None or diagram.size * len(self.part.names) <= MAX_TABLE_BYTES
        table = self._joined(math.inf) if small else None
        self._walked.clear()
        return table

    def _start(self) -> None:
        """Start the join; its progress is kept between calls of ``_joined``."""
        self._progress = JoinProgress()
        self._walk = self._blocks.join.walk({}, self._progress)
        self._walked: list[EncodedTable] = []

    def _joined(self, most: float) -> EncodedTable | None:
        """Return all combinations; None if that takes more than *most* codes or too much memory."""
        try:
            complete = self._continue(most)
        except BaseException:
            self._start()  # an interrupted generator would look exhausted
            raise
        if not complete:
            return None
        table = stacked(self.part.names, self._walked)
        self._walked = []
        return table

    def _continue(self, most: float) -> bool:
        progress = self._progress
        stored_codes = sum(table.length * table.width for table in self._walked)
        for table in self._walk:
            if table.length:
                self._walked.append(table)
            stored_codes += table.length * table.width
            if progress.codes > most or stored_codes > MAX_TABLE_BYTES or progress.is_hopeless:
                return False
            # Extrapolated, the whole would be four times too large; below a sixteenth, the share
            # covered so far is no good estimate.
            if (
                stored_codes > MAX_TABLE_BYTES // 16
                and stored_codes > 4 * MAX_TABLE_BYTES * progress.share
            ):
                return False
        return True


class TableComponent:
    """A table of some combinations of a part, as one step of a walk."""

    is_counted = is_countable = True

    def __init__(self, part: Part, table: EncodedTable) -> None:
        self.part = part
        self.table = table
        self.size = table.length

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        return self.table.take(np.asarray(rows, dtype=np.intp)).columns

    def find(self, codes: dict[str, int]) -> int | None:
        return self.table.find(codes)

    def tables(self) -> Iterator[EncodedTable]:
        yield self.table


def component_of(part: Part) -> Component:
    """Return the component that *part* makes."""
    return FreeComponent(part) if part.plain else JoinedComponent(part)


# Products, also under growing constraints

Codes = dict[str, Column]


FIRST, BATCH = 256, 4096
"""Points in the first and in later batches; the first is small, so that a walk starts fast."""


class Product:
    """The product of *components*."""

    def __init__(self, components: Sequence[Component]) -> None:
        self.components = tuple(components)

    @cached_property
    def size(self) -> int:
        return math.prod(component.size for component in self.components)

    @cached_property
    def _strides(self) -> list[int]:
        """The number of points for one step of each component."""
        sizes = (component.size for component in reversed(self.components[1:]))
        return list(accumulate(sizes, mul, initial=1))[::-1] if self.components else []

    def stretch(self, start: int, stop: int) -> Codes:
        """Return the codes of points number *start* to before *stop*."""
        codes: Codes = {}
        for component, stride in zip(self.components, self._strides, strict=True):
            rows, times = _runs(start, stop, stride, component.size)
            for name, column in zip(component.part.names, component.codes(rows), strict=True):
                codes[name] = column if times is None else np.repeat(column, times)
        return codes

    def picked(self, numbers: Sequence[int]) -> Codes:
        """Return the codes of the points with these *numbers*."""
        codes: Codes = {}
        for component, stride in zip(self.components, self._strides, strict=True):
            # Python's integers: numbers and strides may be beyond 64 bits.
            rows = [number // stride % component.size for number in numbers]
            codes.update(zip(component.part.names, component.codes(rows), strict=True))
        return codes

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the point with *codes*; None if it is not valid."""
        number = 0
        for component in self.components:
            row = component.find({name: codes[name] for name in component.part.names})
            if row is None:
                return None
            number = number * component.size + row
        return number

    def walk(self) -> Iterator[tuple[Codes, int]]:
        """Yield the codes of all points in order, in batches, without counting components."""
        unknown = [at for at, component in enumerate(self.components) if not component.is_counted]
        if not unknown:
            yield from self._count_through()
            return
        head, remainder = self.components[0], Product(self.components[1:])
        for table in head.tables():
            piece = TableComponent(head.part, table)
            if unknown == [0]:
                yield from Product((piece, *remainder.components)).walk()
                continue
            for row in range(piece.size):
                first = dict(zip(head.part.names, piece.codes([row]), strict=True))
                for codes, length in remainder.walk():
                    same = {name: np.repeat(code, length) for name, code in first.items()}
                    yield {**same, **codes}, length

    def _count_through(self) -> Iterator[tuple[Codes, int]]:
        start, batch = 0, FIRST
        while start < self.size:
            stop = min(start + batch, self.size)
            yield self.stretch(start, stop), stop - start
            start, batch = stop, BATCH


def _runs(
    start: int, stop: int, stride: int, size: int
) -> tuple[Sequence[int] | Column, Column | None]:
    """Return the rows of a component in points *start* to *stop*, and how often each repeats."""
    if start >= stop:
        return range(0), None
    first, last = start // stride, (stop - 1) // stride
    count, low = last - first + 1, first % size
    rows: Sequence[int] | Column = range(low, low + count)
    if low + count > size:
        small = size < _INT64 // 2
        # Near 2**63 the sum would overflow.
        rows = np.arange(low, low + count) % size if small else _turning(low, count, size)
    if stride == 1:
        return rows, None
    times = np.full(count, min(stride, stop - start), dtype=np.int64)
    times[0] = min(stop, (first + 1) * stride) - start
    if count > 1:
        times[-1] = stop - last * stride
    return rows, times


def _turning(low: int, count: int, size: int) -> list[int]:
    return [(low + i) % size for i in range(count)]


def growing_products(definition: Definition) -> Iterator[Product]:
    """Yield the product under no constraint, under the first one, under the first two, ...

    Only the parts that a constraint touches are made anew, so that the others stay counted.
    """
    dimensions, constraints = definition.dimensions, definition.constraints
    conditions = iter(definition.conditions)
    order = {id(condition): at for at, condition in enumerate(definition.conditions)}
    components: dict[str, Component] = {}
    constants: list[Component] = []

    def take(new_components: Iterable[Component]) -> None:
        for component in new_components:
            if not component.part.names:
                constants.append(component)
            components.update(dict.fromkeys(component.part.names, component))

    def product() -> Product:
        distinct = {id(component): component for component in components.values()}
        return Product([*constants, *distinct.values()])

    take(map(component_of, parted(dimensions, (), ())))
    yield product()
    for number, constraint in enumerate(constraints, 1):
        new: list[ExpandedConstraint] = []
        if isinstance(constraint, Expression):
            new.append(next(conditions))
            names = new[0].names
        else:
            names = frozenset(constraint.names)
        touched = {id(components[name]): components[name] for name in names}
        for component in touched.values():
            new += component.part.conditions
        # In the order of declaration: a condition may be evaluable only where others hold.
        new.sort(key=lambda condition: order[id(condition)])
        if isinstance(constraint, Expression):
            zips = [group for component in touched.values() for group in component.part.zips]
        else:  # a constraint before may have tied some of these dimensions already
            groups = replace(definition, constraints=constraints[:number]).zips
            zips = [group for group in groups if id(components[group[0]]) in touched]
        inside = [p for p in dimensions if id(components[p.name]) in touched]
        take(map(component_of, parted(inside, new, zips)))
        yield product()


# Random points, uniform over the valid ones, even where these cannot be counted

SAMPLE_BATCH = 1024
"""Combinations in the first batch; the next ones grow, up to LARGEST_BATCH, while few are valid."""

LARGEST_BATCH = 1 << 16

TRIES = 1 << 22
"""Sampling gives up after this many combinations without a valid one."""


_EXACT = 1 << 40
"""Below this, a fraction of 53 bits picks each number equally often, but for one in 2**13."""


class NoneValid(SpaceError):
    """Of many random combinations, none was valid."""


def distinct(size: int, count: int, rng: random.Random) -> list[int]:
    """Draw *count* different numbers below *size*, in random order."""
    if count > size:
        raise SpaceError(
            f"{count} different points are requested, but there are only {size}",
            hint="request fewer",
        )
    # Of more than half of the numbers, most later draws would be repeats.
    if 2 * count > size:
        return rng.sample(range(size), count)
    # rng.sample() takes len() of the range, which fails beyond 63 bits; vast spaces have more.
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        drawn[rng.randrange(size)] = None
    return list(drawn)


class RejectionSampler:
    """Draws combinations of a part that cannot be counted: continuous, or too large.

    As many conditions as possible are joined. Combinations are drawn uniformly from the result, and
    rejected if they violate one of the other conditions.
    """

    def __init__(self, part: Part, tries: int = TRIES) -> None:
        self.part = part
        self.tries = tries
        self.continuous = {
            parameter.name: parameter.domain
            for parameter in part.dimensions
            if isinstance(parameter.domain, Continuous)
        }

    def draw(self, rng: random.Random) -> Iterator[dict[str, Value]]:
        """Yield valid combinations as values by name, without end."""
        for rows in self.batches(rng):
            columns = [rows[name].tolist() for name in self.part.names]
            for values in zip(*columns, strict=True):
                yield dict(zip(self.part.names, values, strict=True))

    def batches(self, rng: random.Random) -> Iterator[PointColumns]:
        """Yield batches of valid combinations, without end."""
        bits = np.random.PCG64(rng.getrandbits(64))
        tried = accepted = 0
        length = SAMPLE_BATCH
        while True:
            rows = self._batch(rng, bits, length)
            for condition in self._remaining:
                rows = rows.where(rows.kept(condition.expression))
            tried, accepted = tried + length, accepted + rows.length
            if not accepted and tried >= self.tries:
                raise NoneValid(
                    f"among {tried:,} random combinations of {', '.join(self.part.names[:6])},"
                    " none is valid",
                    hint="relax constraints, let them name fewer parameters, or take the first"
                    " points (--limit)",
                )
            if 64 * accepted < tried:
                length = min(4 * length, LARGEST_BATCH)
            yield rows

    def share(self, seed: int, tries: int) -> tuple[int, int]:
        """Return how many of about *tries* random combinations are valid, and their number."""
        bits = np.random.PCG64(seed)
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        tried = accepted = 0
        while tried < tries:
            rows = self._batch(rng, bits, LARGEST_BATCH)
            for condition in self._remaining:
                rows = rows.where(rows.kept(condition.expression))
            tried, accepted = tried + LARGEST_BATCH, accepted + rows.length
        return accepted, tried

    @property
    def joined_size(self) -> int:
        """The number of combinations that are drawn from, before some are rejected."""
        return math.prod(each.size for each in self._joined)

    def _batch(self, rng: random.Random, bits: np.random.PCG64, length: int) -> PointColumns:
        """Return a batch of random combinations that meet the joined conditions."""
        picked: dict[str, Column] = {}
        for component in self._joined:
            numbers = _random_rows(component.size, length, rng, bits)
            picked.update(zip(component.part.names, component.codes(numbers), strict=True))
        rows = PointColumns(self.part.parameters, picked, length)
        for late in self._uncountable:
            rows = self._chosen(late, rows, rng)
        return rows

    def _chosen(self, parameter: Parameter, rows: PointColumns, rng: random.Random) -> PointColumns:
        """Return *rows* with a random value of *parameter*, uniform in each row."""
        active = (
            np.ones(rows.length, np.bool_) if parameter.when is None else rows.active(parameter)
        )
        domain = parameter.domain
        assert domain is not None, "a dimension has a set"
        if isinstance(domain, Continuous):
            drawn = [domain.draw(rng) if yes else math.nan for yes in active.tolist()]
            return rows.with_codes(parameter.name, np.array(drawn, dtype=np.float64))
        sizes = np.full(rows.length, domain.size if not isinstance(domain, Dependent) else 0)
        if isinstance(domain, Dependent):
            sizes[active] = rows.where(active).counts(domain)
        # Where a range is empty there is no point, whatever the other values are.
        possible = ~active | (sizes > 0)
        shift = 0 if parameter.when is None else 1
        codes = [
            rng.randrange(size) + shift if yes else 0
            for yes, size in zip(active[possible].tolist(), sizes[possible].tolist(), strict=True)
        ]
        return rows.where(possible).with_codes(parameter.name, np.array(codes, dtype=np.int64))

    @cached_property
    def _uncountable(self) -> tuple[Parameter, ...]:
        """The continuous dimensions, and those that depend on one."""
        return tuple(
            parameter
            for parameter in self.part.dimensions
            if self.part.needs[parameter.name] & self.continuous.keys()
        )

    @cached_property
    def _joined(self) -> tuple[Component, ...]:
        return tuple(map(component_of, self._parts(self._inner)))

    @cached_property
    def _inner(self) -> tuple[ExpandedConstraint, ...]:
        """The conditions that are joined: greedily as many as can be."""
        late = {parameter.name for parameter in self._uncountable}
        early = [condition for condition in self.part.conditions if not condition.names & late]
        inner: tuple[ExpandedConstraint, ...] = ()
        # Conditions on few names first: they join small tables, and leave more to join.
        for condition in sorted(early, key=lambda candidate: len(candidate.names)):
            whole = next(
                part for part in self._parts((*inner, condition)) if condition in part.conditions
            )
            if component_of(whole).is_counted:
                inner = (*inner, condition)
        return inner

    @cached_property
    def _remaining(self) -> tuple[ExpandedConstraint, ...]:
        return tuple(
            condition for condition in self.part.conditions if condition not in self._inner
        )

    def _parts(self, conditions: Sequence[ExpandedConstraint]) -> tuple[Part, ...]:
        late = {parameter.name for parameter in self._uncountable}
        early = [parameter for parameter in self.part.dimensions if parameter.name not in late]
        return parted(early, conditions, self.part.zips)


def _random_rows(
    size: int, length: int, rng: random.Random, bits: np.random.PCG64
) -> list[int] | Column:
    """Return *length* random numbers below *size*."""
    if size > _EXACT:
        return [rng.randrange(size) for _ in range(length)]
    # The raw bits are the same in every version of NumPy, its integers() need not be.
    fractions = (bits.random_raw(length) >> np.uint64(11)) * 2.0**-53
    return (fractions * size).astype(np.int64)


def sample_values(
    components: Sequence[Component | RejectionSampler], rng: random.Random
) -> Iterator[Mapping[str, Value]]:
    """Yield values for all dimensions, without end; combinations may repeat."""
    lots = [
        component.draw(rng) if isinstance(component, RejectionSampler) else _counted(component, rng)
        for component in components
    ]
    while True:
        values: dict[str, Value] = {}
        for lot in lots:
            values.update(next(lot))
        yield values


def _counted(factor: Component, rng: random.Random) -> Iterator[dict[str, Value]]:
    """Yield random combinations of a component that can be counted."""
    if not factor.size:
        raise SpaceError(f"no combination of {', '.join(factor.part.names)} is valid")
    names = factor.part.names
    while True:
        codes = Product([factor]).picked([rng.randrange(factor.size) for _ in range(64)])
        rows = PointColumns(factor.part.parameters, codes, 64)
        for values in zip(*(rows[name].tolist() for name in names), strict=True):
            yield dict(zip(names, values, strict=True))
