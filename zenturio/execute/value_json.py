"""Values and measures as JSON: numbers of any size, odd text, series, and why one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zenturio.execute.json_checks import (
    Check,
    any_text,
    first_of,
    list_of,
    matching,
    mismatch,
    record,
)
from zenturio.experiment import Missing, Series

_EXACT_LIMIT = 2**63
"""Whole numbers beyond are written in hexadecimal: JSON's readers limit the digits."""


def value_to_json(value: Any) -> Any:
    """A value or a measure as JSON has it."""
    kind = type(value)
    # json reads long integers slowly, and limits their digits; hexadecimal has neither problem.
    if kind is int and not -_EXACT_LIMIT < value < _EXACT_LIMIT:
        return {"int": hex(value)}
    if kind is Missing:
        return {"missing": value.why}
    if kind is Series:
        return {"series": [value_to_json(element) for element in value.values]}
    return value


def _plain(value: Any, where: str) -> None:
    if isinstance(value, list | dict):
        raise mismatch(value, where, "a number, a text, true, false or null")


_HEX = matching("-?0x[0-9a-f]+", "a number in hexadecimal")
_BIG = record({"int": _HEX})
_VALUE: Check = first_of(_plain, _BIG)
_MISSING = record({"missing": any_text(2**16)})
_SERIES = record({"series": list_of(_VALUE, 2**24)})
_MEASURE: Mapping[str, Check] = {"int": _BIG, "missing": _MISSING, "series": _SERIES}


def check_value(value: Any, where: str) -> None:
    """MalformedError where *value* was not made by ``noted`` of a value."""
    if type(value) is dict:
        _BIG(value, where)
    else:
        _plain(value, where)


def check_measure(value: Any, where: str) -> None:
    """MalformedError where *value* was not made by ``noted``."""
    if type(value) is not dict:
        _plain(value, where)
    elif len(value) == 1 and (kind := next(iter(value))) in _MEASURE:
        _MEASURE[kind](value, where)
    else:
        raise mismatch(value, where, "a measure")


def values_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of them by name."""
    return {name: value_to_json(value) for name, value in values.items()}


def value_from_json(value: Any) -> Any:
    """Return what was noted."""
    if type(value) is not dict:
        return value
    ((kind, content),) = value.items()
    if kind == "int":
        return int(content, 16)
    if kind == "missing":
        return Missing(content)
    return Series(tuple(value_from_json(element) for element in content))
