"""Numbers of nodes as rows of genes, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from zenturio.schedule.cluster import Counts
from zenturio.schedule.moldable import MoldableProblem
from zenturio.space import Space


@dataclass(frozen=True, eq=False)
class NodeChoices:
    """For each task the numbers of nodes that it may get, and rows of genes that choose them."""

    problem: MoldableProblem
    kind: Literal["possible", "lean"] = "possible"

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """By row of the problem's ``seconds``."""
        return self.problem.possible if self.kind == "possible" else self.problem.lean

    @cached_property
    def space(self) -> Space:
        sets = [counts.tolist() for counts in self.counts]
        return Space(**{f"t{i}": sets[row] for i, row in enumerate(self.problem.row)})

    @cached_property
    def table(self) -> Counts:
        """The same, one row as long as the other."""
        found = np.zeros((len(self.counts), max(map(len, self.counts), default=1)), np.int64)
        for counts, into in zip(self.counts, found, strict=True):
            into[: len(counts)] = counts
        return found

    @cached_property
    def sizes(self) -> Counts:
        return np.array([len(counts) for counts in self.counts], np.int64)

    def of(self, genes: Counts) -> Counts:
        """The numbers of nodes that rows of *genes* stand for."""
        found: Counts = self.table[self.problem.row, genes]
        return found

    def genes(self, counts: Counts) -> Counts:
        """The genes of the nearest numbers of nodes not above *counts*, or the smallest."""
        found = [
            max(np.searchsorted(self.counts[row], count, side="right") - 1, 0)
            for row, count in zip(self.problem.row, counts, strict=True)
        ]
        return np.array(found, np.int64)
