"""The verbs of charts: plot, report, scaling."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json
from zenturio.cli.results import (
    All,
    OfMachine,
    OfRound,
    Tables,
    Where,
    expression,
    names_in,
    query_of,
)

if TYPE_CHECKING:
    from zenturio.experiment.signed_ranks import Interval
    from zenturio.query.scaling import Scaling, ScalingModel
    from zenturio.show.charts.chart_query import ChartQuery


TERMINAL = "-"
MOST_ROWS = 200_000
"""Rows of an SQL query in a chart."""


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(plot)
    app.command()(report)
    app.command()(scaling)


def plot(
    study: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STUDY]...", help="Study to draw; each of several gets a colour."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            metavar="line|bar|...",
            help="Kind of chart: line bar scatter box scaling pie heatmap surface; for searches: "
            "convergence importance dependence slice pareto parallel; for designs: "
            "sensitivity; for hosts and times: gantt; or one of a plug-in.",
        ),
    ] = "line",
    x: Annotated[str, typer.Option("--x", metavar="COLUMN", help="Column along the x axis.")] = "",
    y: Annotated[
        str,
        typer.Option(
            "--y", metavar="COLUMN", help="Column along the y axis; default: the objective."
        ),
    ] = "",
    z: Annotated[
        str, typer.Option("--z", metavar="METRIC", help="Metric of a heatmap or surface.")
    ] = "",
    objective: Annotated[
        str,
        typer.Option(
            metavar="'MINIMIZE expr'", help="Objectives of a search chart; default: the study's."
        ),
    ] = "",
    color: Annotated[
        str, typer.Option("--color", metavar="COLUMN", help="Column for the colours.")
    ] = "",
    facet: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column with one panel for each value.")
    ] = "",
    free: Annotated[
        str, typer.Option(metavar="y", help="Give each panel a y axis of its own.")
    ] = "",
    agg: Annotated[
        str,
        typer.Option(
            help="Aggregate of repeats: mean, median, min, max, sum, std, count, var, sem, iqr, "
            "geomean, a quantile such as p90, mean_low, mean_high, median_low or median_high; "
            "default: median of times, mean of others. With median, a convergence chart shows "
            "median and quartiles over all studies and repeats."
        ),
    ] = "",
    errors: Annotated[
        str, typer.Option(metavar="interval|std|none", help="Error bars over repeats.")
    ] = "interval",
    rate: Annotated[
        bool | None,
        typer.Option(
            "--rate/--no-rate",
            help="In a scaling chart, y is a rate (more is better), or a time; "
            "default: a rate if the OBJECTIVE maximizes it.",
        ),
    ] = None,
    log: Annotated[str, typer.Option(metavar="x,y", help="Axes with a logarithmic scale.")] = "",
    axes: Annotated[
        str,
        typer.Option(
            metavar="a,b", help="Parameters of a parallel, slice, importance or dependence chart."
        ),
    ] = "",
    title: Annotated[
        str, typer.Option(help="Title of the chart; default: a description of its contents.")
    ] = "",
    where: Where = None,
    query: Annotated[
        str,
        typer.Option(
            metavar="SELECT...",
            help="Draw the result of SQL, or of a FILE.sql, instead of a study; --x and --y "
            "default to its first columns.",
        ),
    ] = "",
    tables: Tables = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Output file: .html, .png, .svg or .pdf; - for the terminal."
        ),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Draw a chart of a study.

    Examples: zen plot matmul --x n --y gflops --color threads --log x -o gflops.svg; zen plot
    matmul --kind convergence -o -; zen plot --query "SELECT n, wtime / threads AS share FROM
    study_matmul" --x n --y share
    """
    from zenturio.show.charts.chart_query import ChartQuery
    from zenturio.show.charts.column_charts import build_chart, with_first_columns
    from zenturio.show.charts.study_charts import draw_chart
    from zenturio.show.renderers.terminal import render_text
    from zenturio.show.report_store import save
    from zenturio.study.overview import opened_repository

    chart_query = ChartQuery.of(
        studies=study,
        kind=kind,
        x=x,
        y=y,
        z=z,
        colour=color,
        facet=facet,
        free=free,
        aggregate=agg,
        errors=None if errors == "interval" else errors,
        rate=rate,
        log="".join(names_in(log)),
        axes=names_in(axes),
        title=title,
        where=expression(where, "--where"),
        objective=objective,
        outside=outside,
        machine=machine,
        round=round_,
    )
    _check_source(chart_query, query, tables)
    with opened_repository(db) as repository:
        if query:
            table = _answer(repository, query_of(query, tables))
            chart_query = with_first_columns(chart_query, table)
            chart, rows = build_chart(chart_query, table), len(table)
        else:
            result = draw_chart(repository, chart_query)
            chart, rows = result.chart, result.rows
    # A name of a study may hold a slash, which would name a folder here.
    path = out or Path(f"{'-'.join(chart_query.studies) or 'plot'}.html".replace("/", "-"))
    facts: dict[str, Any] = {"file": str(path), "kind": kind, "rows": rows}
    if str(path) == TERMINAL:
        lines = render_text(chart)
        facts["lines"] = lines
    else:
        save(chart, path)
        lines = [f"{path}: {chart.note if chart.rectangles else chart.counts}"]
    output.facts(facts) if json else typer.echo("\n".join(lines))


def report(
    file: Annotated[Path, typer.Argument(help="Markdown file with charts.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output file: .html, .png, .svg or .pdf; default: .html."),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Export a report with its charts as one file.

    A chart that cannot be drawn is replaced by its error, which also determines the exit code.

    In the Markdown file, a chart is a line with the address of the chart in zen portal:
    ![caption](/chart?study=matmul&kind=line&x=n&y=gflops)

    Example: zen report reports/solvers.md -o solvers.pdf
    """
    from zenturio.errors import InputError, PlaceError, ZenError
    from zenturio.files import write_output
    from zenturio.record.open import project_folder
    from zenturio.show.markdown_report import ChartBlock, parse_report
    from zenturio.show.report_store import export_report
    from zenturio.study.overview import opened_repository

    try:
        parsed = parse_report(file.read_text("utf-8"), file.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}", hint="name a Markdown file") from error
    path = out or file.with_suffix(".html")
    kind = path.suffix.lower().removeprefix(".")
    errors: list[tuple[str, ZenError]] = []
    with opened_repository(db) as repository:
        content = export_report(
            parsed, kind, repository, project_folder(), slow=True,
            on_error=lambda caption, error: errors.append((caption or "a chart", error)),
        )  # fmt: skip
    try:
        write_output(path, [content])
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror}") from error
    pictures = sum(isinstance(block, ChartBlock) for block in parsed.blocks)
    lines = [f"{caption}: {error}" for caption, error in errors]
    facts = {"file": str(path), "title": parsed.title, "charts": pictures, "errors": lines}
    words = f"{path}: {parsed.title}, charts: {pictures}"
    words += f", {len(errors)} of them cannot be drawn" if errors else ""
    output.facts(facts) if json else typer.echo(words)
    if errors:
        if not json:
            typer.echo("\n".join(lines), err=True)
        raise typer.Exit(errors[0][1].exit_code)


def scaling(
    study: Annotated[str, typer.Argument(help="Name of the study.")],
    over: Annotated[
        str, typer.Option(metavar="PARAM", help="Parameter: threads, processes, nodes.")
    ],
    metric: Annotated[str, typer.Option(help="Time or rate.")] = "wtime",
    weak: Annotated[
        str,
        typer.Option(
            metavar="WORK",
            help="Weak scaling: the work of a point, such as n or 'n ** 3'; points with the same "
            "work per unit of PARAM form a curve.",
        ),
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="a,b", help="One curve for each value; default: all others.")
    ] = "",
    rate: Annotated[
        bool | None,
        typer.Option(
            "--rate/--no-rate",
            help="The metric is a rate, such as GFLOP/s (more is better), or a time; "
            "default: a rate if the OBJECTIVE maximizes it.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Chart of the speedups: .html, .png, .svg or .pdf; - for the terminal.",
        ),
    ] = None,
    where: Where = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Show speedup, efficiency and limits over threads or nodes.

    Speedups are ratios of geometric means with 95% intervals; the serial fraction is that of Karp
    and Flatt. The laws of Amdahl, Gustafson and Gunther (USL) are fitted, the best first.

    Examples: zen scaling matmul --over threads; zen scaling matmul --over nodes --weak 'n ** 3';
    zen scaling matmul --over threads --metric gflops --rate -o speedup.svg
    """
    from zenturio.query.scaling import study_scaling
    from zenturio.record.entities import RowChoice, read_round
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        answer = study_scaling(
            repository, study, over, metric, by=names_in(by) if by else None, weak=weak,
            is_rate=rate, where=expression(where, "--where"), outside=outside,
            rows=RowChoice(machine, read_round(round_)),
        )  # fmt: skip
    if json:
        output.facts(answer.facts())
    else:
        _tell_scaling(answer)
    if out is not None:
        _draw_scaling(answer, out)


def _tell_scaling(scaling: "Scaling") -> None:
    unit = f" ({scaling.unit})" if scaling.unit else ""
    for number, curve in enumerate(scaling.curves):
        name = f", {curve.name}" if curve.name else ""
        if number:
            typer.echo("")
        typer.echo(f"{scaling.mode} scaling of {scaling.metric} over {scaling.over}{name}\n")
        rows = [
            (
                output.number(point.workers),
                str(point.rows),
                output.number(point.value),
                _with_interval(point.speedup, point.speedup_interval),
                _with_interval(point.efficiency, point.efficiency_interval),
                _with_interval(point.serial, point.serial_interval),
            )
            for point in curve.points
        ]
        heads = ("runs", f"{scaling.metric}{unit}", "speedup", "efficiency", "serial fraction")
        output.table((scaling.over, *heads), rows, right="rrrlll")
        if curve.base != 1:
            typer.echo(f"\nspeedups are against {output.number(curve.base)} {scaling.over}")
        typer.echo("")
        for model in curve.models:
            typer.echo(_model_line(model, curve.base, scaling.over))
    for note in scaling.notes:
        typer.echo(note)


def _with_interval(value: float | None, interval: "Interval | None") -> str:
    if value is None:
        return ""
    if interval is None:
        return f"{value:.4g}"
    return f"{value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


def _model_line(model: "ScalingModel", base: float, over: str) -> str:
    parts = [
        f"{name} {_with_interval(value, model.intervals[name])}"
        for name, value in model.coefficients.items()
    ]
    if model.best_at is not None and model.best_at > 1:
        parts.append(f"slower again beyond {model.best_at * base:.4g} {over}")
    elif model.limit is not None:
        parts.append(f"at most {model.limit:.4g} times as fast")
    return f"{model.name:10} {'; '.join([*parts, f'misses {model.missed:.1%}'])}"


def _draw_scaling(scaling: "Scaling", out: Path) -> None:
    from zenturio.show.charts.column_charts import scaling_chart
    from zenturio.show.renderers.terminal import render_text
    from zenturio.show.report_store import save

    chart = scaling_chart(scaling)
    if str(out) == TERMINAL:
        typer.echo("\n".join(render_text(chart)))
    else:
        save(chart, out)


def _check_source(chart_query: "ChartQuery", sql: str, tables: list[str] | None) -> None:
    """Raise InputError unless there is either a study or an SQL query, with its own options."""
    from zenturio.errors import InputError

    if bool(chart_query.studies) == bool(sql):
        text = f"{' '.join(chart_query.studies)} and --query" if sql else "nothing to draw"
        raise InputError(text, hint="name a study, as zen list shows them, or --query 'SELECT ...'")
    study_options = {
        "--where": chart_query.where,
        "--objective": chart_query.objective,
        "--machine": chart_query.machine,
        "--round": chart_query.round,
    }
    if sql and any(study_options.values()):
        name = next(name for name, value in study_options.items() if value)
        raise InputError(f"{name} does not work with --query", hint="put it into the SELECT")
    if tables and not sql:
        raise InputError("--table needs --query", hint="use the table in a SELECT")
    kind = chart_query.check_kind()
    if sql and kind.source in ("search", "attempts"):
        raise InputError(f"a {kind.name} chart needs a study", hint="name the study")


def _answer(repository: Any, query: str) -> Any:
    """Return the whole answer to *query*: a chart would hide that rows are missing."""
    from zenturio.errors import InputError
    from zenturio.query import QueryLimits, raw

    answer = raw(repository, query, QueryLimits(rows=MOST_ROWS, seconds=60.0))
    if answer.notes:
        raise InputError(f"more than {MOST_ROWS:,} rows to draw", hint="use GROUP BY in the SELECT")
    table = answer.frame()
    table.attrs["noun"] = "rows"
    return table
