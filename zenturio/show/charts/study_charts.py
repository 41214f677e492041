"""Charts of studies: query the database and build the chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from zenturio.errors import InputError, Passage, did_you_mean
from zenturio.record import Repository
from zenturio.record.row_filter import NEWEST, RowChoice
from zenturio.show.chart import AGGREGATES, AIMED, KINDS, Aggregate, Errors, Kind

if TYPE_CHECKING:
    import pandas as pd

    from zenturio.query.groups import Deviation
    from zenturio.show.chart import Chart
    from zenturio.show.scene import Scene


MOST_ROWS = 19_000
"""Experiments that are drawn one by one; of more it is a sample."""
MOST_VISITS = 50_000
"""Experiments of a search that are looked at."""
ONE_BY_ONE = ("scatter", "box")
"""Kinds that show experiments, not groups of them."""
GRIDS = ("heatmap", "surface")
STUDY = "study"
"""The column that tells several studies apart."""
GANTT: Literal["gantt"] = "gantt"
"""The kind that is no chart of columns: what ran where and when."""
Drawable = Kind | Literal["gantt"]


@dataclass(frozen=True)
class Asked:
    """A chart of studies; what is empty is chosen or left out."""

    studies: tuple[str, ...]
    kind: Drawable = "line"
    x: str = ""
    y: str = ""
    z: str = ""
    colour: str = ""
    facet: str = ""
    aggregate: Aggregate = "mean"
    errors: Errors | None = None
    log: str = ""
    axes: tuple[str, ...] = ()
    title: str = ""
    where: str | Passage | None = None
    objective: str = ""
    outside: bool = False
    """Whether experiments count whose points the study's space does not hold any more."""
    rows: RowChoice = NEWEST
    """Of which kind of machine, and of which round, results are drawn."""

    @property
    def metric(self) -> str:
        return self.z if self.kind in GRIDS else self.y

    def wishes(self) -> dict[str, Any]:
        """What a chart is told beside its rows."""
        return {
            "colour": self.colour, "facet": self.facet, "aggregate": self.aggregate,
            "errors": self.errors, "log": self.log, "axes": self.axes, "title": self.title,
        }  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A chart, and where it comes from."""

    chart: Chart | Scene
    asked: Asked
    """With what was chosen for what was left empty."""
    sql: str
    """What the database was asked."""
    rows: int
    """Experiments, points or groups that it is made of."""


def drawn(repository: Repository, asked: Asked) -> Drawn:
    """The chart that is *asked* for; InputError says what is wrong."""
    from zenturio.show.charts.column_charts import chart  # noqa: PLC0415 - pandas takes its time

    _check(asked)
    if asked.kind == GANTT:
        return _ran(repository, asked)
    if asked.kind in AIMED:
        table, asked = _visits(repository, asked)
        shown = {}
    else:
        asked = _chosen(repository, asked)
        table = _table(repository, asked)
        shown = {"x": asked.x, "y": asked.y, "z": asked.z}
    found = chart(table, cast("Kind", asked.kind), **asked.wishes(), **shown)
    return Drawn(found, asked, str(table.attrs.get("sql", "")), len(table))


def goal_of(repository: Repository, study: str) -> str:
    """The metric of the study's first objective; wall time, if it has none, or its first."""
    definition = repository.definition(study)
    goals, names = definition.goals, [field.name for field in definition.metrics]
    usual = [*(goal["expression"] for goal in goals[:1]), "wtime", *names[:1]]
    return next((name for name in usual if name in names), "wtime")


def _check(asked: Asked) -> None:
    if not asked.studies:
        raise InputError("nothing to draw", hint="name a study, as zen list shows them")
    for word, known, what in (
        (asked.kind, (*KINDS, GANTT), "kind of chart"),
        (asked.aggregate, AGGREGATES, "aggregate"),
    ):
        if word not in known:
            hint = did_you_mean(word, known)
            raise InputError(f"no {what} is called {word!r}", hint=hint)
    if asked.objective and asked.kind not in AIMED:
        raise InputError(f"a {asked.kind} chart shows no objective", hint="say its y, or its z")


def _ran(repository: Repository, asked: Asked) -> Drawn:
    """What ran where; of all wishes only a condition, a colour and a title concern it."""
    from zenturio.show.charts.schedule_charts import attempted, ran  # noqa: PLC0415 - pandas takes its time

    if len(asked.studies) != 1:
        raise InputError("a gantt chart shows one study", hint="name one, as zen list shows them")
    for name in ("x", "y", "z", "facet", "axes", "log"):
        if getattr(asked, name):
            hint = "leave it out; a colour may be chosen"
            raise InputError(f"a gantt chart has no {name} to choose", hint=hint)
    table = attempted(
        repository, asked.studies[0], where=asked.where, colour=asked.colour, rows=asked.rows
    )
    found = ran(table, colour=asked.colour, title=asked.title)
    return Drawn(found, asked, str(table.attrs["sql"]), len(found.boxes))


def _visits(repository: Repository, asked: Asked) -> tuple[pd.DataFrame, Asked]:
    """The points that searches came to; of several studies each has a line, or all a median."""
    from zenturio.show.charts.search_points import visited_for  # noqa: PLC0415 - pandas takes its time

    several = asked.kind == "convergence" and len(asked.studies) > 1
    if several and asked.aggregate != "median" and not asked.colour:
        asked = replace(asked, colour=STUDY)
    table = visited_for(
        cast("Kind", asked.kind), repository, asked.studies, asked.where, asked.objective, asked.y,
        asked.wishes(), most=MOST_VISITS, outside=asked.outside, rows=asked.rows,
    )  # fmt: skip
    return table, asked


def _chosen(repository: Repository, asked: Asked) -> Asked:
    """What stands where if nothing is said: the first parameters that vary, and the goal."""
    from zenturio.query.groups import varying  # noqa: PLC0415 - pandas takes its time

    first, grid = asked.studies[0], asked.kind in GRIDS
    if len(asked.studies) > 1 and STUDY not in (asked.x, asked.y, asked.colour, asked.facet):
        if grid or asked.kind == "pie":
            asked = replace(asked, facet=STUDY)
        elif not asked.colour:
            asked = replace(asked, colour=STUDY)
    if not asked.x or (grid and not asked.y):
        taken = (asked.x, asked.y, asked.z, asked.colour, asked.facet)
        names = [
            n
            for n in varying(repository, first, outside=asked.outside, rows=asked.rows)
            or ["repeat"]
            if n not in taken
        ]
        asked = replace(asked, x=asked.x or next(iter(names), "repeat"))
        left = [name for name in names if name != asked.x]
        asked = replace(asked, y=asked.y or next(iter(left), "")) if grid else asked
    if not asked.metric:
        goal = goal_of(repository, first)
        asked = replace(asked, z=goal) if grid else replace(asked, y=goal)
    return asked if grid else replace(asked, z="")


def _table(repository: Repository, asked: Asked) -> pd.DataFrame:
    """Groups, or experiments one by one, of all studies."""
    tables = [_one(repository, study, asked) for study in asked.studies]
    return tables[0] if len(tables) == 1 else _together(asked.studies, tables)


def _one(repository: Repository, study: str, asked: Asked) -> pd.DataFrame:
    from zenturio.query import frame  # noqa: PLC0415 - pandas takes its time
    from zenturio.query.groups import groups  # noqa: PLC0415

    several = len(asked.studies) > 1
    keys = [asked.x, *([asked.y] if asked.z else []), asked.colour, asked.facet]
    names = [name for name in dict.fromkeys(keys) if name and not (several and name == STUDY)]
    if asked.kind in ONE_BY_ONE:
        wanted = [*names, asked.metric]
        most = -(-MOST_ROWS // len(asked.studies))
        return frame(
            repository,
            study,
            where=asked.where,
            columns=wanted,
            most=most,
            outside=asked.outside,
            rows=asked.rows,
        )
    if not asked.metric:
        raise InputError(f"a {asked.kind} chart needs a column for its {'z' if asked.z else 'y'}")
    finite = {"line": [asked.x], "surface": [asked.x, asked.y]}.get(asked.kind, [])
    return groups(
        repository, study, names, asked.metric, asked.aggregate, where=asked.where,
        finite=[name for name in finite if name in names],
        deviation=_deviation(asked), outside=asked.outside, rows=asked.rows,
    )  # fmt: skip


def _deviation(asked: Asked) -> Deviation:
    """What error bars need."""
    if asked.kind not in ("line", "bar") or asked.aggregate != "mean" or asked.errors == "none":
        return "no"
    return "yes" if asked.errors else "of repeats"


def _together(studies: Sequence[str], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of several studies, with a column that tells which."""
    import pandas as pd  # noqa: PLC0415

    from zenturio.query.origins import Origins  # noqa: PLC0415

    named = [table.assign(**{STUDY: name}) for table, name in zip(tables, studies, strict=True)]
    whole = pd.concat(named, ignore_index=True)
    attrs = [table.attrs for table in tables]
    whole.attrs = attrs[0] | {
        "study": ", ".join(studies),
        "parameters": list(dict.fromkeys(n for each in attrs for n in each["parameters"])),
        "units": {name: unit for each in attrs[::-1] for name, unit in each["units"].items()},
        "of": sum(each["of"] for each in attrs),
        "sql": "\n\n".join(each["sql"] for each in attrs),
        "left_out": sum(each.get("left_out", 0) for each in attrs),
        **Origins.together(attrs).attrs(),
    }
    sampled = [each.get("sampled", (len(t), len(t))) for each, t in zip(attrs, tables, strict=True)]
    if any(drawn < found for drawn, found in sampled):
        whole.attrs["sampled"] = tuple(map(sum, zip(*sampled, strict=True)))
    if "grouped" in attrs[0]:
        hidden = dict.fromkeys(name for each in attrs for name in each["grouped"].hidden)
        whole.attrs["grouped"] = replace(attrs[0]["grouped"], hidden=tuple(hidden))
    return whole
