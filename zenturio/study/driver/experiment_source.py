"""Where the experiments of a run come from: points in their order; a search is `search_source`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from time import monotonic
from typing import Protocol

from zenturio.experiment import Experiment, Outcome
from zenturio.experiment.experiment import RunPosition
from zenturio.space import Point
from zenturio.study.driver.experiment_states import Proposed
from zenturio.study.driver.run_order import WINDOW, RunOrder

HELD = 32 * 2**20
"""Bytes of filled files that are held at the most for those that wait."""
SPELL = 0.5
"""Seconds that are spent at the most on making experiments while others wait to be recorded."""

MakeExperiments = Callable[[Point], Iterable[Experiment]]
MakeExperiment = Callable[[Point, int, RunPosition | None], Experiment]
"""Makes one repeat of a point, which has a position in the order of the run."""


class ExperimentSource(Protocol):
    """Hands out experiments, and hears what became of them."""

    def __iter__(self) -> Iterator[Experiment]:
        """Yield those that can be had now; asked again, those that came since."""
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

    def __init__(self, experiments: Iterator[Experiment], total: int) -> None:
        self.total = total
        self._experiments = experiments

    def __iter__(self) -> Iterator[Experiment]:
        return self._experiments

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """A walk learns nothing on its way."""


class ArrangedPoints(PointsInOrder):
    """The repeats of points in the order of a run: sorted, until `arrange` names another one."""

    def __init__(
        self, points: Iterable[Point], make: MakeExperiment, repeats: int, total: int
    ) -> None:
        super().__init__(self._arranged(RunOrder()), total)
        self._points = enumerate(points)
        self._make = make
        self._repeats = repeats
        self._first: list[tuple[int, Point]] = []
        self._tried: dict[int, Experiment] = {}

    def try_first(self) -> Iterable[Experiment]:
        """Return the experiments of the first points, made now; they come in their turn, too."""
        self._first = list(islice(self._points, WINDOW))
        self._tried = {at: self._make(point, 1, None) for at, point in self._first}
        return self._tried.values()

    def arrange(self, order: RunOrder) -> None:
        """Go through the points in *order* from now on."""
        self._experiments = self._arranged(order)

    def _arranged(self, order: RunOrder) -> Iterator[Experiment]:
        points = chain(self._first, self._points)
        for (at, point), repeat, position in order.arrange(points, self._repeats):
            if repeat == 1 and (tried := self._tried.pop(at, None)):
                yield replace(tried, position=position)
            else:
                yield self._make(point, repeat, position)
