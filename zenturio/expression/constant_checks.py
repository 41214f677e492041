"""Evaluates constant subexpressions while parsing, so that ``9 ** 9 ** 9`` is refused early."""

from __future__ import annotations

from collections.abc import Sequence

from zenturio.errors import ExpressionError, Passage
from zenturio.expression.point_compiler import compile_tree
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Constant,
    Host,
    Index,
    Name,
    Node,
    Step,
    children,
    walk,
)


def refuse_faulty_constants(node: Node, passage: Passage) -> None:
    """Raises if a part without names has no value, or if something is divided by 0."""
    parts = list(walk(node))
    for part in _constants(parts):
        compile_tree(part, passage)({})
    for part in parts:
        for step in part.steps if isinstance(part, Arithmetic) else ():
            if _divides_by_zero(step):
                place = passage.place(step.start, step.end)
                raise ExpressionError("division by zero", place=place)


def _divides_by_zero(step: Step) -> bool:
    return step.operator in ("/", "//", "%") and step.operand in (Constant(0), Constant(0.0))


def _constants(parts: Sequence[Node]) -> list[Node]:
    """The largest of the *parts* of a tree, its root first, that use no names and compute."""
    below = {id(part): children(part) for part in parts if not isinstance(part, _LEAVES)}
    constant: dict[int, bool] = {}
    for part in reversed(parts):
        if found := below.get(id(part)):
            constant[id(part)] = all(
                isinstance(child, Constant) or constant.get(id(child), False) for child in found
            )
    largest, rest = [], [parts[0]]
    while rest:
        part = rest.pop()
        if constant.get(id(part)):
            largest.append(part)
        else:
            rest.extend(child for child in reversed(below.get(id(part), ())) if id(child) in below)
    return largest


_LEAVES = (Name, Constant, Index, Host)
