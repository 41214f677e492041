"""The shapes of regressions: how each is fitted, what it predicts, how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from zenturio.expression import quoted
from zenturio.query.terms import Columns, Factor, Term, term_formula, term_values

Kind = Literal[
    "constant", "linear", "polynomial", "logarithmic", "exponential", "power", "performance"
]


class FormulaShape(Protocol):
    """A family of functions with coefficients that are still free."""

    @property
    def kind(self) -> Kind: ...
    @property
    def size(self) -> int:
        """How many coefficients there are."""
        ...

    def solve(self, columns: Columns, y: np.ndarray, root: np.ndarray) -> np.ndarray | None:
        """Coefficients of least weighted squares (*root*: square roots of the weights).

        None where the data cannot determine them.
        """
        ...

    def slopes(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        """The derivatives by the coefficients, a column for each."""
        ...

    def values(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray: ...
    def scaled(self, coefficients: np.ndarray, factor: float) -> np.ndarray:
        """The coefficients whose values are *factor* times as large."""
        ...

    def formula(self, coefficients: Sequence[str]) -> str: ...


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _least_squares(matrix: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The solution of a well determined system; columns are scaled, for they differ by powers."""
    if not np.isfinite(matrix).all():
        return None
    scale = np.abs(matrix).max(axis=0)
    if not scale.all():
        return None
    solution, _, rank, _ = np.linalg.lstsq(matrix / scale, y, rcond=1e-11)
    return None if rank < matrix.shape[1] else solution / scale


@dataclass(frozen=True)
class SumShape:
    """``a + b * term + c * term + ...``: linear in its coefficients."""

    kind: Kind
    terms: tuple[Term, ...]

    @property
    def size(self) -> int:
        return len(self.terms)

    def slopes(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:  # noqa: ARG002
        length = _length(columns)
        return np.column_stack([term_values(term, columns, length) for term in self.terms])

    def solve(self, columns: Columns, y: np.ndarray, root: np.ndarray) -> np.ndarray | None:
        matrix = self.slopes(columns, np.empty(0))
        return _least_squares(matrix * root[:, None], y * root)

    def values(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        values: np.ndarray = self.slopes(columns, coefficients) @ coefficients
        return values

    def scaled(self, coefficients: np.ndarray, factor: float) -> np.ndarray:
        return coefficients * factor

    def formula(self, coefficients: Sequence[str]) -> str:
        text = ""
        for coefficient, term in zip(coefficients, self.terms, strict=True):
            if coefficient == "0":
                continue
            sign, size = ("-", coefficient[1:]) if coefficient[0] == "-" else ("+", coefficient)
            product = term_formula(term)
            part = " * ".join(p for p in (size, product) if p and not (p == "1" and product))
            text += f" {sign} {part}" if text else part if sign == "+" else f"-{part}"
        return text or "0"


@dataclass(frozen=True)
class GrowthShape:
    """``a * exp(b * x)`` or ``a * x ** b``, with a factor for each x."""

    kind: Literal["exponential", "power"]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.names) + 1

    @cached_property
    def _exponent(self) -> SumShape:
        """The logarithm of the shape, without its first coefficient: linear in the others."""
        power, logs = (Fraction(0), 1) if self.kind == "power" else (Fraction(1), 0)
        return SumShape(
            self.kind, tuple((Factor(n, power, logs, natural=True),) for n in self.names)
        )

    def values(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            grown = np.exp(self._exponent.values(columns, coefficients[1:]))
            values: np.ndarray = coefficients[0] * grown
        return values

    def slopes(self, columns: Columns, coefficients: np.ndarray) -> np.ndarray:
        values = self.values(columns, coefficients)[:, None]
        inner = self._exponent.slopes(columns, coefficients)
        return np.hstack([values / coefficients[0], values * inner])

    def solve(self, columns: Columns, y: np.ndarray, root: np.ndarray) -> np.ndarray | None:
        """Begins with the logarithms, then goes downhill on the squares themselves."""
        sign = np.sign(y[0])
        if sign == 0 or not (y * sign > 0).all():
            return None
        inner = self._exponent.slopes(columns, np.empty(0))
        matrix = np.column_stack([np.ones(len(y)), inner])
        # A deviation of log(y) is one of y in units of y: the weight that keeps it comparable.
        weight = root * np.abs(y)
        start = _least_squares(matrix * weight[:, None], np.log(y * sign) * weight)
        if start is None:
            return None
        start[0] = sign * np.exp(start[0])
        return self._descend(columns, y, root, start)

    def _descend(
        self, columns: Columns, y: np.ndarray, root: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        """Gauss-Newton; a step that does not go down is halved."""

        def cost(coefficients: np.ndarray) -> float:
            off = (y - self.values(columns, coefficients)) * root
            return float(off @ off) if np.isfinite(off).all() else np.inf

        best, least = start, cost(start)
        for _ in range(50):
            off = (y - self.values(columns, best)) * root
            step = _least_squares(self.slopes(columns, best) * root[:, None], off)
            while step is not None and (found := cost(best + step)) >= least:
                step = step / 2 if (np.abs(step) > 1e-12 * np.abs(best)).any() else None
            if step is None:
                break
            gain, best, least = least - found, best + step, found
            if gain <= 1e-14 * least:
                break
        return best

    def scaled(self, coefficients: np.ndarray, factor: float) -> np.ndarray:
        return np.concatenate([coefficients[:1] * factor, coefficients[1:]])

    def formula(self, coefficients: Sequence[str]) -> str:
        first, rest = coefficients[0], zip(coefficients[1:], self.names, strict=True)
        if self.kind == "power":
            return " * ".join([first, *(f"{quoted(name)} ** {b}" for b, name in rest)])
        inner = SumShape(self.kind, self._exponent.terms).formula(coefficients[1:])
        return f"{first} * exp({inner})"
