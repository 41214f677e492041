"""The verb ``zen workflow run``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zenturio.cli import output
from zenturio.cli.options import Json, Trust
from zenturio.show import quantities

if TYPE_CHECKING:
    from zenturio.schedule.simulate.trace import ExecutionTrace

SHOWN = 20
"""Maximum number of runs listed."""


def run(
    source: Annotated[
        str, typer.Argument(metavar="FILE|GENERATOR", help="The workflow: a file, or a generator.")
    ],
    command: Annotated[
        str,
        typer.Option(
            metavar="'./task {task}'",
            help="Command of a task; {task}, {program}, {work} and {iteration} are replaced.",
        ),
    ],
    hosts: Annotated[Path, typer.Option("--on", metavar="FILE.toml", help="Hosts file.")] = Path(
        "hosts.toml"
    ),
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm", "-a", metavar="NAME[:SETTING=VALUE,...]", help="Scheduling algorithm."
        ),
    ] = "hybrid",
    file: Annotated[
        list[Path] | None, typer.Option(help="Input file of every task; repeatable.")
    ] = None,
    hand_on: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Output files that the successors of a task receive."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=1, help="Maximum iterations of a loop; more are an error.")
    ] = 100,
    gantt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a Gantt chart: .html, .svg, .png or .pdf."),
    ] = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Run a workflow of real tasks on hosts, planned anew while it runs.

    The work of a task is in seconds on a host of speed 1. Loops are run until their last task
    reports the metric converged (a line {"converged": true} in $ZEN_METRICS). A task that reports
    its progress ($ZEN_PROFILE) can migrate when it breaks its contract. After a crash, rerun the
    command: finished tasks are skipped.

    Example: zen workflow run flow.json --command 'python3 task.py {task}' --file task.py --hand-on
    '*.dat' --on hosts.toml --gantt flow.svg
    """
    from zenturio.execute.hosts.executor import Hosts, HostsSettings
    from zenturio.execute.hosts.workflow_run import TaskTemplate, run_workflow
    from zenturio.record.open import FOLDER, project_folder
    from zenturio.schedule.formats.plan_json import trace_facts
    from zenturio.schedule.generators.generator import instance_of

    flow = instance_of(source, {}, 0).workflow
    doing = TaskTemplate(command, tuple(file or []), tuple(hand_on or []), iterations)
    settings = HostsSettings(str(hosts))
    with Hosts(project_folder() / FOLDER, options=settings) as place, output.waiting("running"):
        trace = run_workflow(flow, doing, place, algorithm)
    if gantt is not None:
        from zenturio.show.chart_files import save
        from zenturio.show.charts.schedule_charts import gantt as drawn

        save(drawn(trace), gantt)
    output.facts(trace_facts(trace)) if json else _tell(trace)


def _tell(trace: "ExecutionTrace") -> None:
    """Print the last runs, the total time, and how many runs were repeated."""
    machines, node = trace.problem.platform.machines, trace.problem.node
    names = trace.problem.workflow.names
    rows = [
        (
            names[run.task],
            machines[node[run.processor]].name,
            output.number(run.start),
            output.number(run.end),
            "" if run.kind == "ended" else run.kind,
        )
        for run in trace.runs[-SHOWN:]
    ]
    output.table(("task", "host", "start", "end", ""), rows, right="llrr")
    if len(trace.runs) > SHOWN:
        typer.echo(f"the last {SHOWN} of {len(trace.runs):,} runs; --json prints all")
    again = f", loops were repeated {len(trace.again)} times" if trace.again else ""
    lost = sum(run.kind != "ended" for run in trace.runs)
    moved = f", {lost} runs were lost or cancelled" if lost else ""
    what = f"{trace.algorithm}: {len(names):,} tasks in {quantities.duration(trace.makespan)}"
    typer.echo(f"{what}{again}{moved}")
