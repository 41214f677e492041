"""Where the experiments of a run come from: points in their order; a search is `search_source`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from time import monotonic
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from zenturio.experiment import Experiment, ExperimentGenerator, Outcome
from zenturio.experiment.repeat_rule import StopReason
from zenturio.space.point import PointBlock
from zenturio.study.driver.experiment_states import Proposed
from zenturio.study.driver.run_order import WINDOW, RunOrder
from zenturio.study.point_selection import PointSelection

if TYPE_CHECKING:
    from zenturio.study.driver.cached_points import CachedPoints, LoadCachedPoints

HELD = 32 * 2**20
"""Bytes of filled files that are held at the most for those that wait."""
SPELL = 0.5
"""Seconds that are spent at the most on making experiments while others wait to be recorded."""


class ExperimentSource(Protocol):
    """Hands out experiments, and hears what became of them."""

    def __iter__(self) -> Iterator[Experiment | None]:
        """Yield those that can be had now; asked again, those that came since.

        None says that it goes on, and has nothing yet: others may have a turn.
        """
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more comes when what is out has landed."""
        ...

    @property
    def expecting(self) -> bool:
        """Whether more may come although nothing of this source is out."""
        ...

    @property
    def total(self) -> int:
        """How many there are in all, as far as it can be known now."""
        ...

    @property
    def ahead(self) -> int:
        """How many may be made before there is room for them."""
        ...

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """One of them has its outcome for good."""
        ...


@runtime_checkable
class SkipsCached(Protocol):
    """A source that need not make experiments of points that are cached."""

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Skip what *load* returns, which is called once, before anything is skipped."""
        ...


@runtime_checkable
class JudgesOutcomes(Protocol):
    """A source that has a say in what an outcome is."""

    def judge(self, experiment: Experiment, outcome: Outcome) -> Outcome:
        """Return what *outcome* is in view of others; it is not recorded yet."""
        ...


@runtime_checkable
class RunsAsNeeded(Protocol):
    """A source for which results say how often a point runs."""

    @property
    def stops(self) -> Mapping[StopReason, int]:
        """How many points needed no more runs, by the reason."""
        ...


class Proposals:
    """Experiments of a source, taken in batches that are not too many, too large, or too slow."""

    def __init__(self, source: ExperimentSource) -> None:
        self._source = source
        self._made: list[Experiment] = []

    def make(self, count: int) -> Proposed:
        """Take *count* experiments, or as many as the source likes to make ahead.

        What was made before the source raised an error belongs to the next batch.
        """
        size = 0
        counted: set[int] = set()
        end = monotonic() + SPELL
        most = max(count, self._source.ahead)
        for experiment in self._source:
            if experiment is None:
                if monotonic() > end:
                    return Proposed(self._take(), exhausted=False, over=False)
                continue
            self._made.append(experiment)
            for filed in experiment.files:
                if filed.content is not None and id(filed.content) not in counted:
                    counted.add(id(filed.content))  # many experiments share what is not filled
                    size += len(filed.content)
            if len(self._made) >= most or size > HELD or monotonic() > end:
                return Proposed(self._take(), exhausted=False, over=False)
        return Proposed(self._take(), exhausted=True, over=self._source.over)

    def _take(self) -> list[Experiment]:
        made, self._made = self._made, []
        return made


class PointsInOrder:
    """Experiments in a given order, each made when it is asked for."""

    over = True
    expecting = False
    ahead = WINDOW

    def __init__(self, experiments: Iterator[Experiment | None], total: int) -> None:
        self.total = total
        self._experiments = experiments

    def __iter__(self) -> Iterator[Experiment | None]:
        return self._experiments

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """A walk learns nothing on its way."""


class ArrangedPoints(PointsInOrder):
    """The repeats of points in the order of a run: sorted, until `arrange` names another one."""

    def __init__(
        self, points: PointSelection, generator: ExperimentGenerator, repeats: int, total: int
    ) -> None:
        super().__init__(self._arranged(RunOrder()), total)
        self._windows = enumerate(points.blocks(WINDOW))
        self._generator = generator
        self._repeats = repeats
        self._first: list[tuple[int, PointBlock]] = []
        self._tried: list[Experiment] = []
        self._load: LoadCachedPoints | None = None

    def try_first(self) -> Iterable[Experiment]:
        """Return the experiments of the first points, made now; they come in their turn, too."""
        self._first = list(islice(self._windows, 1))
        for _, block in self._first:
            self._tried = [self._generator.experiment(point, 1) for point in block.points]
        return self._tried

    def arrange(self, order: RunOrder) -> None:
        """Go through the points in *order* from now on."""
        self._experiments = self._arranged(order)

    def skip_cached(self, load: LoadCachedPoints) -> None:
        """Make no experiments of points that are cached, as far as *load* returns them.

        Those of the first window are made and looked up all the same: the place learns of them.
        """
        self._load = load

    def _arranged(self, order: RunOrder) -> Iterator[Experiment | None]:
        cached: CachedPoints | None = None
        for window, block in chain(self._first, self._windows):
            if window == 1 and self._load:
                cached = self._load(self._generator.identity)
            skipped = cached and [
                cached.take(self._generator.keys(block, repeat))
                for repeat in range(1, self._repeats + 1)
            ]
            if skipped and all(mask.all() for mask in skipped):
                yield None
                continue
            for at, repeat, position in order.arrange_window(window, len(block), self._repeats):
                if skipped and skipped[repeat - 1][at]:
                    continue
                if repeat == 1 and window == 0 and self._tried:
                    yield replace(self._tried[at], position=position)
                else:
                    yield self._generator.experiment(block.points[at], repeat, position)
            self._tried = []
