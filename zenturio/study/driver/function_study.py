"""Run a study of a Python function: in this process with little overhead, or at a place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from zenturio.errors import InputError, PlaceError, RecordError
from zenturio.execute.executor import Executor, machines_of
from zenturio.execute.inline import Inline
from zenturio.experiment import Experiment, ExperimentFunction, Outcome
from zenturio.experiment.experiment import Kinds
from zenturio.experiment.provenance import provenance
from zenturio.record import Repository, StudyDefinition
from zenturio.record.entities import DriverProcess
from zenturio.study.driver.cached_results import (
    machines_with_results,
    other_machine_notes,
    round_begins,
    round_goes_on,
)
from zenturio.study.driver.each_machine import combined_summary, cumulative_listener, kinds_apart
from zenturio.study.driver.group_commit import ExperimentOutcome, GroupCommit
from zenturio.study.driver.lease_keeper import LeaseKeeper
from zenturio.study.driver.progress import FailureGroup, RunProgress, RunSummary, count_failure
from zenturio.study.driver.study_driver import DEFAULT_SETTINGS
from zenturio.study.point_selection import PointSelection
from zenturio.study.study_definition import (
    PROGRAM,
    ArchivedStudy,
    fields_of,
    measured_fields,
    open_version,
)


class FunctionDriver:
    """A driver of a study whose experiments its caller runs; a context manager.

    It holds the lease of the study from entry to exit. Outcomes that are added are committed soon,
    also while the process is busy with the next call, and at exit whatever ended the run.
    """

    def __init__(
        self,
        repository: Repository,
        study: str,
        definition: StudyDefinition,
        total: int,
        listener: Callable[[RunProgress], None] = lambda _progress: None,
        kinds: Kinds = None,
        *,
        again: bool = False,
        goes_on: bool = False,
    ) -> None:
        """With *kinds* only results of these kinds of machine count as cached.

        With *again* all is measured again, in a round of its own. The round stays open at exit
        with *goes_on*: another driver of the same run goes on with it.
        """
        self._repository = repository
        self._study = study
        self._definition = definition
        self._total = total
        self._listener = listener
        self._kinds = kinds
        self._again = again
        self._goes_on = goes_on
        self._round: int | None = None
        self._notes: tuple[str, ...] | None = None
        self.archived: ArchivedStudy | None = None
        """The study of another program that had this name and was archived."""
        self._began = monotonic()
        self._commits = GroupCommit(self._write)
        self._cached = self._ok = self._failed = 0
        self._failures: dict[str, FailureGroup] = {}

    def __enter__(self) -> Self:
        self.archived = open_version(self._repository, self._study, self._definition)
        self._lease = self._repository.acquire_lease(
            self._study, DriverProcess.current(), seconds=DEFAULT_SETTINGS.lease
        )
        self._lease_keeper = LeaseKeeper(self._repository, self._lease)
        self._lease_keeper.__enter__()
        try:
            if self._again:
                self._begin_round()
        except BaseException as error:
            # No exit follows: the lease would be renewed for as long as this process lives.
            self._release_lease(type(error), error, error.__traceback__)
            raise
        self._commits.start()
        return self

    def _begin_round(self) -> None:
        """Begin a round, or go on with an open one, where the study has results."""
        if not self._repository.count_results(self._study):
            return
        newest = self._repository.rounds(self._study)[-1]
        self._round = self._repository.begin_round(self._study)
        say = round_goes_on if newest.is_open else round_begins
        self._notes = (say(self._round),)
        self._report_progress(self._notes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # First, so that the thread begins no other commit during the flush.
            self._commits.stop()
            self.flush()
            # An interrupted round stays open: the next run with *again* goes on with it.
            if error is None and self._round is not None and not self._goes_on:
                self._repository.end_round(self._study, self._round)
        finally:
            self._release_lease(kind, error, trace)

    def _release_lease(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lease_keeper.__exit__(kind, error, trace)
        with suppress(RecordError):  # the first error is the one to tell
            self._repository.release_lease(self._lease)

    def unknown(self, batch: Sequence[Experiment]) -> list[Experiment]:
        """Return the experiments of *batch* without an outcome; add the others to the study."""
        study = None if self._round is None else self._study
        scope = study, self._kinds, self._round
        digests = [digest for experiment in batch for digest in experiment.digests]
        outcomes = self._repository.find_outcomes(digests, *scope)
        self._note_other_machines([digest for digest in digests if digest not in outcomes])
        if outcomes:
            recalled = [e for e in batch if any(digest in outcomes for digest in e.digests)]
            self._repository.cached(self._study, recalled, self._kinds, self._round)
            if any(experiment.former for experiment in recalled):
                # `cached` has given results of the former format their present digests.
                present = [experiment.digest for experiment in recalled]
                outcomes = self._repository.find_outcomes(present, *scope)
            self._cached += len(outcomes)
            for experiment in batch:
                if experiment.digest in outcomes:
                    self._count(experiment, outcomes[experiment.digest], new=False)
        return [experiment for experiment in batch if experiment.digest not in outcomes]

    def _note_other_machines(self, digests: Sequence[str]) -> None:
        """Note which other kinds of machine have results of the first batch."""
        if self._kinds is not None and self._notes is None:
            kinds = machines_with_results(self._repository, digests)
            self._notes = other_machine_notes(kinds)
            if self._notes:
                self._report_progress(self._notes)

    def add(self, experiment: Experiment, outcome: Outcome) -> None:
        """Add the outcome of *experiment*, and commit if a commit is due."""
        self._commits.add(experiment, outcome)
        if self._commits.is_due:
            self.flush()

    def flush(self) -> None:
        """Commit the outcomes that were added, and report the progress."""
        for experiment, outcome in self._commits.commit():
            self._count(experiment, outcome, new=True)
        self._report_progress()

    def add_all(self, experiments: Iterable[ExperimentOutcome]) -> None:
        """Add all *experiments* with their outcomes, and commit the last group."""
        for experiment, outcome in experiments:
            self.add(experiment, outcome)
        self.flush()

    def _write(self, outcomes: Sequence[ExperimentOutcome]) -> None:
        # Also in the thread of the commits: a superseded driver must not write.
        self._lease_keeper.check()
        number = self._lease.number
        self._repository.add_results(self._study, number, outcomes, self._kinds, self._round)

    def summary(self) -> RunSummary:
        """Return the counts and failures of this run."""
        unfinished = self._total - self._cached - self._ok - self._failed
        return RunSummary(
            self._study,
            self._total,
            self._cached,
            self._ok,
            self._failed,
            unfinished,
            monotonic() - self._began,
            failures=tuple(sorted(self._failures.values(), key=lambda group: -group.count)),
            notes=self._notes or (),
            round=self._round,
        )

    def _count(self, experiment: Experiment, outcome: Outcome, *, new: bool) -> None:
        if outcome.status == "ok":
            self._ok += new
            return
        self._failed += new
        count_failure(self._failures, experiment, outcome)

    def _report_progress(self, remarks: tuple[str, ...] = ()) -> None:
        ended = self._ok + self._failed
        elapsed = monotonic() - self._began
        rate = ended / elapsed if elapsed > 0 else 0.0
        unfinished = self._total - self._cached - ended
        seconds = unfinished / rate if rate > 0 else None
        counts = (self._total, self._cached, self._ok, self._failed, 0)
        self._listener(RunProgress(*counts, rate, seconds, remarks=remarks))


BATCH = 2000
"""Experiments that are looked up together, and committed together at the most."""
MIN_IN_FLIGHT = 256
"""Experiments that a place may have at once, however few slots it has; else twice its slots."""


def evaluate(
    function: ExperimentFunction,
    points: PointSelection,
    repository: Repository,
    *,
    name: str = "",
    place: Executor | None = None,
    listener: Callable[[RunProgress], None] = lambda _progress: None,
    any_machine: bool = False,
    each_machine: bool = False,
    again: bool = False,
) -> RunSummary:
    """Call *function* at each of *points* that has no outcome yet, and record what it returns.

    After an interruption the same call goes on: finished calls are not repeated. With a *place*
    the function is called there, as a command, many at a time. Results of another kind of machine
    count with *any_machine*, or if the function is declared exact. With *each_machine* each kind of
    machine of the place measures everything. With *again* all is measured again, in a round of its
    own.
    """
    function.check(points.space)
    inline = Inline(function)
    study = name or function.name
    definition = _definition(function, points)
    if each_machine and any_machine:
        raise InputError("each_machine with machine any", hint="leave one of them out")
    places = kinds_apart(place or inline) if each_machine else (place or inline,)
    ended: list[RunSummary] = []
    total = points.count * function.repeat.count * len(places)
    for part in places:
        kinds = machines_of(part)
        counting = None if not each_machine and (any_machine or function.exact) else kinds
        with FunctionDriver(
            repository,
            study,
            definition,
            total // len(places),
            cumulative_listener(ended, total, listener) if len(places) > 1 else listener,
            counting,
            again=again,
            goes_on=part is not places[-1],
        ) as entry:
            for batch in _batches(points, function):
                unknown = entry.unknown(batch)
                if part is inline:
                    entry.add_all((experiment, inline.call(experiment)) for experiment in unknown)
                else:
                    entry.add_all(_called(function, unknown, part))
        ended.append(entry.summary())
    return ended[0] if len(places) == 1 else combined_summary(ended, total)


def _called(
    function: ExperimentFunction, experiments: Sequence[Experiment], place: Executor
) -> Iterator[ExperimentOutcome]:
    """Yield the outcomes from a *place* as they come; cancel the others if the caller stops."""
    in_flight: dict[Future[Outcome], Experiment] = {}
    try:
        for experiment in experiments:
            in_flight[place.submit(function.command(experiment))] = experiment
            if len(in_flight) >= max(2 * place.slots, MIN_IN_FLIGHT):
                yield from _completed(in_flight)
        while in_flight:
            yield from _completed(in_flight)
    finally:
        for future in in_flight:
            future.cancel()


def _completed(
    in_flight: dict[Future[Outcome], Experiment],
) -> Iterator[ExperimentOutcome]:
    """Wait until a future completes; yield the outcomes of all that have."""
    ended, _ = wait(in_flight, return_when=FIRST_COMPLETED)
    for future in ended:
        experiment = in_flight.pop(future)
        outcome = future.result()
        if outcome.status == "cancelled":
            raise PlaceError("the place gave up what it was to run", hint="run it again")
        yield experiment, outcome


def _definition(function: ExperimentFunction, points: PointSelection) -> StudyDefinition:
    return StudyDefinition(
        parameters=fields_of(points.space, function.repeat),
        metrics=measured_fields(),
        provenance=provenance(Path.cwd()),
        notes={
            "function": function.source,
            PROGRAM: {f"{function.name}()": blake2b(function.source.encode()).hexdigest()},
            "repeat": function.repeat.count,
            "constraints": [constraint.text for constraint in points.space.constraints],
            "experiments": points.count * function.repeat.count,
        },
    )


def _batches(points: PointSelection, function: ExperimentFunction) -> Iterator[list[Experiment]]:
    experiments = (
        experiment
        for index, point in points.numbered()
        for experiment in function.experiments(point.plain(), index)
    )
    while batch := list(islice(experiments, BATCH)):
        yield batch
