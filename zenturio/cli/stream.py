"""What ``zen simulate`` does with workflows that arrive one after the other."""

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
    """Whether *words* are a stream, or *algorithm* plays nothing else."""
    from zenturio.schedule import commands as streaming

    return streaming.is_stream_request(words, algorithm)


def play(
    words: Sequence[str], on: str, algorithm: str, settings: list[str], perturb: str, seed: int
) -> "list[StreamResult]":
    """The stream under *algorithm*, or under all that there are for streams."""
    from zenturio.cli.compiling import compiling_told
    from zenturio.schedule import commands as streaming
    from zenturio.search.settings import pairs

    streaming.check_online(algorithm)
    online = streaming.online_simulation(words, on, seed)
    with output.waiting("simulating"), compiling_told():
        return streaming.play_stream(online, algorithm, pairs(settings), perturb, seed)


def tell(found: "StreamResult") -> None:
    """What became of the workflows, for a person."""
    stream, plan = found.stream, found.plan
    ended = len(stream) - len(found.left)
    typer.echo(
        f"{plan.algorithm}: {len(stream):,} workflows, {plan.problem.tasks:,} tasks"
        + ("" if found.left else f" in {found.makespan:.6g} s")
    )
    if found.left:
        some = ", ".join(found.left[:5]) + (", ..." if len(found.left) > 5 else "")
        typer.echo(f"{ended:,} of {len(stream):,} workflows ended; not {some}")
    else:
        end = float(found.makespan)
        for name, (times, counts) in (("workflows", found.workflows()), ("ready", found.ready())):
            typer.echo(f"{name:9} |{_chart(times, counts, end)}| {int(counts.max()):,} at most")
        typer.echo(f"{'':9}  0{end:>{WIDTH - 1}.6g} s")
        rows = [(name, output.number(value)) for name, value in found.metrics.items()]
        output.table(("metric", "value"), rows, right="lr")
    if found.wasted:
        typer.echo(f"{found.wasted:.6g} s of processors came to nothing")
    typer.echo("")
    output.table(
        ("workflow", "ended", "alone", "makespan", "slowdown", "least", "most"),
        _kinds(found),
        right="lrrrrrr",
    )


def compare(found: "list[StreamResult]") -> None:
    """All algorithms beside each other."""
    first = found[0]
    typer.echo(f"{len(first.stream):,} workflows, {first.plan.problem.tasks:,} tasks")
    typer.echo(f"none can end before {first.lower_bound:.6g} s\n")
    names = (*COMPARED, *FAIR)
    rows = [
        (each.plan.algorithm, *(output.number(each.metrics.get(name)) for name in names))
        for each in sorted(found, key=lambda each: each.metrics.get("slowdown_mean", float("inf")))
    ]
    output.table(("algorithm", *names), rows, right="l" + "r" * len(names))


def _kinds(found: "StreamResult") -> list[tuple[str, ...]]:
    """For each sort of workflow how many there were, and how long they took."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in found.rows():
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
    """How a number that changes at *times* went on, as its highest in each of some spans."""
    import numpy as np

    at, known = np.asarray(times), np.asarray(counts)
    marks = np.linspace(0, end, WIDTH + 1)
    first = np.searchsorted(at, marks[:-1], side="right") - 1
    last = np.searchsorted(at, marks[1:], side="left")
    tops = [
        int(known[max(a, 0) : max(b, a + 1, 1)].max()) for a, b in zip(first, last, strict=True)
    ]
    if at[0] > 0:  # before the first of them nothing was there
        tops = [top if stop > 0 else 0 for top, stop in zip(tops, last, strict=True)]
    most = max(*tops, 1)
    return "".join(LEVELS[-(-top * (len(LEVELS) - 1) // most)] for top in tops)
