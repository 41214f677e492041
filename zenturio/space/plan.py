"""In which order a part is joined: cheap and selective first, what only multiplies last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from zenturio.space.components import Part
from zenturio.space.domain import Column
from zenturio.space.facts import Facts, Pair, Rule


@dataclass(frozen=True)
class Bind:
    """Add a column for dimension *name*; of its codes, only those that go with *pair*."""

    name: str
    pair: Pair | None = None


@dataclass(frozen=True)
class Keep:
    """Drop the rows that the rule does not keep."""

    rule: Rule


Step = Bind | Keep


@dataclass(frozen=True)
class Plan:
    """Steps that make the table of a part, and the codes that are possible at all."""

    steps: tuple[Step, ...]
    allowed: Mapping[str, Column] = field(default_factory=dict)


def as_declared(part: Part) -> Plan:
    """Each condition evaluated only where all those before it hold: as one would by hand."""
    steps, waiting = _Steps(part), list(part.conditions)
    for names in ((), *((name,) for name in part.names)):
        steps.bind(names)
        while waiting and waiting[0].names <= steps.bound:
            steps.steps.append(Keep(waiting.pop(0)))
    return Plan(tuple(steps.steps))


def sequential(facts: Facts) -> Plan:
    """Every dimension in its place: a table can be made in parts, however large it would be."""
    return _planned(facts, [facts.part.names])


def thrifty(facts: Facts) -> Plan:
    """Few rows at any time; columns may come between others.

    A rule whose own dimensions, which no other rule needs, come behind its others can wait if it
    multiplies the rows rather than thinning them out: so nothing else is evaluated once for each
    of these. What remains is bound in its order, or the rule that makes the fewest rows first.
    """
    needs = {rule: facts.part.closure(rule.names) for rule in facts.rules}
    last: list[Rule] = []
    rest = list(facts.rules)
    while gains := _patient(facts, needs, rest):
        last.append(min(gains, key=lambda rule: gains[rule]))
        rest.remove(last[-1])
    later: list[Iterable[str]] = []
    for paired, rules in groupby(reversed(last), key=lambda rule: isinstance(rule, Pair)):
        # Pairs cost by the rows they make, most of all between other columns: those come first.
        ranks = {rule: max(map(facts.part.ranks.__getitem__, rule.names)) for rule in rules}
        later += [
            rule.names for rule in (sorted(ranks, key=ranks.__getitem__) if paired else ranks)
        ]
    later.append(facts.part.names)
    in_order = frozenset[str]().union(*(rule.names for rule in rest))
    fewest = [rule.names for rule in _fewest_first(facts, needs, rest)]
    plans = [_planned(facts, [*first, *later]) for first in ([in_order], fewest)]
    return min(plans, key=lambda plan: _cost(facts, plan))


def _planned(facts: Facts, groups: Iterable[Iterable[str]]) -> Plan:
    """Dimensions bound group by group, and each rule used as soon as it can be."""
    steps = _Steps(facts.part)
    steps.waiting = list(facts.rules)
    steps.keep_ready()
    for names in groups:
        steps.bind(names)
    return Plan(tuple(steps.steps), facts.allowed)


class _Steps:
    """Steps so far, and the rules that wait for their names to be bound."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.steps: list[Step] = []
        self.waiting: list[Rule] = []
        self.bound: set[str] = set()

    def bind(self, names: Iterable[str]) -> None:
        """Binds *names*, and what they need before them, in the order of the part."""
        needed = self.part.closure(names)
        for name in self.part.names:
            if name in needed and name not in self.bound:
                pair = self._pair_for(name)
                if pair is not None:
                    self.waiting.remove(pair)
                self.steps.append(Bind(name, pair))
                self.bound.add(name)
                self.keep_ready()

    def keep_ready(self) -> None:
        for rule in [rule for rule in self.waiting if rule.names <= self.bound]:
            self.waiting.remove(rule)
            self.steps.append(Keep(rule))

    def _pair_for(self, name: str) -> Pair | None:
        """The pair that leaves the fewest codes, whose other name is bound and stands before."""
        before = set(self.part.names[: self.part.names.index(name)]) & self.bound
        fitting = [
            rule
            for rule in self.waiting
            if isinstance(rule, Pair) and name in rule.names and rule.other(name) in before
        ]
        return min(fitting, key=lambda pair: pair.cells.mean(), default=None)


def _fewest_first(
    facts: Facts, needs: Mapping[Rule, frozenset[str]], rules: Sequence[Rule]
) -> list[Rule]:
    """*rules*, always the one next that makes the fewest rows."""
    rest, first = list(rules), []
    bound: frozenset[str] = frozenset()

    def growth(rule: Rule) -> float:
        return math.prod(map(facts.count, needs[rule] - bound)) * facts.shares[rule]

    while rest:
        first.append(min(rest, key=growth))
        bound |= needs[first[-1]]
        rest.remove(first[-1])
    return first


def _cost(facts: Facts, plan: Plan) -> float:
    """About how much work a plan is, if rules were independent: rows visited, as appended ones."""
    rows, cost = 1.0, 0.0
    bound: list[str] = []
    for step in plan.steps:
        if isinstance(step, Bind):
            between = facts.part.place(step.name, bound) < len(bound)
            bound.append(step.name)
            rows *= facts.count(step.name)
            if step.pair is not None:
                rows *= facts.shares[step.pair]
            cost += rows * (3 if between else 1)
        else:
            cost += rows * (1 if isinstance(step.rule, Pair) else 5)
            rows *= facts.shares[step.rule]
    return cost


def _patient(
    facts: Facts, needs: Mapping[Rule, frozenset[str]], rest: Sequence[Rule]
) -> dict[Rule, float]:
    """The rules that can wait for all others in *rest*, and how much each would gain by not.

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
            gains[rule] = (1 - kept) / (kept if isinstance(rule, Pair) else bound)
    return gains
