"""Parsed directives, before they are combined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zenturio.annotate.model import Command, Goal, Match, Metric, Probe, UseKind
from zenturio.errors import Passage, Place
from zenturio.expression import Expression, Type

Way = Literal["substitute", "assign", "env", "param"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """SUBSTITUTE, ASSIGN, ENV or PARAM: exactly one of set, expression and ``same`` is given."""

    way: Way
    target: Passage
    name: Passage
    elements: Passage | None = None
    expression: Expression | None = None
    same: Passage | None = None
    type: Type | None = None
    unit: str | None = None
    default: str | None = None
    when: Expression | None = None
    glob: Passage | None = None
    match: Match = "word"
    optional: bool = False
    begins: bool = False
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each clause stands that was written."""

    @property
    def place(self) -> Place:
        return self.target.place(0, len(self.target.text))


@dataclass(frozen=True, slots=True)
class EndStatement:
    """END, END target, or END CR."""

    name: Passage | None
    region: bool
    place: Place


@dataclass(frozen=True, slots=True)
class ConstraintStatement:
    """CONSTRAINT VALUE."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class ZipStatement:
    """CONSTRAINT INDEX."""

    names: tuple[Passage, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class BuildStatement:
    command: Command


@dataclass(frozen=True, slots=True)
class RunStatement:
    command: Command


@dataclass(frozen=True, slots=True)
class RequireStatement:
    expression: Expression


@dataclass(frozen=True, slots=True)
class RankStatement:
    expression: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class RepeatStatement:
    count: int
    seed: Passage | None
    place: Place


@dataclass(frozen=True, slots=True)
class MetricStatement:
    """METRIC; its name as written."""

    name: Passage
    metric: Metric


@dataclass(frozen=True, slots=True)
class RegionStatement:
    """CR … BEGIN."""

    name: Passage
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True)
class ObjectiveStatement:
    """OBJECTIVE."""

    goals: tuple[Goal, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class OutputStatement:
    """OUTPUT."""

    globs: tuple[str, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class UseStatement:
    """USE."""

    kind: UseKind
    texts: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class AfterStatement:
    """AFTER."""

    stage: Passage
    on: tuple[Passage, ...]


Statement = (
    Declaration
    | EndStatement
    | ConstraintStatement
    | ZipStatement
    | BuildStatement
    | RunStatement
    | RequireStatement
    | RankStatement
    | RepeatStatement
    | MetricStatement
    | RegionStatement
    | ObjectiveStatement
    | OutputStatement
    | UseStatement
    | AfterStatement
)
