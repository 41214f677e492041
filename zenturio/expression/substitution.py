"""Replaces names in a syntax tree by their definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import NoReturn

from zenturio.errors import ExpressionError, Passage
from zenturio.expression.parser import DEEPEST, depth_of
from zenturio.expression.scalar_functions import LONGEST
from zenturio.expression.syntax_tree import Arithmetic, Compare, Name, Node, rebuilt, walk


def replaced(node: Node, definitions: Mapping[str, Node], passage: Passage) -> Node:
    """*node* with every name in *definitions* written out; itself if there is none."""
    return _Replacement(definitions, passage).top(node)


class _Replacement:
    def __init__(self, definitions: Mapping[str, Node], passage: Passage) -> None:
        self.definitions = definitions
        self.passage = passage
        self.known: dict[str, Node] = {}
        self.open: list[str] = []

    def top(self, node: Node) -> Node:
        used = {part.name: part for part in walk(node) if isinstance(part, Name)}
        for name, where in used.items():
            if name in self.definitions:
                self._define(name, where)
        return self._written(node, node)

    def _define(self, name: str, where: Node) -> None:
        """Writes out the definition of *name* once; *where* is what a diagnostic points to."""
        if name in self.known:
            return
        if name in self.open:
            circle = " -> ".join([*self.open[self.open.index(name) :], name])
            self._refuse(where, f"{name!r} is defined by itself: {circle}", "break the circle")
        if len(self.open) > DEEPEST:
            self._refuse(where, f"more than {DEEPEST} definitions lead from one to the next")
        self.open.append(name)
        definition = self.definitions[name]
        for part in walk(definition):
            if isinstance(part, Name) and part.name in self.definitions:
                self._define(part.name, where)
        self.known[name] = self._written(definition, where)
        self.open.pop()

    def _written(self, node: Node, where: Node) -> Node:
        """*node* with known names replaced; definitions that double each other are refused."""
        if not any(isinstance(part, Name) and part.name in self.known for part in walk(node)):
            return node
        result = _put(node, self.known)
        if sum(1 for _ in islice(walk(result), LONGEST + 1)) > LONGEST:
            self._refuse(where, f"written out, this has more than {LONGEST} parts")
        if depth_of(result)[1] > DEEPEST:
            self._refuse(where, f"written out, this is nested more than {DEEPEST} deep")
        return result

    def _refuse(self, where: Node, message: str, hint: str = "define fewer by others") -> NoReturn:
        place = self.passage.place(where.start, where.end)
        raise ExpressionError(message, place=place, hint=hint)


def _put(node: Node, known: Mapping[str, Node]) -> Node:
    """What is put in for a name stands, for any later diagnostic, where the name stood."""
    if isinstance(node, Name) and node.name in known:
        return _moved(known[node.name], node)
    return rebuilt(node, lambda part: _put(part, known))


def _moved(node: Node, where: Node) -> Node:
    moved = rebuilt(node, lambda part: _moved(part, where))
    if isinstance(moved, Arithmetic | Compare):
        steps = (replace(step, start=where.start, end=where.end) for step in moved.steps)
        moved = replace(moved, steps=tuple(steps))
    return replace(moved, start=where.start, end=where.end)
