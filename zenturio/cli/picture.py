"""The verbs of pictures: plot, report."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from zenturio.cli import output
from zenturio.cli.answer import (
    All,
    OfMachine,
    OfRound,
    Tables,
    Where,
    expression,
    names_in,
    query_of,
)
from zenturio.cli.options import Database, Json

if TYPE_CHECKING:
    from zenturio.show.chart import Chart, Kind
    from zenturio.show.charts.study_charts import Drawable

TERMINAL = "-"
DRAWN = 200_000
"""Rows of a query that are drawn at most."""


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(plot)
    app.command()(report)


def plot(
    study: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STUDY]...", help="The study; several are told apart by colour."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            metavar="line|bar|...",
            help="line bar pie surface heatmap scatter box; of a search: convergence importance "
            "slice pareto parallel; gantt: what ran where.",
        ),
    ] = "line",
    x: Annotated[str, typer.Option("--x", help="The column along the x axis.")] = "",
    y: Annotated[
        str, typer.Option("--y", help="The column along the y axis; the objective, if not given.")
    ] = "",
    z: Annotated[str, typer.Option("--z", help="The metric of a heatmap or surface.")] = "",
    objective: Annotated[
        str,
        typer.Option(metavar="'MINIMIZE expr'", help="The goals of a search, if not the study's."),
    ] = "",
    color: Annotated[str, typer.Option("--color", help="A column for the colours.")] = "",
    facet: Annotated[str, typer.Option(help="A column: one panel for each value.")] = "",
    agg: Annotated[
        str,
        typer.Option(
            help="mean, median, min, max, sum or count; of convergence, median: a median and "
            "quartiles over all studies and repeats."
        ),
    ] = "mean",
    errors: Annotated[
        str, typer.Option(metavar="interval|std|none", help="Error bars over repeats.")
    ] = "interval",
    log: Annotated[str, typer.Option(metavar="x,y", help="Logarithmic axes.")] = "",
    axes: Annotated[
        str, typer.Option(metavar="a,b", help="The parameters of parallel, slice, importance.")
    ] = "",
    title: Annotated[str, typer.Option(help="The title, if not what is shown.")] = "",
    where: Where = None,
    query: Annotated[
        str,
        typer.Option(
            metavar="SELECT...", help="Draw what zen sql answers (a FILE.sql, too), not a study."
        ),
    ] = "",
    tables: Tables = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="FILE.html, .png, .svg, .pdf; - is the terminal."),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Draw a chart of a study.

    Examples: zen plot matmul --x n --y gflops --color threads --log x -o gflops.svg; zen plot
    matmul --kind convergence -o -; zen plot --query "SELECT n, wtime / threads AS share FROM
    study_matmul" --x n --y share
    """
    from zenturio.errors import InputError
    from zenturio.record.row_filter import RowChoice, read_round
    from zenturio.show.chart import AIMED
    from zenturio.show.charts.column_charts import chart
    from zenturio.show.charts.study_charts import GANTT, Asked, drawn
    from zenturio.show.saving import save
    from zenturio.show.scene import Scene
    from zenturio.show.sketch import sketch
    from zenturio.study.look import opened

    wishes: dict[str, Any] = {
        "colour": color,
        "facet": facet,
        "aggregate": agg,
        "errors": None if errors == "interval" else errors,
        "log": "".join(names_in(log)),
        "axes": tuple(names_in(axes)),
        "title": title,
        "x": x,
        "y": y,
        "z": z,
    }
    condition = expression(where, "--where")
    studies = tuple(study or ())
    beside = {"--where": where, "--objective": objective, "--machine": machine, "--round": round_}
    _check_source(studies, query, tables, kind in (*AIMED, GANTT), beside)
    found: Chart | Scene
    with opened(db) as repository:
        if query:
            table = _answer(repository, query_of(query, tables))
            found, rows = chart(table, cast("Kind", kind), **wishes), len(table)
        else:
            drawable = cast("Drawable", kind)
            asked = Asked(
                studies, drawable, where=condition, objective=objective, outside=outside,
                rows=RowChoice(machine, read_round(round_)), **wishes,
            )  # fmt: skip
            picture = drawn(repository, asked)
            found, rows = picture.chart, picture.rows
    path = out or Path(f"{'-'.join(studies) or 'plot'}.html".replace("/", "-"))
    facts = {"picture": str(path), "kind": kind, "rows": rows}
    if str(path) != TERMINAL:
        save(found, path)
        said = [f"{path}: {found.note if isinstance(found, Scene) else found.counted}"]
    elif isinstance(found, Scene):
        raise InputError("a gantt chart is no picture for a terminal", hint="-o what-ran.svg")
    else:
        said = sketch(found)
        facts |= {"lines": said}
    output.facts(facts) if json else typer.echo("\n".join(said))


def report(
    file: Annotated[Path, typer.Argument(help="Words in Markdown, and charts between them.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="FILE.html, .png, .svg, .pdf; else the report's .html."),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Write a report of charts and text as one file.

    A chart is a line of its own, ![what it shows](/chart?study=matmul&kind=line&x=n&y=gflops): its
    address in zen portal.

    Example: zen report reports/solvers.md -o solvers.pdf
    """
    from zenturio.errors import InputError, PlaceError
    from zenturio.output_files import write_output
    from zenturio.record.open import project_folder
    from zenturio.show.report import Picture, read
    from zenturio.show.report_store import exported
    from zenturio.study.look import opened

    try:
        found = read(file.read_text("utf-8"), file.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}", hint="a file of Markdown") from error
    path = out or file.with_suffix(".html")
    kind = path.suffix.lower().removeprefix(".")
    with opened(db) as repository:
        content = exported(found, kind, repository, project_folder(), slow=True)
    try:
        write_output(path, [content])
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror}") from error
    pictures = sum(isinstance(block, Picture) for block in found.blocks)
    facts = {"file": str(path), "title": found.title, "pictures": pictures}
    output.facts(facts) if json else typer.echo(f"{path}: {found.title}, {pictures} pictures")


def _check_source(
    studies: tuple[str, ...],
    query: str,
    tables: list[str] | None,
    aimed: bool,
    beside: Mapping[str, str | None],
) -> None:
    """Either a study or a query, and beside a query nothing that belongs to a study."""
    from zenturio.errors import InputError

    if bool(studies) == bool(query):
        said = f"{' '.join(studies)} and --query" if query else "nothing to draw"
        raise InputError(said, hint="a study, as zen list shows them, or --query 'SELECT ...'")
    if query and any(beside.values()):
        name = next(name for name, value in beside.items() if value)
        raise InputError(f"{name} with --query", hint="say it in the SELECT")
    if tables and not query:
        raise InputError("--table belongs to --query", hint="name it in a SELECT")
    if query and aimed:
        raise InputError("this kind shows the search of a study", hint="name the study")


def _answer(repository: Any, query: str) -> Any:
    """The answer to *query* as a table: all of it, for nobody sees what a picture leaves out."""
    from zenturio.errors import InputError
    from zenturio.query import Limits, raw

    found = raw(repository, query, Limits(rows=DRAWN, seconds=60.0))
    if found.notes:
        raise InputError(f"more than {DRAWN:,} rows to draw", hint="GROUP BY what is drawn")
    table = found.frame()
    table.attrs["noun"] = "rows"
    return table
