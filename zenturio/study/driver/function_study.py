"""A study of a Python function: in this process, as cheap as recording allows, or at a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from zenturio.errors import InputError, PlaceError
from zenturio.execute.executor import Executor, machines_of
from zenturio.execute.inline import Inline
from zenturio.experiment import Experiment, ExperimentFunction, Outcome
from zenturio.experiment.provenance import provenance
from zenturio.record import Repository, StudyDefinition
from zenturio.study.driver.each_machine import behind, kinds_apart, together
from zenturio.study.driver.function_driver import FunctionDriver
from zenturio.study.driver.progress import RunProgress, RunSummary
from zenturio.study.point_selection import PointSelection
from zenturio.study.study_definition import PROGRAM, fields_of, measured_fields

BATCH = 2000
"""Experiments that are looked up together, and committed together at the most."""
AWAY = 256
"""Experiments that are at a place at once at the most, where it has fewer slots."""


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
    """Call *function* at each of *points* that has no outcome yet, and remember what it answers.

    An interruption loses nothing that has ended; the same call goes on. With a *place* it is
    called there, as a command, and many are called at a time. Results of another kind of machine
    count with *any_machine*, or if the function is declared exact. With *each_machine* each kind of
    machine of the place measures everything. *again*: what has results is measured again, in a
    round of its own.
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
            behind(ended, total, listener) if len(places) > 1 else listener,
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
    return ended[0] if len(places) == 1 else together(ended, total)


def _called(
    function: ExperimentFunction, experiments: Sequence[Experiment], place: Executor
) -> Iterator[tuple[Experiment, Outcome]]:
    """The outcomes from a *place*, as they come; what still runs is killed if nobody asks on."""
    in_flight: dict[Future[Outcome], Experiment] = {}
    try:
        for experiment in experiments:
            in_flight[place.submit(function.command(experiment))] = experiment
            if len(in_flight) >= max(2 * place.slots, AWAY):
                yield from _landed(in_flight)
        while in_flight:
            yield from _landed(in_flight)
    finally:
        for future in in_flight:
            future.cancel()


def _landed(in_flight: dict[Future[Outcome], Experiment]) -> Iterator[tuple[Experiment, Outcome]]:
    """Waits for one of them to end, and takes all that have."""
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
