"""Who runs what and when: a Gantt chart of a plan, or of what happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zenturio.schedule import Plan
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.trace import Trace
from zenturio.show.charts import Axis
from zenturio.show.notebook import ShownScene
from zenturio.show.scene import Box, Scene, levels_of

NAMED = 400
"""Boxes that have their names in them, where these have room."""


def gantt(what: Plan | MoldablePlan | Trace, title: str = "") -> Scene:
    """A box for each task, on the rows of the processors that it runs on."""
    problem: Any = what.problem
    flow = problem.workflow
    runs = list(_runs(what))
    rows, places = _rows(what, runs)
    levels, level = levels_of([flow.task(task).program for task, *_ in runs])
    boxes = [
        _box(flow.names[task], start, end, first, last, kind, level[i])
        for i, (task, start, end, used, kind) in enumerate(runs)
        for first, last in _spans(sorted(places[each] for each in used))
    ]
    makespan = max((box.right for box in boxes), default=0.0)
    every = _processors(what)
    noun = "nodes" if isinstance(what, MoldablePlan) else "processors"
    counted = f"{len({task for task, *_ in runs}):,} of {len(flow):,} tasks"
    note = f"makespan {makespan:.6g} s; {len(rows):,} of {every:,} {noun} used; {counted}"
    how = "played" if isinstance(what, Trace) else "planned"
    return ShownScene(
        title or f"{flow.name} on {problem.platform.name}, {how} by {what.algorithm}",
        note,
        Axis("time", "s", ends=(0.0, makespan)),
        tuple(rows),
        noun[:-1],
        levels,
        tuple(boxes),
        labelled=len(boxes) <= NAMED,
    )


_Ran = tuple[int, float, float, Sequence[int], str]


def _runs(what: Plan | MoldablePlan | Trace) -> Iterator[_Ran]:
    """Task, start, end, processors, and how it ended."""
    if isinstance(what, Trace):
        for run in what.runs:
            yield run.task, run.start, run.end, (run.processor,), run.kind
        return
    for task, (start, end) in enumerate(zip(what.start.tolist(), what.end.tolist(), strict=True)):
        if isinstance(what, MoldablePlan):
            used = what.nodes(task).tolist()
        else:
            used = [int(what.processor[task])]
        yield task, start, end, used, "ended"


def _rows(
    what: Plan | MoldablePlan | Trace, runs: Sequence[_Ran]
) -> tuple[list[str], dict[int, int]]:
    """What stands beside the rows, and the row of each processor that is used."""
    used = sorted({each for _, _, _, processors, _ in runs for each in processors})
    machines = what.problem.platform.machines
    if isinstance(what, MoldablePlan):
        names = [machines[each].name for each in used]
    else:
        names = [_core(what, each) for each in used]
    return names, {each: row for row, each in enumerate(used)}


def _core(what: Plan | Trace, processor: int) -> str:
    node = what.problem.node
    machine = int(node[processor])
    first, last = np.searchsorted(node, [machine, machine + 1])
    name = what.problem.platform.machines[machine].name
    return name if last - first == 1 else f"{name}/{processor - first}"


def _processors(what: Plan | MoldablePlan | Trace) -> int:
    return what.problem.nodes if isinstance(what, MoldablePlan) else what.problem.processors


def _spans(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each stretch of neighbouring rows."""
    breaks = [i for i, (a, b) in enumerate(pairwise(rows), 1) if b - a > 1]
    for first, behind in pairwise([0, *breaks, len(rows)]):
        yield rows[first], rows[behind - 1]


def _box(name: str, start: float, end: float, first: int, last: int, kind: str, level: int) -> Box:
    rows = f"{last - first + 1} nodes, " if last > first else ""
    told = f"{rows}{start:.6g} s to {end:.6g} s ({end - start:.6g} s)"
    if kind != "ended":
        told += f", {kind}"
    return Box(start, end, first, last, level, name, told, faint=kind != "ended")
