"""The verbs that plan workflows: schedule, algorithms."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.options import Json, Trust
from zenturio.errors import ZenError

if TYPE_CHECKING:
    from zenturio.schedule.algorithm import AlgorithmDescription
    from zenturio.schedule.formats.task_times import TaskTimeSource
    from zenturio.schedule.model.metrics import MoldablePlan
    from zenturio.schedule.model.plan import Plan
    from zenturio.schedule.static.islands import IslandRunner


SHOWN = 12
"""Maximum number of processors shown in the chart."""
WIDTH = 60
"""Columns of a chart."""
SHADES = " ░▒▓█"


Times = Annotated[
    str,
    typer.Option(
        "--times",
        metavar="STUDY|MODEL",
        help="Times of tasks: of a recorded study (STUDY:METRIC), or of a file that zen fit "
        "--as-model wrote.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(schedule)
    app.command()(algorithms)
    app.command()(warm)


def schedule(
    workflow: Annotated[
        str, typer.Argument(help="A file, or a generator such as wien2k:kpoints=50.")
    ],
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLATFORM",
            help="Platform file or identical:N; default: the workflow's own.",
        ),
    ] = "",
    algorithm: Annotated[
        str, typer.Option(help="Scheduling algorithm (default: heft); zen algorithms lists them.")
    ] = "",
    objective: Annotated[
        str,
        typer.Option(
            metavar="METRIC", help="Metric to optimise, if the algorithm supports a choice."
        ),
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of the algorithm."),
    ] = None,
    within: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Time limit of planning, such as 10s; default algorithm: portfolio.",
        ),
    ] = "",
    front: Annotated[
        str,
        typer.Option(
            metavar="GOALS",
            help="Show the best plans for several goals, such as makespan+cost; default "
            "algorithm: moheft.",
        ),
    ] = "",
    deadline: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Choose the cheapest plan that finishes within this time."
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(metavar="COST", help="Choose the shortest plan that costs no more than this."),
    ] = "",
    islands_on: Annotated[
        str,
        typer.Option(
            "--islands-on",
            metavar="PLACE",
            help="Place where the islands of ga evolve, one for each slot (zen places); default "
            "algorithm: ga.",
        ),
    ] = "",
    times: Times = "",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the algorithm.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PLAN.json", help="Write the plan.")
    ] = None,
    gantt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a Gantt chart: .html, .svg, .png or .pdf."),
    ] = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Plan which task of a workflow runs where and when.

    The output is the metrics of the plan and a chart of the busy processors over time.

    With --islands-on, the populations of ga evolve at a place, such as the hosts of a file, and
    exchange their best plans. Each step between two exchanges is an experiment at that place. Use
    few exchanges at places where experiments start slowly (--set exchanges=4).

    Examples: zen schedule montage.json --on grid.toml; zen schedule wien2k --on identical:8
    --algorithm ga -o plan.json --gantt plan.html; zen schedule montage.json --on grid.toml --within
    10s; zen schedule montage.json --on cloud.toml --front makespan+cost --deadline 1h; zen schedule
    montage.json --on grid.toml --times montage-tasks; zen schedule montage.json --on grid.toml
    --islands-on hosts.toml --within 1m --set exchanges=8
    """
    from zenturio.errors import InputError
    from zenturio.schedule.commands import PlanRequest, plan_report
    from zenturio.schedule.formats.plan_json import plan_facts, write_plan
    from zenturio.schedule.formats.task_times import extrapolations
    from zenturio.settings.schema import pairs

    if str(out) == "-":
        raise InputError("-o - would mix the plan with the report", hint="--json prints the plan")
    request = PlanRequest(
        workflow,
        on,
        algorithm or ("ga" if islands_on else ""),
        objective,
        pairs(set_ or [], "--set"),
        seed,
        within=within,
        front=front,
        deadline=deadline,
        budget=budget,
        times=read_times(times) if times else None,
    )
    words = f"planning with {request.name}"
    with (
        output.waiting(words, request.seconds_within),
        compiling_told(),
        _island_runner(islands_on) as islands,
    ):
        plan = request.plan(islands=islands)
        facts_json = plan_facts(plan) if json else None
    output.report(plan_report(plan))
    if request.times is not None:
        for message in extrapolations(plan.problem.workflow, request.times):
            typer.echo(f"warning: {message}", err=True)
    if out is not None:
        write_plan(plan, out)
    if gantt is not None:
        from zenturio.show.charts.schedule_charts import gantt as gantt_chart
        from zenturio.show.report_store import save

        save(gantt_chart(plan), gantt)
    if facts_json is not None:
        output.facts(facts_json)
    else:
        _tell(plan, out)


@contextmanager
def _island_runner(place: str) -> "Iterator[IslandRunner | None]":
    """Open *place* and yield a runner of islands there; yield None without a place."""
    if not place:
        yield None
        return
    from zenturio.errors import InputError
    from zenturio.execute.island_runner import PlaceRunner
    from zenturio.execute.places import find_place, open_named
    from zenturio.record.open import FOLDER, project_folder

    folder = project_folder() / FOLDER
    place_spec = find_place(place, folder.absolute().parent)
    if not place_spec.runs_commands:
        raise InputError(
            f"--islands-on: {place} runs no commands",
            hint="name a place that does, such as local; see zen places",
        )
    with open_named(place_spec, folder) as executor:
        yield PlaceRunner(executor, place)


def algorithms(
    algorithm: Annotated[
        str | None, typer.Argument(help="An algorithm to show with its settings.")
    ] = None,
    json: Json = False,
) -> None:
    """List the scheduling algorithms and their settings.

    Examples: zen algorithms; zen algorithms xdcp
    """
    from dataclasses import asdict

    from zenturio.errors import PluginError
    from zenturio.schedule.algorithm import describe, names

    descriptions: list[AlgorithmDescription] = []
    broken: list[PluginError] = []
    for name in [algorithm] if algorithm else names():
        try:
            descriptions.append(describe(name))
        except PluginError as error:  # one that does not load does not hide the others
            if algorithm:
                raise
            broken.append(error)
    if json:
        output.facts([asdict(item) for item in descriptions])
    elif algorithm is None:
        rows = [(item.name, item.kind, item.about) for item in descriptions]
        output.table(("algorithm", "kind", "description"), rows)
        typer.echo("\nsettings of one: zen algorithms NAME; a plan: zen schedule WORKFLOW --on ...")
    else:
        _tell_one(descriptions[0])
    for message in map(str, broken):
        typer.echo(message, err=True)


WARMED = "wien2k:kpoints=2"
"""A small workflow: nearly all the time of its plan is compilation."""
EFFORTS = {"evaluations": "50", "moves": "50", "generations": "2", "effort": "0.1"}
"""Settings of algorithms that search, with values that end the search at once."""


def warm(json: Json = False) -> None:
    """Compile the scheduling algorithms before their first use.

    Otherwise, the first plan with each algorithm compiles that algorithm. The compiled code is kept
    beside the program, or in the user's cache. An administrator runs this command once after an
    installation.

    Example: zen warm
    """
    from functools import partial

    from zenturio.schedule.algorithm import describe, names
    from zenturio.schedule.commands import PlanRequest, SimulationRequest
    from zenturio.schedule.model.metrics import metrics

    def plan(name: str, settings: dict[str, str]) -> None:
        metrics(PlanRequest(WARMED, "identical:2", name, settings=settings).plan())

    def simulate() -> None:
        request = SimulationRequest(WARMED, "identical:2", algorithm="heft")
        problem = request.problem()
        request.played(problem, request.what(problem), 0)

    steps: list[tuple[str, Any]] = [("simulation", simulate)]
    for description in map(describe, names()):
        if description.kind in {"static", "moldable"}:
            named = {setting.name for setting in description.settings}
            settings = {name: value for name, value in EFFORTS.items() if name in named}
            steps.append((description.name, partial(plan, description.name, settings)))
    if not json:
        typer.echo(f"compiling {len(steps)} parts: one to three minutes the first time")
    compiled: list[dict[str, Any]] = []
    for number, (name, step) in enumerate(steps, 1):
        begin = monotonic()
        reason = ""
        try:
            step()
        except ZenError as error:  # it plans other workflows, or needs a package
            reason = str(error).splitlines()[0]
        seconds = monotonic() - begin
        compiled.append({"name": name, "seconds": round(seconds, 3), "skipped": reason})
        if not json:
            result = f"skipped: {reason}" if reason else f"{seconds:.1f} s"
            typer.echo(f"{number}/{len(steps)} {name}: {result}")
    if json:
        output.facts(compiled)


def read_times(text: str) -> "TaskTimeSource":
    """Return the times of --times: models of a file, or what a study has recorded."""
    from zenturio.query import study_frame
    from zenturio.schedule.formats.task_times import MeasuredTimes, read_time_models
    from zenturio.study.overview import opened_repository

    if text.lower().endswith(".json"):
        return read_time_models(Path(text))
    study, _, metric = text.partition(":")
    with opened_repository(None) as repository:
        frame = study_frame(repository, study)
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return MeasuredTimes(study, columns, frame.attrs["parameters"], metric)


def _tell(plan: "Plan | MoldablePlan", out: Path | None) -> None:
    from zenturio.schedule.model.metrics import metrics

    tasks = len(plan.end)
    typer.echo(f"{plan.algorithm}: {tasks:,} tasks in {plan.makespan:.6g} s\n")
    values = metrics(plan)
    output.table(("metric", "value"), output.metric_rows(values), right="lr")
    if values.get("loss_of_parallelism", 0.0) < 0:
        typer.echo(
            "loss_of_parallelism is below 0: tasks of the critical path wait for processors "
            "that compute,"
        )
        typer.echo("which counts as synchronisation; with communication, the three sum to overhead")
    if plan.makespan > 0:
        typer.echo("")
        _chart(plan)
    if plan.notes.get("front"):
        typer.echo("")
        _front(plan)
    if out is not None:
        typer.echo(f"\nwrote {out}")


def _front(plan: "Plan | MoldablePlan") -> None:
    """Print the plans that no other beats in all goals; a star marks the one shown."""
    from zenturio.schedule.model.metrics import metrics

    rows, values = plan.notes["front"], metrics(plan)
    names = list(rows[0])
    shown = [
        (*(f"{row[name]:.6g}" for name in names), "*" * all(row[n] == values.get(n) for n in names))
        for row in rows
    ]
    output.table((*names, ""), shown, right="r" * len(names) + "l")


def _chart(plan: "Plan | MoldablePlan") -> None:
    """Print for each processor, or node, how busy it is over time."""
    import numpy as np

    from zenturio.schedule.model.plan import Plan

    if isinstance(plan, Plan):
        noun, where, start, end = "processors", plan.processor, plan.start, plan.end
        names = {int(p): plan.machine(int(np.argmax(where == p))) for p in np.unique(where)[:SHOWN]}
    else:
        noun, where = "nodes", plan.node
        start, end = np.repeat(plan.start, plan.counts), np.repeat(plan.end, plan.counts)
        machines = plan.problem.platform.machines
        names = {int(n): machines[n].name for n in np.unique(where)[:SHOWN]}
    width = max(map(len, names.values()))
    for processor, name in names.items():
        own_tasks = where == processor
        typer.echo(f"{name:{width}} |{_bar(start[own_tasks], end[own_tasks], plan.makespan)}|")
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


def _tell_one(description: "AlgorithmDescription") -> None:
    typer.echo(f"{description.name} ({description.kind}): {description.about}\n")
    if description.more:
        typer.echo(f"{description.more}\n")
    rows = [
        (s.name, output.kind(s), output.number(s.shown_default), s.help)
        for s in description.settings
    ]
    if rows:
        output.table(("setting", "type", "default", "description"), rows)
    else:
        typer.echo("no settings")


SILENT = 1.0
"""Seconds of compiling before the note is printed."""


@contextmanager
def compiling_told() -> Iterator[None]:
    """Print a note to stderr if the block compiles functions for longer than SILENT seconds.

    Compiled functions are cached where Numba keeps them: beside the program, or in the user's
    cache.
    """
    import zenturio.schedule.kernels  # noqa: F401 - says what is missing without Numba

    # isort: split
    from numba.core import event

    note = _CompilingNote()
    listener: Any = event.RecordingListener  # which says nothing of its types
    with event.install_listener("numba:compile", listener()) as began:
        note.began = began
        note.start()
        try:
            yield
        finally:
            note.done.set()
            note.join()


class _CompilingNote(threading.Thread):
    """Looks whether anything has been compiled, and says so after a while."""

    began: Any

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(SILENT / 4):
            if self.began.buffer and not self.done.wait(SILENT):
                typer.echo(
                    "compiling the scheduling kernels (only once; they are cached)", err=True
                )
                return
