"""The verbs that answer: results, sql, compare, fit, extract."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Database, Json

if TYPE_CHECKING:
    from zenturio.query import Model, ResultTable
    from zenturio.study.extract import Extraction

Study = Annotated[str, typer.Argument(help="The study: zen list shows them.")]
Where = Annotated[
    str | None, typer.Option(metavar="EXPR", help="Only experiments for which this is true.")
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME=FILE.csv", help="Rows of a file that SQL can name."),
]
Spreadsheet = Annotated[
    bool,
    typer.Option(
        "--spreadsheet",
        help="In CSV, put ' before texts that a spreadsheet computes; else CSV is exact.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The file to write.")]
All = Annotated[
    bool,
    typer.Option("--all", help="Also experiments whose points the space does not hold any more."),
]
OfMachine = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="KIND",
        help="Only results of this kind of machine: its label, or a part of it.",
    ),
]
OfRound = Annotated[
    str,
    typer.Option(
        "--round",
        metavar="N|all",
        help="Results of this round of zen run --again; else the newest of each experiment.",
    ),
]
ROWS = 50
"""Rows that are shown on a terminal if no limit is given."""


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(results)
    app.command()(sql)
    app.command()(compare)
    app.command()(fit)
    app.command()(extract)


def results(
    study: Study,
    where: Where = None,
    by: Annotated[str, typer.Option(metavar="a,b", help="Group by these columns.")] = "",
    agg: Annotated[
        str, typer.Option(metavar="mean,min", help="mean, min, max, std, count, median, sum.")
    ] = "",
    metric: Annotated[str, typer.Option(metavar="a,b", help="Only these metrics.")] = "",
    columns: Annotated[
        str,
        typer.Option(metavar="a,b|?", help="These columns, in this order; ? lists all there are."),
    ] = "",
    sort: Annotated[str, typer.Option(metavar="-gflops", help="Sort; - for descending.")] = "",
    limit: Annotated[int | None, typer.Option(min=0, help="At most so many rows.")] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(metavar="table|csv|...", help="table csv jsonl parquet markdown latex.")
    ] = "table",
    out: Out = None,
    spreadsheet: Spreadsheet = False,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    show_sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show the results of a study: filter, group, sort, export.

    Examples: zen results matmul --sort -gflops --limit 5; zen results matmul --by threads --agg
    mean,max --where 'n >= 256'; zen results matmul --columns n,gflops,host,duration; zen results
    matmul -o for-excel.csv --spreadsheet
    """
    from zenturio.query import export, result_columns
    from zenturio.query import results as ask
    from zenturio.study.overview import opened_repository

    format = _format(format, out, spreadsheet=spreadsheet)  # noqa: A001
    tabled = format == "table" and out is None and not json
    most = ROWS if limit is None and tabled and sys.stdout.isatty() else limit
    with opened_repository(db) as repository:
        if columns.strip() == "?":
            listed = result_columns(repository, study)
            _facts(listed) if json else _table(listed)
            return
        found = ask(
            repository,
            study,
            where=expression(where, "--where"),
            by=names_in(by),
            aggregates=names_in(agg),
            metrics=names_in(metric),
            columns=names_in(columns),
            sort=names_in(sort),
            limit=most,
            outside=outside,
            machine=machine,
            round=round_,
        )
    if show_sql:
        typer.echo(found.sql)
    elif json:
        _facts(found)
    elif tabled:
        _table(found)
    else:
        _write(export(found, format, spreadsheet=spreadsheet), out)


def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="SELECT...", help="One query, or the FILE.sql that holds it; it only reads."
        ),
    ],
    table: Tables = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit.")] = 60.0,
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(metavar="table|csv|...", help="table csv jsonl parquet markdown latex.")
    ] = "table",
    out: Out = None,
    spreadsheet: Spreadsheet = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Query the database in read-only SQL.

    Examples: zen sql "SELECT threads, avg(gflops) FROM study_matmul GROUP BY threads"; zen sql
    speedups.sql -o speedups.csv; zen sql --table peak=peaks.csv "SELECT * FROM peak"
    """
    from zenturio.query import QueryLimits, export, raw
    from zenturio.study.overview import opened_repository

    format = _format(format, out, spreadsheet=spreadsheet)  # noqa: A001
    with opened_repository(db) as repository:
        found = raw(repository, query_of(query, table), QueryLimits(seconds=seconds))
    if json:
        output.facts({"columns": found.columns, "rows": found.rows})
    elif format == "table" and out is None:
        _table(found)
    else:
        _write(export(found, format, spreadsheet=spreadsheet), out)


def query_of(text: str, tables: list[str] | None = None) -> str:
    """The query that *text* is, or that the file holds which it names; with *tables* beside it."""
    from zenturio.errors import InputError
    from zenturio.query.raw_query import with_csv_tables

    pairs = [each.partition("=") for each in tables or []]
    files = {name.strip(): Path(file.strip()) for name, _, file in pairs}
    if not text.lower().endswith(".sql"):
        return with_csv_tables(text, files)
    try:
        return with_csv_tables(Path(text).read_text(encoding="utf-8"), files)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {text}: {error}", hint="a query, or a file that holds one"
        ) from error


def compare(
    first: Study,
    second: Study,
    metric: Annotated[str | None, typer.Option(help="What is compared; the objective's.")] = None,
    on: Annotated[str, typer.Option(metavar="n,threads", help="What makes a point.")] = "",
    where: Where = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    outside: All = False,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Only results of this kind of machine; given twice, of the first and the second.",
        ),
    ] = None,
    round_: Annotated[
        list[str] | None,
        typer.Option(
            "--round",
            metavar="N|all",
            help="Results of this round; given twice, of the first and the second study.",
        ),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Compare two studies, point by point.

    Each point's difference, where it lies (low to high, 95% confidence), and whether it is more
    than noise; a ratio where every repeat in both is above zero.

    Examples: zen compare before after --metric wtime --on n,threads; zen compare matmul matmul
    --round 1 --round 2
    """
    from zenturio.query import compare as match
    from zenturio.query import study_frame
    from zenturio.record.row_filter import RowChoice, read_round
    from zenturio.show.charts.study_charts import default_metric
    from zenturio.study.overview import opened_repository

    condition = expression(where, "--where")
    pairs = zip(_for_both(machine, "--machine"), _for_both(round_, "--round"), strict=True)
    choices = [RowChoice(kind, read_round(number)) for kind, number in pairs]
    with opened_repository(db) as repository:
        frames = [
            study_frame(repository, name, where=condition, outside=outside, rows=rows)
            for name, rows in zip((first, second), choices, strict=True)
        ]
        wanted = metric or default_metric(repository, first)
    found = match(frames[0], frames[1], wanted, on=names_in(on), seed=seed).result()
    _facts(found) if json else _table(found)


def _for_both(given: list[str] | None, option: str) -> tuple[str, str]:
    """What is said of the first study, and of the second: the same, if it is said once."""
    from zenturio.errors import InputError

    match given or []:
        case []:
            return "", ""
        case [both]:
            return both, both
        case [first, second]:
            return first, second
        case _:
            raise InputError(f"{option} is given {len(given or ())} times", hint="once, or twice")


def fit(
    study: Study,
    y: Annotated[str, typer.Option("--y", help="The metric that is explained.")],
    x: Annotated[str, typer.Option("--x", metavar="a,b", help="The columns that explain it.")],
    by: Annotated[str, typer.Option(metavar="a,b", help="A model for each of these.")] = "",
    kind: Annotated[
        str, typer.Option(metavar="linear,power,...", help="Only these kinds of formula.")
    ] = "",
    where: Where = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Fit formulas to a metric and select the best.

    The choice is by what is foretold best at points that were left out.

    Example: zen fit matmul --y wtime --x n --by threads
    """
    from zenturio.errors import InputError, did_you_mean
    from zenturio.query import KINDS, fit_each, study_frame
    from zenturio.query import fit as fit_one
    from zenturio.query.aggregates import Origins
    from zenturio.query.present import left_out_notes
    from zenturio.record.row_filter import RowChoice, read_round
    from zenturio.study.overview import opened_repository

    asked = names_in(kind)
    for each in asked:
        if each not in KINDS:
            raise InputError(f"--kind {each}", hint=did_you_mean(each, KINDS))
    kinds = [each for each in KINDS if not asked or each in asked]
    with opened_repository(db) as repository:
        condition, rows = expression(where, "--where"), RowChoice(machine, read_round(round_))
        table = study_frame(repository, study, where=condition, outside=outside, rows=rows)
    keys = names_in(by)
    columns = {str(name): table[name].tolist() for name in table.columns}
    models = (
        fit_each(columns, y, names_in(x), keys, kinds=kinds)
        if keys
        else {(): fit_one(columns, y, names_in(x), kinds=kinds)}
    )
    if json:
        output.facts([_model_facts(keys, key, model) for key, model in models.items()])
        return
    for key, model in models.items():
        where_it_is = ", ".join(f"{n}={v}" for n, v in zip(keys, key, strict=True))
        typer.echo(f"{where_it_is + ': ' if where_it_is else ''}{model}")
    for note in (*left_out_notes(table.attrs["left_out"]), *Origins.of(table.attrs).notes):
        typer.echo(note)


def extract(
    study: Study,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="The annotated files, if they were moved."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Say what would come of it; change nothing.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Measure again from kept output, without running anything.

    For a METRIC that was changed or added; nothing is run. What the kept output does not hold
    (the first and last 64 KiB of each stream, and the files that OUTPUT names) is missing then.

    Examples: zen extract matmul; zen extract matmul --dry-run
    """
    from dataclasses import asdict

    from zenturio.study.extract import extract as again
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository, output.progress("measuring", None) as step:
        found = again(repository, study, paths or [], step, really=not dry_run)
    output.facts(asdict(found)) if json else typer.echo(_extracted(found, really=not dry_run))


def _extracted(found: "Extraction", *, really: bool) -> str:
    names = ", ".join(found.metrics) or "nothing new"
    done = "measured" if really else "would be measured"
    lines = [f"{found.study}: {found.experiments:,} experiments {done} again: {names}"]
    if found.missing:
        lines.append(f"{found.missing:,} values are missing: the kept output does not hold them")
    if found.failed:
        lines.append(f"{found.failed:,} that were ok fail for it; OPTIONAL allows it to be missing")
    if found.mended:
        lines.append(f"{found.mended:,} that had failed are ok")
    if found.gone:
        lines.append(f"no longer asked for, and kept as measured: {', '.join(found.gone)}")
    if found.changes:
        changed = ", ".join(found.changes)
        lines.append(f"the program is another one ({changed}): the next run begins a new table")
    return "\n".join(lines)


def names_in(text: str) -> list[str]:
    """The names in an option, between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def expression(text: str | None, option: str) -> Any:
    """A condition whose mistakes are shown where they are in the *option*."""
    from zenturio.errors import Passage

    return None if text is None else Passage.of(text, option)


def _format(wanted: str, out: Path | None, *, spreadsheet: bool) -> str:
    """The format that is asked for, by its name or by that of the file."""
    from zenturio.query import format_of_path
    from zenturio.query.result_table import check_spreadsheet

    found = format_of_path(out) if out is not None and wanted == "table" else wanted
    check_spreadsheet(found, spreadsheet=spreadsheet)
    return found


def _facts(found: "ResultTable") -> None:
    output.facts(
        {
            "columns": found.columns,
            "rows": found.rows,
            "units": dict(found.units),
            "found": found.found,
            "experiments": found.experiments,
            "total": found.total,
            "notes": found.notes,
        }
    )


def _table(found: "ResultTable") -> None:
    from zenturio.query.result_table import display_rows

    right = "".join(
        "r" if all(isinstance(row[i], int | float | None) for row in found.rows) else "l"
        for i in range(len(found.columns))
    )
    output.table(found.heads, display_rows(found.rows), right=right)
    typer.echo(f"\n{found.summary}")
    for note in found.notes:
        typer.echo(note)


def _write(text: str | bytes, out: Path | None) -> None:
    from zenturio.errors import PlaceError
    from zenturio.output_files import write_output

    content = text.encode() if isinstance(text, str) else text
    if out is None:
        if sys.stdout.isatty():
            _write_on_terminal(text)
            return
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        write_output(out, [content])
    except OSError as error:
        raise PlaceError(f"cannot write {out}: {error.strerror}") from error
    typer.echo(f"wrote {out}", err=True)


def _write_on_terminal(text: str | bytes) -> None:
    """To a person: control characters are shown. A pipe gets the bytes."""
    from zenturio.errors import InputError

    if isinstance(text, bytes):
        raise InputError("this format is no text for a terminal", hint="write a file: -o FILE")
    typer.echo(text, nl=False)


def _model_facts(keys: list[str], key: tuple[Any, ...], model: "Model") -> dict[str, Any]:
    return {
        "by": dict(zip(keys, key, strict=True)),
        "kind": model.kind,
        "y": model.y,
        "x": model.x,
        "formula": model.formula,
        "r2": model.r2,
        "error": model.error,
        "rows": model.rows,
        "points": model.points,
    }
