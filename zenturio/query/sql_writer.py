"""Expressions as SQL: the same answers that the language gives, computed by the database.

Values are bound and names are quoted. What has no answer in the language (a division by zero, the
root of -1) is NULL here, as is NaN; so a condition does not select a row with one. Where a number
exceeds what SQLite holds (integers beyond 63 bits, infinite reals), the language itself computes
that row, as a function that is registered with the connection. PostgreSQL computes integers of any
length, and fails where a number exceeds its reals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NoReturn

from zenturio.errors import ExpressionError, Passage
from zenturio.experiment import aggregates
from zenturio.expression import Expression, Type, parse
from zenturio.expression.scalar_functions import (
    CALLED,
    Fault,
    Value,
    floor_divide,
    power,
    remainder,
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
    Positive,
    Power,
    SyntaxNode,
    Within,
)
from zenturio.query import sql_fragments, statistics
from zenturio.query.sql_fragments import (
    DIALECTS,
    Dialect,
    Fragment,
    Guarded,
    NotInSqlError,
    bound_value,
    common_type,
    join_fragments,
    sql,
)


def register_functions(connection: Any) -> None:
    """Makes the functions known to a connection of SQLite."""
    for name, (count, function) in _SCALARS.items():
        connection.create_function(name, count, function, deterministic=True)
    for name, aggregate in _AGGREGATES.items():
        connection.create_aggregate(name, 1, aggregate)
    connection.create_aggregate("quantile", 2, Quantile)


def _answered(function: Callable[..., Value]) -> Callable[..., Value]:
    def called(*values: Value) -> Value:
        try:
            answer = function(*values)
        except Fault:
            return None
        # Drivers refuse such an integer; as a real it makes the guard of the row true, and the row
        # is then computed by zen_exact.
        if type(answer) is int and not -(2**63) <= answer < 2**63:
            return _real(answer)
        return answer

    return called


def _real(value: int) -> float:
    """An integer that SQLite has no room for, as a sign that the row is to be computed exactly."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exact_call(expression: Expression, columns: Sequence[tuple[str, Type | None]]) -> str:
    """Return the first argument of ``zen_exact``: what it computes, of which columns."""
    return json.dumps([expression.text, columns])


def _exact(request: str, *values: Value) -> Value:
    """What an expression is for a row, computed without SQL; NULL where it has no answer."""
    # SQLite calls this for each row with the same text, so parsing is cached.
    expression, columns = _parsed_request(request)
    row = {
        name: _exact_input(value, kind) for (name, kind), value in zip(columns, values, strict=True)
    }
    try:
        answer = expression.value(row)
    except ExpressionError:
        return None
    return _real(answer) if type(answer) is int and not -(2**63) <= answer < 2**63 else answer


def _exact_input(value: Value, kind: Type | None) -> Value:
    """The value of a column; the digits of an integer stand for what SQLite has no room for."""
    if kind == "bool" and value is not None:
        return bool(value)
    return int(value) if kind in ("int", "real") and isinstance(value, str) else value


@lru_cache(maxsize=64)
def _parsed_request(request: str) -> tuple[Expression, list[tuple[str, Type | None]]]:
    text, columns = json.loads(request)
    return parse(text), [(name, kind) for name, kind in columns]


_SCALARS: dict[str, tuple[int, Callable[..., Value]]] = {
    "zen_floordiv": (2, _answered(floor_divide)),
    "zen_mod": (2, _answered(remainder)),
    "zen_power": (2, _answered(power)),
    "zen_round": (1, _answered(CALLED["round"])),
    "zen_text": (1, _answered(CALLED["str"])),
    "zen_basename": (1, _answered(CALLED["basename"])),
    "zen_match": (2, _answered(CALLED["match"])),
    "gcd": (2, _answered(CALLED["gcd"])),
    # SQLAlchemy puts one in the place of SQLite's own that fails of NULL.
    "floor": (1, _answered(CALLED["floor"])),
    "zen_ceil": (1, _answered(CALLED["ceil"])),
    "zen_exact": (-1, _exact),
}


class _Sample:
    """All values of a group; a row costs one append, with no code of ours in between."""

    def __init__(self) -> None:
        self._values: list[float | None] = []
        self.step = self._values.append

    def values(self) -> list[float]:
        """Return the values that are not NULL."""
        return [value for value in self._values if value is not None]


def _sample_aggregate(reduce: Callable[[Sequence[float]], float | None]) -> type[_Sample]:
    """Return the class that aggregates the values of a group by *reduce*."""

    class Reduced(_Sample):
        def finalize(self) -> float | None:
            return reduce(self.values())

    return Reduced


class Quantile:
    """A quantile: ``quantile(x, 0.9)``."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._share = 0.5

    def step(self, value: float | None, share: float) -> None:
        if value is not None:
            self._values.append(value)
        self._share = share

    def finalize(self) -> float | None:
        share = self._share
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            return None
        return aggregates.quantile(self._values, share)


_AGGREGATES: dict[str, type[_Sample]] = {
    name: _sample_aggregate(reduce)
    for name, reduce in {
        "stddev_samp": aggregates.deviation,
        "median": aggregates.median,
        "var_samp": aggregates.variance,
        **{n: reduce for n, reduce in statistics.DEFINED_AGGREGATES.items() if n != "var"},
    }.items()
}


_MOST_DOUBTS = 100
"""SQL nests no deeper than a thousand operators."""
_RELATIONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def write_sql(
    expression: Expression, columns: Mapping[str, Fragment], dialect: Dialect
) -> Fragment:
    """*expression* over *columns*; ExpressionError where it is wrong, or no SQL says it."""
    expression.check({name: column.type for name, column in columns.items()})
    writer = _FormulaWriter(expression.passage, columns, dialect)
    fragment = writer.write(expression.node)
    place = expression.passage.place(0, len(expression.passage.text))
    if not writer.doubts:
        return replace(fragment, place=place)
    # Rather than nest too deep, compute every row in the language: slower, never wrong.
    many = len(writer.doubts) > _MOST_DOUBTS
    doubt = Fragment(("1",)) if many else join_fragments(" OR ", writer.doubts)
    guarded = Guarded(fragment, doubt, _exact_fragment(expression, columns))
    return Fragment((guarded,), fragment.type, place=place)


def _exact_fragment(expression: Expression, columns: Mapping[str, Fragment]) -> Fragment:
    """Return the expression as a function of SQLite that computes it as the language does."""
    names = sorted(expression.names)
    request = exact_call(expression, [(name, columns[name].type) for name in names])
    arguments = join_fragments(
        ", ", (bound_value(request, "str"), *(_whole_value(columns[name]) for name in names))
    )
    return sql("zen_exact({})", arguments)


def _whole_value(column: Fragment) -> Fragment:
    """Return a column, where the digits of an integer take the place of the real next to it."""
    return column if column.digits is None else sql("coalesce({}, {})", column.digits, column)


def write_condition(
    expression: Expression, columns: Mapping[str, Fragment], dialect: Dialect
) -> Fragment:
    """Return *expression* as what WHERE takes: true, false or NULL."""
    fragment = write_sql(expression, columns, dialect)
    if fragment.type not in ("bool", None):
        raise ExpressionError(
            f"a condition is true or false, but this is {fragment.type}",
            place=expression.passage.place(0, len(expression.passage.text)),
            hint=f"compare it with something: {expression.text} > 0",
        )
    return fragment


class _FormulaWriter:
    def __init__(self, passage: Passage, columns: Mapping[str, Fragment], dialect: Dialect) -> None:
        self.passage = passage
        self.columns = columns
        self.dialect = dialect
        self.sql_dialect = DIALECTS[dialect]
        self.doubts: list[Fragment] = []
        """Of SQLite, when a number has left what it holds: the row is then computed without SQL."""

    def doubted(self, operand: Fragment) -> Fragment:
        """*operand*, which goes where nobody sees any more that it has left what SQLite holds.

        Sums and products show it: integers become reals there, and reals infinite.
        """
        if self.dialect == "sqlite" and not operand.short:
            if operand.type == "int":
                self.doubts.append(sql("typeof({}) = 'real'", operand))
            elif operand.type == "real":
                self.doubts.append(sql("{} IN (9e999, -9e999)", operand))
        return operand

    def write(self, node: SyntaxNode) -> Fragment:
        try:
            return _RULES[type(node)](self, node)
        except NotInSqlError as unsayable:
            self.refuse(node, unsayable.message, unsayable.hint)

    def refuse(self, node: SyntaxNode, message: str, hint: str = "") -> NoReturn:
        place = self.passage.place(node.start, node.end)
        raise ExpressionError(message, place=place, hint=hint)

    def literal(self, node: Constant) -> Fragment:
        number = node.value
        if type(number) is int and self.dialect == "sqlite" and not -(2**63) <= number < 2**63:
            self.doubts.append(Fragment(("1",)))
            return sql_fragments.typed_literal(
                math.inf if number > 0 else -math.inf, "int", self.dialect
            )
        return sql_fragments.typed_literal(node.value, type_of(node.value), self.dialect)

    def name(self, node: Name) -> Fragment:
        column = self.columns[node.name]
        if self.dialect == "sqlite" and column.digits is not None:
            self.doubts.append(sql("{} IS NOT NULL", column.digits))
        return column

    def index(self, node: Index) -> Fragment:
        self.refuse(node, "the database does not know positions", f"compare {node.name} itself")

    def host(self, node: HostAttribute) -> Fragment:
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
        fragment = self.write(node.first)
        for step in node.steps:
            fragment = self.operation(step.operator, fragment, self.write(step.operand))
        return fragment

    def operation(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        kind = common_type((a, b))
        match operator:
            case "+" if kind == "str":
                return sql("({} || {})", a, b, type="str")
            case "+" | "-" | "*":
                return self.sql_dialect.arithmetic(operator, a, b).typed(kind)
            case "/":
                return sql(self.sql_dialect.quotient, a, self.doubted(b), type="real")
            case "//" | "%" if kind == "int":
                return self._whole(operator, self.doubted(a), self.doubted(b))
            case _:
                a, b = self.doubted(a), self.doubted(b)
                return self.sql_dialect.real_remainder(operator, a, b).typed(kind)

    def _whole(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        """Towards the divisor's sign, as in the language; SQL's own goes towards zero."""
        remainder = self.sql_dialect.remainder
        template = (
            remainder if operator == "%" else self.sql_dialect.floored.replace("{r}", remainder)
        )
        return self.shared(template, {"a": a, "b": self.sql_dialect.divisor(b)}, "int")

    def power(self, node: Power) -> Fragment:
        base, exponent = self.write(node.base), self.write(node.exponent)
        kind = common_type((base, exponent))
        if base.short and base.type in ("int", "real") and node.exponent == Constant(2):
            return self.operation("*", base, base)
        base, exponent = self.doubted(base), self.doubted(exponent)
        return self.sql_dialect.power(base, exponent, kind, self.shared).typed(kind)

    def compare(self, node: Compare) -> Fragment:
        nodes = (node.first, *(step.operand for step in node.steps))
        operands = [self.doubted(self.write(operand)) for operand in nodes]
        signs = [_RELATIONS[step.operator] for step in node.steps]
        # In a < b < c the middle operand stands in two comparisons: by its name it is computed
        # once.
        names = {f"v{i}": operand for i, operand in enumerate(operands)}
        ordered = any(operand.type == "str" for operand in operands)
        collated = self.sql_dialect.collation if ordered else ""
        types = ["real" if _is_small(n) else f.type for n, f in zip(nodes, operands, strict=True)]
        pairs = [
            self._pair(sign, (f"v{i}", f"v{i + 1}"), (types[i], types[i + 1]), names)
            + ("" if {types[i], types[i + 1]} == {"int", "real"} else collated)
            for i, sign in enumerate(signs)
        ]
        return self.shared(f"({' AND '.join(pairs)})", names, "bool")

    def _pair(
        self,
        sign: str,
        names: tuple[str, str],
        types: tuple[Type | None, Type | None],
        operands: dict[str, Fragment],
        *,
        seen: tuple[str, ...] = (),
    ) -> str:
        """Return how two operands are compared, as a template of their names; new ones are added.

        PostgreSQL has the digits of large integers that stand among reals: those are compared.
        """
        first, second = names
        for name in names:
            digits = operands[name].digits
            if self.dialect != "postgresql" or digits is None or name in seen:
                continue
            exact = f"{name}d"
            operands[exact] = sql("{}::numeric", digits, type="int")
            whole: tuple[Type | None, Type | None]
            others, whole = ((exact, second), ("int", types[1]))
            if name == second:
                others, whole = ((first, exact), (types[0], "int"))
            seen = (*seen, name)
            one = self._pair(sign, others, whole, operands, seen=seen)
            other = self._pair(sign, names, types, operands, seen=seen)
            return f"(CASE WHEN {{{exact}}} IS NOT NULL THEN {one} ELSE {other} END)"
        if {*types} == {"int", "real"}:
            return self.sql_dialect.mixed(sign, names, types[0] == "int")
        return f"{{{first}}} {sign} {{{second}}}"

    def member(self, node: Member) -> Fragment:
        options = [self.doubted(self.write(option)) for option in node.options]
        item = self.doubted(self.write(node.item))
        if self.dialect == "postgresql" and item.type in ("int", "real"):
            return self._among_numbers(item, node, options)
        word = "NOT IN" if node.negated else "IN"
        return sql(f"({{}} {word} ({{}}))", item, join_fragments(", ", options), type="bool")

    def _among_numbers(self, item: Fragment, node: Member, options: list[Fragment]) -> Fragment:
        """Each by itself: in a list PostgreSQL would compare integers as reals, if one is real."""
        if item.digits is None and {item.type, *(option.type for option in options)} != {
            "int",
            "real",
        }:
            word = "NOT IN" if node.negated else "IN"
            return sql(f"({{}} {word} ({{}}))", item, join_fragments(", ", options), type="bool")
        names = {"v": item} | {f"v{i}": option for i, option in enumerate(options)}
        item_type = "real" if _is_small(node.item) else item.type
        pairs = []
        for i, written in enumerate(node.options):
            kind = "real" if _is_small(written) else options[i].type
            # IN with a list gives all its elements one common type, reals if one is a real.
            pairs.append(self._pair("=", ("v", f"v{i}"), (item_type, kind), names))
        either = f"({' OR '.join(pairs)})"
        return self.shared(f"(NOT {either})" if node.negated else either, names, "bool")

    def within(self, node: Within) -> Fragment:
        test = sql(
            self.sql_dialect.contains, self.write(node.whole), self.write(node.part), type="bool"
        )
        return sql("(NOT {})", test, type="bool") if node.negated else test

    def logic(self, node: Logic) -> Fragment:
        operands = [self.write(operand) for operand in node.operands]
        inner = join_fragments(f" {node.operator.upper()} ", operands)
        return sql("({})", inner, type="bool")

    def conditional(self, node: Conditional) -> Fragment:
        then, other = self.write(node.then), self.write(node.other)
        condition = self.write(node.condition)
        kind = common_type((then, other))
        return sql("(CASE WHEN {} THEN {} ELSE {} END)", condition, then, other, type=kind)

    def call(self, node: Call) -> Fragment:
        arguments = [self.doubted(self.write(argument)) for argument in node.arguments]
        return self.sql_dialect.call(node.function, arguments, self.shared)

    def shared(self, template: str, named: Mapping[str, Fragment], kind: Type | None) -> Fragment:
        """*template* with ``{name}`` filled in; what is long and stands twice is computed once."""
        once = {n: f for n, f in named.items() if f.short or template.count(f"{{{n}}}") == 1}
        again = {n: f for n, f in named.items() if n not in once}
        parts = _cut(template, named)
        columns = {n: Fragment((f"s.{n}",)) for n in again}
        text = "".join(part if isinstance(part, str) else "{}" for part in parts)
        fillers = [({**once, **columns})[p[0]] for p in parts if isinstance(p, tuple)]
        fragment = sql(text, *fillers, type=kind)
        if not again:
            return fragment
        inner = join_fragments(
            ", ", (sql(f"{{}} AS {n}", fragment) for n, fragment in again.items())
        )
        return sql("(SELECT {} FROM (SELECT {}) s)", fragment, inner, type=kind)


def _is_small(node: SyntaxNode) -> bool:
    """Return whether it is an integer that a real number holds, as nearly all in formulas are."""
    return isinstance(node, Constant) and type(node.value) is int and abs(node.value) <= 2**53


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


_RULES: dict[type[SyntaxNode], Callable[[_FormulaWriter, Any], Fragment]] = {
    Constant: _FormulaWriter.literal,
    Name: _FormulaWriter.name,
    Index: _FormulaWriter.index,
    HostAttribute: _FormulaWriter.host,
    Negative: _FormulaWriter.negative,
    Positive: _FormulaWriter.positive,
    Not: _FormulaWriter.negated,
    Arithmetic: _FormulaWriter.arithmetic,
    Power: _FormulaWriter.power,
    Compare: _FormulaWriter.compare,
    Member: _FormulaWriter.member,
    Within: _FormulaWriter.within,
    Logic: _FormulaWriter.logic,
    Conditional: _FormulaWriter.conditional,
    Call: _FormulaWriter.call,
}
