"""Gantt charts of plans, jobs and experiments, and graphs of workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, NotFoundError, Passage
from zenturio.execute.hosts.attempt_journal import HostEvent
from zenturio.expression import text_of
from zenturio.record import Repository
from zenturio.record.entities import NEWEST, RowChoice
from zenturio.schedule.model.loops import find_loops, single_iteration
from zenturio.schedule.model.metrics import METRICS, MoldablePlan, metrics
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
    Points,
    Rectangle,
    Rectangles,
    Segments,
    common_levels,
)
from zenturio.show.renderers.plotly import NotebookChart

if TYPE_CHECKING:
    import pandas as pd


# Runs of tasks as columns, and what can be seen of very many
#
# A page with a million rectangles does not open, and most of them would be narrower than a pixel.
# So of many processors every n-th is drawn, and on these neighbouring short runs are joined to one
# stretch, which says how many they are and how busy it is.

MOST_RECTANGLES = 20_000
"""Rectangles in a chart: a page of 4 MB, which a browser opens in seconds."""
MOST_ROWS = 2_000
"""Rows in a chart of more rectangles: about the height of a large screen in pixels."""
PIXELS = 2_000
"""Across the time axis of a large screen."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TaskRuns:
    """Runs of tasks; one on processors that are no neighbours has several rows here."""

    task: Indices
    start: Floats
    end: Floats
    first: Indices
    """Of its processors the first, by its place among those that are used."""
    last: Indices
    lost: NDArray[np.bool_]
    ending: tuple[str, ...] = ()
    """How each ended; empty where all ended well."""

    def __len__(self) -> int:
        return len(self.task)

    def _chosen(self, rows: NDArray[np.bool_]) -> TaskRuns:
        ending = tuple([self.ending[at] for at in np.flatnonzero(rows)]) if self.ending else ()
        return TaskRuns(
            self.task[rows], self.start[rows], self.end[rows], self.first[rows], self.last[rows],
            self.lost[rows], ending,
        )  # fmt: skip

    def on_every(self, step: int) -> TaskRuns:
        """Return the runs on every *step*-th processor, by its place among these."""
        if step == 1:
            return self
        first, last = -(-self.first // step), self.last // step
        chosen = self._chosen(first <= last)
        rows = first <= last
        return TaskRuns(
            chosen.task, chosen.start, chosen.end, first[rows], last[rows], chosen.lost,
            chosen.ending,
        )  # fmt: skip


def task_runs(schedule: Plan | MoldablePlan | ExecutionTrace) -> tuple[TaskRuns, Indices]:
    """Return all runs in the order of the schedule, and the numbers of the processors used."""
    ending: tuple[str, ...] = ()
    if isinstance(schedule, ExecutionTrace):
        runs = schedule.runs
        task = np.array([run.task for run in runs], np.int64)
        start = np.array([run.start for run in runs], np.float64)
        end = np.array([run.end for run in runs], np.float64)
        processor = np.array([run.processor for run in runs], np.int64)
        number = np.arange(len(task))
        ending = tuple([run.kind for run in runs])
    else:
        start, end = schedule.start, schedule.end
        task = np.arange(len(start))
        if isinstance(schedule, MoldablePlan):
            number, processor = np.repeat(task, schedule.counts), schedule.node.astype(np.int64)
        else:
            number, processor = task, schedule.processor.astype(np.int64)
    used, row = np.unique(processor, return_inverse=True)
    order = np.lexsort((row, number))
    number, row = number[order], row[order]
    begins = np.ones(len(row), dtype=np.bool_)
    begins[1:] = (np.diff(number) != 0) | (np.diff(row) > 1)
    at = number[begins]
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(row)) - 1
    lost = np.array([kind != "ended" for kind in ending], np.bool_)
    return TaskRuns(
        task[at], start[at], end[at], row[firsts], row[lasts] if len(row) else row[firsts],
        lost[at] if ending else np.zeros(len(at), np.bool_),
        tuple([ending[run] for run in at.tolist()]) if any(lost) else (),
    ), used  # fmt: skip


@dataclass(frozen=True)
class JoinedRuns:
    """Runs in the order of their rows and starts, of which some are joined."""

    order: Indices
    """The runs, by their numbers."""
    begins: Indices
    """Where in this order each stretch begins."""
    shortest: float
    """Runs that last less than these seconds are joined."""


def join_runs(runs: TaskRuns, level: Indices, most: int) -> JoinedRuns:
    """Join neighbouring short runs of a row until at most *most* rectangles are left.

    Runs of several levels, or lost and others, are joined within a pixel alone. Where that leaves
    more than *most*, a pixel is taken as twice as wide.
    """
    order = np.lexsort((runs.start, runs.last, runs.first))
    start, end, kind = runs.start[order], runs.end[order], (2 * level + runs.lost)[order]
    is_other_row = np.ones(len(order), dtype=np.bool_)
    is_other_row[1:] = (np.diff(runs.first[order]) != 0) | (np.diff(runs.last[order]) != 0)
    total = float(runs.end.max(initial=0.0))
    shortest = total / PIXELS
    while True:
        is_long = end - start >= shortest
        begins = is_other_row | is_long
        begins[1:] |= is_long[:-1] | (start[1:] - end[:-1] > shortest)
        pixel = np.floor(start / shortest) if shortest else start
        is_other_pixel = is_other_row.copy()
        is_other_pixel[1:] |= np.diff(pixel) != 0
        pixels = np.flatnonzero(is_other_pixel)
        least, greatest = (f.reduceat(kind, pixels) for f in (np.minimum, np.maximum))
        is_mixed = (least != greatest)[np.cumsum(is_other_pixel) - 1]
        is_unlike = (np.diff(kind) != 0) | is_mixed[1:] | is_mixed[:-1]
        begins[1:] |= is_other_pixel[1:] & is_unlike
        if np.count_nonzero(begins) <= most or shortest >= total:
            return JoinedRuns(order, np.flatnonzero(begins), shortest)
        shortest *= 2


def level_of_each(joined: JoinedRuns, seconds: Floats, level: Indices, levels: int) -> Indices:
    """The level that takes most of the time of each stretch; *seconds* are those of each run."""
    count = len(joined.begins)
    lengths = np.diff(np.append(joined.begins, len(joined.order)))
    cell = np.repeat(np.arange(count), lengths) * levels + level[joined.order]
    # What takes no time counts a little: a stretch of such runs has a level as well.
    weights = seconds[joined.order] + np.finfo(float).tiny
    sums = np.bincount(cell, weights, count * levels).reshape(count, levels)
    greatest: Indices = sums.argmax(axis=1)
    return greatest


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
    joined = join_runs(runs, level, MOST_RECTANGLES)
    order, begins = joined.order, joined.begins
    seconds = runs.end - runs.start
    kinds = level_of_each(joined, seconds, level, levels)
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
    return rectangles, joined.shortest


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
class JobActivity:
    """One activity of a job at a host."""

    digest: str
    host: str
    activity: str
    start: float
    end: float
    reason: str = ""
    """Why it went on to another activity."""


def host_stays(events: Sequence[HostEvent]) -> list[JobActivity]:
    """Return the activities of jobs; those that have not ended last until the last event."""
    stays: list[JobActivity] = []
    current: dict[str, tuple[str, str, float]] = {}
    for event in events:
        if event.kind not in _ACTIVITY_AFTER:
            continue
        if event.digest in current:
            activity, host, start = current.pop(event.digest)
            stays.append(JobActivity(event.digest, host, activity, start, event.time, event.why))
        if activity := _ACTIVITY_AFTER[event.kind]:
            current[event.digest] = (activity, event.host, event.time)
    last = events[-1].time if events else 0.0
    for digest, (activity, host, start) in current.items():
        stays.append(JobActivity(digest, host, activity, start, last))
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


def _stay_tooltip(stay: JobActivity) -> str:
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


# Plans that no other plan beats in all goals


def plan_front(plan: Plan | MoldablePlan, title: str = "") -> Chart:
    """Return a point for each plan that no other beats in all goals.

    A third goal is the colour. Raise InputError if the algorithm of *plan* has no front.
    """
    front = plan.notes.get("front")
    if not front:
        raise InputError(
            f"{plan.algorithm} plans for one goal: there is no front",
            hint="choose moheft, or moldable-front for tasks with curves",
        )
    names, values = list(front[0]), metrics(plan)
    columns = [tuple(row[name] for row in front) for name in names]
    shades = columns[2] if len(names) > 2 else ()
    mark = Points("plans", 0, columns[0], columns[1], shades, "front", is_joined=not shades)
    axes = [_goal_axis(name) for name in names]
    colours: dict[str, Any] = {"colour": ChartAxis(""), "levels": ("plans",)}
    if len(names) > 2:
        colours = {"colour": axes[2], "ordered": True}
    problem = plan.problem
    subject = f"{', '.join(names[:-1])} and {names[-1]}"
    chosen = ", ".join(f"{name} {values[name]:.6g}" for name in names if name in values)
    return NotebookChart(
        "pareto",
        title or f"Front of {subject} by {plan.algorithm}",
        f"{len(front):,} plans of {problem.workflow.name} that no other beats in all goals; "
        f"chosen: {chosen}",
        axes[0],
        axes[1],
        (Panel(marks=(mark,)),),
        **colours,
    )


def _goal_axis(name: str) -> ChartAxis:
    if name not in METRICS:
        return ChartAxis(name, better="lower")
    better: Literal["lower", "higher"] = (
        "lower" if METRICS[name].direction == "minimize" else "higher"
    )
    return ChartAxis(name, METRICS[name].unit, better=better)
