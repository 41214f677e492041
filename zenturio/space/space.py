"""The space: what is chosen, what must hold, and every point that there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from zenturio.expression import parse
from zenturio.space.definition import Constraint, Definition, define
from zenturio.space.parameter import Parameter, Zip
from zenturio.space.sets import Values, domain_of


class Space:
    """All choices for *parameters* (and *sets*, by name) that keep the *constraints*."""

    def __init__(
        self,
        parameters: Iterable[Parameter] = (),
        constraints: Iterable[Constraint | str] = (),
        **sets: Parameter | Values,
    ) -> None:
        named = (_parameter(name, values) for name, values in sets.items())
        parsed = (parse(each) if isinstance(each, str) else each for each in constraints)
        self._definition: Definition = define((*parameters, *named), tuple(parsed))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters as they were declared."""
        return self._definition.layout.parameters

    @property
    def dimensions(self) -> tuple[Parameter, ...]:
        """The parameters that are chosen, not derived."""
        return tuple(each for each in self.parameters if each.derived is None)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints as they were declared."""
        return self._definition.constraints

    def where(self, *constraints: Constraint | str) -> Space:
        """The points of this space that keep *constraints* as well."""
        return Space(self.parameters, (*self.constraints, *constraints))

    def together(self, *names: str) -> Space:
        """The points of this space where the parameters *names* run position by position."""
        return self.where(Zip(names))

    def replace(self, parameter: Parameter) -> Space:
        """This space with *parameter* in the place of the one with its name."""
        kept = [parameter if each.name == parameter.name else each for each in self.parameters]
        return Space(kept, self.constraints)


def _parameter(name: str, values: Parameter | Values) -> Parameter:
    if isinstance(values, Parameter):
        return replace(values, name=name)
    return Parameter(name, domain_of(values))
