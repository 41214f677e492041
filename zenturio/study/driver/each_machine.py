"""Measuring every experiment on each kind of machine of a place: one kind after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from zenturio.errors import InputError
from zenturio.execute.executor import (
    AdaptsToRuntime,
    EmitsMessages,
    Executor,
    Resumable,
    SelectsMachine,
    machines_of,
)
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.study.driver.cached_results import other_machine_notes
from zenturio.study.driver.progress import FailureGroup, RunProgress, RunSummary
from zenturio.study.driver.study_driver import AnyExecutor, ProgressListener, StudyDriver

if TYPE_CHECKING:
    from zenturio.study.driver.observers import Observers

EACH_MACHINE = "each kind of machine that the place has measures all of it"
"""What is said of a place that was not opened, and whose kinds nobody knows."""


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
            "--each-machine: this place does not let anybody choose a kind of machine",
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


class DriversInTurn:
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
        """Whether somebody stopped one of them."""
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
    cached, ok, failed, wrong = (
        sum(getattr(summary, name) for summary in summaries)
        for name in ("cached", "ok", "failed", "wrong")
    )
    causes: dict[str, FailureGroup] = {}
    for failure in (failure for summary in summaries for failure in summary.failures):
        seen = causes.get(failure.cause)
        count = failure.count + (seen.count if seen else 0)
        causes[failure.cause] = replace(seen or failure, count=count)
    return replace(
        first,
        total=total,
        cached=cached,
        ok=ok,
        failed=failed,
        wrong=wrong,
        unfinished=total - cached - ok - failed,
        seconds=sum(summary.seconds for summary in summaries),
        failures=tuple(sorted(causes.values(), key=lambda summary: -summary.count)),
        best=None,  # each kind has its own: zen best has a row for each
        alone=sum(summary.alone for summary in summaries),
        remarks=tuple(dict.fromkeys(remark for summary in summaries for remark in summary.remarks)),
    )
