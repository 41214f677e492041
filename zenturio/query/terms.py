"""Terms of a performance model: products of ``x ** (i/k) * log2(x) ** j``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from zenturio.expression import quoted

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Factor:
    """``name ** power * log(name) ** logs``; the logarithm is binary, or natural."""

    name: str
    power: Fraction = Fraction(1)
    logs: int = 0
    natural: bool = False

    def values(self, columns: Columns) -> np.ndarray:
        """The factor on each row; NaN or infinite where it is not defined."""
        x = columns[self.name]
        with np.errstate(all="ignore"):
            values = x ** float(self.power) if self.power else np.ones(len(x))
            if self.logs:
                values = values * (np.log(x) if self.natural else np.log2(x)) ** self.logs
        return values

    @property
    def formula(self) -> str:
        """The factor in the expression language."""
        name, parts = quoted(self.name), []
        if self.power == 1:
            parts.append(name)
        elif self.power.denominator == 1 and self.power:
            parts.append(f"{name} ** {self.power}")
        elif self.power:
            parts.append(f"{name} ** ({self.power.numerator} / {self.power.denominator})")
        if self.logs:
            logarithm = f"{'log' if self.natural else 'log2'}({name})"
            parts.append(logarithm if self.logs == 1 else f"{logarithm} ** {self.logs}")
        return " * ".join(parts)


Term = tuple[Factor, ...]
"""A product of factors; without factors it is the constant 1."""


def term_values(term: Term, columns: Columns, length: int) -> np.ndarray:
    """The product on each row."""
    product = np.ones(length)
    for factor in term:
        product = product * factor.values(columns)
    return product


def term_formula(term: Term) -> str:
    """The product in the expression language; empty for the constant."""
    return " * ".join(factor.formula for factor in term)


def _exponents() -> tuple[tuple[Fraction, int], ...]:
    """Powers and logarithms of the normal form.

    The positive ones are the usual set of Extra-P (Calotoiu et al., SC 2013; its successors' list);
    the negative ones are for strong scaling, where a time falls with the number of processors.
    """
    by_logs = {
        (0, 1, 2): "1/4 1/3 1/2 2/3 3/4 1 3/2 2 5/2",
        (0, 1): "5/4 4/3 3 -1/2 -1 -2",
        (0,): "4/5 5/3 7/4 9/4 7/3 8/3 11/4 -1/3 -2/3 -3",
        (1, 2): "0",
    }
    return tuple(
        (Fraction(power), log)
        for logs, powers in by_logs.items()
        for power in powers.split()
        for log in logs
    )


EXPONENTS = _exponents()


def factors_of(name: str) -> tuple[Factor, ...]:
    """Every factor that *name* can have in a performance model."""
    return tuple(Factor(name, power, logs) for power, logs in EXPONENTS)
