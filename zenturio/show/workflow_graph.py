"""What waits for what: the graph of a workflow, level by level from left to right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule import Workflow
from zenturio.schedule.loops import loops, once
from zenturio.show.charts import Axis
from zenturio.show.notebook import ShownScene
from zenturio.show.scene import Dot, Scene, levels_of

NAMED = 60
"""Tasks that have their names beside them."""
LINES = 20_000
"""Edges that are drawn; of more, evenly chosen ones."""
SWEEPS = 4
"""How often rows are put in order by their neighbours: later sweeps change little."""

Floats = NDArray[np.float64]


def graph(flow: Workflow, title: str = "") -> Scene:
    """A dot for each task, a line for each edge; what closes a loop goes back above all."""
    level = _levels(flow)
    height = _heights(flow, level)
    names, numbers = levels_of([task.program for task in flow.tasks])
    dots = tuple(
        Dot(float(level[i]), float(height[i]), numbers[i], task.name, f"{task.work:.6g} s of work")
        for i, task in enumerate(flow.tasks)
    )
    edges = np.arange(len(flow.data))
    if len(edges) > LINES:
        edges = np.linspace(0, len(edges) - 1, LINES).astype(int)
    a, b = flow.sources[edges], flow.targets[edges]
    onward = level[a] < level[b]
    lines = np.stack([level[a], height[a], level[b], height[b]], axis=1).astype(float)
    back = _back(lines[~onward], float(height.max(initial=0.0)))
    lines = np.concatenate([lines[onward], *back])
    note = f"{len(flow):,} tasks; {len(edges):,} of {len(flow.data):,} edges"
    if back:
        note += f", {len(back):,} of them back, above all others"
    return ShownScene(
        title or flow.name,
        note,
        Axis("level"),
        levels=names,
        dots=dots,
        lines=tuple(map(tuple, lines.tolist())),
        labelled=len(flow) <= NAMED,
    )


def _levels(flow: Workflow) -> NDArray[np.int64]:
    """The level of each task, in one iteration of the loops."""
    return once(flow, loops(flow)).level.astype(np.int64)


def _heights(flow: Workflow, level: NDArray[np.int64]) -> Floats:
    """Where the tasks of each level stand: beside their neighbours, around the middle."""
    rows = [np.flatnonzero(level == at) for at in range(int(level.max(initial=-1)) + 1)]
    height = np.zeros(len(flow))
    for row in rows:
        height[row] = _spread(np.arange(len(row), dtype=float))
    for sweep in range(SWEEPS):
        links = flow.before if sweep % 2 == 0 else flow.after
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            beside = [links.of(task) for task in row.tolist()]
            wanted = [
                height[each].mean() if len(each) else height[task]
                for each, task in zip(beside, row.tolist(), strict=True)
            ]
            height[row] = _spread(np.array(wanted))
    return height


def _back(lines: Floats, top: float) -> list[Floats]:
    """Each of *lines* goes up beyond the *top*, back, and down again."""
    found = []
    for number, (x, y, to, down) in enumerate(lines.tolist(), 1):
        above = top + 0.6 * min(number, 5)
        found.append(np.array([[x, y, x, above], [x, above, to, above], [to, above, to, down]]))
    return found


def _spread(wanted: Floats) -> Floats:
    """Places one apart, in the order of those that are wanted, around 0."""
    place = np.empty(len(wanted))
    place[np.argsort(wanted, kind="stable")] = np.arange(len(wanted))
    return place - (len(wanted) - 1) / 2
