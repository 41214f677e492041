"""What a function answers, as metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zenturio.errors import InputError
from zenturio.experiment import MetricValue, Missing, Series


def metrics_of(answer: Any) -> dict[str, MetricValue]:
    """Return the metrics in an answer that is not a plain dict."""
    if isinstance(answer, Mapping):
        return {str(name): measure_of(value) for name, value in answer.items()}
    return {"value": measure_of(answer)}


def measure_of(value: Any) -> MetricValue:
    """Return a value as a measure: NumPy's scalars become Python's, lists and arrays a series."""
    if value is None:
        return Missing("the function returned None for it")
    if isinstance(value, Missing | Series):
        return value
    if hasattr(value, "tolist"):  # NumPy
        value = value.tolist()
    if isinstance(value, list | tuple):
        return Series(tuple(None if element is None else _scalar(element) for element in value))
    return _scalar(value)


def _scalar(value: Any) -> bool | int | float | str:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise InputError(
        f"a metric is a number or a text, but the function returned {type(value).__name__}",
        hint="return a dict such as {'gflops': 3.2}",
    )
