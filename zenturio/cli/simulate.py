"""The verb that plays a workflow on machines that change."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zenturio.cli import output
from zenturio.cli.options import Json

if TYPE_CHECKING:
    from zenturio.schedule.commands import SimulationRequest
    from zenturio.schedule.model.plan import Plan
    from zenturio.schedule.model.problem import Problem
    from zenturio.schedule.online.stream import StreamResult
    from zenturio.schedule.simulate.simulator import Policy
    from zenturio.schedule.simulate.trace import ExecutionTrace

SHOWN = 20
"""Events that are listed at most; as JSON, all are."""


def add_to(app: typer.Typer) -> None:
    """Put the verb of this file into *app*."""
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
        str, typer.Option("--on", metavar="PLATFORM", help="A file or identical:N; else its own.")
    ] = "",
    plan: Annotated[
        Path | None, typer.Option(metavar="PLAN.json", help="The plan to carry out.")
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="What plans, or decides while it runs: zen algorithms.")
    ] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of it.")
    ] = None,
    perturb: Annotated[
        str,
        typer.Option(
            metavar="every=A:B,...", help="Disturb machines: every, lasting, share, failing."
        ),
    ] = "",
    iterations: Annotated[
        str,
        typer.Option(metavar="N|P", help="Of loops: so many, or ending with this probability."),
    ] = "",
    seed: Annotated[
        int, typer.Option(min=0, help="Of the disturbances, the loops, and the algorithm.")
    ] = 0,
    runs: Annotated[
        int, typer.Option(min=1, help="Play as often, each time with the next seed.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write what was carried out, as a plan.")
    ] = None,
    gantt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .html, .svg, .png or .pdf.")
    ] = None,
    json: Json = False,
) -> None:
    """Simulate a workflow on machines that change.

    Machines have the loads that the platform tells. With --perturb each is disturbed at random:
    after every=20:60 seconds it gives, lasting=10:40, a share=0.2:0.8 of its speed, or fails with a
    probability of failing=0.05. A plan is followed whatever happens; what decides while it runs may
    do better. Without --plan and --algorithm each task names the machine that it runs on.

    The loops of a workflow are run as often as --iterations says (3), or until they converge: after
    each iteration with the probability that it says (0.25, if it says nothing).

    A stream is several workflows, each with the second at which it arrives, as in gee@0 maxdo@10,
    or with the first, last and stride of several (maxdo@0:600:12); or a file that tells them
    (stream.toml); or online-51. Algorithms of the kind online decide whose task is next; without
    --algorithm all of them are compared.

    Where something never ends, as its machines failed for good, it says what, with exit code 3.

    Examples: zen simulate wien2k.json --on grid.toml --plan plan.json --perturb
    every=20:60,lasting=10:40 --seed 7; zen simulate montage.json --on identical:8 --algorithm heft
    --runs 100; zen simulate online-51 --algorithm srpt; zen simulate gee@0 maxdo@0:60:12 --on
    identical:4
    """
    from zenturio.cli import stream
    from zenturio.errors import InputError
    from zenturio.schedule.commands import SimulationRequest, simulation_report
    from zenturio.schedule.formats.plan_json import trace_facts
    from zenturio.search.settings import pairs

    if stream.wanted(workflow, algorithm):
        if plan is not None or runs > 1 or iterations:
            raise InputError(
                "a stream has neither --plan nor --runs nor --iterations", hint="leave them out"
            )
        found = stream.play(workflow, on, algorithm, set_ or [], perturb, seed)
        _tell_stream(found, out, gantt, json, compared=not algorithm)
        _end(any(each.left for each in found))
        return
    if runs > 1 and (out is not None or gantt is not None):
        raise InputError(
            f"which of {runs:,} runs is to be written or drawn?",
            hint="--seed that of one, and no --runs",
        )
    planned = str(plan) if plan else ""
    asked = SimulationRequest(
        workflow[0], on, planned, algorithm, pairs(set_ or []), perturb, seed, iterations
    )
    with output.waiting("simulating"):
        problem = asked.problem()
        what = asked.what(problem)
        if runs > 1:
            _end(_tell_many(asked, problem, what, runs, json) == 0)
            return
        trace = asked.played(problem, what, seed)
    output.report(simulation_report(trace))
    if out is not None:
        _write(trace, out)
    if gantt is not None:
        _draw(trace, gantt)
    makespan = getattr(what, "makespan", None)
    output.facts(trace_facts(trace, makespan)) if json else _tell(trace, makespan)
    _end(bool(trace.left))


def _end(unended: bool) -> None:
    """The exit code: as of experiments that failed, where something never ended."""
    if unended:
        raise typer.Exit(3)


def _draw(what: "ExecutionTrace | Plan", path: Path) -> None:
    from zenturio.show.charts.schedule_charts import gantt
    from zenturio.show.saving import save

    save(gantt(what), path)


def _tell_stream(
    found: "list[StreamResult]", out: Path | None, gantt: Path | None, json: bool, *, compared: bool
) -> None:
    """What became of a stream: under one algorithm, or under all."""
    from zenturio.cli import stream
    from zenturio.errors import InputError
    from zenturio.schedule.commands import stream_report
    from zenturio.schedule.formats.plan_json import write_plan

    if compared:
        if out is not None or gantt is not None:
            raise InputError("whose plan is to be written?", hint="--algorithm srpt")
        output.facts([each.facts() for each in found]) if json else stream.compare(found)
        return
    (only,) = found
    output.report(stream_report(only))
    if only.left and (out is not None or gantt is not None):
        raise InputError(f"nothing is written: {len(only.left):,} workflows did not end")
    if out is not None:
        write_plan(only.plan, out)
    if gantt is not None:
        _draw(only.plan, gantt)
    output.facts(only.facts()) if json else stream.tell(only)


def _tell_many(
    asked: "SimulationRequest", problem: "Problem", what: "Plan | Policy", runs: int, json: bool
) -> int:
    """How the makespan spreads over so many seeds; how many of these runs ended."""
    import numpy as np

    from zenturio.schedule.model.plan import Plan
    from zenturio.schedule.simulate.simulator import perturbed_makespans

    seeds, how = range(asked.seed, asked.seed + runs), asked.disturbance
    if how and isinstance(what, Plan):
        found = perturbed_makespans(what, how, seeds)
    else:
        found = np.array([asked.played(problem, what, seed).makespan for seed in seeds])
    ended = found[np.isfinite(found)]
    quartiles = np.quantile(ended, (0, 0.25, 0.5, 0.75, 1)).tolist() if len(ended) else []
    names = ("least", "q1", "median", "q3", "most")
    facts = {
        "runs": len(found),
        "ended": len(ended),
        "mean": float(ended.mean()) if len(ended) else None,
        **dict(zip(names, quartiles, strict=False)),
        "makespans": [each if each < inf else None for each in found.tolist()],
    }
    if json:
        output.facts(facts)
        return len(ended)
    typer.echo(f"{len(ended):,} of {len(found):,} runs ended")
    output.table(
        ("makespan", "s"),
        [(name, output.number(facts[name])) for name in ("mean", *names) if name in facts],
        right="lr",
    )
    return len(ended)


def _write(trace: "ExecutionTrace", out: Path) -> None:
    from zenturio.errors import InputError
    from zenturio.schedule.formats.plan_json import write_plan

    if trace.left:
        raise InputError(f"{out} is not written: {_left(trace)}")
    if trace.again:
        raise InputError(
            f"{out} is not written: a plan has each task once, and a loop began anew",
            hint="--iterations 1",
        )
    write_plan(trace.plan, out)


def _tell(trace: "ExecutionTrace", planned: float | None) -> None:
    from zenturio.schedule.model.metrics import metrics

    names = trace.problem.workflow.names
    machines = trace.problem.platform.machines
    happened = [event for event in trace.events if event.kind not in {"started", "ended", "began"}]
    for event in happened[:SHOWN]:
        task = f" {names[event.task]}" if event.task >= 0 else ""
        where = f" {machines[event.machine].name}" if event.machine >= 0 else ""
        share = f" {event.share:.0%}" if event.kind == "load" else ""
        typer.echo(output.one_line(f"{event.time:12.6g}  {event.kind}{task}{where}{share}"))
    if len(happened) > SHOWN:
        typer.echo(f"{SHOWN} of {len(happened):,} events; --json tells all")
    if trace.left:
        typer.echo(_left(trace))
        return
    typer.echo(
        f"{trace.algorithm}: {len(names):,} tasks in {trace.makespan:.6g} s{_by(trace, planned)}"
    )
    lost = sum(run.kind != "ended" for run in trace.runs)
    if lost:
        typer.echo(f"{lost:,} runs came to nothing, after {trace.wasted:.6g} s")
    if trace.again:
        typer.echo(f"loops began anew {len(trace.again):,} times")
        return
    rows = [(name, output.number(value)) for name, value in metrics(trace.plan).items()]
    output.table(("metric", "value"), rows, right="lr")


def _by(trace: "ExecutionTrace", planned: float | None) -> str:
    return f"; planned: {planned:.6g} s ({trace.makespan / planned - 1:+.1%})" if planned else ""


def _left(trace: "ExecutionTrace") -> str:
    """How many tasks did not end, and the first of them."""
    names = trace.problem.workflow.names
    some = ", ".join(names[task] for task in trace.left[:5]) + (
        ", ..." if len(trace.left) > 5 else ""
    )
    ended = len(names) - len(trace.left)
    return output.one_line(f"{ended:,} of {len(names):,} tasks ended; not {some}")
