"""Continuous sets: all reals between two bounds, for search engines only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from zenturio.errors import SpaceError
from zenturio.expression import Type, Value, text_of
from zenturio.space.domain import Column, fit


@dataclass(frozen=True)
class Continuous:
    """The reals from *low* to *high*, uniform or log-uniform.

    A position in it is the number itself.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise SpaceError("the bounds of a continuous set are finite numbers")
        if self.low >= self.high:
            raise SpaceError(
                f"the lower bound {self.low:g} is not below the upper bound {self.high:g}",
                hint="swap the bounds",
            )
        if self.log and self.low <= 0:
            raise SpaceError(f"LOGUNIFORM cannot begin at {self.low:g}", hint="use positive bounds")

    def __str__(self) -> str:
        """Return the set in the syntax of directives."""
        name = "LOGUNIFORM" if self.log else "UNIFORM"
        return f"{name}({text_of(self.low)}, {text_of(self.high)})"

    @property
    def type(self) -> Type:
        return "real"

    @property
    def size(self) -> int:
        raise SpaceError(
            f"a continuous set, from {self.low:g} to {self.high:g}, has no size",
            hint="sample it, use a search engine, or take n points of it with LIN or LOG",
        )

    @property
    def ordered(self) -> bool:
        return True

    def text(self, position: float) -> str:
        return text_of(position)

    def value(self, position: float) -> Value:
        return position

    def position(self, value: Value) -> float:
        fitted = fit(value, "real")
        if isinstance(fitted, float) and self.low <= fitted <= self.high:
            return fitted
        raise SpaceError(
            f"{text_of(value)!r} is not in the set",
            hint=f"it goes from {self.low:g} to {self.high:g}",
        )

    def values(self) -> Column:
        raise SpaceError(f"the values from {self.low:g} to {self.high:g} cannot be listed")

    def texts(self) -> Sequence[str]:
        raise SpaceError(f"the numbers from {self.low:g} to {self.high:g} cannot be listed")

    def at(self, positions: Column) -> Column:
        return positions

    def draw(self, rng: random.Random) -> float:
        """Draw a random number of the set."""
        if not self.log:
            return rng.uniform(self.low, self.high)
        # exp(log(x)) may be a little outside of the bounds.
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, self.low), self.high)
