"""How much an answer to somebody's own SQL may be, and what is said when it is more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from zenturio.errors import SafetyError


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """How much an answer may be."""

    rows: int = 10_000
    """What comes behind them is cut off, and that is said."""
    size: int = 64 * 1024 * 1024
    """Bytes; a larger answer is refused."""
    seconds: float = 10.0


def collect_rows(rows: Iterable[tuple[Any, ...]], limits: QueryLimits) -> list[tuple[Any, ...]]:
    """Rows up to one more than the limit; SafetyError once they are too large."""
    found: list[tuple[Any, ...]] = []
    left = limits.size
    for row in rows:
        left -= sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
        if left < 0:
            raise too_large_error(limits)
        found.append(tuple(map(_plain, row)))
        if len(found) > limits.rows:
            break
    return found


def _plain(value: Any) -> Any:
    """A value that can be shown and written as JSON: bytes as digits, dates as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def too_large_error(limits: QueryLimits) -> SafetyError:
    return SafetyError(
        f"the answer is larger than {limits.size / 1e6:.0f} MB",
        hint="ask for fewer columns or rows: … LIMIT 1000",
    )


def too_slow_error(limits: QueryLimits) -> SafetyError:
    return SafetyError(
        f"the query was stopped after {limits.seconds:g} seconds",
        hint="ask for less: a condition, fewer joins",
    )


def denied_error(said: str) -> SafetyError:
    return SafetyError(f"refused: {said}", hint="one SELECT that reads tables and views is allowed")
