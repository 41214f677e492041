"""What an experiment REQUIREs of the machine that it runs on."""

from __future__ import annotations

from zenturio.errors import ExpressionError, PlaceError, ZenError
from zenturio.experiment import Experiment
from zenturio.experiment.experiment import value_at
from zenturio.experiment.provenance import host_values
from zenturio.expression import Expression, holds, text_of


def check_requirements(experiment: Experiment) -> None:
    """ExpressionError where a REQUIRE of *experiment* has no value, on a machine as this one."""
    for expression in experiment.recipe.requires:
        value_at(expression, experiment.values, host=host_values())


def unmet_requirement(experiment: Experiment) -> ZenError | None:
    """Return why this machine is not what *experiment* wants; none where it is."""
    try:
        for expression in experiment.recipe.requires:
            if not holds(value_at(expression, experiment.values, host=host_values())):
                return _requirement_error(expression)
    except ExpressionError as error:
        return error
    return None


def _requirement_error(require: Expression) -> PlaceError:
    facts = host_values()
    actual = ", ".join(f"host.{n} = {text_of(facts.get(n))}" for n in sorted(require.host_names))
    return PlaceError(
        f"this machine is not as REQUIRE {require.text} wants it: {actual or 'see the values'}",
        place=require.passage.place(0, len(require.text)),
        hint="run it on another machine, or require less",
    )
