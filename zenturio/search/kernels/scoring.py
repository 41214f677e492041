"""Many rows of genes evaluated in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64, njit, types

_SCORE = types.FunctionType(float64(int64[::1]))


@njit(float64[::1](_SCORE, float64, int64[:, ::1]), cache=True)
def score_all(score: Any, sign: Any, genes: Any) -> Any:
    """The loss of each row: its score times *sign*; infinite where that is no number."""
    losses = np.empty(len(genes))
    for i in range(len(genes)):
        loss = sign * score(genes[i])
        losses[i] = loss if np.isfinite(loss) else np.inf
    return losses
