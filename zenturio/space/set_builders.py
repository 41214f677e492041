"""Functions that make sets and parameters in Python programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from zenturio.errors import SpaceError
from zenturio.expression import Expression, parse, text_of
from zenturio.space.continuous import Continuous
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Domain, Elements, elements, kind_of
from zenturio.space.parameter import Parameter
from zenturio.space.ranges import arithmetic, geometric_texts

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
