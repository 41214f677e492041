"""The verb of verbs: run."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import failures, options, output
from zenturio.show import quantities

if TYPE_CHECKING:
    from zenturio.study.driver.progress import RunPlan, RunSummary

ENDS = {
    "exhausted": "its engine has nothing more to ask for",
    "budget": "its points are spent",
    "time": "its time is over",
    "target": "its target is reached",
    "stall": "nothing better was found for as long as it was to wait",
}
"""What ended a search, in words."""


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
    app.command()(run)


def run(
    paths: options.Paths,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="How many at once; the cores, if not given."),
    ] = None,
    param: options.Overrides = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    search: options.Engine = "",
    budget: options.Budget = "",
    stop: options.Stop = None,
    settings: options.Settings = None,
    objective: options.Objective = "",
    seed: options.Seed = 0,
    only: options.Only = "missing",
    fail_fast: Annotated[bool, typer.Option(help="Stop at the first failure.")] = False,
    join: Annotated[bool, typer.Option(help="Help a driver that runs the study already.")] = False,
    keep: Annotated[
        str, typer.Option(metavar="always|failed|never", help="Whose folders stay.")
    ] = "failed",
    pin: Annotated[bool, typer.Option(help="Bind each experiment to its own cores.")] = False,
    on: Annotated[
        str, typer.Option(metavar="PLACE", help="Where it runs: zen places; dask://host:8786.")
    ] = "local",
    batch: Annotated[
        str, typer.Option(metavar="auto|N", help="Short experiments that travel together.")
    ] = "",
    machine: options.MachineKind = "same",
    each_machine: options.EachMachine = False,
    again: options.Again = False,
    name: options.Name = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would be run, and stop.")] = False,
    same: Annotated[bool, typer.Option("--same", hidden=True)] = False,
    trust: options.Trust = False,  # noqa: ARG001 - its callback does it
    db: options.Database = None,
    json: options.Json = False,
) -> None:
    """Run the experiments of a study and record their results.

    What has an outcome already is not run again: to resume, give the same command again. On
    another kind of machine what is not declared EXACT is measured anew, beside the earlier
    results, unless --machine any takes these. Where a place has several kinds of machine, such as
    hosts with other processors, any of them runs a point; with --each-machine each of them does,
    one kind after the other. --again measures all of it again, in a round of its
    own: answers show the newest round, and --round another one. Stopped, it goes on with its round.

    Examples: zen run matmul.c; zen run . -j 4 --only failed; zen run model.py --search ga
    --budget 500; zen run matmul.c --on dask
    """
    from zenturio.cli.live import Live
    from zenturio.study.local_run import job_script, plan_request, run_request
    from zenturio.study.study_request import StudyRequest

    request = StudyRequest(
        tuple(paths), tuple(param or ()), limit, sample, search, budget, tuple(stop or ()),
        tuple(settings or ()), objective, seed, only, name or "", on, machine, again,
        each_machine, jobs, fail_fast, keep, pin, batch, join,
    )  # fmt: skip
    place = request.place_options
    application = request.application()
    if not json:
        for warning in application.warnings:
            typer.echo(str(warning), err=True)
    if dry_run:
        plan = plan_request(request, application, db=db)
        script = job_script(application, request.points(application), place)
        if json:
            output.facts({**_plan_facts(plan), "script": script})
        else:
            typer.echo("\n".join(_plan(each) for each in (*plan.before, plan)))
            if script:
                typer.echo(f"\nthe script of its jobs:\n\n{script}")
        return
    live = Live()
    try:
        summary = run_request(
            request,
            application,
            db=db,
            same=same,
            planned=lambda plan: None if json else typer.echo(_plan(plan)),
            listener=live,
        )
    finally:
        live.close()
    stages = (*summary.before, summary)
    if json:
        output.facts(_summary_facts(summary))
    else:
        for each in stages:
            _print_summary(each, db, named=len(stages) > 1)
    if summary.interrupted:
        raise typer.Exit(130)
    if any(each.failures for each in stages):
        raise typer.Exit(3)


def _plan(plan: "RunPlan") -> str:
    repeats = f" x {plan.repeats} repeats" if plan.repeats > 1 else ""
    repeats += f" x {plan.kinds} kinds of machine" if plan.kinds > 1 else ""
    cached = f"{plan.known:,} of them cached" if plan.looked_at else "what is cached is not run"
    if 0 < plan.looked_at < plan.experiments or plan.engine:
        cached = f"{plan.known:,} of the first {plan.looked_at:,} cached"
    points, experiments = quantities.count(plan.points), quantities.count(plan.experiments)
    what = f"{points} points{repeats}, {experiments} experiments"
    if plan.engine:
        most = f"at most {what}" if plan.points else "as many points as there is time for"
        what = f"search by {plan.engine}, {most}"
    slots = f"; {plan.slots} at a time" if plan.slots else ""
    remarks = "".join(f"\n{remark}" for remark in plan.remarks)
    return f"{_before(plan)}study {plan.study}: {what}, {cached}{slots}{remarks}"


def _before(plan: "RunPlan") -> str:
    """Of another program that had the name: what becomes of its results."""
    if plan.archived is None:
        return ""
    name, changes, elsewhere = plan.archived.name, plan.archived.changes, plan.archived.elsewhere
    other = f", not that of {elsewhere}" if elsewhere else ""
    line = f"the program is another one{other} ({_few(changes)}): "
    line += f"what was before is study {name} {'now' if plan.slots else 'then'}\n"
    return line + ("to keep both apart, run one with --name NAME\n" if elsewhere else "")


def _few(words: tuple[str, ...], most: int = 4) -> str:
    more = [f"{len(words) - most} more"] if len(words) > most else []
    return ", ".join([*words[:most], *more])


def _print_summary(summary: "RunSummary", db: str | None, *, named: bool = False) -> None:
    from zenturio.cli import again
    from zenturio.cli.live import settings

    ran = summary.ok + summary.failed
    words = [f"{ran:,} run in {quantities.duration(summary.seconds)}", f"{summary.ok:,} ok"]
    if summary.failed:
        words.append(f"{summary.failed:,} failed")
    if summary.known:
        words.append(f"{summary.known:,} cached")
    if summary.blocked:
        words.append(f"{summary.blocked:,} waited for what failed before them")
    if left := summary.unfinished - summary.blocked:
        words.append(f"{left:,} left: the same command goes on")
    typer.echo(f"{summary.study}: " * named + ", ".join(words))
    if summary.alone:
        typer.echo(f"{summary.alone:,} asked for more CPUs than there are slots, and ran alone")
    if summary.ended:
        typer.echo(f"the search ended: {ENDS[summary.ended]}")
    if summary.best is not None:
        best = summary.best
        typer.echo(f"best: {best.goal} = {output.number(best.value)} at {settings(best.at)}")
    failures.show(summary.failures, summary.study, db)
    if summary.failures:
        typer.echo(f"run the failed ones again: {again.only_failed()}")
    typer.echo(f"look at them: {again.command('results', summary.study, db=db)}")


def _plan_facts(plan: "RunPlan") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(plan)


def _summary_facts(summary: "RunSummary") -> dict[str, Any]:
    from dataclasses import asdict

    facts = asdict(summary)
    for stage in (facts, *facts["before"]):
        for each in stage["failures"]:
            each["values"] = dict(each["values"])
    return facts
