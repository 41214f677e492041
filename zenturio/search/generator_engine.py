"""Engines written as generators, which yield rows of genes and are sent their losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from zenturio.errors import SpaceError
from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.genome import Genome
from zenturio.search.objective import Losses, Trial
from zenturio.settings.schema import NoSettings
from zenturio.space import Point

Reals = np.ndarray[Any, np.dtype[np.float64]]

SearchGenerator = Generator[Ints, Reals, None]
"""Yields a batch of valid rows of genes, and is sent the losses of each row."""

ROWS_PER_SLOT = 4
"""Rows under way for each slot, most of them behind one that takes long: then slots are as busy as
with random points to 95 percent, for durations whose logarithm varies by 0.8."""
SLOTS_PER_SPARE = 8
"""Where scores count as they arrive, one point more than slots is pending for so many slots: it
runs while the next one is proposed."""

MAX_STALE_BATCHES = 1000
"""A search is over after this many batches without a new row."""


def lag_for(problem: SearchProblem) -> int:
    """Return the lag with which the slots of *problem* stay busy; 0 for a single one."""
    slots, budget = problem.slots or 1, problem.budget
    ahead = 1 if problem.slots == 1 else ROWS_PER_SLOT * slots
    if problem.slots is not None and slots > 1 and not problem.ordered:
        ahead = slots + -(-slots // SLOTS_PER_SPARE)
    # With more slots than the budget has use for, half of it would be spent on ignorance.
    return (ahead if budget is None else min(ahead, max(slots, budget // 2))) - 1


class GeneratorEngine(ABC):
    """Turns the generator ``walk`` into an ask-and-tell search.

    Each row that the generator yields is evaluated once; for a row that it yields again, it is sent
    the same losses. The generator continues when its whole batch was evaluated, so it proposes the
    same points whatever the order of the answers.

    A generator with a ``lag`` continues earlier: as soon as no more than ``lag`` of the rows that
    it yielded lack losses that it may see. It sees losses in the order of its rows, and only those
    of all but its last ``lag`` rows, even if later ones are known: so it proposes the same points
    whatever the order of the answers, too. It reads ``evaluated`` and ``unanswered``, and is sent
    nothing. If the problem is not ``ordered``, it sees losses in the order of arrival instead, of
    all but ``lag`` rows: its points depend on that order, and on no moment.
    """

    Settings: ClassVar[type[Any]] = NoSettings
    order_independent = True
    reads_evaluated: ClassVar[bool] = False
    """Whether the generator reads ``evaluated``, besides the losses that it is sent."""
    ignores_results: ClassVar[bool] = False
    """Whether the generator ignores losses: then it never waits for them."""
    lag: int = 0
    """How many of the rows that it yielded last the generator does without the losses of."""

    def __init__(self, problem: SearchProblem, settings: Any) -> None:
        self.problem = problem
        self.settings = settings
        self.genome = Genome(problem.space, problem.seed)
        self.rng = np.random.default_rng(problem.seed)
        self.evaluated: dict[bytes, Losses] = {}
        """The losses of each evaluated row of genes."""
        self.unanswered: dict[bytes, Losses | None] = {}
        """With a lag: the rows whose losses the generator does not see yet, the earliest first."""
        self._arrived: deque[bytes] = deque()
        """With a lag and without an order: answered rows that the generator does not see yet."""
        self._walk: SearchGenerator | None = None
        self._rows: list[bytes] = []
        """The last batch, each row as bytes."""
        self._queue: deque[tuple[Point, bytes]] = deque()
        self._pending: dict[int, tuple[Point, bytes]] = {}
        self._over = False
        self._repeat_count = 0

    @abstractmethod
    def walk(self) -> SearchGenerator:
        """Yield batches of rows of genes; each ``yield`` returns their losses."""
        ...

    def ask(self, limit: int) -> Sequence[Point]:
        points: list[Point] = []
        while len(points) < limit:
            # The generator continues only when its whole batch was told, so the order of answers
            # cannot matter.
            if not self._queue and self._may_continue():
                self._advance()
            if not self._queue:
                break
            point, row = self._queue.popleft()
            # By identity, which is faster than hashing all values; no other object can take this
            # id while the point is held here.
            self._pending[id(point)] = point, row
            points.append(point)
        return points

    def tell(self, trials: Iterable[Trial]) -> None:
        losses = self.problem.directions.losses
        for trial in trials:
            point, row = self._pending.pop(id(trial.point), (None, b""))
            if point is None:
                row = self._row(trial.point)
            if row in self.unanswered:
                if self.unanswered[row] is None:
                    self._arrived.append(row)
                self.unanswered[row] = losses(trial.scores)
            else:
                self.evaluated[row] = losses(trial.scores)

    def observe(self, genes: Ints, losses: Reals) -> None:
        """Record the *losses* of rows that were evaluated without ``ask`` and ``tell``."""
        # A search of millions of evaluations keeps no row that nobody reads.
        if self.reads_evaluated:
            pairs = zip(_bytes(np.ascontiguousarray(genes)), losses.tolist(), strict=True)
            self.evaluated.update((row, (loss,)) for row, loss in pairs)

    def _may_continue(self) -> bool:
        """Return whether the generator has the losses that it continues with."""
        if self.ignores_results:
            return True
        if not self.lag:
            return not self._pending
        while len(self.unanswered) > self.lag:
            row = self._next_answered()
            losses = None if row is None else self.unanswered[row]
            if row is None or losses is None:
                return False
            del self.unanswered[row]
            self.evaluated[row] = losses
        return True

    def _next_answered(self) -> bytes | None:
        """Return the row whose losses the generator sees next; None where no row is answered."""
        if self.problem.ordered:
            return next(iter(self.unanswered))
        return self._arrived.popleft() if self._arrived else None

    def _row(self, point: Point) -> bytes:
        """Return the row of a point that was not told under the object that was proposed."""
        for key, (pending, row) in self._pending.items():
            if pending == point:
                del self._pending[key]
                return row
        try:
            return self.genome.row(point).tobytes()
        except SpaceError:
            return b""  # not a point of this space

    def start_rows(self, rng: np.random.Generator, count: int) -> Ints:
        """Return *count* random rows to start from, and the best row that was known before."""
        rows = self.genome.scatter(rng, count)
        if self._rows:  # later starts lead elsewhere
            return rows
        best = min(
            (row for row in self.evaluated if row), key=self.evaluated.__getitem__, default=b""
        )
        return np.concatenate([rows, self.rows_of([best] if best else [])])

    def unseen(self, genes: Ints) -> Ints:
        """Return the rows that were not proposed."""
        new = [
            row not in self.evaluated and row not in self.unanswered
            for row in map(np.ndarray.tobytes, genes)
        ]
        return genes[np.array(new, dtype=np.bool_)]

    def rows_of(self, keys: Iterable[bytes]) -> Ints:
        """Return the rows of genes that are keys of ``evaluated`` or ``unanswered``."""
        width = 8 * self.genome.length
        if not width:  # a space of one point: rows without genes
            return np.empty((len(list(keys)), 0), dtype=np.int64)
        # Behind its genes a repeated row has a number; a point of another space is an empty row.
        rows = np.frombuffer(b"".join(key[:width] for key in keys), dtype=np.int64)
        return rows.reshape(-1, self.genome.length)

    def _advance(self) -> None:
        """Continue the generator until there is a new row to evaluate, or it is over."""
        for _ in range(MAX_STALE_BATCHES):
            if self._over or self._exhausted:
                return
            genes = self._next()
            if genes is None:
                self._over = True
                return
            self._offer(np.ascontiguousarray(genes, dtype=np.int64))
            if self._queue:
                return
        self._over = True

    @property
    def _exhausted(self) -> bool:
        count, proposed = self.genome.count, len(self.evaluated) + len(self.unanswered)
        return not self.problem.allow_repeats and count is not None and proposed >= count

    def _next(self) -> Ints | None:
        """Send the losses of the last batch, and return the next one; None at the end."""
        try:
            if self._walk is None:
                self._walk = self.walk() if self.genome.length else _single_point()
                return next(self._walk)
            if self.ignores_results or self.lag:
                return next(self._walk)
            losses = [self.evaluated[row] for row in self._rows]
            return self._walk.send(np.array(losses, dtype=np.float64).reshape(len(losses), -1))
        except StopIteration:
            return None

    def _offer(self, genes: Ints) -> None:
        rows = _bytes(genes)
        if self.problem.allow_repeats:
            # A running number behind the genes makes each repeat a row of its own.
            rows = [
                row + (self._repeat_count + at).to_bytes(8, "big") for at, row in enumerate(rows)
            ]
            self._repeat_count += len(rows)
        new: dict[bytes, int] = {}
        for at, row in enumerate(rows):
            if row not in self.evaluated and row not in self.unanswered and row not in new:
                new[row] = at
        self._rows = rows
        if self.ignores_results:
            # Nobody waits for these losses, but each row must count as proposed.
            self.evaluated |= dict.fromkeys(new, self.problem.directions.worst)
        elif self.lag:
            self.unanswered |= dict.fromkeys(new)
        if new:
            new_genes = genes if len(new) == len(rows) else genes[list(new.values())]
            self._queue.extend(zip(self.genome.points(new_genes), new, strict=True))


def _single_point() -> SearchGenerator:
    """Yield the single point of a space without parameters to choose."""
    yield np.zeros((1, 0), dtype=np.int64)


def _bytes(genes: Ints) -> list[bytes]:
    """Return each row as bytes."""
    length, width = genes.shape
    if not width:
        return [b""] * length
    # A view as opaque items turns all rows into bytes without a loop over genes.
    as_bytes: list[bytes] = genes.view(f"V{8 * width}").ravel().tolist()
    return as_bytes
