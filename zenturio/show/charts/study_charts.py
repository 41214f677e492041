"""Charts of studies: query the database for what a `ChartQuery` asks, and build the chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError
from zenturio.record import PAIRED, Repository
from zenturio.show.charts.chart_query import KINDS, ChartQuery, counts_workers

if TYPE_CHECKING:
    import pandas as pd

    from zenturio.query.frames import Spread
    from zenturio.show.chart import Chart

MOST_ROWS = 19_000
"""Experiments that are drawn one by one; of more it is a sample."""
MOST_POINTS = 50_000
"""Experiments of a search that are read; of more it is a sample."""
STUDY = "study"
"""The column that tells several studies apart."""


@dataclass(frozen=True)
class ChartResult:
    """A chart, and what it was made from."""

    chart: Chart
    query: ChartQuery
    """With the columns that were chosen where the request left them empty."""
    sql: str
    rows: int
    """Experiments, points or groups in the chart."""


def draw_charts(repository: Repository, query: ChartQuery) -> list[ChartResult]:
    """Return the charts of *query*, one for each metric.

    A study may be named with its version, ``training@1``. Options that the kind does not have are
    ignored. Raise InputError if the rest cannot be drawn.
    """
    from zenturio.study.recorded_definition import resolve_name  # noqa: PLC0415 - loads NumPy

    studies = tuple(dict.fromkeys(resolve_name(repository, name) for name in query.studies))
    return [draw_chart(repository, chart) for chart in replace(query, studies=studies).charts()]


def draw_chart(repository: Repository, query: ChartQuery) -> ChartResult:
    """Return the chart of *query*; raise InputError if it cannot be drawn."""
    from zenturio.show.charts.column_charts import build_chart  # noqa: PLC0415 - loads pandas

    if not query.studies:
        raise InputError("no study to draw", hint="name a study, as zen list shows them")
    query.check()
    source = KINDS[query.kind].source
    if query.objective and source != "search":
        raise InputError(
            f"a {query.kind} chart does not use an objective", hint="name its y or its z"
        )
    if source == "attempts":
        return _draw_gantt(repository, query)
    if source == "design":
        return _draw_sensitivity(repository, query)
    if source == "search":
        table, query = _search_table(repository, query)
        # The table has a column for each objective; neither text names a column of it.
        chart = build_chart(replace(query, x="", y=(), z="", objective=""), table)
    else:
        query = _with_defaults(repository, query)
        aggregated = query.with_aggregate(_unit(repository, query))
        table = _table(repository, aggregated)
        if query.kind == "scaling":
            table.attrs["maximized"] = _is_maximized(repository, query)
        chart = build_chart(aggregated, table)
    return ChartResult(chart, query, str(table.attrs.get("sql", "")), len(table))


def _unit(repository: Repository, query: ChartQuery) -> str:
    """Return the unit of the metric in the first study that has one."""
    definitions = map(repository.definition, query.studies)
    fields = (f for definition in definitions for f in definition.metrics)
    return next((f.unit for f in fields if f.name == query.metric and f.unit), "")


def _is_maximized(repository: Repository, query: ChartQuery) -> bool:
    """Return whether the objective of a study maximizes the metric."""
    from zenturio.query.scaling import is_maximized  # noqa: PLC0415 - loads NumPy

    definitions = map(repository.definition, query.studies)
    return any(is_maximized(definition.goals, query.metric) for definition in definitions)


def _draw_gantt(repository: Repository, query: ChartQuery) -> ChartResult:
    from zenturio.show.charts import schedule_charts  # noqa: PLC0415 - loads pandas

    if len(query.studies) != 1:
        raise InputError("a gantt chart shows one study", hint="name one, as zen list shows them")
    for part in ("x", "y", "z", "facet", "axes", "log"):
        if getattr(query, part):
            hint = "leave it out; only a colour can be chosen"
            raise InputError(f"a gantt chart has no {part} to choose", hint=hint)
    table = schedule_charts.latest_attempts(
        repository,
        query.studies[0],
        where=query.where or None,
        colour=query.colour,
        rows=query.row_choice,
    )
    chart = schedule_charts.experiments_gantt(table, colour=query.colour, title=query.title)
    return ChartResult(chart, query, str(table.attrs["sql"]), len(chart.rectangles))


def _draw_sensitivity(repository: Repository, query: ChartQuery) -> ChartResult:
    from zenturio.query.sensitivity import study_sensitivity  # noqa: PLC0415 - loads pandas
    from zenturio.show.charts.search_charts import sensitivity_chart  # noqa: PLC0415
    from zenturio.study.last_options import read_design  # noqa: PLC0415

    if len(query.studies) != 1:
        raise InputError("a sensitivity chart shows one study", hint="name one")
    for part in ("where", "x", "z", "colour", "facet", "axes", "log"):
        if getattr(query, part):
            raise InputError(
                f"a sensitivity chart has no {part} to choose", hint="only its metric: y"
            )
    (study,) = query.studies
    design = read_design(study, repository.definition(study).notes)
    answer = study_sensitivity(repository, study, design, query.y_column, rows=query.row_choice)
    chart = sensitivity_chart(study, answer, title=query.title)
    return ChartResult(chart, query, answer.sql, answer.used)


def _search_table(repository: Repository, query: ChartQuery) -> tuple[pd.DataFrame, ChartQuery]:
    """Return the points of the searches; several studies are several lines, or one median."""
    from zenturio.show.charts.search_charts import points_for_chart  # noqa: PLC0415 - loads pandas

    is_comparison = query.kind == "convergence" and len(query.studies) > 1
    if is_comparison and query.aggregate != "median" and not query.colour:
        query = replace(query, colour=STUDY)
    return points_for_chart(repository, query, most=MOST_POINTS), query


def _with_defaults(repository: Repository, query: ChartQuery) -> ChartQuery:
    """Return *query* with columns for the empty parts: varying parameters, and the objective."""
    from zenturio.query.frames import varying_parameters  # noqa: PLC0415 - loads pandas

    first = query.studies[0]
    shown = (query.x, query.y_column, query.colour, query.facet)
    # Studies, and versions that were compared, are drawn beside each other, never averaged.
    compared = STUDY if len(query.studies) > 1 else _version_parameter(repository, first)
    if compared and compared not in shown:
        if query.is_grid or query.kind == "pie":
            query = query if query.facet and compared != STUDY else replace(query, facet=compared)
        elif not query.colour:
            query = replace(query, colour=compared)
    if not query.x or (query.is_grid and not query.y):
        used = (query.x, query.y_column, query.z, query.colour, query.facet)
        parameters = varying_parameters(
            repository, first, outside=query.outside, rows=query.row_choice
        )
        free = [name for name in parameters or ["repeat"] if name not in used]
        if query.kind == "scaling":
            free = [name for name in free if counts_workers(name)]
            if not free:
                raise InputError(
                    f"no parameter of {first} has the name of a number of workers",
                    hint="--x names what counts them, such as threads or nodes",
                )
        query = replace(query, x=query.x or next(iter(free), "repeat"))
        if query.is_grid and not query.y:
            query = replace(query, y=tuple(name for name in free if name != query.x)[:1])
    if not query.metric:
        from zenturio.query.select_results import default_metric  # noqa: PLC0415 - loads NumPy

        metric = default_metric(repository.definition(first))
        query = replace(query, z=metric) if query.is_grid else replace(query, y=(metric,))
    return query if query.is_grid else replace(query, z="")


def _version_parameter(repository: Repository, study: str) -> str:
    """Return the parameter that tells versions apart in a study of ``compare --run``."""
    note: Any = repository.definition(study).notes.get(PAIRED) or {}
    return str(note.get("parameter", ""))


def _table(repository: Repository, query: ChartQuery) -> pd.DataFrame:
    """Return the groups, or the experiments one by one, of all studies."""
    tables = [_study_table(repository, study, query) for study in query.studies]
    return tables[0] if len(tables) == 1 else _joined(query.studies, tables)


def _study_table(repository: Repository, study: str, query: ChartQuery) -> pd.DataFrame:
    from zenturio.query import study_frame  # noqa: PLC0415 - loads pandas
    from zenturio.query.frames import group_frame  # noqa: PLC0415

    has_study_column = len(query.studies) > 1  # added when the tables are joined
    parts = [query.x, *(query.y if query.is_grid else ()), query.colour, query.facet]
    columns = [
        name for name in dict.fromkeys(parts) if name and not (has_study_column and name == STUDY)
    ]
    where = query.where or None
    if KINDS[query.kind].source == "rows":
        most = -(-MOST_ROWS // len(query.studies))
        return study_frame(
            repository, study, where=where, columns=[*columns, query.metric], most=most,
            outside=query.outside, rows=query.row_choice,
        )  # fmt: skip
    if not query.metric:
        letter = "z" if query.is_grid else "y"
        raise InputError(f"a {query.kind} chart needs a column for its {letter}")
    # A number that is infinite has no place on these axes.
    finite = {"line": [query.x], "surface": [query.x, query.y_column]}.get(query.kind, [])
    return group_frame(
        repository, study, columns, query.metric, query.aggregate, where=where,
        finite=[name for name in finite if name in columns],
        spread=_needed_spread(query), outside=query.outside, rows=query.row_choice,
    )  # fmt: skip


def _needed_spread(query: ChartQuery) -> Spread:
    """Return for which groups the error bars need to know how far values are apart."""
    has_bars = query.kind in ("line", "bar") and query.aggregate in ("mean", "median")
    if not has_bars or query.errors == "none":
        return "no"
    return "yes" if query.errors else "of repeats"


def _joined(studies: Sequence[str], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several studies, with a column that names the study."""
    import pandas as pd  # noqa: PLC0415

    from zenturio.query.aggregates import MachineRoundCounts  # noqa: PLC0415

    named = [table.assign(**{STUDY: name}) for table, name in zip(tables, studies, strict=True)]
    joined = pd.concat(named, ignore_index=True)
    attrs = [table.attrs for table in tables]
    joined.attrs = attrs[0] | {
        "study": ", ".join(studies),
        "parameters": list(dict.fromkeys(n for attr in attrs for n in attr["parameters"])),
        # Reversed, so that the unit of the first study that has the column counts.
        "units": {name: unit for attr in attrs[::-1] for name, unit in attr["units"].items()},
        "of": sum(attr["of"] for attr in attrs),
        "sql": "\n\n".join(attr["sql"] for attr in attrs),
        "left_out": sum(attr.get("left_out", 0) for attr in attrs),
        **MachineRoundCounts.together(attrs).attrs(),
    }
    if "without" in attrs[0]:
        joined.attrs["without"] = sum(attr["without"] for attr in attrs)
    sampled = [attr.get("sampled", (len(t), len(t))) for attr, t in zip(attrs, tables, strict=True)]
    if any(drawn < total for drawn, total in sampled):
        joined.attrs["sampled"] = tuple(map(sum, zip(*sampled, strict=True)))
    if "grouped" in attrs[0]:
        hidden = dict.fromkeys(name for attr in attrs for name in attr["grouped"].hidden)
        joined.attrs["grouped"] = replace(attrs[0]["grouped"], hidden=tuple(hidden))
    return joined
