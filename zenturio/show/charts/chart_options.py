"""Options of a chart: its kind, and the columns for its parts."""

from __future__ import annotations

from dataclasses import dataclass

from zenturio.errors import InputError, did_you_mean
from zenturio.show.chart import AGGREGATES, KINDS, Aggregate, Errors, Kind


@dataclass(frozen=True, slots=True)
class Wish:
    """The kind of chart and the columns for its parts; what is empty is not shown."""

    kind: Kind
    x: str = ""
    y: str = ""
    z: str = ""
    """The metric of a heatmap or a surface, whose x and y are both parameters."""
    colour: str = ""
    facet: str = ""
    aggregate: Aggregate = "mean"
    errors: Errors | None = None
    """None: the 95 % interval where there are repeats."""
    log: str = ""
    """The letters of the axes that are logarithmic, such as ``xy``."""
    title: str = ""
    axes: tuple[str, ...] = ()
    """Of parallel axes and slices: the columns, from left to right."""
    goals: tuple[str, ...] = ()
    """Of a search's pictures: ``minimize column``, ``maximize column``, if not the study's."""

    @property
    def metric(self) -> str:
        """The column that is aggregated."""
        return self.z or self.y

    def check(self) -> None:
        """Raise InputError if the options contradict each other or name nothing known."""
        if self.kind not in KINDS:
            hint = did_you_mean(self.kind, KINDS)
            raise InputError(f"no kind of chart is called {self.kind!r}", hint=hint)
        if self.aggregate not in AGGREGATES:
            hint = did_you_mean(self.aggregate, AGGREGATES)
            raise InputError(f"no aggregate is called {self.aggregate!r}", hint=hint)
        if self.aggregate != "mean" and self.errors in ("interval", "std"):
            raise InputError(f"error bars belong to a mean, not to a {self.aggregate}")
        if wrong := set(self.log) - set("xyz"):
            raise InputError(f"no axis is called {min(wrong)!r}", hint="x, y or z")
