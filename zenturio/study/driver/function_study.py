"""Run a study of a Python function: in this process with little overhead, or at a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from zenturio.errors import InputError, Interrupted
from zenturio.execute.executor import Executor, machines_of
from zenturio.execute.inline import Inline
from zenturio.experiment import Experiment, ExperimentFunction
from zenturio.experiment.experiment import Kinds
from zenturio.experiment.provenance import provenance
from zenturio.record import Repository, StudyDefinition
from zenturio.space.space import space_as_json
from zenturio.study.driver.experiment_source import (
    OrderKind,
    PointSelection,
    PointsInOrder,
    RunOrder,
)
from zenturio.study.driver.in_flight import Calls
from zenturio.study.driver.measurement_plan import SequentialDrivers, kinds_apart, observing
from zenturio.study.driver.progress import (
    RunProgress,
    RunSummary,
    round_begins,
    round_goes_on,
)
from zenturio.study.driver.study_driver import (
    DEFAULT_SETTINGS,
    AnyExecutor,
    DriverSettings,
    ProgressListener,
    StudyDriver,
)
from zenturio.study.driver.study_records import UnrecordedOutcomes, leased
from zenturio.study.recorded_definition import (
    FUNCTION,
    PROGRAM,
    SPACE,
    ArchivedVersion,
    fields_of,
    measured_fields,
    open_version,
)


@dataclass(frozen=True)
class CallStudy:
    """A study of calls: what its driver is to run, and how it is recorded."""

    name: str
    definition: StudyDefinition
    experiments: Callable[[RunOrder], Iterator[Experiment]]
    """Makes all of them in an order; called once for each kind of machine."""
    count: int
    again: bool = False
    """Whether what has results is measured again, in a round of its own."""
    order: OrderKind = "sorted"
    observers: tuple[str, ...] = ()
    fail_fast: bool = False
    go_on: bool = False
    """Whether to go on although the first experiments fail for one cause of the study itself."""

    def drive(
        self,
        repository: Repository,
        places: Sequence[AnyExecutor],
        kinds: Callable[[AnyExecutor], Kinds],
        listener: ProgressListener,
    ) -> tuple[RunSummary, ArchivedVersion | None]:
        """Run at each of *places* what has no outcome there of one of its *kinds* of machine.

        KeyboardInterrupt where it was stopped: what has ended is recorded, and the same call goes
        on.
        """
        archived = open_version(repository, self.name, self.definition)
        with (
            leased(
                repository,
                self.name,
                DEFAULT_SETTINGS.lease,
                draws_seed=self.order != "sorted",
            ) as lease,
            observing(self.observers, self.name) as observers,
        ):
            round_, notes = self._begin_round(repository)
            order = RunOrder.drawn(self.order, repository, lease, round_)

            def driver(place: AnyExecutor, listener: ProgressListener) -> StudyDriver:
                return StudyDriver(
                    self.name,
                    lease,
                    repository,
                    place,
                    PointsInOrder(self.experiments(order), self.count),
                    settings=DriverSettings(self.fail_fast, go_on=self.go_on),
                    listener=listener,
                    kinds=lambda: kinds(place),
                    round_=round_,
                    observers=observers,
                    unrecorded=UnrecordedOutcomes.of(repository, self.name, round_),
                )

            drivers = SequentialDrivers(places, driver, self.count, listener)
            drivers.look_ahead()
            notes += drivers.other_machine_notes()
            for note in notes:
                drivers.drivers[0].announce(note)
            try:
                summary = drivers.drive()
            except Interrupted:
                raise KeyboardInterrupt from None
            if drivers.is_stopped:
                raise KeyboardInterrupt
            if round_ is not None and drivers.has_completed:
                repository.end_round(self.name, round_)
        return replace(summary, notes=notes, round=round_), archived

    def _begin_round(self, repository: Repository) -> tuple[int | None, tuple[str, ...]]:
        """Return the new round with ``again``, else None; and the notes to print about it."""
        if not self.again or not repository.count_results(self.name):
            return None, ()
        newest = repository.rounds(self.name)[-1]
        number = repository.begin_round(self.name)
        return number, ((round_goes_on if newest.is_open else round_begins)(number),)


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
    order: OrderKind = "blocks",
    observers: tuple[str, ...] = (),
    fail_fast: bool = False,
    go_on: bool = False,
) -> RunSummary:
    """Call *function* at each of *points* that has no outcome yet, and record what it returns.

    After an interruption the same call goes on: finished calls are not repeated. With a *place* the
    function is called there, as a command, many at a time. Results of another kind of machine count
    with *any_machine*, or if the function is declared exact. With *each_machine* each kind of
    machine of the place measures everything. With *again* all is measured again, in a round of its
    own. The plug-ins *observers* are called for each transition of an experiment. The run ends at
    the first failure with *fail_fast*; without *go_on*, it also ends if the first eight calls all
    fail.
    """
    function.check(points.space)
    if each_machine and any_machine:
        raise InputError("each_machine with machine any", hint="leave one of them out")
    places: Sequence[AnyExecutor]
    if place is None:
        inline = Inline(function)
        places = (Calls(inline.call, inline.machine),)
    else:
        places = kinds_apart(place) if each_machine else (place,)

    def experiments(order: RunOrder) -> Iterator[Experiment]:
        numbered = ((index, point.plain()) for index, point in points.numbered())
        arranged = order.arrange(numbered, function.repeat.count)
        for (index, point), repeat, position in arranged:
            made = function.experiment(point, repeat, position, index=index)
            yield made if place is None else function.command(made)

    ignores_machine = not each_machine and (any_machine or function.exact)
    study = CallStudy(
        name or function.name,
        _definition(function, points),
        experiments,
        points.count * function.repeat.count,
        again,
        order,
        observers,
        fail_fast,
        go_on,
    )
    kinds = (lambda _part: None) if ignores_machine else machines_of
    summary, _ = study.drive(repository, places, kinds, listener)
    return summary


def _definition(function: ExperimentFunction, points: PointSelection) -> StudyDefinition:
    return StudyDefinition(
        parameters=fields_of(points.space, function.repeat),
        metrics=measured_fields(),
        provenance=provenance(Path.cwd()),
        notes={
            FUNCTION: function.source,
            PROGRAM: {f"{function.name}()": blake2b(function.source.encode()).hexdigest()},
            "repeat": function.repeat.count,
            "constraints": [constraint.text for constraint in points.space.constraints],
            SPACE: space_as_json(points.space),
            "experiments": points.count * function.repeat.count,
        },
    )
