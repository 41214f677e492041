"""The verbs that query results: results, sql, fit, extract."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio import quantities
from zenturio.cli import output
from zenturio.cli.options import Database, Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zenturio.query import Model, ResultTable
    from zenturio.query.formula_shapes import Kind
    from zenturio.study.reprocess_experiments import Extraction


Study = Annotated[str, typer.Argument(help="Name of the study; see zen list.")]
Where = Annotated[
    str | None, typer.Option(metavar="EXPR", help="Only experiments that meet this condition.")
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table", metavar="NAME=FILE.csv", help="Make a CSV file available to SQL as a table."
    ),
]
Spreadsheet = Annotated[
    bool,
    typer.Option(
        "--spreadsheet",
        help="Put ' before CSV cells that a spreadsheet would evaluate as formulas.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file.")]
All = Annotated[
    bool,
    typer.Option("--all", help="Include experiments whose points are no longer in the space."),
]
OfMachine = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="KIND",
        help="Only results of this kind of machine: its label or part of it.",
    ),
]
OfRound = Annotated[
    str,
    typer.Option(
        "--round",
        metavar="N|all",
        help="Results of this round; default: the newest result of each experiment.",
    ),
]
ROWS = 50
"""Rows that are shown on a terminal if no limit is given."""


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(results)
    app.command()(sql)
    app.command()(fit)
    app.command()(extract)


def results(
    study: Study,
    where: Where = None,
    by: Annotated[str, typer.Option(metavar="a,b", help="Group by these columns.")] = "",
    agg: Annotated[
        str,
        typer.Option(
            metavar="mean,p90",
            help="Aggregates: mean, min, max, std, count, median, sum, var, sem, iqr, geomean, "
            "p5 ... p99.9 (quantiles), mean_low, mean_high, median_low, median_high (95% "
            "intervals), tried (finished experiments, including failed ones); default: "
            "median of times, mean of others.",
        ),
    ] = "",
    metric: Annotated[str, typer.Option(metavar="a,b", help="Show these metrics only.")] = "",
    columns: Annotated[
        str,
        typer.Option(metavar="a,b|?", help="Show these columns, in this order; ? lists them all."),
    ] = "",
    sort: Annotated[
        str,
        typer.Option(metavar="-gflops", help="Sort by this column; a leading - sorts descending."),
    ] = "",
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of rows.")] = None,
    repeats: Annotated[
        bool,
        typer.Option(
            "--repeats",
            help="Show a row for each point: repeats, median with its interval, outliers, and "
            "why repeating stopped; with --agg mean: mean and standard deviation.",
        ),
    ] = False,
    format: Annotated[  # noqa: A002 - the option's name
        str,
        typer.Option(
            metavar="table|csv|...",
            help="Output format: table, csv, jsonl, parquet, markdown or latex.",
        ),
    ] = "table",
    out: Out = None,
    spreadsheet: Spreadsheet = False,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Count the rows exactly instead of showing an estimate such as of about 39,000.",
        ),
    ] = False,
    show_sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL query instead of its result.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show the results of a study: filter, group, sort, export.

    Examples: zen results matmul --sort -gflops --limit 5; zen results matmul --by threads --agg
    mean,max --where 'n >= 256'; zen results matmul --columns n,gflops,host,duration; zen results
    matmul --where "status == 'failed'"; zen results matmul -o for-excel.csv --spreadsheet
    """
    from zenturio.query import export, point_repeats, result_columns
    from zenturio.query import results as query_results
    from zenturio.study.overview import opened_repository

    # Checked before the query, which may take long.
    format = _format(format, out, spreadsheet=spreadsheet)  # noqa: A001
    prints_table = format == "table" and out is None and not json
    # A pipe gets all rows: what reads it must not miss any silently.
    row_limit = ROWS if limit is None and prints_table and sys.stdout.isatty() else limit
    condition = expression(where, "--where")
    if repeats:
        _check_repeats({"--by": by, "--columns": columns, "--sort": sort, "--sql": show_sql})
    with opened_repository(db) as repository:
        if columns.strip() == "?":
            column_table = result_columns(repository, study)
            table_facts(column_table) if json else print_table(column_table)
            return
        if repeats:
            table = point_repeats(
                repository, study, metric=metric, centre=agg or "median", where=condition,
                limit=row_limit, outside=outside, machine=machine, round=round_,
            )  # fmt: skip
        else:
            table = query_results(
                repository,
                study,
                where=condition,
                by=names_in(by),
                aggregates=names_in(agg),
                metrics=names_in(metric),
                columns=names_in(columns),
                sort=names_in(sort),
                limit=row_limit,
                outside=outside,
                machine=machine,
                round=round_,
                exact=exact,
            )
    if show_sql:
        typer.echo(table.sql)
    elif json:
        table_facts(table)
    elif prints_table:
        print_table(table)
        if table.total and not table.experiments and not where:
            typer.echo(f"no experiment succeeded: zen status {study}")
    else:
        write_file(export(table, format, spreadsheet=spreadsheet), out)


def _check_repeats(options: "Mapping[str, object]") -> None:
    """Raise InputError if one of *options* was given: --repeats excludes them."""
    from zenturio.errors import InputError

    for option, value in options.items():
        if value:
            raise InputError(
                f"{option} does not go with --repeats, which has a row for each point",
                hint="leave one of them out; --where and --metric go with --repeats",
            )


def sql(
    query: Annotated[
        str,
        typer.Argument(metavar="SELECT...", help="Read-only query, or FILE.sql with one."),
    ],
    table: Tables = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit in seconds.")] = 60.0,
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(metavar="table|csv|...", help="table csv jsonl parquet markdown latex.")
    ] = "table",
    out: Out = None,
    spreadsheet: Spreadsheet = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Query the database with read-only SQL.

    Examples: zen sql "SELECT threads, avg(gflops) FROM study_matmul GROUP BY threads"; zen sql
    speedups.sql -o speedups.csv; zen sql --table peak=peaks.csv "SELECT * FROM peak"
    """
    from zenturio.query import QueryLimits, export, raw
    from zenturio.study.overview import opened_repository

    format = _format(format, out, spreadsheet=spreadsheet)  # noqa: A001
    with opened_repository(db) as repository:
        answer = raw(repository, query_of(query, table), QueryLimits(seconds=seconds))
    if json:
        output.facts({"columns": answer.columns, "rows": answer.rows})
    elif format == "table" and out is None:
        print_table(answer)
    else:
        write_file(export(answer, format, spreadsheet=spreadsheet), out)


def query_of(text: str, tables: list[str] | None = None) -> str:
    """Return the query in *text*, or in the file that it names; *tables* are CSV files."""
    from zenturio.errors import InputError
    from zenturio.query.raw_query import with_csv_tables

    pairs = [pair.partition("=") for pair in tables or []]
    files = {name.strip(): Path(file.strip()) for name, _, file in pairs}
    if not text.lower().endswith(".sql"):
        return with_csv_tables(text, files)
    try:
        return with_csv_tables(Path(text).read_text(encoding="utf-8"), files)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {text}: {error}", hint="a query, or a file that holds one"
        ) from error


def fit(
    study: Study,
    y: Annotated[str, typer.Option("--y", metavar="METRIC", help="Metric to model.")],
    x: Annotated[str, typer.Option("--x", metavar="a,b", help="Columns that the formula may use.")],
    by: Annotated[
        str, typer.Option(metavar="a,b", help="Fit one model for each value of these columns.")
    ] = "",
    kind: Annotated[
        str, typer.Option(metavar="linear,power,...", help="Kinds of formula to try.")
    ] = "",
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="n=4096",
            help="Predict the metric at this value; repeat the option for each column.",
        ),
    ] = None,
    runners_up: Annotated[
        bool, typer.Option("--runners-up", help="Show the best formula of each other kind, too.")
    ] = False,
    against_constant: Annotated[
        bool,
        typer.Option(
            "--against-constant", help="Test whether the metric depends on the columns at all."
        ),
    ] = False,
    as_model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Write the models, for zen schedule --times FILE.json."
        ),
    ] = None,
    where: Where = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Fit formulas to a metric and select the best.

    The best formula is the one that predicts held-out points best (cross-validation).

    The 95% intervals of the coefficients are approximate and assume that the formula is right. If
    rows of a point differ in other parameters, a note names these, and there are no intervals.

    Examples: zen fit matmul --y wtime --x n --by threads; zen fit matmul --y wtime --x n --at
    n=4096 --runners-up; zen fit lapw1 --y wtime --x n --as-model lapw1.json
    """
    from zenturio.query import fit as fit_one
    from zenturio.query import fit_each, fits, study_frame
    from zenturio.query.aggregates import MachineRoundCounts
    from zenturio.query.excluded_points import left_out_notes
    from zenturio.query.fit_certainty import chance_of_constant
    from zenturio.query.regression import mixed_parameters, used_rows
    from zenturio.record.entities import SEED_KIND, RowChoice, read_round
    from zenturio.study.overview import opened_repository

    kinds = _kinds(kind)
    with opened_repository(db) as repository:
        condition, rows = expression(where, "--where"), RowChoice(machine, read_round(round_))
        keys = names_in(by)
        parameters = [
            parameter.name
            for parameter in repository.definition(study).parameters
            if parameter.kind != SEED_KIND and parameter.name != y
        ]
        names = dict.fromkeys([y, *names_in(x), *keys, *parameters])
        table = study_frame(
            repository, study, where=condition, columns=names, outside=outside, rows=rows
        )
    columns = {str(name): table[name] for name in table.columns}
    point = _point(at or [])
    models = (
        fit_each(columns, y, names_in(x), keys, kinds=kinds)
        if keys
        else {(): fit_one(columns, y, names_in(x), kinds=kinds)}
    )
    fact_list = []
    # Of rows that the fit does not use, as those in which y is NULL, nothing is to be said.
    used = used_rows(columns, y, names_in(x))
    mixed = mixed_parameters(columns, parameters, [*names_in(x), *keys], used)
    for key, model in models.items():
        part = _rows_of(columns, keys, key)
        facts = _model_facts(keys, key, model)
        if point:
            facts |= _prediction(part, model, point)
        facts |= _mixed_facts(facts, mixed)
        if runners_up:
            other_models = fits(part, y, names_in(x), kinds=[k for k in kinds if k != model.kind])
            facts["runners_up"] = [
                _model_facts(keys, key, other_model) for other_model in other_models
            ]
        if against_constant:
            facts["chance"] = chance_of_constant(part, y, names_in(x), kinds=kinds)
        fact_list.append(facts)
    if as_model is not None:
        _write_models(as_model, study, columns, fact_list)
    if json:
        output.facts(fact_list)
        return
    for model, facts in zip(models.values(), fact_list, strict=True):
        where_it_is = ", ".join(f"{n}={v}" for n, v in facts["by"].items())
        typer.echo(f"{where_it_is + ': ' if where_it_is else ''}{model}")
        for line in _certainty_lines(facts):
            typer.echo(f"    {line}")
    notes = *left_out_notes(table.attrs["left_out"]), *MachineRoundCounts.of(table.attrs).notes
    for note in (*_mixed_notes(mixed, keys), *notes):
        typer.echo(note)
    if as_model:
        typer.echo(f"wrote {as_model}; next: zen schedule WORKFLOW --times {as_model}")


def extract(
    study: Study,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Annotated files, if they were moved."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Show what would change, without changing it.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Extract metrics again from kept output; run nothing.

    Use it after a METRIC was changed or added. zenturio keeps the first and last 64 KiB of each
    stream and the files that OUTPUT names. A metric that these do not contain becomes missing.

    Examples: zen extract matmul; zen extract matmul --dry-run
    """
    from dataclasses import asdict

    from zenturio.study.overview import opened_repository, result_count
    from zenturio.study.reprocess_experiments import extract as extract_metrics

    with (
        opened_repository(db) as repository,
        output.progress("measuring", result_count(repository, study)) as step,
    ):
        extraction = extract_metrics(repository, study, paths or [], step, really=not dry_run)
    output.facts(asdict(extraction)) if json else typer.echo(
        _extracted(extraction, really=not dry_run)
    )


def _extracted(extraction: "Extraction", *, really: bool) -> str:
    names = ", ".join(extraction.metrics) or "nothing new"
    verb = "measured" if really else "would be measured"
    were = "was" if extraction.failed == 1 else "were"
    lines = [f"{extraction.study}: {extraction.experiments:,} experiments {verb} again: {names}"]
    lines += [f"{m.metric} is missing in {m.count:,}: {m.why}" for m in extraction.reasons]
    lines += extraction.remarks
    if extraction.failed:
        lines.append(
            f"{quantities.amount(extraction.failed, 'experiment')} that {were} ok"
            f" {'fail' if really else 'would fail'} for this: correct the METRIC, and repeat"
            " zen extract; OPTIONAL lets a metric be missing"
        )
    if extraction.mended:
        are = "is" if extraction.mended == 1 else "are"
        failed = quantities.amount(extraction.mended, "failed experiment")
        lines.append(f"{failed} {are if really else 'would be'} ok now")
    if extraction.gone:
        lines.append(f"no longer declared, and kept as measured: {', '.join(extraction.gone)}")
    if extraction.changes:
        changed_files = ", ".join(extraction.changes)
        lines.append(
            f"the program has changed ({changed_files}): the next run begins a new version"
        )
    return "\n".join(lines)


def names_in(text: str) -> list[str]:
    """Return the names in an option, between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def expression(text: str | None, option: str) -> Any:
    """Return a condition whose mistakes are shown where they are in the *option*."""
    from zenturio.errors import Passage

    return None if text is None else Passage.of(text, option)


def _format(name: str, out: Path | None, *, spreadsheet: bool) -> str:
    """Return the requested format, by its name or by the name of the file."""
    from zenturio.query import format_of_path
    from zenturio.query.result_table import check_spreadsheet

    format_name = format_of_path(out) if out is not None and name == "table" else name
    check_spreadsheet(format_name, spreadsheet=spreadsheet)
    return format_name


def table_facts(table: "ResultTable", more: "Mapping[str, Any] | None" = None) -> None:
    output.facts(
        {
            **(more or {}),
            "columns": table.columns,
            "rows": table.rows,
            "units": dict(table.units),
            "found": table.found,
            "experiments": table.experiments,
            "is_estimate": table.is_estimate,
            "total": table.total,
            "notes": table.notes,
        }
    )


def print_table(table: "ResultTable") -> None:
    from zenturio.query.result_table import display_rows

    right = "".join(
        "r" if all(isinstance(row[i], int | float | None) for row in table.rows) else "l"
        for i in range(len(table.columns))
    )
    output.table(table.heads, display_rows(table.rows), right=right)
    typer.echo(f"\n{table.summary}")
    for note in table.notes:
        typer.echo(note)


def write_file(text: str | bytes, out: Path | None) -> None:
    from zenturio.errors import PlaceError
    from zenturio.files import write_output

    content = text.encode() if isinstance(text, str) else text
    if out is None:
        if sys.stdout.isatty():
            _write_on_terminal(text)
            return
        # Bytes past the guard of the terminal: a file or a program wants them unescaped.
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
        raise InputError("this format cannot be shown in a terminal", hint="write a file: -o FILE")
    typer.echo(text, nl=False)


def _kinds(text: str) -> "list[Kind]":
    """Return the kinds of formula of --kind, all by default; InputError if one is none."""
    from zenturio.errors import InputError, did_you_mean
    from zenturio.query import KINDS

    chosen = names_in(text)
    for name in chosen:
        if name not in KINDS:
            raise InputError(f"--kind {name}", hint=did_you_mean(name, KINDS))
    return [name for name in KINDS if not chosen or name in chosen]


def _write_models(
    path: Path, study: str, columns: dict[str, Any], listed: list[dict[str, Any]]
) -> None:
    """Write the models of *listed*, each with the values of its columns that were measured."""
    import numpy as np

    from zenturio.schedule.formats.task_times import write_time_models

    models = []
    for facts in listed:
        part = _rows_of(columns, list(facts["by"]), tuple(facts["by"].values()))
        values = {name: np.unique(np.asarray(part[name], float)).tolist() for name in facts["x"]}
        models.append({"by": facts["by"], "formula": facts["formula"], "values": values})
    write_time_models(path, study, listed[0]["y"], models)


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
        "coefficients": [
            {"value": value, "interval": interval}
            for value, interval in zip(model.coefficients, model.intervals, strict=True)
        ],
    }


def _mixed_facts(facts: dict[str, Any], mixed: list[str]) -> dict[str, Any]:
    """Return the parameters *mixed* in one formula, and no intervals if there are any."""
    if not mixed:
        return {"mixed": []}
    coefficients = [{**part, "interval": None} for part in facts["coefficients"]]
    band = {"band": None} if "band" in facts else {}
    return {"mixed": mixed, "coefficients": coefficients, **band}


def _mixed_notes(mixed: list[str], keys: list[str]) -> Iterator[str]:
    if mixed:
        yield (
            f"rows of a point differ in {', '.join(mixed)}: one formula for all of them, without"
            f" intervals; --by {','.join([*keys, *mixed])} fits each value by itself"
        )


def _point(texts: list[str]) -> dict[str, float]:
    """Return the columns and numbers of --at."""
    from zenturio.errors import InputError

    point = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            point[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"--at {text}", hint="a column and a number: --at n=4096") from None
    return point


def _rows_of(columns: dict[str, Any], keys: list[str], key: tuple[Any, ...]) -> dict[str, Any]:
    """Return the rows whose columns *keys* have the values *key*."""
    import numpy as np

    inside = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for name, value in zip(keys, key, strict=True):
        inside &= np.array([cell == value for cell in columns[name]], dtype=np.bool_)
    return {name: column[inside] for name, column in columns.items()}


def _prediction(columns: dict[str, Any], model: "Model", point: dict[str, float]) -> dict[str, Any]:
    from zenturio.errors import InputError
    from zenturio.query.fit_certainty import prediction_interval

    for name in model.x:
        if name not in point:
            raise InputError(f"--at says no {name}", hint=f"--at {name}=...")
    value = float(model.predict({name: [number] for name, number in point.items()})[0])
    return {"at": point, "predicted": value, "band": prediction_interval(columns, model, point)}


def _certainty_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the lines below a formula: intervals, a prediction, other formulas, the p-value."""
    intervals = [part["interval"] for part in facts["coefficients"]]
    if any(intervals):
        formatted = [
            f"{part['value']:.4g}" if part["interval"] is None
            else "{:.4g} [{:.4g}, {:.4g}]".format(part["value"], *part["interval"])
            for part in facts["coefficients"]
        ]  # fmt: skip
        yield f"coefficients: {', '.join(formatted)}"
    if "predicted" in facts:
        at = ", ".join(f"{name}={number:g}" for name, number in facts["at"].items())
        band = facts["band"]
        missing_text = "" if facts["mixed"] else " (an interval needs 19 rows)"
        interval_text = f" [{band.low:.4g}, {band.high:.4g}]" if band else missing_text
        yield f"at {at}: {facts['predicted']:.4g}{interval_text}"
    for runner_up in facts.get("runners_up", ()):
        yield (
            f"{runner_up['kind']}: {runner_up['formula']}"
            f"   (left-out error {runner_up['error']:.4g})"
        )
    if "chance" in facts:
        chance = facts["chance"]
        words = "depends on" if chance <= 0.05 else "may not depend on"
        yield f"{facts['y']} {words} {', '.join(facts['x']) or 'them'} (p = {chance:.3g})"
