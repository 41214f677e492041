"""The verb simulate, for workflows and for streams of them."""

import json as jsonlib
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio import quantities
from zenturio.cli import output
from zenturio.cli.options import Json
from zenturio.safe_text import one_line

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from zenturio.schedule.cluster.replay import Replay
    from zenturio.schedule.commands import SimulationRequest
    from zenturio.schedule.model.plan import Plan
    from zenturio.schedule.model.problem import Problem
    from zenturio.schedule.model.workflow import Workflow
    from zenturio.schedule.online.stream import StreamResult
    from zenturio.schedule.simulate.simulator import Policy
    from zenturio.schedule.simulate.trace import ExecutionTrace


WIDTH = 60
"""Columns of a chart."""
LEVELS = " ▁▂▃▄▅▆▇█"
COMPARED = ("makespan", "excess", "slowdown_mean", "slowdown_median", "slowdown_max")
FAIR = ("fairness_interquartile", "fairness_std")


def is_stream(words: Sequence[str], algorithm: str) -> bool:
    """Return whether *words* name a stream, or *algorithm* is an online algorithm."""
    from zenturio.schedule import commands as streaming

    return streaming.is_stream_request(words, algorithm)


def play_stream(
    words: Sequence[str],
    on: str,
    algorithm: str,
    settings: list[str],
    perturb: str,
    seed: int,
    iterations: str,
) -> "list[StreamResult]":
    """Return the results of the stream under *algorithm*, or under all online algorithms."""
    from zenturio.cli.schedule import compiling_told
    from zenturio.schedule import commands as streaming
    from zenturio.settings.schema import pairs

    streaming.check_online(algorithm)
    online = streaming.online_simulation(words, on, seed, iterations=iterations)
    with output.waiting("simulating"), compiling_told():
        return streaming.play_stream(online, algorithm, pairs(settings, "--set"), perturb, seed)


def print_stream(result: "StreamResult") -> None:
    """Print the result of a stream under one algorithm."""
    stream, plan = result.stream, result.plan
    finished = len(stream) - len(result.left)
    typer.echo(
        f"{plan.algorithm}: {len(stream):,} workflows, {plan.problem.tasks:,} tasks"
        + ("" if result.left else f" in {result.makespan:.6g} s")
    )
    if result.left:
        unfinished = ", ".join(result.left[:5]) + (", ..." if len(result.left) > 5 else "")
        typer.echo(f"{finished:,} of {len(stream):,} workflows finished; unfinished: {unfinished}")
    else:
        end = float(result.makespan)
        for name, (times, counts) in (("workflows", result.workflows()), ("ready", result.ready())):
            typer.echo(f"{name:9} |{_chart(times, counts, end)}| {int(counts.max()):,} at most")
        typer.echo(f"{'':9}  0{end:>{WIDTH - 1}.6g} s")
        output.table(("metric", "value"), output.metric_rows(result.metrics), right="lr")
    if result.wasted:
        typer.echo(f"{result.wasted:.6g} processor seconds were lost or cancelled")
    typer.echo("")
    output.table(
        ("workflow", "ended", "alone", "makespan", "slowdown", "least", "most"),
        _kinds(result),
        right="lrrrrrr",
    )


def compare_algorithms(results: "list[StreamResult]") -> None:
    """Print the results of all algorithms side by side."""
    first = results[0]
    typer.echo(f"{len(first.stream):,} workflows, {first.plan.problem.tasks:,} tasks")
    typer.echo(f"lower bound of the makespan: {first.lower_bound:.6g} s\n")
    names = (*COMPARED, *FAIR)
    rows = [
        (result.plan.algorithm, *(output.number(result.metrics.get(name)) for name in names))
        for result in sorted(
            results, key=lambda result: result.metrics.get("slowdown_mean", float("inf"))
        )
    ]
    output.table(("algorithm", *names), rows, right="l" + "r" * len(names))


def _kinds(result: "StreamResult") -> list[tuple[str, ...]]:
    """Return a row for each kind of workflow: how many there were, and how long they took."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in result.rows():
        kinds.setdefault(row["workflow"], []).append(row)
    return [_kind(name, rows) for name, rows in kinds.items()]


def _kind(name: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    ended = [row for row in rows if row["end"] is not None]
    count = f"{len(ended):,} of {len(rows):,}"
    if not ended:
        return name, count, *("",) * 5
    means = [sum(row[key] for row in ended) / len(ended) for key in ("alone", "makespan")]
    slow = [row["slowdown"] for row in ended]
    figures = (*means, sum(slow) / len(slow), min(slow), max(slow))
    return name, count, *map(output.number, figures)


def _chart(times: "ArrayLike", counts: "ArrayLike", end: float) -> str:
    """Return a sparkline of a count that changes at *times*: the maximum of each span."""
    import numpy as np

    instants, values = np.asarray(times), np.asarray(counts)
    marks = np.linspace(0, end, WIDTH + 1)
    first = np.searchsorted(instants, marks[:-1], side="right") - 1
    last = np.searchsorted(instants, marks[1:], side="left")
    # The maximum of each span, not its mean: a short peak must stay visible.
    tops = [
        int(values[max(a, 0) : max(b, a + 1, 1)].max()) for a, b in zip(first, last, strict=True)
    ]
    if instants[0] > 0:  # before the first of them nothing was there
        tops = [top if stop > 0 else 0 for top, stop in zip(tops, last, strict=True)]
    most = max(*tops, 1)
    return "".join(LEVELS[-(-top * (len(LEVELS) - 1) // most)] for top in tops)


SHOWN = 20
"""Maximum number of events listed; --json prints all."""


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(simulate)


def simulate(
    workflow: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKFLOW...",
            help="A file, or a generator such as wien2k:kpoints=50; or a stream of them.",
        ),
    ],
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLATFORM",
            help="Platform file or identical:N; default: the workflow's own.",
        ),
    ] = "",
    plan: Annotated[Path | None, typer.Option(metavar="PLAN.json", help="Plan to execute.")] = None,
    algorithm: Annotated[
        str, typer.Option(help="Algorithm that plans, or decides at run time.")
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of the algorithm."),
    ] = None,
    perturb: Annotated[
        str,
        typer.Option(
            metavar="every=A:B,...", help="Perturb machines: every, lasting, share, failing."
        ),
    ] = "",
    iterations: Annotated[
        str,
        typer.Option(
            metavar="N|P",
            help="Iterations of each loop, or the probability that an iteration is the last one.",
        ),
    ] = "",
    exit_: Annotated[
        str,
        typer.Option("--exit", metavar="TASK=N,...", help="Exit codes of tasks; 0 if not named."),
    ] = "",
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for disturbances, loops and algorithm.")
    ] = 0,
    runs: Annotated[
        int, typer.Option(min=1, help="Number of simulations, each with the next seed.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the executed plan to a file.")
    ] = None,
    gantt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a Gantt chart: .html, .svg, .png or .pdf."),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate a workflow on machines that change.

    Machines have the loads that the platform gives. With --perturb, each machine is perturbed at
    random: after every=20:60 seconds it runs for lasting=10:40 seconds at a share=0.2:0.8 of its
    speed, or fails with a probability of failing=0.05. A plan stays the same whatever happens;
    algorithms that decide at run time may do better. Without --plan and --algorithm, the workflow
    must name a machine for each task.

    Tasks exit with code 0, or with the code in --exit. Tasks that require another exit code are
    skipped.

    --iterations 3 runs each loop three times. --iterations 0.25, the default, makes each iteration
    the last one with this probability.

    A stream is several workflows, each with the second at which it arrives, as in gee@0 maxdo@10,
    or with first, last and stride of arrivals (maxdo@0:600:12); or a file of submissions
    (stream.toml); or online-51. Online algorithms decide which workflow is next; without
    --algorithm all of them are compared.

    For a log of jobs (.swf, .swf.gz, or .jobs.csv with the columns submit, run, processors,
    estimate, user), the algorithm is a queue policy: fifo, easy, conservative, fair-share or
    priority; without --algorithm all of them are compared. With moldable-jobs and
    malleable-jobs, jobs run on more or fewer processors than they requested. The log gives the
    size of the cluster, or --on identical:128 does.

    If tasks never finish because their machines failed for good, the exit code is 3.

    Examples: zen simulate wien2k.json --on grid.toml --plan plan.json --perturb
    every=20:60,lasting=10:40 --seed 7; zen simulate montage.json --on identical:8 --algorithm heft
    --runs 100; zen simulate flow.json --on identical:2 --algorithm heft --exit check=1; zen
    simulate online-51 --algorithm srpt; zen simulate gee@0 maxdo@0:60:12 --on identical:4; zen
    simulate cluster.swf --algorithm easy
    """
    from zenturio.errors import InputError
    from zenturio.schedule.cluster.replay import is_job_log
    from zenturio.schedule.commands import (
        SimulationRequest,
        check_replay_options,
        replay_log,
        simulation_report,
    )
    from zenturio.schedule.formats.plan_json import trace_facts
    from zenturio.settings.schema import pairs

    if is_job_log(workflow):
        options = {"plan": plan, "perturb": perturb, "iterations": iterations, "exit": exit_}
        check_replay_options({**options, "runs": runs > 1, "gantt": gantt})
        with output.waiting("replaying"):
            replays = replay_log(workflow[0], on, algorithm, pairs(set_ or [], "--set"), seed)
        _tell_replays(replays, out, json)
        return
    if is_stream(workflow, algorithm):
        if plan is not None or runs > 1 or exit_:
            raise InputError(
                "--plan, --runs and --exit do not apply to a stream", hint="leave them out"
            )
        results = play_stream(workflow, on, algorithm, set_ or [], perturb, seed, iterations)
        _tell_stream(results, out, gantt, json, compared=not algorithm)
        _end(any(item.left for item in results))
        return
    if runs > 1 and (out is not None or gantt is not None):
        raise InputError(
            f"--out and --gantt need a single run, not {runs:,}",
            hint="--seed that of one, and no --runs",
        )
    planned = str(plan) if plan else ""
    request = SimulationRequest(
        workflow[0],
        on,
        planned,
        algorithm,
        pairs(set_ or [], "--set"),
        perturb,
        seed,
        iterations,
        exit_,
    )
    with output.waiting("simulating"):
        problem = request.problem()
        plan_or_policy = request.what(problem)
        if runs > 1:
            _end(_tell_many(request, problem, plan_or_policy, runs, json) == 0)
            return
        trace = request.played(problem, plan_or_policy, seed)
    output.report(simulation_report(trace))
    if out is not None:
        _write(trace, out)
    if gantt is not None:
        _draw(trace, gantt)
    makespan = getattr(plan_or_policy, "makespan", None)
    output.facts(trace_facts(trace, makespan)) if json else _tell(trace, makespan)
    _end(bool(trace.left))


def _tell_replays(replays: "list[Replay]", out: Path | None, json: bool) -> None:
    """Print the metrics of each replay, side by side, and write the jobs of the only one."""
    from zenturio.errors import InputError
    from zenturio.schedule.cluster.replay import write_jobs

    if out is not None:
        if len(replays) > 1:
            raise InputError("--out needs one policy", hint="--algorithm easy")
        write_jobs(replays[0], out)
    if len(replays) == 1:
        output.report(jsonlib.dumps(replays[0].metrics).encode() + b"\n")
    if json:
        facts = [result.facts() for result in replays]
        output.facts(facts[0] if len(facts) == 1 else facts)
        return
    first = replays[0]
    skipped = f", {first.log.skipped:,} skipped" if first.log.skipped else ""
    typer.echo(
        f"{one_line(first.log.name)}: {len(first.log):,} jobs on {first.size:,} processors"
        f"{skipped}\n"
    )
    rows = [
        (name, *(output.number(result.metrics[name]) for result in replays))
        for name in first.metrics
    ]
    output.table(
        ("metric", *(result.policy for result in replays)), rows, right="l" + "r" * len(replays)
    )


def _end(unfinished: bool) -> None:
    """Exit with code 3, as for failed experiments, if something never finished."""
    if unfinished:
        raise typer.Exit(3)


def _draw(trace_or_plan: "ExecutionTrace | Plan", path: Path) -> None:
    from zenturio.show.charts.schedule_charts import gantt
    from zenturio.show.report_store import save

    save(gantt(trace_or_plan), path)


def _tell_stream(
    results: "list[StreamResult]",
    out: Path | None,
    gantt: Path | None,
    json: bool,
    *,
    compared: bool,
) -> None:
    """Print the results of a stream under one algorithm, or compare all algorithms."""
    from zenturio.errors import InputError
    from zenturio.schedule.commands import stream_report
    from zenturio.schedule.formats.plan_json import write_plan

    if compared:
        if out is not None or gantt is not None:
            raise InputError("--out and --gantt need one algorithm", hint="--algorithm srpt")
        output.facts([item.facts() for item in results]) if json else compare_algorithms(results)
        return
    (only,) = results
    output.report(stream_report(only))
    if only.left and (out is not None or gantt is not None):
        raise InputError(f"nothing was written: {len(only.left):,} workflows did not finish")
    if out is not None:
        write_plan(only.plan, out)
    if gantt is not None:
        _draw(only.plan, gantt)
    output.facts(only.facts()) if json else print_stream(only)


def _tell_many(
    request: "SimulationRequest",
    problem: "Problem",
    plan_or_policy: "Plan | Policy",
    runs: int,
    json: bool,
) -> int:
    """Print the distribution of the makespan over the seeds; return how many runs finished."""
    import numpy as np

    from zenturio.log_setup import reported
    from zenturio.schedule.model.plan import Plan
    from zenturio.schedule.simulate.simulator import perturbed_makespans

    seeds, perturbation = range(request.seed, request.seed + runs), request.disturbance
    if perturbation and isinstance(plan_or_policy, Plan) and _runs_once(problem.workflow):
        makespans = perturbed_makespans(plan_or_policy, perturbation, seeds)
    else:
        makespans = np.array(
            [
                request.played(problem, plan_or_policy, seed).makespan
                for seed in reported("simulating", seeds)
            ]
        )
    finished = makespans[np.isfinite(makespans)]
    quartiles = np.quantile(finished, (0, 0.25, 0.5, 0.75, 1)).tolist() if len(finished) else []
    names = ("least", "q1", "median", "q3", "most")
    facts = {
        "runs": len(makespans),
        "ended": len(finished),
        "mean": float(finished.mean()) if len(finished) else None,
        **dict(zip(names, quartiles, strict=False)),
        "makespans": [value if value < inf else None for value in makespans.tolist()],
    }
    if json:
        output.facts(facts)
        return len(finished)
    typer.echo(f"{len(finished):,} of {len(makespans):,} runs finished")
    output.table(
        ("makespan", "s"),
        [(name, output.number(facts[name])) for name in ("mean", *names) if name in facts],
        right="lr",
    )
    return len(finished)


def _write(trace: "ExecutionTrace", out: Path) -> None:
    from zenturio.errors import InputError
    from zenturio.schedule.formats.plan_json import write_plan

    if trace.left:
        raise InputError(f"{out} was not written: {_left(trace)}")
    if trace.again:
        raise InputError(
            f"{out} was not written: a plan has each task once, but a loop was repeated",
            hint="--iterations 1",
        )
    write_plan(trace.plan, out)


def _tell(trace: "ExecutionTrace", planned: float | None) -> None:
    from zenturio.schedule.model.metrics import metrics

    names = trace.problem.workflow.names
    machines = trace.problem.platform.machines
    notable = [event for event in trace.events if event.kind not in {"started", "ended", "began"}]
    for event in notable[:SHOWN]:
        task = f" {names[event.task]}" if event.task >= 0 else ""
        where = f" {machines[event.machine].name}" if event.machine >= 0 else ""
        share = f" {event.share:.0%}" if event.kind == "load" else ""
        typer.echo(one_line(f"{event.time:12.6g}  {event.kind}{task}{where}{share}"))
    if len(notable) > SHOWN:
        typer.echo(f"{SHOWN} of {len(notable):,} events; --json prints all")
    if trace.left:
        typer.echo(_left(trace))
        return
    typer.echo(
        f"{trace.algorithm}: {len(names):,} tasks in {trace.makespan:.6g} s{_by(trace, planned)}"
    )
    lost = sum(run.kind != "ended" for run in trace.runs)
    if lost:
        typer.echo(f"{lost:,} runs were lost or cancelled after {trace.wasted:.6g} s")
    if trace.skipped:
        skipped = quantities.amount(len(trace.skipped), "task")
        typer.echo(f"skipped because of exit codes: {skipped}")
    if trace.again:
        typer.echo(f"loops were repeated {quantities.amount(len(trace.again), 'time')}")
    if trace.again or trace.skipped:
        return
    output.table(("metric", "value"), output.metric_rows(metrics(trace.plan)), right="lr")


def _runs_once(flow: "Workflow") -> bool:
    """Return whether each task runs exactly once."""
    return not flow.looped and not flow.branches


def _by(trace: "ExecutionTrace", planned: float | None) -> str:
    if not planned or trace.again or trace.skipped:  # a plan has one iteration of all tasks
        return ""
    return f"; planned: {planned:.6g} s ({trace.makespan / planned - 1:+.1%})"


def _left(trace: "ExecutionTrace") -> str:
    """Return how many tasks finished, and the first ones that did not."""
    names = trace.problem.workflow.names
    names_left = ", ".join(names[task] for task in trace.left[:5]) + (
        ", ..." if len(trace.left) > 5 else ""
    )
    finished = len(names) - len(trace.left)
    return one_line(f"{finished:,} of {len(names):,} tasks finished; unfinished: {names_left}")
