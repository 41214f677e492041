"""The obvious twin of a space: every combination, one after the other, and a filter."""

import math
from fractions import Fraction

from zenturio.expression import Expression, holds
from zenturio.space import Dependent, Space


def _uses(expression):
    return expression.names | expression.indexed


def _bounds(domain):
    return [b for b in (domain.first, domain.last, domain.stride) if isinstance(b, Expression)]


class Naive:
    """The points of a space as dictionaries of values, in the order that is documented."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.by_name = {each.name: each for each in space.parameters}
        self.names = self._order()
        self.cartesian = [values for values, _ in self._combinations(self.names, {}, {})]
        kept, self.costs = list(self._combinations(self.names, {}, {})), []
        for constraint in space.constraints:
            left = [pair for pair in kept if self._keeps(constraint, *pair)]
            self.costs.append(len(kept) - len(left))
            kept = left
        self.points = [self._with_derived(values, positions) for values, positions in kept]

    def dimensions_of(self, expression):
        found = set()
        for name in _uses(expression):
            derived = self.by_name[name].derived
            found |= {name} if derived is None else self.dimensions_of(derived)
        return found

    def _needs(self, name):
        parameter = self.by_name[name]
        expressions = [parameter.when] if parameter.when else []
        if isinstance(parameter.domain, Dependent):
            expressions += _bounds(parameter.domain)
        return set().union(*map(self.dimensions_of, expressions))

    def _order(self):
        """Components by their first dimension; inside, each dimension behind what it needs."""
        ordered: list[str] = []

        def add(name):
            for other in [n for n in self.by_name if n in self._direct(name)]:
                add(other)
            if name not in ordered:
                ordered.append(name)

        for name in self.by_name:
            add(name)
        ordered = [name for name in ordered if self.by_name[name].derived is None]
        groups = [{name} | self._needs(name) for name in ordered]
        groups += [
            self.dimensions_of(each) if isinstance(each, Expression) else set(each.names)
            for each in self.space.constraints
        ]
        merged: list[set[str]] = []
        for group in groups:
            touched = [other for other in merged if other & group]
            merged = [other for other in merged if not other & group]
            merged.append(group.union(*touched))
        merged.sort(key=lambda group: min((ordered.index(name) for name in group), default=-1))
        return [name for group in merged for name in ordered if name in group]

    def _direct(self, name):
        parameter = self.by_name[name]
        expressions = [e for e in (parameter.when, parameter.derived) if e is not None]
        if isinstance(parameter.domain, Dependent):
            expressions += _bounds(parameter.domain)
        return set().union(*map(_uses, expressions))

    def _value(self, expression, values, positions):
        known = dict(values)

        def look(name):
            if name not in known:
                derived = self.by_name[name].derived
                for other in derived.names:
                    look(other)
                known[name] = derived.value(known, positions)

        for name in expression.names:
            look(name)
        return expression.value(known, positions)

    def elements(self, name, values, positions):
        domain = self.by_name[name].domain
        if not isinstance(domain, Dependent):
            return [domain.value(i) for i in range(domain.size)]

        def bound(each):
            if isinstance(each, Expression):
                return Fraction(str(self._value(each, values, positions)))
            return Fraction(each)

        low, high, step = bound(domain.first), bound(domain.last), bound(domain.stride)
        found = []
        while (low <= high) if (step > 1 if domain.geometric else step > 0) else (low >= high):
            found.append(int(low) if domain.type == "int" else float(low))
            low = low * step if domain.geometric else low + step
        return found

    def _combinations(self, names, values, positions):
        if not names:
            yield values, positions
            return
        name, rest = names[0], names[1:]
        when = self.by_name[name].when
        if when is not None and self._value(when, values, positions) is not True:
            yield from self._combinations(rest, {**values, name: None}, {**positions, name: None})
            return
        for at, value in enumerate(self.elements(name, values, positions)):
            yield from self._combinations(rest, {**values, name: value}, {**positions, name: at})

    def _keeps(self, constraint, values, positions):
        if isinstance(constraint, Expression):
            return holds(self._value(constraint, values, positions))
        return len({positions[name] for name in constraint.names} - {None}) < 2

    def _with_derived(self, values, positions):
        return {
            name: self._value(each.derived, values, positions) if each.derived else values[name]
            for name, each in self.by_name.items()
        }

    def neighbours(self, point):
        """Points that differ in one move; what becomes active or inactive by it is no difference."""
        return [other for other in self.points if self._are_near(point, other)]

    def _are_near(self, a, b):
        zipped = {n: group for group in self._zips() for n in group}
        differ = {
            zipped.get(name, frozenset({name}))
            for name in self.names
            if a[name] is not None and b[name] is not None and a[name] != b[name]
        }
        if len(differ) != 1:
            return False
        (group,) = differ
        both = [name for name in group if a[name] is not None and b[name] is not None]
        if not all(self.by_name[name].domain.ordered for name in both):
            return True
        name = min(both, key=self.names.index)
        steps = sorted(self.elements(name, *self._at(a)))
        return abs(steps.index(a[name]) - _index(steps, b[name])) == 1

    def _at(self, point):
        positions: dict = {}
        for name in self.names:
            if point[name] is None:
                positions[name] = None
            else:
                positions[name] = self.elements(name, point, positions).index(point[name])
        return {name: point[name] for name in self.names}, positions

    def _zips(self):
        groups: list[frozenset[str]] = []
        for each in self.space.constraints:
            if not isinstance(each, Expression):
                touched = [g for g in groups if g & set(each.names)]
                groups = [g for g in groups if g not in touched]
                groups.append(frozenset(each.names).union(*touched))
        return groups


def _index(steps, value):
    return steps.index(value) if value in steps else math.inf
