"""Gantt charts of plans, jobs and experiments, and graphs of workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import NotFoundError, Passage
from zenturio.execute.hosts.attempt_journal import HostEvent
from zenturio.expression import text_of
from zenturio.record import Repository
from zenturio.record.entities import NEWEST, RowChoice
from zenturio.schedule.model.loops import find_loops, single_iteration
from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.workflow import Workflow
from zenturio.schedule.simulate.trace import ExecutionTrace
from zenturio.show.chart import (
    Chart,
    ChartAxis,
    Mark,
    Node,
    Nodes,
    Panel,
    Rectangle,
    Rectangles,
    Segments,
    common_levels,
)
from zenturio.show.charts.task_runs import (
    MOST_RECTANGLES,
    MOST_ROWS,
    TaskRuns,
    joined_stretches,
    level_of_each,
    task_runs,
)
from zenturio.show.renderers.plotly import NotebookChart

if TYPE_CHECKING:
    import pandas as pd

MOST_LABELLED_RECTANGLES = 400
"""Rectangles with their names in them, where these have room."""
MOST_EXPERIMENTS = 10_000
"""Experiments in a Gantt chart; of more it is a sample."""
MOST_LABELLED_TASKS = 60
"""Tasks with their names beside them."""
MOST_EDGES = 20_000
"""Edges in a graph; of more, evenly chosen ones."""
LONGEST_TOOLTIP = 200
"""Characters of one text in a tooltip."""
ORDERING_SWEEPS = 4
"""How often the tasks of each level are ordered by their neighbours; more sweeps change little."""

Floats = NDArray[np.float64]


def _rows_chart(
    kind: str,
    title: str,
    note: str,
    seconds: float,
    row_axis: tuple[str, Sequence[str]],
    levels: tuple[str, ...],
    rectangles: Sequence[Rectangle],
) -> Chart:
    """Return a chart of rectangles on rows over time."""
    name, rows = row_axis
    mark = Rectangles(tuple(rectangles), is_labelled=len(rectangles) <= MOST_LABELLED_RECTANGLES)
    return NotebookChart(
        kind,
        title,
        note,
        ChartAxis("time", "s", ends=(0.0, seconds)),
        ChartAxis(name, categories=tuple(rows), is_reversed=True, is_spread=True),
        (Panel(marks=(mark,)),),
        colour=ChartAxis(""),
        levels=levels,
    )


# Plans and traces of workflows


def gantt(schedule: Plan | MoldablePlan | ExecutionTrace, title: str = "") -> Chart:
    """Return a rectangle for each task, on the rows of the processors that it runs on.

    Of very many, short runs are joined and rows are left out: the chart says so.
    """
    problem: Any = schedule.problem
    flow = problem.workflow
    runs, used = task_runs(schedule)
    step = -(-len(used) // MOST_ROWS) if len(runs) > MOST_RECTANGLES else 1
    shown = runs.on_every(step)
    rows = _row_names(schedule, used[::step].tolist())
    levels, level = common_levels(_programs(flow, shown.task))
    if len(shown) > MOST_RECTANGLES:
        rectangles, shortest = _stretch_rectangles(flow, shown, np.array(level), len(levels))
    else:
        places = range(len(shown))
        rectangles, shortest = [_task_rectangle(flow, shown, at, level[at]) for at in places], 0.0
    makespan = float(runs.end.max(initial=0.0))
    is_moldable = isinstance(schedule, MoldablePlan)
    noun, total = ("node", problem.nodes) if is_moldable else ("processor", problem.processors)
    note = (
        f"makespan {makespan:.6g} s; {len(used):,} of {total:,} {noun}s used; "
        f"{len(np.unique(runs.task)):,} of {len(flow):,} tasks"
    )
    if step > 1:
        note += f"; {len(rows):,} {noun}s are shown, one of {step}"
    if shortest:
        note += f"; tasks shorter than {shortest:.3g} s are joined"
    verb = "simulated" if isinstance(schedule, ExecutionTrace) else "planned"
    return _rows_chart(
        "gantt",
        title or f"{flow.name} on {problem.platform.name}, {verb} by {schedule.algorithm}",
        note,
        makespan,
        (noun, rows),
        levels,
        rectangles,
    )


def _programs(flow: Workflow, tasks: NDArray[np.int64]) -> list[str]:
    """Return the program of each task."""
    if flow.more or flow.program is None:
        return [flow.task(task).program for task in tasks.tolist()]
    return [flow.programs[number] for number in flow.program[tasks].tolist()]


def _row_names(
    schedule: Plan | MoldablePlan | ExecutionTrace, processors: Sequence[int]
) -> list[str]:
    if isinstance(schedule, MoldablePlan):
        return [schedule.problem.platform.machines[node].name for node in processors]
    return [_core_name(schedule, processor) for processor in processors]


def _core_name(schedule: Plan | ExecutionTrace, processor: int) -> str:
    node = schedule.problem.node
    machine = int(node[processor])
    first, last = np.searchsorted(node, [machine, machine + 1])
    name = schedule.problem.platform.machines[machine].name
    return name if last - first == 1 else f"{name}/{processor - first}"


def _task_rectangle(flow: Workflow, runs: TaskRuns, at: int, level: int) -> Rectangle:
    start, end = float(runs.start[at]), float(runs.end[at])
    first, last = int(runs.first[at]), int(runs.last[at])
    nodes = f"{last - first + 1} nodes, " if last > first else ""
    tooltip = f"{nodes}{start:.6g} s to {end:.6g} s ({end - start:.6g} s)"
    is_lost = bool(runs.lost[at])
    if is_lost:
        tooltip += f", {runs.ending[at]}"
    name = flow.names[int(runs.task[at])]
    return Rectangle(start, end, first, last, level, name, tooltip, is_faint=is_lost)


def _stretch_rectangles(
    flow: Workflow, runs: TaskRuns, level: NDArray[np.int64], levels: int
) -> tuple[list[Rectangle], float]:
    """Return a rectangle for each stretch of joined runs, and what is shorter than which is joined.

    A stretch is pale if all of its runs were lost.
    """
    stretches = joined_stretches(runs, level, MOST_RECTANGLES)
    order, begins = stretches.order, stretches.begins
    seconds = runs.end - runs.start
    kinds = level_of_each(stretches, seconds, level, levels)
    ends = np.maximum.reduceat(runs.end[order], begins)
    busy = np.add.reduceat(seconds[order], begins)
    is_lost = np.minimum.reduceat(runs.lost[order], begins)
    counts = np.diff(np.append(begins, len(order)))
    rectangles = []
    for number, at in enumerate(order[begins].tolist()):
        count, kind = int(counts[number]), int(kinds[number])
        if count == 1:
            rectangles.append(_task_rectangle(flow, runs, at, kind))
            continue
        start, end = float(runs.start[at]), float(ends[number])
        share = busy[number] / (end - start) if end > start else 1.0
        tooltip = f"{count:,} tasks, {start:.6g} s to {end:.6g} s, {share:.0%} of it busy"
        first, last = int(runs.first[at]), int(runs.last[at])
        rectangles.append(
            Rectangle(start, end, first, last, kind, "", tooltip, is_faint=bool(is_lost[number]))
        )
    return rectangles, stretches.shortest


# Jobs on hosts

_ACTIVITY_AFTER = {
    "prolog": "prolog",
    "started": "running",
    "adopted": "running",
    "moving": "leaving",
    "left": "",
    "epilog": "epilog",
    "ended": "",
    "failed": "",
}
"""What a job does after an event; empty if it is at no host."""


@dataclass(frozen=True, slots=True)
class HostStay:
    """One activity of a job at a host."""

    digest: str
    host: str
    activity: str
    start: float
    end: float
    reason: str = ""
    """Why it went on to another activity."""


def host_stays(events: Sequence[HostEvent]) -> list[HostStay]:
    """Return the activities of jobs; those that have not ended last until the last event."""
    stays: list[HostStay] = []
    current: dict[str, tuple[str, str, float]] = {}
    for event in events:
        if event.kind not in _ACTIVITY_AFTER:
            continue
        if event.digest in current:
            activity, host, start = current.pop(event.digest)
            stays.append(HostStay(event.digest, host, activity, start, event.time, event.why))
        if activity := _ACTIVITY_AFTER[event.kind]:
            current[event.digest] = (activity, event.host, event.time)
    last = events[-1].time if events else 0.0
    for digest, (activity, host, start) in current.items():
        stays.append(HostStay(digest, host, activity, start, last))
    return stays


def jobs_gantt(
    events: Sequence[HostEvent], names: Mapping[str, str] = {}, title: str = ""
) -> Chart:
    """Return a chart of *events*; jobs have *names*, or the first digits of their digests.

    Raise NotFoundError if no job has run.
    """
    stays = host_stays(events)
    if not stays:
        raise NotFoundError("no job has run on hosts yet", hint="zen run ... --on hosts.toml")
    first = min(stay.start for stay in stays)
    last = max(stay.end for stay in stays)
    present = {stay.digest for stay in stays}
    digests = [digest for digest in dict.fromkeys(e.digest for e in events) if digest in present]
    row = {digest: i for i, digest in enumerate(digests)}
    levels, level = common_levels([stay.host for stay in stays])
    rectangles = [
        Rectangle(
            stay.start - first,
            stay.end - first,
            row[stay.digest],
            row[stay.digest],
            level[i],
            stay.host if stay.activity == "running" else "",
            _stay_tooltip(stay),
            is_faint=stay.activity != "running",
        )
        for i, stay in enumerate(stays)
    ]
    moves = sum(event.kind == "left" for event in events)
    return _rows_chart(
        "jobs",
        title or "Jobs on hosts",
        f"{len(digests)} jobs, {moves} move{'' if moves == 1 else 's'}, {last - first:.3g} s; "
        "pale: staging and leaving",
        last - first,
        ("job", [names.get(digest, digest[:8]) for digest in digests]),
        levels,
        rectangles,
    )


def _stay_tooltip(stay: HostStay) -> str:
    reason = f": {stay.reason}" if stay.reason else ""
    return f"{stay.activity} at {stay.host}, {stay.end - stay.start:.3g} s{reason}"


# Experiments of a study


def latest_attempts(
    repository: Repository,
    study: str,
    *,
    where: str | Passage | None = None,
    colour: str = "",
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """Return the last attempts at the experiments of *study*, failed ones included."""
    from zenturio.query import study_frame  # noqa: PLC0415 - loads pandas

    columns = [colour] if colour else []
    return study_frame(
        repository, study, where=where, everything=True, columns=columns,
        most=MOST_EXPERIMENTS, rows=rows,
    )  # fmt: skip


def experiments_gantt(table: pd.DataFrame, *, colour: str = "", title: str = "") -> Chart:
    """Return when each host ran which experiment of the *table* of `latest_attempts`.

    *colour* is a parameter or metric; without one the colour shows the status. Raise NotFoundError
    if no experiment has run.
    """
    study, facts = table.attrs["study"], table.attrs["facts"]
    attempts = table.dropna(subset=[facts["started"], facts["ended"], facts["host"]])
    attempts = attempts.sort_values([facts["started"], facts["digest"]])
    if attempts.empty:
        raise NotFoundError(f"no experiment of {study} has run yet", hint=f"zen status {study}")
    starts, ends = attempts[facts["started"]].tolist(), attempts[facts["ended"]].tolist()
    rows, row = _host_lanes(attempts[facts["host"]].tolist(), starts, ends)
    levels, level = common_levels(_texts(attempts[colour or facts["status"]]))
    first, last = min(starts), max(ends)
    digests, tooltips = attempts[facts["digest"]], _tooltips(attempts, facts)
    rectangles = [
        Rectangle(start - first, end - first, row[i], row[i], level[i], digest[:8], tooltip)
        for i, (start, end, digest, tooltip) in enumerate(
            zip(starts, ends, digests, tooltips, strict=True)
        )
    ]
    total = table.attrs.get("sampled", (0, len(table)))[1]
    return _rows_chart(
        "gantt",
        title or f"{study}: experiments by host",
        f"{len(rectangles):,} of {total:,} experiments; {last - first:.4g} s",
        last - first,
        ("host", rows),
        levels,
        rectangles,
    )


def _host_lanes(
    hosts: list[str], starts: list[float], ends: list[float]
) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of the rows and the row of each run.

    A host has as many rows as it ran experiments at the same time.
    """
    free: dict[str, list[int]] = {}
    busy: dict[str, list[tuple[float, int]]] = {}
    lanes: list[tuple[str, int]] = []
    for host, start, end in zip(hosts, starts, ends, strict=True):
        free_lanes, running = free.setdefault(host, []), busy.setdefault(host, [])
        while running and running[0][0] <= start:
            heappush(free_lanes, heappop(running)[1])
        lane = heappop(free_lanes) if free_lanes else len(running)
        heappush(running, (end, lane))
        lanes.append((host, lane))
    order = sorted(set(lanes))
    with_lanes = {host for host, lane in order if lane}
    names = tuple(f"{host}/{lane}" if host in with_lanes else host for host, lane in order)
    row = {lane: i for i, lane in enumerate(order)}
    return names, [row[lane] for lane in lanes]


def _tooltips(attempts: pd.DataFrame, facts: dict[str, str]) -> list[str]:
    """Return the parameters, the status and the duration of each attempt."""
    names = [*attempts.attrs["parameters"], facts["status"], facts["cause"]]
    columns = [_texts(attempts[name]) for name in names]
    seconds = attempts[facts["ended"]] - attempts[facts["started"]]
    return [
        ", ".join([*(text[:LONGEST_TOOLTIP] for text in texts if text), f"{duration:.4g} s"])
        for *texts, duration in zip(*columns, seconds, strict=True)
    ]


def _texts(column: pd.Series[Any]) -> list[str]:
    """Return the cells as texts; empty for NULL."""
    return [
        "" if is_null else text_of(value.item() if hasattr(value, "item") else value)
        for value, is_null in zip(column, column.isna(), strict=True)
    ]


# Graphs of workflows


def workflow_graph(flow: Workflow, title: str = "") -> Chart:
    """Return a node for each task and a line for each edge; edges of a loop go back above all."""
    level = single_iteration(flow, find_loops(flow)).level.astype(np.int64)
    height = _heights(flow, level)
    names, numbers = common_levels([task.program for task in flow.tasks])
    nodes = tuple(
        Node(float(level[i]), float(height[i]), numbers[i], task.name, f"{task.work:.6g} s of work")
        for i, task in enumerate(flow.tasks)
    )
    edges = np.arange(len(flow.data))
    if len(edges) > MOST_EDGES:
        edges = np.linspace(0, len(edges) - 1, MOST_EDGES).astype(int)
    a, b = flow.sources[edges], flow.targets[edges]
    is_onward = level[a] < level[b]
    lines = np.stack([level[a], height[a], level[b], height[b]], axis=1).astype(float)
    loop_lines = _loop_lines(lines[~is_onward], float(height.max(initial=0.0)))
    lines = np.concatenate([lines[is_onward], *loop_lines])
    note = f"{len(flow):,} tasks; {len(edges):,} of {len(flow.data):,} edges"
    if loop_lines:
        note += f", {len(loop_lines):,} of them back, above all others"
    marks: tuple[Mark, ...] = (
        Segments(tuple(map(tuple, lines.tolist()))),
        Nodes(nodes, is_labelled=len(flow) <= MOST_LABELLED_TASKS),
    )
    return NotebookChart(
        "graph",
        title or flow.name,
        note,
        ChartAxis("level", is_hidden=True),
        ChartAxis("", is_hidden=True),
        (Panel(marks=marks),),
        colour=ChartAxis(""),
        levels=names,
    )


def _heights(flow: Workflow, level: NDArray[np.int64]) -> Floats:
    """Return the height of each task in its level: near its neighbours, around the middle.

    Sweeps go onward and back alternately, and order each level by the mean height of the tasks
    before or after it (the barycenter method of Sugiyama, Tagawa and Toda, 1981).
    """
    rows = [np.flatnonzero(level == at) for at in range(int(level.max(initial=-1)) + 1)]
    height = np.zeros(len(flow))
    for row in rows:
        height[row] = _spaced_places(np.arange(len(row), dtype=float))
    for sweep in range(ORDERING_SWEEPS):
        is_onward = sweep % 2 == 0
        links = flow.before if is_onward else flow.after
        for row in rows if is_onward else rows[::-1]:
            neighbours = [links.of(task) for task in row.tolist()]
            means = [
                height[beside].mean() if len(beside) else height[task]
                for beside, task in zip(neighbours, row.tolist(), strict=True)
            ]
            height[row] = _spaced_places(np.array(means))
    return height


def _loop_lines(lines: Floats, top: float) -> list[Floats]:
    """Lead each of *lines* up beyond the *top*, back, and down again."""
    detours = []
    for number, (x, y, to, down) in enumerate(lines.tolist(), 1):
        above = top + 0.6 * min(number, 5)
        detours.append(np.array([[x, y, x, above], [x, above, to, above], [to, above, to, down]]))
    return detours


def _spaced_places(places: Floats) -> Floats:
    """Return places one apart around 0, in the order of *places*."""
    spaced = np.empty(len(places))
    spaced[np.argsort(places, kind="stable")] = np.arange(len(places))
    return spaced - (len(places) - 1) / 2
