"""Compiles a syntax tree into one closure that evaluates a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zenturio.errors import ExpressionError, Passage, did_you_mean
from zenturio.expression.scalar_functions import (
    ARITHMETIC,
    CALLED,
    PLAIN,
    RELATIONS,
    Fault,
    Value,
    clipped,
    condition,
    keep,
    member,
    negate,
    negation,
    plain,
    power,
    within,
)
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    Host,
    Index,
    Logic,
    Member,
    Name,
    Negative,
    Not,
    Positive,
    Power,
    SyntaxNode,
    Within,
)

Key = str | tuple[str, str]
"""What a value is looked up by: a name, ``("index", name)`` or ``("host", name)``."""

Scene = Mapping[Any, Any]
Run = Callable[[Scene], Value]


def compile_tree(node: SyntaxNode, passage: Passage) -> Run:
    """What evaluates *node* where values are looked up in a scene."""
    return _Compiler(passage).run(node)


def located(fault: Fault, node: SyntaxNode, passage: Passage) -> ExpressionError:
    """*fault* as an error that shows where *node* stands."""
    return ExpressionError(
        fault.message, place=passage.place(node.start, node.end), hint=fault.hint
    )


def unknown(key: Key, scene: Scene, node: SyntaxNode, passage: Passage) -> ExpressionError:
    """The error that *key* has no value, and what is near."""
    kind, name = ("", key) if isinstance(key, str) else key
    names = [other for other in scene if isinstance(other, str)]
    if kind:
        names = [other[1] for other in scene if not isinstance(other, str) and other[0] == kind]
    messages = {
        "": "unknown name {!r}",
        "index": "no position is known of {!r}",
        "host": "host.{} is not known here",
    }
    message = messages[kind].format(clipped(name))
    place = passage.place(node.start, node.end)
    return ExpressionError(message, place=place, hint=did_you_mean(name, names))


class _Compiler:
    def __init__(self, passage: Passage) -> None:
        self.passage = passage

    def run(self, node: SyntaxNode) -> Run:
        match node:
            case Constant(value):
                return lambda _: value
            case Name(name):
                return self._lookup(name, node)
            case Index(name):
                return self._lookup(("index", name), node)
            case Host(name):
                return self._lookup(("host", name), node)
            case Arithmetic():
                return self._arithmetic(node)
            case Compare():
                return self._compare(node)
            case Logic():
                return self._logic(node)
            case Conditional():
                return self._conditional(node)
            case _:
                return self._plain(node)

    def _plain(self, node: SyntaxNode) -> Run:
        """A node that computes all its operands, and then itself."""
        match node:
            case Power(base, exponent):
                return self._apply(power, node, base, exponent)
            case Negative(operand):
                return self._apply(negate, node, operand)
            case Positive(operand):
                return self._apply(keep, node, operand)
            case Not(operand):
                return self._apply(negation, node, operand)
            case Call(function, arguments):
                return self._apply(CALLED[function], node, *arguments)
            case Member(item, options, negated):
                return self._negated(self._apply(member, node, item, *options), negated)
            case Within(part, whole, negated):
                return self._negated(self._apply(within, node, part, whole), negated)
        raise TypeError(f"{node!r} is not part of an expression")

    def _lookup(self, key: Key, node: SyntaxNode) -> Run:
        passage = self.passage

        def run(scene: Scene) -> Value:
            try:
                value = scene[key]
            except KeyError:
                raise unknown(key, scene, node, passage) from None
            # By type, not isinstance(): NumPy's scalars and subclasses must become built-in ones.
            if type(value) in PLAIN:
                return value  # type: ignore[no-any-return]
            try:
                return plain(value)
            except Fault as fault:
                raise located(fault, node, passage) from None

        return run

    def _apply(
        self, function: Callable[..., Value], node: SyntaxNode, *operands: SyntaxNode
    ) -> Run:
        """*function* of the operands' values."""
        passage = self.passage
        runs = [self.run(operand) for operand in operands]
        # Closures of one and two operands spare each point the list that any number of them needs.
        if len(runs) == 1:
            (only,) = runs

            def run_one(scene: Scene) -> Value:
                try:
                    return function(only(scene))
                except Fault as fault:
                    raise located(fault, node, passage) from None

            return run_one
        if len(runs) == 2:
            first, second = runs

            def run_two(scene: Scene) -> Value:
                try:
                    return function(first(scene), second(scene))
                except Fault as fault:
                    raise located(fault, node, passage) from None

            return run_two

        def run_all(scene: Scene) -> Value:
            try:
                return function(*[run(scene) for run in runs])
            except Fault as fault:
                raise located(fault, node, passage) from None

        return run_all

    def _arithmetic(self, node: Arithmetic) -> Run:
        if len(node.steps) == 1:
            (step,) = node.steps
            return self._apply(ARITHMETIC[step.operator], step, node.first, step.operand)
        passage, first = self.passage, self.run(node.first)
        steps = [(ARITHMETIC[step.operator], self.run(step.operand), step) for step in node.steps]

        def run(scene: Scene) -> Value:
            value = first(scene)
            for operation, operand, step in steps:
                try:
                    value = operation(value, operand(scene))
                except Fault as fault:
                    raise located(fault, step, passage) from None
            return value

        return run

    def _compare(self, node: Compare) -> Run:
        if len(node.steps) == 1:
            (step,) = node.steps
            return self._apply(RELATIONS[step.operator], node, node.first, step.operand)
        passage, first = self.passage, self.run(node.first)
        steps = [(RELATIONS[step.operator], self.run(step.operand), step) for step in node.steps]

        def run(scene: Scene) -> Value:
            previous, answer = first(scene), True
            for relation, operand, step in steps:
                right = operand(scene)
                try:
                    holds = relation(previous, right)
                except Fault as fault:
                    raise located(fault, step, passage) from None
                if holds is False:
                    return False
                # NULL in a chain makes it NULL, unless a later pair is false.
                answer = answer if holds else None  # type: ignore[assignment]
                previous = right
            return answer

        return run

    def _logic(self, node: Logic) -> Run:
        """Ends at the first operand that decides; NULL decides nothing."""
        passage, decisive = self.passage, node.operator == "or"
        operands = [(self.run(operand), operand) for operand in node.operands]

        def run(scene: Scene) -> Value:
            answer: bool | None = not decisive
            for operand, where in operands:
                value = operand(scene)
                if value is decisive:
                    return decisive
                if value is None:
                    answer = None
                elif value is not True and value is not False:
                    try:
                        condition(value, node.operator)
                    except Fault as fault:
                        raise located(fault, where, passage) from None
            return answer

        return run

    def _conditional(self, node: Conditional) -> Run:
        """NULL takes the other branch, as CASE in SQL."""
        passage = self.passage
        then, test, other = self.run(node.then), self.run(node.condition), self.run(node.other)

        def run(scene: Scene) -> Value:
            value = test(scene)
            if value is True:
                return then(scene)
            if value is not False and value is not None:
                try:
                    condition(value, "if")
                except Fault as fault:
                    raise located(fault, node.condition, passage) from None
            return other(scene)

        return run

    def _negated(self, run: Run, negated: bool) -> Run:
        if not negated:
            return run

        def opposite(scene: Scene) -> Value:
            value = run(scene)
            return None if value is None else not value

        return opposite
