"""The verbs that plan workflows: schedule, algorithms."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Json

if TYPE_CHECKING:
    from zenturio.schedule.algorithm import AlgorithmDescription
    from zenturio.schedule.model.metrics import MoldablePlan
    from zenturio.schedule.model.plan import Plan

SHOWN = 12
"""Tasks, and processors, that are shown at most."""
WIDTH = 60
"""Columns of a chart."""
SHADES = " ░▒▓█"


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(schedule)
    app.command()(algorithms)


def schedule(
    workflow: Annotated[
        str, typer.Argument(help="A file, or a generator such as wien2k:kpoints=50.")
    ],
    on: Annotated[
        str, typer.Option("--on", metavar="PLATFORM", help="A file or identical:N; else its own.")
    ] = "",
    algorithm: Annotated[str, typer.Option(help="What plans: zen algorithms lists them.")] = "heft",
    objective: Annotated[
        str, typer.Option(metavar="METRIC", help="What it makes best, if it can choose.")
    ] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of its choices.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PLAN.json", help="Write the plan.")
    ] = None,
    gantt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .html, .svg, .png or .pdf.")
    ] = None,
    json: Json = False,
) -> None:
    """Plan which task of a workflow runs where and when.

    Prints the metrics of the plan, and a chart of who is busy when.

    Examples: zen schedule montage.json --on grid.toml; zen schedule wien2k --on identical:8
    --algorithm ga -o plan.json --gantt plan.html
    """
    from zenturio.cli.compiling import compiling_told
    from zenturio.errors import InputError
    from zenturio.schedule.commands import PlanRequest, plan_report
    from zenturio.schedule.formats.plan_json import plan_facts, write_plan
    from zenturio.search.settings import pairs

    if str(out) == "-":
        raise InputError("-o - would be mixed with what is told", hint="--json prints the plan")
    asked = PlanRequest(workflow, on, algorithm, objective, pairs(set_ or []), seed)
    with output.waiting(f"planning with {algorithm}"), compiling_told():
        plan = asked.plan()
        found = plan_facts(plan) if json else None
    output.report(plan_report(plan))
    if out is not None:
        write_plan(plan, out)
    if gantt is not None:
        from zenturio.show.charts.schedule_charts import gantt as drawn
        from zenturio.show.saving import save

        save(drawn(plan), gantt)
    if found is not None:
        output.facts(found)
    else:
        _tell(plan, out)


def algorithms(
    algorithm: Annotated[str | None, typer.Argument(help="One of them, with its settings.")] = None,
    json: Json = False,
) -> None:
    """List the scheduling algorithms and their settings.

    Examples: zen algorithms; zen algorithms xdcp
    """
    from dataclasses import asdict

    from zenturio.errors import PluginError
    from zenturio.schedule.algorithm import describe, names

    found: list[AlgorithmDescription] = []
    broken: list[PluginError] = []
    for name in [algorithm] if algorithm else names():
        try:
            found.append(describe(name))
        except PluginError as error:  # one that does not load does not hide the others
            if algorithm:
                raise
            broken.append(error)
    if json:
        output.facts([asdict(each) for each in found])
    elif algorithm is None:
        rows = [(each.name, each.kind, each.about) for each in found]
        output.table(("algorithm", "kind", "what it does"), rows)
        typer.echo("\nsettings of one: zen algorithms NAME; a plan: zen schedule WORKFLOW --on ...")
    else:
        _tell_one(found[0])
    for words in map(str, broken):
        typer.echo(words, err=True)


def _tell(plan: "Plan | MoldablePlan", out: Path | None) -> None:
    from zenturio.schedule.model.metrics import metrics

    tasks = len(plan.end)
    typer.echo(f"{plan.algorithm}: {tasks:,} tasks in {plan.makespan:.6g} s\n")
    rows = [(name, output.number(value)) for name, value in metrics(plan).items()]
    output.table(("metric", "value"), rows, right="lr")
    if plan.makespan > 0:
        typer.echo("")
        _chart(plan)
    if out is not None:
        typer.echo(f"\n{out}: the plan")


def _chart(plan: "Plan | MoldablePlan") -> None:
    """For each processor, or node, how much of each of some spans of time it is busy."""
    import numpy as np

    from zenturio.schedule.model.plan import Plan

    if isinstance(plan, Plan):
        noun, where, start, end = "processors", plan.processor, plan.start, plan.end
        named = {int(p): plan.machine(int(np.argmax(where == p))) for p in np.unique(where)[:SHOWN]}
    else:
        noun, where = "nodes", plan.node
        start, end = np.repeat(plan.start, plan.counts), np.repeat(plan.end, plan.counts)
        machines = plan.problem.platform.machines
        named = {int(n): machines[n].name for n in np.unique(where)[:SHOWN]}
    width = max(map(len, named.values()))
    for processor, name in named.items():
        mine = where == processor
        typer.echo(f"{name:{width}} |{_bar(start[mine], end[mine], plan.makespan)}|")
    typer.echo(f"{'':{width}} 0{plan.makespan:>{WIDTH}.6g} s")
    used = len(np.unique(where))
    if used > SHOWN:
        typer.echo(f"{SHOWN} of {used:,} {noun}")


def _bar(start: Any, end: Any, makespan: float) -> str:
    import numpy as np

    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    times = np.stack([start, end], axis=1).ravel()
    busy = np.cumsum(np.repeat(end - start, 2) * np.tile([0, 1], len(start)))
    marks = np.linspace(0, makespan, WIDTH + 1)
    shares = np.diff(np.interp(marks, times, busy)) * WIDTH / makespan
    return "".join(SHADES[level] for level in np.ceil(shares * 4 - 1e-6).astype(int).clip(0, 4))


def _tell_one(found: "AlgorithmDescription") -> None:
    typer.echo(f"{found.name} ({found.kind}): {found.about}\n")
    if found.more:
        typer.echo(f"{found.more}\n")
    rows = [(s.name, output.kind(s), output.number(s.default), s.help) for s in found.settings]
    if rows:
        output.table(("setting", "type", "default", "what it is"), rows)
    else:
        typer.echo("nothing to set")
