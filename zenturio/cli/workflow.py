"""The verb workflow: show, convert, generate, run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio import quantities
from zenturio.cli import output, safe_streams
from zenturio.cli.options import Json, Trust
from zenturio.cli.schedule import Times, read_times

if TYPE_CHECKING:
    from zenturio.schedule.model.platform import Platform
    from zenturio.schedule.model.workflow import Workflow
    from zenturio.schedule.simulate.trace import ExecutionTrace


ITERATIONS = 10
"""Of a loop, for which `annotate --command` makes stages."""
SHOWN = 12
"""Maximum number of programs listed; --json prints all."""

Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE...", help="Settings of a generator, such as tasks=50."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of a generator.")]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Output file; its ending selects the format.")
]
Form = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="json|wfformat|stg|dot",
        help="Format of the file; default: by its ending.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    workflow = typer.Typer(
        help="Show, convert, generate and run workflows.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    workflow.command()(show)
    workflow.command()(convert)
    workflow.command()(generate)
    workflow.command()(annotate)
    workflow.command()(generators)
    workflow.command()(run)
    app.add_typer(workflow, name="workflow")


def show(
    source: Annotated[
        str, typer.Argument(metavar="FILE|GENERATOR", help="The workflow: a file, or a generator.")
    ],
    settings: Settings = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Draw the graph: .html, .svg, .png or .pdf."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the size and structure of a workflow.

    Prints tasks and edges, depth and width, work, longest path, and machines.

    Examples: zen workflow show montage.json; zen workflow show wien2k kpoints=20
    -o wien2k.svg
    """
    from zenturio.schedule.generators.generator import instance_of
    from zenturio.settings.schema import pairs

    with output.waiting(f"reading {source}"):
        instance = instance_of(source, pairs(settings or []), seed)
    if out is not None:
        from zenturio.show.charts.schedule_charts import workflow_graph
        from zenturio.show.report_store import save

        save(workflow_graph(instance.workflow), out)
    if json:
        output.facts(_facts(instance.workflow, instance.platform))
    else:
        _show(instance.workflow, instance.platform)


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The workflow to read.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    form: Form = "",
    on: Annotated[
        str,
        typer.Option(metavar="PLATFORM", help="Platform to write instead of the workflow's own."),
    ] = "",
    times: Times = "",
    json: Json = False,
) -> None:
    """Write a workflow in another format.

    Prints what the format cannot express. Machines are written as well if the format allows it. A
    .toml file gets the machines only.

    Examples: zen workflow convert montage.json montage.dot; zen workflow convert a.json grid.toml;
    zen workflow convert trace.txt flow.json --times flow-tasks
    """
    from zenturio.schedule.formats.files import read_instance, read_platform

    with output.waiting(f"reading {source}"):
        instance = read_instance(source)
    platform = read_platform(on) if on else instance.platform
    flow = _timed(instance.workflow, times)
    _tell(out, flow, _write(flow, platform, out, form), json)


def generate(
    generator: Annotated[str, typer.Argument(help="One of: zen workflow generators.")],
    out: Out,
    settings: Settings = None,
    seed: Seed = 0,
    form: Form = "",
    json: Json = False,
) -> None:
    """Generate a workflow from settings and a seed.

    The same settings and seed give the same workflow. A generator with machines of its own
    writes them to the file too; -o grid.toml writes the machines only.

    Examples: zen workflow generate wien2k kpoints=50 --seed 1 -o wien2k.json; zen workflow
    generate recipe trace=montage.json tasks=1000000 -o large.json
    """
    from zenturio.schedule.generators.generator import instance_of
    from zenturio.settings.schema import pairs

    with output.waiting(f"making {generator}"):
        instance = instance_of(_known(generator), pairs(settings or []), seed)
    _tell(out, instance.workflow, _write(instance.workflow, instance.platform, out, form), json)


def annotate(
    source: Annotated[
        str, typer.Argument(metavar="FILE|GENERATOR", help="The workflow: a file, or a generator.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="A new folder.")],
    on: Annotated[
        str,
        typer.Option(
            metavar="PLATFORM", help="Platform file or identical:N; default: the workflow's own."
        ),
    ] = "",
    objective: Annotated[
        str, typer.Option(metavar="METRIC", help="Objective of the study.")
    ] = "makespan",
    command: Annotated[
        str,
        typer.Option(
            metavar="'./task {task}'",
            help="Instead, make each task a stage that runs this command, for zen submit.",
        ),
    ] = "",
    file: Annotated[
        list[Path] | None, typer.Option(help="Input file of every stage; repeatable.")
    ] = None,
    hand_on: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Output files that later stages receive."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Iterations of a loop for which there are stages; default: 10."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a study of all schedules of a workflow, or stages that run its tasks.

    Writes the workflow, the platform, and for each task a directive with the machines that may run
    it. Any search engine can then act as a scheduler; the place simulate evaluates its plans.

    With --command, each task becomes a stage: a study that waits for the stages before it, and
    finds their files in folders named after these stages. zen submit passes the last stage to a
    service, which runs the workflows of several users by its policy. Stages of branches that are
    not taken, and of iterations after the last one, are skipped.

    Examples: zen workflow annotate wien2k:kpoints=20 -o wien2k; zen run wien2k --search ga --budget
    2000 --on simulate; zen workflow annotate flow.json --command './task {task}' --file task -o
    flow; zen submit flow/flow-all
    """
    from zenturio.errors import InputError
    from zenturio.schedule.formats.files import read_platform
    from zenturio.schedule.generators.generator import instance_of
    from zenturio.study.workflow_to_study import annotate as write
    from zenturio.study.workflow_to_study import annotate_as_stages

    instance = instance_of(source)
    if command:
        last = annotate_as_stages(
            instance.workflow, out, command, file or [], hand_on or [], iterations or ITERATIONS
        )
        if json:
            output.facts({"folder": str(last), "tasks": len(instance.workflow)})
        else:
            typer.echo(f"wrote {out}; next: zen submit {last}, or zen run {last}")
        return
    if file or hand_on or iterations:
        message = "--file, --hand-on and --iterations go with --command"
        raise InputError(message, hint="leave them out")
    platform = read_platform(on) if on else instance.platform
    if platform is None:
        raise InputError(f"{source} has no machines", hint="--on grid.toml, or identical:8")
    folder = write(instance.workflow, platform, out, objective)
    if json:
        output.facts({"folder": str(folder), "tasks": len(instance.workflow)})
    else:
        typer.echo(f"wrote {folder}; next: zen run {folder} --search ga --on simulate")


def generators(
    generator: Annotated[
        str | None, typer.Argument(help="A generator to show with its settings.")
    ] = None,
    json: Json = False,
) -> None:
    """List the generators of workflows and their settings.

    Examples: zen workflow generators; zen workflow generators wien2k
    """
    from dataclasses import asdict

    from zenturio.schedule.generators.generator import describe, names

    descriptions = [describe(name) for name in ([generator] if generator else names())]
    if json:
        output.facts([asdict(description) for description in descriptions])
    elif generator is None:
        output.table(("generator", "description"), [(e.name, e.about) for e in descriptions])
        typer.echo("\nsettings of one: zen workflow generators NAME")
    else:
        typer.echo(f"{descriptions[0].name}: {descriptions[0].about}\n")
        output.table(
            ("setting", "type", "default", "description"),
            [
                (s.name, output.kind(s), output.number(s.shown_default), s.help)
                for s in descriptions[0].settings
            ],
        )


def _known(text: str) -> str:
    """Return *text* if it names a generator: a file is none, whatever it is called."""
    from zenturio.schedule.generators.generator import describe

    # Raises the error that names generators which are near.
    describe(text.partition(":")[0])
    return text


def _write(flow: "Workflow", platform: "Platform | None", out: Path, form: str) -> tuple[str, ...]:
    """Write both, or the machines alone; what was lost."""
    from zenturio.errors import InputError
    from zenturio.schedule.formats.files import write_platform, write_workflow

    if out.suffix.lower() != ".toml":
        with output.waiting(f"writing {len(flow):,} tasks"):
            return write_workflow(flow, out, platform, form)
    if platform is None:
        raise InputError(f"{flow.name} has no machines of its own to write into {out}")
    write_platform(platform, out)
    return ()


def _tell(out: Path, flow: "Workflow", losses: tuple[str, ...], json: bool) -> None:
    if json:
        facts = {"out": str(out), "tasks": len(flow), "edges": len(flow.data), "lost": losses}
        output.facts(facts)
        return
    for loss in losses:
        typer.echo(f"warning: not written: {loss}", err=True)
    # The note must not get into the workflow.
    piped = str(out) in {"-", "/dev/stdout"}
    if out.suffix.lower() == ".toml":
        typer.echo(f"wrote {out}: the machines of {flow.name}")
    else:
        typer.echo(f"wrote {out}: {len(flow):,} tasks, {len(flow.data):,} edges", err=piped)


def _facts(flow: "Workflow", platform: "Platform | None") -> dict[str, Any]:
    from dataclasses import asdict

    from zenturio.schedule.model.shape_and_runtimes import shape_of

    shape = shape_of(flow)
    facts: dict[str, Any] = {**asdict(shape), "parallelism": shape.parallelism}
    facts["notes"] = dict(flow.notes)
    facts["platform"] = platform and {
        "name": platform.name,
        "machines": len(platform),
        "cores": sum(machine.cores for machine in platform.machines),
        "sites": len(platform.sites),
        "speeds": sorted({machine.speed for machine in platform.machines}),
    }
    return facts


def _show(flow: "Workflow", platform: "Platform | None") -> None:
    from zenturio.schedule.model.shape_and_runtimes import shape_of

    shape = shape_of(flow)
    transfers_text = f", {shape.transfers:,} of them transfers" if shape.transfers else ""
    moldable_text = f", {shape.moldable:,} moldable" if shape.moldable else ""
    typer.echo(
        f"{flow.name}: {shape.tasks:,} tasks{transfers_text}{moldable_text}, {shape.edges:,} edges"
    )
    typer.echo(f"work       {quantities.duration(shape.work)} on a machine of speed 1")
    if shape.critical is None:
        typer.echo("levels     none, because there is a loop")
    else:
        typer.echo(f"levels     {shape.levels:,}, the largest of {shape.width:,} tasks")
        typer.echo(
            f"longest    {quantities.duration(shape.critical)} of work, one task after the other"
        )
    if shape.parallelism:
        typer.echo(f"parallel   {shape.parallelism:.3g} machines busy on average")
    typer.echo(f"data       {shape.data:.3g} bytes")
    if flow.measured is not None:
        typer.echo(f"measured   {quantities.duration(flow.measured)} from first to last")
    if platform is not None:
        sites = len(platform.sites)
        typer.echo(f"machines   {len(platform):,} at {sites} site{'s' * (sites > 1)}")
    programs = [program for program in shape.programs if program.name]
    if programs:
        rows = [(p.name, f"{p.tasks:,}", output.number(p.work)) for p in programs[:SHOWN]]
        typer.echo("")
        output.table(("program", "tasks", "mean s"), rows, right="lrr")
        if len(programs) > SHOWN:
            typer.echo(f"{SHOWN} of {len(programs):,} programs; --json prints all")


def _timed(flow: "Workflow", times: str) -> "Workflow":
    """Return *flow* with the times of --times; prints which tasks keep theirs."""
    if not times:
        return flow
    from zenturio.schedule.formats.task_times import extrapolations, with_times

    source = read_times(times)
    timed = with_times(flow, source)
    for message in extrapolations(flow, source):
        typer.echo(f"warning: {message}", err=True)
    if timed.untimed:
        named = ", ".join(timed.untimed[:3]) + ", ..." * (len(timed.untimed) > 3)
        typer.echo(
            f"{times} has no times of {len(timed.untimed):,} of {len(flow):,} tasks, which keep "
            f"theirs: {named}",
            err=True,
        )
    return timed.workflow


SHOWN_RUNS = 20
"""Maximum number of runs listed."""


def run(
    source: Annotated[
        str, typer.Argument(metavar="FILE|GENERATOR", help="The workflow: a file, or a generator.")
    ],
    command: Annotated[
        str,
        typer.Option(
            metavar="'./task {task}'",
            help="Command of a task; {task}, {program}, {work}, {cores} and {iteration} are "
            "replaced.",
        ),
    ],
    hosts: Annotated[
        str, typer.Option("--on", metavar="FILE.toml|local", help="Hosts file, or this machine.")
    ] = "hosts.toml",
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
    times: Times = "",
    record: Annotated[
        str,
        typer.Option(
            metavar="STUDY", help="Study in which times of tasks are recorded; default: NAME-tasks."
        ),
    ] = "",
    gantt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a Gantt chart: .html, .svg, .png or .pdf."),
    ] = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Run the tasks of a workflow on hosts, and replan while they run.

    The work of a task is in seconds on a host of speed 1. Loops are run until their last task
    reports the metric converged (a line {"converged": true} in $ZEN_METRICS). A task that reports
    its progress ($ZEN_PROFILE) can migrate when it breaks its contract. After a crash, rerun the
    command: finished tasks are skipped.

    Tasks of several cores share hosts with other tasks as far as slots and memory allow. A moldable
    algorithm (-a moldable-global, cpa ...) chooses the number of cores of each task with a speedup
    curve, up to the cores of one host. The command gets this number as {cores} and OMP_NUM_THREADS.

    Prints the planned time and the measured time of each task, and records both in a study. --times
    STUDY uses this study for the next run.

    Examples: zen workflow run flow.json --command './task {task}' --file task --on local; zen
    workflow run flow.json --command 'python3 task.py {task}' --file task.py --hand-on '*.dat' --on
    hosts.toml --gantt flow.svg; zen workflow run flow.json --command './task {task}' --file task
    --on local --times flow-tasks
    """
    from contextlib import closing

    from zenturio.errors import ZenError
    from zenturio.execute.hosts.executor import Hosts, HostsSettings
    from zenturio.execute.hosts.hosts_file import LOCAL, local_hosts_file
    from zenturio.execute.hosts.workflow_run import TaskTemplate, run_workflow
    from zenturio.record.open import begin_project, open_repository
    from zenturio.schedule.algorithm import make_workflow_planner
    from zenturio.schedule.formats.plan_json import trace_facts
    from zenturio.schedule.generators.generator import instance_of
    from zenturio.study.task_records import default_study, record_task_times

    safe_streams.outlive_readers()
    make_workflow_planner(algorithm)  # an unsuitable one is refused before hosts are connected
    flow = _timed(instance_of(source, {}, 0).workflow, times)
    doing = TaskTemplate(command, tuple(file or []), tuple(hand_on or []), iterations)
    place = Hosts(
        begin_project(),
        options=HostsSettings(hosts),
        configuration=local_hosts_file() if hosts == LOCAL else None,
    )
    study = record or default_study(flow.name)
    # Opened before the run: if the database cannot be used, no results are lost.
    with closing(open_repository(None)) as repository:
        with place, output.waiting("running"):
            trace = run_workflow(flow, doing, place, algorithm)
        try:
            record_task_times(repository, study, trace)
        except ZenError as error:
            typer.echo(f"warning: the times of the tasks are not recorded: {error}", err=True)
    if gantt is not None:
        from zenturio.show.charts.schedule_charts import gantt as drawn
        from zenturio.show.report_store import save

        save(drawn(trace), gantt)
    if json:
        facts = {**trace_facts(trace), "predictions": _predictions(trace), "study": study}
        output.facts(facts)
    else:
        _print_trace(trace)
        typer.echo(f"recorded in {study}; plan with these times: --times {study}")


def _predictions(trace: "ExecutionTrace") -> list[dict[str, Any]]:
    """Return the predicted and the measured seconds of each successful run."""
    names = trace.problem.workflow.names
    return [
        {
            "task": names[run.task],
            "predicted": trace.problem.time(run.task, run.processor),
            "took": run.end - run.start,
        }
        for run in trace.good
    ]


def _prediction_errors(trace: "ExecutionTrace") -> str:
    """Return in words how far the runs were from the times that were planned with."""
    from statistics import median

    ratios = [
        row["took"] / row["predicted"]
        for row in _predictions(trace)
        if 0 < row["predicted"] < float("inf")
    ]
    if not ratios:
        return ""
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    text = f"runs took {median(ratios):.3g} times what was predicted (median)"
    worst = f"{median(errors):.0%} off in the median, {errors[-1]:.0%} at most"
    return f"{text}; {worst}"


def _print_trace(trace: "ExecutionTrace") -> None:
    """Print the last runs, the total time, and how many runs were repeated."""
    machines, node = trace.problem.platform.machines, trace.problem.node
    names = trace.problem.workflow.names
    rows = [
        (
            names[run.task],
            machines[node[run.processor]].name,
            output.number(run.start),
            output.number(run.end),
            output.number(trace.problem.time(run.task, run.processor)),
            output.number(run.end - run.start),
            "" if run.kind == "ended" else run.kind,
        )
        for run in trace.runs[-SHOWN_RUNS:]
    ]
    output.table(
        ("task", "host", "start", "end", "predicted s", "took s", ""), rows, right="llrrrr"
    )
    if len(trace.runs) > SHOWN_RUNS:
        typer.echo(f"the last {SHOWN_RUNS} of {len(trace.runs):,} runs; --json prints all")
    again = f", loops were repeated {len(trace.again)} times" if trace.again else ""
    lost = sum(run.kind != "ended" for run in trace.runs)
    moved = f", {lost} runs were lost or cancelled" if lost else ""
    headline = f"{trace.algorithm}: {len(names):,} tasks in {quantities.duration(trace.makespan)}"
    typer.echo(f"{headline}{again}{moved}")
    if trace.skipped:
        typer.echo(f"skipped because of exit codes: {', '.join(names[t] for t in trace.skipped)}")
    if text := _prediction_errors(trace):
        typer.echo(text)
