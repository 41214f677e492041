"""A chart as an address states it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from zenturio.errors import InputError, Passage
from zenturio.record.row_filter import RowChoice, read_round
from zenturio.show.chart import AIMED, KINDS, Aggregate, Errors
from zenturio.show.charts.study_charts import GANTT, GRIDS, Asked, Drawable, Drawn, drawn
from zenturio.study.pinned import resolve

if TYPE_CHECKING:
    from zenturio.record import Repository


Pairs = Sequence[tuple[str, str]]
"""The part of an address behind its question mark."""

MOST_METRICS = 6
MOST_STUDIES = 12
PLAIN = ("line", "bar", "scatter", "box", "pie")
"""Kinds that show a metric over a column; several metrics make several charts."""


@dataclass(frozen=True)
class View:
    """A state of the chart page: its address says all of it."""

    studies: tuple[str, ...] = ()
    kind: Drawable = "line"
    x: str = ""
    metrics: tuple[str, ...] = ()
    """Of `PLAIN` kinds each has a chart; of grids it is the y."""
    z: str = ""
    colour: str = ""
    facet: str = ""
    aggregate: Aggregate = "mean"
    errors: Errors | None = None
    log: str = ""
    axes: tuple[str, ...] = ()
    where: str = ""
    objective: str = ""
    title: str = ""
    machine: str = ""
    """The kind of machine whose results are drawn: its label, or a part of it."""
    round: str = ""
    """The round whose results are drawn: a number, or ``all``."""
    rows: str = ""
    """A condition on the rows of the table below: what was brushed."""

    @classmethod
    def of(cls, pairs: Pairs) -> View:
        """InputError if it asks for more than can be looked at."""
        given = dict(pairs)
        found = cls(
            studies=_several(pairs, "study"),
            kind=cast("Drawable", given.get("kind") or "line"),
            x=given.get("x", ""),
            metrics=_several(pairs, "y"),
            z=given.get("z", ""),
            colour=given.get("color", ""),
            facet=given.get("facet", ""),
            aggregate=cast("Aggregate", given.get("agg") or "mean"),
            errors=cast("Errors | None", given.get("errors") or None),
            log="".join(letter for letter in "xyz" if letter in "".join(_several(pairs, "log"))),
            axes=_several(pairs, "axes"),
            where=given.get("where", "").strip(),
            objective=given.get("objective", "").strip(),
            title=given.get("title", "").strip(),
            machine=given.get("machine", "").strip(),
            round=given.get("round", "").strip(),
            rows=given.get("rows", "").strip(),
        )
        if len(found.studies) > MOST_STUDIES or len(found.metrics) > MOST_METRICS:
            raise InputError(
                "that is more than can be looked at in one page",
                hint=f"up to {MOST_STUDIES} studies, and {MOST_METRICS} metrics",
            )
        return found

    @property
    def given(self) -> Mapping[str, Any]:
        """As an address has it; what is usual is left out."""
        return {
            "study": self.studies, "kind": self.kind, "x": self.x, "y": self.metrics, "z": self.z,
            "color": self.colour, "facet": self.facet,
            "agg": "" if self.aggregate == "mean" else self.aggregate,
            "errors": self.errors, "log": self.log, "axes": self.axes, "where": self.where,
            "objective": self.objective, "title": self.title, "machine": self.machine,
            "round": self.round, "rows": self.rows,
        }  # fmt: skip

    @property
    def choice(self) -> RowChoice:
        """Which results are drawn."""
        return RowChoice(self.machine, read_round(self.round))

    def asked(self) -> list[Asked]:
        """One chart, or one for each metric."""
        condition = Passage.of(self.where, "filter") if self.where else None
        if self.kind == GANTT:
            return [
                Asked(
                    self.studies,
                    GANTT,
                    colour=self.colour,
                    title=self.title,
                    where=condition,
                    rows=self.choice,
                )
            ]
        aimed = self.kind in AIMED
        asked = Asked(
            self.studies,
            self.kind,
            x="" if aimed else self.x,
            y=self.metrics[0] if self.metrics and not (aimed and self.objective) else "",
            z=self.z if self.kind in GRIDS else "",
            colour=self.colour if self.kind not in (*GRIDS, "pie", *_COLOURED) else "",
            facet="" if aimed else self.facet,
            aggregate=self.aggregate,
            errors=self.errors if self.kind in ("line", "bar") else None,
            log=self.log,
            axes=self.axes if aimed else (),
            title=self.title,
            where=condition,
            objective=self.objective if aimed else "",
            rows=self.choice,
        )
        if self.kind in PLAIN and len(self.metrics) > 1:
            return [replace(asked, y=metric) for metric in self.metrics]
        return [asked]

    def drawn(self, repository: Repository) -> list[Drawn]:
        """The charts that it shows; a study may be called by its version, ``training@1``."""
        studies = tuple(dict.fromkeys(resolve(repository, name) for name in self.studies))
        return [drawn(repository, each) for each in replace(self, studies=studies).asked()]


_COLOURED = tuple(kind for kind in AIMED if kind != "convergence")
assert set(PLAIN) | set(GRIDS) | set(AIMED) == set(KINDS)


def _several(pairs: Pairs, wanted: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for name, value in pairs if name == wanted and value))
