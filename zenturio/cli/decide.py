"""The verbs that decide between versions: compare, gate, noise, history, bisect."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import options, output
from zenturio.cli.options import Database, Json, Overrides
from zenturio.cli.results import All, expression, names_in, print_table, table_facts, write_file

if TYPE_CHECKING:
    from zenturio.cli.run import ProgressLine
    from zenturio.record import Repository
    from zenturio.study.driver.progress import RunSummary
    from zenturio.study.paired.compare_and_gate import PairedOptions
    from zenturio.study.paired.paired_study import PairedResult

Blocks = Annotated[
    str,
    typer.Option("--repeat", metavar="8:50", help="Smallest and largest number of blocks."),
]
Warmup = Annotated[
    bool, typer.Option(help="Run one block first and discard it; --no-warmup skips this block.")
]
Settle = Annotated[
    bool,
    typer.Option(
        "--settle",
        help="Run each version once and discard the run before each measured run, in case runs "
        "disturb the next one.",
    ),
]
TimeBudget = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="10min",
        help="Time after which no further block begins; points without a verdict by then are "
        "unclear.",
    ),
]
MetricName = Annotated[
    str | None, typer.Option(help="Metric to compare; default: that of the objective, or wtime.")
]


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(compare)
    app.command()(gate)
    app.command()(noise)
    app.command()(history)
    app.command()(bisect)


def compare(
    first: Annotated[
        str, typer.Argument(help="Study, NAME@VERSION, or annotated file with --run.")
    ],
    second: Annotated[
        str, typer.Argument(metavar="[SECOND]", help="Study or version to compare it with.")
    ] = "",
    metric: Annotated[
        str | None, typer.Option(help="Metric to compare; default: that of the objective.")
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            metavar="n,threads", help="Parameters that identify a point; default: the shared ones."
        ),
    ] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPR",
            help="Only experiments that meet this condition; repeat it for the second study.",
        ),
    ] = None,
    outside: All = False,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Only results of this kind of machine; repeat it for the second study.",
        ),
    ] = None,
    round_: Annotated[
        list[str] | None,
        typer.Option(
            "--round",
            metavar="N|all",
            help="Results of this round; repeat it for the second study.",
        ),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Run both versions next to each other, then compare them.")
    ] = False,
    commit: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMIT", help="With --run: compare with the files of this commit."),
    ] = None,
    param: Overrides = None,
    limit: options.Limit = None,
    repeat: Blocks = "8:50",
    budget: TimeBudget = "",
    warmup: Warmup = True,
    settle: Settle = False,
    margin: Annotated[
        str,
        typer.Option(
            metavar="2%", help="Versions whose ratio is within this margin count as the same."
        ),
    ] = "2%",
    db: Database = None,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Compare two versions or studies, point by point.

    A verdict requires runs of both versions side by side in random order. --run makes such runs:
    blocks of both versions, one experiment at a time, until each point and all points together have
    a verdict. NAME@VERSION is run from its recorded files, --commit from Git, without touching the
    checkout. An interrupted comparison is resumed by the same command. Recorded results have a
    verdict only if the versions are values of a parameter of one study with REPEAT that ran in
    blocks. All other comparisons are "unclear (not interleaved)" and show the measured ratio.
    Intervals are corrected for the number of points.

    Examples: zen compare matmul@1 matmul --run; zen compare matmul.c --commit HEAD~3 --run; zen
    compare sort sort --where 'version == "old"' --where 'version == "new"'; zen compare before
    after --metric wtime --on n,threads; zen compare matmul matmul --round 1 --round 2
    """
    from zenturio.errors import InputError
    from zenturio.query import compare_studies
    from zenturio.query.select_results import default_metric
    from zenturio.record.entities import RowChoice, read_round
    from zenturio.study.overview import opened_repository
    from zenturio.study.paired.paired_study import plan_of

    conditions = [expression(text or None, "--where") for text in _for_both(where, "--where")]
    pairs = zip(_for_both(machine, "--machine"), _for_both(round_, "--round"), strict=True)
    choices = [RowChoice(kind, read_round(number)) for kind, number in pairs]
    same_within = share_of(margin, "--margin")
    if commit and not run:
        raise InputError("--commit names files, not results", hint="add --run to measure them")
    if budget and not run:
        raise InputError("--budget is the time of a measurement", hint="add --run to measure")
    if run:
        if where or machine or round_:
            raise InputError(
                "--where, --machine and --round choose recorded results: --run measures new ones"
            )
        names = [name for name in (first, second) if name]
        metric = metric or ""
        first, metric = _run_comparison(
            names,
            commit or [],
            _paired_options(
                "compare", metric, param, limit, repeat, budget, warmup, json, settle=settle
            ),
            same_within,
            db,
        )
        second = first
    with opened_repository(db) as repository:
        if not second and plan_of(repository, first) is None:
            hint = "name a second study, or --commit HEAD~3 --run"
            chosen = {"--where": where, "--machine": machine, "--round": round_}
            if any(len(values or ()) > 1 for values in chosen.values()):
                words = [w for o, values in chosen.items() for v in values or () for w in (o, v)]
                twice = output.command_to_type("compare", first, first, *words, db=db)
                hint = f"name it twice: {twice}"
            raise InputError(f"there is nothing to compare {first} with", hint=hint)
        metric = metric or default_metric(repository.definition(first))
        comparison = compare_studies(
            repository, first, second or first, metric,
            on=names_in(on), where=(conditions[0], conditions[1]), rows=(choices[0], choices[1]),
            outside=outside, margin=same_within,
        )  # fmt: skip
    if json:
        table_facts(comparison.result(), comparison.facts())
        return
    for line in comparison.summary:
        typer.echo(line)
    typer.echo()
    print_table(replace(comparison.result(), notes=comparison.notes))


def gate(
    study: Annotated[str, typer.Argument(help="Study, annotated file, or folder of a program.")],
    baseline: Annotated[
        str, typer.Option(metavar="main|NAME@N", help="Commit, branch or version to compare with.")
    ],
    metric: MetricName = None,
    worse: Annotated[
        str, typer.Option(metavar="5%", help="Relative change that counts as worse.")
    ] = "5%",
    unclear: Annotated[
        str, typer.Option(metavar="ok|fail", help="Exit code if the result is unclear: 0 or 8.")
    ] = "fail",
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(metavar="text|markdown|junit", help="Format of the report.")
    ] = "text",
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Also write the report to this file: .md, .xml or .json; may be repeated.",
        ),
    ] = None,
    param: Overrides = None,
    limit: options.Limit = None,
    repeat: Blocks = "8:50",
    budget: TimeBudget = "",
    warmup: Warmup = True,
    settle: Settle = False,
    db: Database = None,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Fail if the program is worse than a baseline, for CI.

    Runs the current files and the baseline side by side in random order, in blocks, until the
    program is worse by more than --worse at some point (exit code 7), or at no point (exit code 0).
    Exits with 8 if the blocks of --repeat do not decide, and with 3 if the program fails. Smaller
    values of a metric are better unless the objective maximizes it.

    Examples: zen gate matmul.c --baseline main --worse 5%; zen gate matmul --baseline matmul@3
    --metric wtime --format markdown; zen gate . --baseline origin/main -o gate.xml -o gate.md
    """
    from zenturio.errors import InputError, did_you_mean
    from zenturio.show.paired_reports import GateReport, check_format, render
    from zenturio.study.paired.compare_and_gate import gated_versions, run_gate

    if unclear not in ("ok", "fail"):
        raise InputError(f"--unclear {unclear}", hint=did_you_mean(unclear, ("ok", "fail")))
    bound = share_of(worse, "--worse")
    check_format(format)
    suffixes = {".md": "markdown", ".xml": "junit", ".json": "json", ".txt": "text"}
    for path in out or []:
        if path.suffix not in suffixes:
            raise InputError(f"-o {path}: no format has this suffix", hint=", ".join(suffixes))
    how = _paired_options("gate", metric, param, limit, repeat, budget, warmup, json, settle=settle)
    with _running(db) as (repository, live):
        versions = gated_versions(repository, study, baseline, how)
        measured = run_gate(repository, versions, replace(how, listener=live), bound)
    end_if_stopped(measured.result.summary)
    report = GateReport.of(measured)
    for path in out or []:
        kind = suffixes[path.suffix]
        text = output.facts_text(report.facts()) if kind == "json" else render(report, kind)
        write_file(text, path)
    if json:
        output.facts(report.facts())
    else:
        typer.echo(render(report, format), nl=False)
        output.print_failures(measured.result.summary.failures, report.study, db)
    raise typer.Exit(report.exit_code(unclear_is_ok=unclear == "ok"))


def _for_both(values: list[str] | None, option: str) -> tuple[str, str]:
    """What is said of the first study, and of the second: the same, if it is said once."""
    from zenturio.errors import InputError

    match values or []:
        case []:
            return "", ""
        case [both]:
            return both, both
        case [first, second]:
            return first, second
        case _:
            raise InputError(
                f"{option} is given {len(values or ())} times",
                hint="give it once for both studies, or once for each",
            )


def share_of(text: str, option: str) -> float:
    """Return a share such as 5% or 0.05."""
    from zenturio.errors import InputError

    try:
        share = float(text.rstrip("% ")) / (100 if "%" in text else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise InputError(f"{option} {text}", hint="write a share between 0 and 100%, such as 5%")
    return share


def _paired_options(
    verb: str,
    metric: str | None,
    param: list[str] | None,
    limit: int | None,
    repeat: str,
    budget: str,
    warmup: bool,
    json: bool,
    *,
    settle: bool = False,
) -> "PairedOptions":
    from zenturio.study.paired.compare_and_gate import PairedOptions, read_blocks, read_time

    return PairedOptions(
        metric or "",
        tuple(param or ()),
        limit,
        read_blocks(repeat),
        warmup,
        read_time(budget),
        settle,
        output.command_given(verb),
        planned=lambda plan: None if json else typer.echo(_plan(plan, warmup), err=True),
    )


def _plan(plan: Any, warmup: bool) -> str:
    resumed = f", {plan.cached:,} of them measured already" if plan.cached else ""
    first = ", after one of each that does not count" if warmup else ""
    work = f"at most {plan.experiments:,} experiments{resumed}, one at a time{first}"
    return f"study {plan.study}: {work}"


def _run_comparison(
    names: list[str], commits: list[str], how: "PairedOptions", margin: float, db: str | None
) -> tuple[str, str]:
    """Run two versions and return the study that holds them, and the metric."""
    from zenturio.study.paired.compare_and_gate import compared_versions, run_comparison

    with _running(db) as (repository, live):
        versions = compared_versions(repository, names, commits, how)
        result = run_comparison(repository, versions, replace(how, listener=live), margin)
    _end_where_incomplete(result, db)
    return result.study.name, result.study.metric


def end_if_stopped(summary: "RunSummary") -> None:
    """Exit with 130 where the run was interrupted: there is no verdict yet."""
    if summary.interrupted:
        typer.echo("interrupted: repeat the command to continue", err=True)
        raise typer.Exit(130)


def noise(
    study: Annotated[str, typer.Argument(help="Study, annotated file, or folder of a program.")],
    metric: MetricName = None,
    param: Overrides = None,
    limit: options.Limit = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=6, help="Number of blocks to measure.")
    ] = 20,
    warmup: Warmup = True,
    db: Database = None,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Show which differences this machine can detect.

    Runs the current files side by side with themselves, as if they were two versions, and reports
    which difference between two versions 5, 10, 20 and 50 blocks can detect.

    Examples: zen noise matmul; zen noise matmul.c --metric ctime --limit 3
    """
    from zenturio.show.paired_reports import noise_table
    from zenturio.study.paired.compare_and_gate import run_noise

    how = _paired_options("noise", metric, param, limit, f"{repeat}", "", warmup, json)
    with _running(db) as (repository, live):
        result = run_noise(repository, study, replace(how, listener=live))
    _end_where_incomplete(result, db)
    table = noise_table(result)
    table_facts(table) if json else print_table(table)


def bisect(
    study: Annotated[str, typer.Argument(help="Study, annotated file, or folder of a program.")],
    good: Annotated[str, typer.Option(metavar="COMMIT", help="Commit before the change.")],
    bad: Annotated[str, typer.Option(metavar="COMMIT", help="Commit after the change.")] = "HEAD",
    metric: MetricName = None,
    param: Overrides = None,
    limit: options.Limit = None,
    most: Annotated[
        int, typer.Option("--most", min=16, help="Maximum number of runs at each point.")
    ] = 600,
    budget: TimeBudget = "",
    db: Database = None,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Find the commit that changed a metric.

    Runs commits next to the good and the bad one in random order, as often as the noise requires,
    and reports a commit only if a test against its predecessor confirms the change. Exits with 8 if
    the good and the bad commit cannot be told apart, or if the runs do not suffice; it then prints
    the remaining range. Commits that cannot be run are skipped.

    Examples: zen bisect matmul --good v1.2 --bad HEAD; zen bisect matmul.c --good HEAD~64 --metric
    ctime --limit 1
    """
    from zenturio.show.paired_reports import bisect_facts, bisect_lines
    from zenturio.study.paired.bisect_and_history import run_bisect

    how = _paired_options("bisect", metric, param, limit, "8:50", budget, True, json)
    with _running(db) as (repository, live):
        run = run_bisect(repository, study, good, bad, replace(how, listener=live), most_runs=most)
    end_if_stopped(run.result.summary)
    if json:
        output.facts(bisect_facts(run))
    else:
        typer.echo("\n".join(bisect_lines(run)))
        output.print_failures(run.result.summary.failures, run.result.study.name, db)
    if run.search.state == "no value" and run.result.summary.failures:
        raise typer.Exit(3)
    if run.search.state != "found":
        raise typer.Exit(8)


def history(
    study: Annotated[str, typer.Argument(help="Study, annotated file, or folder of a program.")],
    metric: MetricName = None,
    commits: Annotated[
        int,
        typer.Option(
            "--commits", "-n", min=1, help="Number of commits, counted back from the newest."
        ),
    ] = 20,
    last: Annotated[str, typer.Option(metavar="COMMIT", help="The newest commit.")] = "HEAD",
    reference: Annotated[
        str,
        typer.Option(
            metavar="COMMIT",
            help="Commit that each commit is compared with; default: as last time, else the "
            "oldest.",
        ),
    ] = "",
    param: Overrides = None,
    limit: options.Limit = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Number of blocks for each commit.")
    ] = 5,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Measure the two commits of each change again, side by side."
        ),
    ] = False,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write a chart: .html, .svg, .png, .pdf; may be repeated.",
        ),
    ] = None,
    db: Database = None,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Show a metric over the commits, and where it changed.

    Runs each of the newest commits that touch the files next to one reference commit, and finds
    where the level of the ratio to the reference changes. So a machine that gets slower causes no
    change. Commits that were measured before are not run again.

    A change may be chance, or one commit off. --confirm runs the two commits of each change side by
    side, as zen compare does, and reports whether they differ.

    Examples: zen history matmul -n 40; zen history matmul.c --metric ctime -o history.html; zen
    history matmul.c --confirm
    """
    from zenturio.show.paired_reports import HistoryReport, confirm_changes
    from zenturio.show.report_store import save
    from zenturio.study.paired.bisect_and_history import run_history

    how = _paired_options("history", metric, param, limit, f"{repeat}", "", True, json)
    with _running(db) as (repository, live):
        run = run_history(
            repository, study, replace(how, listener=live), commits=commits, last=last,
            reference=reference,
        )  # fmt: skip
        confirmed = None
        if confirm and not run.result.summary.interrupted:
            confirmed = confirm_changes(repository, study, run, replace(how, listener=live))
    end_if_stopped(run.result.summary)
    if confirmed is not None and confirmed.result is not None:
        end_if_stopped(confirmed.result.summary)
    report = HistoryReport(run, confirmed)
    if json:
        table_facts(report.table)
    else:
        print_table(report.table)
        output.print_failures(run.result.summary.failures, run.result.study.name, db)
    for path in out or ():
        save(report.chart, path)
        typer.echo(f"wrote {path}", err=True)


@contextmanager
def _running(db: str | None) -> "Iterator[tuple[Repository, ProgressLine]]":
    """Yield the repository for a run, and the line that shows how far it is."""
    from zenturio.cli.run import ProgressLine
    from zenturio.study.driver.stop_requests import interrupt_at_end_signals
    from zenturio.study.local_run import open_for_run

    live = ProgressLine()
    try:
        with interrupt_at_end_signals(), open_for_run(db) as repository:
            yield repository, live
    finally:
        live.close()


def _end_where_incomplete(result: "PairedResult", db: str | None) -> None:
    """Exit where the run was interrupted, or where a version failed at a point."""
    end_if_stopped(result.summary)
    if result.measured.is_hopeless:
        typer.echo(
            f"stopped: no run of the first {result.measured.reached} blocks had a value", err=True
        )
    if result.summary.failures:
        output.print_failures(result.summary.failures, result.study.name, db)
        points = range(len(result.study.points))
        labels = [version.label for version in result.study.versions]
        if not all(result.measured.of(label, at) for label in labels for at in points):
            raise typer.Exit(3)
