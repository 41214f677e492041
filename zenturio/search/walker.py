"""Searches written as generators: they yield rows of genes, and are sent what these are worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from zenturio.errors import SpaceError
from zenturio.search.factors import Ints
from zenturio.search.genome import Genome
from zenturio.search.objective import Losses, Trial
from zenturio.search.search import Task
from zenturio.search.settings import NoSettings
from zenturio.space import Point

Reals = np.ndarray[Any, np.dtype[np.float64]]

Walk = Generator[Ints, Reals, None]
"""Yields rows of valid genes; is sent a row of losses for each, the lower the better."""

LOST = 1000
"""After so many batches in which nothing is new, a walk is over."""


class Walker(ABC):
    """A search whose engine writes no more than its walk.

    What the walk yields is asked for once: what it yields again is remembered. It goes on when
    all that it yielded has been tried, so it names the same points whenever it is told.
    """

    Settings: ClassVar[type[Any]] = NoSettings
    steady = True
    blind: ClassVar[bool] = False
    """Whether the walk does not mind what it is sent: then it never waits."""

    def __init__(self, task: Task, settings: Any) -> None:
        self.task = task
        self.settings = settings
        self.genome = Genome(task.space, task.seed)
        self.rng = np.random.default_rng(task.seed)
        self.known: dict[bytes, Losses] = {}
        """What each row of genes that was tried is worth."""
        self._walk: Walk | None = None
        self._rows: list[bytes] = []
        """The batch that was yielded last; each row as bytes."""
        self._open: deque[tuple[Point, bytes]] = deque()
        self._away: dict[int, tuple[Point, bytes]] = {}
        self._over = False
        self._asked = 0

    @abstractmethod
    def walk(self) -> Walk:
        """The search itself."""
        ...

    def ask(self, limit: int) -> Sequence[Point]:
        asked: list[Point] = []
        while len(asked) < limit:
            if not self._open and (self.blind or not self._away):
                self._advance()
            if not self._open:
                break
            point, row = self._open.popleft()
            self._away[id(point)] = point, row
            asked.append(point)
        return asked

    def tell(self, trials: Iterable[Trial]) -> None:
        losses = self.task.goals.losses
        for trial in trials:
            point, row = self._away.pop(id(trial.point), (None, b""))
            if point is None:
                row = self._row(trial.point)
            self.known[row] = losses(trial.scores)

    def _row(self, point: Point) -> bytes:
        """The row of a point that was asked for as another object, or by another search."""
        for key, (asked, row) in self._away.items():
            if asked == point:
                del self._away[key]
                return row
        try:
            return self.genome.row(point).tobytes()
        except SpaceError:
            return b""  # no point of ours

    def unseen(self, genes: Ints) -> Ints:
        """Those of the rows that were not tried."""
        new = [row.tobytes() not in self.known for row in genes]
        return genes[np.array(new, dtype=np.bool_)]

    def _advance(self) -> None:
        """Walk on until there is something to be tried, or the walk is over."""
        for _ in range(LOST):
            if self._over or self._exhausted:
                return
            genes = self._next()
            if genes is None:
                self._over = True
                return
            self._offer(np.ascontiguousarray(genes, dtype=np.int64))
            if self._open:
                return
        self._over = True

    @property
    def _exhausted(self) -> bool:
        count = self.genome.count
        return not self.task.again and count is not None and len(self.known) >= count

    def _next(self) -> Ints | None:
        """What the walk yields when it is sent what the last batch is worth."""
        try:
            if self._walk is None:
                self._walk = self.walk() if self.genome.length else _only()
                return next(self._walk)
            if self.blind:
                return next(self._walk)
            worth = [self.known[row] for row in self._rows]
            return self._walk.send(np.array(worth, dtype=np.float64).reshape(len(worth), -1))
        except StopIteration:
            return None

    def _offer(self, genes: Ints) -> None:
        rows = _bytes(genes)
        if self.task.again:
            rows = [row + (self._asked + at).to_bytes(8, "big") for at, row in enumerate(rows)]
            self._asked += len(rows)
        new: dict[bytes, int] = {}
        for at, row in enumerate(rows):
            if row not in self.known and row not in new:
                new[row] = at
        self._rows = rows
        if self.blind:
            self.known |= dict.fromkeys(new, self.task.goals.worst)
        if new:
            fresh = genes if len(new) == len(rows) else genes[list(new.values())]
            self._open.extend(zip(self.genome.points(fresh), new, strict=True))


def _only() -> Walk:
    """The only point of a space in which there is nothing to choose."""
    yield np.zeros((1, 0), dtype=np.int64)


def _bytes(genes: Ints) -> list[bytes]:
    """Each row as bytes."""
    length, width = genes.shape
    if not width:
        return [b""] * length
    whole: list[bytes] = genes.view(f"V{8 * width}").ravel().tolist()
    return whole
