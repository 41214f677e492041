"""The order in which the experiments of a study run: in blocks, at random, or sorted.

Whatever disturbs a machine lasts for a while. If the repeats of a point ran one after the other,
a slow minute would look like an effect of its parameters; the same is true of points in the order
of their values. So each *block* runs every point once, in an order drawn at random (R. A. Fisher,
The Design of Experiments, 1935, on randomised blocks).

Points are taken in windows, so that a space need not be counted and all drivers of a study, which
share its seed, go through the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, islice, product
from typing import Literal, TypeVar, get_args

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.experiment import RunPosition
from zenturio.record import Lease, Repository

OrderKind = Literal["blocks", "random", "sorted"]
ORDERS: tuple[OrderKind, ...] = get_args(OrderKind)
WINDOW = 2048
"""Points that are shuffled together, at most."""
PAIRS = 65_536
"""Pairs of a point and a repeat that ``random`` shuffles together, about."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class RunOrder:
    """An order of points and repeats; the same *seed* gives the same order."""

    kind: OrderKind = "sorted"
    seed: str = ""

    @classmethod
    def drawn(
        cls, kind: OrderKind, repository: Repository, lease: Lease, round_: int | None = None
    ) -> RunOrder:
        """Return the order of the newest round of a study: the same one for each driver.

        *round_*: the one that was begun, or taken up, since the *lease* on the study was acquired.
        """
        if kind == "sorted":
            return cls(kind)
        seed = lease.order_seed if round_ is None else ""
        return cls(kind, seed or repository.order_seed(lease.study))

    def arrange(
        self, points: Iterable[Item], repeats: int
    ) -> Iterator[tuple[Item, int, RunPosition]]:
        """Yield each of *points* with each repeat, from 1, and where it stands in the order."""
        source = iter(points)
        for window in count():
            batch = list(islice(source, WINDOW))
            if not batch:
                return
            for at, repeat, position in self.arrange_window(window, len(batch), repeats):
                yield batch[at], repeat, position

    def arrange_window(
        self, window: int, size: int, repeats: int
    ) -> Iterator[tuple[int, int, RunPosition]]:
        """Yield the same of one window, of *size* points by their numbers in it.

        All windows but the last have WINDOW points.
        """
        if self.kind == "sorted":
            places = product(range(size), range(1, repeats + 1))
            for turn, (at, repeat) in enumerate(places, window * WINDOW * repeats + 1):
                yield at, repeat, RunPosition("sorted", 1, turn)
            return
        for first, count_of_repeats in self._blocks(size, repeats):
            # Blocks of later windows go on counting: each has a number of its own.
            block = window * repeats + first
            for turn, place in enumerate(self._shuffled(size * count_of_repeats, block), 1):
                repeat, at = divmod(place, size)
                yield at, first + repeat, RunPosition(self.kind, block, turn)

    def key(self, number: int, repeat: int) -> tuple[float, ...]:
        """Return what sorts experiments that become ready one after the other.

        *number* is that of the point in its space.
        """
        if self.kind == "sorted":
            return number, repeat
        draw = self._draw(repeat, number)
        return (repeat, draw) if self.kind == "blocks" else (draw,)

    def places(self, size: int, block: int) -> list[int]:
        """Return the places 0 to *size* - 1 of a block in their order."""
        return list(range(size)) if self.kind == "sorted" else self._shuffled(size, block)

    def _shuffled(self, size: int, block: int) -> list[int]:
        return sorted(range(size), key=lambda item: self._draw(block, item))

    def _draw(self, block: int, item: int) -> int:
        """Return a number that is drawn by the seed: the same on every machine and version."""
        text = f"{self.seed}/{block}/{item}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    def _blocks(self, points: int, repeats: int) -> Iterator[tuple[int, int]]:
        """Yield the first repeat of each block of a window, and how many it has."""
        size = max(1, PAIRS // points) if self.kind == "random" else 1
        for first in range(1, repeats + 1, size):
            yield first, min(size, repeats + 1 - first)


def choose_order(text: str) -> OrderKind:
    """Return the order that ``--order`` names."""
    for kind in ORDERS:
        if kind == text:
            return kind
    raise InputError(
        f"--order {text}: neither blocks, random nor sorted", hint=did_you_mean(text, ORDERS)
    )
