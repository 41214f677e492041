"""The verb that tunes search engines: tune."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import failures, output
from zenturio.cli.options import Database, Json, MachineKind, Trust
from zenturio.show import quantities

if TYPE_CHECKING:
    from zenturio.query.importance import RankedSetting
    from zenturio.show.study import TuningResult
    from zenturio.study.tuning.tune import Tuning, TuningPlan

SHOWN = 5
"""Settings that are shown without being asked for."""


def tune(
    target: Annotated[
        str, typer.Argument(metavar="PATH|STUDY|FILE.py:FUNCTION", help="What is searched.")
    ],
    engine: Annotated[str, typer.Option(help="Whose settings are tuned: zen engines.")] = "ga",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SET,...", help="Such as population=50:200:50,selection={rank,roulette}."
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Searches with each setting, each with its own seed.")
    ] = 30,
    budget: Annotated[
        str, typer.Option(metavar="N|10min", help="What each search may spend.")
    ] = "",
    objective: Annotated[
        str,
        typer.Option(metavar="'MINIMIZE expr'", help="If not the file's; of functions: MAXIMIZE."),
    ] = "",
    optimum: Annotated[
        float | None, typer.Option(help="The best value, if it is known: precision is told by it.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many combinations of settings, by chance.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the first repeat; the next ones count on.")] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="How many at once; else the cores.")
    ] = None,
    name: Annotated[str, typer.Option(help="The study's name, if not TARGET_ENGINE.")] = "",
    machine: MachineKind = "same",
    run_trial: Annotated[
        bool, typer.Option("--once", help="Make one search, with one value of each setting.")
    ] = False,
    db: Database = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Find the best settings of a search engine.

    Each combination of settings is tried in many searches; these are the experiments of a study
    like any other. A function takes a point, or is compiled by Numba and takes a row of genes;
    its file says which points there are: by directives, or as space = zenturio.Space(...).

    Examples: zen tune matmul.c --settings population=20:60:20,elite=0:2 --budget 200; zen tune
    cost.py:makespan --engine anneal --repeats 10
    """
    from zenturio.cli.live import Live
    from zenturio.record.open import open_repository
    from zenturio.search import describe
    from zenturio.show.study import Study, TuningResult
    from zenturio.study.place_options import PlaceOptions
    from zenturio.study.study_request import choose_any_machine
    from zenturio.study.tuning.tune import Tuning
    from zenturio.study.tuning.tune import tune as run_tuning
    from zenturio.study.tuning.tuning_target import read_ranges, read_target

    ranges = read_ranges(describe(engine), settings or [])
    repository = open_repository(db)
    live = Live()
    try:
        found = read_target(target, objective, repository)
        tuning = Tuning(found, engine, ranges, repeats, budget, seed, optimum, name)
        if run_trial:
            _once(tuning, repository, PlaceOptions(jobs))
            return
        tuned = run_tuning(
            tuning,
            repository,
            sample=sample,
            place=PlaceOptions(jobs),
            any_machine=choose_any_machine(machine),
            planned=lambda prospect: None if json else typer.echo(_plan(prospect)),
            listener=live,
        )
        live.close()
        verdict = TuningResult(tuned, Study(tuning.study, repository, tuned.summary))
        _facts(verdict) if json else _print(verdict, db)
    finally:
        live.close()
        repository.close()
    if tuned.summary.failures:
        raise typer.Exit(3)


def _once(tuning: "Tuning", repository: Any, here: Any) -> None:
    """One search, and what it came to: as JSON, and for the experiment that this is, if it is."""
    import json
    import os
    from pathlib import Path

    from zenturio.experiment.metrics import METRICS
    from zenturio.study.tuning.tune import run_trial

    facts = run_trial(tuning, repository, here)
    output.facts(facts)
    if path := os.environ.get(METRICS):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")


def _plan(prospect: "TuningPlan") -> str:
    tuning = prospect.tuning
    of = "" if prospect.settings == prospect.of else f" of {quantities.count(prospect.of)}"
    budget = f", each of at most {tuning.budget}" if tuning.budget else ""
    return (
        f"study {tuning.study}: {quantities.count(prospect.settings)}{of} settings x "
        f"{tuning.repeats} repeats = {quantities.count(prospect.searches)} searches{budget}"
    )


def _print(verdict: "TuningResult", db: str | None) -> None:
    from zenturio.cli import again

    tuned = verdict.tuned
    summary, study = tuned.summary, verdict.study.name
    typer.echo(
        f"{summary.ok + summary.failed:,} run in {quantities.duration(summary.seconds)}, "
        f"{summary.ok:,} ok, {summary.known:,} cached"
    )
    if tuned.archived is not None:
        changes = ", ".join(tuned.archived.changes)
        typer.echo(f"it is another study ({changes}): what was before is {tuned.archived.name} now")
    failures.show(summary.failures, study, db)
    if tuned.tuning.optimum is None:
        typer.echo("no search found anything: nothing can be recommended")
        return
    _print_best(verdict)
    _print_importances(verdict)
    typer.echo(
        f"\nthe study: {tuned.file}\n"
        f"look at it: {again.command('best', study, '-n', '5', db=db)}; "
        f"{again.command('results', study, '--by', (verdict.swept or verdict.names)[0], db=db)}"
    )


def _print_best(verdict: "TuningResult") -> None:
    from zenturio.cli.live import settings

    best, found = verdict.recommended, verdict.recommendation
    optimum = verdict.tuned.tuning.optimum
    typer.echo(f"precision is told by the best value that is known: {output.number(optimum)}\n")
    typer.echo(f"recommended: {settings(best.values)}")
    low, high = map(output.number, best.interval)
    sure = f" ({low} to {high} at {found.confidence:.0%})" if best.repeats > 1 else ""
    typer.echo(f"    precision {output.number(best.mean)}{sure}, {_took(best)}")
    alike, others = len(found.alike), len(found.settings) - 1
    if alike:
        typer.echo(f"    {alike:,} of {others:,} other settings cannot be told from it")
    if found.cheapest is not best:
        typer.echo(
            f"    the cheapest of them: {settings(found.cheapest.values)}, precision "
            f"{output.number(found.cheapest.mean)}, {_took(found.cheapest)}"
        )
    typer.echo("")
    shown = found.settings[:SHOWN]
    rows = [_row(each, alike=each is best or each.alike) for each in shown]
    output.table((*best.values, "precision", *found.costs, "as good"), rows)
    typer.echo(f"{len(shown)} of {len(found.settings):,} settings")


def _row(setting: "RankedSetting", *, alike: bool) -> list[str]:
    costs = [f"{cost:,.0f}" for cost in setting.costs.values()]
    numbers = map(output.number, [*setting.values.values(), setting.mean])
    return [*numbers, *costs, "yes" if alike else "no"]


def _took(setting: "RankedSetting") -> str:
    visited, needed = setting.costs.values()
    return f"{visited:,.0f} points visited, the best after {needed:,.0f}"


def _print_importances(verdict: "TuningResult") -> None:
    from zenturio.query.importance import UNKNOWN

    found = verdict.importances
    if found is None:
        return
    typer.echo("")
    rows = [
        [each.parameter, "" if each.verdict == UNKNOWN else f"{each.share:.1%}",
         "" if each.total is None or each.verdict == UNKNOWN else f"{each.total:.1%}",
         output.number(each.range), each.verdict]
        for each in found.parameters
    ]  # fmt: skip
    output.table(("setting", "share", "with others", "worst to best", "matters"), rows)
    typer.echo("\n".join(found.notes))


def _facts(verdict: "TuningResult") -> None:
    tuned = verdict.tuned
    summary = tuned.summary
    facts: dict[str, Any] = {
        "study": summary.study,
        "file": str(tuned.file),
        "settings": tuned.settings,
        "of": tuned.of,
        "searches": summary.total,
        "known": summary.known,
        "ok": summary.ok,
        "failed": summary.failed,
        "seconds": summary.seconds,
        "archived": tuned.archived.name if tuned.archived else None,
        "optimum": tuned.tuning.optimum,
    }
    if tuned.tuning.optimum is not None:
        found = verdict.recommendation
        facts["recommended"] = _setting(found.best)
        facts["cheapest"] = _setting(found.cheapest)
        facts["alike"] = [_setting(each) for each in found.alike]
        facts["importance"] = [
            {
                "setting": each.parameter,
                "share": each.share,
                "total": each.total,
                "chance": each.chance,
                "matters": each.matters,
            }
            for each in (verdict.importances.parameters if verdict.importances else ())
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
