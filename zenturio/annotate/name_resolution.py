"""Resolves names in expressions to parameters and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from zenturio.annotate.diagnostics import Diagnostics
from zenturio.errors import InputError, Place
from zenturio.expression import Expression, Type
from zenturio.expression.syntax_tree import Index, Name, walk


@dataclass
class NameTable:
    """Everything that an expression may name, and diagnostics about what it may not."""

    diagnostics: Diagnostics
    parameters: dict[str, Type | None] = field(default_factory=dict)
    metrics: dict[str, Type | None] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    """Parameters without positions: computed, continuous, or bounded by others."""
    lists: set[str] = field(default_factory=set)
    """Metrics that keep all their values."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Targets whose parameters have other names."""
    seed: str | None = None
    declared: set[str] = field(default_factory=set)
    """NameTable of declarations, right or wrong."""
    words: set[str] = field(default_factory=set)
    """Words of directives that cannot be read: they may be names, but are no advice."""

    def check(
        self, expression: Expression, who: str, *, metrics: bool = False, host: bool = False
    ) -> Type | None:
        """The type of *expression*, which *who* says; all that is wrong becomes diagnostics."""
        used = expression.names | expression.indexed
        types: dict[str, Type | None] = dict.fromkeys(self.declared | (self.words & used))
        types.update(self.metrics if metrics else {})
        types.update(self.parameters)
        for node in walk(expression.node):
            if isinstance(node, Name | Index):
                place = expression.passage.place(node.start, node.end)
                for message, hint in self.wrong(node, who, metrics=metrics):
                    self.diagnostics.error(message, place, hint)
                    types[node.name] = None
        try:
            return expression.check(types, host=host)
        except InputError as error:
            for each in error.diagnostics:
                hint = each.hint or "name a parameter whose values fit, or write a number"
                self.diagnostics.errors.append(replace(each, hint=hint))
            return None

    def may_be(self, name: str) -> bool:
        """Whether *name* may be a parameter, as far as can be read."""
        return name in self.parameters or name in self.declared or name in self.words

    def wrong(self, node: Name | Index, who: str, *, metrics: bool) -> Iterator[tuple[str, str]]:
        """What is wrong with a name, as far as the expression alone cannot know it."""
        name = node.name
        if isinstance(node, Index) and (name in self.unplaced or name in self.metrics):
            what = "a metric" if name in self.metrics else "no listed set"
            yield f"{name} has {what}, so index({name}) is no number", "compare its value"
        elif name == self.seed:
            hint = "use it in files and commands; for values to compare make it a dimension"
            yield f"{name} is the seed, which differs run by run: {who} cannot name it", hint
        elif name in self.parameters:
            return
        elif name in self.metrics and not metrics:
            yield f"{name} is a metric, known only after a run", f"{who} may name parameters only"
        elif name in self.lists:
            hint = "TAKE mean, min, max, first or last gives one"
            yield f"{name} keeps all its values (TAKE all), and a formula needs one", hint
        elif name in self.renamed and name not in self.metrics:
            right = self.renamed[name]
            yield f"{name} is the target; its parameter is {right}", f"write {right}"

    def truth(self, expression: Expression, who: str, *, host: bool = False) -> None:
        """A condition: true or false."""
        found = self.check(expression, who, host=host)
        if found not in ("bool", None):
            kind = "a text" if found == "str" else "a number"
            message = f"{who} is true or false, but {_short(expression.text)} is {kind}"
            self.diagnostics.error(message, whole(expression), "compare it, as n * threads <= 2048")

    def number(
        self, expression: Expression, who: str, *, metrics: bool = False, host: bool = False
    ) -> None:
        found = self.check(expression, who, metrics=metrics, host=host)
        if found in ("str", "bool"):
            kind = "a text" if found == "str" else "true or false"
            message = f"{who} is a number, but {_short(expression.text)} is {kind}"
            hint = "write 1 if … else 0" if found == "bool" else "name a number"
            self.diagnostics.error(message, whole(expression), hint)


def whole(expression: Expression) -> Place:
    """The place of all of an expression."""
    return expression.passage.place(0, len(expression.passage.text))


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def in_order(
    needs: Mapping[str, frozenset[str]],
    places: Mapping[str, Place | None],
    diagnostics: Diagnostics,
) -> tuple[list[str], set[str]]:
    """The names, each behind those that it needs; and those that need themselves, printed."""
    walk = _Walk(needs)
    for name in needs:
        walk.visit(name)
    rank = {name: at for at, name in enumerate(needs)}
    for circle in walk.circles:
        at = min(range(len(circle)), key=lambda i: rank[circle[i]])
        shown = [*circle[at:], *circle[:at], circle[at]]
        message = f"{shown[0]} needs itself: {' -> '.join(shown)}"
        diagnostics.error(message, places.get(shown[0]), "let one of them not depend on the others")
    return list(walk.done), {name for circle in walk.circles for name in circle}


class _Walk:
    """Depth first through what needs what, without recursion: a chain may be long."""

    def __init__(self, needs: Mapping[str, frozenset[str]]) -> None:
        self.needs = needs
        self.done: dict[str, None] = {}
        self.circles: list[list[str]] = []

    def visit(self, name: str) -> None:
        if name in self.done:
            return
        path = {name: iter(sorted(self.needs[name]))}
        while path:
            last, rest = next(reversed(path.items()))
            following = next((n for n in rest if n in self.needs and n not in self.done), None)
            if following is None:
                self.done[last] = None
                del path[last]
            elif following in path:
                names = list(path)
                self.circles.append(names[names.index(following) :])
            else:
                path[following] = iter(sorted(self.needs[following]))
