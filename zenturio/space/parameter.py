"""Parameters, and groups of parameters that vary together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from zenturio.errors import Place, SpaceError
from zenturio.expression import Expression
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Domain

Kind = Literal["substitute", "assign", "env", "param"]


@dataclass(frozen=True)
class Parameter:
    """A named set of values, or a named expression that is computed from other parameters."""

    name: str
    domain: Domain | None = None
    kind: Kind = "param"
    unit: str = ""
    default: str | None = None
    """The text that is filled in while the parameter is inactive."""
    when: Expression | None = None
    """A condition; where it is not true, the parameter is inactive and its value is NULL."""
    derived: Expression | None = None
    place: Place | None = None

    def __post_init__(self) -> None:
        if (self.domain is None) == (self.derived is None):
            raise SpaceError(
                f"parameter {self.name!r} needs a set of values, or an expression",
                place=self.place,
                hint="give one of the two",
            )
        if self.derived is not None and self.when is not None:
            raise SpaceError(
                f"the derived parameter {self.name!r} cannot have a WHEN",
                place=self.place,
                hint="write the condition into it: x if condition else y",
            )

    @property
    def needs(self) -> frozenset[str]:
        """The parameters that must be chosen before this one."""
        names = frozenset[str]().union(
            *(expression.names | expression.indexed for expression in self._expressions())
        )
        return names | (self.domain.names if isinstance(self.domain, Dependent) else frozenset())

    def _expressions(self) -> Iterator[Expression]:
        yield from (part for part in (self.when, self.derived) if part is not None)


@dataclass(frozen=True)
class Zip:
    """The parameters *names* vary together: all take the same position in their sets."""

    names: tuple[str, ...]
    place: Place | None = None

    @property
    def text(self) -> str:
        return " == ".join(self.names)
