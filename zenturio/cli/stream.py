"""Simulations of streams: workflows that arrive one after the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from zenturio.cli import output

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from zenturio.schedule.online.stream import StreamResult


WIDTH = 60
"""Columns of a chart."""
LEVELS = " ▁▂▃▄▅▆▇█"
COMPARED = ("makespan", "excess", "slowdown_mean", "slowdown_median", "slowdown_max")
FAIR = ("fairness_interquartile", "fairness_std")


def wanted(words: Sequence[str], algorithm: str) -> bool:
    """Return whether *words* name a stream, or *algorithm* is an online algorithm."""
    from zenturio.schedule import commands as streaming

    return streaming.is_stream_request(words, algorithm)


def play(
    words: Sequence[str], on: str, algorithm: str, settings: list[str], perturb: str, seed: int
) -> "list[StreamResult]":
    """Return the results of the stream under *algorithm*, or under all online algorithms."""
    from zenturio.cli.compiling import compiling_told
    from zenturio.schedule import commands as streaming
    from zenturio.settings.schema import pairs

    streaming.check_online(algorithm)
    online = streaming.online_simulation(words, on, seed)
    with output.waiting("simulating"), compiling_told():
        return streaming.play_stream(online, algorithm, pairs(settings), perturb, seed)


def tell(result: "StreamResult") -> None:
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
        rows = [(name, output.number(value)) for name, value in result.metrics.items()]
        output.table(("metric", "value"), rows, right="lr")
    if result.wasted:
        typer.echo(f"{result.wasted:.6g} processor seconds were lost or cancelled")
    typer.echo("")
    output.table(
        ("workflow", "ended", "alone", "makespan", "slowdown", "least", "most"),
        _kinds(result),
        right="lrrrrrr",
    )


def compare(results: "list[StreamResult]") -> None:
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
    tops = [
        int(values[max(a, 0) : max(b, a + 1, 1)].max()) for a, b in zip(first, last, strict=True)
    ]
    if instants[0] > 0:  # before the first of them nothing was there
        tops = [top if stop > 0 else 0 for top, stop in zip(tops, last, strict=True)]
    most = max(*tops, 1)
    return "".join(LEVELS[-(-top * (len(LEVELS) - 1) // most)] for top in tops)
