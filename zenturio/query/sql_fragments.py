"""SQL fragments with their bound values, and the differences between the databases' dialects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from zenturio.errors import Place
from zenturio.expression import Type, Value
from zenturio.expression.scalar_functions import BITS

Dialect = Literal["sqlite", "postgresql"]

_CASTS = {bool: "boolean", int: "bigint", float: "double precision", str: "text"}


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A value that stands in a text."""

    value: Value


@dataclass(frozen=True, slots=True)
class Guarded:
    """A computation that the database does itself, unless *doubt* holds for a row: then *exact*."""

    native: Fragment
    doubt: Fragment
    exact: Fragment


@dataclass(frozen=True, slots=True)
class Fragment:
    """SQL in pieces, and what is known of its value."""

    parts: tuple[str | BoundValue | Guarded, ...]
    type: Type | None = None
    short: bool = False
    """Whether it may be written twice: a column or a value, not a computation."""
    place: Place | None = None
    """Where the expression stands that this SQL is of."""
    digits: Fragment | None = None
    """Of a column whose integers may be beyond 63 bits, for which it has the reals next to them:
    their digits as text, and NULL for all other values."""

    def bound(self, dialect: Dialect) -> tuple[str, list[Value]]:
        """Return the text with placeholders, and their values."""
        parts = list(_flat(self.parts, guarded=True))
        values = [part.value for part in parts if isinstance(part, BoundValue)]
        if dialect == "sqlite":
            return "".join("?" if isinstance(p, BoundValue) else p for p in parts), values
        # Without values psycopg takes a per cent sign for one.
        escaped = (p.replace("%", "%%") if values else p for p in parts if isinstance(p, str))
        texts = iter(escaped)
        return "".join(
            _cast(p.value) if isinstance(p, BoundValue) else next(texts) for p in parts
        ), values

    def plain(self, dialect: Dialect) -> str:
        """Return the text as somebody pastes it elsewhere: values are written out."""
        return "".join(
            part if isinstance(part, str) else literal(part.value, dialect)
            for part in _flat(self.parts, guarded=False)
        )

    def typed(self, type: Type | None) -> Fragment:  # noqa: A002
        """Return the same, with another type."""
        return replace(self, type=type)


def _flat(
    parts: Iterable[str | BoundValue | Guarded], *, guarded: bool
) -> Iterator[str | BoundValue]:
    """Texts and values; with what each guarded computation falls back to, or without."""
    for part in parts:
        if not isinstance(part, Guarded):
            yield part
        elif guarded:
            case = sql("CASE WHEN {} THEN {} ELSE {} END", part.doubt, part.exact, part.native)
            yield from _flat(case.parts, guarded=True)
        else:
            yield from _flat(part.native.parts, guarded=False)


def _cast(value: Value) -> str:
    kind = (
        "numeric"
        if type(value) is int and not -(2**63) <= value < 2**63
        else _CASTS.get(type(value), "text")
    )
    return f"%s::{kind}"


def sql(template: str, *inner: Fragment, type: Type | None = None) -> Fragment:  # noqa: A002
    """Return *template* with each ``{}`` filled by a fragment."""
    texts = template.split("{}")
    parts: list[str | BoundValue | Guarded] = [texts[0]]
    for fragment, text in zip(inner, texts[1:], strict=True):
        parts += [*fragment.parts, text]
    place = next((fragment.place for fragment in inner if fragment.place), None)
    return Fragment(tuple(part for part in parts if part != ""), type, place=place)


def verbatim(text: str) -> Fragment:
    """SQL as it stands: braces in it belong to somebody's names."""
    return Fragment((text,))


def join_fragments(separator: str, fragments: Iterable[Fragment]) -> Fragment:
    """Return all *fragments* with *separator* between them."""
    pieces = list(fragments)
    return sql(separator.join("{}" for _ in pieces), *pieces) if pieces else Fragment(())


def bound_value(plain: Value, kind: Type | None) -> Fragment:
    """Return a value that is bound."""
    if plain is None:
        return Fragment(("NULL",), kind, short=True)
    return Fragment((BoundValue(plain),), kind, short=True)


def quote_name(text: str) -> str:
    """Return an identifier, always in quotes."""
    return '"' + text.replace('"', '""') + '"'


def literal(plain: Value, dialect: Dialect) -> str:
    """Return *plain* as it is written in SQL."""
    if plain is None:
        return "NULL"
    if isinstance(plain, bool):
        return str(plain).upper() if dialect == "postgresql" else str(int(plain))
    if isinstance(plain, str):
        return "'" + plain.replace("'", "''") + "'"
    if isinstance(plain, float):
        return _real(plain, dialect)
    return str(plain)


def _real(number: float, dialect: Dialect) -> str:
    text = repr(number)
    if text.strip("-").isalpha():
        if dialect == "postgresql":
            return f"'{text}'::double precision"
        # SQLite has no literal for infinity, but reads 9e999 as one; NaN is NULL to it.
        return {"inf": "9e999", "-inf": "-9e999"}.get(text, "NULL")
    return f"{text}::double precision" if dialect == "postgresql" else text


Shared = Callable[..., Fragment]
"""``shared(template, {"a": fragment}, type)``: what stands twice in it is computed once."""


class NotInSqlError(Exception):
    """A database cannot say this; the writer knows where it stands."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SqlDialect(Protocol):
    """What one database says."""

    collation: str
    """Behind a comparison of texts: by code points, as in the language."""
    quotient: str
    contains: str
    """Whether a text (second) stands in another (first)."""
    remainder: str
    """``a % b`` for integers."""
    floored: str
    """``a // b`` for integers, where ``{r}`` is ``a % b``."""

    def column(self, text: str, kind: Type | None) -> Fragment:
        """Return a column, where NaN is NULL."""
        ...

    def arithmetic(self, operator: str, a: Fragment, b: Fragment) -> Fragment: ...

    def mixed(self, relation: str, names: tuple[str, str], whole_first: bool) -> str:
        """Return how an integer and a real number are compared, as a template of their names."""
        ...

    def divisor(self, b: Fragment) -> Fragment:
        """Return an integer to divide by; NULL if it is 0."""
        ...

    def real_remainder(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        """Return ``//`` or ``%`` where not both are surely integers."""
        ...

    def power(self, a: Fragment, b: Fragment, kind: Type | None, shared: Shared) -> Fragment: ...
    def call(self, function: str, arguments: Sequence[Fragment], shared: Shared) -> Fragment: ...


class SqliteDialect:
    """SQLite: it answers NULL where there is no answer; what it lacks comes from `functions`."""

    collation = ""
    quotient = "(CAST({} AS REAL) / {})"
    contains = "(instr({}, {}) > 0)"
    # Of a % b + b, the sum may need a 64th bit where both have one sign.
    remainder = "(({a}) % {b} + {b} * ((({a}) % {b} < 0) <> ({b} < 0) AND ({a}) % {b} <> 0))"
    floored = "(({a} - {r}) / {b})"

    def column(self, text: str, kind: Type | None) -> Fragment:
        return Fragment((text,), kind, short=True)

    def arithmetic(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        return sql(f"({{}} {operator} {{}})", a, b)

    # SQLite itself compares an integer with a real exactly, whatever their size.
    def mixed(self, relation: str, names: tuple[str, str], whole_first: bool) -> str:  # noqa: ARG002
        return f"{{{names[0]}}} {relation} {{{names[1]}}}"

    def divisor(self, b: Fragment) -> Fragment:
        return b

    def real_remainder(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        name = "zen_floordiv" if operator == "//" else "zen_mod"
        return sql(f"{name}({{}}, {{}})", a, b)

    def power(self, a: Fragment, b: Fragment, kind: Type | None, shared: Shared) -> Fragment:  # noqa: ARG002
        return sql("zen_power({}, {})", a, b)

    def call(self, function: str, arguments: Sequence[Fragment], shared: Shared) -> Fragment:
        if function in ("min", "max"):
            kind = common_type(arguments)
            mixed = kind == "real" and any(argument.type == "int" for argument in arguments)
            best = f"CAST({function}({{}}) AS REAL)" if mixed else f"{function}({{}})"
            return sql(best, join_fragments(", ", arguments), type=kind)
        if function == "coalesce":
            return _first_known(arguments, "CAST({} AS REAL)")
        if function == "gcd":
            return _folded("gcd({}, {})", arguments)
        if function in ROUNDINGS and arguments[0].type == "int":
            return arguments[0]
        key = f"str {arguments[0].type}" if function == "str" else function
        template, kind = _SQLITE.get(key) or _SQLITE[function]
        return _filled(template, arguments, kind, shared)


class PostgresDialect:
    """PostgreSQL: it fails where there is no answer, so that is asked before.

    Integers are computed as ``numeric``, which has no limit.
    """

    collation = ' COLLATE "C"'
    quotient = "({}::double precision / nullif({}::double precision, 0))"
    contains = "(strpos({}, {}) > 0)"
    remainder = "((({a}) % {b} + {b}) % {b})"
    floored = "div({a} - {r}, {b})"

    def column(self, text: str, kind: Type | None) -> Fragment:
        wide = {"int": f"{text}::numeric", "real": f"nullif({text}, 'NaN')"}
        return Fragment((wide.get(kind or "", text),), kind, short=True)

    def arithmetic(self, operator: str, a: Fragment, b: Fragment) -> Fragment:
        # numeric has no limit: a sum of integers neither overflows nor loses digits.
        if (a.type, b.type) == ("int", "int"):
            return sql(f"({{}}::numeric {operator} {{}}::numeric)", a, b)
        return sql(f"({{}}::double precision {operator} {{}}::double precision)", a, b)

    def mixed(self, relation: str, names: tuple[str, str], whole_first: bool) -> str:
        """As real numbers, unless both are so large that a real number holds no fraction."""
        one, other = (f"{{{name}}}" for name in names)
        whole, real = (one, other) if whole_first else (other, one)
        exact = _whole_number("floor").replace("{x}", real)
        first, second = (whole, exact) if whole_first else (exact, whole)
        return (
            f"(CASE WHEN abs({whole}) <= {2**53} OR abs({real}) < {2**53}"
            f" OR abs({real}) > 1.7976931348623157e308 THEN {one} {relation} {other}"
            f" ELSE {first} {relation} {second} END)"
        )

    def divisor(self, b: Fragment) -> Fragment:
        divisor = sql("nullif({}::numeric, 0)", b, type="int")
        return Fragment(divisor.parts, "int", short=b.short)

    def real_remainder(self, operator: str, a: Fragment, b: Fragment) -> Fragment:  # noqa: ARG002
        raise NotInSqlError(
            f"PostgreSQL has no {operator!r} for real numbers", "floor(a / b) is near to a // b"
        )

    def power(self, a: Fragment, b: Fragment, kind: Type | None, shared: Shared) -> Fragment:
        if kind == "int":
            whole = (
                "(CASE WHEN {b} < 0 OR {a} IS NULL OR {b} IS NULL THEN NULL"
                " WHEN {a} IN (0, 1) OR {b} IN (0, 1) THEN (CASE WHEN {b} = 0 THEN 1 ELSE {a} END)"
                " WHEN {a} = -1 THEN 1 - 2 * ({b} % 2)"
                f" WHEN {{b}} * ln(abs({{a}}::double precision)) < {_LARGEST}"
                " THEN power({a}::numeric, {b}::numeric) END)"
            )
            return shared(whole, {"a": a, "b": b}, "int")
        real = (
            "(CASE WHEN {a} = 0 THEN (CASE WHEN {b} > 0 THEN 0 WHEN {b} = 0 THEN 1 END)"
            " WHEN {a} > 0 OR {b} = floor({b}) THEN (CASE"
            # PostgreSQL reports an underflow of power() as an error, where the language has 0:
            # exponents that lead there are tested before.
            " WHEN {b} * ln(abs({a}::double precision)) < -745 THEN 0"
            " WHEN {b} * ln(abs({a}::double precision)) <= 709.7827128"
            " THEN power({a}::double precision, {b}::double precision) END) END)"
        )
        return shared(real, {"a": a, "b": b}, "real")

    def call(self, function: str, arguments: Sequence[Fragment], shared: Shared) -> Fragment:
        if function in ("min", "max"):
            return self._best(function, arguments, shared)
        if function == "coalesce":
            return _first_known(arguments, "{}::double precision")
        if function == "gcd":
            return _folded("gcd({}::numeric, {}::numeric)", arguments)
        if function in ROUNDINGS and arguments[0].type == "int":
            return arguments[0]
        if function == "str" and arguments[0].type == "real":
            raise NotInSqlError("PostgreSQL writes real numbers in another way", "compare numbers")
        if function == "match":
            raise NotInSqlError(
                "PostgreSQL has no 'match': its patterns are of another kind",
                "look for a text: 'part' in name",
            )
        template, kind = _POSTGRESQL[function]
        return _filled(template, arguments, kind, shared)

    def _best(self, function: str, arguments: Sequence[Fragment], shared: Shared) -> Fragment:
        """NULL among them makes NULL, where LEAST and GREATEST leave it out."""
        # num_nulls tests all operands at once, each computed only once (see `shared`).
        named = {f"v{i}": argument for i, argument in enumerate(arguments)}
        inner = ", ".join(
            f"{{{n}}}{self.collation if argument.type == 'str' else ''}"
            for n, argument in named.items()
        )
        word = "least" if function == "min" else "greatest"
        best = f"(CASE WHEN num_nulls({inner}) = 0 THEN {word}({inner}) END)"
        return shared(best, named, common_type(arguments))


def _first_known(arguments: Sequence[Fragment], as_real: str) -> Fragment:
    kind = common_type(arguments)
    known = sql("coalesce({})", join_fragments(", ", arguments))
    mixed = kind == "real" and any(argument.type == "int" for argument in arguments)
    return sql(as_real, known, type=kind) if mixed else known.typed(kind)


ROUNDINGS = ("floor", "ceil", "round")

_LARGEST = BITS * math.log(2)
"""The logarithm of the largest integers of the language."""


def _whole_number(rounding: str) -> str:
    """Return a rounded real number as an integer with all its digits, of which a cast keeps 15.

    A large one is split into 60 bits and a power of two.
    """
    rounded = f"{rounding}({{x}}::double precision)"
    shift = "floor(ln(abs({x}::double precision)) / 0.6931471805599453) - 57"
    return (
        f"(CASE WHEN abs({{x}}::double precision) < 9e18 THEN {rounded}::bigint::numeric"
        " WHEN abs({x}::double precision) <= 1.7976931348623157e308"
        f" THEN ({{x}}::double precision / power(2::double precision, {shift}))::bigint::numeric"
        f" * power(2::numeric, ({shift})::numeric) END)"
    )


def exact_decimal(real: Fragment, digits: Fragment) -> Fragment:
    """Return a column of reals and integers as decimals of PostgreSQL, none of them rounded.

    *digits*: of those integers that *real* has only the real next to.
    """
    whole = _whole_number("floor").replace("{x}", "{}")
    template = (
        "(CASE WHEN {} IS NOT NULL THEN {}::numeric"
        f" WHEN abs({{}}) < {2**53} OR abs({{}}) > 1.7976931348623157e308 THEN {{}}::text::numeric"
        f" ELSE {whole} END)"
    )
    return sql(template, digits, digits, *[real] * (template.count("{}") - 2), type="real")


_DIVIDES = "(CASE WHEN {x} = 0 THEN {y} = 0 ELSE {y} % {x} = 0 END)"

_SQLITE: dict[str, tuple[str, Type | None]] = {
    "abs": ("(CASE WHEN {x} < 0 THEN - {x} ELSE {x} END)", None),  # abs(-2**63) is an error
    "floor": ("floor({x})", "int"),
    "ceil": ("zen_ceil({x})", "int"),
    "round": ("zen_round({x})", "int"),
    "sqrt": ("sqrt({x})", "real"),
    "log": ("ln({x})", "real"),
    "log2": ("log2({x})", "real"),
    "exp": ("exp({x})", "real"),
    "ispow2": ("({x} > 0 AND {x} & ({x} - 1) = 0)", "bool"),
    "divides": (_DIVIDES, "bool"),
    "len": ("length({x})", "int"),
    "str": ("zen_text({x})", "str"),
    "str int": ("CAST({x} AS TEXT)", "str"),
    "str str": ("{x}", "str"),
    "str bool": ("(CASE {x} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)", "str"),
    "basename": ("zen_basename({x})", "str"),
    "match": ("zen_match({x}, {y})", "bool"),
}
"""Each function with its arguments x and y, and its type: none where it is the argument's."""

_POSTGRESQL: dict[str, tuple[str, Type | None]] = {
    "abs": ("abs({x})", None),
    # Of a double precision, round() goes to the even one of two, as in the language.
    **{name: (_whole_number(name), "int") for name in ROUNDINGS},
    "sqrt": ("(CASE WHEN {x} >= 0 THEN sqrt({x}::double precision) END)", "real"),
    "log": ("(CASE WHEN {x} > 0 THEN ln({x}::double precision) END)", "real"),
    "log2": (
        # Through text: a cast of a double precision to numeric keeps 15 of its 17 digits.
        "(CASE WHEN {x} > 0 THEN log(2::numeric, {x}::text::numeric)::double precision END)",
        "real",
    ),
    "exp": (
        (
            "(CASE WHEN {x} < -745.13 THEN 0 WHEN {x} <= 709.782712893384"
            " THEN exp({x}::double precision) END)"
        ),
        "real",
    ),
    "ispow2": (
        (
            "(CASE WHEN {x} <= 0 THEN false"
            " ELSE power(2::numeric, round(log(2::numeric, {x}::numeric))) = {x}::numeric END)"
        ),
        "bool",
    ),
    "divides": (_DIVIDES, "bool"),
    "len": ("length({x})", "int"),
    "str": ("{x}::text", "str"),
    "basename": ("regexp_replace(rtrim({x}, '/'), '^.*/', '')", "str"),
}

DIALECTS: dict[Dialect, SqlDialect] = {"sqlite": SqliteDialect(), "postgresql": PostgresDialect()}


def _filled(
    template: str, arguments: Sequence[Fragment], kind: Type | None, shared: Shared
) -> Fragment:
    return shared(template, dict(zip("xy", arguments, strict=False)), kind or arguments[0].type)


def _folded(template: str, arguments: Sequence[Fragment]) -> Fragment:
    folded = arguments[0]
    for argument in arguments[1:]:
        folded = sql(template, folded, argument, type="int")
    return folded


def common_type(fragments: Sequence[Fragment]) -> Type | None:
    """Return the type that all have; real where integers are among reals."""
    kinds = {fragment.type for fragment in fragments}
    if len(kinds) == 1:
        return kinds.pop()
    return "real" if kinds == {"int", "real"} else None


def typed_literal(plain: Value, kind: Type | None, dialect: Dialect) -> Fragment:
    """Return a value as it stands in a computation."""
    literal_fragment = bound_value(plain, kind)
    if dialect == "postgresql" and kind == "int":
        return Fragment((*literal_fragment.parts, "::numeric"), kind, short=True)
    return literal_fragment
