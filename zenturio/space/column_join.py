"""Joins column by column: statistics, the order of the steps, and the rows that stay."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import groupby

import numpy as np

from zenturio.space.code_table import Choices, EncodedTable, narrow
from zenturio.space.definition import ExpandedConstraint, Part, is_plain
from zenturio.space.domain import Column
from zenturio.space.parameter import Dependent, Parameter
from zenturio.space.point import PointColumns

MAX_LISTED = 1 << 20
"""Conditions on one dimension with up to this many elements are evaluated in advance."""

CELLS = 1 << 20
"""Conditions on two dimensions with up to this many valid pairs are evaluated in advance."""

MAX_CELLS = 1 << 22
"""The most cells of a pair table, invalid codes included."""

PROBES = 256
"""Random points that estimate the selectivity of a condition on more dimensions."""

MAX_SAMPLED = 1 << 62
"""Sets of this size are not sampled."""


@dataclass(frozen=True, eq=False)
class PairTable:
    """A boolean table of the valid pairs of codes of two dimensions."""

    first: str
    second: str
    cells: Column

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.first, self.second))

    def seen_from(self, name: str) -> Column:
        """Return the table with the codes of *name* as rows."""
        return self.cells if name == self.first else self.cells.T

    def other(self, name: str) -> str:
        return self.second if name == self.first else self.first

    def partners(self, name: str, window: tuple[int, int] | None) -> tuple[Column, Column, Column]:
        """Return the partners of all codes of *name*, concatenated, with starts and lengths."""
        if window is None:
            return self._first_lists if name == self.first else self._second_lists
        return _lists(self.seen_from(name), window)

    @cached_property
    def _first_lists(self) -> tuple[Column, Column, Column]:
        return _lists(self.cells, (0, self.cells.shape[1]))

    @cached_property
    def _second_lists(self) -> tuple[Column, Column, Column]:
        return _lists(self.cells.T, (0, self.cells.shape[0]))


def _lists(cells: Column, window: tuple[int, int]) -> tuple[Column, Column, Column]:
    low, high = window
    inside = cells[:, low:high]
    counts = inside.sum(axis=1)
    return narrow(np.nonzero(inside)[1] + low), np.cumsum(counts) - counts, counts


Rule = ExpandedConstraint | PairTable


class PlannerStatistics:
    """The valid codes of each dimension, the remaining rules, and the selectivity of each rule."""

    def __init__(self, part: Part) -> None:
        self.part = part
        # Codes of a zipped dimension follow its leader, so they cannot be listed by themselves.
        zipped = {name for group in part.zips for name in group}
        self.sizes = {
            parameter.name: parameter.domain.size
            for parameter in part.dimensions
            if parameter.domain is not None and is_plain(parameter) and parameter.name not in zipped
        }
        self.allowed: dict[str, Column] = {}
        conditions = [
            condition for condition in part.conditions if not self._apply_unary(condition)
        ]
        pairs = self._take_pairs(conditions)
        self.rules: list[Rule] = [*map(self._restricted, pairs), *conditions]
        self.shares = {rule: self._share(rule) for rule in self.rules}

    def _take_pairs(self, conditions: list[ExpandedConstraint]) -> list[PairTable]:
        """Evaluate conditions on two dimensions, and take them out of *conditions*.

        The smallest pair first: it is cheapest, and its arc consistency shrinks the others.
        """
        users = _numbers_by_name([c.names if len(c.names) == 2 else () for c in conditions])
        queue: list[tuple[float, int]] = []

        def offer(numbers: Iterable[int]) -> None:
            for number in numbers:
                cells = self._cells(conditions[number])
                if number not in taken and cells <= CELLS:
                    heappush(queue, (cells, number))

        taken: set[int] = set()
        pairs: list[PairTable] = []
        by_name: dict[str, list[PairTable]] = defaultdict(list)
        offer(range(len(conditions)))
        while queue:
            cells, number = heappop(queue)
            if number in taken or cells != self._cells(conditions[number]):
                continue  # it was offered again when it shrank
            taken.add(number)
            pair = self._pair(conditions[number])
            pairs.append(pair)
            for name in (pair.first, pair.second):
                by_name[name].append(pair)
            # Fewer codes on one side may make another pair small enough.
            for name in self._make_consistent(pair, by_name):
                offer(users[name])
        conditions[:] = [c for number, c in enumerate(conditions) if number not in taken]
        return pairs

    def codes(self, name: str) -> Column:
        if name not in self.allowed:
            kind = np.min_scalar_type(self.sizes[name] - 1)
            self.allowed[name] = np.arange(self.sizes[name]).astype(kind)
        return self.allowed[name]

    def count(self, name: str) -> int:
        """Return the number of codes of *name*, or a guess of 8."""
        if name in self.allowed:
            return len(self.allowed[name])
        return self.sizes.get(name, 8)

    def _apply_unary(self, condition: ExpandedConstraint) -> bool:
        """Apply a *condition* on one listed dimension to its valid codes; return whether it was."""
        if len(condition.names) != 1:
            return False
        (name,) = condition.names
        if self.sizes.get(name, MAX_LISTED + 1) > MAX_LISTED:
            return False
        codes = self.codes(name)
        rows = PointColumns(self.part.parameters, {name: codes}, len(codes))
        self.allowed[name] = codes[rows.kept(condition.expression)]
        return True

    def _cells(self, condition: ExpandedConstraint) -> float:
        """Return the number of code pairs of a condition on two dimensions; else infinity."""
        if len(condition.names) != 2 or not condition.names <= self.sizes.keys():
            return math.inf
        if math.prod(self.sizes[name] for name in condition.names) > MAX_CELLS:
            return math.inf
        return math.prod(map(self.count, condition.names))

    def _pair(self, condition: ExpandedConstraint) -> PairTable:
        first, second = sorted(condition.names, key=self.part.names.index)
        a, b = self.codes(first), self.codes(second)
        grid = {first: np.repeat(a, len(b)), second: np.tile(b, len(a))}
        rows = PointColumns(self.part.parameters, grid, len(a) * len(b))
        cells = np.zeros((self.sizes[first], self.sizes[second]), dtype=np.bool_)
        # A condition is never evaluated for codes that others have excluded: it may fail there.
        cells[np.ix_(a, b)] = rows.kept(condition.expression).reshape(len(a), len(b))
        return PairTable(first, second, cells)

    def _make_consistent(
        self, new: PairTable, pairs: Mapping[str, Sequence[PairTable]]
    ) -> set[str]:
        """Restrict each dimension to the codes with a partner in every pair (arc consistency).

        All *pairs* but the *new* one, by the names of their dimensions, were consistent before.
        Return the dimensions that have fewer codes now.
        """
        pending, shrunk = [new], set()
        while pending:
            pair = pending.pop()
            for name in (pair.first, pair.second):
                partners = self.codes(pair.other(name))
                cells = pair.seen_from(name)[np.ix_(self.codes(name), partners)]
                possible = np.asarray(cells.any(axis=1))
                if not possible.all():
                    self.allowed[name] = self.codes(name)[possible]
                    pending += pairs[name]
                    shrunk.add(name)
        return shrunk

    def _restricted(self, pair: PairTable) -> PairTable:
        """Return *pair* restricted to the codes that are finally valid."""
        cells = np.zeros_like(pair.cells)
        remaining = np.ix_(self.codes(pair.first), self.codes(pair.second))
        cells[remaining] = pair.cells[remaining]
        return PairTable(pair.first, pair.second, cells)

    def _share(self, rule: Rule) -> float:
        """Estimate the share of combinations that *rule* keeps; 0.5 if it cannot be sampled."""
        if isinstance(rule, PairTable):
            cells = self.count(rule.first) * self.count(rule.second)
            return float(rule.cells.sum()) / max(cells, 1)
        if not all(0 < self.count(name) < MAX_SAMPLED for name in rule.names & self.sizes.keys()):
            return 0.5
        if not rule.names <= self.sizes.keys():
            return 0.5
        # A fixed seed: the same space has the same plan in every run.
        rng = np.random.default_rng(0)
        codes = {}
        for name in sorted(rule.names):
            samples = rng.integers(self.count(name), size=PROBES)
            codes[name] = self.allowed[name][samples] if name in self.allowed else samples
        rows = PointColumns(self.part.parameters, codes, PROBES)
        # Half a hit more, or a rule that no probe met would seem to keep nothing and cost nothing.
        return (float(rows.kept(rule.expression).sum()) + 0.5) / PROBES


@dataclass(frozen=True)
class BindStep:
    """Add a column for dimension *name*; with *pair*, only the codes that are valid partners."""

    name: str
    pair: PairTable | None = None


@dataclass(frozen=True)
class FilterStep:
    """Drop the rows that violate the rule."""

    rule: Rule


JoinStep = BindStep | FilterStep


@dataclass(frozen=True)
class JoinPlan:
    """The steps that build the table of a part, and the valid codes of each dimension."""

    steps: tuple[JoinStep, ...]
    allowed: Mapping[str, Column] = field(default_factory=dict)


def declared_plan(part: Part) -> JoinPlan:
    """Return the plan that evaluates each condition only where all earlier ones hold."""
    steps, waiting = _Steps(part), list(part.conditions)
    for names in ((), *((name,) for name in part.names)):
        steps.bind(names)
        while waiting and waiting[0].names <= steps.bound:
            steps.steps.append(FilterStep(waiting.pop(0)))
    return JoinPlan(tuple(steps.steps))


def sequential_plan(facts: PlannerStatistics) -> JoinPlan:
    """Return the plan in the order of dimensions; its table can be built in pieces."""
    return _grouped_plan(facts, [facts.part.names])


def low_memory_plan(facts: PlannerStatistics) -> JoinPlan:
    """Return a plan with few intermediate rows; columns may be inserted between others.

    A rule that multiplies the rows is postponed if the dimensions that only it needs come last:
    then no other rule is evaluated for each of the new rows. The remaining rules are applied in
    the order of dimensions or greedily, whichever is estimated to be cheaper.
    """
    needs = {rule: facts.part.closure(rule.names) for rule in facts.rules}
    last, rest = _postponed(facts, needs)
    later: list[Iterable[str]] = []
    for paired, rules in groupby(reversed(last), key=lambda rule: isinstance(rule, PairTable)):
        # Pairs cost by the rows they make, most of all between other columns: those come first.
        ranks = {rule: max(map(facts.part.ranks.__getitem__, rule.names)) for rule in rules}
        later += [
            rule.names for rule in (sorted(ranks, key=ranks.__getitem__) if paired else ranks)
        ]
    later.append(facts.part.names)
    in_order = frozenset[str]().union(*(rule.names for rule in rest))
    fewest = [rule.names for rule in _fewest_first(facts, needs, rest)]
    plans = [_grouped_plan(facts, [*first, *later]) for first in ([in_order], fewest)]
    return min(plans, key=lambda plan: _cost(facts, plan))


def _grouped_plan(facts: PlannerStatistics, groups: Iterable[Iterable[str]]) -> JoinPlan:
    """Return a plan that binds dimensions by group, and applies each rule as soon as possible."""
    steps = _Steps(facts.part, facts.rules)
    for names in groups:
        steps.bind(names)
    return JoinPlan(tuple(steps.steps), facts.allowed)


class _Steps:
    """A plan under construction, and the rules whose names are not all bound."""

    def __init__(self, part: Part, rules: Sequence[Rule] = ()) -> None:
        self.part = part
        self.steps: list[JoinStep] = []
        self.bound: set[str] = set()
        self._waiting = dict(enumerate(rules))
        self._unbound = [len(rule.names) for rule in rules]
        """Of each rule, how many of its names are not bound."""
        self._users = _numbers_by_name([rule.names for rule in rules])
        self._apply(number for number, count in enumerate(self._unbound) if not count)

    def bind(self, names: Iterable[str]) -> None:
        """Bind *names* and what they depend on, in the order of the part."""
        needed = self.part.closure(names) - self.bound
        for name in sorted(needed, key=self.part.ranks.__getitem__):
            pair = self._take_pair(name)
            self.steps.append(BindStep(name, pair))
            self.bound.add(name)
            for number in self._users[name]:
                self._unbound[number] -= 1
            self._apply(number for number in self._users[name] if not self._unbound[number])

    def _apply(self, ready: Iterable[int]) -> None:
        for number in ready:
            rule = self._waiting.pop(number, None)
            if rule is not None:
                self.steps.append(FilterStep(rule))

    def _take_pair(self, name: str) -> PairTable | None:
        """Take the most selective pair whose other dimension is bound and before *name*."""
        ranks = self.part.ranks
        fitting: dict[int, PairTable] = {}
        for number in self._users[name]:
            rule = self._waiting.get(number)
            if isinstance(rule, PairTable):
                other = rule.other(name)
                if other in self.bound and ranks[other] < ranks[name]:
                    fitting[number] = rule
        if not fitting:
            return None
        return self._take(min(fitting, key=lambda number: float(fitting[number].cells.mean())))

    def _take(self, number: int) -> PairTable:
        pair = self._waiting.pop(number)
        assert isinstance(pair, PairTable), "only pairs are taken"
        return pair


def _numbers_by_name(groups: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Return the numbers of the *groups* that each name is in, ascending."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, names in enumerate(groups):
        for name in names:
            numbers[name].append(number)
    return numbers


def _fewest_first(
    facts: PlannerStatistics, needs: Mapping[Rule, frozenset[str]], rules: Sequence[Rule]
) -> list[Rule]:
    """Return *rules* in greedy order: next is always the rule that makes the fewest rows."""
    first: list[Rule] = []
    bound: set[str] = set()

    def growth(rule: Rule) -> float:
        return _product(facts, needs[rule] - bound) * facts.shares[rule]

    remaining = dict(enumerate(rules))
    users = _numbers_by_name([needs[rule] for rule in rules])
    growths = {number: growth(rule) for number, rule in remaining.items()}
    while remaining:
        number = min(remaining, key=growths.__getitem__)
        rule = remaining.pop(number)
        first.append(rule)
        new = needs[rule] - bound
        bound |= new
        # Only rules that need one of the new names make other rows than before.
        for other in {other for name in new for other in users[name]} & remaining.keys():
            growths[other] = growth(remaining[other])
    return first


def _product(facts: PlannerStatistics, names: Iterable[str]) -> float:
    """Return the number of combinations of *names*; infinity beyond what a float can hold."""
    return math.prod([float(facts.count(name)) for name in names])


def _cost(facts: PlannerStatistics, plan: JoinPlan) -> float:
    """Estimate the cost of a plan in rows appended, assuming independent rules."""
    rows, cost = 1.0, 0.0
    ranks, highest = facts.part.ranks, -1
    for step in plan.steps:
        if isinstance(step, BindStep):
            between = ranks[step.name] < highest
            highest = max(highest, ranks[step.name])
            rows *= facts.count(step.name)
            if step.pair is not None:
                rows *= facts.shares[step.pair]
            # Inserting between columns copies all of them, and an expression costs more than a
            # look into a table of pairs.
            cost += rows * (3 if between else 1)
        else:
            cost += rows * (1 if isinstance(step.rule, PairTable) else 5)
            rows *= facts.shares[step.rule]
    return cost


def _postponed(
    facts: PlannerStatistics, needs: Mapping[Rule, frozenset[str]]
) -> tuple[list[Rule], list[Rule]]:
    """Return the rules that are postponed behind all others, the last first, and the others.

    A rule that binds f rows beside one and keeps g of them is better used before one with f' and
    g' if that visits fewer rows: f + g f' < f' + g' f, which is (1 - g) / f > (1 - g') / f'.
    A pair binds only what it keeps.
    """
    rules, ranks = dict(enumerate(facts.rules)), facts.part.ranks
    users = {
        name: set(numbers)
        for name, numbers in _numbers_by_name([needs[rule] for rule in facts.rules]).items()
    }

    def gain(rule: Rule) -> float | None:
        """What postponing *rule* behind the others gains; None where that is not possible."""
        private_needs = {name for name in needs[rule] if len(users[name]) == 1}
        behind = max((ranks[name] for name in needs[rule] - private_needs), default=-1)
        bound, share = _product(facts, private_needs), facts.shares[rule]
        rows_left = bound * share
        if private_needs and rows_left >= 1 and all(ranks[name] > behind for name in private_needs):
            # (1 - g) / f, written so that it does not overflow.
            return 1 / rows_left - 1 if isinstance(rule, PairTable) else 1 / bound - share
        return None

    gains = {number: gain(rule) for number, rule in rules.items()}
    last: list[Rule] = []
    while gained := [(value, number) for number, value in gains.items() if value is not None]:
        _, number = min(gained)
        rule = rules.pop(number)
        last.append(rule)
        del gains[number]
        touched: set[int] = set()
        for name in needs[rule]:
            users[name].discard(number)
            # A name that one rule alone needs has become private.
            touched |= users[name] if len(users[name]) == 1 else set()
        for other in touched:
            gains[other] = gain(rules[other])
    return last, [*rules.values()]


Windows = Mapping[str, tuple[int, int]]
"""The half-open interval of codes of a block, for some dimensions."""


@dataclass(frozen=True)
class ColumnJoin:
    """A table and the column to be joined at position *at*; *groups* unless it is the last."""

    table: EncodedTable
    name: str
    at: int
    groups: tuple[Column, Column] | None
    choices: Choices

    @property
    def total(self) -> int:
        """The number of rows of the result."""
        if self.groups is None:
            return self.choices.total(self.table.length)
        _, lengths = self.groups
        if self.choices.counts is None:
            return self.choices.total(self.table.length)
        return int(self.choices.counts @ lengths)

    def grown(self) -> EncodedTable:
        """Return the table with the column."""
        if self.groups is None:
            return self.table.appended(self.name, self.choices)
        return self.table.inserted(self.name, self.at, self.groups, self.choices)


class PlanExecutor:
    """Executes the steps of a plan of *part*, inside *windows*."""

    def __init__(self, part: Part, plan: JoinPlan, windows: Windows) -> None:
        self.part = part
        self.plan = plan
        self.windows = windows

    def narrowed(self, name: str, window: tuple[int, int]) -> PlanExecutor:
        """Return an executor restricted to the codes of *name* inside *window*."""
        return PlanExecutor(self.part, self.plan, {**self.windows, name: window})

    def kept(self, table: EncodedTable, rule: Rule) -> Column:
        """Return the mask of the rows of *table* that *rule* keeps."""
        if isinstance(rule, PairTable):
            codes = table.codes
            return np.asarray(rule.cells[codes[rule.first], codes[rule.second]])
        return self._rows(table).kept(rule.expression)

    def growth(self, table: EncodedTable, step: BindStep) -> ColumnJoin:
        """Return the join of *step* with the sorted *table*; its result is sorted, too."""
        at = self.part.place(step.name, table.names)
        if at == len(table.names):
            return ColumnJoin(table, step.name, at, None, self.choices(table, step))
        groups = table.groups(at)
        heads = EncodedTable(table.names[:at], table.columns[:at], table.length).take(groups[0])
        return ColumnJoin(table, step.name, at, groups, self.choices(heads, step))

    def choices(self, table: EncodedTable, step: BindStep) -> Choices:
        """Return the codes of the dimension of *step* for each row of *table*."""
        parameter = self.part.parameters[step.name]
        window = self.windows.get(step.name)
        if step.pair is not None:
            return _partners(step, table, window)
        if is_plain(parameter) and not self.part.leaders.get(step.name):
            return Choices(_codes(parameter, self.plan, window))
        low, high = self._range(parameter, table)
        if window is not None:
            low, high = np.maximum(low, window[0]), np.minimum(high, window[1])
        return Choices(None, low, np.maximum(high - low, 0))

    def _rows(self, table: EncodedTable) -> PointColumns:
        return PointColumns(self.part.parameters, table.codes, table.length)

    def _range(self, parameter: Parameter, table: EncodedTable) -> tuple[Column, Column]:
        """Return the half-open interval of codes of *parameter* in each row."""
        rows = self._rows(table)
        low, high = np.zeros((2, table.length), dtype=np.int64)
        if parameter.when is None:
            high[:] = self._sizes(parameter, rows)
        else:
            active = rows.active(parameter)
            # With a WHEN, code 0 means inactive: there the codes are 0 to 1, elsewhere from 1 on.
            low[active] = high[~active] = 1
            high[active] = self._sizes(parameter, rows.where(active)) + 1
        # The first leader is applied last, so it decides where several are active.
        for leader in reversed(self.part.leaders.get(parameter.name, ())):
            self._follow(parameter, self.part.parameters[leader], table, (low, high))
        return low, high

    def _sizes(self, parameter: Parameter, rows: PointColumns) -> Column | int:
        domain = parameter.domain
        assert domain is not None, "only dimensions are bound"
        return rows.counts(domain) if isinstance(domain, Dependent) else domain.size

    def _follow(
        self,
        parameter: Parameter,
        leader: Parameter,
        table: EncodedTable,
        ends: tuple[Column, Column],
    ) -> None:
        """Restrict *parameter* to the position of *leader* where both are active."""
        low, high = ends
        codes = table.codes[leader.name].astype(np.int64)
        together = np.ones(table.length, dtype=np.bool_)
        if leader.when is not None:
            together &= codes != 0
            codes -= 1
        if parameter.when is not None:
            together &= low != 0
            codes += 1
        low[together] = codes[together]
        high[together] = codes[together] + 1


def _codes(parameter: Parameter, plan: JoinPlan, window: tuple[int, int] | None) -> Column | range:
    """Return the codes of a plain dimension inside *window*."""
    domain = parameter.domain
    assert domain is not None, "only dimensions are bound"
    low, high = window or (0, domain.size)
    allowed = plan.allowed.get(parameter.name)
    if allowed is None:
        return range(low, high)
    start, stop = np.searchsorted(allowed, np.array((low, high)))
    return allowed[start:stop]


def _partners(step: BindStep, table: EncodedTable, window: tuple[int, int] | None) -> Choices:
    """Return the partners of the other dimension of the pair, for each row."""
    assert step.pair is not None, "asked of pairs only"
    other = step.pair.other(step.name)
    flat, starts, counts = step.pair.partners(other, window)
    keys = table.codes[other]
    return Choices(flat, starts.take(keys), counts.take(keys))
