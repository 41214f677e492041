"""The nodes of syntax trees, which checker, evaluators and SQL writer visit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from zenturio.expression.scalar_functions import Value


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
class Host(SyntaxNode):
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
    """``a and b and c``, ``a or b or c``; what decides ends it."""

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
    """*node* and everything below it, from left to right; without recursion."""
    rest = [node]
    while rest:
        node = rest.pop()
        yield node
        rest.extend(reversed(children(node)))


def rebuilt(node: SyntaxNode, change: Callable[[SyntaxNode], SyntaxNode]) -> SyntaxNode:
    """*node* with each of its children changed."""
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
