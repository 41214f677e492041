"""Join plans: in which order dimensions are bound and rules are applied."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from zenturio.space.domain import Column
from zenturio.space.independent_parts import Part
from zenturio.space.join_statistics import JoinStatistics, PairTable, Rule


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


def sequential_plan(facts: JoinStatistics) -> JoinPlan:
    """Return the plan in the order of dimensions; its table can be built in pieces."""
    return _grouped_plan(facts, [facts.part.names])


def low_memory_plan(facts: JoinStatistics) -> JoinPlan:
    """Return a plan with few intermediate rows; columns may be inserted between others.

    A rule that multiplies the rows is postponed if the dimensions that only it needs come last:
    then no other rule is evaluated for each of the new rows. The remaining rules are applied in
    the order of dimensions or greedily, whichever is estimated to be cheaper.
    """
    needs = {rule: facts.part.closure(rule.names) for rule in facts.rules}
    last: list[Rule] = []
    rest = list(facts.rules)
    while gains := _postponable(facts, needs, rest):
        last.append(min(gains, key=lambda rule: gains[rule]))
        rest.remove(last[-1])
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


def _grouped_plan(facts: JoinStatistics, groups: Iterable[Iterable[str]]) -> JoinPlan:
    """Return a plan that binds dimensions by group, and applies each rule as soon as possible."""
    steps = _Steps(facts.part)
    steps.waiting = list(facts.rules)
    steps.keep_ready()
    for names in groups:
        steps.bind(names)
    return JoinPlan(tuple(steps.steps), facts.allowed)


class _Steps:
    """A plan under construction, and the rules whose names are not all bound."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.steps: list[JoinStep] = []
        self.waiting: list[Rule] = []
        self.bound: set[str] = set()

    def bind(self, names: Iterable[str]) -> None:
        """Bind *names* and what they depend on, in the order of the part."""
        needed = self.part.closure(names)
        for name in self.part.names:
            if name in needed and name not in self.bound:
                pair = self._pair_for(name)
                if pair is not None:
                    self.waiting.remove(pair)
                self.steps.append(BindStep(name, pair))
                self.bound.add(name)
                self.keep_ready()

    def keep_ready(self) -> None:
        for rule in [rule for rule in self.waiting if rule.names <= self.bound]:
            self.waiting.remove(rule)
            self.steps.append(FilterStep(rule))

    def _pair_for(self, name: str) -> PairTable | None:
        """Return the most selective pair whose other dimension is bound and before *name*."""
        before = set(self.part.names[: self.part.names.index(name)]) & self.bound
        fitting = [
            rule
            for rule in self.waiting
            if isinstance(rule, PairTable) and name in rule.names and rule.other(name) in before
        ]
        return min(fitting, key=lambda pair: pair.cells.mean(), default=None)


def _fewest_first(
    facts: JoinStatistics, needs: Mapping[Rule, frozenset[str]], rules: Sequence[Rule]
) -> list[Rule]:
    """Return *rules* in greedy order: next is always the rule that makes the fewest rows."""
    rest, first = list(rules), []
    bound: frozenset[str] = frozenset()

    def growth(rule: Rule) -> float:
        return math.prod(map(facts.count, needs[rule] - bound)) * facts.shares[rule]

    while rest:
        first.append(min(rest, key=growth))
        bound |= needs[first[-1]]
        rest.remove(first[-1])
    return first


def _cost(facts: JoinStatistics, plan: JoinPlan) -> float:
    """Estimate the cost of a plan in rows appended, assuming independent rules."""
    rows, cost = 1.0, 0.0
    bound: list[str] = []
    for step in plan.steps:
        if isinstance(step, BindStep):
            between = facts.part.place(step.name, bound) < len(bound)
            bound.append(step.name)
            rows *= facts.count(step.name)
            if step.pair is not None:
                rows *= facts.shares[step.pair]
            cost += rows * (3 if between else 1)
        else:
            cost += rows * (1 if isinstance(step.rule, PairTable) else 5)
            rows *= facts.shares[step.rule]
    return cost


def _postponable(
    facts: JoinStatistics, needs: Mapping[Rule, frozenset[str]], rest: Sequence[Rule]
) -> dict[Rule, float]:
    """Return the rules that can be postponed behind all others in *rest*, and their order.

    A rule that binds f rows beside one and keeps g of them is better used before one with f' and
    g' if that visits fewer rows: f + g f' < f' + g' f, which is (1 - g) / f > (1 - g') / f'.
    A pair binds only what it keeps.
    """
    gains = {}
    ranks = facts.part.ranks
    for rule in rest:
        others = frozenset[str]().union(*(needs[other] for other in rest if other is not rule))
        own = needs[rule] - others
        behind = max((ranks[name] for name in needs[rule] & others), default=-1)
        bound = math.prod(map(facts.count, own))
        kept = bound * facts.shares[rule]
        if own and kept >= 1 and all(ranks[name] > behind for name in own):
            gains[rule] = (1 - kept) / (kept if isinstance(rule, PairTable) else bound)
    return gains
