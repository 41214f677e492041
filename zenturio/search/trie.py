"""The valid combinations of some genes as a tree: which of them is nearest to a wish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]


class Trie:
    """Rows of numbers in lexicographic order, one level for each column that is not settled.

    A level holds its nodes as sorted keys: the number of the node above times the level's size,
    plus the node's own number. Many rows descend at once, with one binary search for each level.
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
                continue  # no node has two below it
            self._keys.append(keys[new])
            sizes.append(size)
            levels.append(level)
            nodes = below
        self.sizes = tuple(sizes)
        self.levels = tuple(levels)
        """The columns that are not settled by those before them."""

    def rows(self, wishes: Ints) -> Ints:
        """The row nearest to each of *wishes*: as near as can be in the first column, then in
        the next; of two that are as near, the smaller.
        """
        nodes = np.zeros(len(wishes), dtype=np.int64)
        for keys, size, wish in zip(self._keys, self.sizes, wishes.T, strict=True):
            base = nodes * size
            wished = base + np.clip(wish, 0, size - 1)
            right = np.searchsorted(keys, wished)
            left = np.maximum(right - 1, 0)
            right = np.minimum(right, len(keys) - 1)
            far = np.abs(keys[right] - wished)
            near = np.abs(keys[left] - wished)
            far[(keys[right] < base) | (keys[right] >= base + size)] = size
            near[(keys[left] < base) | (keys[left] >= base + size)] = size
            nodes = np.where(near <= far, left, right)
        return nodes
