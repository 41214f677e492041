"""The verbs for searches: engines, best, explain, sensitivity, tune, import."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio import quantities
from zenturio.cli import output, safe_streams
from zenturio.cli.options import Database, Json, MachineKind, Trust
from zenturio.cli.results import All, OfMachine, OfRound, Where, expression

if TYPE_CHECKING:
    from zenturio.experiment.signed_ranks import Interval
    from zenturio.query.importance import RankedSetting
    from zenturio.query.sensitivity import Sensitivity
    from zenturio.show.python_api import TuningResult
    from zenturio.study.best_points import ScoredPoint
    from zenturio.study.tuning.tune_engine import Tuning, TuningPlan


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(engines)
    app.command()(best)
    app.command()(explain)
    app.command()(sensitivity)
    app.command()(tune)
    app.command("import")(import_study)


def engines(
    engine: Annotated[str | None, typer.Argument(help="Engine to show with its settings.")] = None,
    json: Json = False,
) -> None:
    """List the search engines and their settings.

    Examples: zen engines; zen engines ga
    """
    from dataclasses import asdict

    from zenturio.search import describe, names

    descriptions = [describe(name) for name in ([engine] if engine else names())]
    if json:
        output.facts([asdict(description) for description in descriptions])
    elif engine is None:
        rows = [(e.name, "several" if e.multi_objective else "one", e.about) for e in descriptions]
        output.table(("engine", "objectives", "description"), rows)
        typer.echo("\nsettings of one: zen engines NAME; a search: zen run FILE --search NAME")
    else:
        typer.echo(f"{descriptions[0].name}: {descriptions[0].about}\n")
        settings = descriptions[0].settings
        output.table(
            ("setting", "type", "default", "description"),
            [(s.name, output.kind(s), output.number(s.shown_default), s.help) for s in settings],
        )


def best(
    study: Annotated[str, typer.Argument(help="Name of the study.")],
    count: Annotated[
        int, typer.Option("-n", min=1, help="Number of points; fronts are shown whole.")
    ] = 1,
    objective: Annotated[
        str, typer.Option(metavar="'MINIMIZE expr'", help="Objective; default: that of the study.")
    ] = "",
    agg: Annotated[
        str,
        typer.Option(
            metavar="mean|median|p90|...",
            help="Aggregate of a point's repeats; default: median of times, mean of others.",
        ),
    ] = "",
    where: Where = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Show the best points of a study.

    Points are ranked by the median of their repeats if the objective is a time, else by their mean,
    or by the aggregate that --agg names; separately for each kind of machine. "from" and "to" are
    the 95% interval of a median, which needs six repeats, or intervals of means that hold jointly
    for all points, shown with the standard deviation. Points that may be as good as the best are
    listed. If a search had no repeats and its results are noisy, the point that a model of all
    results expects to be the best is listed, too. The column "used" counts repeats with a value of
    the objective, "ok" those that succeeded, "tried" those that finished. For several objectives,
    the Pareto front is shown.

    Examples: zen best matmul -n 5; zen best matmul --where 'threads <= 8'
    """
    from zenturio.experiment.aggregates import LEAST_FOR_MEDIAN_INTERVAL
    from zenturio.query.aggregates import check_aggregate, exact_aggregate
    from zenturio.query.excluded_points import digests_outside, left_out_notes
    from zenturio.query.result_table import display_rows
    from zenturio.query.statistics import student
    from zenturio.query.study_table import numbers_where
    from zenturio.record.entities import RowChoice, read_round
    from zenturio.study.best_points import RepeatAggregate
    from zenturio.study.best_points import best as best_of
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        without = frozenset() if outside else digests_outside(repository, study)
        rows = RowChoice(machine, read_round(round_))
        if agg:
            check_aggregate(agg)
        ranking = best_of(
            repository, study, count, objective, without=without, rows=rows,
            aggregate=RepeatAggregate(agg, exact_aggregate(agg)) if agg else None,
            only=numbers_where(repository, study, expression(where, "--where"), rows),
        )  # fmt: skip
        definition = repository.definition(study)
    if json:
        output.facts(ranking.facts(student))
        return
    intervals, alike = ranking.certainty(student)
    apart = []
    if len(ranking.machines) > 1:
        apart.append("machine")
    if any(point.round is not None for point in ranking.points) and len(ranking.rounds) > 1:
        apart.append("round")
    if any(point.stopped for point in ranking.points):
        apart.append("stopped")
    names = list(ranking.points[0].values) if ranking.points else []
    goals = list(ranking.points[0].scores) if ranking.points else []
    spread = [goal for goal in goals if any(goal in p.deviations for p in ranking.points)]
    stds = ["std" if len(goals) == 1 else f"std({goal})" for goal in spread]
    bounds = ["from", "to"] if any(intervals) else []
    lines = [
        (*p.values.values(), *p.scores.values(), *(p.deviations.get(goal) for goal in spread),
         *(interval or [None] * len(bounds)), p.used, p.ok, p.tried, *_origin(p, apart))
        for p, interval in zip(ranking.points, intervals, strict=True)
    ]  # fmt: skip
    units = {field.name: field.unit for field in (*definition.parameters, *definition.metrics)}
    columns = [f"{name} ({units[name]})" if units.get(name) else name for name in (*names, *goals)]
    heads = (*columns, *stds, *bounds, "used", "ok", "tried", *apart)
    numeric = [
        all(isinstance(point.values[name], int | float | None) for point in ranking.points)
        for name in names
    ]
    sides = "".join("r" if is_number else "l" for is_number in numeric)
    output.table(heads, display_rows(lines), right=sides + "r" * (len(heads) - len(names)))
    typer.echo(f"\n{len(ranking.points):,} of {ranking.of:,} points: {ranking.words}")
    if alike:
        shown = [str(row) for row, yes in enumerate(alike[: len(ranking.points)], 1) if yes][1:]
        hidden = sum(alike[len(ranking.points) :])
        words = [f"row {row}" for row in shown]
        words += [quantities.amount(hidden, "point") + " further down"] if hidden else []
        typer.echo(f"may be as good as row 1 (95% intervals): {', '.join(words) or 'none'}")
    elif ranking.lacks_repeats:
        typer.echo(
            f"the interval of a median needs {LEAST_FOR_MEDIAN_INTERVAL} repeats;"
            " --agg mean shows mean and deviation"
        )
    if ranking.expected is not None:
        typer.echo(output.expected_text(ranking.expected))
    for note in (*ranking.notes, *left_out_notes(ranking.outside)):
        typer.echo(note)


def _origin(point: "ScoredPoint", names: list[str]) -> list[object]:
    """Machine and round, which tell apart rows of a point, and why it has no more repeats."""
    machine = point.machine.label if point.machine else ""
    origins = {"machine": machine, "round": point.round, "stopped": point.stopped}
    return [origins[name] for name in names]


def explain(
    study: Annotated[str, typer.Argument(help="Name of the study.")],
    objective: Annotated[
        str, typer.Option(metavar="'MINIMIZE expr'", help="Objective; default: that of the study.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Chart file: .html, .png, .svg or .pdf; default, or -: the terminal.",
        ),
    ] = None,
    where: Where = None,
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Show what matters, what is best, and what to try next.

    The command fits a forest of regression trees to the points. The line "parameters" lists the
    share of the variance over the space that each parameter explains, interactions included;
    "interactions" the share that two parameters explain only together (functional ANOVA). The range
    in parentheses is the middle 95% of the trees. The chart shows the mean of the objective at each
    value of a parameter, over all values of the others.

    Examples: zen explain matmul; zen explain matmul -o matmul.png
    """
    from zenturio.cli.charts import TERMINAL
    from zenturio.record.entities import RowChoice, read_round
    from zenturio.show.renderers.terminal import render_text
    from zenturio.show.report_store import save
    from zenturio.show.study_insights import explain as explain_study
    from zenturio.show.study_insights import explanation_chart
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        rows = RowChoice(machine, read_round(round_))
        condition = expression(where, "--where")
        answer = explain_study(
            repository, study, objective, where=condition, outside=outside, rows=rows
        )
        chart = None
        if answer.forest is not None and (out is not None or not json):
            chart = explanation_chart(
                repository, answer, objective=objective, where=where, outside=outside,
                machine=machine, round=round_,
            )  # fmt: skip
    lines = answer.lines
    if chart and out is not None and str(out) != TERMINAL:
        save(chart, out)
        lines.append(f"chart: {out}")
    elif chart:
        lines += ["", *render_text(chart)]
    elif out is not None:
        lines.append(f"no chart was written: {answer.reason}")
    facts = answer.facts() | ({"file": str(out)} if chart and out else {})
    output.facts(facts) if json else typer.echo("\n".join(lines))


def sensitivity(
    study: Annotated[str, typer.Argument(help="Name of the study.")],
    metric: Annotated[str, typer.Option(help="Metric; default: the objective.")] = "",
    design: Annotated[
        str,
        typer.Option(
            metavar="KIND:N",
            help="saltelli:N, morris:N, lhs:N or sobol:N; default: that of the last run.",
        ),
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Random seed of the design; default: that of the last run.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Chart of the intervals: .html, .png, .svg or .pdf; - for the terminal.",
        ),
    ] = None,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Show how much a metric depends on each parameter.

    The study must have run the points of a design. After --design saltelli:N, "first" is the share
    of the variance that a parameter explains alone, "total" the share with all its interactions
    (Sobol' indices). After --design morris:N, "size" is the mean absolute change when that
    parameter alone changes. Parameters tied by constraints count as one factor; Shapley effects
    divide its variance among them. After --design lhs:N or sobol:N, Shapley effects divide the
    variance among all parameters. Intervals are 95% intervals.

    Examples: zen run model.py --design saltelli:128; zen sensitivity model --metric error
    """
    from zenturio.query.sensitivity import study_sensitivity
    from zenturio.record.entities import RowChoice, read_round
    from zenturio.study.last_options import read_design
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        chosen = read_design(study, repository.definition(study).notes, design, seed)
        answer = study_sensitivity(
            repository, study, chosen, metric, rows=RowChoice(machine, read_round(round_))
        )
    if not json:
        _print_sensitivity(answer)
    lines = [] if out is None else _sensitivity_chart(study, answer, out)
    if json:
        output.facts(answer.facts() | ({"file": str(out)} if out is not None else {}))
    elif lines:
        typer.echo("\n".join(["", *lines]))


def _print_sensitivity(answer: "Sensitivity") -> None:
    of = f"{answer.metric} ({answer.unit})" if answer.unit else answer.metric
    tables: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    if answer.shares:
        shares = [
            (s.factor, _estimate(s.first, s.first_interval),
             _estimate(s.total, s.total_interval), s.matters)
            for s in answer.shares
        ]  # fmt: skip
        heads: tuple[str, ...] = ("factor", "first", "total", "matters")
        tables.append((f"shares of the variance of {of}", heads, [*shares]))
    if answer.effects:
        changes = [
            (e.factor, _estimate(e.size, e.size_interval), f"{e.mean:.3g}", f"{e.spread:.3g}")
            for e in answer.effects
        ]
        tables.append((f"changes of {of}", ("factor", "size", "mean", "spread"), [*changes]))
    if answer.shapley:
        parts = [(e.parameter, _estimate(e.share, e.interval), e.matters) for e in answer.shapley]
        heads = ("parameter", "share", "matters")
        tables.append((f"Shapley effects on {of}", heads, [*parts]))
    for title, columns, rows in tables:
        typer.echo(f"{title}, {answer.design.text}\n")
        output.table(columns, rows)
        typer.echo("")
    for note in answer.notes:
        typer.echo(note)


def _sensitivity_chart(study: str, answer: "Sensitivity", out: Path) -> list[str]:
    """Write the chart to *out*, or return its lines for the terminal."""
    from zenturio.cli.charts import TERMINAL
    from zenturio.show.charts.search_charts import sensitivity_chart
    from zenturio.show.renderers.terminal import render_text
    from zenturio.show.report_store import save

    chart = sensitivity_chart(study, answer)
    if str(out) == TERMINAL:
        return render_text(chart)
    save(chart, out)
    return [f"chart: {out}"]


def _estimate(value: float, interval: "Interval") -> str:
    return f"{value:.3g} [{interval.low:.3g}, {interval.high:.3g}]"


def import_study(
    source: Annotated[
        str, typer.Argument(metavar="optuna", help="Source of the study: only optuna.")
    ],
    url: Annotated[
        str, typer.Argument(metavar="sqlite:///FILE", help="Storage of the study, or its path.")
    ],
    study: Annotated[
        str, typer.Option(help="Study to import; default: the only one of the storage.")
    ] = "",
    name: Annotated[
        str, typer.Option(help="Name of the new study; default: its name in Optuna.")
    ] = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Import the trials of an Optuna study.

    Parameters, values, reported values, states, times and user attributes become a study that you
    can query, plot and explain like any other. Repeat the command to add trials that finished in
    the meantime.

    Example: zen import optuna sqlite:///db.sqlite3 --study net
    """
    from zenturio.cli.run import ProgressLine
    from zenturio.errors import InputError
    from zenturio.record.open import open_repository
    from zenturio.study.optuna_import import import_optuna

    if source != "optuna":
        raise InputError(f"{source!r} cannot be imported", hint="zen import optuna sqlite:///FILE")
    repository, live = open_repository(db), ProgressLine()
    try:
        answer = import_optuna(repository, url, study, name, listener=live)
    finally:
        live.close()
        repository.close()
    if json:
        output.facts(answer.facts())
        return
    parts = [f"{quantities.amount(answer.imported, 'trial')} imported from Optuna"]
    parts += [f"{answer.cached:,} imported before"] if answer.cached else []
    parts += [f"{answer.unfinished:,} not finished"] if answer.unfinished else []
    typer.echo(f"study {answer.study}: {', '.join(parts)}")
    word = shlex.quote(answer.study)
    typer.echo(f"next: zen best {word}    zen explain {word}")


SHOWN = 5
"""Settings that are shown by default."""


def tune(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PATH|STUDY|FILE.py:FUNCTION", help="Program, study or function to search."
        ),
    ],
    engine: Annotated[
        str, typer.Option(help="Engine whose settings are tuned; see zen engines.")
    ] = "ga",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SET,...",
            help="Values to try: population=50:200:50,selection={rank,roulette}.",
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(min=1, help="Number of searches for each setting, each with its own seed."),
    ] = 30,
    budget: Annotated[str, typer.Option(metavar="N|10min", help="Budget of each search.")] = "",
    objective: Annotated[
        str,
        typer.Option(
            metavar="'MINIMIZE expr'",
            help="Objective; default: that of the file; of a function: MAXIMIZE.",
        ),
    ] = "",
    optimum: Annotated[
        float | None,
        typer.Option(help="Best possible value, if known; precision is relative to it."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Try N random combinations of settings.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed of the first repeat; each further repeat adds one.")
    ] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, help="Number of searches that run at once; default: the cores."
        ),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            metavar="PLACE", help="Where a program runs: a name of zen places; searches run here."
        ),
    ] = "local",
    name: Annotated[str, typer.Option(help="Name of the study; default: TARGET_ENGINE.")] = "",
    machine: MachineKind = "same",
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on", help="Continue even if the first eight points or searches all fail."
        ),
    ] = False,
    run_trial: Annotated[
        bool, typer.Option("--once", help="Run one search with one value of each setting.")
    ] = False,
    db: Database = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Find the best settings of a search engine.

    Each combination of settings is tried in many searches, which are the experiments of a study.
    A target function takes a point, or, if it is compiled by Numba, a row of genes. Its file
    defines the space with directives, or with space = zenturio.Space(...).

    Examples: zen tune matmul.c --settings population=20:60:20,elite=0:2 --budget 200; zen tune
    cost.py:makespan --engine anneal --repeats 10
    """
    from zenturio.cli.run import ProgressLine
    from zenturio.record.open import open_repository
    from zenturio.search import describe
    from zenturio.show.python_api import Study, TuningResult
    from zenturio.study.study_request import PlaceOptions, choose_any_machine, choose_place
    from zenturio.study.tuning.tune_engine import Tuning
    from zenturio.study.tuning.tune_engine import tune as run_tuning
    from zenturio.study.tuning.tuning_scenario import read_ranges, read_target

    safe_streams.outlive_readers()

    ranges = read_ranges(describe(engine), settings or [])
    place = PlaceOptions(jobs, place=choose_place(on))
    repository = open_repository(db)
    live = ProgressLine()
    try:
        tuning_target = read_target(target, objective, repository)
        tuning = Tuning(tuning_target, engine, ranges, repeats, budget, seed, optimum, name)
        if run_trial:
            _once(tuning, repository, place, go_on=go_on)
            return
        tuned = run_tuning(
            tuning,
            repository,
            sample=sample,
            place=place,
            any_machine=choose_any_machine(machine),
            go_on=go_on,
            planned=lambda prospect: None if json else typer.echo(_tuning_plan(prospect)),
            listener=live,
        )
        live.close()
        verdict = TuningResult(tuned, Study(tuning.study, repository, tuned.summary))
        _tuning_facts(verdict) if json else _print(verdict, db)
    finally:
        live.close()
        repository.close()
    if tuned.summary.failures:
        raise typer.Exit(3)


def _once(tuning: "Tuning", repository: Any, place_options: Any, *, go_on: bool) -> None:
    """Run one search, and print its result; append it to ``$ZEN_METRICS`` within an experiment."""
    import json
    import os

    from zenturio.experiment.metrics import METRICS
    from zenturio.study.tuning.tune_engine import run_trial

    facts = run_trial(tuning, repository, place_options, go_on=go_on)
    output.facts(facts)
    if path := os.environ.get(METRICS):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")


def _tuning_plan(prospect: "TuningPlan") -> str:
    tuning = prospect.tuning
    of = "" if prospect.settings == prospect.of else f" of {quantities.count(prospect.of)}"
    budget = f", each of at most {tuning.budget}" if tuning.budget else ""
    return (
        f"study {tuning.study}: {quantities.count(prospect.settings)}{of} settings x "
        f"{tuning.repeats} repeats = {quantities.count(prospect.searches)} searches{budget}"
    )


def _print(verdict: "TuningResult", db: str | None) -> None:
    from zenturio.cli import output

    tuned = verdict.tuned
    summary, study = tuned.summary, verdict.study.name
    typer.echo(
        f"{summary.ok + summary.failed:,} run in {quantities.duration(summary.seconds)}, "
        f"{summary.ok:,} ok, {summary.cached:,} cached"
    )
    if tuned.archived is not None:
        changes = ", ".join(tuned.archived.changes)
        typer.echo(
            f"the study has changed ({changes}): the earlier one is {tuned.archived.name} now"
        )
    output.print_failures(summary.failures, study, db)
    if not verdict.has_solution:
        typer.echo("no search found a solution: nothing can be recommended")
        return
    _print_best(verdict)
    _print_importances(verdict)
    best = output.command_to_type("best", study, "-n", "5", db=db)
    setting = (verdict.swept or verdict.names)[0]
    results = output.command_to_type("results", study, "--by", setting, db=db)
    typer.echo(f"\nstudy: {tuned.file}\nresults: {best}; {results}")


def _print_best(verdict: "TuningResult") -> None:

    best, recommendation = verdict.recommended, verdict.recommendation
    optimum = verdict.tuned.tuning.optimum
    typer.echo(f"precision is relative to the best known value: {output.number(optimum)}\n")
    typer.echo(f"recommended: {output.values_text(best.values)}")
    low, high = map(output.number, best.interval)
    sure = f" ({low} to {high} at {recommendation.confidence:.0%})" if best.repeats > 1 else ""
    typer.echo(f"    precision {output.number(best.mean)}{sure}, {_took(best)}")
    alike, others = len(recommendation.alike), len(recommendation.settings) - 1
    if alike:
        typer.echo(f"    {alike:,} of {others:,} other settings are statistically as good")
    cheapest = recommendation.cheapest
    if cheapest is not best:
        typer.echo(
            f"    the cheapest of them: {output.values_text(cheapest.values)}, precision "
            f"{output.number(cheapest.mean)}, {_took(cheapest)}"
        )
    typer.echo("")
    shown = recommendation.settings[:SHOWN]
    rows = [_tuning_row(setting, alike=setting is best or setting.alike) for setting in shown]
    output.table((*best.values, "precision", *recommendation.costs, "as good"), rows)
    typer.echo(f"{len(shown)} of {len(recommendation.settings):,} settings")


def _tuning_row(setting: "RankedSetting", *, alike: bool) -> list[str]:
    costs = [f"{cost:,.0f}" for cost in setting.costs.values()]
    numbers = map(output.number, [*setting.values.values(), setting.mean])
    return [*numbers, *costs, "yes" if alike else "no"]


def _took(setting: "RankedSetting") -> str:
    visited, needed = setting.costs.values()
    return f"{visited:,.0f} points visited, the best after {needed:,.0f}"


def _print_importances(verdict: "TuningResult") -> None:
    from zenturio.query.importance import UNKNOWN

    importances = verdict.importances
    if importances is None:
        return
    typer.echo("")
    rows = []
    for importance in importances.parameters:
        total = importance.total
        if importance.verdict == UNKNOWN:
            shares = ["", ""]
        else:
            shares = [f"{importance.share:.1%}", "" if total is None else f"{total:.1%}"]
        extent = output.number(importance.range)
        rows.append([importance.parameter, *shares, extent, importance.verdict])
    output.table(("setting", "share", "with others", "worst to best", "matters"), rows)
    typer.echo("\n".join(importances.notes))


def _tuning_facts(verdict: "TuningResult") -> None:
    tuned = verdict.tuned
    summary = tuned.summary
    facts: dict[str, Any] = {
        "study": summary.study,
        "file": str(tuned.file),
        "settings": tuned.settings,
        "of": tuned.of,
        "searches": summary.total,
        "known": summary.cached,
        "ok": summary.ok,
        "failed": summary.failed,
        "seconds": summary.seconds,
        "archived": tuned.archived.name if tuned.archived else None,
        "optimum": tuned.tuning.optimum,
    }
    if verdict.has_solution:
        recommendation = verdict.recommendation
        facts["recommended"] = _setting(recommendation.best)
        facts["cheapest"] = _setting(recommendation.cheapest)
        facts["alike"] = [_setting(importance) for importance in recommendation.alike]
        facts["importance"] = [
            {
                "setting": importance.parameter,
                "share": importance.share,
                "total": importance.total,
                "chance": importance.chance,
                "matters": importance.matters,
            }
            for importance in (verdict.importances.parameters if verdict.importances else ())
        ]
    output.facts(facts)


def _setting(setting: "RankedSetting") -> dict[str, Any]:
    return {
        "settings": dict(setting.values),
        "precision": setting.mean,
        "low": setting.interval.low,
        "high": setting.interval.high,
        **setting.costs,
        "repeats": setting.repeats,
    }
