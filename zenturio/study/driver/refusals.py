"""
What would stop a run at some of its points: formulas, bounds, CPUS, texts that do not fit.

Experiments are made as a run makes them, and thrown away. `zen check` tries a bounded part of the
space: its first points, and those where one parameter has its first or last element. A run tries
its own first points before it opens a study, so that one that is refused leaves none behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from zenturio.annotate.model import MEASURED, Application
from zenturio.errors import Diagnostic, ExpressionError, InputError
from zenturio.execute.executor import Executor, ScreensExperiments
from zenturio.execute.requirements import check_requirements
from zenturio.experiment import Experiment, ExperimentGenerator
from zenturio.experiment.experiment import value_at
from zenturio.expression import Expression, Value, text_of
from zenturio.space import Continuous, Dependent, Point, Space

TRIED = 2048
"""Points that are tried at the most, from the first one: as many as a run makes at once."""
_ENDS = 256
"""Parameters whose first and last elements are tried."""
_GUESSES = (1.7, 1000.3)
"""What metrics may be, when nothing has been measured."""
_GUESSED_AT = 256
"""Points at which formulas of metrics are tried."""
_SHOWN = 20
"""Points that are refused, after which no more are tried."""


def refusals(application: Application) -> tuple[Diagnostic, ...]:
    """Return what would stop a run of *application* at points of its space, each fault once."""
    diagnostics: dict[object, Diagnostic] = {}
    for error in islice(_errors(application), _SHOWN):
        for diagnostic in error.diagnostics:
            diagnostics.setdefault(diagnostic.place or diagnostic.message, diagnostic)
    return tuple(diagnostics.values())


def _errors(application: Application) -> Iterator[InputError]:
    try:
        # Data need not be hashed for it: no point differs in them.
        generator = ExperimentGenerator(replace(application, copied=()))
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


def doubtful_formulas(application: Application) -> Iterator[Diagnostic]:
    """Warnings of formulas that have no value at some points, whatever is measured there.

    Metrics are guessed, twice; a formula that fails at every point may only be guessed wrongly.
    """
    names = [*MEASURED, *(metric.name for metric in application.metrics)]
    guesses = [dict.fromkeys(names, guess) for guess in _GUESSES]
    formulas = {m.name: m.formula for m in application.metrics if m.formula is not None}
    formulas |= {f"objective {goal.expression.text}": goal.expression for goal in application.goals}
    try:
        points = list(islice(_first(application.space), _GUESSED_AT)) if formulas else []
    except InputError:  # which is told as an error
        return
    for name, formula in formulas.items():
        faults = [_fault(formula, point, guesses) for point in points]
        first = next((n for n, fault in enumerate(faults) if fault), None)
        if first is None or all(faults):
            continue
        values = ", ".join(f"{n} = {text_of(points[first][n])}" for n in _chosen(formula, points))
        yield Diagnostic(
            f"{name} has no value where {values}: {faults[first]}",
            formula.passage.place(0, len(formula.passage.text)),
            "say what it is there: x if condition else y; or leave such points out: CONSTRAINT",
            severity="warning",
        )


def _fault(formula: Expression, point: Point, guesses: Iterable[Mapping[str, Value]]) -> str:
    """Why *formula* has no value at *point* for any of the *guesses*; nothing if it has one."""
    reason = ""
    for guess in guesses:
        try:
            value_at(formula, {**point, **guess}, point=point)
        except ExpressionError as error:
            reason = error.diagnostics[0].message
        else:
            return ""
    return reason


def _chosen(formula: Expression, points: Sequence[Point]) -> list[str]:
    return sorted(name for name in formula.names if name in points[0])


def refuse(experiments: Iterable[Experiment], place: Executor) -> None:
    """Raise why one of *experiments* can never run at *place*, if that knows."""
    if isinstance(place, ScreensExperiments):
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
        if "constraint" not in str(error) and "vary together" not in str(error):
            raise
