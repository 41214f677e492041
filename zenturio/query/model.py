"""A fitted formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenturio.query.points import Noise
from zenturio.query.shapes import FormulaShape, Kind


@dataclass(frozen=True)
class Model:
    """A fitted formula, and how good it is."""

    kind: Kind
    y: str
    x: tuple[str, ...]
    """The columns that the formula names."""
    formula: str
    """In the expression language; no more digits than the data are worth."""
    r2: float
    """The share of the variance of all rows that the formula explains."""
    error: float
    """Root mean square of what is missed at points that were left out one at a time."""
    rows: int
    points: int
    """Distinct points among the rows."""
    noise: Noise
    shape: FormulaShape
    coefficients: tuple[float, ...]

    def predict(self, columns: Mapping[str, Any]) -> np.ndarray:
        """The formula's value on each row; NaN where it has none."""
        x = {name: np.asarray(column, dtype=float) for name, column in columns.items()
             if name in self.x}  # fmt: skip
        if not self.x:
            x = {"": np.zeros(len(next(iter(columns.values()))))}
        values = self.shape.values(x, np.array(self.coefficients))
        return np.where(np.isfinite(values), values, np.nan)

    def __str__(self) -> str:
        return (
            f"{self.y} = {self.formula}   ({self.kind}, R2 {self.r2:.4f}, "
            f"left-out error {self.error:.4g}, {self.rows} rows at {self.points} points)"
        )
