"""How long a moldable task takes on so many nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError


@dataclass(frozen=True)
class ScalingCurve:
    """Seconds measured on some numbers of nodes; between them, interpolated.

    Straight in the logarithms, for scaling is a matter of ratios. What was not measured beyond
    the last number is not possible, nor below the first.
    """

    nodes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.nodes, self.nodes[1:], strict=False))
        if not self.nodes or len(self.nodes) != len(self.seconds) or not rising:
            raise InputError(
                "a scaling curve has a number of seconds for each number of nodes, rising from 1 on"
            )
        if self.nodes[0] < 1 or not all(0 < each < float("inf") for each in self.seconds):
            raise InputError("a scaling curve has at least one node, and times above 0")

    def table(self, most: int) -> NDArray[np.float64]:
        """Seconds on 0 to *most* nodes; infinite where it cannot run."""
        found = np.full(most + 1, np.inf)
        first, last = self.nodes[0], min(self.nodes[-1], most)
        counts = np.arange(first, last + 1)
        logs = np.interp(np.log(counts), np.log(self.nodes), np.log(self.seconds))
        found[first : last + 1] = np.exp(logs)
        for count, seconds in zip(self.nodes, self.seconds, strict=True):
            if count <= most:
                found[count] = seconds
        return found
