"""Sets of concatenated texts, such as ``node{1:2}-{a,b}``; large ones are not listed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from zenturio.errors import SpaceError
from zenturio.expression import Type, Value, text_of
from zenturio.space.domain import (
    ArithmeticRange,
    Column,
    Domain,
    Elements,
    Texts,
    column,
    elements,
    kind_of,
    read,
    shared_type,
)

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
    shapes = [(part,) if isinstance(part, str) else _shapes(part) for part in parts]
    if math.prod(map(len, shapes)) > _SHAPES:
        return "str"
    return shared_type(kind_of("".join(texts)) for texts in product(*shapes))


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
        return tuple({re.sub("[0-9]+", "1", text) for text in ends})
    return tuple({re.sub("[0-9]+", "1", text) for text in domain.texts()})
