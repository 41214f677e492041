"""The syntax tree of an expression, whose nodes compute their value at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """Part of an expression; *start* and *end* tell where it stands in the text, not what it is."""

    start: int = field(default=0, compare=False, kw_only=True)
    end: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Constant(SyntaxNode):
    """A number, text, true or false; a number with a unit is the number of bytes or seconds."""

    value: Value

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and true are equal in Python, and -0.0 is 0.0; here they are different constants.
        if not isinstance(other, Constant):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[type, str]:
        return type(self.value), repr(self.value)


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    """The value of a parameter or a metric."""

    name: str


@dataclass(frozen=True, slots=True)
class Index(SyntaxNode):
    """``index(name)``: the position of a parameter's value in its set, from 0."""

    name: str


@dataclass(frozen=True, slots=True)
class HostAttribute(SyntaxNode):
    """``host.name``: what is known of the machine."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative(SyntaxNode):
    """``-operand``"""

    operand: SyntaxNode


@dataclass(frozen=True, slots=True)
class Positive(SyntaxNode):
    """``+operand``"""

    operand: SyntaxNode


@dataclass(frozen=True, slots=True)
class Not(SyntaxNode):
    """``not operand``"""

    operand: SyntaxNode


@dataclass(frozen=True, slots=True)
class OperatorStep(SyntaxNode):
    """An operator and what stands to the right of it, in a chain."""

    operator: str
    operand: SyntaxNode


@dataclass(frozen=True, slots=True)
class Arithmetic(SyntaxNode):
    """``first + a - b`` or ``first * a / b``: operators of one rank, taken from left to right.

    A chain, not a nest of pairs: a sum of a thousand terms is no deeper than a sum of two.
    """

    first: SyntaxNode
    steps: tuple[OperatorStep, ...]


@dataclass(frozen=True, slots=True)
class Power(SyntaxNode):
    """``base ** exponent``"""

    base: SyntaxNode
    exponent: SyntaxNode


@dataclass(frozen=True, slots=True)
class Compare(SyntaxNode):
    """``first < a <= b``: every neighbouring pair holds; ends at the first pair that does not."""

    first: SyntaxNode
    steps: tuple[OperatorStep, ...]


@dataclass(frozen=True, slots=True)
class Member(SyntaxNode):
    """``item in (a, b, c)``: equal to one of the options."""

    item: SyntaxNode
    options: tuple[SyntaxNode, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Within(SyntaxNode):
    """``part in whole``: a text is found in another."""

    part: SyntaxNode
    whole: SyntaxNode
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Logic(SyntaxNode):
    """``a and b and c``, ``a or b or c``, with short-circuit evaluation."""

    operator: str
    operands: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class Conditional(SyntaxNode):
    """``then if condition else other``"""

    then: SyntaxNode
    condition: SyntaxNode
    other: SyntaxNode


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    """``function(arguments)``"""

    function: str
    arguments: tuple[SyntaxNode, ...]


def children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """What *node* is made of, from left to right as evaluated; steps show their operands."""
    match node:
        case Name() | Constant():
            return ()
        case Negative(operand) | Positive(operand) | Not(operand):
            return (operand,)
        case Arithmetic(first, steps) | Compare(first, steps):
            return (first, *(step.operand for step in steps))
        case Power(base, exponent):
            return (base, exponent)
        case Member(item, options):
            return (item, *options)
        case Within(part, whole):
            return (part, whole)
        case Logic(_, operands):
            return operands
        case Conditional(then, condition, other):
            return (condition, then, other)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield *node* and everything below it, from left to right; without recursion."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def rebuilt(node: SyntaxNode, change: Callable[[SyntaxNode], SyntaxNode]) -> SyntaxNode:
    """Return *node* with each of its children changed."""
    match node:
        case Negative(operand) | Positive(operand) | Not(operand):
            return replace(node, operand=change(operand))
        case Arithmetic(first, steps) | Compare(first, steps):
            changed = tuple(replace(step, operand=change(step.operand)) for step in steps)
            return replace(node, first=change(first), steps=changed)
        case Power(base, exponent):
            return replace(node, base=change(base), exponent=change(exponent))
        case Member(item, options):
            return replace(node, item=change(item), options=tuple(map(change, options)))
        case Within(part, whole):
            return replace(node, part=change(part), whole=change(whole))
        case Logic(_, operands):
            return replace(node, operands=tuple(map(change, operands)))
        case Conditional(then, condition, other):
            return replace(
                node, then=change(then), condition=change(condition), other=change(other)
            )
        case Call(_, arguments):
            return replace(node, arguments=tuple(map(change, arguments)))
        case _:
            return node


# Compilation of a tree into one closure that evaluates a point

Key = str | tuple[str, str]
"""What a value is looked up by: a name, ``("index", name)`` or ``("host", name)``."""

Scene = Mapping[Any, Any]
Run = Callable[[Scene], Value]


def compile_tree(node: SyntaxNode, passage: Passage) -> Run:
    """What evaluates *node* where values are looked up in a scene."""
    return _Compiler(passage).run(node)


def located(fault: Fault, node: SyntaxNode, passage: Passage) -> ExpressionError:
    """Return *fault* as an error that shows where *node* stands."""
    return ExpressionError(
        fault.message, place=passage.place(node.start, node.end), hint=fault.hint
    )


def unknown(key: Key, scene: Scene, node: SyntaxNode, passage: Passage) -> ExpressionError:
    """Return the error that *key* has no value, and what is near."""
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
            case HostAttribute(name):
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
        """Return a node that computes all its operands, and then itself."""
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
        """Return *function* of the operands' values."""
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
