"""How often each point runs: as REPEAT ... UNTIL needs, and before that to warm up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from zenturio.annotate.model import Repeat
from zenturio.experiment import Experiment, ExperimentGenerator, MachineKind, Outcome
from zenturio.experiment.experiment import RunPosition
from zenturio.experiment.repeat_rule import RepeatRule, StopReason
from zenturio.space import Point
from zenturio.study.driver.progress import score
from zenturio.study.driver.run_order import WINDOW, RunOrder
from zenturio.study.point_selection import PointSelection


class PointRuns:
    """The runs of one point: how many were proposed and completed, and whether they suffice."""

    __slots__ = ("_completed", "_proposed", "_repeat", "_values", "stop")

    def __init__(self, repeat: Repeat) -> None:
        self._repeat = repeat
        self._proposed = self._completed = 0
        self._values: dict[MachineKind | None, dict[int, float]] = {}
        self.stop: StopReason | None = None
        """Why the point needs no more runs."""

    @property
    def next_number(self) -> int | None:
        """The number of the next run; None while it depends on runs that are not complete."""
        until, number = self._repeat.until, self._repeat.numbers[self._proposed]
        is_needed = until is None or number <= until.least or self._completed == self._proposed
        return number if is_needed else None

    @property
    def spared(self) -> int:
        """How many runs of the most that were planned the point did without."""
        return len(self._repeat.numbers) - self._proposed

    @property
    def has_all(self) -> bool:
        """Whether all runs that were proposed are complete, and no other one is needed."""
        is_last = self.stop is not None or not self.spared
        return is_last and self._completed == self._proposed

    def propose(self) -> None:
        """Count one more run."""
        self._proposed += 1

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """Take in the outcome of a run, and see whether the point needs another one."""
        self._completed += 1
        until = self._repeat.until
        if until is None:
            return
        if outcome.status == "ok":
            value = score(until.metric, experiment.values, outcome)
            if value is not None:
                self._values.setdefault(outcome.machine, {})[experiment.repeat] = value
        counted = self._completed - self._repeat.warmup
        if self._completed == self._proposed and counted >= until.least:
            self.stop = self._judged(RepeatRule(until.least, self._repeat.count, until.within))

    def _judged(self, rule: RepeatRule) -> StopReason | None:
        """Return why no more runs are needed, by the machines that have the most values.

        Values of two kinds of machine are of two distributions.
        """
        values = max(self._values.values(), key=len, default={})
        in_order = [value for _, value in sorted(values.items())]
        return rule.stop(in_order, self._completed - self._repeat.warmup)


class PointsAsNeeded:
    """The repeats of points in the order of a run, where results say how many a point has.

    A point whose repeats suffice is left out of later blocks. The order is that of the blocks all
    the same: a point that may need another run is waited for. Runs that do not count come first.
    """

    expecting = False
    ahead = WINDOW

    def __init__(
        self, points: PointSelection, generator: ExperimentGenerator, repeat: Repeat, total: int
    ) -> None:
        self.total = total
        self.over = False
        self.stops: Counter[StopReason] = Counter()
        """How many points needed no more runs, by the reason."""
        self._points = enumerate(points)
        self._make = generator.experiment
        self._repeat = repeat
        self._first: list[tuple[int, Point]] = []
        self._tried: dict[int, Experiment] = {}
        self._runs: dict[int, PointRuns] = {}
        self._window = 0
        self._in_flight: dict[str, list[int]] = {}
        self._turns = RunOrder().arrange(self._all_points(), len(repeat.numbers))
        self._waiting: tuple[tuple[int, Point], int, RunPosition] | None = None

    def try_first(self) -> Iterable[Experiment]:
        """Return the experiments of the first points, made now; they come in their turn, too."""
        self._first = list(islice(self._points, WINDOW))
        self._tried = {at: self._make(point, 1) for at, point in self._first}
        return self._tried.values()

    def arrange(self, order: RunOrder) -> None:
        """Go through the points in *order* from now on."""
        self._turns = order.arrange(self._all_points(), len(self._repeat.numbers))

    def __iter__(self) -> Iterator[Experiment]:
        while (turn := self._waiting or next(self._turns, None)) is not None:
            (at, point), _, position = turn
            self._waiting = None
            runs = self._runs_of(at)
            if runs.stop is not None:
                continue
            if (number := runs.next_number) is None:
                self._waiting = turn
                return
            runs.propose()
            yield self._experiment(at, point, number, position)
        self.over = True

    def complete(self, experiment: Experiment, outcome: Outcome) -> None:
        """Learn what came of a run: its point may need no other one."""
        places = self._in_flight.get(experiment.digest)
        if not places:
            return
        at = places.pop()
        if not places:
            del self._in_flight[experiment.digest]
        runs = self._runs[at]
        runs.complete(experiment, outcome)
        if runs.stop is not None:
            self.stops[runs.stop] += 1
            self.total -= runs.spared

    def _runs_of(self, at: int) -> PointRuns:
        if at // WINDOW != self._window:  # nothing asks for earlier windows again
            self._window = at // WINDOW
            in_flight = {at for places in self._in_flight.values() for at in places}
            self._runs = {at: runs for at, runs in self._runs.items() if at in in_flight}
        return self._runs.setdefault(at, PointRuns(self._repeat))

    def _all_points(self) -> Iterator[tuple[int, Point]]:
        yield from self._first
        yield from self._points

    def _experiment(self, at: int, point: Point, number: int, position: RunPosition) -> Experiment:
        if number == 1 and (tried := self._tried.pop(at, None)):
            experiment = replace(tried, position=position)
        else:
            experiment = self._make(point, number, position)
        if self._repeat.until is not None:
            self._in_flight.setdefault(experiment.digest, []).append(at)
        return experiment
