"""Values and measures as JSON: numbers of any size, odd text, series, and why one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zenturio.experiment import Missing, Series

_EXACT = 2**63
"""Whole numbers beyond are written in hexadecimal: JSON's readers limit the digits."""


def noted(value: Any) -> Any:
    """A value or a measure as JSON has it."""
    kind = type(value)
    if kind is int and not -_EXACT < value < _EXACT:
        return {"int": hex(value)}
    if kind is Missing:
        return {"missing": value.why}
    if kind is Series:
        return {"series": [noted(each) for each in value.values]}
    return value


def noted_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """All of them by name."""
    return {name: noted(value) for name, value in values.items()}


def read_noted(told: Any) -> Any:
    """What was noted."""
    if type(told) is not dict:
        return told
    ((kind, what),) = told.items()
    if kind == "int":
        return int(what, 16)
    if kind == "missing":
        return Missing(what)
    return Series(tuple(read_noted(each) for each in what))
