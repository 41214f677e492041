"""A trie of valid combinations of genes, for repairing rows to the nearest one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]


class Trie:
    """Rows of numbers in lexicographic order, one level for each column with a choice.

    A level holds its nodes as sorted keys: the index of the parent times the level's size, plus the
    node's own value. Many rows descend at once, with one binary search for each level.
    """

    def __init__(self, columns: Sequence[Ints], length: int) -> None:
        self._keys: list[Ints] = []
        nodes = np.zeros(length, dtype=np.int64)
        sizes, levels = [], []
        for level, column in enumerate(columns):
            size = int(column.max()) + 1
            keys = nodes * size + column
            new = np.ones(length, dtype=np.bool_)
            new[1:] = keys[1:] != keys[:-1]
            below = np.cumsum(new) - 1
            if below[-1] == nodes[-1]:
                continue  # each node has a single child: no choice
            self._keys.append(keys[new])
            sizes.append(size)
            levels.append(level)
            nodes = below
        self.sizes = tuple(sizes)
        self.levels = tuple(levels)
        """The columns whose value is not determined by the columns before them."""

    def rows(self, targets: Ints) -> Ints:
        """Return the index of the row nearest to each of *targets*.

        Nearest in the first column, then in the next; the smaller value of two equally near.
        """
        nodes = np.zeros(len(targets), dtype=np.int64)
        for keys, size, target in zip(self._keys, self.sizes, targets.T, strict=True):
            base = nodes * size
            target_keys = base + np.clip(target, 0, size - 1)
            right = np.searchsorted(keys, target_keys)
            left = np.maximum(right - 1, 0)
            right = np.minimum(right, len(keys) - 1)
            far = np.abs(keys[right] - target_keys)
            near = np.abs(keys[left] - target_keys)
            far[(keys[right] < base) | (keys[right] >= base + size)] = size
            near[(keys[left] < base) | (keys[left] >= base + size)] = size
            nodes = np.where(near <= far, left, right)
        return nodes
