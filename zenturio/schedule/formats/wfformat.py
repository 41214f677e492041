"""WfFormat 1.5, the format of WfCommons: traces of real runs, with the machines they ran on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats.document import MAX_TASKS, FormatDocument, KeyPath
from zenturio.schedule.model.platform import Platform, PlatformMachine
from zenturio.schedule.model.problem import Instance
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

VERSION = "1.5"
_NOTE_KEYS = ("description", "createdAt", "author", "runtimeSystem")
_INVALID_LETTER = re.compile(r"[^0-9a-zA-Z_.-]")


def read_wfformat(document: FormatDocument) -> Instance:
    """The workflow, its work in seconds on the fastest machine that is named, and the machines."""
    value = document.value
    if value.get("schemaVersion", VERSION) != VERSION:
        document.wrong(
            ("schemaVersion",), f"WfFormat {value['schemaVersion']}", f"version {VERSION} is read"
        )
    flow = _object(document, value.get("workflow"), ("workflow",))
    specification = _object(document, flow.get("specification"), ("workflow", "specification"))
    execution = _object(document, flow.get("execution", {}), ("workflow", "execution"))
    name = document.words(value.get("name", "workflow"), ("name",))
    platform = _platform(document, name, execution)
    speeds = {each.name: each.speed for each in platform.machines} if platform else {}
    rows = _objects_by_name(document, specification, ("workflow", "specification"), "tasks", "id")
    ran = _objects_by_name(document, execution, ("workflow", "execution"), "tasks", "id")
    tasks = [
        _task(document, i, each, ran.get(key, (0, {})), speeds) for key, (i, each) in rows.items()
    ]
    if not tasks or len(tasks) > MAX_TASKS:
        document.wrong(("workflow", "specification", "tasks"), f"{len(tasks)} tasks")
    notes = {key: value[key] for key in _NOTE_KEYS if key in value}
    if execution.get("makespanInSeconds"):
        way = ("workflow", "execution", "makespanInSeconds")
        notes["makespan"] = document.number(execution["makespanInSeconds"], way)
    return Instance(
        Workflow.of(name, tasks, _edges(document, specification, rows), **notes), platform
    )


def _object(document: FormatDocument, value: Any, way: KeyPath) -> dict[str, Any]:
    if not isinstance(value, dict):
        document.wrong(way[:-1], f"WfFormat {VERSION} has an object {way[-1]!r} here")
    return value


def _objects_by_name(
    document: FormatDocument, value: dict[str, Any], way: KeyPath, key: str, name: str
) -> dict[str, tuple[int, dict[str, Any]]]:
    """The objects of the list *key*, with their numbers, by their *name*."""
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    for i, each in enumerate(document.items(value.get(key, []), (*way, key))):
        at = (*way, key, i)
        if not isinstance(each, dict) or not isinstance(each.get(name), str):
            document.wrong(at, f"one of {key} has no {name}")
        if each[name] in found:
            document.wrong((*at, name), f"two of {key} have {name} {each[name]!r}")
        found[each[name]] = (i, each)
    return found


def _task(
    document: FormatDocument,
    i: int,
    given: dict[str, Any],
    ran: tuple[int, dict[str, Any]],
    speeds: Mapping[str, float],
) -> WorkflowTask:
    at, run = ran
    way = ("workflow", "execution", "tasks", at)
    named = document.words(
        given.get("name", given["id"]), ("workflow", "specification", "tasks", i, "name")
    )
    command = run.get("command", {})
    program = command.get("program", "") if isinstance(command, dict) else ""
    if "runtimeInSeconds" not in run:
        document.wrong(("workflow", "execution"), f"task {given['id']!r} has no runtimeInSeconds")
    seconds = document.number(run["runtimeInSeconds"], (*way, "runtimeInSeconds"))
    machines = document.items(run.get("machines", []), (*way, "machines"))
    document.texts(machines, lambda j: (*way, "machines", j))
    speed = max((speeds.get(each, 1.0) for each in machines), default=1.0)
    return WorkflowTask(
        given["id"],
        seconds * speed,
        program=named if named != given["id"] else str(program),
        cores=document.whole(_rounded(run.get("coreCount", 1)), (*way, "coreCount")),
        memory=document.number(run.get("memoryInBytes", 0), (*way, "memoryInBytes")),
    )


def _rounded(value: Any) -> Any:
    """Cores may be a number with a fraction, of which the next whole one is needed."""
    return int(np.ceil(value)) if isinstance(value, float) and np.isfinite(value) else value


def _edges(
    document: FormatDocument,
    specification: dict[str, Any],
    rows: Mapping[str, tuple[int, dict[str, Any]]],
) -> list[tuple[str, str, float]]:
    """Each parent and child, with the bytes of the files that one writes and the other reads."""
    sizes = _file_sizes(document, specification)
    written = {
        key: set(_name_list(document, i, each, "outputFiles")) for key, (i, each) in rows.items()
    }
    edges: dict[tuple[str, str], float] = {}
    for key, (i, each) in rows.items():
        parents = [(p, key, "parents") for p in _name_list(document, i, each, "parents")]
        children = [(key, c, "children") for c in _name_list(document, i, each, "children")]
        for a, b, where in (*parents, *children):
            other = a if where == "parents" else b
            if other not in rows:
                way = ("workflow", "specification", "tasks", i, where)
                document.wrong(way, f"no task has id {other!r}", did_you_mean(other, rows))
            if (a, b) not in edges:
                read = _name_list(document, *rows[b], "inputFiles")
                edges[a, b] = sum(sizes.get(f, 0.0) for f in read if f in written[a])
    return [(a, b, moved) for (a, b), moved in edges.items()]


def _name_list(document: FormatDocument, i: int, given: dict[str, Any], key: str) -> list[str]:
    way = ("workflow", "specification", "tasks", i, key)
    found = document.items(given.get(key, []), way)
    document.texts(found, lambda j: (*way, j))
    return found


def _file_sizes(document: FormatDocument, specification: dict[str, Any]) -> dict[str, float]:
    way = ("workflow", "specification")
    files = _objects_by_name(document, specification, way, "files", "id")
    return {
        name: document.number(each.get("sizeInBytes", 0), (*way, "files", i, "sizeInBytes"))
        for name, (i, each) in files.items()
    }


def _platform(document: FormatDocument, name: str, execution: dict[str, Any]) -> Platform | None:
    """The machines of the trace, their speeds relative to the fastest."""
    way = ("workflow", "execution")
    rows = _objects_by_name(document, execution, way, "machines", "nodeName")
    if not rows:
        return None
    speed, cores, memory = {}, {}, {}
    for node, (i, each) in rows.items():
        at = (*way, "machines", i)
        cpu = _object(document, each.get("cpu", {}), (*at, "cpu"))
        speed[node] = document.number(cpu.get("speedInMHz", 0), (*at, "cpu", "speedInMHz"))
        cores[node] = document.whole(cpu.get("coreCount", 1), (*at, "cpu", "coreCount"), 1, 10**5)
        if "memoryInBytes" in each:
            memory[node] = document.number(each["memoryInBytes"], (*at, "memoryInBytes"), 1)
    top = max(speed.values()) or 1.0
    machines = [
        PlatformMachine(node, speed[node] / top or 1.0, cores[node], memory.get(node, float("inf")))
        for node in rows
    ]
    return Platform(name, tuple(machines))


def write_wfformat(flow: Workflow, platform: Platform | None = None) -> Iterator[str]:
    """*flow* as WfFormat; its work is the time on the fastest machine of *platform*."""
    top = max((each.speed for each in platform.machines), default=1.0) if platform else 1.0
    ids = _ids(flow)
    execution: dict[str, Any] = {
        "makespanInSeconds": flow.measured or 0,
        "executedAt": str(flow.notes.get("createdAt", "unknown")),
        "tasks": [_execution_row(task, ids[i], top) for i, task in enumerate(flow.tasks)],
    }
    if platform:
        execution["machines"] = [_machine(each, top) for each in platform.machines]
    document = {
        "name": flow.name,
        **{key: flow.notes[key] for key in _NOTE_KEYS if key in flow.notes},
        "schemaVersion": VERSION,
        "workflow": {"specification": _specification(flow, ids), "execution": execution},
    }
    yield json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1, default=str)
    yield "\n"


def _ids(flow: Workflow) -> list[str]:
    """The names of the tasks, of the letters that WfFormat allows."""
    found = [_INVALID_LETTER.sub("_", name) or "_" for name in flow.names]
    if len(set(found)) < len(found):
        name, _ = Counter(found).most_common(1)[0]
        raise InputError(
            f"two tasks would be named {name!r}: WfFormat allows letters, digits, '-', '_', '.'"
        )
    return found


def _specification(flow: Workflow, ids: list[str]) -> dict[str, Any]:
    """The tasks, and a file for each edge along which there are bytes."""
    rows: list[dict[str, Any]] = [
        {"name": task.program or ids[i], "id": ids[i], "parents": [], "children": [],
         "inputFiles": [], "outputFiles": []}
        for i, task in enumerate(flow.tasks)
    ]  # fmt: skip
    files = []
    for a, b, moved in zip(flow.sources, flow.targets, flow.data.tolist(), strict=True):
        rows[a]["children"].append(ids[b])
        rows[b]["parents"].append(ids[a])
        if moved:
            name = f"{ids[a]}..{ids[b]}"
            files.append({"id": name, "sizeInBytes": round(moved)})
            rows[a]["outputFiles"].append(name)
            rows[b]["inputFiles"].append(name)
    return {"tasks": rows, "files": files}


def _execution_row(task: WorkflowTask, name: str, top: float) -> dict[str, Any]:
    found: dict[str, Any] = {"id": name, "runtimeInSeconds": task.work / top}
    if task.program:
        found["command"] = {"program": task.program}
    if task.cores > 1:
        found["coreCount"] = task.cores
    return {**found, "memoryInBytes": task.memory} if task.memory else found


def _machine(machine: PlatformMachine, top: float) -> dict[str, Any]:
    cpu = {"coreCount": machine.cores, "speedInMHz": max(round(machine.speed / top * 1000), 1)}
    found: dict[str, Any] = {"nodeName": machine.name, "cpu": cpu}
    if machine.memory < float("inf"):
        found["memoryInBytes"] = round(machine.memory)
    return found


def wfformat_losses(flow: Workflow, platform: Platform | None = None) -> Iterator[str]:
    """What of *flow* and *platform* WfFormat cannot say, in words."""
    names = sum(bool(_INVALID_LETTER.search(name)) for name in flow.names)
    if names:
        yield f"{names} names of tasks are written with other letters"
    parts = int(np.count_nonzero(flow.data != np.round(flow.data)))
    if parts:
        yield f"{parts} numbers of bytes are rounded"
    if flow.looped:
        yield "WfFormat knows no loops, but holds the edges of this one"
    kept = ("cores", "memory", "work", "program")
    yield from lost_of_tasks(flow, kept)
    if platform and (platform.links or platform.default.bandwidth < float("inf")):
        yield f"the {len(platform.links)} links between the machines"
    if platform and any(m.load or m.tags or m.cost or m.site for m in platform.machines):
        yield "sites, tags, costs and loads of machines"


def lost_of_tasks(flow: Workflow, kept: tuple[str, ...]) -> Iterator[str]:
    """What is known of tasks beyond what a format has *kept*."""
    common = WorkflowTask("")
    for key in ("kind", "machine", "target", "tag", "cores", "memory", "times", "curve"):
        if key not in kept:
            count = sum(getattr(t, key) != getattr(common, key) for t in flow.more.values())
            if count:
                yield f"{key} of {count} tasks"
