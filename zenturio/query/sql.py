"""Expressions as SQL: the same answers that the language gives, computed by the database.

Values are bound and names are quoted. What has no answer in the language (a division by zero, the
logarithm of 0) is NULL here, as is NaN; so a row with one is not found. Integers beyond 63 bits
are computed as reals in SQLite, and exactly in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from zenturio.errors import ExpressionError, Passage
from zenturio.expression import Expression, Type
from zenturio.expression.nodes import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Host,
    Index,
    Literal,
    Logic,
    Member,
    Name,
    Negative,
    Node,
    Not,
    Positive,
    Power,
    Within,
)
from zenturio.expression.values import type_of
from zenturio.query import dialects
from zenturio.query.dialects import WORDS, Unsayable, common
from zenturio.query.fragments import Dialect, Fragment, joined, sql

_RELATIONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def write(expression: Expression, columns: Mapping[str, Fragment], dialect: Dialect) -> Fragment:
    """*expression* over *columns*; ExpressionError where it is wrong, or no SQL says it."""
    expression.check({name: column.type for name, column in columns.items()})
    return _Writer(expression.passage, columns, dialect).write(expression.node)


def condition(
    expression: Expression, columns: Mapping[str, Fragment], dialect: Dialect
) -> Fragment:
    """*expression* as what WHERE takes: true, false or NULL."""
    found = write(expression, columns, dialect)
    if found.type not in ("bool", None):
        raise ExpressionError(
            f"a condition is true or false, but this is {found.type}",
            place=expression.passage.place(0, len(expression.passage.text)),
            cure=f"compare it with something: {expression.text} > 0",
        )
    return found


class _Writer:
    def __init__(self, passage: Passage, columns: Mapping[str, Fragment], dialect: Dialect) -> None:
        self.passage = passage
        self.columns = columns
        self.dialect = dialect
        self.words = WORDS[dialect]

    def write(self, node: Node) -> Fragment:
        try:
            return _RULES[type(node)](self, node)
        except Unsayable as unsayable:
            self.refuse(node, unsayable.message, unsayable.cure)

    def refuse(self, node: Node, message: str, cure: str = "") -> NoReturn:
        place = self.passage.place(node.start, node.end)
        raise ExpressionError(message, place=place, cure=cure)

    def literal(self, node: Literal) -> Fragment:
        return dialects.literal(node.value, type_of(node.value), self.dialect)

    def name(self, node: Name) -> Fragment:
        return self.columns[node.name]

    def index(self, node: Index) -> Fragment:
        self.refuse(node, "the database does not know positions", f"compare {node.name} itself")

    def host(self, node: Host) -> Fragment:
        self.refuse(
            node, f"host.{node.name} is not known here", "the column host names the machine"
        )

    def negative(self, node: Negative) -> Fragment:
        operand = self.write(node.operand)
        return sql("(- {})", operand, type=operand.type)

    def positive(self, node: Positive) -> Fragment:
        return self.write(node.operand)

    def negated(self, node: Not) -> Fragment:
        return sql("(NOT {})", self.write(node.operand), type="bool")

    def arithmetic(self, node: Arithmetic) -> Fragment:
        found = self.write(node.first)
        for step in node.steps:
            found = self.operation(step.operator, found, self.write(step.operand))
        return found

    def operation(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        kind = common((a, b))
        match operator:
            case "+" if kind == "str":
                return sql("({} || {})", a, b, type="str")
            case "+" | "-" | "*":
                return self.words.arithmetic(operator, a, b).typed(kind)
            case "/":
                return sql(self.words.quotient, a, b, type="real")
            case "//" | "%" if kind == "int":
                return self._whole(operator, a, b)
            case _:
                return self.words.real_remainder(operator, a, b).typed(kind)

    def _whole(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        """Towards the divisor's sign, as in the language; SQL's own goes towards zero."""
        remainder = "((({a}) % {b} + {b}) % {b})"
        template = remainder if operator == "%" else self.words.floored.replace("{r}", remainder)
        return self.shared(template, {"a": a, "b": self.words.divisor(b)}, "int")

    def power(self, node: Power) -> Fragment:
        base, exponent = self.write(node.base), self.write(node.exponent)
        kind = common((base, exponent))
        if base.short and base.type in ("int", "real") and node.exponent == Literal(2):
            return self.operation("*", base, base)
        return self.words.power(base, exponent, kind, self.shared).typed(kind)

    def compare(self, node: Compare) -> Fragment:
        operands = [self.write(node.first), *(self.write(step.operand) for step in node.steps)]
        signs = [_RELATIONS[step.operator] for step in node.steps]
        names = {f"v{i}": operand for i, operand in enumerate(operands)}
        ordered = any(operand.type == "str" for operand in operands)
        collated = self.words.collation if ordered else ""
        pairs = [f"{{v{i}}} {sign} {{v{i + 1}}}{collated}" for i, sign in enumerate(signs)]
        return self.shared(f"({' AND '.join(pairs)})", names, "bool")

    def member(self, node: Member) -> Fragment:
        options = joined(", ", map(self.write, node.options))
        word = "NOT IN" if node.negated else "IN"
        return sql(f"({{}} {word} ({{}}))", self.write(node.item), options, type="bool")

    def within(self, node: Within) -> Fragment:
        found = sql(self.words.found, self.write(node.whole), self.write(node.part), type="bool")
        return sql("(NOT {})", found, type="bool") if node.negated else found

    def logic(self, node: Logic) -> Fragment:
        operands = [self.write(operand) for operand in node.operands]
        inner = joined(f" {node.operator.upper()} ", operands)
        return sql("({})", inner, type="bool")

    def conditional(self, node: Conditional) -> Fragment:
        then, other = self.write(node.then), self.write(node.other)
        asked = self.write(node.condition)
        kind = common((then, other))
        return sql("(CASE WHEN {} THEN {} ELSE {} END)", asked, then, other, type=kind)

    def call(self, node: Call) -> Fragment:
        arguments = [self.write(argument) for argument in node.arguments]
        return self.words.call(node.function, arguments, self.shared)

    def shared(self, template: str, named: Mapping[str, Fragment], kind: Type | None) -> Fragment:
        """*template* with ``{name}`` filled in; what is long and stands twice is computed once."""
        once = {n: f for n, f in named.items() if f.short or template.count(f"{{{n}}}") == 1}
        again = {n: f for n, f in named.items() if n not in once}
        parts = _cut(template, named)
        columns = {n: Fragment((f"s.{n}",)) for n in again}
        text = "".join(part if isinstance(part, str) else "{}" for part in parts)
        fillers = [({**once, **columns})[p[0]] for p in parts if isinstance(p, tuple)]
        found = sql(text, *fillers, type=kind)
        if not again:
            return found
        inner = joined(", ", (sql(f"{{}} AS {n}", fragment) for n, fragment in again.items()))
        return sql("(SELECT {} FROM (SELECT {}) s)", found, inner, type=kind)


def _cut(template: str, named: Mapping[str, Fragment]) -> list[str | tuple[str]]:
    """Texts, and the names between them."""
    parts: list[str | tuple[str]] = []
    for piece in template.split("{"):
        name, brace, rest = piece.partition("}")
        if brace and name in named:
            parts += [(name,), rest]
        else:
            parts.append(piece)
    return parts


_RULES: dict[type[Node], Callable[[_Writer, Any], Fragment]] = {
    Literal: _Writer.literal,
    Name: _Writer.name,
    Index: _Writer.index,
    Host: _Writer.host,
    Negative: _Writer.negative,
    Positive: _Writer.positive,
    Not: _Writer.negated,
    Arithmetic: _Writer.arithmetic,
    Power: _Writer.power,
    Compare: _Writer.compare,
    Member: _Writer.member,
    Within: _Writer.within,
    Logic: _Writer.logic,
    Conditional: _Writer.conditional,
    Call: _Writer.call,
}
