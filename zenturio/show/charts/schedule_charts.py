"""Gantt charts of plans, jobs and experiments, and graphs of workflows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import NotFoundError, Passage
from zenturio.execute.hosts.events import Event
from zenturio.expression import text_of
from zenturio.record import Repository
from zenturio.record.row_filter import NEWEST, RowChoice
from zenturio.schedule.model.loops import find_loops, single_iteration
from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.workflow import Workflow
from zenturio.schedule.simulate.trace import ExecutionTrace
from zenturio.show.chart import Axis
from zenturio.show.notebook import ShownScene
from zenturio.show.scene import Box, Dot, Scene, levels_of

if TYPE_CHECKING:
    import pandas as pd


MOST_LABELLED_BOXES = 400
"""Boxes that have their names in them, where these have room."""


def gantt(what: Plan | MoldablePlan | ExecutionTrace, title: str = "") -> Scene:
    """A box for each task, on the rows of the processors that it runs on."""
    problem: Any = what.problem
    flow = problem.workflow
    runs = list(_runs(what))
    rows, places = _plan_rows(what, runs)
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
    how = "played" if isinstance(what, ExecutionTrace) else "planned"
    return ShownScene(
        title or f"{flow.name} on {problem.platform.name}, {how} by {what.algorithm}",
        note,
        Axis("time", "s", ends=(0.0, makespan)),
        tuple(rows),
        noun[:-1],
        levels,
        tuple(boxes),
        labelled=len(boxes) <= MOST_LABELLED_BOXES,
    )


_Ran = tuple[int, float, float, Sequence[int], str]


def _runs(what: Plan | MoldablePlan | ExecutionTrace) -> Iterator[_Ran]:
    """Task, start, end, processors, and how it ended."""
    if isinstance(what, ExecutionTrace):
        for run in what.runs:
            yield run.task, run.start, run.end, (run.processor,), run.kind
        return
    for task, (start, end) in enumerate(zip(what.start.tolist(), what.end.tolist(), strict=True)):
        if isinstance(what, MoldablePlan):
            used = what.nodes(task).tolist()
        else:
            used = [int(what.processor[task])]
        yield task, start, end, used, "ended"


def _plan_rows(
    what: Plan | MoldablePlan | ExecutionTrace, runs: Sequence[_Ran]
) -> tuple[list[str], dict[int, int]]:
    """What stands beside the rows, and the row of each processor that is used."""
    used = sorted({each for _, _, _, processors, _ in runs for each in processors})
    machines = what.problem.platform.machines
    if isinstance(what, MoldablePlan):
        names = [machines[each].name for each in used]
    else:
        names = [_core(what, each) for each in used]
    return names, {each: row for row, each in enumerate(used)}


def _core(what: Plan | ExecutionTrace, processor: int) -> str:
    node = what.problem.node
    machine = int(node[processor])
    first, last = np.searchsorted(node, [machine, machine + 1])
    name = what.problem.platform.machines[machine].name
    return name if last - first == 1 else f"{name}/{processor - first}"


def _processors(what: Plan | MoldablePlan | ExecutionTrace) -> int:
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


_AFTER = {
    "prolog": "prolog",
    "started": "running",
    "adopted": "running",
    "moving": "leaving",
    "left": "",
    "epilog": "epilog",
    "ended": "",
    "failed": "",
}
"""What a job does after an event; nothing where it is at no host."""


@dataclass(frozen=True, slots=True)
class Stay:
    """What a job did at a host, from when to when."""

    digest: str
    host: str
    doing: str
    start: float
    end: float
    why: str = ""
    """Why it went on to something else."""


def stays(events: Sequence[Event]) -> list[Stay]:
    """What jobs did, from what was recorded of them; what runs on ends with the last event."""
    found: list[Stay] = []
    now: dict[str, tuple[str, str, float]] = {}
    for event in events:
        if event.kind not in _AFTER:
            continue
        if event.digest in now:
            doing, host, start = now.pop(event.digest)
            found.append(Stay(event.digest, host, doing, start, event.time, event.why))
        doing = _AFTER[event.kind]
        if doing:
            now[event.digest] = (doing, event.host, event.time)
    last = events[-1].time if events else 0.0
    found += [Stay(digest, host, do, start, last) for digest, (do, host, start) in now.items()]
    return found


def jobs(events: Sequence[Event], names: Mapping[str, str] = {}, title: str = "") -> Scene:
    """A chart of *events*; jobs are called by *names*, or by the beginnings of their digests."""
    found = stays(events)
    if not found:
        raise NotFoundError("no job has run on hosts yet", hint="zen run ... --on hosts.toml")
    first = min(stay.start for stay in found)
    last = max(stay.end for stay in found)
    known = {stay.digest for stay in found}
    rows = [digest for digest in dict.fromkeys(e.digest for e in events) if digest in known]
    row = {digest: at for at, digest in enumerate(rows)}
    levels, level = levels_of([stay.host for stay in found])
    boxes = [
        Box(
            stay.start - first,
            stay.end - first,
            row[stay.digest],
            row[stay.digest],
            level[i],
            stay.host if stay.doing == "running" else "",
            _stay_tooltip(stay),
            faint=stay.doing != "running",
        )
        for i, stay in enumerate(found)
    ]
    moves = sum(event.kind == "left" for event in events)
    return Scene(
        title or "Jobs on hosts",
        f"{len(rows)} jobs, {moves} move{'' if moves == 1 else 's'}, {last - first:.3g} s; "
        "pale: staging and leaving",
        Axis("time", "s", ends=(0.0, last - first)),
        tuple(names.get(digest, digest[:8]) for digest in rows),
        "job",
        levels,
        tuple(boxes),
    )


def _stay_tooltip(stay: Stay) -> str:
    why = f": {stay.why}" if stay.why else ""
    return f"{stay.doing} at {stay.host}, {stay.end - stay.start:.3g} s{why}"


MOST_EXPERIMENTS = 10_000
"""Experiments that are drawn; of more it is a sample."""


def attempted(
    repository: Repository,
    study: str,
    *,
    where: str | Passage | None = None,
    colour: str = "",
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """The last attempts at the experiments of *study*, those that failed too, for `ran`."""
    from zenturio.query import frame  # noqa: PLC0415 - pandas takes its time

    wanted = [colour] if colour else []
    return frame(
        repository, study, where=where, everything=True, columns=wanted, most=MOST_EXPERIMENTS,
        rows=rows,
    )  # fmt: skip


def ran(table: pd.DataFrame, *, colour: str = "", title: str = "") -> Scene:
    """What ran where, by the *table* of what was attempted.

    *colour* is a parameter or metric; else the colour says how they ended.
    """
    study, facts = table.attrs["study"], table.attrs["facts"]
    known = table.dropna(subset=[facts["started"], facts["ended"], facts["host"]])
    known = known.sort_values([facts["started"], facts["digest"]])
    if known.empty:
        raise NotFoundError(f"no experiment of {study} has run yet", hint=f"zen status {study}")
    starts, ends = known[facts["started"]].tolist(), known[facts["ended"]].tolist()
    rows, row = _host_lanes(known[facts["host"]].tolist(), starts, ends)
    levels, level = levels_of([_text(each) for each in known[colour or facts["status"]]])
    first, last = min(starts), max(ends)
    boxes = tuple(
        Box(start - first, end - first, row[i], row[i], level[i], digest[:8], told)
        for i, (start, end, digest, told) in enumerate(
            zip(starts, ends, known[facts["digest"]], _tooltips(known, facts), strict=True)
        )
    )
    found = table.attrs.get("sampled", (0, len(table)))[1]
    return ShownScene(
        title or f"{study}: what ran where",
        f"{len(boxes):,} of {found:,} experiments; {last - first:.4g} s",
        Axis("time", "s", ends=(0.0, last - first)),
        rows,
        "host",
        levels,
        boxes,
        labelled=len(boxes) <= MOST_LABELLED_BOXES,
    )


def _host_lanes(
    hosts: list[str], starts: list[float], ends: list[float]
) -> tuple[tuple[str, ...], list[int]]:
    """The rows by host, as many for each as it ran at the same time, and the row of each run."""
    free: dict[str, list[int]] = {}
    busy: dict[str, list[tuple[float, int]]] = {}
    lanes: list[tuple[str, int]] = []
    for host, start, end in zip(hosts, starts, ends, strict=True):
        waiting, running = free.setdefault(host, []), busy.setdefault(host, [])
        while running and running[0][0] <= start:
            heappush(waiting, heappop(running)[1])
        lane = heappop(waiting) if waiting else len(running)
        heappush(running, (end, lane))
        lanes.append((host, lane))
    order = sorted(set(lanes))
    several = {host for host, lane in order if lane}
    names = tuple(f"{host}/{lane}" if host in several else host for host, lane in order)
    place = {lane: at for at, lane in enumerate(order)}
    return names, [place[lane] for lane in lanes]


def _tooltips(known: pd.DataFrame, facts: dict[str, str]) -> list[str]:
    """What each was asked, and what came of it."""
    shown = [*known.attrs["parameters"], facts["status"], facts["cause"]]
    cells = [[_text(each) for each in known[name]] for name in shown]
    spent = known[facts["ended"]] - known[facts["started"]]
    return [
        ", ".join([*(each for each in said if each), f"{seconds:.4g} s"])
        for *said, seconds in zip(*cells, spent, strict=True)
    ]


def _text(value: Any) -> str:
    """A cell of the table in words; nothing where there is none."""
    import pandas as pd  # noqa: PLC0415 - it takes its time

    if pd.isna(value):
        return ""
    return text_of(value.item() if hasattr(value, "item") else value)


MOST_LABELLED_TASKS = 60
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
        labelled=len(flow) <= MOST_LABELLED_TASKS,
    )


def _levels(flow: Workflow) -> NDArray[np.int64]:
    """The level of each task, in one iteration of the loops."""
    return single_iteration(flow, find_loops(flow)).level.astype(np.int64)


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
