"""Metrics of a run: found where its recipe says, reported by the program, or computed from both."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from zenturio.annotate.model import MEASURED, Metric
from zenturio.errors import ExpressionError, InputError
from zenturio.experiment.evidence import Evidence, EvidenceText
from zenturio.experiment.experiment import MetricValue, Missing, Recipe, Series
from zenturio.experiment.finders import AbsentError, MetricFinder, metric_finder, read_json
from zenturio.experiment.points import value_at
from zenturio.experiment.reading import take_value

if TYPE_CHECKING:
    from zenturio.expression import Value

METRICS = "ZEN_METRICS"
"""The environment variable that names the file to which a program appends ``{"name": value}``.

Names that were not declared become metrics too; those of parameters and of MEASURED are left out.
"""


def measure(
    recipe: Recipe, values: Mapping[str, Value], evidence: Evidence
) -> dict[str, MetricValue]:
    """All metrics of one run; for many runs of one recipe a Meter is faster."""
    return MetricReader(recipe).measure(values, evidence)


class MetricReader:
    """Measures the runs of one recipe: patterns are compiled and formulas are sorted once."""

    def __init__(self, recipe: Recipe) -> None:
        found = [m for m in recipe.metrics if m.formula is None]
        self._found: list[tuple[Metric, MetricFinder | None]] = [
            (m, metric_finder(m)) for m in found
        ]
        self._derived = _sorted(recipe.metrics)
        self._needed = {m.name for m in recipe.metrics if not m.optional}

    def measure(self, values: Mapping[str, Value], evidence: Evidence) -> dict[str, MetricValue]:
        """Every metric by name: what the place measured, found, reported, computed."""
        metrics: dict[str, MetricValue] = dict(evidence.usage)
        reported, fault = _reported(evidence.reported) if evidence.reported else ({}, "")
        texts: dict[str, EvidenceText] = {}
        for metric, way in self._found:
            told = reported.get(metric.name)
            if told is not None:
                metrics[metric.name] = take_value(told, metric.take)
            elif way is None:
                metrics[metric.name] = Missing(f"${METRICS} does not hold it{fault}")
            else:
                metrics[metric.name] = _found(metric, way, texts, evidence)
        for name, told in reported.items():
            if name not in metrics and name not in values:
                metrics[name] = take_value(told, "last")
        for metric in self._derived:
            metrics[metric.name] = _computed(metric, values, metrics)
        return metrics

    def lacking(self, metrics: Mapping[str, MetricValue]) -> str:
        """``metric missing: gflops`` where one that is not optional is missing, else nothing."""
        lacks = [n for n in self._needed if isinstance(metrics.get(n), Missing)]
        if not lacks:
            return ""
        derived = {metric.name for metric in self._derived}
        roots = [name for name in lacks if name not in derived] or lacks
        return f"metric missing: {', '.join(sorted(roots))}"


class MetricReaders:
    """A Meter for each recipe; known by identity, for its expressions are slow to compare."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Recipe, MetricReader]] = {}

    def of(self, recipe: Recipe) -> MetricReader:
        """The one of *recipe*, made when it is asked for first."""
        known = self._known.get(id(recipe))
        if known is None:
            known = self._known[id(recipe)] = (recipe, MetricReader(recipe))
        return known[1]


def _found(
    metric: Metric, way: MetricFinder, texts: dict[str, EvidenceText], evidence: Evidence
) -> MetricValue:
    text = texts.get(metric.source)
    if text is None:
        text = texts[metric.source] = evidence.text(metric.source)
    if text.fault:
        return Missing(text.fault)
    try:
        values = way.find(text)
    except AbsentError as error:
        return Missing(str(error))
    return take_value(values, metric.take) if values else 0  # only a count is made of nothing


def _reported(lines: bytes) -> tuple[dict[str, list[Value]], str]:
    """What the JSON lines of ``$ZEN_METRICS`` say by name, and what is wrong with one of them."""
    values: dict[str, list[Value]] = {}
    fault = ""
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip():
            continue
        try:
            told = read_json(line.decode("utf-8", "surrogateescape"))
        except ValueError:
            told = None
        if not isinstance(told, dict):
            fault = fault or f"; its line {number} is no JSON object"
            continue
        for name, value in told.items():
            if name not in MEASURED:
                values.setdefault(name, []).extend(_plain(value))
    return {name: told for name, told in values.items() if told}, fault


def _plain(value: Any) -> list[Value]:
    """The values in what a program reported: one, or those of a list; objects hold none."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if not isinstance(item, dict | list)]


def _computed(
    metric: Metric, values: Mapping[str, Value], metrics: Mapping[str, MetricValue]
) -> MetricValue:
    formula = metric.formula
    assert formula is not None
    known: dict[str, Value] = {}
    for name in formula.names:
        part = metrics[name] if name in metrics else values.get(name)
        if isinstance(part, Missing):
            return Missing(f"it needs {name}: {part.why}")
        if isinstance(part, Series):
            return Missing(f"it needs {name}, which is a series (TAKE all), not a value")
        known[name] = part
    try:
        value = value_at(formula, known, point=values)
    except ExpressionError as error:
        return Missing(error.diagnostics[0].message)
    return Missing(f"{formula.text} is NULL here") if value is None else value


def _sorted(metrics: tuple[Metric, ...]) -> list[Metric]:
    """The derived metrics, each behind those that it is computed from."""
    derived = {m.name: m for m in metrics if m.formula is not None}
    graph = {
        name: sorted(m.formula.names & derived.keys()) for name, m in derived.items() if m.formula
    }
    try:
        return [derived[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        cycle = [str(name) for name in reversed(error.args[1])]
        raise InputError(
            f"metrics are computed from each other: {' -> '.join(cycle)}",
            place=derived[cycle[0]].place,
            hint="one of them must be found, not computed",
        ) from None
