"""Checks derived parameters and metrics: cycles, types and unknown names."""

from __future__ import annotations

from collections.abc import Mapping

from zenturio.annotate.model import Metric
from zenturio.annotate.name_resolution import NameTable, in_order
from zenturio.expression import Expression
from zenturio.space import Dependent, Parameter


def check_parameters(names: NameTable, dimensions: Mapping[str, Parameter]) -> None:
    """Derived values, conditions and bounds, each behind what it needs."""
    needs = {name: parameter.needs for name, parameter in dimensions.items()}
    places = {name: parameter.place for name, parameter in dimensions.items()}
    order, circular = in_order(needs, places, names.diagnostics)
    for name in order:
        parameter = dimensions[name]
        if name in circular:
            continue
        if parameter.derived is not None:
            names.parameters[name] = names.check(parameter.derived, "a derived value")
        if parameter.when is not None:
            names.truth(parameter.when, "WHEN")
        if isinstance(parameter.domain, Dependent):
            for bound in parameter.domain.bounds:
                names.number(bound, "a bound")


def check_formulas(names: NameTable, metrics: Mapping[str, Metric]) -> None:
    formulas: dict[str, Expression] = {
        name: metric.formula for name, metric in metrics.items() if metric.formula is not None
    }
    needs = {name: formula.names for name, formula in formulas.items()}
    places = {name: metrics[name].place for name in formulas}
    order, circular = in_order(needs, places, names.diagnostics)
    for name in order:
        if name not in circular:
            names.metrics[name] = names.check(formulas[name], "a metric", metrics=True)
