"""A study of a Python function, run in this process: as cheap as recording allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from zenturio.execute import Inline
from zenturio.experiment import Experiment, Function
from zenturio.experiment.provenance import provenance
from zenturio.record import Definition, Repository
from zenturio.study.choose import Chosen
from zenturio.study.define import PROGRAM, fields_of, measured
from zenturio.study.entry import Entry
from zenturio.study.progress import Progress, Summary

BATCH = 2000
"""Experiments that are looked up together, and committed together at the most."""


def evaluate(
    function: Function,
    points: Chosen,
    repository: Repository,
    *,
    name: str = "",
    listener: Callable[[Progress], None] = lambda _progress: None,
) -> Summary:
    """Call *function* at each of *points* that has no outcome yet, and remember what it answers.

    An interruption loses nothing that has ended; the same call goes on.
    """
    function.check(points.space)
    total = points.count * function.repeat.count
    place = Inline(function)
    study = name or function.name
    with Entry(repository, study, _definition(function, points), total, listener) as entry:
        for batch in _batches(points, function):
            entry.add_all((each, place.call(each)) for each in entry.unknown(batch))
    return entry.summary()


def _definition(function: Function, points: Chosen) -> Definition:
    return Definition(
        parameters=fields_of(points.space, function.repeat),
        metrics=measured(),
        provenance=provenance(Path.cwd()),
        notes={
            "function": function.source,
            PROGRAM: {f"{function.name}()": blake2b(function.source.encode()).hexdigest()},
            "repeat": function.repeat.count,
            "constraints": [each.text for each in points.space.constraints],
            "experiments": points.count * function.repeat.count,
        },
    )


def _batches(points: Chosen, function: Function) -> Iterator[list[Experiment]]:
    experiments = (
        experiment
        for index, point in points.numbered()
        for experiment in function.experiments(point.plain(), index)
    )
    while batch := list(islice(experiments, BATCH)):
        yield batch
