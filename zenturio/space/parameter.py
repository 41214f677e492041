"""Parameters: sets that depend on others, groups that vary together, concatenated texts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Literal, NoReturn, Protocol

import numpy as np

from zenturio.errors import Place, SpaceError
from zenturio.expression import Expression, Type, Value, parse, text_of
from zenturio.space.domain import (
    ArithmeticRange,
    Column,
    Continuous,
    Domain,
    Elements,
    Texts,
    arithmetic,
    column,
    elements,
    geometric_texts,
    kind_of,
    number,
    read,
    shared_type,
)

# Concatenations, such as ``node{1:2}-{a,b}``; large ones are not listed

LISTED = 1024
"""Concatenations up to this size are listed."""

COMPARED = 1_000_000
"""The most elements that are compared one by one to find duplicates."""

_SHAPES = 4096

Part = str | Domain


@dataclass(frozen=True)
class Concatenation:
    """The product of its parts, the rightmost varying fastest; elements are made on demand."""

    type: Type
    parts: tuple[Part, ...]

    @cached_property
    def size(self) -> int:
        return math.prod(part.size for part in self.parts if not isinstance(part, str))

    @property
    def ordered(self) -> bool:
        return self.type in ("int", "real")

    def text(self, position: int) -> str:
        if not 0 <= position < self.size:
            raise IndexError(position)
        texts = []
        for part in reversed(self.parts):
            if isinstance(part, str):
                texts.append(part)
            else:
                position, digit = divmod(position, part.size)
                texts.append(part.text(digit))
        return "".join(reversed(texts))

    def value(self, position: int) -> Value:
        return read(self.text(position), self.type)

    def position(self, value: Value) -> int:
        # The digits in the first decoding are the only ones: ambiguous sets were refused.
        for text in _spellings(value, self.type):
            for digits in _digits(self.parts, text):
                position = 0
                for part, digit in zip(self._groups, digits, strict=True):
                    position = position * part.size + digit
                return position
        raise SpaceError(
            f"{text_of(value)!r} is not in the set",
            hint=f"it goes from {self.text(0)!r} to {self.text(self.size - 1)!r}",
        )

    @property
    def _groups(self) -> Iterator[Domain]:
        return (part for part in self.parts if not isinstance(part, str))

    def values(self) -> Column:
        return self.at(np.arange(self.size))

    def texts(self) -> Sequence[str]:
        return Texts(self)

    def at(self, positions: Column) -> Column:
        return column([self.value(position) for position in positions.tolist()], self.type)


def concatenation(parts: Sequence[Part]) -> Elements | Concatenation:
    """Return the set of all concatenations of *parts*: texts, and one element of each set."""
    groups = [part for part in parts if not isinstance(part, str)]
    size = math.prod(group.size for group in groups)
    whole = Concatenation("str", tuple(parts))
    if size <= LISTED:
        return elements(whole.text(i) for i in range(size))
    # Ambiguous texts would be one element under two numbers; few can be compared, many are
    # refused.
    if not _decodable(parts):
        _compare(whole)
    kind = _type_of(parts)
    if kind == "str":
        return whole
    if size <= COMPARED:
        return elements(whole.texts())
    # No number is written in two ways, so positions and values correspond one to one.
    if kind == "int" and not _zeros(parts):
        return Concatenation(kind, whole.parts)
    raise SpaceError(
        f"{size:,} numbers are too many to concatenate from texts",
        hint="write a range, such as 0.1:0.9:0.1",
    )


def typed(domain: Domain, kind: Type) -> Domain:
    """Return the same texts as a set of type *kind*, for a TYPE clause."""
    if domain.type == kind:
        return domain
    if isinstance(domain, Concatenation) and kind == "str":
        return Concatenation(kind, domain.parts)
    if isinstance(domain, ArithmeticRange) and (domain.type, kind) == ("int", "real"):
        return replace(domain, type=kind)
    if domain.size > COMPARED:
        raise SpaceError(f"a set of {domain.size:,} elements cannot be read as TYPE {kind}")
    return elements(domain.texts(), kind)


def _spellings(value: Value, kind: Type) -> Iterator[str]:
    """Yield the texts that *value* may have in a set of type *kind*."""
    if kind == "str" and isinstance(value, str):
        yield value
    elif kind == "int" and isinstance(value, int | float) and value == value // 1:
        yield str(int(value))
    elif kind == "real" and isinstance(value, int | float):
        yield text_of(float(value))


def _digits(parts: Sequence[Part], text: str) -> Iterator[tuple[int, ...]]:
    """Yield the positions in the sets of *parts* whose concatenation is *text*."""
    if not parts:
        if not text:
            yield ()
        return
    head, rest = parts[0], parts[1:]
    if isinstance(head, str):
        if text.startswith(head):
            yield from _digits(rest, text[len(head) :])
        return
    for end in range(len(text) + 1):
        digit = _spelled(head, text[:end])
        if digit is not None:
            yield from ((digit, *more) for more in _digits(rest, text[end:]))


def _spelled(domain: Domain, text: str) -> int | None:
    """Return the position of the element with this *text*; None if there is none."""
    try:
        position: int = domain.position(read(text, domain.type))
    except SpaceError:
        return None
    return position if domain.text(position) == text else None


def _decodable(parts: Sequence[Part]) -> bool:
    """Return whether each text can be decoded uniquely: all sets but one have a recognisable end.

    A set has one if its texts have equal lengths, or if it is followed by a character that none of
    its texts contains; seen from the right, if it is preceded by one.
    """
    undecided = list(parts)
    while undecided and _ends(undecided[0], undecided[1] if len(undecided) > 1 else "", 0):
        undecided.pop(0)
    while undecided and _ends(undecided[-1], undecided[-2] if len(undecided) > 1 else "", -1):
        undecided.pop()
    return len(undecided) <= 1


def _ends(part: Part, neighbour: Part, side: int) -> bool:
    if isinstance(part, str):
        return True
    alphabet, lengths = _letters(part)
    if len(lengths) == 1:
        return True
    return isinstance(neighbour, str) and bool(neighbour) and neighbour[side] not in alphabet


def _letters(domain: Domain) -> tuple[set[str], set[int]]:
    """Return the characters and lengths of the texts of *domain*, estimated for a long range."""
    if isinstance(domain, ArithmeticRange):
        # The lengths of a range lie between those of its ends, unless its sign changes.
        ends = {len(domain.text(0)), len(domain.text(domain.size - 1))}
        same_sign = domain.first * (domain.first + (domain.size - 1) * domain.stride) >= 0
        exact = not domain.numeral.shortest
        return set("0123456789.+-e"), ends if same_sign and exact else {0, 1}
    if isinstance(domain, Concatenation):  # of its parts, for it may have millions of texts
        alphabet, lengths = set[str](), {0}
        for part in domain.parts:
            more = (set(part), {len(part)}) if isinstance(part, str) else _letters(part)
            alphabet |= more[0]
            lengths = {length + further for length in lengths for further in more[1]}
        return alphabet, lengths
    texts = domain.texts()
    return {letter for text in texts for letter in text}, {len(text) for text in texts}


def _compare(whole: Concatenation) -> None:
    """Refuse *whole* if two elements are equal, or if there are too many to compare."""
    if whole.size > COMPARED:
        raise SpaceError(
            "two elements of this set may be the same text, and it is too large to compare them",
            hint="put a character such as - between the groups, or pad numbers with zeros",
        )
    seen: set[str] = set()
    for text in whole.texts():
        if text in seen:
            raise SpaceError(
                f"the element {text!r} occurs twice",
                hint="put a character such as - between the groups, or pad numbers with zeros",
            )
        seen.add(text)


def _type_of(parts: Sequence[Part]) -> Type:
    """Return the type of all texts; shapes are enough, for all digits read alike."""
    shapes = _shapes_of(parts)
    return "str" if shapes is None else shared_type(map(kind_of, shapes))


def _shapes_of(parts: Sequence[Part]) -> tuple[str, ...] | None:
    """Return the distinct texts of the product of *parts*, with one digit for each run of digits.

    None if these are too many.
    """
    shapes = [(part,) if isinstance(part, str) else _shapes(part) for part in parts]
    if math.prod(map(len, shapes)) > _SHAPES:
        return None
    return tuple({_with_one_digit("".join(texts)) for texts in product(*shapes)})


def _zeros(parts: Sequence[Part]) -> bool:
    """Return whether elements may begin with zeros or signs: two texts could be one number."""
    head = next(part for part in parts if part)
    if isinstance(head, ArithmeticRange):
        return (
            min(head.first, head.first + (head.size - 1) * head.stride) < 1
            or head.numeral.padded > 0
        )
    texts = [head] if isinstance(head, str) else head.texts()
    return any(not text or text[0] in "0+-" for text in texts)


def _shapes(domain: Domain) -> tuple[str, ...]:
    """Return the distinct texts of *domain* with each run of digits replaced by one digit."""
    if isinstance(domain, ArithmeticRange):
        ends = {domain.text(0), domain.text(domain.size - 1)}
        return tuple(set(map(_with_one_digit, ends)))
    # The set may hold millions of texts, of which its parts have few shapes.
    if isinstance(domain, Concatenation) and (shapes := _shapes_of(domain.parts)) is not None:
        return shapes
    return tuple(set(map(_with_one_digit, domain.texts())))


def _with_one_digit(text: str) -> str:
    return re.sub("[0-9]+", "1", text)


# Parameters, and sets that depend on others

Bound = Expression | str
"""An expression, or the text of a number."""

_SAFE = 1 << 53


class ColumnMapping(Protocol):
    """A column for each name."""

    def __getitem__(self, name: str, /) -> Column: ...


@dataclass(frozen=True)
class Dependent:
    """A range whose bounds depend on other parameters; where it is empty, there is no point.

    A position counts from the first element at the point.
    """

    first: Bound
    last: Bound
    stride: Bound = "1"
    geometric: bool = False
    type: Type = "int"

    def __post_init__(self) -> None:
        for name in ("first", "last", "stride"):
            bound = getattr(self, name)
            if isinstance(bound, str) and kind_of(bound) == "str":
                object.__setattr__(self, name, parse(bound))
            elif isinstance(bound, str):
                number(bound, name)
        begins = (bound for bound in (self.first, self.stride) if isinstance(bound, str))
        if any(kind_of(bound) == "real" for bound in begins):
            object.__setattr__(self, "type", "real")

    def __str__(self) -> str:
        """Return the range in the syntax of directives."""
        first, last, stride = (
            bound.text if isinstance(bound, Expression) else bound
            for bound in (self.first, self.last, self.stride)
        )
        if self.geometric:
            return f"{first}:{last}:*{stride}"
        return f"{first}:{last}" if stride == "1" else f"{first}:{last}:{stride}"

    @property
    def bounds(self) -> tuple[Expression, ...]:
        """The bounds that are expressions."""
        bounds = (self.first, self.last, self.stride)
        return tuple(bound for bound in bounds if isinstance(bound, Expression))

    @property
    def names(self) -> frozenset[str]:
        """The parameters that the bounds depend on."""
        return frozenset().union(*(bound.names | bound.indexed for bound in self.bounds))

    def checked(self, types: Mapping[str, Type | None]) -> Dependent:
        """Return the range with its type, where parameters have *types*."""
        for bound in self.bounds:
            if bound.check(types) not in ("int", "real", None):
                raise SpaceError(
                    f"the bound {bound.text} is not a number",
                    place=_place(bound),
                    hint="compute it from numbers",
                )
        if isinstance(self.stride, Expression) and self.stride.check(types) != "int":
            return replace(self, type="real")
        return self

    def replaced(self, definitions: Mapping[str, Expression]) -> Dependent:
        """Return the range with derived parameters expanded."""

        def written(bound: Bound) -> Bound:
            return bound.replace(definitions) if isinstance(bound, Expression) else bound

        return replace(
            self, first=written(self.first), last=written(self.last), stride=written(self.stride)
        )

    def domain(
        self, values: Mapping[str, Value], positions: Mapping[str, int] | None = None
    ) -> Domain | None:
        """Return the set at a point with *values*; ``None`` if it is empty there."""

        def of(bound: Bound) -> Value | str:
            return bound.value(values, positions) if isinstance(bound, Expression) else bound

        return self._range(of(self.first), of(self.last), of(self.stride))

    def counts(self, columns: ColumnMapping, positions: ColumnMapping, length: int) -> Column:
        """Return the number of elements in each row."""
        bounds = self._columns(columns, positions, length)
        whole = self._whole(bounds)
        if whole is not None:
            first, last, stride = whole
            return np.broadcast_to(np.maximum((last - first) // stride + 1, 0), (length,))
        sets = (self._range(*row) for row in _transposed(bounds, length))
        return np.array([0 if domain is None else domain.size for domain in sets], dtype=np.int64)

    def at_rows(self, places: Column, columns: ColumnMapping, positions: ColumnMapping) -> Column:
        """Return the values at *places*, one for each row."""
        bounds = self._columns(columns, positions, len(places))
        whole = self._whole(bounds)
        if whole is not None:
            first, _, stride = whole
            return np.asarray(first + places.astype(np.int64) * stride)
        values: list[Value] = []
        for place, row in zip(places.tolist(), _transposed(bounds, len(places)), strict=True):
            domain = self._range(*row)
            assert domain is not None, "a row without elements has no position"
            values.append(domain.value(place))
        return column(values, self.type)

    def _columns(
        self, columns: ColumnMapping, positions: ColumnMapping, length: int
    ) -> tuple[Column | str, ...]:
        def of(bound: Bound) -> Column | str:
            if isinstance(bound, str):
                return bound
            used = {name: columns[name] for name in bound.names}
            places = {name: positions[name] for name in bound.indexed}
            return bound.column(used, length, places)

        return of(self.first), of(self.last), of(self.stride)

    def _whole(self, bounds: Sequence[Column | str]) -> tuple[Column, Column, Column] | None:
        """Return the bounds as integers below 2**53; None if rows must be evaluated one by one."""
        if self.type != "int" or self.geometric:
            return None
        numbers = []
        for bound in bounds:
            # Reals are exact integers below 2**53; all else goes row by row, in decimal.
            values = np.asarray(float(bound) if isinstance(bound, str) else bound)
            if values.dtype.kind not in "if":
                return None
            if values.size and not np.all(np.abs(values) < _SAFE):
                return None
            numbers.append(values)
        first, last, stride = numbers
        if not (np.all(first == np.floor(first)) and np.all(stride != 0)):
            return None
        # A last bound between two integers is never reached: round it towards the first.
        last = np.where(stride > 0, np.floor(last), np.ceil(last))
        return first.astype(np.int64), last.astype(np.int64), stride.astype(np.int64)

    def _range(self, first: Value, last: Value, stride: Value) -> Domain | None:
        bounds = (first, last, stride)
        texts = [
            self._text(bound, value)
            for bound, value in zip((self.first, self.last, self.stride), bounds, strict=True)
        ]
        if self.type == "int" and kind_of(texts[0]) != "int":
            self._refuse_fraction(texts[0])
        return _set(self.geometric, self.type, *texts)

    def _text(self, bound: Bound, value: Value) -> str:
        if isinstance(bound, str):
            return bound
        if value is None:
            raise SpaceError(
                f"the bound {bound.text} is NULL: it needs a parameter that is inactive",
                place=_place(bound),
                hint="give this parameter the same WHEN",
            )
        if isinstance(value, bool | str) or not math.isfinite(value):
            raise SpaceError(
                f"the bound {bound.text} is {text_of(value)!r}, which is not a number",
                place=_place(bound),
            )
        # n / 2 is a real, but of an even n it is written as an integer.
        if isinstance(value, float) and value.is_integer() and self.type == "int":
            return str(int(value))
        return text_of(value)

    def _refuse_fraction(self, text: str) -> NoReturn:
        assert isinstance(self.first, Expression)
        raise SpaceError(
            f"the range begins at {self.first.text}, which is {text}, but its stride is an integer",
            place=_place(self.first),
            hint="divide with //, or write a stride with decimals such as 1.0",
        )

    @property
    def size(self) -> int:
        raise self._unbound("size")

    @property
    def ordered(self) -> bool:
        return True

    def text(self, position: int) -> str:  # noqa: ARG002
        raise self._unbound("text")

    def value(self, position: int) -> Value:  # noqa: ARG002
        raise self._unbound("value")

    def position(self, value: Value) -> int:  # noqa: ARG002
        raise self._unbound("position")

    def values(self) -> Column:
        raise self._unbound("list of values")

    def texts(self) -> Sequence[str]:
        raise self._unbound("list of texts")

    def at(self, positions: Column) -> Column:  # noqa: ARG002
        raise self._unbound("value")

    def _unbound(self, what: str) -> SpaceError:
        bounds = " and ".join(bound.text for bound in self.bounds)
        return SpaceError(f"the range has no {what} before its bounds {bounds} are known")


def _place(bound: Expression) -> Place:
    return bound.passage.place(0, len(bound.passage.text))


def _transposed(bounds: Sequence[Column | str], length: int) -> Iterator[tuple[Value, ...]]:
    lists = ([bound] * length if isinstance(bound, str) else bound.tolist() for bound in bounds)
    return zip(*lists, strict=True)


@lru_cache(maxsize=4096)
def _set(geometric: bool, kind: Type, first: str, last: str, stride: str) -> Domain | None:
    step, low, high = number(stride, "stride"), number(first), number(last)
    up = step > 1 if geometric else step > 0
    if geometric and low < 0:
        # A geometric range of negative numbers grows away from zero.
        low, high = -low, -high
    if step and ((high < low) if up else (high > low)):
        return None
    # Bounds repeat from point to point, and a set is made once for each of them (the cache above).
    make = geometric_texts if geometric else arithmetic
    return typed(make(first, last, stride), kind)


Kind = Literal["substitute", "assign", "env", "param"]


@dataclass(frozen=True)
class Parameter:
    """A named set of values, or a named expression that is computed from other parameters."""

    name: str
    domain: Domain | None = None
    kind: Kind = "param"
    unit: str = ""
    default: str | None = None
    """The text that is filled in while the parameter is inactive."""
    when: Expression | None = None
    """A condition; where it is not true, the parameter is inactive and its value is NULL."""
    derived: Expression | None = None
    place: Place | None = None
    words: bool = False
    """Whether commands get its text as words, each quoted by itself, and none where it is empty."""

    def __post_init__(self) -> None:
        if (self.domain is None) == (self.derived is None):
            raise SpaceError(
                f"parameter {self.name!r} needs a set of values, or an expression",
                place=self.place,
                hint="give one of the two",
            )
        if self.derived is not None and self.when is not None:
            raise SpaceError(
                f"the derived parameter {self.name!r} cannot have a WHEN",
                place=self.place,
                hint="write the condition into it: x if condition else y",
            )

    @property
    def needs(self) -> frozenset[str]:
        """The parameters that must be chosen before this one."""
        names = frozenset[str]().union(
            *(expression.names | expression.indexed for expression in self._expressions())
        )
        return names | (self.domain.names if isinstance(self.domain, Dependent) else frozenset())

    def _expressions(self) -> Iterator[Expression]:
        yield from (part for part in (self.when, self.derived) if part is not None)


@dataclass(frozen=True)
class Zip:
    """The parameters *names* vary together: all take the same position in their sets."""

    names: tuple[str, ...]
    place: Place | None = None

    @property
    def text(self) -> str:
        return " == ".join(self.names)


Number = int | float | Decimal
Values = Domain | Iterable[Any] | Number | str
"""What stands for a set: a set, a list of its elements, or its only element."""


def span(first: Number | str, last: Number | str, step: Number | str = 1) -> Domain:
    """Return the numbers from *first* to *last* by *step*; each may be an expression as text.

    >>> span(0.4, 1, 0.2).texts()
    ('0.4', '0.6', '0.8', '1.0')
    """
    low, high, by = _bound(first), _bound(last), _bound(step)
    if isinstance(low, str) and isinstance(high, str) and isinstance(by, str):
        return arithmetic(low, high, by)
    return Dependent(low, high, by)


def geometric(first: Number | str, last: Number | str, factor: Number | str = 2) -> Domain:
    """Return the numbers from *first* to *last*, each *factor* times the one before.

    >>> geometric(128, 1024).texts()
    ('128', '256', '512', '1024')
    """
    low, high, by = _bound(first), _bound(last), _bound(factor)
    if isinstance(low, str) and isinstance(high, str) and isinstance(by, str):
        return geometric_texts(low, high, by)
    return Dependent(low, high, by, geometric=True)


def uniform(low: float, high: float) -> Continuous:
    """Return the reals from *low* to *high*, uniform; for search engines only."""
    return Continuous(float(low), float(high))


def loguniform(low: float, high: float) -> Continuous:
    """Return the reals from *low* to *high*, log-uniform; for search engines only."""
    return Continuous(float(low), float(high), log=True)


def parameter(
    values: Values, *, when: str | Expression | None = None, default: Any = None, unit: str = ""
) -> Parameter:
    """Return a parameter with clauses, as a directive has them; the space sets its name."""
    condition = parse(when) if isinstance(when, str) else when
    text = None if default is None else _text(default)
    return Parameter("", domain_of(values), unit=unit, default=text, when=condition)


def derived(text: str | Expression, *, unit: str = "") -> Parameter:
    """Return a parameter that is computed from others; the space sets its name."""
    expression = parse(text) if isinstance(text, str) else text
    return Parameter("", derived=expression, unit=unit)


def domain_of(values: Values) -> Domain:
    """Return the set that *values* stand for."""
    if isinstance(values, range):
        if not values:
            raise SpaceError("the set is empty", hint=f"{values} has no element")
        return arithmetic(str(values[0]), str(values[-1]), str(values.step))
    # A text is one element, though it is iterable.
    if isinstance(values, str | bool | int | float | Decimal):
        return _listed([values])
    if isinstance(values, set | frozenset):
        raise SpaceError("a Python set has no order", hint="give a list, such as sorted(...)")
    if isinstance(values, Iterable):
        return _listed(values.tolist() if hasattr(values, "tolist") else list(values))
    return values


def _listed(values: Sequence[Any]) -> Elements:
    values = [value.item() if hasattr(value, "dtype") else value for value in values]
    texts = [_text(value) for value in values]
    if any(isinstance(value, str) for value in values):
        return elements(texts, "str")
    return elements(texts, "bool" if all(isinstance(value, bool) for value in values) else None)


def _text(value: Any) -> str:
    """Return the text of *value* in files."""
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
        return text_of(value)
    raise SpaceError(
        f"{value!r} cannot be an element", hint="elements are bools, finite numbers and texts"
    )


def _bound(value: Number | str) -> str | Expression:
    text = _text(value)
    return text if kind_of(text) != "str" else parse(text)
