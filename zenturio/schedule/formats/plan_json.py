"""Plans and simulated executions as JSON.

A plan is ``{"algorithm", "workflow", "platform", "makespan", "metrics", "notes", "tasks": [{"id",
"machine", "start", "end"}, ...]}``; "core" is the core of a machine on which several cores run
tasks.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from zenturio.errors import did_you_mean
from zenturio.schedule.formats.document import FormatDocument, write_text
from zenturio.schedule.model.metrics import MoldablePlan, metrics
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.simulate.simulator import task_sequence
from zenturio.schedule.simulate.trace import ExecutionTrace
from zenturio.settings.document import read_text

_PLAN_KEYS = ("id", "machine", "core", "start", "end")


def plan_facts(plan: Plan | MoldablePlan) -> dict[str, Any]:
    """Return *plan* as JSON values; undefined metrics are null."""
    problem = plan.problem
    return {
        "algorithm": plan.algorithm,
        "workflow": problem.workflow.name,
        "platform": problem.platform.name,
        "makespan": plan.makespan,
        "metrics": {name: _finite(value) for name, value in metrics(plan).items()},
        "notes": {str(name): _json_value(value) for name, value in plan.notes.items()},
        "tasks": list(_task_rows(plan)),
    }


def trace_facts(trace: ExecutionTrace, planned: float | None = None) -> dict[str, Any]:
    """Return *trace* as JSON values: the resulting plan, if all tasks finished, and all events.

    For a loop, it has the tasks of the last iteration. For a loop or with skipped tasks, it has no
    metrics and no planned makespan, because these are of tasks that run once.
    """
    problem = trace.problem
    names, machines = problem.workflow.names, problem.platform.machines
    events = [
        {"time": event.time, "kind": event.kind}
        | ({"task": names[event.task]} if event.task >= 0 else {})
        | ({"machine": machines[event.machine].name} if event.machine >= 0 else {})
        | ({"share": event.share} if event.kind == "load" else {})
        for event in trace.events
    ]
    return {
        "algorithm": trace.algorithm,
        **({"notes": _json_value(trace.notes)} if trace.left else plan_facts(trace.plan)),
        **({"metrics": {}} if trace.again or trace.skipped else {}),
        "makespan": _finite(trace.makespan),
        "planned": None if trace.again or trace.skipped else planned,
        "runs": dict(Counter(run.kind for run in trace.runs)),
        "wasted": trace.wasted,
        "left": [names[task] for task in trace.left],
        "skipped": [names[task] for task in trace.skipped],
        "events": events,
    }


def write_plan(plan: Plan | MoldablePlan, path: str | Path) -> None:
    """Write *plan* to *path*, each task on a line of its own."""
    write_text(Path(path), _text_pieces(plan_facts(plan)))


def read_plan(path: str | Path, problem: Problem) -> Plan:
    """Read a plan for *problem* from the file *path*; InputError if its order is impossible.

    Start and end times are not checked; `check` does that.
    """
    path = Path(path)
    document = FormatDocument.from_json(path, read_text(path))
    content = document.value
    if not isinstance(content, dict) or "tasks" not in content:
        document.wrong((), "a plan is an object with a list of tasks")
    rows = document.items(content["tasks"], ("tasks",))
    places = _processors_of_machines(problem)
    number = {name: i for i, name in enumerate(problem.workflow.names)}
    processor = np.full(problem.tasks, -1, np.int32)
    times = np.zeros((2, problem.tasks))
    for i, row in enumerate(rows):
        document.keys(row, _PLAN_KEYS, ("tasks", i))
        for key in ("id", "machine", "start", "end"):
            if key not in row:
                document.wrong(("tasks", i), f"a task of a plan without {key!r}")
        task = _task_number(document, row["id"], number, i)
        if processor[task] >= 0:
            document.wrong(("tasks", i, "id"), f"task {row['id']!r} is planned twice")
        processor[task] = _processor_of_row(document, row, places, i)
        times[:, task] = [document.number(row[k], ("tasks", i, k)) for k in ("start", "end")]
    missing = np.flatnonzero(processor < 0)
    if len(missing):
        first = problem.workflow.names[missing[0]]
        document.wrong(
            ("tasks",),
            f"{problem.tasks - len(missing)} of {problem.tasks} tasks are planned: not {first!r}",
        )
    name = document.words(content.get("algorithm", path.stem), ("algorithm",))
    plan = Plan(problem, name, processor, times[0], times[1])
    if not problem.workflow.looped:
        _check_order(document, plan)
    return plan


def _check_order(document: FormatDocument, plan: Plan) -> None:
    """Raise InputError if the tasks of *plan* would wait for each other for ever."""
    problem, flow = plan.problem, plan.problem.workflow
    sequence = [t for t in task_sequence(plan) if problem.time(t, int(plan.processor[t])) > 0]
    sequence.sort(key=plan.processor.__getitem__)  # stable: in the order of each processor
    # Add an edge between neighbours on a processor: the order is possible if no cycle results.
    pairs = [(a, b) for a, b in pairwise(sequence) if plan.processor[a] == plan.processor[b]]
    before, after = np.array(pairs, np.int32).reshape(-1, 2).T
    combined = replace(
        flow,
        sources=np.concatenate([flow.sources, before]),
        targets=np.concatenate([flow.targets, after]),
        data=np.concatenate([flow.data, np.zeros(len(pairs))]),
    )
    loop = combined.loop
    if loop:
        document.wrong(
            ("tasks",),
            f"its order is impossible: {' -> '.join(loop)}",
            "a task starts after its predecessors, and after the tasks before it on its processor",
        )


def _task_number(document: FormatDocument, name: Any, number: Mapping[str, int], i: int) -> int:
    if not isinstance(name, str) or name not in number:
        hint = did_you_mean(str(name), number)
        document.wrong(("tasks", i, "id"), f"the workflow has no task {name!r}", hint)
    return number[name]


def _processors_of_machines(problem: Problem) -> dict[str, range]:
    """Return the processors of each machine."""
    first = np.searchsorted(problem.node, np.arange(len(problem.platform) + 1)).tolist()
    machines = enumerate(problem.platform.machines)
    return {machine.name: range(first[i], first[i + 1]) for i, machine in machines}


def _processor_of_row(
    document: FormatDocument, row: dict[str, Any], places: dict[str, range], i: int
) -> int:
    name = document.words(row["machine"], ("tasks", i, "machine"))
    if name not in places:
        hint = did_you_mean(name, places)
        document.wrong(("tasks", i, "machine"), f"the platform has no machine {name!r}", hint)
    cores = places[name]
    core = document.whole(row.get("core", 0), ("tasks", i, "core"), 0, len(cores) - 1)
    return cores[core]


def _task_rows(plan: Plan | MoldablePlan) -> Iterator[dict[str, Any]]:
    names = plan.problem.workflow.names
    places = _moldable_places(plan) if isinstance(plan, MoldablePlan) else _places(plan)
    times = zip(plan.start.tolist(), plan.end.tolist(), strict=True)
    for name, place, (start, end) in zip(names, places, times, strict=True):
        yield {"id": name, **place, "start": _finite(start), "end": _finite(end)}


def _places(plan: Plan) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"machine": name} if len(cores) == 1 else {"machine": name, "core": core}
        for name, cores in _processors_of_machines(plan.problem).items()
        for core in range(len(cores))
    ]
    return (rows[processor] for processor in plan.processor.tolist())


def _moldable_places(plan: MoldablePlan) -> Iterator[dict[str, Any]]:
    for task, count in enumerate(plan.counts.tolist()):
        yield {"machine": plan.machine(task), "nodes": count}


def _text_pieces(value: dict[str, Any]) -> Iterator[str]:
    yield "{\n"
    for key, item in value.items():
        if key != "tasks":
            yield f"{json.dumps(key)}: {_json(item)},\n"
    yield '"tasks": [\n '
    yield ",\n ".join(map(_json, value["tasks"]))
    yield "\n]\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _json_value(value: Any) -> Any:
    """Return *value* as JSON values; NaN and infinity become null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return _finite(value)
    return value if isinstance(value, str | int | bool | None) else str(value)
