"""What a space is made of: parameters, and those of them that run together."""

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
    """A name with the set of what it may be, or with the expression that it is computed by."""

    name: str
    domain: Domain | None = None
    kind: Kind = "param"
    unit: str = ""
    default: str | None = None
    """Its text while it is inactive."""
    when: Expression | None = None
    """Where this is not true the parameter is inactive: its value is NULL."""
    derived: Expression | None = None
    place: Place | None = None

    def __post_init__(self) -> None:
        if (self.domain is None) == (self.derived is None):
            raise SpaceError(
                f"parameter {self.name!r} needs a set, or an expression that derives it",
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
        """The parameters that must be known before this one can be."""
        found = frozenset[str]().union(*(each.names | each.indexed for each in self._expressions()))
        return found | (self.domain.names if isinstance(self.domain, Dependent) else frozenset())

    def _expressions(self) -> Iterator[Expression]:
        yield from (each for each in (self.when, self.derived) if each is not None)


@dataclass(frozen=True)
class Zip:
    """The parameters *names* run together, position by position."""

    names: tuple[str, ...]
    place: Place | None = None

    @property
    def text(self) -> str:
        return " == ".join(self.names)
