"""
What would stop a run at some of its points: formulas, bounds, CPUS, texts that do not fit.

Experiments are made as a run makes them, and thrown away. `zen check` tries a bounded part of the
space: its first points, and those where one parameter has its first or last element. A run tries
its own first points before it opens a study, so that one that is refused leaves none behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from zenturio.annotate import Application
from zenturio.errors import Complaint, InputError
from zenturio.execute import Executor
from zenturio.execute.executor import Refusing
from zenturio.execute.requiring import check_requirements
from zenturio.experiment import Experiment, Generator
from zenturio.space import Continuous, Dependent, Point, Space

TRIED = 2048
"""Points that are tried at the most, from the first one: as many as a run makes at once."""
_ENDS = 256
"""Parameters whose first and last elements are tried."""
_SHOWN = 20
"""Points that are refused, after which no more are tried."""


def refusals(application: Application) -> tuple[Complaint, ...]:
    """What would stop a run of *application* at points of its space, each fault once."""
    found: dict[object, Complaint] = {}
    for error in islice(_errors(application), _SHOWN):
        for complaint in error.complaints:
            found.setdefault(complaint.place or complaint.message, complaint)
    return tuple(found.values())


def _errors(application: Application) -> Iterator[InputError]:
    try:
        generator = Generator(application)
    except InputError as error:
        yield error
        return
    for points in (_first(application.space), _ends(application.space)):
        try:
            for point in points:
                try:
                    for experiment in generator.experiments(point, 0):
                        check_requirements(experiment)
                except InputError as error:
                    yield error
        except InputError as error:  # the space itself: a constraint, a bound, a condition
            yield error


def refuse(experiments: Iterable[Experiment], place: Executor) -> None:
    """Raise why one of *experiments* can never run at *place*, if that knows."""
    if isinstance(place, Refusing):
        for experiment in experiments:
            refusal = place.refusal(experiment)
            if refusal is not None:
                raise refusal


def _first(space: Space) -> Iterator[Point]:
    return islice(iter(space), TRIED) if space.finite else iter(space.sample(1, 0))


def _ends(space: Space) -> Iterator[Point]:
    """Valid points at which one dimension has its first or last element, and the others too."""
    listed = {}
    for parameter in space.dimensions:
        domain = parameter.domain
        if parameter.when is not None or isinstance(domain, Continuous | Dependent | None):
            return  # which elements there are depends on others
        listed[parameter.name] = domain.value(0), domain.value(domain.size - 1)
    for low, high in ((0, 1), (1, 0)):
        for name in islice(listed, _ENDS):
            yield from _valid(space, {n: e[high if n == name else low] for n, e in listed.items()})


def _valid(space: Space, values: dict[str, Any]) -> Iterator[Point]:
    try:
        yield space.find(values)
    except InputError as error:
        if "constraint" not in str(error) and "run together" not in str(error):
            raise
