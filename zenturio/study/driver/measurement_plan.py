"""How often each point runs, and on which kinds of machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain, count, islice
from time import monotonic
from typing import TYPE_CHECKING

from zenturio.annotate.model import Repeat
from zenturio.errors import InputError
from zenturio.execute.executor import (
    AdaptsToRuntime,
    EmitsMessages,
    Executor,
    Resumable,
    SelectsMachine,
    machines_of,
)
from zenturio.experiment import Experiment, ExperimentGenerator, MachineKind, Outcome
from zenturio.experiment.aggregates import RepeatRule, StopReason, relative_width
from zenturio.experiment.experiment import RunPosition
from zenturio.space import Point
from zenturio.study.driver.experiment_source import WINDOW, PointSelection, RunOrder
from zenturio.study.driver.progress import (
    FailureGroup,
    RunProgress,
    RunSummary,
    other_machine_notes,
    score,
)
from zenturio.study.driver.study_driver import AnyExecutor, ProgressListener, StudyDriver

if TYPE_CHECKING:
    from zenturio.study.driver.observers import Observers


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
    def is_idle(self) -> bool:
        """Whether all runs that were proposed are complete."""
        return self._completed == self._proposed

    @property
    def proposed(self) -> int:
        """How many runs were proposed, those to warm up included."""
        return self._proposed

    @property
    def width(self) -> float:
        """How far the interval of the median reaches from it, as a share; infinite of too few."""
        width = relative_width(self._in_order())
        return math.inf if width is None else width

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

    def complete_cached(self) -> None:
        """Count a run whose result says nothing of how many runs the point needs."""
        self._completed += 1

    def _judged(self, rule: RepeatRule) -> StopReason | None:
        return rule.stop(self._in_order(), self._completed - self._repeat.warmup)

    def _in_order(self) -> list[float]:
        """Return the values of the kind of machine that has the most, by their repeats.

        Values of two kinds of machine are of two distributions.
        """
        values = max(self._values.values(), key=len, default={})
        return [value for _, value in sorted(values.items())]


Turn = tuple[tuple[int, Point], int, RunPosition]
"""A point with its number in the run, its turn from 1, and where that stands in the order."""


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
        self._turns = self._turns_in(RunOrder())
        self._waiting: Turn | None = None

    def try_first(self) -> Iterable[Experiment]:
        """Return the experiments of the first points, made now; they come in their turn, too."""
        self._first = list(islice(self._points, WINDOW))
        self._tried = {at: self._make(point, 1) for at, point in self._first}
        return self._tried.values()

    def arrange(self, order: RunOrder) -> None:
        """Go through the points in *order* from now on."""
        self._turns = self._turns_in(order)

    def __iter__(self) -> Iterator[Experiment]:
        for turn in chain([self._waiting] if self._waiting else (), self._turns):
            self._waiting = None
            if turn is None:
                return
            (at, point), _, position = turn
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

    def _turns_in(self, order: RunOrder) -> Iterator[Turn | None]:
        """Yield points that may run now, by the order; None where results are to be waited for."""
        yield from order.arrange(self._all_points(), len(self._repeat.numbers))

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


class PointsWithinBudget(PointsAsNeeded):
    """The same for so many seconds, which go where the intervals are widest.

    All points have the blocks that they need in any case. Then each block has the wider half of
    the points that may need more runs, so that wide ones are run more often than others.
    """

    ahead = 0  # what was made ahead would run when the time is over

    def __init__(
        self,
        points: PointSelection,
        generator: ExperimentGenerator,
        repeat: Repeat,
        total: int,
        seconds: float,
    ) -> None:
        super().__init__(points, generator, repeat, total)
        self.is_spent = False
        """Whether the time was over before no point needed more runs."""
        self._seconds = seconds
        self._end = math.inf
        self._kept: list[tuple[int, Point]] = []

    def __iter__(self) -> Iterator[Experiment]:
        if self._end == math.inf:
            self._end = monotonic() + self._seconds
        experiments = super().__iter__()
        while monotonic() < self._end and (experiment := next(experiments, None)):
            yield experiment
        if not self.over and monotonic() >= self._end:
            self.over = self.is_spent = True
            if self._repeat.until:
                self.stops["budget"] = sum(runs.stop is None for runs in self._runs.values())

    def _turns_in(self, order: RunOrder) -> Iterator[Turn | None]:
        block = 0
        for turn in order.arrange(self._keeping_points(), self._repeat.at_once):
            block = turn[2].block
            yield turn
        if self._repeat.until is None:  # each point has had all its repeats
            return
        for number in count(block + 1):
            while not all(runs.is_idle for runs in self._runs.values()):
                yield None
            open_points = [(at, p) for at, p in self._kept if self._may_run(self._runs[at])]
            if not open_points:
                return
            open_points.sort(key=lambda numbered: -self._runs[numbered[0]].width)
            widest = open_points[: (len(open_points) + 1) // 2]
            for at, place in enumerate(order.places(len(widest), number), 1):
                yield widest[place], number, RunPosition(order.kind, number, at)

    def _keeping_points(self) -> Iterator[tuple[int, Point]]:
        for numbered in self._all_points():
            self._kept.append(numbered)
            yield numbered

    @staticmethod
    def _may_run(runs: PointRuns) -> bool:
        return runs.stop is None and runs.spared > 0

    def _runs_of(self, at: int) -> PointRuns:
        return self._runs.setdefault(at, PointRuns(self._repeat))


# Kinds of machine: every experiment is measured on each kind of a place, one after the other

EACH_MACHINE = "each kind of machine of the place measures all experiments"
"""The note on a place that was not opened, so that its kinds of machine are unknown."""


class MachinesOfOneKind:
    """The machines of one kind of a place, as a place of their own; closing it closes nothing."""

    def __init__(self, place: SelectsMachine, machine: MachineKind) -> None:
        self._place = place
        self.machine = machine
        self.slots = max(place.slots_of(machine), 1)
        if isinstance(place, EmitsMessages):
            self.remarks = place.remarks

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        return self._place.submit_to(self.machine, experiment)

    def forget(self, digest: str) -> None:
        if isinstance(self._place, Resumable):
            self._place.forget(digest)

    def learn(self, outcome: Outcome) -> None:
        if isinstance(self._place, AdaptsToRuntime):
            self._place.learn(outcome)

    def close(self) -> None:
        pass


def kinds_apart(place: Executor) -> tuple[Executor, ...]:
    """Return the machines of each kind of *place* as a place; *place* itself, if it has one kind.

    InputError where it does not know its kinds, or cannot choose between them.
    """
    machines = machines_of(place)
    if machines is None:
        raise InputError(
            "--each-machine: this place does not know its kinds of machine beforehand",
            hint="run the study at a place for each of them, such as a partition: --on PLACE",
        )
    if len(machines) == 1:
        return (place,)
    if not isinstance(place, SelectsMachine):
        raise InputError(
            "--each-machine: this place does not allow you to choose a kind of machine",
            hint="run the study at a place for each of them: --on PLACE",
        )
    return tuple(MachinesOfOneKind(place, machine) for machine in sorted(machines, key=_order))


def _order(machine: MachineKind) -> tuple[str, str]:
    """The same order at each run: one that was stopped goes on with the kind that it was at."""
    return machine.label, repr(machine)


def observing(names: Iterable[str], study: str) -> AbstractContextManager[Observers | None]:
    """Return a context with the observers of these *names*; None if there are none."""
    if not names:
        return nullcontext()
    # Most runs have none, and do not load them.
    from zenturio.study.driver import observers  # noqa: PLC0415

    return observers.observing(names, study)


class SequentialDrivers:
    """The drivers of a study under one lease: one, or one for each kind of machine that measures.

    They run one after the other, for they claim the same experiments.
    """

    def __init__(
        self,
        places: Sequence[AnyExecutor],
        make: Callable[[AnyExecutor, ProgressListener], StudyDriver],
        total: int,
        listener: ProgressListener,
    ) -> None:
        """*make* a driver for each of *places*, each of which measures *total* experiments."""
        self._ended: list[RunSummary] = []
        self._total = total
        if len(places) > 1:
            listener = cumulative_listener(self._ended, total * len(places), listener)
        self.drivers = [make(place, listener) for place in places]

    def look_ahead(self) -> tuple[int, int]:
        """Make and look up the first batch of each; return their size, and how many are cached."""
        sizes, cached = zip(*(driver.look_ahead() for driver in self.drivers), strict=True)
        return sum(sizes), sum(cached)

    def other_machine_notes(self) -> tuple[str, ...]:
        """Say which kinds of machine have results that are not used; nothing if each measures."""
        (first, *more) = self.drivers
        return () if more else other_machine_notes(first.other_machines())

    def drive(self) -> RunSummary:
        """Run each to its end; none more behind one that was stopped."""
        for driver in self.drivers:
            self._ended.append(driver.drive())
            if not driver.has_completed:
                break
        if len(self.drivers) == 1:
            return self._ended[0]
        # Fewer than planned where the repeats of a point sufficed.
        total = sum(summary.total for summary in self._ended)
        total += self._total * (len(self.drivers) - len(self._ended))
        return replace(combined_summary(self._ended, total), interrupted=self.is_stopped)

    @property
    def has_completed(self) -> bool:
        """Whether all ran to their ends."""
        return all(driver.has_completed for driver in self.drivers)

    @property
    def is_stopped(self) -> bool:
        """Whether one of them was stopped."""
        return any(driver.is_stopped for driver in self.drivers)


def cumulative_listener(
    earlier: Sequence[RunSummary], total: int, listener: Callable[[RunProgress], None]
) -> Callable[[RunProgress], None]:
    """Return a listener to one kind's progress that tells *listener* of all *total* experiments.

    *earlier*: how those kinds ended that were measured before; it may grow meanwhile.
    """

    def report(progress: RunProgress) -> None:
        listener(
            replace(
                progress,
                total=total,
                cached=progress.cached + sum(summary.cached for summary in earlier),
                ok=progress.ok + sum(summary.ok for summary in earlier),
                failed=progress.failed + sum(summary.failed for summary in earlier),
            )
        )

    return report


def combined_summary(summaries: Sequence[RunSummary], total: int) -> RunSummary:
    """Return how the run of *total* experiments ended, of how each kind of machine ended."""
    first = summaries[0]
    cached, ok, failed, wrong, skipped = (
        sum(getattr(summary, name) for summary in summaries)
        for name in ("cached", "ok", "failed", "wrong", "skipped")
    )
    causes: dict[str, FailureGroup] = {}
    for failure in (failure for summary in summaries for failure in summary.failures):
        group = causes.get(failure.cause)
        count = failure.count + (group.count if group else 0)
        is_same = group is None or group.written == failure.written
        causes[failure.cause] = replace(
            group or failure, count=count, written=failure.written if is_same else ""
        )
    return replace(
        first,
        total=total,
        cached=cached,
        ok=ok,
        failed=failed,
        wrong=wrong,
        skipped=skipped,
        unfinished=total - cached - ok - failed,
        seconds=sum(summary.seconds for summary in summaries),
        failures=tuple(sorted(causes.values(), key=lambda summary: -summary.count)),
        best=None,  # each kind has its own: zen best has a row for each
        alone=sum(summary.alone for summary in summaries),
        remarks=tuple(dict.fromkeys(remark for summary in summaries for remark in summary.remarks)),
    )
