"""Expressions: parsed text with its names, type check and evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zenturio.errors import Diagnostic, ExpressionError, Passage, did_you_mean
from zenturio.expression.parser import read
from zenturio.expression.scalar_functions import (
    SIGNATURES,
    Fault,
    Type,
    Value,
    Want,
    clipped,
    compiled,
    type_of,
)
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    HostAttribute,
    Index,
    Logic,
    Member,
    Name,
    Negative,
    Not,
    OperatorStep,
    Positive,
    Power,
    Run,
    SyntaxNode,
    Within,
    children,
    compile_tree,
    walk,
)
from zenturio.expression.writer import replaced, write

if TYPE_CHECKING:
    import numpy as np


# Checks of types and constants


def refuse_faulty_constants(node: SyntaxNode, passage: Passage) -> None:
    """Raises if a part without names has no value, or if something is divided by 0."""
    parts = list(walk(node))
    for part in _constants(parts):
        compile_tree(part, passage)({})
    for part in parts:
        for step in part.steps if isinstance(part, Arithmetic) else ():
            if _divides_by_zero(step):
                place = passage.place(step.start, step.end)
                raise ExpressionError("division by zero", place=place)


def _divides_by_zero(step: OperatorStep) -> bool:
    return step.operator in ("/", "//", "%") and step.operand in (Constant(0), Constant(0.0))


def _constants(parts: Sequence[SyntaxNode]) -> list[SyntaxNode]:
    """The largest of the *parts* of a tree, its root first, that use no names and compute."""
    # By identity: equal parts at two places are two diagnostics.
    below = {id(part): children(part) for part in parts if not isinstance(part, _LEAVES)}
    constant: dict[int, bool] = {}
    # Children come behind their parent in *parts*, so the reverse visits them first.
    for part in reversed(parts):
        if faults := below.get(id(part)):
            constant[id(part)] = all(
                isinstance(child, Constant) or constant.get(id(child), False) for child in faults
            )
    largest, stack = [], [parts[0]]
    while stack:
        part = stack.pop()
        if constant.get(id(part)):
            largest.append(part)
        else:
            stack.extend(child for child in reversed(below.get(id(part), ())) if id(child) in below)
    return largest


_LEAVES = (Name, Constant, Index, HostAttribute)


MOST = 10
"""The most diagnostics reported for one expression."""

Known = Type | None
"""``None``: the type is not known before the value is."""

_WANTED: dict[Want, tuple[tuple[Type, ...], str, str]] = {
    "int": (("int",), "integers", "floor(...) makes one of a real number"),
    "number": (("int", "real"), "numbers", ""),
    "str": (("str",), "a text", "str(...) makes a text"),
    "ordered": (("int", "real", "str"), "numbers or texts", ""),
    "any": (("int", "real", "str", "bool"), "anything", ""),
}


class Checker:
    """Gives every node a type; what is wrong is collected in *diagnostics*.

    Without *types* every name is good, and of unknown type.
    """

    def __init__(self, passage: Passage, types: Mapping[str, Known] | None, host: bool) -> None:
        self.passage = passage
        self.types = types
        self.host = host
        self.diagnostics: list[Diagnostic] = []
        self._compared_texts: dict[int, str] = {}
        """Unknown names, by the identity of their nodes, with the text that each is compared to."""

    def type(self, node: SyntaxNode) -> Known:
        match node:
            case Constant(value):
                return type_of(value)
            case Name(name) | Index(name):
                type_ = self._name(name, node)
                return "int" if isinstance(node, Index) else type_
            case HostAttribute():
                return self._host(node)
            case Negative(operand) | Positive(operand):
                sign = "-" if isinstance(node, Negative) else "+"
                return self._number(operand, sign)
            case Power(base, exponent):
                return _mixed(self._number(base, "**"), self._number(exponent, "**"))
            case Arithmetic():
                return self._arithmetic(node)
            case Conditional():
                return self._conditional(node)
            case Call():
                return self._call(node)
            case _:
                self._condition_parts(node)
                return "bool"

    def _condition_parts(self, node: SyntaxNode) -> None:
        """What is true or false: comparisons, and what connects them."""
        match node:
            case Compare():
                self._compare(node)
            case Member(item, options):
                self._expect_texts(item, *options)
                first = self.type(item)
                for option in options:
                    self._comparable(item, first, option, self.type(option), "==", option)
            case Within(part, whole):
                self._within(part, whole)
            case Logic(operator, operands):
                for operand in operands:
                    self.condition(operand, operator)
            case Not(operand):
                self.condition(operand, "not")
            case _:
                raise TypeError(f"{node!r} is not part of an expression")

    def condition(self, node: SyntaxNode, operator: str) -> None:
        """Complains if *node* is certainly neither true nor false."""
        if (type_ := self.type(node)) not in ("bool", None):
            self._complain(
                node,
                f"{operator!r} takes true or false, but {_shown(node)} is {type_}",
                f"compare it with something: {_shown(node)} "
                + ("!= ''" if type_ == "str" else "> 0"),
            )

    def _complain(self, node: SyntaxNode, message: str, hint: str = "") -> None:
        place = self.passage.place(node.start, node.end)
        if len(self.diagnostics) == MOST:
            self.diagnostics.append(Diagnostic("there are more mistakes from here on", place))
        elif len(self.diagnostics) < MOST:
            self.diagnostics.append(Diagnostic(message, place, hint))

    def _name(self, name: str, node: SyntaxNode) -> Known:
        if self.types is None:
            return None
        if name not in self.types:
            # Looking for what is near takes a while: not for thousands of unknown names.
            hint = self._hint_on(name, node) if len(self.diagnostics) < MOST else ""
            self._complain(node, f"unknown name {clipped(name)!r}", hint)
        return self.types.get(name)

    def _hint_on(self, name: str, node: SyntaxNode) -> str:
        assert self.types is not None, "without types every name is known"
        near = did_you_mean(name, self.types)
        text = self._compared_texts.get(id(node))
        if text is None:
            return near
        quotes = f'write "{clipped(name)}" in quotes: {text} is a text'
        return f"{near}; for a text, {quotes}" if near.startswith("did you mean") else quotes

    def _expect_texts(self, *operands: SyntaxNode) -> None:
        """Remember which of the *operands* are likely texts without their quotes."""
        types = self.types
        names = [operand for operand in operands if isinstance(operand, Name)]
        if types is None or all(operand.name in types for operand in names):
            return
        text = next((name.name for name in names if types.get(name.name) == "str"), None)
        if text is not None:
            unknown_names = (name for name in names if name.name not in types)
            self._compared_texts.update((id(name), text) for name in unknown_names)

    def _host(self, node: HostAttribute) -> Known:
        if not self.host:
            hint = "host. is known in REQUIRE and RANK, where a host is chosen"
            self._complain(node, f"host.{node.name} is not known here", hint)
        return None

    def _number(self, node: SyntaxNode, operator: str) -> Known:
        type_ = self.type(node)
        if type_ not in ("int", "real", None):
            hint = "1 if ... else 0 makes a number of a condition" if type_ == "bool" else ""
            self._complain(node, f"{operator!r} takes numbers, but {_shown(node)} is {type_}", hint)
            return None
        return type_

    def _arithmetic(self, node: Arithmetic) -> Known:
        if node.steps[0].operator not in "+-":
            type_ = self._number(node.first, node.steps[0].operator)
        else:
            type_ = self.type(node.first)
        first: SyntaxNode = node.first
        for step in node.steps:
            if step.operator == "+":
                right = self.type(step.operand)
                type_ = self._sum(first, type_, step.operand, right)
            else:
                if type_ not in ("int", "real", None):
                    self._complain(
                        first, f"{step.operator!r} takes numbers, but {_shown(first)} is {type_}"
                    )
                    type_ = None
                right = self._number(step.operand, step.operator)
                type_ = "real" if step.operator == "/" else _mixed(type_, right)
            first = step.operand
        return type_

    def _sum(self, first: SyntaxNode, a: Known, second: SyntaxNode, b: Known) -> Known:
        """Two numbers or two texts."""
        for node, type_ in ((first, a), (second, b)):
            if type_ == "bool":
                hint = "1 if ... else 0 makes a number of a condition"
                self._complain(node, f"'+' takes no condition, but {_shown(node)} is bool", hint)
                return None
        # An unknown type may be a text as well: only what is certainly wrong is a mistake.
        if "str" in (a, b) and a != b and None not in (a, b):
            number = first if a != "str" else second
            self._complain(
                number,
                f"'+' takes two numbers or two texts, but {_shown(first)} is {a} "
                f"and {_shown(second)} is {b}",
                f"str({_shown(number)}) makes a text",
            )
            return None
        return _mixed(a, b)

    def _compare(self, node: Compare) -> None:
        self._expect_texts(node.first, *(step.operand for step in node.steps))
        first, type_ = node.first, self.type(node.first)
        for step in node.steps:
            right = self.type(step.operand)
            self._comparable(first, type_, step.operand, right, step.operator, step)
            first, type_ = step.operand, right

    def _comparable(
        self,
        first: SyntaxNode,
        a: Known,
        second: SyntaxNode,
        b: Known,
        operator: str,
        where: SyntaxNode,
    ) -> None:
        pair = {a, b}
        if operator not in ("==", "!=") and "bool" in pair:
            self._complain(where, f"{operator!r} does not order conditions")
        elif None in pair or len(pair) == 1 or pair == {"int", "real"}:
            return
        else:
            hint = (
                "4 in quotes is a text, and so are 512MB and 4d0 in a set: 4, 512e6, TYPE real"
                if "str" in pair
                else ""
            )
            what = "are never equal" if operator in ("==", "!=") else "have no order"
            message = f"{_shown(first)}, which is {a}, and {_shown(second)}, which is {b}, {what}"
            self._complain(where, message, hint)

    def _within(self, part: SyntaxNode, whole: SyntaxNode) -> None:
        for operand in (part, whole):
            if (type_ := self.type(operand)) not in ("str", None):
                hint = "'in' takes a list, n in (1, 2, 4), or looks for a text in a text"
                self._complain(operand, f"{_shown(operand)} is {type_}, not a text", hint)

    def _conditional(self, node: Conditional) -> Known:
        self.condition(node.condition, "if")
        then, other = self.type(node.then), self.type(node.other)
        if then == other or {then, other} == {"int", "real"}:
            return _mixed(then, other)
        if None not in (then, other):
            self._complain(
                node.other,
                f"both branches must be alike, but {_shown(node.then)} is {then} "
                f"and {_shown(node.other)} is {other}",
            )
        return None

    def _call(self, node: Call) -> Known:
        signature = SIGNATURES[node.function]
        types = [self.type(argument) for argument in node.arguments]
        # Longer than needed; the last want holds for all further arguments.
        wants = (*signature.wants, *[signature.wants[-1]] * len(types))
        for argument, type_, want in zip(node.arguments, types, wants, strict=False):
            allowed, words, hint = _WANTED[want]
            if type_ is not None and type_ not in allowed:
                message = f"{node.function!r} takes {words}, but {_shown(argument)} is {type_}"
                self._complain(argument, message, hint)
        if node.function == "match":
            self._pattern(node.arguments[1])
        if signature.gives != "same":
            return signature.gives
        # Conditions have no order, but may be missing.
        operator = "==" if node.function == "coalesce" else "<"
        return self._alike(node.arguments, types, operator)

    def _alike(self, nodes: Sequence[SyntaxNode], types: Sequence[Known], operator: str) -> Known:
        """Return the type of the least, the greatest or the first known of these."""
        type_, first = types[0], nodes[0]
        for node, other in zip(nodes[1:], types[1:], strict=True):
            self._comparable(first, type_, node, other, operator, node)
            type_ = _mixed(type_, other)
        return type_

    def _pattern(self, node: SyntaxNode) -> None:
        if isinstance(node, Constant) and isinstance(node.value, str):
            try:
                compiled(node.value)
            except Fault as fault:
                self._complain(node, fault.message, fault.hint)


def _mixed(a: Known, b: Known) -> Known:
    """What comes out of two numbers, or of two of the same type."""
    if a == b:
        return a
    return "real" if None not in (a, b) and {a, b} == {"int", "real"} else None


def _shown(node: SyntaxNode) -> str:
    return clipped(write(node), 40)


# Expressions


@dataclass(frozen=True)
class Expression:
    """A text of the language; two are equal if they say the same, wherever they stand."""

    passage: Passage = field(compare=False)
    node: SyntaxNode
    text: str = field(compare=False)
    """As written; for an expression whose names were replaced, as it would be written."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Parameters and metrics whose values are used."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, Name))

    @cached_property
    def optional_names(self) -> frozenset[str]:
        """Names without which there may be a value: they stand in coalesce(...) alone."""
        names = set[str]()
        stack = [self.node]
        while stack:
            node = stack.pop()
            if isinstance(node, Name):
                names.add(node.name)
            elif not (isinstance(node, Call) and node.function == "coalesce"):
                stack.extend(children(node))
        return self.names - names

    @cached_property
    def host_names(self) -> frozenset[str]:
        """``memory`` for ``host.memory``."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, HostAttribute))

    @cached_property
    def indexed(self) -> frozenset[str]:
        """Parameters whose positions are used."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, Index))

    @cached_property
    def _run(self) -> Run:
        return compile_tree(self.node, self.passage)

    @cached_property
    def _names_only(self) -> bool:
        return not self.indexed and not self.host_names

    def _scene(
        self,
        values: Mapping[str, Value],
        positions: Mapping[str, int],
        host: Mapping[str, Value],
    ) -> dict[Any, Any]:
        """What is looked up; all that there is if something is missing, to tell what is near."""
        scene: dict[Any, Any] = {name: values[name] for name in self.names if name in values}
        scene |= {("index", name): positions[name] for name in self.indexed if name in positions}
        scene |= {("host", name): host[name] for name in self.host_names if name in host}
        if len(scene) < len(self.names) + len(self.indexed) + len(self.host_names):
            scene |= dict(values)
            scene |= {("index", name): position for name, position in positions.items()}
            scene |= {("host", name): value for name, value in host.items()}
        return scene

    def check(self, types: Mapping[str, Type | None], *, host: bool = False) -> Type | None:
        """The type of the value, ``None`` if it is not known; raises for all that is wrong."""
        checker = Checker(self.passage, types, host)
        type_ = checker.type(self.node)
        if checker.diagnostics:
            raise ExpressionError.all(checker.diagnostics)
        return type_

    def value(
        self,
        values: Mapping[str, Value],
        positions: Mapping[str, int] | None = None,
        host: Mapping[str, Value] | None = None,
    ) -> Value:
        """Return the value at one point."""
        # The common case needs no scene: names are looked up in the caller's mapping.
        if self._names_only:
            return self._run(values)
        return self._run(self._scene(values, positions or {}, host or {}))

    def column(
        self,
        columns: Mapping[str, np.ndarray[Any, Any]],
        length: int,
        positions: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> np.ndarray[Any, Any]:
        """Return the values of *length* rows at once: in each row what `value` says of it."""
        from zenturio.expression.column_evaluator import evaluate  # noqa: PLC0415 - loads NumPy

        return evaluate(self, columns, length, positions or {})

    def replace(self, definitions: Mapping[str, Expression]) -> Expression:
        """Return the same with the names that are defined written out, down to what is not."""
        trees = {name: definition.node for name, definition in definitions.items()}
        node = replaced(self.node, trees, self.passage)
        # The same object if nothing is replaced: its compiled closure is kept.
        return self if node is self.node else Expression(self.passage, node, write(node))

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Expression], tuple[Passage, SyntaxNode, str]]:
        # Cached closures cannot be pickled, and are made again where they are needed.
        return Expression, (self.passage, self.node, self.text)


def parse(text: str | Passage) -> Expression:
    """Return the expression that *text* says; an ExpressionError that shows where it says none."""
    passage = Passage.of(text)
    node = read(passage)
    checker = Checker(passage, None, host=True)
    checker.type(node)
    if checker.diagnostics:
        raise ExpressionError.all(checker.diagnostics)
    refuse_faulty_constants(node, passage)
    return Expression(passage, node, passage.text)
